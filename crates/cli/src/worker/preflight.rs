//! What is looked at before anything is made: versions, rights, and whether the worker can be reached the way the
//! dispatcher will go.

use anyhow::{Context as _, bail, ensure};
use jobferry_kubeio::{self as kubeio, CallError};
use kube::Client;
use serde_json::{Value, json};

use super::way::Way;
use crate::{
    delegation,
    install::DEADLINE,
    manifests,
    server_version::{self, OLDEST_MINOR, is_too_old},
    trouble::OfWorker,
};

/// The two clusters that a join brings together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    Manager,
    Worker,
}

impl Whose {
    const fn cluster(self) -> &'static str {
        match self {
            Self::Manager => "management cluster",
            Self::Worker => "worker cluster",
        }
    }

    /// The outcome of a question to it, with words on what was asked.
    fn tell<T>(self, outcome: Result<T, CallError>, asked: String) -> anyhow::Result<T> {
        match self {
            Self::Manager => outcome.context(asked),
            Self::Worker => outcome.context(OfWorker(asked)),
        }
    }
}

/// The version of a cluster, which must be new enough.
pub(super) async fn version(client: &Client, whose: Whose) -> anyhow::Result<String> {
    let version = server_version::read(client).await;
    let version = whose.tell(version, format!("cannot read the version of the {}", whose.cluster()))?;
    check_version(&version, whose)?;
    Ok(version)
}

fn check_version(version: &str, whose: Whose) -> anyhow::Result<()> {
    let why = match whose {
        Whose::Manager => delegation::RUNS_THEM,
        Whose::Worker => "older than what mirrors are known to run on",
    };
    let (cluster, newer) = (whose.cluster(), format!("upgrade it to Kubernetes 1.{OLDEST_MINOR} or newer"));
    ensure!(!is_too_old(version), "the {cluster} is {version}: {why}; {newer}");
    Ok(())
}

/// The identity of a cluster: the UID of its kube-system namespace.
pub(super) async fn identity(client: &Client, whose: Whose) -> anyhow::Result<String> {
    let namespace = kubeio::get::<Value>(client, "/api/v1/namespaces/kube-system", DEADLINE).await;
    let namespace = whose.tell(namespace, format!("cannot read the identity of the {}", whose.cluster()))?;
    namespace["metadata"]["uid"].as_str().map(Into::into).context("its kube-system namespace has no UID")
}

/// Dials the worker as the dispatcher will, as far as its certificate; who we are is not asked yet.
pub(super) async fn reach(way: &Way) -> anyhow::Result<()> {
    let nobody = way.kubeconfig("not-a-token").to_string();
    let client = jobferry_dispatcher::reach(nobody.as_bytes()).await.context("the dispatcher would refuse this")?;
    match kubeio::get::<Value>(&client, "/version", DEADLINE).await {
        // It answered; that it wants to know who asks is as it should be.
        Ok(_) | Err(CallError::Refused(_)) => Ok(()),
        Err(error) => Err(error).with_context(|| {
            format!("{} cannot be reached; give the address that the dispatcher can dial with --server", way.server)
        }),
    }
}

/// Something that somebody must be allowed to do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Need {
    verb: String,
    group: String,
    resource: String,
    name: String,
    namespace: String,
}

impl Need {
    pub(crate) fn new(verb: &str, group: &str, resource: &str, namespace: &str) -> Self {
        let name = String::new();
        Self { verb: verb.into(), group: group.into(), resource: resource.into(), name, namespace: namespace.into() }
    }

    /// What writing these objects takes: also the rights that they grant, for nobody may give what they do not have.
    pub(super) fn to_write(objects: &[Value]) -> anyhow::Result<Vec<Self>> {
        let mut needs = Vec::new();
        for object in objects {
            let group = object["apiVersion"].as_str().and_then(|version| version.split_once('/'));
            let group = group.map_or("", |(group, _)| group);
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
            let verbs = ["create", "patch"].iter();
            let plural = manifests::plural(object)?;
            needs.extend(verbs.map(|verb| Self::new(verb, group, plural, namespace)));
            needs.extend(
                object["rules"].as_array().into_iter().flatten().flat_map(|rule| Self::granted(rule, namespace)),
            );
        }
        needs.sort_unstable();
        needs.dedup();
        Ok(needs)
    }

