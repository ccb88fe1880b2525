//! The operator of a kind, as it was released, on the manager and on a worker.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use futures::future::try_join_all;
use jobferry_testkit::{
    Operator, RealFleet,
    operator::JOBSET,
    scenarios::{self, Specimen},
};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real Kubernetes: cargo xtask test"]
async fn a_job_set_lives_under_the_operator_of_its_worker() {
    let clusters = RealFleet::start(&["manager", "worker"]).await.unwrap();
    let _operators =
        try_join_all(clusters.clusters().iter().map(|cluster| Operator::start(&JOBSET, cluster))).await.unwrap();
    let fleet = clusters.undispatched_with_kinds().await.unwrap();
    fleet.start_dispatcher().await;
    let specimen = Specimen::read(include_str!("../specimens/jobset.yaml"));
    tokio::try_join!(
        scenarios::it_is_left_alone_on_the_manager(&fleet, &specimen),
        scenarios::it_lives_on_its_worker(&fleet, &specimen),
    )
    .unwrap();
}
