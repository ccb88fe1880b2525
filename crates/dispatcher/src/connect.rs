//! From a `Worker` to a client that reaches it.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use base64::{
    Engine,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use futures::{
    StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use jobferry_api::{KUBECONFIG_KEY, Worker};
use jobferry_core::kubeconfig::{self, Access, Credential};
use jobferry_kubeio::{self as kubeio, CallError, Collection, Event};
use k8s_openapi::jiff::Timestamp;
use kube::{
    Client, Config,
    config::{AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext},
};
use serde::Deserialize;

/// How to reach workers. Production reads Secrets; simulations hand out in-process clients.
pub trait Connect: Send + Sync {
    /// A client for this worker. It must not repeat requests by itself.
    fn connect<'a>(&'a self, worker: &'a Worker) -> BoxFuture<'a, Result<Client, ConnectError>>;

    /// When the credential that a worker was last connected by expires, if that is known.
    fn expires(&self, _worker: &Worker) -> Option<Timestamp> {
        None
    }

    /// Names of Secrets whose content changed: workers that use them are connected anew.
    fn changed_secrets(&self) -> BoxStream<'static, String> {
        stream::pending().boxed()
    }
}

/// Why a worker has no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The Secret could not be read.
    #[error("Secret {namespace}/{name}: {source}")]
    Secret {
        /// The dispatcher's own namespace.
        namespace: String,
        /// The Secret's name.
        name: String,
        /// What went wrong.
        source: CallError,
    },
    /// The Secret has no kubeconfig.
    #[error("Secret {namespace}/{name} has no key `kubeconfig`; `jobferry worker join` creates it")]
    NoKubeconfig {
        /// The dispatcher's own namespace.
        namespace: String,
        /// The Secret's name.
        name: String,
    },
    /// The kubeconfig cannot be used.
    #[error("{0}")]
    Kubeconfig(String),
}

/// Reads workers' kubeconfigs from Secrets in the dispatcher's own namespace.
pub struct KubeconfigSecrets {
    manager: Client,
    namespace: String,
    /// When the credential in each Secret expires, as last read.
    expiries: Mutex<BTreeMap<String, Timestamp>>,
}

/// Time to establish a connection to a worker; without it a black-holed address holds a request for half a minute.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

impl KubeconfigSecrets {
    /// Secrets of `namespace` on the management cluster.
    pub fn new(manager: Client, namespace: impl Into<String>) -> Self {
        Self { manager, namespace: namespace.into(), expiries: Mutex::default() }
    }

    async fn read(&self, secret_name: &str) -> Result<Client, ConnectError> {
        #[derive(Deserialize)]
        struct Secret {
            #[serde(default)]
            data: BTreeMap<String, String>,
        }
        let (namespace, name) = (self.namespace.clone(), secret_name.to_owned());
        let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
        let secret: Secret = kubeio::get(&self.manager, &path, crate::READ_DEADLINE)
            .await
            .map_err(|source| ConnectError::Secret { namespace: namespace.clone(), name: name.clone(), source })?;
        let data = secret.data.get(KUBECONFIG_KEY).ok_or(ConnectError::NoKubeconfig { namespace, name })?;
        let bytes = BASE64_STANDARD.decode(data).map_err(|e| ConnectError::Kubeconfig(e.to_string()))?;
        let access = access_of(&bytes).map_err(ConnectError::Kubeconfig)?;
        self.note_expiry(secret_name, expiry_of(&access.credential));
        client_of(access).await
    }

    fn note_expiry(&self, secret: &str, expires: Option<Timestamp>) {
        let mut known = self.expiries.lock().unwrap_or_else(PoisonError::into_inner);
        match expires {
            Some(at) => drop(known.insert(secret.to_owned(), at)),
            None => drop(known.remove(secret)),
        }
    }
}

impl Connect for KubeconfigSecrets {
    fn connect<'a>(&'a self, worker: &'a Worker) -> BoxFuture<'a, Result<Client, ConnectError>> {
        Box::pin(self.read(&worker.spec.kubeconfig_secret))
    }

