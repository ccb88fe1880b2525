//! Does a cluster leave delegated Jobs alone? One that does not know `spec.managedBy` drops it without a word and runs them
//! itself.

use anyhow::{Context as _, ensure};
use jobferry_api::managed_by;
use jobferry_kubeio::{self as kubeio, CallError};
use k8s_openapi::api::batch::v1::Job;
use kube::Client;
use serde_json::json;

use crate::{
    install::DEADLINE,
    server_version::{self, is_too_old},
};

/// What a user of such a cluster is told.
pub(crate) const DROPPED: &str =
    "this cluster drops spec.managedBy and would run the Job itself, so nothing was submitted";
/// What is wrong with a manager that is too old.
pub(crate) const RUNS_THEM: &str = "it drops spec.managedBy and runs delegated Jobs itself";
/// What helps.
pub(crate) const MEND: &str = "upgrade it to Kubernetes 1.32 or newer, with the feature gate JobManagedBy on";

/// Refuses a cluster that is too old to leave delegated Jobs alone: better told at once than by a canary, later.
pub(crate) async fn check_version(manager: &Client) -> anyhow::Result<()> {
    let version = server_version::read(manager).await.context("cannot read the version of the management cluster")?;
    ensure!(!is_too_old(&version), "the management cluster is {version}: {RUNS_THEM}; {MEND}");
    Ok(())
}

/// Whether what the server stored, or would store, is still delegated.
pub(crate) fn is_kept(job: &Job) -> bool {
    job.spec.as_ref().and_then(|spec| spec.managed_by.as_deref()) == Some(managed_by::DISPATCHER)
}

/// Asks the cluster by a create without consequences.
pub(crate) async fn probe(client: &Client) -> Result<bool, CallError> {
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"generateName": "jobferry-probe-"},
        "spec": {"managedBy": managed_by::DISPATCHER, "suspend": true, "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "main", "image": "none", "command": ["true"]}],
        }}},
    });
    let path = format!("/apis/batch/v1/namespaces/{}/jobs?dryRun=All", client.default_namespace());
    let answer = kubeio::create(client, &path, job.to_string().into_bytes(), DEADLINE).await?;
    let stored: Job = serde_json::from_slice(&answer).map_err(|error| CallError::Unreadable(error.to_string()))?;
    Ok(is_kept(&stored))
}
