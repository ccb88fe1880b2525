//! One worker of five takes connections and never answers: what the others notice of it.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    Arguments,
    dispatcher::{Dispatcher, Under},
    flow,
    measure::{spread::Quantiles, timeline::between},
    mirrors::{Lives, Mirrors},
    world::World,
};

const WORKERS: usize = 5;
/// Jobs a second: well below what the machine can do, so that times are those of the dispatcher.
const RATE: f64 = 100.0;
/// Each with and without, in turn.
const ROUNDS: usize = 2;
/// Jobs that were under way when the last one was created are over by then.
const SETTLE: Duration = Duration::from_secs(3);

/// From creation to mirror, on the four workers that answer.
pub(crate) struct Hung {
    pub(crate) all_well: Quantiles,
    pub(crate) beside_it: Quantiles,
    /// Jobs that the hung worker collected, in each round.
    pub(crate) stuck: usize,
}

pub(crate) async fn measure(arguments: &Arguments) -> Hung {
    let world = World::start(&arguments.jobferry, WORKERS).await;
    let mirrors = Mirrors::follow(&world, Lives::Whole);
    let dispatcher = Dispatcher::start(&world, &arguments.jobferry, Under::Nothing);
    dispatcher.until_steady(WORKERS, 0).await;
    flow::create(&world, &mirrors, "warm-up", RATE, 5).await;
    sleep(SETTLE).await;

    let last = &world.workers[WORKERS - 1].server;
    let (mut well, mut hung, mut stuck) = (Vec::new(), Vec::new(), BTreeSet::new());
    for round in 0..ROUNDS {
        well.extend(half(arguments, &world, &mirrors, &format!("well-{round}")).await.0);
        last.freeze();
        let (times, never) = half(arguments, &world, &mirrors, &format!("hung-{round}")).await;
        hung.extend(times);
        stuck.insert(never);
        last.thaw();
        sleep(SETTLE * 10).await;
    }
    Hung {
        all_well: Quantiles::of(well).unwrap(),
        beside_it: Quantiles::of(hung).unwrap(),
        stuck: stuck.into_iter().max().unwrap_or_default(),
    }
}

/// Times to the mirror on all workers but the last; how many Jobs have none.
async fn half(arguments: &Arguments, world: &World, mirrors: &Mirrors, prefix: &str) -> (Vec<Duration>, usize) {
    flow::create(world, mirrors, prefix, RATE, arguments.hung_seconds).await;
    sleep(SETTLE).await;
    let lives = mirrors.timeline.lives();
    let others = lives.iter().filter(|life| life.worker.is_some_and(|worker| worker != WORKERS - 1));
    let times = others.filter_map(|life| between(life.sent, life.mirror)).collect();
    (times, lives.iter().filter(|life| life.mirror.is_none()).count())
}

impl Hung {
    pub(crate) fn json(&self) -> Value {
        json!({
            "allWell": self.all_well.json(), "oneHung": self.beside_it.json(), "stuck": self.stuck,
            "p99Ratio": self.beside_it.p99 / self.all_well.p99,
        })
    }
}