    fn expires(&self, worker: &Worker) -> Option<Timestamp> {
        let expiries = self.expiries.lock().unwrap_or_else(PoisonError::into_inner);
        expiries.get(&worker.spec.kubeconfig_secret).copied()
    }

    fn changed_secrets(&self) -> BoxStream<'static, String> {
        let path = format!("/api/v1/namespaces/{}/secrets", self.namespace);
        let secrets = Collection::new(path, |secret: &SecretView| &secret.metadata.resource_version);
        // What is there at the start has not changed: connections are about to be made from it.
        let (mut versions, mut listed) = (BTreeMap::new(), false);
        let changed = kubeio::watch(self.manager.clone(), secrets).map(move |event| {
            let first = matches!(event, Event::Reset(_)) && !std::mem::replace(&mut listed, true);
            let seen = match event {
                Event::Reset(secrets) => secrets,
                Event::Applied(secret) => vec![secret],
                Event::Deleted(_) | Event::Interrupted(_) | Event::Resumed => Vec::new(),
            };
            let changed = seen.into_iter().filter_map(|SecretView { metadata }| {
                let before = versions.insert(metadata.name.clone(), metadata.resource_version.clone());
                (!first && before.as_ref() != Some(&metadata.resource_version)).then_some(metadata.name)
            });
            stream::iter(changed.collect::<Vec<_>>())
        });
        changed.flatten().boxed()
    }
}

/// That a Secret changed, without its content: what is not in memory cannot leak.
#[derive(Deserialize)]
struct SecretView {
    metadata: SecretMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SecretMeta {
    name: String,
    resource_version: String,
}

/// How to reach a worker, from a kubeconfig that is hostile until [`kubeconfig::read`] has let it pass.
fn access_of(yaml: &[u8]) -> Result<Access, String> {
    let text = std::str::from_utf8(yaml).map_err(|error| error.to_string())?;
    let document: serde_json::Value = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    kubeconfig::read(&document).map_err(|error| error.to_string())
}

/// When a credential expires: tokens of ServiceAccounts say so themselves. What else there is, is not looked into.
fn expiry_of(credential: &Credential) -> Option<Timestamp> {
    #[derive(Deserialize)]
    struct Claims {
        exp: i64,
    }
    let Credential::Token(token) = credential else { return None };
    let claims = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    Timestamp::from_second(serde_json::from_slice::<Claims>(&claims).ok()?.exp).ok()
}

async fn client_of(access: Access) -> Result<Client, ConnectError> {
    let refuse = |error: &dyn std::fmt::Display| ConnectError::Kubeconfig(error.to_string());
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(rebuilt(access), &options).await.map_err(|e| refuse(&e))?;
    // The environment of this process must not decide how workers are reached.
    config.proxy_url = None;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    // The client would repeat a POST after a 504: only the plan may decide that.
    config.default_retry = false;
    Client::try_from(config).map_err(|e| refuse(&e))
}

/// A kubeconfig with what was allowed and nothing else.
fn rebuilt(access: Access) -> Kubeconfig {
    let cluster = Cluster {
        server: Some(access.server),
        certificate_authority_data: Some(access.certificate_authority_data),
        tls_server_name: access.tls_server_name,
        ..Cluster::default()
    };
    let auth_info = match access.credential {
        Credential::Token(token) => AuthInfo { token: Some(token.into()), ..AuthInfo::default() },
        Credential::Certificate { certificate, key } => AuthInfo {
            client_certificate_data: Some(certificate),
            client_key_data: Some(key.into()),
            ..AuthInfo::default()
        },
    };
    let name = || "worker".to_owned();
    Kubeconfig {
        clusters: vec![NamedCluster { name: name(), cluster: Some(cluster), ..NamedCluster::default() }],
        auth_infos: vec![NamedAuthInfo { name: name(), auth_info: Some(auth_info), ..NamedAuthInfo::default() }],
        contexts: vec![NamedContext {
            name: name(),
            context: Some(Context { cluster: name(), user: Some(name()), ..Context::default() }),
            ..NamedContext::default()
        }],
        current_context: Some(name()),
        ..Kubeconfig::default()
    }
}

#[cfg(test)]
mod attacks;
