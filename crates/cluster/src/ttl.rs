//! Finished Jobs with `ttlSecondsAfterFinished` are deleted when that time is over.

use std::{collections::HashMap, time::Duration};

use futures::{StreamExt, pin_mut};
use job_api::conditions;
use job_controller::JobView;
use jobferry_kubeio::{self as kubeio, Collection, Event, Queue};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Client;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{Clock, clock};

const DEADLINE: Duration = Duration::from_secs(15);

/// Deletes what is over its time until `shutdown`.
pub async fn run_ttl(client: Client, clock: Clock, shutdown: CancellationToken) {
    let stream = kubeio::watch(client.clone(), Collection::new("/apis/batch/v1/jobs", version));
    pin_mut!(stream);
    let queue: Queue<String> = Queue::new(Duration::from_secs(1), Duration::from_mins(1));
    // When each finished Job is to go, by UID, with its path.
    let mut due: HashMap<String, (Timestamp, String)> = HashMap::new();
    loop {
        tokio::select! { biased;
            () = shutdown.cancelled() => return,
            Some(event) = stream.next() => match event {
                Event::Reset(list) => {
                    due.clear();
                    for job in &list {
                        note(&mut due, &queue, &clock, job);
                    }
                }
                Event::Applied(job) => note(&mut due, &queue, &clock, &job),
                Event::Deleted(job) => drop(due.remove(&job.uid)),
                Event::Interrupted(error) => tracing::warn!(%error, "jobs cannot be watched"),
                Event::Resumed => {}
            },
            uid = queue.next() => {
                match due.get(&uid) {
                    Some((at, path)) if *at <= clock() => {
                        if delete(&client, path, &uid).await { queue.forget(&uid) } else { queue.retry(uid.clone()) }
                    }
                    // Whoever gave it a longer time has put it into the queue for that.
                    Some((at, _)) => queue.add_after(uid.clone(), clock::until(*at, clock())),
                    None => {}
                }
                queue.done(&uid);
            }
        }
    }
}

fn note(due: &mut HashMap<String, (Timestamp, String)>, queue: &Queue<String>, clock: &Clock, job: &JobView) {
    let Some(at) = expiry(job).filter(|_| !job.deleting) else {
        due.remove(&job.uid);
        return;
    };
    let path = format!("/apis/batch/v1/namespaces/{}/jobs/{}", job.namespace, job.name);
    due.insert(job.uid.clone(), (at, path));
    queue.add_after(job.uid.clone(), clock::until(at, clock()));
}

/// When a Job is to be deleted.
fn expiry(job: &JobView) -> Option<Timestamp> {
    let ttl = SignedDuration::from_secs(job.spec.ttl_seconds_after_finished?);
    let list = job.status.conditions.as_deref().unwrap_or_default();
    let terminal = |c: &&_| [conditions::COMPLETE, conditions::FAILED].iter().any(|kind| is_true(c, kind));
    list.iter().find(terminal)?.last_transition_time.as_ref()?.0.checked_add(ttl).ok()
}

fn is_true(condition: &k8s_openapi::api::batch::v1::JobCondition, kind: &str) -> bool {
    condition.type_ == kind && condition.status == conditions::TRUE
}

/// Foreground, as the built-in controller does: the Job is gone only when its pods are.
async fn delete(client: &Client, path: &str, uid: &str) -> bool {
    let options = json!({"propagationPolicy": "Foreground", "preconditions": {"uid": uid}}).to_string().into_bytes();
    match kubeio::delete(client, path, options, DEADLINE).await {
        Ok(_) => true,
        Err(error) if error.is_not_found() || error.is_conflict() => true,
        Err(error) => {
            tracing::warn!(path, %error, "a Job that is over its time could not be deleted; trying again");
            false
        }
    }
}

fn version(job: &JobView) -> &str {
    &job.resource_version
}
