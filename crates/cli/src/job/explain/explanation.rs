//! What is explained, as values: the table and the JSON are made from the same.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Context as _;
use jobferry_api::{annotations, managed_by};
use jobferry_core::{
    custom::{self, KindRef},
    placement::{Choice, Decision, KindLink, Unplaceable, Verdict, choose, must_stay},
    policy::Policy,
    refusal::Refusal,
    workload::Workload,
};
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::fleet::Fleet;
use crate::job::View;

/// What is asked about.
pub(super) enum Subject {
    /// A workload of the cluster.
    Object { kind: KindRef, object: Value },
    /// A Job that could be submitted, and the one that has its name already.
    File { job: Value, namesake: Option<Value> },
}

/// What is printed. Every field of the table is in the JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Explanation {
    pub(super) kind: String,
    /// Of other kinds less is known here.
    #[serde(skip)]
    pub(super) is_job: bool,
    pub(super) name: String,
    /// Whether it is about a file and not about a workload of the cluster.
    pub(super) from_file: bool,
    /// The workload of that name as it is now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) now: Option<View>,
    pub(super) runner: Runner,
    /// Where it would go now, or go next.
    pub(super) outcome: Outcome,
    pub(super) workers: Vec<Line>,
}

/// Who runs the workload, by its managedBy.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type")]
pub(super) enum Runner {
    Dispatcher,
    /// The cluster's own Job controller.
    Cluster,
    /// The operator of a kind other than Job.
    Operator,
    /// `jobferry job-controller`.
    Local,
    #[serde(rename_all = "camelCase")]
    Other {
        managed_by: String,
    },
}

/// What placement would come to.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type")]
pub(super) enum Outcome {
    Chosen {
        worker: String,
        because: Because,
    },
    /// These are equally good, and the UID decides that the Job gets when it is submitted.
    OneOf {
        workers: Vec<String>,
    },
    NoneFits,
    NoWorkers,
    /// It cannot be placed before somebody corrects it.
    Unplaceable {
        wrong: Wrong,
        message: String,
    },
}

/// What decided between the workers that fit, in the order in which it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum Because {
    OnlyOneThatFits,
    Preferred,
    FewestUnfinished,
    Uid,
}

/// What has to be corrected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum Wrong {
    Selector,
    Policy,
    Workload,
}

/// A worker and its verdict.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Line {
    pub(super) worker: String,
    pub(super) fits: bool,
    pub(super) verdict: Judged,
    /// What would change the verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unblock: Option<Unblock>,
    /// How much its policy prefers it.
    pub(super) weight: i32,
    pub(super) unfinished: u32,
}

/// A verdict, for programs and for people.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Judged {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) message: String,
    /// The minor version of Kubernetes that is needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) needs_minor: Option<u32>,
    /// The worker's own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refusal: Option<String>,
}

/// What somebody can do about a verdict.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Unblock {
    /// A command to run.
    Run(String),
    /// Something to change by other means.
    Change(String),
}

/// A workload as the dispatcher reads it.
pub(super) fn workload(kind: &KindRef, object: &Value, now: Timestamp) -> anyhow::Result<Workload> {
    let read = match kind {
        KindRef::Job => serde_json::from_value(object.clone()),
        KindRef::Custom(kind) => custom::read_workload(kind, object, now),
    };
    read.with_context(|| format!("this is not a {}", kind.type_meta().1))
}

impl Explanation {
    pub(super) fn of(
        subject: &Subject,
        mut fleet: Fleet,
        refusals: &BTreeMap<String, Refusal>,
        now: Timestamp,
    ) -> anyhow::Result<Self> {
        let (kind, object, there, from_file) = match subject {
            Subject::Object { kind, object } => (kind, object, Some(object), false),
            Subject::File { job, namesake } => (&KindRef::Job, job, namesake.as_ref(), true),
        };
        // Its status names the kinds that a worker lacks.
        for worker in fleet.workers.values_mut() {
            worker.kinds.entry(kind.name()).or_insert(KindLink::Listed);
        }
        let workload = workload(kind, object, now)?;
        let (outcome, workers) = place(&workload, &fleet, refusals, from_file);
        Ok(Self {
            kind: kind.type_meta().1,
            is_job: *kind == KindRef::Job,
            runner: Runner::of(kind, object, &workload),
            name: workload.name,
            from_file,
            now: there.map(|object| View::of_object(kind, object, now)).transpose()?,
            outcome,
            workers,
        })
    }
}

impl Runner {
    fn of(kind: &KindRef, object: &Value, workload: &Workload) -> Self {
        let KindRef::Custom(kind) = kind else { return Self::of_job(object["spec"]["managedBy"].as_str()) };
        let field = kind.managed_by.as_ref();
        let named = field.and_then(|field| field.path.first(object)).and_then(Value::as_str);
        match named {
            _ if workload.is_ours() => Self::Dispatcher,
            Some(other) if field.is_some_and(|field| field.operator.as_deref() != Some(other)) => {
                Self::Other { managed_by: other.to_owned() }
            }
            _ => Self::Operator,
        }
    }

    fn of_job(managed_by: Option<&str>) -> Self {
        match managed_by {
            Some(managed_by::DISPATCHER) => Self::Dispatcher,
            None | Some(job_api::managed_by::RESERVED) => Self::Cluster,
            Some(managed_by::LOCAL) => Self::Local,
            Some(other) => Self::Other { managed_by: other.to_owned() },
        }
    }
}