    /// What a rule of a role grants.
    pub(super) fn granted(rule: &Value, namespace: &str) -> Vec<Self> {
        let list = |part: &str| -> Vec<String> {
            let words = rule[part].as_array().into_iter().flatten();
            words.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let names =
            Some(list("resourceNames")).filter(|names| !names.is_empty()).unwrap_or_else(|| vec![String::new()]);
        let mut needs = Vec::new();
        for (group, resource) in
            list("apiGroups").iter().flat_map(|g| list("resources").into_iter().map(move |r| (g, r)))
        {
            for (verb, name) in list("verbs").iter().flat_map(|v| names.iter().map(move |n| (v, n))) {
                let (group, resource, namespace) = (group.clone(), resource.clone(), namespace.to_owned());
                needs.push(Self { verb: verb.clone(), group, resource, name: name.clone(), namespace });
            }
        }
        needs
    }

    /// For the object of this name only.
    pub(crate) fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    async fn is_met(&self, client: &Client) -> Result<bool, CallError> {
        let (resource, subresource) = self.resource.split_once('/').unwrap_or((&self.resource, ""));
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {
                "verb": self.verb, "group": self.group, "resource": resource, "subresource": subresource,
                "name": self.name, "namespace": self.namespace,
            }},
        });
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let answer = kubeio::create(client, path, review.to_string().into_bytes(), DEADLINE).await?;
        let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
        Ok(answer["status"]["allowed"] == true)
    }

    fn words(&self) -> String {
        let place = if self.namespace.is_empty() { String::new() } else { format!(" in namespace {}", self.namespace) };
        format!("{} {}{place}", self.verb, self.resource)
    }
}

/// Those of some rights that whoever asks does not have, in words.
pub(crate) async fn missing(client: &Client, needs: &[Need]) -> Result<Vec<String>, CallError> {
    let answers = futures::future::join_all(needs.iter().map(|need| need.is_met(client))).await;
    let mut missing = Vec::new();
    for (need, answer) in needs.iter().zip(answers) {
        if !answer? {
            missing.push(need.words());
        }
    }
    Ok(missing)
}

/// Fails with the list of all rights that are missing.
pub(super) async fn check_rights(client: &Client, whose: Whose, needs: &[Need]) -> anyhow::Result<()> {
    let cluster = whose.cluster();
    let missing = whose.tell(missing(client, needs).await, format!("the {cluster} does not say what you may do"))?;
    if missing.is_empty() {
        return Ok(());
    }
    let side = if whose == Whose::Manager { "manager" } else { "worker" };
    bail!(
        "your rights on the {cluster} are not enough: you may not {}; nothing was changed. Ask its administrator to run \
         this, or to apply what --print {side} prints",
        missing.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_grants_a_right_must_have_it() {
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r", "namespace": "ml"},
            "rules": [{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list"]},
                      {"apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": ["a"], "verbs": ["create"]}],
        });
        let needs = Need::to_write(&[role.clone(), role]).unwrap();
        let words: Vec<String> = needs.iter().map(Need::words).collect();
        let expected = [
            "create serviceaccounts/token in namespace ml",
            "create roles in namespace ml",
            "get jobs in namespace ml",
            "list jobs in namespace ml",
            "patch roles in namespace ml",
        ];
        assert_eq!(words, expected);
        assert_eq!(needs[0].name, "a");
    }

    #[test]
    fn clusters_that_are_too_old_are_refused_each_with_its_reason() {
        let refusal = |whose| check_version("v1.31.9", whose).unwrap_err().to_string();
        assert!(refusal(Whose::Manager).contains("runs delegated Jobs itself; upgrade it to Kubernetes 1.32 or newer"));
        assert!(refusal(Whose::Worker).starts_with("the worker cluster is v1.31.9: older than"));
        check_version("v1.35.8+k3s1", Whose::Manager).unwrap();
    }
}
