//! Random histories of a Job and its mirrors: whatever workers write and whatever the dispatcher misses, every status
//! that it writes is legal, written once, and the end arrives.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod garbage;
mod story;
#[path = "../support/mod.rs"]
mod support;
mod worker;

use job_api::{IndexSet, Rules, conditions, status};
use jobferry_core::{
    project::{fail, project},
    record::Carried,
    workload::Workload,
};
use k8s_openapi::{
    api::batch::v1::{JobCondition, JobStatus},
    jiff::{SignedDuration, Timestamp},
};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};
use std::cell::Cell;

use story::{Event, Sight, Story, story};
use support::server::Server;
use worker::{Release, Worker};

/// Stories of some sixty events each.
const STORIES: u32 = 2000;

#[test]
fn whatever_happens_every_status_is_legal_and_the_end_arrives() {
    let totals = Cell::new(Totals::default());
    let outcome = deterministic(STORIES).run(&story(), |story| {
        let mut history = History::new(&story);
        for (event, sight) in &story.events {
            history.happen(event);
            history.look(*sight);
        }
        history.conclude();
        totals.set(totals.get() + history.totals);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    let Totals { steps, looks, writes } = totals.get();
    println!("{STORIES} stories, {steps} steps, {looks} looks, {writes} writes");
    assert!(steps >= 100_000 && looks > steps / 2 && writes > looks / 10, "the stories are not worth much");
}

/// The same cases on every run: a failure is a failure for everybody.
fn deterministic(cases: u32) -> TestRunner {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::XorShift))
}

#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    steps: u32,
    looks: u32,
    writes: u32,
}

impl std::ops::Add for Totals {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { steps: self.steps + other.steps, looks: self.looks + other.looks, writes: self.writes + other.writes }
    }
}

struct History<'a> {
    story: &'a Story,
    manager: Server,
    worker: Worker,
    epoch: usize,
    carried: Carried,
    /// What the worker has published in this epoch.
    published: Vec<JobStatus>,
    now: Timestamp,
    totals: Totals,
}

impl<'a> History<'a> {
    fn new(story: &'a Story) -> Self {
        let manager = Server::new(&story.spec, &json!({}), story.rules());
        let (release, skew) = story.worker(0);
        let worker = Worker::new(release, skew, manager.workload().spec);
        let now = "2026-11-15T10:00:00.123456789Z".parse().unwrap();
        let carried = Carried::default();
        Self { story, manager, worker, epoch: 0, carried, published: Vec::new(), now, totals: Totals::default() }
    }

    fn happen(&mut self, event: &Event) {
        self.totals.steps += 1;
        self.now += SignedDuration::from_millis(1700);
        let before = (self.worker.status.clone(), self.worker.spec);
        match event {
            Event::Sync => self.worker.sync(self.now),
            Event::RunPods(active, ready) => self.worker.run_pods(*active, *ready),
            Event::EndPod(index, succeeds) => self.worker.end_pod(*index, *succeeds),
            Event::Decide(outcome) => self.worker.decide(*outcome, self.now),
            Event::Finish => self.worker.finish(self.now),
            Event::UserSuspends(suspend) => self.manager.edit(|job| job["spec"]["suspend"] = json!(suspend)),
            Event::WorkerSuspends(suspend) => self.worker.spec.suspended = *suspend,
            Event::UserScales(size) => self.scale(*size),
            Event::Forward => self.worker.spec = self.manager.workload().spec,
            Event::Move => return self.start_elsewhere(),
        }
        self.worker_is_a_fair_one(&before.0);
        self.published.push(self.worker.status.clone());
    }

    fn scale(&mut self, size: i32) {
        // How a finished Job ended is compared with the size that it had then.
        if self.manager.workload().spec.is_elastic() && !self.manager.workload().is_finished() {
            self.manager.edit(|job| {
                job["spec"]["completions"] = json!(size);
                job["spec"]["parallelism"] = json!(size);
            });
        }
    }

    /// As a move or a re-creation does: what the user's Job counted so far is carried over, the mirror starts at zero.
    fn start_elsewhere(&mut self) {
        let workload = self.manager.workload().clone();
        self.epoch += 1;
        self.carried = Carried { failed: workload.status.failed.unwrap_or(0) };
        let (release, skew) = self.story.worker(self.epoch);
        self.worker = Worker::new(release, skew, workload.spec);
        self.published.clear();
        self.published.push(self.worker.status.clone());
    }

    /// The story is worth nothing if a worker's own API server would not have accepted it.
    fn worker_is_a_fair_one(&self, before: &JobStatus) {
        if self.worker.release != Release::Old {
            let errors = status::validate(&self.worker.spec, before, &self.worker.status, Rules::newest());
            assert!(errors.is_empty(), "no worker writes this: {errors:?}");
        }
    }

    fn look(&mut self, sight: Sight) {
        let latest = self.published.len().saturating_sub(1);
        let at = match sight {
            Sight::Missed => return,
            Sight::Now => latest,
            Sight::Stale(back) => latest.saturating_sub(back),
        };
        if let Some(mirror) = self.published.get(at).cloned() {
            self.observe(&mirror);
        }
    }

