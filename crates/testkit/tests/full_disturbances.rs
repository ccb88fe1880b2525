//! The long scenarios that want the fleet for themselves, on real clusters: one after the other, each on a fleet that was put
//! in order before.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::sync::LazyLock;

use jobferry_testkit::{RealFleet, fleet::Fleet, for_each_long_disturbance, scenarios};
use tokio::{
    runtime::Runtime,
    sync::{Mutex, OnceCell},
};

/// The fleet's connections and its dispatchers live here, whichever test came first.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
/// Held by the scenario that has the fleet.
static TURN: Mutex<()> = Mutex::const_new(());

async fn fleet() -> &'static Fleet {
    static FLEET: OnceCell<Fleet> = OnceCell::const_new();
    FLEET.get_or_init(|| async { RealFleet::shared().await.unwrap().undispatched().await.unwrap() }).await
}

macro_rules! real {
    ($scenario:ident) => {
        #[test]
        #[ignore = "needs real Kubernetes: cargo xtask test --full"]
        fn $scenario() {
            RUNTIME.block_on(async {
                let (fleet, _turn) = (fleet().await, TURN.lock().await);
                fleet.restore().await.unwrap();
                scenarios::$scenario(fleet).await.unwrap();
            });
        }
    };
}
for_each_long_disturbance!(real);
