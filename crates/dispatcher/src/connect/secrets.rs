//! Workers' kubeconfigs in Secrets of the dispatcher's own namespace.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use futures::{
    StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use jobferry_api::{KUBECONFIG_KEY, Worker};
use jobferry_core::{
    kubeconfig::{self, Access, Credential},
    time::WRITE_DEADLINE,
};
use jobferry_kubeio::{self as kubeio, CallError, Collection, Event, Patch};
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Connect, ConnectError, Successor, Token, access_of, client_of};
use crate::{READ_DEADLINE, paths};

/// Reads workers' kubeconfigs from Secrets in the dispatcher's own namespace.
pub struct KubeconfigSecrets {
    manager: Client,
    namespace: String,
    /// How each worker was last connected, if by a token.
    held: Mutex<BTreeMap<String, Held>>,
}

#[derive(Clone)]
struct Held {
    server: String,
    certificate_authority_data: String,
    tls_server_name: Option<String>,
    token: Token,
}

impl Held {
    fn new(access: Access, token: Token) -> Self {
        let Access { server, certificate_authority_data, tls_server_name, credential: _ } = access;
        Self { server, certificate_authority_data, tls_server_name, token }
    }

    /// Whether this leads to the same server, which proves itself by the same means.
    fn leads_where(&self, access: &Access) -> bool {
        (&self.server, &self.certificate_authority_data, &self.tls_server_name)
            == (&access.server, &access.certificate_authority_data, &access.tls_server_name)
    }
}

/// A Secret as it is stored.
struct Stored {
    uid: String,
    resource_version: String,
    access: Access,
    kubeconfig: Value,
}

impl KubeconfigSecrets {
    /// Secrets of `namespace` on the management cluster.
    pub fn new(manager: Client, namespace: impl Into<String>) -> Self {
        Self { manager, namespace: namespace.into(), held: Mutex::default() }
    }

    fn path(&self, worker: &Worker) -> String {
        format!("/api/v1/namespaces/{}/secrets/{}", self.namespace, worker.spec.kubeconfig_secret)
    }

    async fn read(&self, worker: &Worker) -> Result<Stored, ConnectError> {
        #[derive(Deserialize)]
        struct Secret {
            metadata: Meta,
            #[serde(default)]
            data: BTreeMap<String, String>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Meta {
            uid: String,
            resource_version: String,
        }
        let secret: Result<Secret, _> = kubeio::get(&self.manager, &self.path(worker), READ_DEADLINE).await;
        let Secret { metadata, data } = secret.map_err(|source| self.failed(worker, source))?;
        let data = data.get(KUBECONFIG_KEY).ok_or_else(|| ConnectError::NoKubeconfig {
            namespace: self.namespace.clone(),
            name: worker.spec.kubeconfig_secret.clone(),
        })?;
        let bytes = BASE64_STANDARD.decode(data).map_err(|error| ConnectError::Kubeconfig(error.to_string()))?;
        let (access, kubeconfig) = access_of(&bytes).map_err(ConnectError::Kubeconfig)?;
        Ok(Stored { uid: metadata.uid, resource_version: metadata.resource_version, access, kubeconfig })
    }

    fn failed(&self, worker: &Worker, source: CallError) -> ConnectError {
        let (namespace, name) = (self.namespace.clone(), worker.spec.kubeconfig_secret.clone());
        ConnectError::Secret { namespace, name, source }
    }

    async fn connect(&self, worker: &Worker) -> Result<Client, ConnectError> {
        let access = self.read(worker).await?.access;
        let (client, token) = client_of(&access).await?;
        let held = token.map(|token| Held::new(access, token));
        let mut all = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        match held {
            Some(held) => drop(all.insert(name_of(worker), held)),
            None => drop(all.remove(&name_of(worker))),
        }
        drop(all);
        Ok(client)
    }

    fn held(&self, worker: &Worker) -> Option<Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).get(&name_of(worker)).cloned()
    }

    async fn successor(&self, worker: &Worker) -> Option<Successor> {
        let held = self.held(worker)?;
        let access = self.read(worker).await.ok()?.access;
        let Credential::Token(text) = &access.credential else { return None };
        let (client, _) = client_of(&access).await.ok()?;
        held.leads_where(&access).then(|| Successor { client, text: text.clone(), current: held.token })
    }

    async fn store(&self, worker: &Worker, token: &str) -> Result<(), ConnectError> {
        let Stored { uid, resource_version, access, kubeconfig } = self.read(worker).await?;
        let Credential::Token(stored) = &access.credential else { return Ok(()) };
        // Somebody else's token is in it already, and is as good as ours.
        if !self.held(worker).is_some_and(|held| held.token.is(stored)) {
            return Ok(());
        }
        let Some(kubeconfig) = kubeconfig::with_token(&kubeconfig, token) else { return Ok(()) };
        let body = json!({
            "metadata": {"uid": uid, "resourceVersion": resource_version},
            "data": {KUBECONFIG_KEY: BASE64_STANDARD.encode(kubeconfig.to_string())},
        });
        let body = body.to_string().into_bytes();
        let path = paths::by_us(&self.path(worker));
        let written = kubeio::patch(&self.manager, &path, Patch::Merge, body, WRITE_DEADLINE).await;
        written.map(drop).map_err(|source| self.failed(worker, source))
    }
}

impl Connect for KubeconfigSecrets {
    fn connect<'a>(&'a self, worker: &'a Worker) -> BoxFuture<'a, Result<Client, ConnectError>> {
        Box::pin(self.connect(worker))
    }

