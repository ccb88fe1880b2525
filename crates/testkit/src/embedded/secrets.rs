//! How the dispatcher reaches embedded workers: by the kubeconfig of a Secret, like real ones, except that the address in
//! it names a cluster of this process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use http::{Request, Response};
use jobferry_api::{KUBECONFIG_KEY, SYSTEM_NAMESPACE, Worker};
use jobferry_apiserver::ApiServer;
use jobferry_core::kubeconfig::{self, Access, Credential};
use jobferry_dispatcher::{Connect, ConnectError, KubeconfigSecrets};
use jobferry_kubeio as kubeio;
use kube::Client;
use kube::client::Body;
use serde_json::Value;

use crate::fault::{AnswerBody, Asked, BoxError, Fate, Fates, Faulty, Road, WatchFate};
use crate::gate::{Gate, Guarded};

/// The domain of clusters in this process.
const DOMAIN: &str = ".embedded";
/// The token that all of them take.
const TOKEN: &str = "let-me-in";

/// A cluster of this process and what lies before it.
#[derive(Clone)]
pub(super) struct Reachable {
    pub(super) server: ApiServer,
    pub(super) gate: Gate,
    pub(super) road: Road,
}

/// The kubeconfig of one.
pub(super) fn kubeconfig(name: &str) -> String {
    // The allow-list wants a CA; nobody looks at it.
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: {name}\n\
         clusters:\n- name: {name}\n  cluster:\n    server: https://{name}{DOMAIN}\n    \
         certificate-authority-data: {}\n\
         users:\n- name: dispatcher\n  user:\n    token: {TOKEN}\n\
         contexts:\n- name: {name}\n  context:\n    cluster: {name}\n    user: dispatcher\n",
        BASE64_STANDARD.encode("CA")
    )
}

pub(super) struct EmbeddedSecrets {
    manager: Client,
    clusters: BTreeMap<String, Reachable>,
}

impl EmbeddedSecrets {
    pub(super) const fn new(manager: Client, clusters: BTreeMap<String, Reachable>) -> Self {
        Self { manager, clusters }
    }

    async fn read(&self, secret: &str) -> Result<Client, ConnectError> {
        let path = format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}/secrets/{secret}");
        let (namespace, name) = (SYSTEM_NAMESPACE.to_owned(), secret.to_owned());
        let found: Value = kubeio::get(&self.manager, &path, Duration::from_secs(10))
            .await
            .map_err(|source| ConnectError::Secret { namespace: namespace.clone(), name: name.clone(), source })?;
        let text = found["data"][KUBECONFIG_KEY].as_str().and_then(|data| BASE64_STANDARD.decode(data).ok());
        let text = text.ok_or(ConnectError::NoKubeconfig { namespace, name })?;
        let refuse = |error: &dyn std::fmt::Display| ConnectError::Kubeconfig(error.to_string());
        let document: Value =
            serde_saphyr::from_str(&String::from_utf8_lossy(&text)).map_err(|error| refuse(&error))?;
        Ok(self.client(&kubeconfig::read(&document).map_err(|error| refuse(&error))?))
    }

    fn client(&self, access: &Access) -> Client {
        let name = access.server.strip_prefix("https://").and_then(|server| server.strip_suffix(DOMAIN));
        let Some(way) = name.and_then(|name| self.clusters.get(name)) else {
            let refused = tower::service_fn(|_: Request<Body>| {
                std::future::ready(Err::<Response<AnswerBody>, BoxError>("connection refused".into()))
            });
            return Client::new(refused, "default");
        };
        let knows_caller = access.credential == Credential::Token(TOKEN.into());
        let guarded = Guarded { server: way.server.service(), gate: way.gate.clone(), knows_caller };
        let fates = OnlyTheRoad(way.road.clone());
        Client::new(Faulty::new(guarded, Arc::new(fates)), "default")
    }
}

impl Connect for EmbeddedSecrets {
    fn connect<'a>(&'a self, worker: &'a Worker) -> BoxFuture<'a, Result<Client, ConnectError>> {
        Box::pin(self.read(&worker.spec.kubeconfig_secret))
    }

    fn changed_secrets(&self) -> BoxStream<'static, String> {
        KubeconfigSecrets::new(self.manager.clone(), SYSTEM_NAMESPACE).changed_secrets()
    }
}

/// A network on which nothing goes wrong but what a test does to the road.
struct OnlyTheRoad(Road);

impl Fates for OnlyTheRoad {
    fn of_request(&self, _: &Asked) -> Fate {
        Fate::Answered
    }

    fn of_watch(&self, _: &Asked) -> WatchFate {
        WatchFate::Undisturbed
    }

    fn road(&self) -> Road {
        self.0.clone()
    }
}