    /// One look of the dispatcher: at most one write, and nothing more to write after it.
    fn observe(&mut self, mirror: &JobStatus) {
        self.totals.looks += 1;
        let before = self.manager.workload().clone();
        if let Some(next) = self.project(&before, mirror) {
            self.totals.writes += 1;
            if let Err(refusal) = self.manager.write(&before, &next) {
                panic!("{refusal:?}\nstored: {:?}\nmirror: {mirror:?}\nnext: {next:?}", before.status);
            }
        }
        self.now += SignedDuration::from_millis(1700);
        let after = self.manager.workload();
        assert_eq!(self.project(after, mirror), None, "the same look is written twice, after {:?}", after.status);
        self.check(&before, mirror, after);
        if before.resource_version != after.resource_version {
            self.dispatcher_can_always_end_it();
        }
    }

    fn project(&self, read: &Workload, mirror: &JobStatus) -> Option<JobStatus> {
        project(&read.spec, &read.status, mirror, self.carried, self.story.rules(), self.now).unwrap()
    }

    fn check(&self, before: &Workload, mirror: &JobStatus, after: &Workload) {
        let (old, new) = (&before.status, &after.status);
        let (was, is) = (list(old), list(new));
        if conditions::is_finished(was) {
            assert_eq!(old, new, "a finished Job moved");
            return;
        }
        assert_eq!(conditions::is_finished(list(mirror)), after.is_finished(), "the end got lost, or came by itself");
        assert!(new.failed.unwrap_or(0) >= self.carried.failed + mirror.failed.unwrap_or(0));
        for condition in is {
            let since = condition.last_transition_time.as_ref().unwrap().0;
            assert!(since <= self.now && condition.last_probe_time.is_some(), "{condition:?}");
        }
        for time in [&new.start_time, &new.completion_time].into_iter().flatten() {
            assert_eq!(time.0.subsec_nanosecond(), 0);
        }
        if after.spec.suspended && !after.is_finished() {
            let status_in = |list| conditions::find(list, conditions::SUSPENDED).map(|condition| &condition.status);
            let has_nothing_to_do = after.spec.completions == Some(0);
            if let Some(said) = status_in(list(mirror)).filter(|_| !has_nothing_to_do) {
                assert_eq!(status_in(is), Some(said), "that it is suspended is the mirror's word");
            }
            let has_stopped = status_in(list(mirror)).is_some_and(|status| status == "True");
            let keeps = self.story.rules().keeps_start_of_suspended() || !has_stopped;
            let kept = old.start_time.as_ref().filter(|_| keeps);
            assert_eq!(new.start_time.as_ref(), kept, "a start that is stored may stay, and none appears");
        }
        for index in 0..6 {
            let counts = after.spec.indexed && index < after.spec.completions.unwrap_or(0);
            let (done, failed) =
                (has(mirror.completed_indexes.as_ref(), index), has(mirror.failed_indexes.as_ref(), index));
            assert_eq!(has(new.completed_indexes.as_ref(), index), counts && done, "index {index}");
            assert_eq!(has(new.failed_indexes.as_ref(), index), counts && failed && !done, "index {index}");
        }
        // A start that appears is the worker's own, by its clock.
        if !after.is_finished()
            && new.start_time != old.start_time
            && let Some(start) = &new.start_time
        {
            assert_eq!(start.0, conditions::whole_seconds(mirror.start_time.as_ref().unwrap().0));
        }
    }

    /// From every stored status there is a legal end, even if no worker ever answers again.
    fn dispatcher_can_always_end_it(&self) {
        let read = self.manager.workload();
        let Some(ended) = fail(&read.status, "WorkerLost", "it is gone", self.now) else {
            assert!(read.is_finished());
            return;
        };
        assert!(conditions::is_finished(list(&ended)));
        let mut manager = self.manager.clone();
        if let Err(refusal) = manager.write(read, &ended) {
            panic!("{refusal:?}\nstored: {:?}\nended: {ended:?}", read.status);
        }
        assert_eq!(fail(&manager.workload().status, "WorkerLost", "again", self.now), None);
    }

    /// Every mirror ends one day, and then the user's Job has ended too: as the mirror did, if it was the only one.
    fn conclude(&mut self) {
        self.worker.spec.suspended = false;
        for event in [Event::Sync, Event::Decide(self.story.end), Event::Finish] {
            self.happen(&event);
        }
        self.look(Sight::Now);
        let workload = self.manager.workload();
        assert!(workload.is_finished());
        if self.epoch == 0 {
            let mut ended = self.worker.status.clone();
            if workload.spec.indexed {
                // It may have ended without hearing that it was to shrink.
                let counts = |index: &i32| has(ended.completed_indexes.as_ref(), *index);
                let counted = (0..workload.spec.completions.unwrap_or(0)).filter(counts).count();
                ended.succeeded = Some(i32::try_from(counted).unwrap());
            }
            assert_eq!(end_of(&workload.status), end_of(&ended));
        }
    }
}

fn list(status: &JobStatus) -> &[JobCondition] {
    status.conditions.as_deref().unwrap_or_default()
}

/// What "it ends as it would without Jobferry" means: type, status and reason of the end, and the counters.
fn end_of(status: &JobStatus) -> Value {
    let ends = [conditions::COMPLETE, conditions::FAILED];
    let end = list(status).iter().find(|condition| ends.contains(&condition.type_.as_str())).unwrap();
    let counters = [status.active, status.succeeded, status.failed].map(Option::unwrap_or_default);
    json!([end.type_, end.status, end.reason, counters])
}

/// Whether the index is in the list.
fn has(indexes: Option<&String>, index: i32) -> bool {
    let set = IndexSet::parse(indexes.map_or("", String::as_str), i32::MAX).unwrap();
    set.contains(u32::try_from(index).unwrap())
}
