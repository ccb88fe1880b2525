//! Every scenario ends on the management cluster as it would without Jobferry: embedded clusters, the shipped dispatcher.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod life_cycles;
#[path = "processes/setting.rs"]
mod setting;

use std::collections::BTreeMap;

use jobferry_cluster::system_clock;
use jobferry_testkit::fleet::dispatch_between;
use libtest_mimic::{Arguments, Failed, Trial};
use life_cycles::{Endings, Stage, all, differences, recorded_but_for_dispatching};
use tokio_util::sync::CancellationToken;

fn main() {
    if jobferry_node::enter_if_asked() {
        return;
    }
    let trial = Trial::test("every_dispatched_job_ends_on_embedded_clusters_as_without_jobferry", || {
        let runtime = tokio::runtime::Runtime::new().map_err(Failed::from)?;
        let found = runtime.block_on(play());
        let differences = differences(&recorded_but_for_dispatching(&found), &found);
        if differences.is_empty() { Ok(()) } else { Err(differences.join("\n").into()) }
    });
    libtest_mimic::run(&Arguments::from_args(), vec![trial]).exit();
}

async fn play() -> Endings {
    let [manager, eu, us] = [1, 2, 3].map(setting::Embedded::of_seed);
    let workers = BTreeMap::from([("eu".to_owned(), eu.client.clone()), ("us".to_owned(), us.client.clone())]);
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    dispatch_between(&manager.client, &workers, system_clock(), stop).await.unwrap();
    let notes = manager.directory.path().to_owned();
    Stage::dispatched(manager.client.clone(), workers.into_values(), notes).play(all()).await
}
