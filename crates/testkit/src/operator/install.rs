//! What an operator finds when it starts: its objects on the cluster, its files, its command line.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jobferry_kubeio::{self as kubeio, CallError};
use kube::Client;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::build::{OperatorBuild, parse};
use super::programs::{Program, Webhooks};
use super::{LOOK_EVERY, OperatorError};
use crate::cluster_error::doing;
use crate::fleet::{Objects, ScenarioError};
use crate::ports::Port;
use crate::real_cluster::READY_WITHIN;
use crate::{ClusterError, ProcessGroup, RealCluster, User};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
/// Where operators look for their certificate, below the directory for temporary files, unless they are told otherwise.
const CERTIFICATES: &str = "k8s-webhook-server/serving-certs";
/// One answer of a cluster.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Where an operator listens.
pub(super) struct Ports {
    pub(super) webhook: Port,
    pub(super) health: Port,
    pub(super) spare: Port,
}

impl Ports {
    fn reserve() -> io::Result<Self> {
        Ok(Self { webhook: Port::reserve()?, health: Port::reserve()?, spare: Port::reserve()? })
    }
}

/// An operator on its way to a cluster.
pub(super) struct Installation<'a> {
    program: &'a Program,
    build: OperatorBuild,
    cluster: String,
    client: Client,
    kubeconfig: PathBuf,
    /// Signs what the operator serves with.
    authority: String,
    directory: PathBuf,
    pub(super) ports: Ports,
}

impl<'a> Installation<'a> {
    /// Makes a directory with all files that the operator reads.
    pub(super) async fn prepare(
        program: &'a Program,
        cluster: &RealCluster,
        user: User,
    ) -> Result<Self, OperatorError> {
        let build = OperatorBuild::find(program.name)?;
        let (name, client) = (cluster.name().to_owned(), cluster.client(User::Admin).await?);
        let kubeconfig = cluster.kubeconfig_path(user);
        let directory = cluster.directory().join(program.name);
        let ports = doing("reserving ports", Ports::reserve())?;
        let written = write_certificate(cluster.directory(), &directory.join(CERTIFICATES));
        let authority = doing(format!("writing the files of operator {}", program.name), written)?;
        let installation = Self { program, build, cluster: name, client, kubeconfig, authority, directory, ports };
        for (name, text) in program.files {
            let path = installation.directory.join(name);
            // What is outside of the directory is somebody else's, if it is there.
            if path.starts_with(&installation.directory) || !path.exists() {
                doing(format!("writing {}", path.display()), write(&path, &installation.filled_in(text)))?;
            }
        }
        Ok(installation)
    }

    /// Puts definitions and webhooks on the cluster, and waits until its API server knows them.
    pub(super) async fn install(&self) -> Result<(), OperatorError> {
        let objects = doing("reading the objects of an operator", parse(&self.filled_in(self.program.objects)))?;
        for object in &objects {
            self.create_of_core(object).await?;
        }
        for path in self.program.manifests {
            for manifest in self.manifests(path)? {
                match manifest["kind"].as_str() {
                    Some("CustomResourceDefinition") => self.define(manifest).await?,
                    Some("ConfigMap") => self.create_of_core(&manifest).await?,
                    _ => {} // how it would be deployed
                }
            }
        }
        match self.program.webhooks {
            Some(webhooks) => self.register(webhooks).await,
            None => Ok(()),
        }
    }

