//! Commands about users' Jobs, on any management cluster: `get`, `explain`, `submit`, `wait`, `logs`.

pub(crate) mod explain;
pub(crate) mod get;
pub(crate) mod logs;
pub(crate) mod submit;
pub(crate) mod wait;

use anyhow::Context as _;
use jobferry_api::{
    conditions::{PLACED, PLACEMENT},
    labels, managed_by,
};
use jobferry_kubeio::{self as kubeio, Collection};
use k8s_openapi::api::batch::v1::{Job, JobCondition};
use kube::Client;
use serde::Serialize;

use crate::{install::DEADLINE, target::Target};

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

fn path_of(namespace: &str) -> String {
    format!("/apis/batch/v1/namespaces/{namespace}/jobs")
}

fn collection(path: String) -> Collection<Job> {
    Collection::new(path, |job: &Job| job.metadata.resource_version.as_deref().unwrap_or_default())
}

async fn read(client: &Client, namespace: &str, name: &str) -> anyhow::Result<Job> {
    let path = format!("{}/{name}", path_of(namespace));
    kubeio::get(client, &path, DEADLINE).await.with_context(|| format!("job {name} in namespace {namespace}"))
}

/// Where a Job stands, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum Phase {
    /// No worker has it yet.
    Waiting,
    /// It was given to a worker, or its pods are not there yet.
    Placed,
    /// The user holds it back.
    Suspended,
    Running,
    Complete,
    Failed,
}

impl Phase {
    pub(crate) fn is_end(self) -> bool {
        matches!(self, Self::Complete | Self::Failed)
    }
}

/// What people want to know of a Job.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct View {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The worker; for Jobs that are not dispatched, the management cluster itself.
    pub(crate) place: Option<String>,
    pub(crate) phase: Phase,
    pub(crate) completions: String,
    /// Why it waits, or how it ended.
    pub(crate) why: String,
}

impl View {
    pub(crate) fn of(job: &Job) -> Self {
        let dispatched = is_dispatched(job);
        let label = job.metadata.labels.as_ref().and_then(|labels| labels.get(labels::WORKER)).cloned();
        let place = if dispatched { label } else { Some("(manager)".into()) };
        let (phase, why) = phase_of(job, dispatched);
        let status = job.status.clone().unwrap_or_default();
        let wanted = job.spec.as_ref().and_then(|spec| spec.completions).unwrap_or(1);
        Self {
            namespace: job.metadata.namespace.clone().unwrap_or_default(),
            name: job.metadata.name.clone().unwrap_or_default(),
            place,
            phase,
            completions: format!("{}/{wanted}", status.succeeded.unwrap_or(0)),
            why,
        }
    }
}

pub(crate) fn is_dispatched(job: &Job) -> bool {
    job.spec.as_ref().and_then(|spec| spec.managed_by.as_deref()) == Some(managed_by::DISPATCHER)
}

fn phase_of(job: &Job, dispatched: bool) -> (Phase, String) {
    let holding = |type_| condition(job, type_).filter(|condition| condition.status == "True");
    let why = |condition: &JobCondition| {
        let text = [condition.reason.as_deref(), condition.message.as_deref()];
        text.into_iter().flatten().filter(|words| !words.is_empty()).collect::<Vec<_>>().join(": ")
    };
    if let Some(end) = holding("Complete") {
        return (Phase::Complete, end.reason.clone().unwrap_or_default());
    }
    if let Some(end) = holding("Failed") {
        return (Phase::Failed, why(end));
    }
    let placed = condition(job, PLACED);
    if holding("Suspended").is_some() || job.spec.as_ref().is_some_and(|spec| spec.suspend == Some(true)) {
        return (Phase::Suspended, String::new());
    }
    match placed {
        Some(told) if told.status != "True" => return (Phase::Waiting, why(told)),
        None if dispatched && condition(job, PLACEMENT).is_none() => {
            return (Phase::Waiting, "no dispatcher has looked at it yet".into());
        }
        _ => {}
    }
    let started =
        job.status.as_ref().is_some_and(|status| status.active.unwrap_or(0) > 0 || status.start_time.is_some());
    let told = placed.filter(|told| told.reason.as_deref() != Some("Placed")).map(why).unwrap_or_default();
    (if started { Phase::Running } else { Phase::Placed }, told)
}

pub(crate) fn condition<'a>(job: &'a Job, type_: &str) -> Option<&'a JobCondition> {
    job.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == type_)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn view(managed_by: Option<&str>, status: &Value) -> View {
        let job = json!({
            "metadata": {"name": "train", "namespace": "ml"},
            "spec": {"managedBy": managed_by, "completions": 3, "template": {}}, "status": status,
        });
        View::of(&serde_json::from_value(job).unwrap())
    }

    #[test]
    fn a_job_is_shown_by_one_word_and_its_reason() {
        let ours = Some(managed_by::DISPATCHER);
        let condition =
            |type_: &str, status: &str| json!({"type": type_, "status": status, "reason": "R", "message": "m"});
        let with = |conditions: Value| json!({"conditions": conditions, "succeeded": 2});
        for (managed_by, status, phase, why) in [
            (ours, json!({}), Phase::Waiting, "no dispatcher has looked at it yet"),
            (ours, with(json!([condition(PLACED, "False")])), Phase::Waiting, "R: m"),
            (ours, with(json!([condition(PLACEMENT, "True")])), Phase::Placed, ""),
            (ours, json!({"active": 1, "conditions": [condition(PLACEMENT, "True")]}), Phase::Running, ""),
            (ours, with(json!([condition("Complete", "True")])), Phase::Complete, "R"),
            (ours, with(json!([condition("Failed", "True")])), Phase::Failed, "R: m"),
            (ours, with(json!([condition("Suspended", "True")])), Phase::Suspended, ""),
            (None, json!({}), Phase::Placed, ""),
        ] {
            let view = view(managed_by, &status);
            assert_eq!((view.phase, view.why.as_str()), (phase, why), "{status}");
        }
        assert_eq!(view(None, &json!({})).place.as_deref(), Some("(manager)"));
        assert_eq!(view(ours, &with(json!([]))).completions, "2/3");
    }
}
