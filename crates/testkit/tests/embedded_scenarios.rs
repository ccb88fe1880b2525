//! Every scenario on embedded clusters, in virtual time.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use jobferry_testkit::{
    EmbeddedFleet, for_each_disturbance, for_each_long_disturbance, for_each_long_scenario, for_each_scenario,
    scenarios,
};

macro_rules! embedded {
    ($scenario:ident) => {
        #[tokio::test(start_paused = true)]
        async fn $scenario() {
            let embedded = EmbeddedFleet::start(&["worker-1", "worker-2"], 7).await.unwrap();
            scenarios::$scenario(&embedded.fleet).await.unwrap();
        }
    };
}
for_each_scenario!(embedded);
for_each_long_scenario!(embedded);
for_each_disturbance!(embedded);
for_each_long_disturbance!(embedded);
