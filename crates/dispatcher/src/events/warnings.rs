//! Reasons from below: what a worker's own controllers complain about on a mirror (`FailedCreate`: a quota, a missing
//! ServiceAccount, a policy) or on its pods (no node fits, a Secret or a volume is missing, an image cannot be pulled) is
//! repeated on the user's Job, where the user looks.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use jobferry_api::{Worker, annotations, labels};
use jobferry_kubeio::{
    self as kubeio, Collection, Event,
    events::{About, Happening, Severity},
};
use kube::Client;
use serde::Deserialize;
use serde_json::Value;

use super::about_job;
use crate::{
    Shared, paths,
    scope::{self, Scope},
};

const DEADLINE: Duration = Duration::from_secs(5);
/// Objects whose owner is remembered. A worker in trouble complains about the same ones again and again.
const REMEMBERED: usize = 2048;
/// What keeps a pod from running. Other warnings (a probe, an eviction) come and go while it runs.
const HINDRANCES: [&str; 7] = [
    "FailedScheduling",
    "FailedMount",
    "FailedAttachVolume",
    "FailedCreatePodSandBox",
    "Failed",
    "BackOff",
    "InspectFailed",
];

/// An Event of a worker, as far as it is repeated.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Complaint {
    metadata: Meta,
    involved_object: Object,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    resource_version: String,
}

#[derive(Debug, Deserialize)]
struct Object {
    kind: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    uid: String,
}

/// Repeats the warnings of one worker for as long as it is polled. It has a task of its own: nothing waits for it.
pub(crate) async fn repeat_warnings(shared: Arc<Shared>, worker: Worker, client: Client) {
    let about = |kind: &'static str| {
        scope::watch(&client, &Scope::all_of(&worker), ("/api/v1", "events"), |path| {
            Collection::new(path, |complaint: &Complaint| &complaint.metadata.resource_version)
                .fields(format!("involvedObject.kind={kind},type=Warning"))
                .seed(shared.options.seed)
        })
    };
    let mut events = stream::select(about("Job"), about("Pod"));
    let worker = worker.metadata.name.unwrap_or_default();
    let mut owners = Owners::default();
    while let Some((_, event)) = events.next().await {
        match event {
            Event::Applied(complaint) if complaint.is_worth_repeating() && is_near_ours(&shared, &complaint) => {
                if let Some(about) = owners.owner_of(&shared, &client, &complaint.involved_object).await {
                    shared.recorder.tell(about, repeated(&worker, complaint));
                }
            }
            Event::Interrupted(error) if error.refusal().is_some_and(|refusal| refusal.code == 403) => {
                tracing::info!(worker, "Events may not be read there; its warnings are not shown on users' Jobs");
                return;
            }
            // What was there before us was told by whoever was there before us.
            Event::Applied(_) | Event::Reset(_) | Event::Deleted(_) | Event::Interrupted(_) | Event::Resumed => {}
        }
    }
}

/// Whether we have work in its namespace: nobody is asked about other people's.
fn is_near_ours(shared: &Shared, complaint: &Complaint) -> bool {
    shared.index.has_work_in(&complaint.involved_object.namespace)
}

impl Complaint {
    fn is_worth_repeating(&self) -> bool {
        self.involved_object.kind == "Job" || HINDRANCES.contains(&self.reason.as_str())
    }
}

fn repeated(worker: &str, complaint: Complaint) -> Happening {
    let Object { kind, name, .. } = &complaint.involved_object;
    let whose = if kind == "Pod" { format!(", pod {name}") } else { String::new() };
    let message = format!("on worker {worker}{whose}: {}", complaint.message);
    Happening { severity: Severity::Warning, reason: complaint.reason.into(), message }
}

/// Whose mirrors the Jobs of a worker are, and whose pods its pods, by their UIDs. `None`: not ours.
#[derive(Default)]
struct Owners {
    known: HashMap<String, Option<About>>,
}

