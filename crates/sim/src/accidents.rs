//! Accidents: what befalls a cluster once, if ever.

use std::sync::Arc;
use std::time::Duration;

use jobferry_kubeio as kubeio;
use jobferry_testkit::fault::{Passage, Road};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::actors::{JOBS, edit};
use crate::admission::Rule;
use crate::cluster::Cluster;
use crate::dice::Dice;
use crate::faults::{ACCIDENTS_OF_MANAGER, ACCIDENTS_OF_WORKERS, Fault};
use crate::spells::{CLOSED, set_all};
use crate::truth::{Role, is_manager};
use crate::weather::Weather;

/// Of a thousand clusters, how many have an accident.
const PER_MILLE: u64 = 300;
/// How long a queue takes to list what it admits.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Something may befall a cluster, while there are faults. `roads` are those of all dispatchers to it.
pub(crate) async fn over_cluster(cluster: Cluster, roads: Vec<Road>, seed: u64, weather: Arc<Weather>) {
    let name = cluster.name.to_string();
    let mut dice = Dice::new(seed, &format!("accidents over {name}"));
    let kinds: &[Fault] = if is_manager(&name) { &ACCIDENTS_OF_MANAGER } else { &ACCIDENTS_OF_WORKERS };
    let Some(fault) = weather.faults().draw(kinds, &mut dice).filter(|_| dice.per_mille(PER_MILLE)) else { return };
    sleep(dice.seconds(10, 300)).await;
    let time = dice.seconds(1, 150);
    let backup = cluster.snapshot();
    if fault == Fault::Restored {
        cluster.work_elsewhere().await;
        sleep(time).await;
    }
    if !weather.is_storming() {
        return;
    }
    weather.count(fault, format_args!("{name}, {time:?}"));
    cluster.hub().ill(&name, "accident", true);
    if fault == Fault::QueueAdmits {
        queue_for(&cluster, time).await;
    } else {
        set_all(&roads, CLOSED);
        match fault {
            Fault::Restored => cluster.restore(&backup).await,
            Fault::Rebuilt => cluster.rebuild().await,
            _ => cluster.restart(),
        }
        sleep(dice.seconds(0, 20)).await;
        set_all(&roads, Passage::OPEN);
    }
    cluster.hub().ill(&name, "accident", false);
    cluster.hub().log.say(format_args!("-- {fault}: {name} is well again"));
}

/// Of a thousand worlds, in how many the management cluster is restored.
const RESTORES_PER_MILLE: u64 = 150;
/// The dispatchers are stopped before a restore, as the handbook says, and for so long that no create is under way any more.
const STOPPED_BEFORE: Duration = Duration::from_secs(100);

/// The management cluster may be restored from a backup, while there are faults.
pub(crate) async fn over_manager(manager: Cluster, seed: u64, weather: Arc<Weather>) {
    let mut dice = Dice::new(seed, "backups of the manager");
    if !weather.faults().has(Fault::ManagerRestored) || !dice.per_mille(RESTORES_PER_MILLE) {
        return;
    }
    sleep(dice.seconds(10, 300)).await;
    let backup = manager.snapshot();
    manager.work_elsewhere().await;
    sleep(dice.seconds(1, 150)).await;
    if !weather.is_storming() {
        return;
    }
    weather.count(Fault::ManagerRestored, format_args!("{}", manager.name));
    manager.hub().ill(&manager.name, "restored", true);
    weather.stop_dispatchers(true);
    sleep(STOPPED_BEFORE).await;
    manager.restore(&backup).await;
    weather.stop_dispatchers(false);
    manager.hub().log.say(format_args!("-- {} is restored", manager.name));
    sleep(dice.seconds(0, 300)).await;
    // Its versions pass those that it had before: what has no owner may go then.
    manager.work_elsewhere().await;
    manager.work_elsewhere().await;
    manager.hub().ill(&manager.name, "restored", false);
}

/// A queue suspends what is created, and admits all of it after a while.
async fn queue_for(cluster: &Cluster, time: Duration) {
    cluster.impose(Rule::Suspends);
    sleep(time).await;
    cluster.lift(Rule::Suspends);
    admit_all(cluster).await;
}

/// Resumes every suspended Job of a worker, as its queue does when there is room.
pub(crate) async fn admit_all(cluster: &Cluster) {
    let queue = cluster.client("queue", Role::Cluster);
    // The server may stand still for a while.
    let list: Value = loop {
        match kubeio::get(&queue, JOBS, ANSWER_WITHIN).await {
            Ok(list) => break list,
            Err(_) => sleep(ANSWER_WITHIN).await,
        }
    };
    for job in list["items"].as_array().into_iter().flatten().filter(|job| job["spec"]["suspend"] == true) {
        let name = job["metadata"]["name"].as_str().unwrap_or_default();
        edit(&queue, &format!("{JOBS}/{name}"), json!({"spec": {"suspend": false}})).await;
    }
}
