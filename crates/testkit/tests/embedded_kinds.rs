//! Workloads of other kinds than Job on embedded clusters, in virtual time: a built-in kind and a user's own.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use jobferry_testkit::{
    EmbeddedFleet,
    scenarios::{self, Subject},
};

macro_rules! of_each_kind {
    ($($scenario:ident)*) => {$(
        mod $scenario {
            use super::*;

            async fn plays(subject: Subject) {
                let embedded = EmbeddedFleet::start(&["worker-1", "worker-2"], 7).await.unwrap();
                scenarios::$scenario(&embedded.fleet, &subject).await.unwrap();
            }

            #[tokio::test(start_paused = true)]
            async fn job_set() {
                plays(Subject::job_set("team")).await;
            }

            #[tokio::test(start_paused = true)]
            async fn etl_run() {
                plays(Subject::etl_run("team")).await;
            }
        }
    )*};
}

of_each_kind! {
    it_runs_on_a_worker_and_succeeds
    it_fails_as_its_mirror_does
    it_is_suspended_on_its_worker
    it_waits_while_it_is_suspended
    it_takes_its_mirror_along_when_it_is_deleted
    it_leaves_nothing_on_a_worker_that_was_away
    its_name_is_taken_on_the_worker
    it_goes_where_its_kind_is_known
    it_waits_where_no_worker_knows_its_kind
    it_outlives_the_dispatcher
    it_fails_when_somebody_deletes_its_mirror
    it_is_released_when_managed_by_goes
    it_goes_when_its_time_is_over
    it_is_left_alone_when_somebody_else_acts_on_it
    it_is_left_alone_when_something_is_created_for_it
    it_is_not_placed_when_something_was_created_for_it_before
    its_result_waits_for_a_worker_that_is_away
    it_fails_when_its_worker_is_lost_for_too_long
}
