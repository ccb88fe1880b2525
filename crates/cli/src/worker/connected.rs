//! Waiting until the dispatcher is connected to a worker.

use std::time::Duration;

use anyhow::bail;
use jobferry_api::{Worker, conditions::CONNECTED};
use jobferry_kubeio as kubeio;
use kube::Client;

use super::WORKERS;
use crate::install::DEADLINE;

/// Between two looks: short beside the second or so that connecting takes.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Waits until the dispatcher is connected to the worker.
pub(crate) async fn wait_until_connected(manager: &Client, name: &str, seconds: u64) -> anyhow::Result<()> {
    let path = format!("{WORKERS}/{name}");
    let mut last = "the dispatcher has not looked at it yet; is it running?".to_owned();
    let connected = async {
        loop {
            if let Ok(worker) = kubeio::get::<Worker>(manager, &path, DEADLINE).await {
                let conditions = worker.status.unwrap_or_default().conditions;
                match conditions.iter().find(|condition| condition.type_ == CONNECTED) {
                    Some(condition) if condition.status == "True" => return,
                    Some(condition) => last.clone_from(&condition.message),
                    None => {}
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    if tokio::time::timeout(Duration::from_secs(seconds), connected).await.is_err() {
        bail!("worker {name} is not connected after {seconds} s: {last}");
    }
    Ok(())
}
