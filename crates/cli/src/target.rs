//! Which cluster a command talks to: the flags of kubectl.

use std::{io::ErrorKind, path::PathBuf, time::Duration};

use anyhow::{Context as _, anyhow, bail};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};

use crate::up;

/// The cluster to talk to.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Target {
    /// Path to the kubeconfig of the management cluster [default: as kubectl finds it]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of that kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

impl Target {
    /// A client for this cluster.
    pub(crate) async fn client(&self) -> anyhow::Result<Client> {
        let mut config = self.config().await?;
        // Repeating a request is a decision of ours, never of the client.
        config.default_retry = false;
        config.connect_timeout = Some(Duration::from_secs(5));
        Client::try_from(config).with_context(|| format!("no client can be made from {}", self.source()))
    }

    /// The same kubeconfig, another context.
    pub(crate) fn in_context(&self, name: &str) -> Self {
        Self { context: Some(name.to_owned()), ..self.clone() }
    }

    async fn config(&self) -> anyhow::Result<Config> {
        let read = match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let kubeconfig = match read {
            Ok(kubeconfig) => kubeconfig,
            Err(error) if self.kubeconfig.is_none() && is_missing(&error) => return self.in_a_pod(),
            Err(error) => return Err(self.broken(&error)),
        };
        self.check_context(&kubeconfig)?;
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| self.broken(&error))
    }

    /// A pod has no kubeconfig, but a ServiceAccount.
    fn in_a_pod(&self) -> anyhow::Result<Config> {
        match Config::incluster() {
            Ok(config) if self.context.is_none() => Ok(config),
            _ => {
                let next = match up::running_kubeconfig() {
                    Some(path) => format!("a fleet of `jobferry up` runs here: export KUBECONFIG={}", path.display()),
                    None => "name a kubeconfig with --kubeconfig, or start a fleet with `jobferry up`".to_owned(),
                };
                bail!("no cluster to talk to: {} does not exist; {next}", self.source())
            }
        }
    }

    /// kube itself says only that a context cannot be loaded, not which there are.
    fn check_context(&self, kubeconfig: &Kubeconfig) -> anyhow::Result<()> {
        let there: Vec<&str> = kubeconfig.contexts.iter().map(|context| context.name.as_str()).collect();
        let others = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
        let wanted = self.context.as_ref().or(kubeconfig.current_context.as_ref());
        match wanted.map(String::as_str).filter(|name| !name.is_empty()) {
            Some(name) if there.contains(&name) => Ok(()),
            Some(name) => bail!("{} has no context {name}; choose with --context among: {others}", self.source()),
            None => bail!("{} has no current context; choose with --context among: {others}", self.source()),
        }
    }

    fn source(&self) -> String {
        match (&self.kubeconfig, std::env::var("KUBECONFIG")) {
            (Some(path), _) => format!("kubeconfig {}", path.display()),
            (None, Ok(paths)) if !paths.is_empty() => format!("kubeconfig {paths} (KUBECONFIG)"),
            _ => "kubeconfig ~/.kube/config".to_owned(),
        }
    }

    fn broken(&self, error: &KubeconfigError) -> anyhow::Error {
        let why = why_unusable(error);
        anyhow!("{} cannot be used: {why}; correct it, or name another one with --kubeconfig", self.source())
    }
}

/// In one line: parsers show a whole excerpt, and the path is known.
pub(crate) fn why_unusable(error: &KubeconfigError) -> String {
    let why = match error {
        KubeconfigError::ReadConfig(error, _) => error.to_string(),
        other => other.to_string(),
    };
    why.lines().next().unwrap_or_default().to_owned()
}

fn is_missing(error: &KubeconfigError) -> bool {
    match error {
        KubeconfigError::ReadConfig(error, _) => error.kind() == ErrorKind::NotFound,
        KubeconfigError::FindPath => true,
        _ => false,
    }
}
