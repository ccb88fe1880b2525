//! The true state of all clusters, as their API servers and nodes know it. The dispatcher sees none of this.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use jobferry_api::conditions;
use serde_json::Value;
use tokio::time::Instant;

use crate::facts::{JobFacts, PlacementFacts};

/// The name of the management cluster in logs.
pub(crate) const MANAGER: &str = "manager";
/// The name of another management cluster that shares a worker with the first.
pub(crate) const SECOND_MANAGER: &str = "manager-2";

/// The reason of a Job that ran for longer than it may.
pub(crate) const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";

/// Longer than any write is under way.
const REMEMBERED: Duration = Duration::from_secs(180);

/// Whether users submit to this cluster.
pub(crate) fn is_manager(cluster: &str) -> bool {
    [MANAGER, SECOND_MANAGER].contains(&cluster)
}

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
    /// A Job controller of the manager's that does not know `managedBy` and runs delegated Jobs itself.
    OldController,
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
    /// Jobs that a dispatcher created, by UID, and the manager that it works for: its own, whatever became of their marks.
    made: BTreeMap<String, String>,
    /// Who each cluster is at present.
    identities: BTreeMap<String, String>,
    /// Managers on which a policy has ever said that a lost worker's workloads fail. A dispatcher may see it long afterwards.
    gives_up: BTreeSet<String>,
    /// When each dispatcher started.
    begun: BTreeMap<String, Instant>,
    /// When a dispatcher, connected with a cluster, heard of it: dispatcher, cluster, the identity of that. Of what is long
    /// ago, only the last.
    heard: BTreeMap<(String, String, String), VecDeque<Instant>>,
    /// Until when each cluster and dispatcher was in trouble last, by what it was.
    trouble: BTreeMap<(String, &'static str), Instant>,
    /// Counts what happened, to tell before from after.
    step: u64,
}

/// What became of a workload.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct History {
    /// Its name.
    pub name: String,
    /// The step at which it was finished for good: a mirror ended, or the workload itself.
    pub finished_at: Option<u64>,
    /// How its mirror ended first.
    pub mirror_ending: Option<String>,
    /// Which mirror that was, by UID.
    pub ended_mirror: Option<String>,
    /// Its user changed how many completions it wants.
    pub resized: bool,
    /// The ends, with their reasons, that any of its mirrors came to or announced.
    pub mirrors_said: BTreeSet<(String, String)>,
    /// How the workload itself ended, and the reason.
    pub ending: Option<(String, String)>,
    /// The user deleted it, or asked for its deletion.
    pub deleted: bool,
    /// Somebody on a worker deleted a mirror of it, or its worker was restored or rebuilt.
    pub meddled: bool,
    /// Somebody else than a dispatcher deleted a mirror of it, or a dispatcher one that admission had altered.
    pub taken_away: bool,
    /// Its worker was turned back to a state in which it had, or had not, a mirror of it.
    pub turned_back: bool,
    /// Its manager was turned back to another state of it.
    pub forgotten: bool,
    /// It had come to its end before that.
    pub forgotten_end: bool,
    /// It was gone, or about to go, before its manager was turned back to a state in which it was there.
    pub resurrected: bool,
    /// Somebody else wrote that it has come to its end.
    pub ended_by_others: bool,
    /// The cluster that was replaced by another one when it had a mirror of it.
    pub lost_with: Option<String>,
    /// Somebody took its placement record off, or made it unreadable, and meanwhile it had a mirror without the label that
    /// our watch goes by: neither of them told where it was.
    pub untraceable: bool,
    /// Its own worker said that it had run for too long.
    pub overran: bool,
    /// Its end was written before a mirror of it had come to one.
    pub ended_first: bool,
    /// An old controller of the manager ran it as well.
    pub acted_on: bool,
    /// The step at which each of its mirrors was created, by UID.
    pub mirrors: BTreeMap<String, u64>,
    /// How often the status of its mirrors changed.
    pub mirror_changes: u64,
    /// How often a user changed it.
    pub user_changes: u64,
}

