//! Closing a namespace of a real cluster for new Jobs, by means that its admins have.

use std::time::Duration;

use jobferry_kubeio as kubeio;
use kube::Client;
use serde_json::{Value, json};

use crate::fleet::ScenarioError;
use crate::gate::Closed;

const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// Between two looks at whether a rule has taken effect, and how many there are: rules take effect within a second.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const LOOKS: u32 = 1200;
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

/// Closes it, and waits until that has taken effect: admission learns of new rules by watching, a moment later.
pub(crate) async fn close(client: &Client, namespace: &str, why: Closed) -> Result<(), ScenarioError> {
    let name = format!("closed-{namespace}");
    match why {
        Closed::ByQuota => {
            let quota = json!({
                "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "closed"},
                "spec": {"hard": {"count/jobs.batch": "0"}},
            });
            create(client, &quotas(namespace), &quota).await?;
        }
        Closed::ByPolicy => {
            let jobs =
                json!({"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]});
            let policy = json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
                "metadata": {"name": name},
                "spec": {
                    "matchConstraints": {"resourceRules": [jobs]},
                    "validations": [{"expression": "false", "message": "no Jobs here"}],
                },
            });
            let here = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
            let binding = json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
                "metadata": {"name": name},
                "spec": {"policyName": name, "validationActions": ["Deny"], "matchResources": {"namespaceSelector": here}},
            });
            create(client, POLICIES, &policy).await?;
            create(client, BINDINGS, &binding).await?;
        }
    }
    until_refused(client, namespace, true).await
}

/// Opens it again, and waits until that has taken effect.
pub(crate) async fn reopen(client: &Client, namespace: &str, why: Closed) -> Result<(), ScenarioError> {
    match why {
        Closed::ByQuota => delete(client, &format!("{}/closed", quotas(namespace))).await?,
        Closed::ByPolicy => {
            delete(client, &format!("{BINDINGS}/closed-{namespace}")).await?;
            delete(client, &format!("{POLICIES}/closed-{namespace}")).await?;
        }
    }
    until_refused(client, namespace, false).await
}

/// Asks by a dry run whether a Job would be refused, until it is as wanted.
async fn until_refused(client: &Client, namespace: &str, refused: bool) -> Result<(), ScenarioError> {
    let path = format!("/apis/batch/v1/namespaces/{namespace}/jobs?dryRun=All");
    let job = crate::scenarios::JobManifest::new("probe");
    for _ in 0..LOOKS {
        let body = job.manifest().to_string().into_bytes();
        match kubeio::create(client, &path, body, ANSWER_WITHIN).await {
            Ok(_) if !refused => return Ok(()),
            Err(error)
                if refused && error.refusal().is_some_and(|refusal| refusal.code == 403 || refusal.code == 422) =>
            {
                return Ok(());
            }
            // A quota that was just deleted, or not yet counted, is remembered for a moment.
            Ok(_) | Err(_) => tokio::time::sleep(LOOK_EVERY).await,
        }
    }
    let what = format!("namespace {namespace} {} Jobs", if refused { "refuses" } else { "takes" });
    Err(ScenarioError::Missed { what, last: "the opposite".into() })
}

fn quotas(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/resourcequotas")
}

async fn create(client: &Client, path: &str, object: &Value) -> Result<(), ScenarioError> {
    let created = kubeio::create(client, path, object.to_string().into_bytes(), ANSWER_WITHIN).await;
    created.map(drop).map_err(|source| ScenarioError::Call { what: format!("create in {path}"), source })
}

async fn delete(client: &Client, path: &str) -> Result<(), ScenarioError> {
    let deleted = kubeio::delete(client, path, b"{}".to_vec(), ANSWER_WITHIN).await;
    deleted.map(drop).map_err(|source| ScenarioError::Call { what: format!("delete {path}"), source })
}