    fn token(&self, worker: &Worker) -> Option<Token> {
        self.held(worker).map(|held| held.token)
    }

    fn successor<'a>(&'a self, worker: &'a Worker) -> BoxFuture<'a, Option<Successor>> {
        Box::pin(self.successor(worker))
    }

    fn store<'a>(&'a self, worker: &'a Worker, token: &'a str) -> BoxFuture<'a, Result<(), ConnectError>> {
        Box::pin(self.store(worker, token))
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

fn name_of(worker: &Worker) -> String {
    worker.metadata.name.clone().unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::{Method, Request, Response, StatusCode};
    use http_body_util::BodyExt;
    use kube::client::Body;

    use super::*;

    /// A management cluster that has one Secret.
    struct Manager {
        secret: Arc<Mutex<Value>>,
        /// Nobody checks it here, but it must be one.
        authority: String,
    }

    impl Manager {
        fn with(server: &str, token: &str) -> Self {
            let secret = Arc::new(Mutex::new(json!({"metadata": {"uid": "s", "resourceVersion": "0"}})));
            let authority = rcgen::generate_simple_self_signed(["eu-1".to_owned()]).unwrap().cert.pem();
            let manager = Self { secret, authority };
            manager.put(server, token);
            manager
        }

        /// Somebody writes the Secret.
        fn put(&self, server: &str, token: &str) {
            let kubeconfig = json!({
                "apiVersion": "v1", "kind": "Config", "current-context": "c", "preferences": {},
                "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
                "clusters": [{"name": "k", "cluster": {
                    "server": server, "certificate-authority-data": BASE64_STANDARD.encode(&self.authority),
                }}],
                "users": [{"name": "u", "user": {"token": token}}],
            });
            let data = json!({KUBECONFIG_KEY: BASE64_STANDARD.encode(kubeconfig.to_string())});
            write(&mut self.secret.lock().unwrap(), data);
        }

        fn stored(&self) -> Stored {
            let data = self.secret.lock().unwrap()["data"][KUBECONFIG_KEY].as_str().unwrap().to_owned();
            let (access, kubeconfig) = access_of(&BASE64_STANDARD.decode(data).unwrap()).unwrap();
            Stored { uid: String::new(), resource_version: String::new(), access, kubeconfig }
        }

        fn client(&self) -> Client {
            let secret = Arc::clone(&self.secret);
            let answer = move |request: Request<Body>| {
                let secret = Arc::clone(&secret);
                async move {
                    let is_patch = request.method() == Method::PATCH;
                    let body = request.into_body().collect().await?.to_bytes();
                    let mut secret = secret.lock().unwrap();
                    let mut code = StatusCode::OK;
                    if is_patch {
                        let mut patch: Value = serde_json::from_slice(&body).unwrap();
                        if patch["metadata"] == secret["metadata"] {
                            write(&mut secret, patch["data"].take());
                        } else {
                            code = StatusCode::CONFLICT;
                        }
                    }
                    let answer = Response::builder().status(code).body(Body::from(secret.to_string().into_bytes()));
                    Ok::<_, kube::Error>(answer.unwrap())
                }
            };
            Client::new(tower::service_fn(answer), "default")
        }

        async fn connected(&self) -> KubeconfigSecrets {
            let secrets = KubeconfigSecrets::new(self.client(), "jobferry-system");
            secrets.connect(&worker()).await.unwrap();
            secrets
        }
    }

    fn write(secret: &mut Value, data: Value) {
        let version: u32 = secret["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        secret["metadata"]["resourceVersion"] = (version + 1).to_string().into();
        secret["data"] = data;
    }

    fn worker() -> Worker {
        let worker = json!({
            "apiVersion": "jobferry.dev/v1alpha1", "kind": "Worker", "metadata": {"name": "eu-1"},
            "spec": {"kubeconfigSecret": "eu-1"},
        });
        serde_json::from_value(worker).unwrap()
    }

    const HERE: &str = "https://eu-1:6443";

    #[tokio::test]
    async fn a_renewed_token_is_all_that_changes_in_the_secret() {
        let manager = Manager::with(HERE, "first");
        let secrets = manager.connected().await;
        let before = manager.stored();
        secrets.store(&worker(), "second").await.unwrap();
        let after = manager.stored();
        assert_eq!(after.access, Access { credential: Credential::Token("second".into()), ..before.access });
        assert_eq!(after.kubeconfig, kubeconfig::with_token(&before.kubeconfig, "second").unwrap());
        assert!(secrets.token(&worker()).unwrap().is("first"), "it is not in use before it was tried");
        assert!(secrets.successor(&worker()).await.unwrap().take_over());
        assert!(secrets.token(&worker()).unwrap().is("second"));
        assert!(!secrets.successor(&worker()).await.unwrap().take_over(), "it is in use already");
    }

    #[tokio::test]
    async fn a_token_that_somebody_else_put_there_stays() {
        let manager = Manager::with(HERE, "first");
        let secrets = manager.connected().await;
        manager.put(HERE, "rotated");
        secrets.store(&worker(), "second").await.unwrap();
        assert_eq!(manager.stored().access.credential, Credential::Token("rotated".into()));
    }

    #[tokio::test]
    async fn a_secret_that_leads_elsewhere_has_no_successor() {
        let manager = Manager::with(HERE, "first");
        let secrets = manager.connected().await;
        manager.put("https://us-1:6443", "first");
        assert!(secrets.successor(&worker()).await.is_none());
    }
}
