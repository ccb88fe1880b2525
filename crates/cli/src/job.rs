//! Commands about users' Jobs, on any management cluster: `get`, `explain`, `submit`, `wait`, `logs`.

pub(crate) mod explain;
pub(crate) mod get;
pub(crate) mod logs;
mod outage;
pub(crate) mod submit;
mod view;
pub(crate) mod wait;

use anyhow::{Context as _, anyhow};
use jobferry_kubeio::{self as kubeio, Collection};
use k8s_openapi::api::batch::v1::Job;
use kube::Client;
use serde::de::DeserializeOwned;

use crate::{install::DEADLINE, target::Target};
use outage::Outage;
use view::{Phase, View, is_dispatched};

/// The cluster and the namespace of a command.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Scope {
    #[command(flatten)]
    target: Target,
    /// Namespace [default: that of the context]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
}

impl Scope {
    /// A client, and the namespace that is meant.
    async fn connect(&self) -> anyhow::Result<(Client, String)> {
        let client = self.target.client().await?;
        let namespace = self.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
        Ok((client, namespace))
    }
}

/// The name of a Job as people give it: `train`, or as `-o name` and kubectl print it, `job/train`, `job.batch/train`.
fn job_name(text: &str) -> Result<String, String> {
    let kinds = ["job/", "jobs/", "job.batch/", "jobs.batch/"];
    let name = kinds.iter().find_map(|kind| text.strip_prefix(kind)).unwrap_or(text);
    if name.is_empty() || name.contains('/') {
        return Err("write NAME or job/NAME".to_owned());
    }
    Ok(name.to_owned())
}

fn path_of(namespace: &str) -> String {
    format!("/apis/batch/v1/namespaces/{namespace}/jobs")
}

fn collection(path: String) -> Collection<Job> {
    Collection::new(path, |job: &Job| job.metadata.resource_version.as_deref().unwrap_or_default())
}

async fn read<T: DeserializeOwned>(client: &Client, namespace: &str, name: &str) -> anyhow::Result<T> {
    let path = format!("{}/{name}", path_of(namespace));
    match kubeio::get(client, &path, DEADLINE).await {
        Err(error) if error.is_not_found() => Err(not_found(name, namespace)),
        read => read.with_context(|| format!("job {name} in namespace {namespace} cannot be read")),
    }
}

fn not_found(name: &str, namespace: &str) -> anyhow::Error {
    anyhow!("job {name} not found in namespace {namespace}; `jobferry get -A` lists all Jobs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_named_as_people_and_kubectl_do() {
        for text in ["train", "job/train", "jobs/train", "job.batch/train"] {
            assert_eq!(job_name(text).as_deref(), Ok("train"), "{text}");
        }
        for text in ["", "job/", "pod/train"] {
            assert!(job_name(text).is_err(), "{text}");
        }
    }
}
