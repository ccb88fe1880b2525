//! The world of the random histories: the truth, what the controller sees of it, and who acts.

mod checks;
mod truth;

use std::collections::{BTreeSet, VecDeque};

use job_controller::{Exit, JobView, Memory, Phase, PodAction, PodView, Step, sync};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::json;

pub(crate) use self::truth::Truth;

/// Random numbers that the seed decides (SplitMix64).
#[derive(Clone)]
pub(crate) struct Dice {
    state: u64,
    pub(crate) seed: u64,
}

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed, seed }
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }

    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    fn pick<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        if list.is_empty() { None } else { list.get(usize::try_from(self.below(list.len() as u64)).unwrap()) }
    }
}

/// A change of an object, on its way to the controller.
pub(crate) enum Change<T> {
    Applied(u64, T),
    Deleted(u64, String),
}

/// What the controller has seen: late, but never without its own acknowledged writes.
struct Sight {
    job: JobView,
    job_version: u64,
    pods: Vec<PodView>,
    versions: Vec<u64>,
    reached: u64,
    /// Known to be gone from answers to own writes; events that are older may still come.
    gone: BTreeSet<String>,
}

impl Sight {
    fn learn_pod(&mut self, version: u64, pod: PodView) {
        if self.gone.contains(&pod.uid) {
            return;
        }
        match self.pods.iter().position(|known| known.uid == pod.uid) {
            Some(at) if self.versions[at] < version => {
                self.pods[at] = pod;
                self.versions[at] = version;
            }
            Some(_) => {}
            None => {
                self.pods.push(pod);
                self.versions.push(version);
            }
        }
    }

    fn forget_pod(&mut self, uid: &str) {
        if let Some(at) = self.pods.iter().position(|pod| pod.uid == uid) {
            self.pods.remove(at);
            self.versions.remove(at);
        }
    }
}

pub(crate) struct History {
    dice: Dice,
    truth: Truth,
    sight: Sight,
    memory: Memory,
    job_events: VecDeque<Change<JobView>>,
    pod_events: VecDeque<Change<PodView>>,
    now: Timestamp,
}

impl History {
    pub(crate) fn new(mut dice: Dice) -> Self {
        let job = random_job(&mut dice);
        let truth = Truth::new(job, dice.seed);
        let sight = Sight {
            job: truth.job.clone(),
            job_version: truth.job_version,
            pods: vec![],
            versions: vec![],
            reached: 0,
            gone: BTreeSet::new(),
        };
        Self {
            dice,
            truth,
            sight,
            memory: Memory::default(),
            job_events: VecDeque::new(),
            pod_events: VecDeque::new(),
            now: Timestamp::from_second(1_000_000).unwrap(),
        }
    }

    /// One random step.
    pub(crate) fn step(&mut self) {
        match self.dice.below(100) {
            0..45 => self.controller_acts(5),
            45..60 => self.deliver_some(),
            60..85 => self.a_pod_moves(),
            85..92 => self.time_passes(),
            92..96 => self.a_user_acts(),
            96..98 => self.controller_restarts(),
            _ => self.truth.nodes_finish_terminating(self.now, &mut self.pod_events),
        }
    }

    /// Nothing can follow any more.
    pub(crate) fn is_over(&self) -> bool {
        let held = self.truth.pods.values().any(|pod| !pod.finalizers.is_empty());
        !held && (self.truth.job.deleting || self.truth.ended().is_some())
    }

    /// Everybody behaves until the Job is over; returns how it ended.
    pub(crate) fn finish(mut self) -> String {
        for round in 0..2_000 {
            self.truth.set_suspended(false, &mut self.job_events);
            while self.deliver_one() {}
            self.controller_acts(0);
            self.truth.nodes_finish_terminating(self.now, &mut self.pod_events);
            if round % 3 == 0 {
                self.a_pod_moves();
            }
            if round % 10 == 0 {
                self.now = self.now.checked_add(SignedDuration::from_secs(700)).unwrap();
            }
            if self.truth.job.deleting && self.truth.pods.values().all(|pod| pod.finalizers.is_empty()) {
                return "deleted".to_owned();
            }
            if let Some(reason) = self.truth.ended() {
                self.truth.check_final_counts();
                return reason;
            }
        }
        panic!("seed {}: the Job never ends: {:?}", self.truth.seed, self.truth.job);
    }

