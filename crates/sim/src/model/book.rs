//! What the decisions are asked about, made from the model's small states: real objects, decoded from JSON as an API
//! server would send it, and back.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use job_api::{Rules, SpecView, conditions, status::validate};
use jobferry_api::{annotations, labels, managed_by};
use jobferry_core::action::{Action, Alarm, Pods};
use jobferry_core::knowledge::{Absence, Gone, Knowledge, Memory, Sighting, Surroundings};
use jobferry_core::placement::{Link, WorkerView};
use jobferry_core::plan::plan;
use jobferry_core::policy::Policies;
use jobferry_core::record::Placement;
use jobferry_core::refusal::{Ground, Refusal};
use jobferry_core::time::{LOSS_NOTICED, Now};
use jobferry_core::workload;
use k8s_openapi::api::batch::v1::JobStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::time::Age;
use super::world::{Absent, Ask, Job, Known, Lane, Mind, Mirror, Number, Record, Sight, StatusId, WORKERS};

/// The wall clock stands still: no decision of the protocol may depend on it.
const WALL: Timestamp = Timestamp::constant(1_800_000_000, 0);
/// The monotonic clock shows this; what was earlier is told by ages.
const MONOTONIC: Duration = Duration::from_secs(100_000);

/// What a mirror's Job controller writes.
pub(super) const NOTHING: StatusId = 0;
pub(super) const RUNNING: StatusId = 1;
pub(super) const COMPLETE: StatusId = 2;
pub(super) const SUSPENDED: StatusId = 3;
pub(super) const RESUMED: StatusId = 4;

/// What a plan asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    Request(Lane, Ask),
    /// The projection made an illegal status: a bug.
    IllegalStatus,
}

/// Remembers statuses by number, and plans that were made before: the same knowledge always gives the same plan.
pub(super) struct Book {
    statuses: Vec<JobStatus>,
    plans: HashMap<(Known, [bool; WORKERS], Age), Vec<Due>>,
    leads_alone: bool,
}

impl Book {
    /// `leads_alone`: there is a lease, and dispatchers know it.
    pub(super) fn new(leads_alone: bool) -> Self {
        let time = "2027-01-15T08:00:00Z";
        let condition = |kind: &str, holds: &str, reason: &str| json!({"type": kind, "status": holds, "reason": reason, "message": "", "lastProbeTime": time, "lastTransitionTime": time});
        let done = |kind: &str| condition(kind, "True", "CompletionsReached");
        let suspended = |holds: &str, reason: &str| condition("Suspended", holds, reason);
        let statuses = [
            json!({}),
            json!({"active": 1, "ready": 1, "startTime": time}),
            json!({"succeeded": 1, "startTime": time, "completionTime": time,
                   "conditions": [done("SuccessCriteriaMet"), done("Complete")]}),
            json!({"conditions": [suspended("True", "JobSuspended")]}),
            json!({"active": 1, "ready": 1, "startTime": time, "conditions": [suspended("False", "JobResumed")]}),
        ];
        let statuses = statuses.map(|status| serde_json::from_value(status).unwrap_or_default()).to_vec();
        Self { statuses, plans: HashMap::new(), leads_alone }
    }

    /// Whether this status is an end, for good; and whether it is a good one.
    pub(super) fn ending(&self, status: StatusId) -> Option<bool> {
        let list = self.status(status).conditions.as_deref().unwrap_or_default();
        conditions::is_finished(list).then(|| conditions::is_true(list, conditions::COMPLETE))
    }

    /// What an API server says to this change of a status.
    pub(super) fn is_legal(&self, job: &Job, next: StatusId) -> bool {
        let spec =
            SpecView { completions: Some(1), parallelism: Some(1), suspended: job.suspended, ..SpecView::default() };
        validate(&spec, self.status(job.status), self.status(next), Rules::newest()).into_result().is_ok()
    }

    fn status(&self, id: StatusId) -> &JobStatus {
        &self.statuses[usize::from(id)]
    }

    fn number_of(&mut self, status: JobStatus) -> StatusId {
        let at = self.statuses.iter().position(|known| *known == status).unwrap_or_else(|| {
            self.statuses.push(status);
            self.statuses.len() - 1
        });
        u8::try_from(at).unwrap_or(u8::MAX)
    }

