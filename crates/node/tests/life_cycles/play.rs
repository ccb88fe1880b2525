//! Playing a scenario on any cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::{StreamExt, pin_mut, stream};
use jobferry_api::managed_by;
use jobferry_core::time::QUARANTINE;
use jobferry_kubeio::{self as kubeio, Collection, Event, Patch};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use serde_json::{Value, json};

use super::{Endings, Scenario, Step, Until};

const DEADLINE: Duration = Duration::from_secs(30);
/// The longest scenario waits for two back-offs; a loaded machine takes its time.
const PATIENCE: Duration = Duration::from_secs(180);
/// More would wait for each other on a small machine.
const AT_ONCE: usize = 32;
/// A pod that is held for longer stays held.
const LET_GO_WITHIN: Duration = Duration::from_secs(30);
/// Longer than the second for which the built-in controller gathers changes, twice.
const REST: Duration = Duration::from_secs(4);

/// Clusters to play on.
#[derive(Clone)]
pub(crate) struct Stage {
    /// Where the Jobs are created and end.
    pub(crate) client: Client,
    /// Where their pods run: the same cluster, unless they are dispatched.
    runners: Vec<Client>,
    /// `spec.managedBy` of every Job.
    pub(crate) managed_by: Option<&'static str>,
    /// Where scripts keep notes.
    pub(crate) notes: PathBuf,
    /// How long it takes until all is gone that goes with a Job.
    rest_when_gone: Duration,
    /// UIDs of all pods that were ever seen, by Job.
    pods: Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>,
}

impl Stage {
    #[allow(dead_code, reason = "each test program plays on one kind of stage")]
    pub(crate) fn new(client: Client, managed_by: Option<&'static str>, notes: PathBuf) -> Self {
        let runners = vec![client.clone()];
        Self { client, runners, managed_by, notes, rest_when_gone: REST, pods: Arc::default() }
    }

    /// The Jobs are dispatched, and their pods run on these workers.
    #[allow(dead_code, reason = "each test program plays on one kind of stage")]
    pub(crate) fn dispatched(manager: Client, workers: impl IntoIterator<Item = Client>, notes: PathBuf) -> Self {
        // A new dispatcher keeps finished mirrors for a while, as guards against late creates of one before it.
        let rest_when_gone = REST + QUARANTINE;
        let (managed_by, runners) = (Some(managed_by::DISPATCHER), workers.into_iter().collect());
        Self { client: manager, runners, managed_by, notes, rest_when_gone, pods: Arc::default() }
    }

    /// Plays all scenarios, many at the same time.
    pub(crate) async fn play(&self, scenarios: Vec<Scenario>) -> Endings {
        let watching: Vec<_> =
            self.runners.iter().map(|runner| tokio::spawn(self.clone().count_pods(runner.clone()))).collect();
        let playing = stream::iter(scenarios).map(|scenario| async move {
            let name = scenario.name;
            let ending = match tokio::time::timeout(PATIENCE, self.play_one(&scenario)).await {
                Ok(ending) => ending,
                Err(_) => json!({"stuck": self.job(name).await.map(|job| job["status"].clone())}),
            };
            (name.to_owned(), ending)
        });
        let endings = playing.buffer_unordered(AT_ONCE).collect().await;
        watching.iter().for_each(tokio::task::JoinHandle::abort);
        endings
    }

    async fn count_pods(self, runner: Client) {
        let collection =
            Collection::new("/api/v1/pods", |pod: &Pod| pod.metadata.resource_version.as_deref().unwrap_or(""));
        let stream = kubeio::watch(runner, collection);
        pin_mut!(stream);
        while let Some(event) = stream.next().await {
            let pods = match event {
                Event::Reset(list) => list,
                Event::Applied(pod) | Event::Deleted(pod) => vec![pod],
                _ => continue,
            };
            let mut seen = self.pods.lock().unwrap();
            for pod in pods {
                let job = pod.metadata.labels.as_ref().and_then(|labels| labels.get("job-name")).cloned();
                seen.entry(job.unwrap_or_default()).or_default().insert(pod.metadata.uid.unwrap_or_default());
            }
        }
    }

