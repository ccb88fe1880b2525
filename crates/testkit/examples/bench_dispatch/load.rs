//! Creates Jobs, watches what becomes of them on all clusters, and writes the statuses of mirrors that nobody runs.

use std::{collections::BTreeSet, pin::pin, sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use jobferry_api::managed_by;
use jobferry_kubeio::{self as kubeio, Collection, Event, Patch};
use jobferry_testkit::operator::{MULTIKUEUE_QUEUE, QUEUE_LABEL};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};
use tokio::{sync::Semaphore, task::JoinSet, time::timeout};

use crate::{
    contender::Contender,
    fleet::{Fleet, Mode, NAMESPACE},
    measure::timeline::{Life, News, Seen, Stage, Timeline},
};

const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// A whole burst; a contender that takes longer is broken.
const DONE_WITHIN: Duration = Duration::from_mins(30);
/// Jobs that are ferried before anything is measured: connections, caches and code are warm then.
const WARM_UP: usize = 60;
/// For a contender that needs almost a second for each.
const SLOW_WARM_UP: usize = 6;
/// Statuses that are being written to one worker at the same time.
const SCRIPTED_AT_ONCE: usize = 16;

/// The hands and eyes of the bench. Ends when dropped.
pub(crate) struct Load {
    manager: Client,
    contender: Contender,
    timeline: Arc<Timeline>,
    _watches: JoinSet<()>,
}

/// A burst of Jobs.
pub(crate) struct Burst {
    /// From the first creation to the last mirror.
    pub(crate) mirrors_per_second: f64,
    /// From the first creation to the last end on the manager.
    pub(crate) ends_per_second: f64,
}

impl Load {
    pub(crate) async fn start(fleet: &Fleet, contender: Contender) -> Self {
        let (timeline, mut watches) = (Arc::<Timeline>::default(), JoinSet::new());
        let mut workers = Vec::new();
        for worker in &fleet.workers {
            workers.push((Fleet::client(worker).await, Arc::new(Semaphore::new(SCRIPTED_AT_ONCE))));
        }
        let script =
            (fleet.mode == Mode::Inert).then(|| Script { timeline: Arc::clone(&timeline), workers: workers.clone() });
        for (number, (client, _)) in workers.into_iter().enumerate() {
            let (timeline, script) = (Arc::clone(&timeline), script.clone());
            watches.spawn(follow(client, script, move |mirror| timeline.on_worker(number, mirror)));
        }
        let manager = Fleet::client(&fleet.manager).await;
        let on_manager = Arc::clone(&timeline);
        watches.spawn(follow(manager.clone(), script, move |job| on_manager.on_manager(job)));
        Self { manager, contender, timeline, _watches: watches }
    }

    /// Ferries Jobs until every worker has had one.
    pub(crate) async fn warm_up(&self, workers: usize) {
        let mut seen = BTreeSet::new();
        let jobs = if self.contender.is_kueue() { SLOW_WARM_UP } else { WARM_UP };
        for turn in 0.. {
            let lives = self.ferry(&format!("warm-up-{turn}"), jobs, jobs).await;
            seen.extend(lives.iter().filter_map(|life| life.worker));
            // Kueue's workers compete; one of them may win all the time.
            if seen.len() == workers || self.contender.is_kueue() {
                break;
            }
        }
    }

    /// All Jobs as fast as the server takes them.
    pub(crate) async fn burst(&self, jobs: usize, in_flight: usize) -> Burst {
        let lives = self.ferry("job", jobs, in_flight).await;
        let begun = lives.iter().filter_map(|life| life.sent).min().unwrap();
        let mirrored = lives.iter().filter_map(|life| life.mirror).max().unwrap();
        let ended = lives.iter().filter_map(|life| life.user_end).max().unwrap();
        #[allow(clippy::cast_precision_loss, reason = "a few thousand")]
        let rate = |end| jobs as f64 / tokio::time::Instant::duration_since(&end, begun).as_secs_f64();
        Burst { mirrors_per_second: rate(mirrored), ends_per_second: rate(ended) }
    }

