//! What may happen to one Job, as values that proptest can draw and shrink.

use job_api::Rules;
use k8s_openapi::jiff::SignedDuration;
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Value, json};

use crate::worker::{Outcome, Release};

/// One Job, one manager, its workers, and what happens.
#[derive(Clone, Debug)]
pub(crate) struct Story {
    pub(crate) spec: Value,
    pub(crate) server: (u32, u32),
    /// Every mirror runs on the next of these, with its clock.
    pub(crate) workers: Vec<(Release, i64)>,
    pub(crate) events: Vec<(Event, Sight)>,
    pub(crate) end: Outcome,
}

impl Story {
    pub(crate) fn rules(&self) -> Rules {
        rules(self.server)
    }

    pub(crate) fn worker(&self, epoch: usize) -> (Release, SignedDuration) {
        let (release, skew) = self.workers[epoch % self.workers.len()];
        (release, SignedDuration::from_secs(skew))
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// The worker's controller looks at the mirror.
    Sync,
    RunPods(i32, i32),
    EndPod(u32, bool),
    Decide(Outcome),
    Finish,
    /// The user suspends or resumes.
    UserSuspends(bool),
    /// Somebody on the worker does: its own queueing system.
    WorkerSuspends(bool),
    /// The user scales an elastic Job.
    UserScales(i32),
    /// The user's spec reaches the mirror.
    Forward,
    /// The mirror is lost; another one starts elsewhere.
    Move,
}

/// Whether the dispatcher looks after an event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sight {
    /// It sees the mirror as it is.
    Now,
    /// It sees the mirror as it was some looks ago: a watch cache that went back in time.
    Stale(usize),
    /// It misses this state.
    Missed,
}

pub(crate) fn spec() -> impl Strategy<Value = Value> {
    let indexed = (1..6i32, 1..6i32, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(completions, parallelism, elastic, per_index, success_policy)| {
            let parallelism = if elastic { completions } else { parallelism };
            let mut spec = json!({"completionMode": "Indexed", "completions": completions, "parallelism": parallelism});
            if per_index {
                spec["backoffLimitPerIndex"] = json!(1);
            }
            if success_policy {
                spec["successPolicy"] = json!({"rules": [{"succeededCount": 1}]});
            }
            spec
        },
    );
    let plain = (proptest::option::of(0..6i32), 1..6i32)
        .prop_map(|(completions, parallelism)| json!({"completions": completions, "parallelism": parallelism}));
    prop_oneof![2 => plain, 3 => indexed]
}

/// The first and the last of the patch releases that differ, and newer ones.
pub(crate) const SERVERS: [(u32, u32); 12] =
    [(32, 0), (32, 6), (32, 7), (32, 9), (32, 10), (33, 5), (33, 6), (34, 1), (34, 2), (35, 0), (36, 1), (37, 0)];

/// The rules of that server, by minor and patch release.
pub(crate) const fn rules((minor, patch): (u32, u32)) -> Rules {
    Rules::for_server(1, minor, Some(patch))
}

fn outcome() -> impl Strategy<Value = Outcome> {
    select(vec![
        Outcome::Success,
        Outcome::Failure("BackoffLimitExceeded"),
        Outcome::Failure("DeadlineExceeded"),
        Outcome::Failure("FailedIndexes"),
    ])
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        12 => Just(Event::Sync),
        10 => (0..5i32, 0..5i32).prop_map(|(active, ready)| Event::RunPods(active, ready)),
        12 => (0..6u32, any::<bool>()).prop_map(|(index, succeeds)| Event::EndPod(index, succeeds)),
        1 => outcome().prop_map(Event::Decide),
        2 => Just(Event::Finish),
        6 => any::<bool>().prop_map(Event::UserSuspends),
        3 => any::<bool>().prop_map(Event::WorkerSuspends),
        3 => (1..6i32).prop_map(Event::UserScales),
        8 => Just(Event::Forward),
        2 => Just(Event::Move),
    ]
}

fn sight() -> impl Strategy<Value = Sight> {
    prop_oneof![10 => Just(Sight::Now), 1 => (1..4usize).prop_map(Sight::Stale), 4 => Just(Sight::Missed)]
}

pub(crate) fn story() -> impl Strategy<Value = Story> {
    let release = select(vec![Release::Old, Release::Recent, Release::New]);
    let skew = prop_oneof![Just(0i64), -7200..7200i64];
    (spec(), select(SERVERS.to_vec()), vec((release, skew), 1..4), vec((event(), sight()), 40..80), outcome())
        .prop_map(|(spec, server, workers, events, end)| Story { spec, server, workers, events, end })
}
