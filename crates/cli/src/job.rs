//! Commands about users' workloads, on any management cluster: `get` and `explain` of every kind, `submit`, `wait` and `logs`
//! of Jobs.

pub(crate) mod explain;
pub(crate) mod get;
pub(crate) mod logs;
mod outage;
pub(crate) mod submit;
mod view;
pub(crate) mod wait;
mod which;

use anyhow::{Context as _, anyhow};
use jobferry_core::custom::KindRef;
use jobferry_kubeio::{self as kubeio, Collection};
use k8s_openapi::api::batch::v1::Job;
use kube::Client;
use serde::de::DeserializeOwned;

use crate::{install::DEADLINE, target::Target};
use outage::Outage;
use view::{Phase, View, is_dispatched};
use which::{Named, sort_out};

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
    read_of(client, &KindRef::Job, namespace, name).await
}

async fn read_of<T: DeserializeOwned>(
    client: &Client,
    kind: &KindRef,
    namespace: &str,
    name: &str,
) -> anyhow::Result<T> {
    match kubeio::get(client, &kind.object(namespace, name), DEADLINE).await {
        Err(error) if error.is_not_found() => Err(not_found_of(kind, name, Some(namespace))),
        read => read.with_context(|| {
            format!("{} {name} in namespace {namespace} cannot be read", kind.type_meta().1.to_lowercase())
        }),
    }
}

fn not_found(name: &str, namespace: &str) -> anyhow::Error {
    not_found_of(&KindRef::Job, name, Some(namespace))
}

fn not_found_of(kind: &KindRef, name: &str, namespace: Option<&str>) -> anyhow::Error {
    let (word, all) = match kind {
        KindRef::Job => ("job".to_owned(), "jobferry get".to_owned()),
        KindRef::Custom(kind) => (kind.kind.to_lowercase(), format!("jobferry get -k {}", kind.kind)),
    };
    let place = namespace.map_or_else(|| "any namespace".to_owned(), |namespace| format!("namespace {namespace}"));
    anyhow!("{word} {name} not found in {place}; `{all} -A` lists all {}s", kind.type_meta().1)
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