    /// One look, and what follows from it; with this chance (in percent) of a crash after each write.
    fn controller_acts(&mut self, crash_percent: u64) {
        let decision = sync(&self.sight.job, &self.sight.pods, &self.memory, self.now);
        match decision.step {
            Step::Rest => return,
            Step::Record(status) => {
                let stored = self.truth.write_status(self.sight.job_version, *status, &mut self.job_events);
                if self.dice.percent(crash_percent) {
                    return self.controller_restarts();
                }
                // Whether it was stored or refused as stale, the controller reads the answer.
                self.sight.job = self.truth.job.clone();
                self.sight.job_version = self.truth.job_version;
                if !stored {
                    return;
                }
            }
            Step::Pods(actions) => {
                for action in actions {
                    if self.carry_out(action, crash_percent) || self.dice.percent(crash_percent) {
                        return self.controller_restarts();
                    }
                }
            }
        }
        self.memory.backoff = decision.backoff;
    }

    /// One action; true if the controller crashed in the middle of it.
    fn carry_out(&mut self, action: PodAction, crash_percent: u64) -> bool {
        let uid = match action {
            PodAction::Create(plan) => self.truth.create(&self.sight.job, &plan, self.now, &mut self.pod_events),
            PodAction::Release(pod) => {
                self.truth.check_release(&self.sight.job, self.sight.pods.iter().find(|p| p.uid == pod.uid));
                self.truth.release(&pod.uid, &mut self.pod_events);
                pod.uid
            }
            PodAction::Delete(pod) => {
                self.truth.delete(&pod.uid, self.now, &mut self.pod_events);
                pod.uid
            }
            PodAction::Discard(pod) => {
                // Guarded by the version that was seen; a refusal is answered by a fresh read.
                let seen = self.sight.pods.iter().position(|p| p.uid == pod.uid).map(|at| self.sight.versions[at]);
                if seen != Some(self.truth.version_of(&pod.uid)) {
                    self.read_again(&pod.uid);
                    return false;
                }
                self.truth.discard(&pod.uid);
                self.truth.release(&pod.uid, &mut self.pod_events);
                if self.dice.percent(crash_percent) {
                    return true;
                }
                self.truth.delete(&pod.uid, self.now, &mut self.pod_events);
                pod.uid
            }
        };
        self.read_again(&uid);
        false
    }

    fn read_again(&mut self, uid: &str) {
        match self.truth.pods.get(uid) {
            Some(pod) if self.truth.version_of(uid) > self.sight.reached => {
                self.sight.learn_pod(self.truth.version_of(uid), pod.clone());
            }
            Some(_) => {}
            None => {
                self.sight.forget_pod(uid);
                self.sight.gone.insert(uid.to_owned());
            }
        }
    }

    /// Memory is lost; the objects are read anew.
    fn controller_restarts(&mut self) {
        self.memory = Memory::default();
        self.job_events.clear();
        self.pod_events.clear();
        self.sight = Sight {
            job: self.truth.job.clone(),
            job_version: self.truth.job_version,
            pods: self.truth.pods.values().cloned().collect(),
            versions: self.truth.pods.keys().map(|uid| self.truth.version_of(uid)).collect(),
            reached: self.truth.version,
            gone: BTreeSet::new(),
        };
    }

    fn deliver_some(&mut self) {
        for _ in 0..self.dice.below(6) {
            self.deliver_one();
        }
    }

    /// Job and pod events arrive independently of each other.
    fn deliver_one(&mut self) -> bool {
        let from_jobs = !self.job_events.is_empty() && (self.pod_events.is_empty() || self.dice.percent(50));
        if from_jobs {
            if let Some(Change::Applied(version, job)) = self.job_events.pop_front()
                && version > self.sight.job_version
            {
                self.sight.job = job;
                self.sight.job_version = version;
            }
            return true;
        }
        match self.pod_events.pop_front() {
            None => return false,
            Some(Change::Applied(version, pod)) => {
                self.sight.reached = version;
                self.sight.learn_pod(version, pod);
            }
            Some(Change::Deleted(version, uid)) => {
                self.sight.reached = version;
                self.sight.forget_pod(&uid);
            }
        }
        true
    }

