//! Partitions: the road between all dispatchers and one cluster is closed for a while, in one or both directions.

use std::sync::Arc;

use jobferry_testkit::fault::{Passage, Road};
use tokio::time::sleep;

use crate::dice::Dice;
use crate::faults::{Fault, OF_ROADS};
use crate::weather::Weather;

/// Closes and opens one road again and again, as long as there are faults.
pub(crate) async fn close_now_and_then(cluster: String, seed: u64, road: Road, weather: Arc<Weather>) {
    let mut dice = Dice::new(seed, &format!("road to {cluster}"));
    loop {
        sleep(dice.seconds(5, 400)).await;
        if !weather.is_storming() {
            return;
        }
        let Some(fault) = weather.faults().draw(&OF_ROADS, &mut dice) else { return };
        let there = fault == Fault::OneWay && dice.per_mille(500);
        let passage = Passage { there, back: fault == Fault::OneWay && !there };
        let time = dice.seconds(1, 150);
        weather.count(fault, format_args!("{cluster} for {time:?}: {passage:?}"));
        road.set(passage);
        sleep(time).await;
        weather.count(fault, format_args!("{cluster} is over"));
        road.set(Passage::OPEN);
    }
}
