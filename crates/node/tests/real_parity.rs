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
    let both = Trial::test("delegated_and_plain_jobs_run_side_by_side", || {
        let runtime = tokio::runtime::Runtime::new().map_err(Failed::from)?;
        let found = runtime.block_on(play_side_by_side());
        let expected = recorded().into_iter().filter(|(name, _)| found.contains_key(name)).collect();
        let differences = differences(&expected, &found);
        if differences.is_empty() { Ok(()) } else { Err(differences.join("\n").into()) }
    });
    let trials = [trial, both].map(|trial| trial.with_ignored_flag(true));
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit();
}

/// Every second scenario is for the built-in controller, the others for ours, all at the same time: each ends as it
/// should only if neither controller touches the other's Jobs.
async fn play_side_by_side() -> Endings {
    let cluster = RealCluster::start_scratch(&Testbed::from_environment().unwrap(), "both").await.unwrap();
    let client = cluster.client(User::Admin).await.unwrap();
    let world = setting::Workers::start(client.clone(), Some(LOCAL));
    let few = all().into_iter().take(26).enumerate();
    let (plain, delegated): (Vec<_>, Vec<_>) = few.partition(|(position, _)| position % 2 == 0);
    let stage = |managed_by| Stage::new(client.clone(), managed_by, world.directory.path().to_owned());
    let (built_in, ours) = (stage(None), stage(Some(LOCAL)));
    let scenarios = |list: Vec<(usize, _)>| list.into_iter().map(|(_, scenario)| scenario).collect();
    let (mut endings, others) = tokio::join!(built_in.play(scenarios(plain)), ours.play(scenarios(delegated)));
    endings.extend(others);
    endings
}

/// Plays everything on a fresh cluster whose Jobs are run by the built-in controller, or by ours.
async fn play(managed_by: Option<&'static str>) -> Endings {
    let cluster = RealCluster::start_scratch(&Testbed::from_environment().unwrap(), "parity").await.unwrap();
    let client = cluster.client(User::Admin).await.unwrap();
    let world = setting::Workers::start(client.clone(), managed_by);
    Stage::new(client, managed_by, world.directory.path().to_owned()).play(all()).await
}