impl Owners {
    async fn owner_of(&mut self, shared: &Shared, client: &Client, object: &Object) -> Option<About> {
        if let Some(known) = self.known.get(&object.uid) {
            return known.clone();
        }
        let is_pod = object.kind == "Pod";
        let path = if is_pod { pod_path(object) } else { paths::job(&object.namespace, &object.name) };
        let owner = match kubeio::get::<Value>(client, &path, DEADLINE).await {
            Ok(found) if is_pod => shared.index.about(&origin_of_pod(&found, &object.uid)),
            Ok(found) => owner(&found, &object.uid, &shared.origin),
            Err(error) if error.is_not_found() => None,
            // Not known is not the same as not ours: the next complaint asks again.
            Err(_) => return None,
        };
        if self.known.len() >= REMEMBERED {
            self.known.clear();
        }
        self.known.insert(object.uid.clone(), owner.clone());
        owner
    }
}

/// A pod of ours, by name: the right to list pods is one that we have anyway.
fn pod_path(pod: &Object) -> String {
    let ours = labels::ORIGIN_UID.replace('/', "%2F");
    let named = format!("metadata.name%3D{}", pod.name);
    format!("/api/v1/namespaces/{}/pods?limit=1&fieldSelector={named}&labelSelector={ours}", pod.namespace)
}

/// The UID of the workload that a listed pod was made for; empty if it is not the pod that is meant.
fn origin_of_pod(list: &Value, uid: &str) -> String {
    let metadata = &list["items"][0]["metadata"];
    let origin = metadata["labels"][labels::ORIGIN_UID].as_str().filter(|_| metadata["uid"] == uid);
    origin.unwrap_or_default().to_owned()
}

/// The user's Job that this object mirrors, if it is the one meant and ours.
fn owner(object: &Value, uid: &str, origin: &str) -> Option<About> {
    let metadata = &object["metadata"];
    let ours = metadata["uid"] == uid && metadata["labels"][labels::ORIGIN] == origin;
    let owner = metadata["annotations"][annotations::ORIGIN_UID].as_str().filter(|owner| ours && !owner.is_empty())?;
    Some(about_job(metadata["namespace"].as_str()?, metadata["name"].as_str()?, owner))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_pods_only_what_keeps_them_from_running_is_repeated() {
        let complaint = |kind: &str, reason: &str| -> Complaint {
            let object = json!({"kind": kind, "namespace": "ml", "name": "train-x7", "uid": "p"});
            let metadata = json!({"resourceVersion": "1"});
            let event = json!({"metadata": metadata, "involvedObject": object, "reason": reason, "message": "why"});
            serde_json::from_value(event).unwrap()
        };
        assert!(complaint("Job", "FailedCreate").is_worth_repeating());
        assert!(complaint("Pod", "FailedScheduling").is_worth_repeating());
        assert!(!complaint("Pod", "Unhealthy").is_worth_repeating());
        assert_eq!(repeated("eu-1", complaint("Pod", "FailedMount")).message, "on worker eu-1, pod train-x7: why");
    }

    #[test]
    fn a_pods_label_tells_whose_it_is_if_it_is_the_pod_that_is_meant() {
        let list = json!({"items": [{"metadata": {"uid": "p", "labels": {labels::ORIGIN_UID: "u1"}}}]});
        assert_eq!(origin_of_pod(&list, "p"), "u1");
        assert_eq!(origin_of_pod(&list, "of-a-later-pod"), "");
        assert_eq!(origin_of_pod(&json!({"items": []}), "p"), "");
    }

    #[test]
    fn only_the_owner_of_exactly_our_mirror_is_told() {
        let mirror = |uid: &str, origin: &str, owner: &str| {
            json!({"metadata": {
                "namespace": "ml", "name": "train", "uid": uid,
                "labels": {labels::ORIGIN: origin}, "annotations": {annotations::ORIGIN_UID: owner},
            }})
        };
        let told = |object: &Value| owner(object, "m", "here").map(|about| about.uid);
        assert_eq!(told(&mirror("m", "here", "u")), Some("u".into()));
        assert_eq!(told(&mirror("later", "here", "u")), None, "another Job has the name now");
        assert_eq!(told(&mirror("m", "elsewhere", "u")), None, "another manager's mirror");
        assert_eq!(told(&mirror("m", "here", "")), None);
        assert_eq!(told(&json!({"metadata": {"uid": "m"}})), None, "a Job that the worker's own users run");
    }
}