    fn time_passes(&mut self) {
        let seconds = [1, 5, 30, 120, 700][usize::try_from(self.dice.below(5)).unwrap()];
        self.now = self.now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
    }

    /// A pod starts, becomes ready, restarts a container, or ends.
    fn a_pod_moves(&mut self) {
        let alive: Vec<String> =
            self.truth.pods.values().filter(|pod| !pod.ended()).map(|pod| pod.uid.clone()).collect();
        let Some(uid) = self.dice.pick(&alive).cloned() else { return };
        let (choice, code) = (self.dice.below(10), [0, 0, 0, 1, 7, 42][usize::try_from(self.dice.below(6)).unwrap()]);
        let now = self.now;
        self.truth.change(&uid, &mut self.pod_events, |pod| {
            pod.scheduled = true;
            match (pod.phase, choice) {
                (Phase::Pending, 0..8) => pod.phase = Phase::Running,
                (_, 0..3) => pod.ready_since = Some(now),
                (_, 3) => {
                    pod.restarts.total += 1;
                    pod.restarts.most += 1;
                }
                _ => {
                    pod.phase = if code == 0 { Phase::Succeeded } else { Phase::Failed };
                    pod.exits = vec![Exit { container: "main".to_owned(), code }];
                    pod.ready_since = None;
                    pod.finished = now;
                }
            }
        });
    }

    fn a_user_acts(&mut self) {
        let uids: Vec<String> = self.truth.pods.keys().cloned().collect();
        match self.dice.below(20) {
            0..8 => {
                if let Some(uid) = self.dice.pick(&uids).cloned() {
                    self.truth.delete(&uid, self.now, &mut self.pod_events);
                }
            }
            8 => {
                if let Some(uid) = self.dice.pick(&uids).cloned() {
                    self.truth.tear_out(&uid, &mut self.pod_events);
                }
            }
            9..12 => self.truth.set_suspended(true, &mut self.job_events),
            12..15 => self.truth.set_suspended(false, &mut self.job_events),
            15..19 => {
                let parallelism = u32::try_from(self.dice.below(5)).unwrap().max(1);
                let elastic = self.dice.percent(50);
                self.truth.scale(parallelism, elastic, &mut self.job_events);
            }
            _ => {
                if self.dice.percent(20) {
                    self.truth.delete_job(&mut self.job_events);
                }
            }
        }
    }
}

fn random_job(dice: &mut Dice) -> JobView {
    let completions = dice.below(6);
    let mut spec = json!({
        "parallelism": 1 + dice.below(4), "backoffLimit": dice.below(5),
        "template": {"spec": {"restartPolicy": if dice.percent(25) { "OnFailure" } else { "Never" }}},
    });
    let indexed = dice.percent(60);
    if indexed || dice.percent(75) {
        spec["completions"] = json!(completions);
    }
    if indexed {
        spec["completionMode"] = json!("Indexed");
        if dice.percent(50) {
            spec["backoffLimitPerIndex"] = json!(dice.below(3));
            spec["backoffLimit"] = json!(if dice.percent(80) { 1000 } else { 2 });
            if dice.percent(40) {
                spec["maxFailedIndexes"] = json!(dice.below(completions + 1));
            }
        }
        if dice.percent(30) && completions > 0 {
            spec["successPolicy"] = json!({"rules": [{"succeededCount": 1 + dice.below(completions)}]});
        }
    }
    if dice.percent(30) {
        let index = if spec.get("backoffLimitPerIndex").is_some() { "FailIndex" } else { "Count" };
        spec["podFailurePolicy"] = json!({"rules": [
            {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}},
            {"action": if dice.percent(50) { "FailJob" } else { index }, "onExitCodes": {"operator": "In", "values": [42]}},
        ]});
        spec["template"]["spec"]["restartPolicy"] = json!("Never");
    }
    if dice.percent(20) {
        spec["podReplacementPolicy"] = json!("Failed");
    }
    if dice.percent(20) {
        spec["activeDeadlineSeconds"] = json!(60 + dice.below(2000));
    }
    if dice.percent(10) {
        spec["suspend"] = json!(true);
    }
    let job = json!({"metadata": {"namespace": "n", "name": "j", "uid": "j"}, "spec": spec});
    serde_json::from_value(job).unwrap()
}
