//! Every scenario ends on the management cluster as it would without Jobferry: real clusters, the shipped dispatcher.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod life_cycles;
#[path = "processes/setting.rs"]
mod setting;

use std::collections::BTreeMap;

use jobferry_cluster::system_clock;
use jobferry_testkit::{RealCluster, Testbed, User, fleet::dispatch_between};
use libtest_mimic::{Arguments, Failed, Trial};
use life_cycles::{Endings, Stage, all, differences, recorded_but_for_dispatching};
use tokio_util::sync::CancellationToken;

fn main() {
    if jobferry_node::enter_if_asked() {
        return;
    }
    let trial = Trial::test("every_dispatched_job_ends_on_real_clusters_as_without_jobferry", || {
        let runtime = tokio::runtime::Runtime::new().map_err(Failed::from)?;
        let found = runtime.block_on(play());
        let differences = differences(&recorded_but_for_dispatching(&found), &found);
        if differences.is_empty() { Ok(()) } else { Err(differences.join("\n").into()) }
    });
    libtest_mimic::run(&Arguments::from_args(), vec![trial.with_ignored_flag(true)]).exit();
}

async fn play() -> Endings {
    let testbed = Testbed::from_environment().unwrap();
    let start = |name: &'static str| RealCluster::start_scratch(&testbed, name);
    let (manager, eu, us) = tokio::try_join!(start("manager"), start("eu"), start("us")).unwrap();
    let (mut workers, mut with_nodes) = (BTreeMap::new(), Vec::new());
    for cluster in [&eu, &us] {
        let client = cluster.client(User::Admin).await.unwrap();
        with_nodes.push(setting::Workers::start(client.clone(), None));
        workers.insert(cluster.name().to_owned(), client);
    }
    let client = manager.client(User::Admin).await.unwrap();
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    dispatch_between(&client, &workers, system_clock(), stop).await.unwrap();
    let notes = with_nodes[0].directory.path().to_owned();
    Stage::dispatched(client, workers.into_values(), notes).play(all()).await
}
