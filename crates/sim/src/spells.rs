//! Spells of bad weather: a cluster, or a dispatcher, is in trouble for a while.

use std::sync::Arc;

use jobferry_testkit::fault::{Passage, Road};
use tokio::time::sleep;

use crate::admission::Rule;
use crate::cluster::Cluster;
use crate::dice::Dice;
use crate::faults::{Fault, OF_MANAGER, OF_WORKERS};
use crate::truth::MANAGER;
use crate::weather::Weather;

pub(crate) const CLOSED: Passage = Passage { there: false, back: false };

/// Again and again, as long as there are faults, something befalls a cluster. `roads` are those of all dispatchers to it.
pub(crate) async fn over_cluster(cluster: Cluster, roads: Vec<Road>, seed: u64, weather: Arc<Weather>) {
    let name = cluster.name.to_string();
    let mut dice = Dice::new(seed, &format!("spells over {name}"));
    let kinds: &[Fault] = if name == MANAGER { &OF_MANAGER } else { &OF_WORKERS };
    loop {
        sleep(dice.seconds(5, 400)).await;
        if !weather.is_storming() {
            return;
        }
        let Some(fault) = weather.faults().draw(kinds, &mut dice) else { return };
        let time = dice.seconds(1, 150);
        weather.count(fault, format_args!("{name} for {time:?}"));
        cluster.hub().ill(&name, "spell", true);
        let rule = begin(fault, &cluster, &roads, &weather, &mut dice);
        sleep(time).await;
        set_all(&roads, Passage::OPEN);
        cluster.thaw();
        if let Some(rule) = rule {
            cluster.lift(rule);
        }
        weather.slow_down(&name, false);
        cluster.hub().ill(&name, "spell", false);
        cluster.hub().log.say(format_args!("-- {fault}: {name} is well again"));
    }
}

/// Returns the rule that the cluster has from now on.
fn begin(fault: Fault, cluster: &Cluster, roads: &[Road], weather: &Weather, dice: &mut Dice) -> Option<Rule> {
    let rule = match fault {
        Fault::OneWay => {
            let there = dice.per_mille(500);
            set_all(roads, Passage { there, back: !there });
            return None;
        }
        Fault::Freeze => {
            cluster.freeze();
            return None;
        }
        Fault::Slow => {
            weather.slow_down(&cluster.name, true);
            return None;
        }
        Fault::Quota => Rule::Quota,
        Fault::Webhook => dice.pick(&Rule::WEBHOOKS),
        Fault::NoNamespace => dice.pick(&[Rule::NoNamespace, Rule::Terminating]),
        Fault::Credentials => dice.pick(&[Rule::Denied(401), Rule::Denied(403)]),
        _ => {
            set_all(roads, CLOSED);
            return None;
        }
    };
    cluster.impose(rule);
    Some(rule)
}

pub(crate) fn set_all(roads: &[Road], passage: Passage) {
    for road in roads {
        road.set(passage);
    }
}

/// Again and again, as long as there are faults, one dispatcher reaches nobody for longer than its lease. `roads` are its
/// own to all clusters.
pub(crate) async fn over_dispatcher(name: String, roads: Vec<Road>, seed: u64, weather: Arc<Weather>) {
    let mut dice = Dice::new(seed, &format!("spells over {name}"));
    loop {
        sleep(dice.seconds(20, 500)).await;
        if !weather.is_storming() || !weather.faults().has(Fault::CutOff) {
            return;
        }
        let time = dice.seconds(16, 120);
        weather.count(Fault::CutOff, format_args!("{name} for {time:?}"));
        weather.hub().ill(&name, "cut off", true);
        set_all(&roads, CLOSED);
        sleep(time).await;
        set_all(&roads, Passage::OPEN);
        weather.hub().ill(&name, "cut off", false);
        weather.hub().log.say(format_args!("-- {name} is back"));
    }
}

/// Again and again, as long as there are faults, one dispatcher does not reach one cluster, or is not answered, while all
/// others do. `road` is the one between them.
pub(crate) async fn over_pair(name: String, cluster: String, road: Road, seed: u64, weather: Arc<Weather>) {
    let mut dice = Dice::new(seed, &format!("spells between {name} and {cluster}"));
    loop {
        sleep(dice.seconds(20, 1500)).await;
        if !weather.is_storming() || !weather.faults().has(Fault::PairCut) {
            return;
        }
        let time = dice.seconds(1, 200);
        let [deaf, mute] = [(true, false), (false, true)].map(|(there, back)| Passage { there, back });
        let passage = dice.pick(&[CLOSED, CLOSED, deaf, mute]);
        weather.count(Fault::PairCut, format_args!("{name} and {cluster} for {time:?}, {passage:?}"));
        weather.hub().disturb_for(&cluster, time);
        road.set(passage);
        sleep(time).await;
        road.set(Passage::OPEN);
        weather.hub().log.say(format_args!("-- {name} and {cluster} reach each other again"));
    }
}
