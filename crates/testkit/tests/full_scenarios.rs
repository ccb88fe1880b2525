//! The long scenarios that leave the fleet alone, on real clusters: they wait for quarantines and schedules.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::sync::LazyLock;

use jobferry_testkit::{RealFleet, fleet::Fleet, for_each_long_scenario, scenarios};
use tokio::{runtime::Runtime, sync::OnceCell};

/// The fleet's connections and its dispatcher live here, whichever test came first.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

async fn fleet() -> &'static Fleet {
    static FLEET: OnceCell<Fleet> = OnceCell::const_new();
    FLEET.get_or_init(|| async { RealFleet::shared().await.unwrap().dispatched().await.unwrap() }).await
}

macro_rules! real {
    ($scenario:ident) => {
        #[test]
        #[ignore = "needs real Kubernetes: cargo xtask test --full"]
        fn $scenario() {
            RUNTIME.block_on(async { scenarios::$scenario(fleet().await).await }).unwrap();
        }
    };
}
for_each_long_scenario!(real);
