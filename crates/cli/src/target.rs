//! Which cluster a command talks to: the flags of kubectl.

use std::{path::PathBuf, time::Duration};

use anyhow::Context as _;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

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
        let mut config = match (&self.kubeconfig, &self.context) {
            (None, None) => Config::infer().await.context("no cluster to talk to; name one with --kubeconfig")?,
            (None, Some(_)) => Config::from_kubeconfig(&self.options()).await.context("kubeconfig")?,
            (Some(path), _) => {
                let kubeconfig =
                    Kubeconfig::read_from(path).with_context(|| format!("kubeconfig {}", path.display()))?;
                let loaded = Config::from_custom_kubeconfig(kubeconfig, &self.options()).await;
                loaded.with_context(|| format!("kubeconfig {}", path.display()))?
            }
        };
        // Repeating a request is a decision of ours, never of the client.
        config.default_retry = false;
        config.connect_timeout = Some(Duration::from_secs(5));
        Client::try_from(config).context("cannot make a client from the kubeconfig")
    }

    /// The same kubeconfig, another context.
    pub(crate) fn in_context(&self, name: &str) -> Self {
        Self { context: Some(name.to_owned()), ..self.clone() }
    }

    fn options(&self) -> KubeConfigOptions {
        KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() }
    }
}
