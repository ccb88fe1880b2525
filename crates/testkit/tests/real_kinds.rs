//! Workloads of other kinds than Job on real clusters: what their API servers make of our notes, edits and statuses. One
//! fleet for all, one scenario after the other. No operator runs: the scenarios say what it would.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use jobferry_testkit::{
    RealFleet,
    scenarios::{self, Subject},
};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real Kubernetes: cargo xtask test"]
async fn other_kinds_than_job_live_on_real_clusters_too() {
    let clusters = RealFleet::start(&["manager", "worker-1", "worker-2"]).await.unwrap();
    let fleet = clusters.undispatched_with_kinds().await.unwrap();
    // A dispatcher asks every half a minute which kinds there are: before it starts, nobody has to wait.
    for subject in [Subject::of("jobset", "early"), Subject::of("etl-run", "early")] {
        subject.install(&fleet, &fleet.two_workers()).await.unwrap();
    }
    fleet.start_dispatcher().await;
    macro_rules! play {
        ($($scenario:ident $kind:literal $namespace:literal;)*) => {$(
            scenarios::$scenario(&fleet, &Subject::of($kind, $namespace)).await.unwrap();
        )*};
    }
    play! {
        it_runs_on_a_worker_and_succeeds "jobset" "succeeding";
        it_fails_as_its_mirror_does "etl-run" "failing";
        it_is_suspended_on_its_worker "jobset" "suspending";
        it_takes_its_mirror_along_when_it_is_deleted "etl-run" "deleting";
        it_is_released_when_managed_by_goes "jobset" "releasing";
        it_is_left_alone_when_somebody_else_acts_on_it "etl-run" "contested";
        it_is_left_alone_when_something_is_created_for_it "jobset" "run-here";
    }
}
