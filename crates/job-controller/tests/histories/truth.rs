//! What the API server has stored, and everything that was ever true.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use job_controller::{JobView, Owner, Phase, PodPlan, PodView, Restarts};
use k8s_openapi::{api::batch::v1::JobStatus, jiff::Timestamp};

use super::{Change, checks};

pub(crate) struct Truth {
    pub(crate) job: JobView,
    pub(crate) job_version: u64,
    pub(crate) pods: BTreeMap<String, PodView>,
    versions: BTreeMap<String, u64>,
    /// The last version of anything.
    pub(crate) version: u64,
    pub(crate) seed: u64,
    pub(crate) ledger: checks::Ledger,
    created: u32,
}

impl Truth {
    pub(crate) fn new(job: JobView, seed: u64) -> Self {
        Self {
            job,
            job_version: 1,
            pods: BTreeMap::new(),
            versions: BTreeMap::new(),
            version: 1,
            seed,
            ledger: checks::Ledger::default(),
            created: 0,
        }
    }

    pub(crate) fn version_of(&self, uid: &str) -> u64 {
        self.versions.get(uid).copied().unwrap_or(0)
    }

    /// How the Job ended, if it did.
    pub(crate) fn ended(&self) -> Option<String> {
        let conditions = self.job.status.conditions.as_deref().unwrap_or_default();
        let end =
            conditions.iter().find(|c| matches!(c.type_.as_str(), "Complete" | "Failed") && c.status == "True")?;
        end.reason.clone()
    }

    /// Stores a status if it is based on the current version, as the API server does.
    pub(crate) fn write_status(
        &mut self,
        base: u64,
        status: JobStatus,
        events: &mut VecDeque<Change<JobView>>,
    ) -> bool {
        if base != self.job_version {
            return false;
        }
        self.check_status(&status);
        self.job.status = status;
        self.job_changed(events);
        true
    }

    fn job_changed(&mut self, events: &mut VecDeque<Change<JobView>>) {
        self.version += 1;
        self.job_version = self.version;
        events.push_back(Change::Applied(self.version, self.job.clone()));
    }

    pub(crate) fn set_suspended(&mut self, suspend: bool, events: &mut VecDeque<Change<JobView>>) {
        if self.job.spec.suspend != suspend {
            self.job.spec.suspend = suspend;
            self.job_changed(events);
        }
    }

    /// Users change the parallelism, and of an Indexed Job the width with it.
    pub(crate) fn scale(&mut self, parallelism: u32, elastic: bool, events: &mut VecDeque<Change<JobView>>) {
        self.job.spec.parallelism = parallelism;
        if self.job.spec.indexed && elastic {
            self.job.spec.completions = Some(parallelism);
            self.ledger.width_changed(parallelism);
        }
        self.job_changed(events);
    }

    pub(crate) fn delete_job(&mut self, events: &mut VecDeque<Change<JobView>>) {
        self.job.deleting = true;
        self.job_changed(events);
    }

    pub(crate) fn create(
        &mut self,
        seen: &JobView,
        plan: &PodPlan,
        now: Timestamp,
        events: &mut VecDeque<Change<PodView>>,
    ) -> String {
        self.created += 1;
        let uid = format!("p{:04}", self.created);
        let pod = PodView {
            namespace: "n".to_owned(),
            name: uid.clone(),
            uid: uid.clone(),
            resource_version: String::new(),
            owner: Some(Owner { uid: "j".to_owned(), name: "j".to_owned() }),
            controlled_by_other: false,
            labels: BTreeMap::new(),
            finalizers: vec![seen.finalizer().to_owned()],
            phase: Phase::Pending,
            deleting: false,
            scheduled: false,
            ready_since: None,
            index: plan.index,
            index_failures: plan.failures.map_or(0, |failures| failures.counted),
            index_ignored_failures: plan.failures.map_or(0, |failures| failures.ignored),
            restarts: Restarts::default(),
            exits: vec![],
            conditions: vec![],
            created: now,
            finished: now,
        };
        self.pods.insert(uid.clone(), pod);
        self.check_creation(seen, plan);
        self.pod_changed(&uid, events);
        uid
    }

    fn pod_changed(&mut self, uid: &str, events: &mut VecDeque<Change<PodView>>) {
        self.version += 1;
        let version = self.version;
        self.versions.insert(uid.to_owned(), version);
        let Some(pod) = self.pods.get(uid) else { return };
        // A deleted pod is gone when nothing holds it: no finalizer, and no node that it still runs on.
        if pod.deleting && pod.finalizers.is_empty() && (pod.ended() || !pod.scheduled) {
            self.pods.remove(uid);
            events.push_back(Change::Deleted(version, uid.to_owned()));
        } else {
            events.push_back(Change::Applied(version, pod.clone()));
        }
    }

    pub(crate) fn change(
        &mut self,
        uid: &str,
        events: &mut VecDeque<Change<PodView>>,
        edit: impl FnOnce(&mut PodView),
    ) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        let before = pod.phase;
        edit(pod);
        if before != Phase::Succeeded && pod.phase == Phase::Succeeded {
            self.ledger.succeeded(pod);
        }
        self.pod_changed(uid, events);
    }

    pub(crate) fn release(&mut self, uid: &str, events: &mut VecDeque<Change<PodView>>) {
        self.change(uid, events, |pod| pod.finalizers.clear());
    }

    pub(crate) fn delete(&mut self, uid: &str, now: Timestamp, events: &mut VecDeque<Change<PodView>>) {
        self.change(uid, events, |pod| {
            if !pod.deleting {
                pod.deleting = true;
                pod.finished = pod.finished.max(now);
            }
        });
    }

    /// The controller stops a pod on purpose: it is not to be counted.
    pub(crate) fn discard(&mut self, uid: &str) {
        self.ledger.excused.insert(uid.to_owned());
    }

    /// Someone removes the finalizers of a pod by hand and deletes it.
    pub(crate) fn tear_out(&mut self, uid: &str, events: &mut VecDeque<Change<PodView>>) {
        let Some(pod) = self.pods.get(uid) else { return };
        self.ledger.torn_out(pod, self.job.status.completed_indexes.as_deref());
        self.change(uid, events, |pod| {
            pod.finalizers.clear();
            pod.deleting = true;
            if !pod.ended() {
                pod.phase = Phase::Failed;
            }
        });
    }

    pub(crate) fn nodes_finish_terminating(&mut self, now: Timestamp, events: &mut VecDeque<Change<PodView>>) {
        let terminating: BTreeSet<String> =
            self.pods.values().filter(|pod| pod.terminating()).map(|pod| pod.uid.clone()).collect();
        for uid in terminating {
            self.change(&uid, events, |pod| {
                pod.phase = Phase::Failed;
                pod.ready_since = None;
                pod.finished = now;
            });
        }
    }
}
