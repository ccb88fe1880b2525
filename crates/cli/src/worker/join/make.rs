//! What a join makes, on the worker and on the manager, in this order.

use anyhow::{Context as _, bail};
use base64::{Engine, prelude::BASE64_STANDARD};
use jobferry_api::{KUBECONFIG_KEY, SYSTEM_NAMESPACE, labels, managed_by};
use jobferry_core::token;
use jobferry_kubeio as kubeio;
use kube::Client;
use serde_json::{Value, json};

use super::{Args, words};
use crate::{
    install::{self, DEADLINE},
    kinds::{self, rights::KindName},
    label::Label,
    manifests,
    trouble::OfWorker,
    worker::{
        preflight::{self, Need, Whose},
        rights::Rights,
        way::Way,
    },
};

/// All that is known before anything is made.
pub(super) struct Joining<'a> {
    pub(super) args: &'a Args,
    pub(super) way: Way,
    pub(super) origin: String,
    /// Who is to use the worker, by its value of managedBy.
    pub(super) dispatcher: String,
    pub(super) namespaces: Vec<String>,
    /// Which kinds may be mirrored, those of an earlier join among them.
    pub(super) kinds: Vec<KindName>,
    pub(super) manager: Client,
    /// The manager has our CRDs.
    pub(super) installed: bool,
    pub(super) worker: Client,
}

impl Joining<'_> {
    fn rights(&self) -> Rights<'_> {
        Rights { origin: &self.origin, namespaces: &self.namespaces, kinds: &self.kinds }
    }

    /// The objects to make on the worker, once it is sure that all can be made, there and on the manager.
    async fn to_make(&self) -> anyhow::Result<Vec<Value>> {
        let mut objects = self.rights().objects();
        let mut missing = Vec::new();
        for namespace in &self.namespaces {
            if namespace != SYSTEM_NAMESPACE && !exists(&self.worker, namespace).await? {
                missing.push(namespace.clone());
            }
        }
        if !missing.is_empty() && !self.args.create_namespaces {
            bail!("the worker has no namespace {}; make it there, or add --create-namespaces", missing.join(", "));
        }
        if exists(&self.worker, SYSTEM_NAMESPACE).await? {
            objects.remove(0);
        }
        objects.splice(0..0, missing.iter().map(|name| super::namespace(name)));
        let account = Need::new("create", "", "serviceaccounts/token", SYSTEM_NAMESPACE);
        let needs = [Need::to_write(&objects)?, vec![account]].concat();
        preflight::check_rights(&self.worker, Whose::Worker, &needs).await?;
        preflight::check_rights(&self.manager, Whose::Manager, &Need::to_write(&self.on_manager(""))?).await?;
        Ok(objects)
    }

    /// Makes everything, and says so line by line.
    pub(super) async fn make(&self) -> anyhow::Result<()> {
        let to_make = self.to_make().await?;
        let mut done = Vec::new();
        let made = self.make_all(to_make, &mut done).await;
        made.map_err(|error| if done.is_empty() { error } else { words::half_way(error, self.args, &done) })
    }

    async fn make_all(&self, to_make: Vec<Value>, done: &mut Vec<String>) -> anyhow::Result<()> {
        let mut say = |line: String| {
            eprintln!("{line}");
            done.push(line);
        };
        self.install().await?;
        for object in to_make {
            install::apply(&self.worker, &manifests::collection(&object)?, &object).await?;
            say(format!("on the worker: {} applied", manifests::name(&object)));
        }
        if !self.kinds.is_empty() {
            eprintln!("on the worker: mirrors beside Jobs may be {}", kinds::rights::words(&self.kinds));
        }
        let token = self.token().await?;
        let ends = token::read(&token).map(|claims| format!(" until {}", claims.expires)).unwrap_or_default();
        eprintln!("on the worker: a token issued{ends}; the dispatcher renews it");
        for object in self.on_manager(&token) {
            install::apply(&self.manager, &manifests::collection(&object)?, &object).await?;
            say(format!("on the manager: {} applied", manifests::name(&object)));
        }
        Ok(())
    }

    /// What the manager must have comes first: without it nothing is made on the worker either. Whoever may not change CRDs
    /// may still use those that are there.
    async fn install(&self) -> anyhow::Result<()> {
        let is_forbidden = |error: &anyhow::Error| {
            let refusal = error.downcast_ref::<kubeio::CallError>().and_then(kubeio::CallError::refusal);
            refusal.is_some_and(|refusal| refusal.code == 403)
        };
        match install::install(&self.manager).await {
            Err(error) if self.installed && is_forbidden(&error) => {
                eprintln!("on the manager: the CRDs stay as they are, you may not change them");
                Ok(())
            }
            outcome => outcome,
        }
    }

    pub(super) async fn token(&self) -> anyhow::Result<String> {
        let account = self.rights().account();
        let issued = jobferry_dispatcher::request_token(&self.worker, &account, token::USUAL_LIFE).await;
        issued.with_context(|| {
            format!("the worker issues no token for serviceaccount/{} in namespace {SYSTEM_NAMESPACE}", account.name)
        })
    }

    pub(super) fn on_manager(&self, token: &str) -> [Value; 2] {
        let (name, namespaces) = (&self.args.name, &self.namespaces);
        let kubeconfig = BASE64_STANDARD.encode(self.way.kubeconfig(token).to_string());
        let marks = json!({labels::WORKER: name, "app.kubernetes.io/managed-by": "jobferry"});
        let mut spec = json!({"kubeconfigSecret": name});
        if !namespaces.is_empty() {
            spec["namespaces"] = json!(namespaces);
        }
        if self.dispatcher != managed_by::DISPATCHER {
            spec["managedBy"] = json!(self.dispatcher);
        }
        [
            json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": name, "namespace": SYSTEM_NAMESPACE, "labels": marks},
                "data": {KUBECONFIG_KEY: kubeconfig},
            }),
            json!({
                "apiVersion": "jobferry.dev/v1alpha1", "kind": "Worker",
                "metadata": {"name": name, "labels": Label::object(&self.args.labels)}, "spec": spec,
            }),
        ]
    }
}

async fn exists(client: &Client, namespace: &str) -> anyhow::Result<bool> {
    match kubeio::get::<Value>(client, &format!("/api/v1/namespaces/{namespace}"), DEADLINE).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error).context(OfWorker(format!("cannot read namespace {namespace} of the worker"))),
    }
}
