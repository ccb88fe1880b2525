//! Jobs that come at a steady rate, whether or not those before them have been dispatched.

use std::{sync::Arc, time::Duration};

use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};

use crate::{mirrors::Mirrors, world::World};

/// Creates `rate` Jobs a second for so long. What becomes of them is in the timeline.
pub(crate) async fn create(world: &World, mirrors: &Mirrors, prefix: &str, rate: f64, seconds: u32) {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few hundred thousand")]
    let jobs = (rate * f64::from(seconds)) as u32;
    let names: Vec<String> = (0..jobs).map(|number| format!("{prefix}-{number:06}")).collect();
    mirrors.timeline.expect(&names);
    let (begun, pause) = (Instant::now(), Duration::from_secs_f64(1.0 / rate));
    let mut creations = JoinSet::new();
    for (number, name) in (0..).zip(names) {
        sleep_until(begun + pause * number).await;
        let (timeline, manager) = (Arc::clone(&mirrors.timeline), world.manager.jobs());
        creations.spawn(async move {
            timeline.sent(&name);
            manager.create(&name).await;
        });
        while creations.try_join_next().is_some() {}
    }
    creations.join_all().await;
}