    async fn define(&self, mut definition: Value) -> Result<(), OperatorError> {
        if self.program.webhooks.is_some_and(|webhooks| webhooks.converts) {
            let webhook = json!({"conversionReviewVersions": ["v1"], "clientConfig": self.webhook("/convert")});
            definition["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": webhook});
            if let Some(versions) = definition["spec"]["versions"].as_array_mut() {
                versions.retain(|version| version["storage"] == true);
            }
        }
        self.create(DEFINITIONS, &definition).await?;
        // It is served a moment after it was created.
        let served = Objects::on(&self.client, &collection_of(&definition)).until_gone("nobody").await;
        served.map_err(|source| self.refused(source))
    }

    /// Creates an object of the API group that has no name.
    async fn create_of_core(&self, object: &Value) -> Result<(), OperatorError> {
        let plural = plural_of(object);
        let namespace = object["metadata"]["namespace"].as_str();
        let collection = namespace.map_or_else(
            || format!("/api/v1/{plural}"),
            |namespace| format!("/api/v1/namespaces/{namespace}/{plural}"),
        );
        self.create(&collection, object).await
    }

    async fn register(&self, webhooks: Webhooks) -> Result<(), OperatorError> {
        for mut configuration in self.manifests(webhooks.configurations)? {
            // Operators that were made by the same tool call theirs the same.
            let generic = configuration["metadata"]["name"].as_str().unwrap_or_default();
            configuration["metadata"]["name"] = format!("{}-{generic}", self.program.name).into();
            let mut hooks = configuration["webhooks"].as_array().cloned().unwrap_or_default();
            hooks.retain(|hook| !webhooks.but.iter().any(|resource| hook["rules"][0]["resources"][0] == *resource));
            for webhook in &mut hooks {
                let path = webhook["clientConfig"]["service"]["path"].as_str().unwrap_or_default();
                webhook["clientConfig"] = self.webhook(path);
            }
            configuration["webhooks"] = hooks.into();
            self.create(&format!("{ADMISSION}/{}", plural_of(&configuration)), &configuration).await?;
        }
        self.until_called(webhooks.probe).await
    }

    /// Where the operator serves a webhook.
    fn webhook(&self, path: &str) -> Value {
        let url = format!("https://127.0.0.1:{}{path}", self.ports.webhook.number());
        json!({"url": url, "caBundle": BASE64_STANDARD.encode(&self.authority)})
    }

    /// Nobody serves the webhooks yet: an API server that refuses an object for that reason knows of them.
    async fn until_called(&self, (collection, object): (&str, &str)) -> Result<(), OperatorError> {
        let path = format!("{collection}?dryRun=All");
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            let answer = kubeio::create(&self.client, &path, object.as_bytes().to_vec(), ANSWER_WITHIN).await;
            match answer {
                Err(CallError::Refused(refusal)) if refusal.message.contains("failed calling webhook") => return Ok(()),
                answer if Instant::now() > deadline => {
                    let what = format!("wait for the webhooks of {collection}");
                    let source = answer.err().unwrap_or(CallError::Deadline(READY_WITHIN));
                    return Err(self.refused(ScenarioError::Call { what, source }));
                }
                _ => sleep(LOOK_EVERY).await,
            }
        }
    }

    /// Creates an object, unless it exists. A busy server that gives no answer in time is asked again.
    async fn create(&self, collection: &str, object: &Value) -> Result<(), OperatorError> {
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            match Objects::on(&self.client, collection).create(object).await {
                Err(ScenarioError::Call { source: CallError::Transport(_) | CallError::Deadline(_), .. })
                    if Instant::now() < deadline =>
                {
                    sleep(LOOK_EVERY).await;
                }
                outcome => return outcome.map_err(|source| self.refused(source)),
            }
        }
    }

    fn refused(&self, source: ScenarioError) -> OperatorError {
        OperatorError::Install { operator: self.program.name, cluster: self.cluster.clone(), source }
    }

    fn manifests(&self, path: &str) -> Result<Vec<Value>, ClusterError> {
        doing(format!("reading {path} of operator {}", self.program.name), self.build.manifests(path))
    }

    /// Starts the operator as a member of `group`.
    pub(super) fn spawn(&self, group: &ProcessGroup) -> Result<Child, ClusterError> {
        let path = self.log();
        let log = doing(format!("creating {}", path.display()), File::create(&path))?;
        let mut command = Command::new(self.build.binary());
        command.args(self.program.arguments.iter().map(|argument| self.filled_in(argument)));
        command.envs(self.program.environment.iter().map(|(name, value)| (name, self.filled_in(value))));
        command.current_dir(&self.directory).stdout(doing("opening a log twice", log.try_clone())?).stderr(log);
        doing(format!("starting operator {}", self.program.name), group.spawn(&mut command))
    }

    pub(super) fn log(&self) -> PathBuf {
        self.directory.join("operator.log")
    }

    fn filled_in(&self, text: &str) -> String {
        text.replace("{directory}", &self.directory.display().to_string())
            .replace("{kubeconfig}", &self.kubeconfig.display().to_string())
            .replace("{certificates}", &self.directory.join(CERTIFICATES).display().to_string())
            .replace("{webhook}", &self.ports.webhook.number().to_string())
            .replace("{health}", &self.ports.health.number().to_string())
            .replace("{spare}", &self.ports.spare.number().to_string())
    }
}

/// Gives an operator the certificate that its cluster's API server has: it is for everything on loopback. Returns the
/// authority that signed it.
fn write_certificate(cluster: &Path, directory: &Path) -> io::Result<String> {
    fs::create_dir_all(directory)?;
    fs::copy(cluster.join("serving.crt"), directory.join("tls.crt"))?;
    fs::copy(cluster.join("serving.key"), directory.join("tls.key"))?;
    fs::read_to_string(cluster.join("ca.crt"))
}

/// Writes a file into a directory that may have to be made.
fn write(path: &Path, text: &str) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(path, text)
}

/// What the objects of its kind are called in URLs.
fn plural_of(object: &Value) -> String {
    format!("{}s", object["kind"].as_str().unwrap_or_default().to_lowercase())
}

/// The collection of all objects of a definition.
fn collection_of(definition: &Value) -> String {
    let spec = &definition["spec"];
    let versions = spec["versions"].as_array().into_iter().flatten();
    let stored = versions.into_iter().find(|version| version["storage"] == true);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = stored.map(|version| text(&version["name"])).unwrap_or_default();
    format!("/apis/{}/{version}/{}", text(&spec["group"]), text(&spec["names"]["plural"]))
}
