//! The true state of all clusters, as their API servers and nodes know it. The dispatcher sees none of this.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

use crate::facts::JobFacts;

/// The name of the management cluster in logs.
pub(crate) const MANAGER: &str = "manager";

/// Who does something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A dispatcher under test.
    Dispatcher,
    /// Somebody who owns the workloads.
    User,
    /// Somebody on a worker who does not know Jobferry.
    Foreigner,
    /// A cluster's own controllers and nodes.
    Cluster,
}

/// All clusters.
#[derive(Debug, Default)]
pub struct Truth {
    /// The Jobs of each cluster, by name.
    jobs: BTreeMap<String, BTreeMap<String, JobFacts>>,
    /// Running processes: workload UID, cluster, pod UID.
    running: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
    /// What is known of each workload beyond its object's life, by UID.
    histories: BTreeMap<String, History>,
    /// Jobs that a dispatcher created, by UID: its own, whatever became of their marks.
    made: BTreeSet<String>,
    /// Until when each cluster and dispatcher was in trouble last.
    trouble: BTreeMap<String, Instant>,
    /// Counts what happened, to tell before from after.
    step: u64,
}

/// What became of a workload.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Its name.
    pub name: String,
    /// The step at which it was finished for good: a mirror ended, or the workload itself.
    pub finished_at: Option<u64>,
    /// How its mirror ended first.
    pub mirror_ending: Option<String>,
    /// How the workload itself ended.
    pub ending: Option<String>,
    /// The user deleted it, or asked for its deletion.
    pub deleted: bool,
    /// Somebody on a worker deleted or changed a mirror of it.
    pub meddled: bool,
    /// The step at which each of its mirrors was created, by UID.
    pub mirrors: BTreeMap<String, u64>,
    /// How often the status of its mirrors changed.
    pub mirror_changes: u64,
    /// How often a user changed it.
    pub user_changes: u64,
}

impl Truth {
    /// A Job of a cluster.
    pub fn job(&self, cluster: &str, name: &str) -> Option<&JobFacts> {
        self.jobs.get(cluster)?.get(name)
    }

    /// All Jobs of a cluster.
    pub fn jobs(&self, cluster: &str) -> impl Iterator<Item = &JobFacts> {
        self.jobs.get(cluster).into_iter().flat_map(BTreeMap::values)
    }

    /// All mirrors, with their clusters.
    pub fn mirrors(&self) -> impl Iterator<Item = (&str, &JobFacts)> {
        let all = self.jobs.iter().flat_map(|(cluster, jobs)| jobs.values().map(move |job| (cluster.as_str(), job)));
        all.filter(|(cluster, job)| *cluster != MANAGER && job.is_mirror())
    }

    /// The workloads that exist on the manager.
    pub fn workloads(&self) -> impl Iterator<Item = &JobFacts> {
        self.jobs(MANAGER).filter(|job| job.is_workload)
    }

    /// What became of every workload that ever was, by UID.
    pub fn histories(&self) -> &BTreeMap<String, History> {
        &self.histories
    }

    /// What became of a workload.
    pub fn history(&self, uid: &str) -> Option<&History> {
        self.histories.get(uid)
    }

    /// The clusters in which processes of a workload run now.
    pub fn running_in(&self, workload: &str) -> Vec<&str> {
        let clusters = self.running.get(workload).into_iter().flatten();
        clusters.filter(|(_, pods)| !pods.is_empty()).map(|(cluster, _)| cluster.as_str()).collect()
    }

    /// Whether a Job on a worker is a dispatcher's: by its marks, or because a dispatcher created it.
    pub fn is_ours(&self, job: &JobFacts) -> bool {
        job.is_mirror() || self.made.contains(&job.uid)
    }

    /// Whether anything was in trouble at or after this moment: a dispatcher, or one of these clusters.
    pub fn was_trouble_since(&self, moment: Instant, clusters: [&str; 2]) -> bool {
        self.trouble.iter().any(|(who, until)| {
            let concerns = clusters.contains(&who.as_str()) || who.starts_with('d');
            concerns && *until >= moment
        })
    }