    /// One Job after the other.
    pub(crate) async fn one_by_one(&self, jobs: usize) -> Vec<Life> {
        let mut lives = Vec::new();
        for number in 0..jobs {
            lives.extend(self.ferry(&format!("single-{number}"), 1, 1).await);
        }
        lives
    }

    async fn ferry(&self, prefix: &str, jobs: usize, in_flight: usize) -> Vec<Life> {
        let names: Vec<String> = (0..jobs).map(|number| format!("{prefix}-{number:05}")).collect();
        self.timeline.expect(&names);
        let creating = stream::iter(&names).for_each_concurrent(in_flight, |name| async move {
            self.timeline.sent(name);
            let body = job(name, self.contender).to_string().into_bytes();
            kubeio::create(&self.manager, &jobs_path(), body, ANSWER_WITHIN).await.unwrap();
        });
        let ferried = async { tokio::join!(creating, self.timeline.until(Stage::Ended)) };
        let done = timeout(DONE_WITHIN, ferried).await;
        done.unwrap_or_else(|_| panic!("{prefix}: not all of {jobs} Jobs have ended"));
        self.timeline.lives()
    }
}

fn jobs_path() -> String {
    format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs")
}

/// The same Job for all, but for how it says who is to ferry it.
fn job(name: &str, contender: Contender) -> Value {
    // MultiKueue takes care only of what asks for something.
    let resources = json!({"requests": {"cpu": "10m"}});
    let container = json!({"name": "main", "image": "work", "command": ["true"], "resources": resources});
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    });
    if contender.is_kueue() {
        job["metadata"]["labels"] = json!({QUEUE_LABEL: MULTIKUEUE_QUEUE});
    } else {
        job["spec"]["managedBy"] = managed_by::DISPATCHER.into();
    }
    job
}

async fn follow(client: Client, script: Option<Script>, note: impl Fn(&Seen) -> Option<News>) {
    let jobs = Collection::new(jobs_path(), |job: &Seen| &job.metadata.resource_version);
    let mut events = pin!(kubeio::watch(client, jobs));
    while let Some(event) = events.next().await {
        let jobs = match event {
            Event::Reset(jobs) => jobs,
            Event::Applied(job) => vec![job],
            Event::Deleted(_) | Event::Interrupted(_) | Event::Resumed => continue,
        };
        for job in jobs {
            if let (Some(news), Some(script)) = (note(&job), &script) {
                tokio::spawn(script.clone().react(job.metadata.name, news));
            }
        }
    }
}

/// Plays the Job controllers of inert workers: a mirror is active as soon as it exists, and ends once its user has seen
/// it active. So every contender has two changes to bring back, whatever it would have made of them in one.
#[derive(Clone)]
struct Script {
    timeline: Arc<Timeline>,
    workers: Vec<(Client, Arc<Semaphore>)>,
}

impl Script {
    async fn react(self, name: String, news: News) {
        let Some(worker) = self.timeline.life(&name).and_then(|life| life.worker) else { return };
        let (client, turns) = &self.workers[worker];
        let status = match news {
            News::Mirrored => active(),
            News::UserActive => ended(),
            News::UserEnded => return,
        };
        let _turn = turns.acquire().await.unwrap();
        let (path, body) = (format!("{}/{name}/status", jobs_path()), json!({ "status": status }));
        let body = body.to_string().into_bytes();
        kubeio::patch(client, &path, Patch::Strategic, body, ANSWER_WITHIN).await.unwrap();
    }
}

fn active() -> Value {
    json!({"active": 1, "ready": 0, "startTime": now(), "uncountedTerminatedPods": {}})
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

#[allow(clippy::disallowed_methods, reason = "real clusters live by the real clock")]
fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