    /// The shipped plan, asked.
    pub(super) fn plan(&mut self, mind: &Mind, workload: usize) -> Vec<Due> {
        let known = mind.known[workload];
        let key = (known, mind.live, mind.leads);
        if let Some(due) = self.plans.get(&key) {
            return due.clone();
        }
        let knowledge = self.knowledge(&known, workload);
        let workers: BTreeMap<_, _> =
            mind.live.iter().enumerate().map(|(at, live)| (name_of(at), view(at, *live))).collect();
        let now = Now { wall: WALL, monotonic: MONOTONIC };
        let around = Surroundings {
            workers: &workers,
            policies: &Policies::default(),
            halted: None,
            rules: Rules::newest(),
            leading_since: moment(mind.leads),
            leads_alone: self.leads_alone,
            notice_loss_after: LOSS_NOTICED,
            may_delete_orphan: true,
            now,
        };
        let actions = plan(&knowledge, around);
        let version = known.job.map_or(0, |job| job.version);
        let due: Vec<_> = actions.into_iter().filter_map(|action| self.due(action, version, &known)).collect();
        self.plans.insert(key, due.clone());
        due
    }

    fn due(&mut self, action: Action, version: Number, known: &Known) -> Option<Due> {
        let on = |worker: &str| Lane::Worker(worker_of(worker));
        Some(match action {
            Action::RecordPlacement(placement) => {
                let is_new = known.job.is_some_and(|job| job.record.is_none());
                let first = is_new && known.mirrors.iter().all(Option::is_none);
                Due::Request(Lane::Manager, Ask::WriteRecord { record: record_of(&placement), version, first })
            }
            Action::WriteStatus { status, placement } => {
                let (status, record) = (self.number_of(*status), placement.as_ref().map(record_of));
                Due::Request(Lane::Manager, Ask::WriteStatus { status, record, version })
            }
            Action::ReadAgain => Due::Request(Lane::Manager, Ask::ReadJob),
            Action::ProveGone { .. } => Due::Request(Lane::Manager, Ask::ProveGone),
            Action::CreateMirror(placement) => {
                let suspended = known.job.is_some_and(|job| job.suspended);
                Due::Request(
                    on(&placement.worker),
                    Ask::Create { epoch: small(placement.epoch), made_of: None, suspended },
                )
            }
            Action::ProveAbsent { worker, epoch } => {
                let mirror = known.job.and_then(|job| job.record).and_then(|record| record.mirror);
                let seen = known.sight(worker_of(&worker).into()).map(|mirror| mirror.uid);
                Due::Request(on(&worker), Ask::ProveAbsent { epoch: small(epoch), mirror, seen })
            }
            Action::ForwardEdit { worker, mirror, .. } => {
                let suspended = known.job.is_some_and(|job| job.suspended);
                Due::Request(on(&worker), Ask::Forward { uid: number_in(&mirror.uid), version: 0, suspended })
            }
            Action::DeleteMirror { worker, mirror, pods } => {
                let version = known.sight(worker_of(&worker).into()).map_or(0, |mirror| mirror.version);
                let ask = Ask::Delete { uid: number_in(&mirror.uid), version, pods_first: pods == Pods::First };
                Due::Request(on(&worker), ask)
            }
            Action::Alarm(Alarm::IllegalStatus(_)) => Due::IllegalStatus,
            // What people are told changes nothing here; time passes by itself.
            _ => return None,
        })
    }

    fn knowledge(&self, known: &Known, workload: usize) -> Knowledge {
        let mirrors = known.mirrors.iter().enumerate().filter_map(|(at, sight)| {
            let sighting = match sight.as_ref()? {
                Sight::Present(mirror) => Sighting::Present(self.mirror(at, *mirror).into()),
                Sight::Vanished(mirror) => Sighting::Vanished(self.mirror(at, *mirror).into()),
            };
            Some((name_of(at), sighting))
        });
        let refusals =
            known.refused.iter().enumerate().filter_map(|(at, refused)| Some((name_of(at), refusal((*refused)?))));
        let memory = Memory {
            acknowledged: known.acknowledged.map(|(epoch, age)| (epoch.into(), moment(age))),
            absent: Self::absence(known),
            evidence: known.evidence.map(u32::from),
            in_doubt: known.in_doubt.map(moment),
            gone: known.gone.then_some(Gone { version: u64::MAX, at: Duration::ZERO }),
            refusals: refusals.collect(),
            placed_first: known.placed_first,
            placement_seen: known.placement.map(|(epoch, since, age)| (epoch.into(), Time(wall(since)), moment(age))),
            ..Memory::default()
        };
        let job = known.job.as_ref().map(|job| self.job(job, workload).into());
        Knowledge { workload: job, mirrors: mirrors.collect(), memory }
    }

    fn absence(known: &Known) -> Option<Absence> {
        let Absent { epoch, mirror, name_taken } = known.absent?;
        let read_for = Record { epoch, mirror, ..known.job?.record? };
        let absence = Absence::proved_for(&placement_of(read_for));
        Some(if name_taken { absence.behind_another() } else { absence })
    }

