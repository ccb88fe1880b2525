//! Workloads of every other kind than Job on embedded clusters, in virtual time: the built-in kinds, a user's own and the
//! shipped examples, all through the same scenarios.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::{collections::BTreeSet, fs, pin::Pin};

use jobferry_testkit::{
    EmbeddedFleet,
    fleet::{Fleet, ScenarioError},
    scenarios::{self, Subject},
};

type Scenario = for<'a> fn(&'a Fleet, &'a Subject) -> Pin<Box<dyn Future<Output = Result<(), ScenarioError>> + 'a>>;

/// Calls a macro with every kind, by the name of its rules.
macro_rules! with_every_kind {
    ($call:ident $($before:tt)*) => {
        $call! {
            $($before)*
            appwrapper argo_workflow etl_run jaxjob jobset leader_worker_set mini_cluster mpijob paddlejob pipelinerun
            pytorchjob raycluster rayjob rayservice spark_application taskrun tfjob trainjob volcano_job xgboostjob
        }
    };
}

macro_rules! tests {
    ($scenario:ident: $($kind:ident)*) => {
        mod $scenario {
            $(
                #[test]
                fn $kind() {
                    super::play(stringify!($kind), |fleet, subject| Box::pin(super::scenarios::$scenario(fleet, subject)));
                }
            )*
        }
    };
}

macro_rules! of_every_kind {
    ($($scenario:ident)*) => { $( with_every_kind! { tests $scenario: } )* };
}

macro_rules! names {
    ($($kind:ident)*) => { [$(stringify!($kind).replace('_', "-")),*] };
}

/// One runtime for all: what a test is made of should not be compiled hundreds of times.
fn play(kind: &str, scenario: Scenario) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let embedded = EmbeddedFleet::start(&["worker-1", "worker-2"], 7).await.unwrap();
        scenario(&embedded.fleet, &Subject::of(&kind.replace('_', "-"), "team")).await.unwrap();
    });
}

#[test]
fn every_kind_that_is_built_in_or_shipped_is_played() {
    let files = |folder: &str, prefix: &str| -> Vec<String> {
        let files = fs::read_dir(format!("{}/../../{folder}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.filter_map(|name| Some(name.strip_prefix(prefix)?.strip_suffix(".yaml")?.to_owned())).collect()
    };
    let mut known: BTreeSet<String> = files("crates/core/kinds", "").into_iter().collect();
    known.extend(files("examples", "kind-"));
    // Jobs have a suite of their own, which is longer.
    known.remove("job");
    assert_eq!(BTreeSet::from(with_every_kind!(names)), known);
}

of_every_kind! {
    it_runs_on_a_worker_and_succeeds
    it_fails_as_its_mirror_does
    its_edits_reach_its_mirror
    it_is_suspended_on_its_worker
    it_waits_while_it_is_suspended
    it_takes_its_mirror_along_when_it_is_deleted
    it_leaves_nothing_on_a_worker_that_was_away
    its_name_is_taken_on_the_worker
    it_goes_where_its_kind_is_known
    it_waits_where_no_worker_knows_its_kind
    it_outlives_the_dispatcher
    it_fails_when_somebody_deletes_its_mirror
    it_fails_when_its_mirror_is_deleted_before_it_says_anything
    it_is_released_when_managed_by_goes
    it_goes_when_its_time_is_over
    it_is_left_alone_when_somebody_else_acts_on_it
    it_is_left_alone_when_somebody_else_ends_it
    it_is_left_alone_when_something_is_created_for_it
    it_is_not_placed_when_something_was_created_for_it_before
    its_result_waits_for_a_worker_that_is_away
    it_fails_when_its_worker_is_lost_for_too_long
}
