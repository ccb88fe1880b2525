//! From a `Worker` to a client that reaches it.

mod secrets;
mod token;

use std::{fmt::Display, time::Duration};

use futures::{
    FutureExt, StreamExt,
    future::{self, BoxFuture},
    stream::{self, BoxStream},
};
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::TokioExecutor,
};
use jobferry_api::Worker;
use jobferry_core::kubeconfig::{self, Access, Credential};
use jobferry_kubeio::CallError;
use kube::{
    Client, Config,
    client::{Body, ClientBuilder, ConfigExt},
    config::{AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext},
};
use serde_json::Value;
use tower::Layer;

pub use secrets::KubeconfigSecrets;
pub use token::Token;

/// How to reach workers. Production reads Secrets; simulations hand out in-process clients.
pub trait Connect: Send + Sync {
    /// A client for this worker. It must not repeat requests by itself.
    fn connect<'a>(&'a self, worker: &'a Worker) -> BoxFuture<'a, Result<Client, ConnectError>>;

    /// The token that a worker was last connected by. `None`: it was connected by something else.
    fn token(&self, _worker: &Worker) -> Option<Token> {
        None
    }

    /// After a change of a worker's Secret: the token in it, if everything else there is as it was.
    fn successor<'a>(&'a self, _worker: &'a Worker) -> BoxFuture<'a, Option<Successor>> {
        future::ready(None).boxed()
    }

    /// Puts a token in the place of the one that a worker was connected by, unless somebody changed that meanwhile.
    fn store<'a>(&'a self, worker: &'a Worker, _token: &'a str) -> BoxFuture<'a, Result<(), ConnectError>> {
        let name = worker.metadata.name.as_deref().unwrap_or_default();
        future::ready(Err(ConnectError::Kubeconfig(format!("worker {name} has no Secret to keep a token in")))).boxed()
    }

    /// Names of Secrets whose content changed: workers that use them take up the change.
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

/// A token that may replace the one in use, once it has proved to be as good.
pub struct Successor {
    /// Reaches the worker by it.
    pub(crate) client: Client,
    text: String,
    current: Token,
}

impl Successor {
    /// From the next request on it is the token of the connection. No watch is dropped. False: it was already.
    pub(crate) fn take_over(self) -> bool {
        // It cannot fail: the client that tried it shows the same header.
        self.current.replace(&self.text).unwrap_or_default()
    }
}

/// Time to establish a connection to a worker, its name looked up and its TLS agreed on; without it a black-holed address
/// holds a request for half a minute.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What was written must be on its way by then, or the connection is given up. No request is waited for as long.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// How much of an answer one connection holds before somebody reads it. Each worker has a connection for every watch, and what
/// such a buffer grew to while a list came in it keeps; the default is six times as much.
const READ_AHEAD: usize = 64 * 1024;

/// A client that reaches a worker as the dispatcher would by this kubeconfig; its reasons to refuse it are the same.
pub async fn reach(kubeconfig: &[u8]) -> Result<Client, ConnectError> {
    let (access, _) = access_of(kubeconfig).map_err(ConnectError::Kubeconfig)?;
    client_of(&access).await.map(|(client, _)| client)
}

/// How to reach a worker, from a kubeconfig that is hostile until [`kubeconfig::read`] has let it pass, and that document.
fn access_of(yaml: &[u8]) -> Result<(Access, Value), String> {
    let text = std::str::from_utf8(yaml).map_err(|error| error.to_string())?;
    // Without the lines around it: they are a Secret's, and why it is refused is shown on the Worker and in logs.
    let options = serde_saphyr::options! { with_snippet: false };
    let document: Value = serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())?;
    let access = kubeconfig::read(&document).map_err(|error| error.to_string())?;
    Ok((access, document))
}

/// A client, and the token that it shows if it shows one.
async fn client_of(access: &Access) -> Result<(Client, Option<Token>), ConnectError> {
    let refuse = |error: &dyn Display| ConnectError::Kubeconfig(error.to_string());
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(rebuilt(access), &options).await.map_err(|e| refuse(&e))?;
    let token = match &access.credential {
        Credential::Certificate { .. } => None,
        Credential::Token(text) => Some(Token::new(text).map_err(|e| refuse(&e))?),
    };
    let client = assemble(&config, token.as_ref()).map_err(|e| refuse(&e))?;
    Ok((client, token))
}

/// Not kube's own stack of layers, whose connections have no limit on what they read ahead. There is no proxy in this one:
/// the environment of this process must not decide how workers are reached. And no request is repeated once it was written,
/// for only the plan may decide that; one that an idle connection did not take any more goes to the next.
fn assemble(config: &Config, token: Option<&Token>) -> Result<Client, kube::Error> {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    let mut https = TimeoutConnector::new(config.rustls_https_connector_with_connector(http)?);
    https.set_connect_timeout(Some(CONNECT_TIMEOUT));
    https.set_write_timeout(Some(WRITE_TIMEOUT));
    let connections =
        legacy::Client::builder(TokioExecutor::new()).http1_max_buf_size(READ_AHEAD).build::<_, Body>(https);
    let service = config.base_uri_layer().layer(connections);
    let builder = ClientBuilder::new(service, &config.default_namespace);
    Ok(match token {
        None => builder.build(),
        Some(token) => builder.with_layer(token).build(),
    })
}

/// A kubeconfig with what was allowed and nothing else. A token is not in it: [`Token`] shows the current one.
fn rebuilt(access: &Access) -> Kubeconfig {
    let access = access.clone();
    let cluster = Cluster {
        server: Some(access.server),
        certificate_authority_data: Some(access.certificate_authority_data),
        tls_server_name: access.tls_server_name,
        ..Cluster::default()
    };
    let auth_info = match access.credential {
        Credential::Token(_) => AuthInfo::default(),
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
#[cfg(test)]
mod silence;
