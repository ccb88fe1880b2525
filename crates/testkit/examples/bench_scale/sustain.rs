//! The highest rate at which Jobs have their mirrors in time, for as long as it is asked for.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    Arguments,
    dispatcher::{Dispatcher, Under},
    flow,
    measure::{
        spread::Quantiles,
        timeline::{Life, between},
    },
    mirrors::{Lives, Mirrors},
    world::World,
};

/// 99 of 100 Jobs must have their mirror within this time.
const IN_TIME_MILLISECONDS: f64 = 1000.0;
/// Of one step of the search.
const STEP_SECONDS: u32 = 20;
/// From one step to the next.
const FACTOR: f64 = 1.3;
/// The machine may have been lucky for the length of a step: the long run asks for this much of what it showed.
const LONG_RUN: f64 = 0.8;
/// In its first seconds a dispatcher waits for what its canary tells; that is no matter of rates.
const SETTLE: Duration = Duration::from_secs(10);
/// Until the dispatcher has heard of the last Job.
const HEARD_WITHIN: Duration = Duration::from_secs(1);
/// Who keeps up with what comes is through with the rest in this time, however long it came.
const THROUGH_WITHIN: Duration = Duration::from_secs(5);
/// And has made this part of what was asked for while it came.
const KEPT_UP: f64 = 0.95;

/// What was found at one rate.
pub(crate) struct Step {
    pub(crate) rate: f64,
    pub(crate) seconds: u32,
    /// From the first creation to the last mirror.
    pub(crate) mirrored_per_second: f64,
    /// From creation to mirror.
    pub(crate) mirror: Quantiles,
    /// Jobs that had no mirror at the end.
    pub(crate) missing: usize,
    /// From the last creation until nothing was left to do.
    pub(crate) drained: Duration,
    /// CPU time of the dispatcher a second.
    pub(crate) cpu: f64,
}

impl Step {
    fn holds(&self) -> bool {
        let kept_up = self.mirrored_per_second >= self.rate * KEPT_UP && self.drained <= THROUGH_WITHIN;
        self.missing == 0 && self.mirror.p99 < IN_TIME_MILLISECONDS && kept_up
    }

    fn json(&self) -> Value {
        json!({
            "jobsPerSecond": self.rate, "seconds": self.seconds, "mirroredPerSecond": self.mirrored_per_second,
            "createToMirrorMilliseconds": self.mirror.json(), "missing": self.missing,
            "drainedSeconds": self.drained.as_secs_f64(), "dispatcherCpu": self.cpu,
        })
    }
}

pub(crate) struct Sustained {
    pub(crate) workers: usize,
    /// The search, and the long run at its end.
    pub(crate) steps: Vec<Step>,
}

pub(crate) async fn measure(arguments: &Arguments, workers: usize) -> Sustained {
    let world = World::start(&arguments.jobferry, workers).await;
    let mirrors = Mirrors::follow(&world, Lives::Whole);
    let dispatcher = Dispatcher::start(&world, &arguments.jobferry, Under::Nothing);
    dispatcher.until_steady(workers, 0).await;
    flow::create(&world, &mirrors, "warm-up", 20.0, 5).await;
    sleep(SETTLE).await;
    let (mut steps, mut rate) = (Vec::new(), arguments.sustain_from);
    loop {
        let step = hold(&world, &mirrors, &dispatcher, rate, STEP_SECONDS).await;
        let holds = step.holds();
        steps.push(step);
        if !holds {
            break;
        }
        rate *= FACTOR;
    }
    rate *= LONG_RUN / FACTOR;
    while rate >= 1.0 {
        let step = hold(&world, &mirrors, &dispatcher, rate, arguments.sustain_seconds).await;
        let holds = step.holds();
        steps.push(step);
        if holds {
            break;
        }
        rate *= LONG_RUN;
    }
    Sustained { workers, steps }
}

async fn hold(world: &World, mirrors: &Mirrors, dispatcher: &Dispatcher, rate: f64, seconds: u32) -> Step {
    let cpu_before = dispatcher.process.cpu();
    flow::create(world, mirrors, &format!("at-{rate:.0}-{seconds}"), rate, seconds).await;
    let cpu = dispatcher.process.cpu_since(cpu_before).as_secs_f64() / f64::from(seconds);
    let begun = Instant::now();
    sleep(HEARD_WITHIN).await;
    dispatcher.until_steady(world.workers.len(), 0).await;
    let drained = begun.elapsed();
    let lives = mirrors.timeline.lives();
    let missing = lives.iter().filter(|life| life.mirror.is_none()).count();
    let mirror = Quantiles::of(lives.iter().filter_map(|life| between(life.sent, life.mirror))).unwrap();
    let step = Step { rate, seconds, mirrored_per_second: mirrored_per_second(&lives), mirror, missing, drained, cpu };
    eprintln!(
        "{rate:.0} Jobs/s for {seconds} s: {mirror}, {missing} missing, {drained:.1?} more, dispatcher {cpu:.2} CPUs"
    );
    step
}

fn mirrored_per_second(lives: &[Life]) -> f64 {
    let first = lives.iter().filter_map(|life| life.sent).min();
    let last = lives.iter().filter_map(|life| life.mirror).max();
    #[allow(clippy::cast_precision_loss, reason = "a few hundred thousand")]
    let mirrored = lives.iter().filter(|life| life.mirror.is_some()).count() as f64;
    between(first, last).map_or(0.0, |time| mirrored / time.as_secs_f64())
}

impl Sustained {
    /// The steps of the search, which are equally long.
    pub(crate) fn search(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|step| step.seconds == STEP_SECONDS)
    }

    /// The long run, if it held.
    pub(crate) fn held(&self) -> Option<&Step> {
        self.steps.last().filter(|step| step.holds())
    }

    pub(crate) fn json(&self) -> Value {
        let steps: Vec<Value> = self.steps.iter().map(Step::json).collect();
        json!({"workers": self.workers, "steps": steps, "held": self.held().map(Step::json)})
    }
}
