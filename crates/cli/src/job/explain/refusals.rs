//! Which workers refused a workload, from what the dispatcher told about it: what it says of the placement, and its Events.

use std::{collections::BTreeMap, time::Duration};

use jobferry_api::{conditions, events};
use jobferry_core::{
    refusal::{Ground, Refusal},
    workload::Workload,
};
use jobferry_kubeio as kubeio;
use kube::Client;
use serde::Deserialize;
use serde_json::Value;

use crate::install::DEADLINE;

/// The refusals of a workload that has not started. Events are a courtesy: without the right to read them there are fewer.
pub(super) async fn read(client: &Client, workload: &Workload) -> BTreeMap<String, Refusal> {
    #[derive(Deserialize)]
    struct List {
        items: Vec<Value>,
    }
    if workload.status.start_time.is_some() {
        return BTreeMap::new();
    }
    let Workload { namespace, uid, .. } = workload;
    let path = format!("/api/v1/namespaces/{namespace}/events?fieldSelector=involvedObject.uid%3D{uid}");
    let events = kubeio::get::<List>(client, &path, DEADLINE).await.map(|list| list.items).unwrap_or_default();
    let events = events.iter().filter(|event| event["reason"] == events::REFUSED);
    let placed = workload.placed.iter().filter(|told| told.reason == conditions::REASON_REFUSED);
    let told = events.filter_map(|event| event["message"].as_str()).chain(placed.map(|told| told.message.as_str()));
    told.filter_map(refusal).collect()
}

/// `worker eu-1 refuses: its words`, as the dispatcher says it.
fn refusal(message: &str) -> Option<(String, Refusal)> {
    let (worker, why) = message.strip_prefix("worker ")?.split_once(" refuses: ")?;
    // When it is asked again only the dispatcher knows; here it holds for as long as it is told.
    let refusal = Refusal { epoch: 0, ground: Ground::Denied, why: why.to_owned(), at: Duration::ZERO, times: 1 };
    Some((worker.to_owned(), refusal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_worker_and_its_words() {
        let (worker, refusal) = refusal("worker eu-1 refuses: exceeded quota: q").unwrap();
        assert_eq!((worker.as_str(), refusal.why.as_str()), ("eu-1", "exceeded quota: q"));
        assert!(super::refusal("leaves worker eu-1, which refuses it").is_none());
    }
}