    fn job(&self, job: &Job, workload: usize) -> workload::Workload {
        let mut object = json!({
            "metadata": {"namespace": "ns", "name": "job", "uid": format!("u{workload}"), "resourceVersion": job.version.to_string()},
            "spec": {"managedBy": managed_by::DISPATCHER, "completions": 1, "parallelism": 1, "suspend": job.suspended},
            "status": serde_json::to_value(self.status(job.status)).unwrap_or_default(),
        });
        if job.deleting {
            object["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z".into();
        }
        if let Some(record) = job.record {
            object["metadata"]["labels"] = json!({ labels::WORKER: name_of(record.worker.into()) });
            let condition =
                placement_of(record).condition().ok().and_then(|condition| serde_json::to_value(condition).ok());
            match object["status"]["conditions"].as_array_mut() {
                Some(list) => list.extend(condition),
                None => object["status"]["conditions"] = Value::Array(condition.into_iter().collect()),
            }
        }
        decoded(object)
    }

    fn mirror(&self, worker: usize, mirror: Mirror) -> workload::Mirror {
        let mut object = json!({
            "metadata": {
                "namespace": "ns", "name": "job", "uid": uid_of(worker, mirror.uid), "resourceVersion": mirror.version.to_string(),
                "annotations": {
                    annotations::ORIGIN_UID: format!("u{}", mirror.of), annotations::EPOCH: mirror.epoch.to_string(),
                    annotations::MANAGER_VERSION: mirror.made_of.unwrap_or(0).to_string(), annotations::FORWARDED: forwarded(mirror.suspended),
                },
            },
            "status": serde_json::to_value(self.status(mirror.status)).unwrap_or_default(),
        });
        if mirror.deleting {
            object["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z".into();
        }
        decoded(object)
    }
}

/// The mark of what was last forwarded to a mirror: what the user's Job said then.
fn forwarded(suspended: bool) -> String {
    let job = json!({"metadata": {}, "spec": {"completions": 1, "parallelism": 1, "suspend": suspended}});
    jobferry_core::forward::Forwarded::of(&job).annotation()
}

/// The objects above are ours, and complete.
#[allow(clippy::expect_used, reason = "an object of the model that cannot be read is a mistake of the model itself")]
fn decoded<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).expect("an object of the model")
}

fn view(at: usize, live: bool) -> WorkerView {
    let away = Link::Away { since: WALL, noticed: MONOTONIC };
    let link = if live { Link::Live { identity: identity_of(at) } } else { away };
    WorkerView { link, ..WorkerView::default() }
}

fn refusal((epoch, age): (u8, Age)) -> Refusal {
    Refusal { epoch: epoch.into(), ground: Ground::Quota, why: "quota".into(), at: moment(age), times: 1 }
}

fn placement_of(record: Record) -> Placement {
    let worker = usize::from(record.worker);
    let mut placement = Placement::new(name_of(worker), identity_of(worker), record.epoch.into(), wall(record.since));
    placement.moving = record.moving;
    placement.mirror = record.mirror.map(|number| uid_of(worker, number));
    placement.copied = record.copied.map(u64::from);
    placement
}

fn record_of(placement: &Placement) -> Record {
    Record {
        worker: worker_of(&placement.worker),
        epoch: small(placement.epoch),
        moving: placement.moving,
        mirror: placement.mirror.as_deref().map(number_in),
        copied: placement.copied.and_then(|version| u8::try_from(version).ok()),
        since: u8::try_from(placement.since.0.duration_since(WALL).as_secs()).unwrap_or(0),
    }
}

/// The wall clock at a write: a second later than at the one before.
fn wall(number: Number) -> Timestamp {
    WALL.checked_add(SignedDuration::from_secs(number.into())).unwrap_or(WALL)
}

fn moment(age: Age) -> Duration {
    MONOTONIC.saturating_sub(age.duration())
}

fn name_of(worker: usize) -> String {
    format!("w{worker}")
}

fn identity_of(worker: usize) -> String {
    format!("id{worker}")
}

/// No two clusters give the same UID.
fn uid_of(worker: usize, number: Number) -> String {
    format!("w{worker}m{number}")
}

fn worker_of(name: &str) -> u8 {
    number_in(name)
}

/// The last number in a name of ours: 1 of `w1`, 7 of `w1m7`.
fn number_in(name: &str) -> u8 {
    name.rsplit(char::is_alphabetic).next().and_then(|number| number.parse().ok()).unwrap_or(u8::MAX)
}

fn small(epoch: u32) -> u8 {
    u8::try_from(epoch).unwrap_or(u8::MAX)
}