    /// Trouble until at least then.
    pub(crate) fn disturbed(&mut self, who: &str, until: Instant) {
        let known = self.trouble.entry(who.to_owned()).or_insert(until);
        *known = (*known).max(until);
    }

    /// Trouble until then, whatever was known before.
    pub(crate) fn disturbed_until(&mut self, who: &str, until: Instant) {
        self.trouble.insert(who.to_owned(), until);
    }

    pub(crate) fn started(&mut self, cluster: &str, workload: &str, pod: &str) {
        self.step += 1;
        let clusters = self.running.entry(workload.to_owned()).or_default();
        clusters.entry(cluster.to_owned()).or_default().insert(pod.to_owned());
    }

    pub(crate) fn stopped(&mut self, cluster: &str, workload: &str, pod: &str) {
        self.step += 1;
        if let Some(pods) = self.running.get_mut(workload).and_then(|clusters| clusters.get_mut(cluster)) {
            pods.remove(pod);
        }
    }

    /// Takes over the new state of a Job; returns the state before.
    pub(crate) fn change(&mut self, cluster: &str, name: &str, after: Option<&JobFacts>, by: Role) -> Option<JobFacts> {
        self.step += 1;
        let jobs = self.jobs.entry(cluster.to_owned()).or_default();
        let before = match after {
            Some(after) => jobs.insert(name.to_owned(), after.clone()),
            None => jobs.remove(name),
        };
        let subject = after.or(before.as_ref());
        if cluster == MANAGER {
            if let Some(job) = subject.filter(|job| job.is_workload) {
                self.note_workload(job, after.is_none(), by);
            }
        } else if let Some(workload) = subject.and_then(|job| job.origin_uid.clone()) {
            self.note_mirror(&workload, before.as_ref(), after, by);
        }
        before
    }

    fn note_workload(&mut self, job: &JobFacts, is_gone: bool, by: Role) {
        let step = self.step;
        let history = self.histories.entry(job.uid.clone()).or_default();
        history.name.clone_from(&job.name);
        history.deleted |= is_gone || job.deleting;
        history.user_changes += u64::from(by == Role::User);
        if let Some((kind, _)) = &job.ending {
            history.ending.get_or_insert_with(|| kind.clone());
            history.finished_at.get_or_insert(step);
        }
    }

    fn note_mirror(&mut self, workload: &str, before: Option<&JobFacts>, after: Option<&JobFacts>, by: Role) {
        let step = self.step;
        if let Some(after) = after.filter(|_| by == Role::Dispatcher && before.is_none()) {
            self.made.insert(after.uid.clone());
        }
        let history = self.histories.entry(workload.to_owned()).or_default();
        history.meddled |= by == Role::Foreigner;
        if let Some(after) = after {
            history.mirrors.entry(after.uid.clone()).or_insert(step);
            history.mirror_changes += u64::from(before.is_none_or(|before| before.status != after.status));
            // What ends while it is being deleted does not count: nobody need have seen it.
            if let Some((kind, _)) = after.ending.as_ref().filter(|_| !after.deleting) {
                history.mirror_ending.get_or_insert_with(|| kind.clone());
                history.finished_at.get_or_insert(step);
            }
        }
    }
}

impl Truth {
    /// Every workload is finished, waits for its user, or says why it waits; orphans are gone.
    pub fn is_settled(&self) -> bool {
        self.workloads().all(|workload| workload.ending.is_some() || workload.suspended) && !self.has_orphans()
    }

    /// There is neither a workload nor a mirror, and nothing runs.
    pub fn is_empty(&self) -> bool {
        self.workloads().next().is_none()
            && self.mirrors().next().is_none()
            && self.histories.keys().all(|uid| self.running_in(uid).is_empty())
    }

    fn has_orphans(&self) -> bool {
        self.mirrors()
            .any(|(_, mirror)| self.workloads().all(|workload| Some(&workload.uid) != mirror.origin_uid.as_ref()))
    }
}
