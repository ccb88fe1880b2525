//! Reasons from below: what a worker's own controllers complain about on a mirror (`FailedCreate`: a quota, a missing
//! ServiceAccount, a policy) is repeated on the user's Job, where the user looks.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::StreamExt;
use jobferry_api::{Worker, annotations, labels};
use jobferry_kubeio::{
    self as kubeio, Collection, Event,
    events::{About, Happening, Severity},
};
use kube::Client;
use serde::Deserialize;

use super::about_job;
use crate::{
    Shared, paths,
    scope::{self, Scope},
};

const DEADLINE: Duration = Duration::from_secs(5);
/// Jobs whose owner is remembered. A worker in trouble complains about the same ones again and again.
const REMEMBERED: usize = 2048;

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
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    uid: String,
}

/// Repeats the warnings of one worker for as long as it is polled. It has a task of its own: nothing waits for it.
pub(crate) async fn repeat_warnings(shared: Arc<Shared>, worker: Worker, client: Client) {
    let mut events = scope::watch(&client, &Scope::all_of(&worker), ("/api/v1", "events"), |path| {
        Collection::new(path, |complaint: &Complaint| &complaint.metadata.resource_version)
            .fields("involvedObject.kind=Job,type=Warning")
            .seed(shared.options.seed)
    });
    let worker = worker.metadata.name.unwrap_or_default();
    let mut owners = Owners::default();
    while let Some((_, event)) = events.next().await {
        match event {
            Event::Applied(complaint) => {
                if let Some(about) = owners.owner_of(&shared, &client, &complaint.involved_object).await {
                    shared.recorder.tell(about, repeated(&worker, complaint));
                }
            }
            Event::Interrupted(error) if error.refusal().is_some_and(|refusal| refusal.code == 403) => {
                tracing::info!(worker, "Events may not be read there; its warnings are not shown on users' Jobs");
                return;
            }
            // What was there before us was told by whoever was there before us.
            Event::Reset(_) | Event::Deleted(_) | Event::Interrupted(_) | Event::Resumed => {}
        }
    }
}

fn repeated(worker: &str, complaint: Complaint) -> Happening {
    let message = format!("on worker {worker}: {}", complaint.message);
    Happening { severity: Severity::Warning, reason: complaint.reason.into(), message }
}

/// Whose mirrors the Jobs of a worker are, by their UIDs. `None`: not ours.
#[derive(Default)]
struct Owners {
    known: HashMap<String, Option<About>>,
}

impl Owners {
    async fn owner_of(&mut self, shared: &Shared, client: &Client, job: &Object) -> Option<About> {
        if let Some(known) = self.known.get(&job.uid) {
            return known.clone();
        }
        let path = paths::job(&job.namespace, &job.name);
        let owner = match kubeio::get::<serde_json::Value>(client, &path, DEADLINE).await {
            Ok(found) => owner(&found, &job.uid, &shared.origin),
            Err(error) if error.is_not_found() => None,
            // Not known is not the same as not ours: the next complaint asks again.
            Err(_) => return None,
        };
        if self.known.len() >= REMEMBERED {
            self.known.clear();
        }
        self.known.insert(job.uid.clone(), owner.clone());
        owner
    }
}

/// The user's Job that this object mirrors, if it is the one meant and ours.
fn owner(object: &serde_json::Value, uid: &str, origin: &str) -> Option<About> {
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
    fn only_the_owner_of_exactly_our_mirror_is_told() {
        let mirror = |uid: &str, origin: &str, owner: &str| {
            json!({"metadata": {
                "namespace": "ml", "name": "train", "uid": uid,
                "labels": {labels::ORIGIN: origin}, "annotations": {annotations::ORIGIN_UID: owner},
            }})
        };
        let told = |object: &serde_json::Value| owner(object, "m", "here").map(|about| about.uid);
        assert_eq!(told(&mirror("m", "here", "u")), Some("u".into()));
        assert_eq!(told(&mirror("later", "here", "u")), None, "another Job has the name now");
        assert_eq!(told(&mirror("m", "elsewhere", "u")), None, "another manager's mirror");
        assert_eq!(told(&mirror("m", "here", "")), None);
        assert_eq!(told(&json!({"metadata": {"uid": "m"}})), None, "a Job that the worker's own users run");
    }
}