impl History {
    /// Its worker was lost for as long as its policy allows, or past its own deadline.
    pub fn was_given_up(&self) -> bool {
        let lost =
            |reason: &str| reason == conditions::REASON_WORKER_LOST || (reason == DEADLINE_EXCEEDED && !self.overran);
        // A kind whose ends have no reason.
        self.ending.as_ref().is_some_and(|(_, reason)| lost(reason) || (reason.is_empty() && self.ended_first))
    }
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
        all.filter(|(cluster, job)| !is_manager(cluster) && job.is_mirror())
    }

    /// What there is of a workload on the workers, with their clusters, whatever became of its marks.
    pub fn on_workers(&self, workload: &str) -> impl Iterator<Item = (&str, &JobFacts)> {
        let all = self.jobs.iter().flat_map(|(cluster, jobs)| jobs.values().map(move |job| (cluster.as_str(), job)));
        all.filter(move |(cluster, job)| !is_manager(cluster) && job.origin_uid.as_deref() == Some(workload))
    }

    /// The workloads that exist on the managers.
    pub fn workloads(&self) -> impl Iterator<Item = &JobFacts> {
        self.jobs(MANAGER).chain(self.jobs(SECOND_MANAGER)).filter(|job| job.is_workload)
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

    /// Whether a Job on a worker is that of a dispatcher of this manager: by its marks, or because one created it.
    pub fn belongs_to(&self, job: &JobFacts, manager: &str) -> bool {
        let marked = job.is_mirror() && job.origin.as_ref() == self.identities.get(manager);
        marked || self.made.get(&job.uid).is_some_and(|maker| maker == manager)
    }

    /// Who a cluster is at present.
    pub fn identity(&self, cluster: &str) -> Option<&str> {
        self.identities.get(cluster).map(String::as_str)
    }

    /// The last moment, not after this one, at which a dispatcher cannot have missed the cluster of this identity: it was
    /// just starting, or heard of it.
    pub fn last_in_touch(&self, who: &str, cluster: &str, identity: &str, until: Instant) -> Option<Instant> {
        let heard = self.heard.get(&(who.to_owned(), cluster.to_owned(), identity.to_owned()));
        let heard = heard.and_then(|all| all.iter().rev().find(|moment| **moment <= until));
        heard.max(self.begun.get(who)).copied()
    }

    /// Whether a dispatcher, between its start and this moment, was shown the mirrors of a cluster.
    pub fn was_seen(&self, cluster: &str, who: &str, until: Instant) -> bool {
        let Some((identity, begun)) = self.identity(cluster).zip(self.begun.get(who)) else { return false };
        let heard = self.heard.get(&(who.to_owned(), cluster.to_owned(), identity.to_owned()));
        heard.is_some_and(|all| all.iter().any(|moment| (*begun..=until).contains(moment)))
    }

    /// Whether any policy of this manager has ever said that a lost worker's workloads fail.
    pub fn gives_up(&self, manager: &str) -> bool {
        self.gives_up.contains(manager)
    }

    pub(crate) fn policy(&mut self, manager: &str, spec: &Value) {
        if spec["onWorkerLost"]["action"] == "Fail" {
            self.gives_up.insert(manager.to_owned());
        }
    }

    pub(crate) fn begins(&mut self, who: &str, at: Instant) {
        self.begun.insert(who.to_owned(), at);
    }

    pub(crate) fn heard(&mut self, who: &str, cluster: &str, at: Instant) {
        let Some(identity) = self.identities.get(cluster).cloned() else { return };
        let heard = self.heard.entry((who.to_owned(), cluster.to_owned(), identity)).or_default();
        heard.push_back(at);
        while heard.get(1).is_some_and(|second| *second + REMEMBERED <= at) {
            heard.pop_front();
        }
    }

    /// Whether anything was in trouble at or after this moment: a dispatcher, or one of these clusters.
    pub fn was_trouble_since(&self, moment: Instant, clusters: [&str; 2]) -> bool {
        self.trouble.iter().any(|((who, _), until)| {
            let concerns = clusters.contains(&who.as_str()) || who.starts_with('d');
            concerns && *until >= moment
        })
    }

    /// Trouble until at least then.
    pub(crate) fn disturbed(&mut self, who: &str, until: Instant) {
        let known = self.trouble.entry((who.to_owned(), "passing")).or_insert(until);
        *known = (*known).max(until);
    }

    /// Trouble of this kind until then, whatever was known before.
    pub(crate) fn disturbed_until(&mut self, who: &str, what: &'static str, until: Instant) {
        self.trouble.insert((who.to_owned(), what), until);
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

    /// A dispatcher that works for this manager created a Job.
    pub(crate) fn made(&mut self, job: &JobFacts, manager: &str) {
        self.made.insert(job.uid.clone(), manager.to_owned());
    }

    /// A cluster, of this identity, now has these Jobs and no others: it was restored or rebuilt.
    pub(crate) fn turn_back(&mut self, cluster: &str, identity: String, jobs: &[JobFacts]) {
        let known = self.identities.insert(cluster.to_owned(), identity);
        let is_another = known.is_some_and(|known| Some(known.as_str()) != self.identity(cluster));
        let before: Vec<JobFacts> = self.jobs(cluster).cloned().collect();
        let gone = before.iter().filter(|job| jobs.iter().all(|now| now.name != job.name)).map(|job| (job, None));
        let there = jobs.iter().map(|job| (job, Some(job)));
        for (job, after) in gone.chain(there).collect::<Vec<_>>() {
            if self.job(cluster, &job.name) == after {
                continue;
            }
            let replaced = self.change(cluster, &job.name, after, Role::Foreigner);
            // Under one name there may be the mirror of another workload now.
            for job in replaced.iter().chain([job]) {
                let workload = job.origin_uid.clone().unwrap_or_else(|| job.uid.clone());
                let history = self.histories.entry(workload).or_default();
                if is_manager(cluster) {
                    let is_there = after.is_some_and(|after| after.uid == job.uid && !after.deleting);
                    history.forgotten = true;
                    history.forgotten_end |= history.finished_at.is_some();
                    history.resurrected |= history.deleted && is_there;
                    history.deleted = !is_there;
                    continue;
                }
                (history.meddled, history.taken_away) = (true, true);
                if is_another {
                    history.lost_with = Some(cluster.to_owned());
                } else {
                    history.turned_back = true;
                }
            }
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
        if is_manager(cluster) {
            if let Some(job) = subject.filter(|job| job.is_workload) {
                self.note_workload(job, after.is_none(), by);
                let resized = before
                    .as_ref()
                    .zip(after)
                    .is_some_and(|(before, after)| before.uid == after.uid && before.completions != after.completions);
                self.histories.entry(job.uid.clone()).or_default().resized |= resized;
                self.note_traces(&job.uid.clone());
            }
        } else if let Some(workload) = subject.and_then(|job| job.origin_uid.clone()) {
            self.note_mirror(&workload, before.as_ref(), after, by);
            self.note_traces(&workload);
        }
        before
    }

    fn note_workload(&mut self, job: &JobFacts, is_gone: bool, by: Role) {
        let step = self.step;
        let history = self.histories.entry(job.uid.clone()).or_default();
        history.name.clone_from(&job.name);
        history.deleted |= is_gone || job.deleting;
        history.user_changes += u64::from(by == Role::User);
        history.acted_on |= by == Role::OldController;
        if let Some(ending) = &job.ending {
            history.ended_by_others |= history.ending.is_none() && by == Role::Foreigner;
            history.ended_first |= history.ending.is_none() && history.mirror_ending.is_none();
            history.ending.get_or_insert_with(|| ending.clone());
            history.finished_at.get_or_insert(step);
        }
    }

    /// Looks whether anything tells where a workload is. One that has no record has no mirror either, unless somebody wiped it.
    fn note_traces(&mut self, uid: &str) {
        let wiped = self.workloads().any(|workload| workload.uid == uid && workload.placement.is_none());
        let hidden = || self.on_workers(uid).any(|(_, job)| !job.is_mirror());
        if wiped && hidden() {
            self.histories.entry(uid.to_owned()).or_default().untraceable = true;
        }
    }

    fn note_mirror(&mut self, workload: &str, before: Option<&JobFacts>, after: Option<&JobFacts>, by: Role) {
        let step = self.step;
        let history = self.histories.entry(workload.to_owned()).or_default();
        let [was_going, is_going] = [before, after].map(|job| job.is_none_or(|job| job.deleting));
        history.meddled |= by == Role::Foreigner && is_going && !was_going;
        let is_taken_back = || before.is_some_and(JobFacts::is_altered);
        history.taken_away |= is_going && !was_going && (by != Role::Dispatcher || is_taken_back());
        if let Some(after) = after {
            history.mirrors.entry(after.uid.clone()).or_insert(step);
            history.mirror_changes += u64::from(before.is_none_or(|before| before.status != after.status));
            let mut conditions = after.status["conditions"].as_array().into_iter().flatten();
            history.overran |= conditions.any(|condition| condition["reason"] == DEADLINE_EXCEEDED);
            // What ends while it is being deleted does not count: nobody need have seen it.
            history.mirrors_said.extend(after.announced());
            if let Some((kind, _)) = after.ending.as_ref().filter(|_| !after.deleting) {
                history.mirror_ending.get_or_insert_with(|| kind.clone());
                history.ended_mirror.get_or_insert_with(|| after.uid.clone());
                history.finished_at.get_or_insert(step);
            }
        }
    }
}

impl Truth {
    /// Every workload is finished, waits for its user or for what will not come by itself; orphans are gone.
    pub fn is_settled(&self) -> bool {
        self.workloads().all(|workload| self.has_settled(workload)) && !self.has_orphans()
    }

    /// It is finished, or waits for its user or for what will not come by itself, and what it says of that is true.
    pub fn has_settled(&self, workload: &JobFacts) -> bool {
        if workload.deleting {
            return false;
        }
        if workload.ending.is_some() {
            return self.running_in(&workload.uid).is_empty() || self.is_left_to_run(&workload.uid);
        }
        (workload.suspended && self.running_in(&workload.uid).is_empty())
            || self.history(&workload.uid).is_some_and(|history| history.acted_on)
            || self.waits_for_lost_worker(workload)
            || self.waits_for_name(workload)
            || self.waits_for_record(workload)
            || self.waits_for_edit(workload)
    }

    /// Somebody else runs it: that is left to run.
    fn is_left_to_run(&self, uid: &str) -> bool {
        self.history(uid).is_some_and(|history| history.acted_on)
    }

    /// Whether a cluster other than this one and the managers is in trouble now.
    pub fn is_another_in_trouble(&self, cluster: &str) -> bool {
        let now = Instant::now();
        let another = |who: &str| who.starts_with('w') && who != cluster;
        self.trouble.iter().any(|((who, _), until)| another(who) && *until >= now)
    }

    /// It says that its worker is missing or was given up, and the cluster on which it was placed is no more.
    pub fn waits_for_lost_worker(&self, workload: &JobFacts) -> bool {
        let reasons = [conditions::REASON_WORKER_MISSING, conditions::REASON_WORKER_LOST];
        let missing = workload.told.as_ref().is_some_and(|(_, reason)| reasons.contains(&reason.as_str()));
        let replaced = |at: &PlacementFacts| self.identity(&at.worker) != Some(&at.identity);
        missing && workload.placement.as_ref().is_some_and(replaced)
    }

    /// The cluster of a placement. Its Worker may have another name: it was registered twice.
    fn cluster_of(&self, at: &PlacementFacts) -> Option<&str> {
        self.identities.iter().find(|(_, identity)| **identity == at.identity).map(|(cluster, _)| cluster.as_str())
    }

    /// It says that the record of where it is was lost, and the mirror that would tell is gone too.
    pub fn waits_for_record(&self, workload: &JobFacts) -> bool {
        let lost = workload.told.as_ref().is_some_and(|(_, reason)| reason == conditions::REASON_RECORD_LOST);
        lost && self.mirrors().all(|(_, mirror)| mirror.origin_uid.as_ref() != Some(&workload.uid))
    }

    /// Somebody took off its mirror what tells which edits that has: the next one, to resume it say, does not reach it.
    pub fn waits_for_edit(&self, workload: &JobFacts) -> bool {
        self.on_workers(&workload.uid).any(|(_, mirror)| !mirror.tells_edits && mirror.suspended != workload.suspended)
    }

    /// It says that its worker refuses it, and another Job has its name there.
    fn waits_for_name(&self, workload: &JobFacts) -> bool {
        let refused = workload.told.as_ref().is_some_and(|(_, reason)| reason == conditions::REASON_REFUSED);
        let holder = workload.placement.as_ref().and_then(|at| self.job(self.cluster_of(at)?, &workload.name));
        refused && holder.is_some_and(|holder| holder.origin_uid.as_ref() != Some(&workload.uid))
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