/// The dispatcher's own placement, over what the cluster knows.
fn place(
    workload: &Workload,
    fleet: &Fleet,
    refusals: &BTreeMap<String, Refusal>,
    uid_is_open: bool,
) -> (Outcome, Vec<Line>) {
    if let Some(message) = must_stay(workload, &fleet.policies) {
        return (Outcome::Unplaceable { wrong: Wrong::Workload, message }, Vec::new());
    }
    let policy = fleet.policies.of(workload).cloned().unwrap_or_default();
    let (workers, policies) = (&fleet.workers, &fleet.policies);
    match choose(Choice { workload, workers, policies, refusals, now: Duration::ZERO }) {
        Err(error) => {
            let wrong = match error {
                Unplaceable::Narrowing(_) => Wrong::Selector,
                Unplaceable::Policy(_) => Wrong::Policy,
            };
            (Outcome::Unplaceable { wrong, message: error.to_string() }, Vec::new())
        }
        Ok(Decision { chosen, verdicts }) => {
            let lines: Vec<Line> = verdicts.iter().map(|(name, verdict)| line(name, verdict, &policy, fleet)).collect();
            let outcome = match chosen {
                Some(chosen) => decided(chosen.worker, &lines, uid_is_open),
                None if lines.is_empty() => Outcome::NoWorkers,
                None => Outcome::NoneFits,
            };
            (outcome, lines)
        }
    }
}

fn line(name: &str, verdict: &Verdict, policy: &Policy, fleet: &Fleet) -> Line {
    let worker = fleet.workers.get(name);
    Line {
        worker: name.to_owned(),
        fits: *verdict == Verdict::Fits,
        verdict: Judged::of(verdict),
        unblock: unblock(verdict, name),
        weight: worker.map(|worker| policy.weight(&worker.labels)).unwrap_or_default(),
        unfinished: worker.map(|worker| worker.unfinished).unwrap_or_default(),
    }
}

fn decided(chosen: String, lines: &[Line], uid_is_open: bool) -> Outcome {
    let Some(own) = lines.iter().find(|line| line.worker == chosen) else { return Outcome::NoneFits };
    let rivals: Vec<&Line> = lines.iter().filter(|line| line.fits && line.worker != chosen).collect();
    let as_preferred: Vec<&&Line> = rivals.iter().filter(|line| line.weight == own.weight).collect();
    let equals = as_preferred.iter().filter(|line| line.unfinished <= own.unfinished);
    let because = if rivals.is_empty() {
        Because::OnlyOneThatFits
    } else if as_preferred.is_empty() {
        Because::Preferred
    } else if as_preferred.iter().all(|line| line.unfinished > own.unfinished) {
        Because::FewestUnfinished
    } else if uid_is_open {
        let mut workers: Vec<String> = equals.map(|line| line.worker.clone()).chain([chosen]).collect();
        workers.sort();
        return Outcome::OneOf { workers };
    } else {
        Because::Uid
    };
    Outcome::Chosen { worker: chosen, because }
}

impl Judged {
    pub(super) fn of(verdict: &Verdict) -> Self {
        let kind = match verdict {
            Verdict::Fits => "Fits",
            Verdict::Cordoned => "Cordoned",
            Verdict::Leaving => "Leaving",
            Verdict::NotConnected => "NotConnected",
            Verdict::Struggling => "Struggling",
            Verdict::Unfit => "Unfit",
            Verdict::NotNamed => "NotNamed",
            Verdict::SelectorMismatch => "SelectorMismatch",
            Verdict::NotInPolicy => "NotInPolicy",
            Verdict::NamespaceNotTaken => "NamespaceNotTaken",
            Verdict::TooOld { .. } => "TooOld",
            Verdict::NoSuchKind { .. } => "NoSuchKind",
            Verdict::NoFreeSlot => "NoFreeSlot",
            Verdict::Refused { .. } => "Refused",
        };
        let (needs_minor, refusal) = match verdict {
            Verdict::TooOld { needs } => (Some(*needs), None),
            Verdict::Refused { why } => (None, Some(why.clone())),
            _ => (None, None),
        };
        Self { kind, message: verdict.to_string(), needs_minor, refusal }
    }
}

fn unblock(verdict: &Verdict, worker: &str) -> Option<Unblock> {
    Some(match verdict {
        Verdict::Fits | Verdict::NoFreeSlot => return None,
        Verdict::Cordoned => Unblock::Run(format!("jobferry worker uncordon {worker}")),
        Verdict::Leaving => Unblock::Change(format!("join {worker} again when it is gone")),
        Verdict::NotConnected | Verdict::Struggling | Verdict::Unfit => {
            Unblock::Run(format!("jobferry worker describe {worker}"))
        }
        Verdict::NotNamed => Unblock::Change(format!("name {worker} in the Job's {}", annotations::WORKERS)),
        Verdict::SelectorMismatch => {
            Unblock::Change(format!("change the Job's {}, or label {worker}", annotations::WORKER_SELECTOR))
        }
        Verdict::NotInPolicy => Unblock::Change(format!("change the DispatchPolicy, or label {worker}")),
        Verdict::NamespaceNotTaken => {
            Unblock::Run(format!("jobferry worker join {worker} --renew --namespace ..., with this one"))
        }
        Verdict::TooOld { .. } => Unblock::Change(format!("upgrade {worker}, or leave the field out")),
        Verdict::NoSuchKind { .. } => {
            Unblock::Change(format!("install its definition on {worker}, and join {worker} with --renew --kind"))
        }
        Verdict::Refused { .. } => Unblock::Change(format!("clear the way on {worker}; it is asked again by itself")),
    })
}
