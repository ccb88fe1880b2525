//! What Jobferry does, as scenarios that run on embedded clusters and on real ones by the same code.
//!
//! A scenario is an `async fn(&Fleet) -> Result<(), ScenarioError>` that works in a namespace of its own and panics, as
//! tests do, when something is not as it should be. [`for_each_scenario!`](crate::for_each_scenario) lists them all.

#![allow(clippy::panic, clippy::missing_panics_doc, reason = "scenarios are tests: they fail by panicking")]

mod dispatch;
mod edits;
mod job;

pub use dispatch::*;
pub use edits::*;
pub use job::{JobManifest, condition, is_complete, is_failed};

/// Calls the macro `$test` with the name of every scenario.
#[macro_export]
macro_rules! for_each_scenario {
    ($test:ident) => {
        $test!(a_delegated_job_runs_on_a_worker_and_is_complete_on_the_manager);
        $test!(a_failing_job_fails_on_the_manager_for_the_reason_that_the_worker_gave);
        $test!(an_indexed_job_shows_its_indexes_on_the_manager);
        $test!(jobs_that_are_not_delegated_run_on_the_manager);
        $test!(a_job_of_another_controller_is_not_touched);
        $test!(deleting_the_job_removes_its_mirror);
        $test!(a_suspended_job_waits_until_it_is_resumed);
        $test!(a_job_goes_where_its_annotation_says);
        $test!(a_job_that_fits_nowhere_says_so);
        $test!(a_name_taken_on_the_worker_is_reported_and_left_alone);
        $test!(a_job_that_one_worker_refuses_goes_to_another);
        $test!(a_job_deleted_and_submitted_again_runs_again);
        $test!(a_mirror_deleted_by_somebody_fails_the_job);
        $test!(marks_taken_off_a_mirror_are_put_back);
        $test!(a_running_job_is_suspended_and_resumed_on_its_worker);
        $test!(edits_of_a_running_job_reach_its_mirror);
        $test!(what_the_worker_does_to_a_mirror_is_reported_not_fought);
        $test!(an_edit_that_the_worker_refuses_is_told);
    };
}