    async fn play_one(&self, scenario: &Scenario) -> Value {
        let name = scenario.name;
        let mut spec = scenario.spec.clone();
        let mut pod = scenario.pod.clone();
        for list in ["initContainers", "containers"] {
            for container in pod[list].as_array_mut().into_iter().flatten() {
                container["image"] = json!("none");
                container["env"] = json!([{"name": "NOTE", "value": self.notes.join(name).display().to_string()}]);
            }
        }
        spec["template"] = json!({"spec": pod});
        if let Some(controller) = self.managed_by {
            spec["managedBy"] = json!(controller);
        }
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec});
        let created = kubeio::create(&self.client, &jobs(""), job.to_string().into_bytes(), DEADLINE).await;
        if let Err(error) = created {
            return json!({"refused": error.to_string()});
        }
        for step in &scenario.steps {
            self.take(name, step).await;
        }
        match scenario.until {
            Until::Finished => {
                self.wait(async || self.job(name).await.filter(|job| has(job, "Complete") || has(job, "Failed"))).await;
                tokio::time::sleep(REST).await;
            }
            Until::Gone => {
                self.wait(async || self.job(name).await.is_none().then_some(())).await;
                tokio::time::sleep(self.rest_when_gone).await;
                self.until_pods_are_let_go(name).await;
            }
            Until::Rest(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
        }
        self.ending(name).await
    }

    /// Whether the pods of a Job that is gone are let go is compared, and not how long a busy machine takes for it.
    async fn until_pods_are_let_go(&self, name: &str) {
        let let_go = self.wait(async || {
            let pods = self.pods_of(name).await;
            pods.iter().all(|(_, pod)| pod["metadata"]["finalizers"].is_null()).then_some(())
        });
        let _ = tokio::time::timeout(LET_GO_WITHIN, let_go).await;
    }

    async fn take(&self, name: &str, step: &Step) {
        let at_least = async |field: &str, number: i64| {
            self.wait(async || {
                let job = self.job(name).await?;
                (job["status"][field].as_i64().unwrap_or(0) >= number).then_some(())
            })
            .await;
        };
        match step {
            Step::Ready(number) => at_least("ready", *number).await,
            Step::Succeeded(number) => at_least("succeeded", *number).await,
            Step::Failed(number) => at_least("failed", *number).await,
            Step::Condition(kind) => {
                self.wait(async || self.job(name).await.filter(|job| has(job, kind))).await;
            }
            Step::Seconds(seconds) => tokio::time::sleep(Duration::from_secs(*seconds)).await,
            Step::Go => std::fs::write(self.notes.join(format!("{name}.go")), "").expect("an open gate"),
            Step::Edit(change) => {
                let body = change.to_string().into_bytes();
                kubeio::patch(&self.client, &jobs(name), Patch::Merge, body, DEADLINE).await.expect("an edit");
            }
            Step::DeletePod(index, grace) => {
                let (runner, pod) = self.running_pod(name, *index).await;
                let options = grace.map_or_else(|| json!({}), |grace| json!({"gracePeriodSeconds": grace}));
                let body = options.to_string().into_bytes();
                kubeio::delete(&runner, &pods(&pod), body, DEADLINE).await.expect("a deletion");
            }
            Step::MarkPod(kind, status) => {
                let (runner, pod) = self.running_pod(name, None).await;
                let body = json!({"status": {"conditions": [{"type": kind, "status": status, "reason": "Test"}]}});
                let path = format!("{}/status", pods(&pod));
                let body = body.to_string().into_bytes();
                kubeio::patch(&runner, &path, Patch::Strategic, body, DEADLINE).await.expect("a condition");
            }
            Step::EditPod(change) => {
                let (runner, pod) = self.running_pod(name, None).await;
                let body = change.to_string().into_bytes();
                kubeio::patch(&runner, &pods(&pod), Patch::Merge, body, DEADLINE).await.expect("an edited pod");
            }
            Step::DeleteJob(propagation) => {
                let options = json!({"propagationPolicy": propagation}).to_string().into_bytes();
                kubeio::delete(&self.client, &jobs(name), options, DEADLINE).await.expect("a deletion");
            }
        }
    }

    /// A running pod, and the cluster that it runs in.
    async fn running_pod(&self, job: &str, index: Option<u32>) -> (Client, String) {
        let wanted = index.map(|index| json!(index.to_string()));
        self.wait(async || {
            let list = self.pods_of(job).await;
            let running = list.into_iter().find(|(_, pod)| {
                let label = &pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"];
                pod["status"]["phase"] == "Running" && wanted.as_ref().is_none_or(|wanted| label == wanted)
            });
            running.and_then(|(runner, pod)| Some((runner, pod["metadata"]["name"].as_str()?.to_owned())))
        })
        .await
    }

    /// The pods of a Job, each with the cluster that it is in.
    async fn pods_of(&self, job: &str) -> Vec<(Client, Value)> {
        let path = format!("/api/v1/namespaces/default/pods?labelSelector=job-name%3D{job}");
        let mut found = Vec::new();
        for runner in &self.runners {
            let list: Value = kubeio::get(runner, &path, DEADLINE).await.expect("a list of pods");
            let pods = list["items"].as_array().cloned().unwrap_or_default();
            found.extend(pods.into_iter().map(|pod| (runner.clone(), pod)));
        }
        found
    }

    async fn job(&self, name: &str) -> Option<Value> {
        kubeio::get(&self.client, &jobs(name), DEADLINE).await.ok()
    }

    async fn wait<T>(&self, ask: impl AsyncFn() -> Option<T>) -> T {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// What is compared: conditions with reasons, counters, index strings, pods created and left.
    async fn ending(&self, name: &str) -> Value {
        let created = self.pods.lock().unwrap().get(name).map_or(0, BTreeSet::len);
        let left = self.pods_of(name).await;
        let held = left.iter().filter(|(_, pod)| !pod["metadata"]["finalizers"].is_null()).count();
        let Some(job) = self.job(name).await else {
            return json!({"job": "gone", "podsCreated": created, "podsLeft": left.len(), "podsHeld": held});
        };
        let status = &job["status"];
        let conditions = status["conditions"].as_array();
        // Of what Jobferry adds nothing is compared.
        let own = |c: &&Value| !text(c, "type").starts_with("jobferry.dev/");
        let mut conditions: Vec<String> = (conditions.into_iter().flatten().filter(own))
            .map(|c| format!("{}={} {}", text(c, "type"), text(c, "status"), text(c, "reason")))
            .collect();
        conditions.sort();
        let count = |field: &str| status[field].as_i64().unwrap_or(0);
        json!({
            "conditions": conditions,
            "active": count("active"), "ready": count("ready"), "terminating": count("terminating"),
            "succeeded": count("succeeded"), "failed": count("failed"),
            "completedIndexes": status["completedIndexes"], "failedIndexes": status["failedIndexes"],
            "completionTime": !status["completionTime"].is_null(), "startTime": !status["startTime"].is_null(),
            "podsCreated": created, "podsHeld": held,
        })
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or("")
}

fn jobs(name: &str) -> String {
    let path = "/apis/batch/v1/namespaces/default/jobs";
    if name.is_empty() { path.to_owned() } else { format!("{path}/{name}") }
}

fn pods(name: &str) -> String {
    format!("/api/v1/namespaces/default/pods/{name}")
}

fn has(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|c| c["type"] == kind && c["status"] == "True")
}
