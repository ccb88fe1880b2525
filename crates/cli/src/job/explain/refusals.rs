//! Which workers refused a Job, from what the dispatcher told about it: the condition `Placed` and its Events.

use std::{collections::BTreeMap, time::Duration};

use jobferry_api::{conditions, events};
use jobferry_core::refusal::{Ground, Refusal};
use jobferry_kubeio as kubeio;
use kube::Client;
use serde::Deserialize;
use serde_json::Value;

use crate::install::DEADLINE;

/// The refusals of a Job that has not started. Events are a courtesy: without the right to read them there are fewer.
pub(super) async fn read(client: &Client, job: &Value) -> BTreeMap<String, Refusal> {
    #[derive(Deserialize)]
    struct List {
        items: Vec<Value>,
    }
    let (Some(uid), Some(namespace)) = (job["metadata"]["uid"].as_str(), job["metadata"]["namespace"].as_str()) else {
        return BTreeMap::new();
    };
    if job["status"]["startTime"].is_string() {
        return BTreeMap::new();
    }
    let path = format!("/api/v1/namespaces/{namespace}/events?fieldSelector=involvedObject.uid%3D{uid}");
    let told = kubeio::get::<List>(client, &path, DEADLINE).await.map(|list| list.items).unwrap_or_default();
    let told = told.iter().filter(|event| event["reason"] == events::REFUSED);
    let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
    let placed = conditions.filter(|condition| {
        condition["type"] == conditions::PLACED && condition["reason"] == conditions::REASON_REFUSED
    });
    told.chain(placed).filter_map(|told| refusal(told["message"].as_str()?)).collect()
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
