//! Our Job controller runs delegated Jobs on a real cluster, beside the built-in one; and the recording of how the
//! built-in one ends the same scenarios (`JOBFERRY_RECORD=1`).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod life_cycles;
#[path = "processes/setting.rs"]
mod setting;

use jobferry_testkit::{RealCluster, Testbed, User};
use libtest_mimic::{Arguments, Failed, Trial};
use life_cycles::{Endings, Stage, all, differences, recorded, recording};

const LOCAL: &str = "jobferry.dev/local";

fn main() {
    if jobferry_node::enter_if_asked() {
        return;
    }
    let trial = Trial::test("every_delegated_job_ends_as_under_the_built_in_controller", || {
        let runtime = tokio::runtime::Runtime::new().map_err(Failed::from)?;
        if std::env::var_os("JOBFERRY_RECORD").is_some() {
            let endings = runtime.block_on(play(None));
            std::fs::write(recording(), serde_json::to_string_pretty(&endings).unwrap() + "\n").unwrap();
        }
        let differences = differences(&recorded(), &runtime.block_on(play(Some(LOCAL))));
        if differences.is_empty() { Ok(()) } else { Err(differences.join("\n").into()) }
    });
    libtest_mimic::run(&Arguments::from_args(), vec![trial.with_ignored_flag(true)]).exit();
}

/// Plays everything on a fresh cluster whose Jobs are run by the built-in controller, or by ours.
async fn play(managed_by: Option<&'static str>) -> Endings {
    let cluster = RealCluster::start_scratch(&Testbed::from_environment().unwrap(), "parity").await.unwrap();
    let client = cluster.client(User::Admin).await.unwrap();
    let world = setting::Workers::start(client.clone(), managed_by);
    Stage::new(client, managed_by, world.directory.path().to_owned()).play(all()).await
}
