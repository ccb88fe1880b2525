//! Watches all clusters, and plays the Job controllers of workers that have none.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::StreamExt;
use jobferry_kubeio::{self as kubeio, Collection, Event, Patch};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    measure::timeline::{News, Seen, Timeline},
    world::{PODS, World, jobs_path},
};

/// Longer than a worker is made to hang.
const ANSWER_WITHIN: Duration = Duration::from_mins(10);

/// What becomes of mirrors by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lives {
    /// Nothing: they stay as they were created.
    Still,
    /// They become active, end when their users have seen that, and are deleted once their users have seen the end.
    Whole,
}

/// Eyes and hands on all clusters. End when dropped.
pub(crate) struct Mirrors {
    pub(crate) timeline: Arc<Timeline>,
    workers: Arc<[Client]>,
    places: Places,
    _watches: JoinSet<()>,
}

/// The worker of each mirror that was ever seen.
type Places = Arc<Mutex<HashMap<String, usize>>>;

impl Mirrors {
    pub(crate) fn follow(world: &World, lives: Lives) -> Self {
        let timeline = Arc::<Timeline>::default();
        let workers: Arc<[Client]> = world.workers.iter().map(|worker| worker.client.clone()).collect();
        let player = (lives == Lives::Whole).then(|| Player {
            timeline: Arc::clone(&timeline),
            manager: world.manager.client.clone(),
            workers: Arc::clone(&workers),
        });
        let (mut watches, places) = (JoinSet::new(), Places::default());
        for (number, client) in workers.iter().enumerate() {
            let (timeline, places) = (Arc::clone(&timeline), Arc::clone(&places));
            let note = move |mirror: &Seen| {
                if lives == Lives::Still {
                    places.lock().unwrap().entry(mirror.metadata.name.clone()).or_insert(number);
                }
                timeline.on_worker(number, mirror)
            };
            watches.spawn(watch(client.clone(), player.clone(), note));
        }
        let on_manager = Arc::clone(&timeline);
        watches.spawn(watch(world.manager.client.clone(), player, move |job| on_manager.on_manager(job)));
        Self { timeline, workers, places, _watches: watches }
    }

    /// Which worker has the mirror.
    pub(crate) fn worker_of(&self, name: &str) -> usize {
        self.places.lock().unwrap()[name]
    }

    /// Makes a mirror active.
    pub(crate) async fn begin(&self, worker: usize, name: &str) {
        write(&self.workers[worker], name, &begun()).await;
    }

    /// Changes one that is active.
    pub(crate) async fn set_ready(&self, worker: usize, name: &str, ready: i32) {
        write(&self.workers[worker], name, &json!({ "ready": ready })).await;
    }
}

async fn watch(client: Client, player: Option<Player>, note: impl Fn(&Seen) -> Option<News>) {
    let jobs = Collection::new(jobs_path(), |job: &Seen| &job.metadata.resource_version).streamed(true);
    let mut events = pin!(kubeio::watch(client, jobs));
    while let Some(event) = events.next().await {
        let jobs = match event {
            Event::Reset(jobs) => jobs,
            Event::Applied(job) => vec![job],
            Event::Deleted(_) | Event::Interrupted(_) | Event::Resumed => continue,
        };
        for job in jobs {
            if let (Some(news), Some(player)) = (note(&job), &player) {
                tokio::spawn(player.clone().react(job.metadata.name, news));
            }
        }
    }
}

#[derive(Clone)]
struct Player {
    timeline: Arc<Timeline>,
    manager: Client,
    workers: Arc<[Client]>,
}

impl Player {
    async fn react(self, name: String, news: News) {
        let Some(worker) = self.timeline.life(&name).and_then(|life| life.worker) else { return };
        match news {
            News::Mirrored => write(&self.workers[worker], &name, &begun()).await,
            News::UserActive => write(&self.workers[worker], &name, &ended()).await,
            News::UserEnded => {
                let options = br#"{"propagationPolicy":"Background"}"#.to_vec();
                let path = format!("{}/{name}", jobs_path());
                kubeio::delete(&self.manager, &path, options, ANSWER_WITHIN).await.unwrap();
            }
        }
    }
}

async fn write(worker: &Client, name: &str, status: &Value) {
    let (path, body) = (format!("{}/{name}/status", jobs_path()), json!({ "status": status }));
    let body = body.to_string().into_bytes();
    kubeio::patch(worker, &path, Patch::Strategic, body, ANSWER_WITHIN).await.unwrap();
}

fn begun() -> Value {
    json!({"active": PODS, "ready": 0, "startTime": now()})
}

fn ended() -> Value {
    let now = now();
    let condition = |type_: &str| {
        let (reason, message) = ("CompletionsReached", "Reached expected number of succeeded pods");
        json!({
            "type": type_, "status": "True", "reason": reason, "message": message,
            "lastProbeTime": now, "lastTransitionTime": now,
        })
    };
    let conditions = [condition("SuccessCriteriaMet"), condition("Complete")];
    json!({"active": null, "ready": 0, "terminating": 0, "succeeded": 1, "completionTime": now, "conditions": conditions})
}

#[allow(clippy::disallowed_methods, reason = "embedded clusters live by the real clock too")]
fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
