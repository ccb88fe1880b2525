//! The people of a run: users of the management cluster, and others on the workers.

use std::time::Duration;

use jobferry_api::{SYSTEM_NAMESPACE, labels};
use jobferry_kubeio::{self as kubeio, CallError, Patch};
use kube::Client;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::cluster::Cluster;
use crate::faults::Fault;
use crate::scenario::{Deed, Incident, Step, WorkloadStory};
use crate::truth::Role;
use crate::weather::Weather;

const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How often somebody tries to edit an object.
const TRIES: u32 = 20;
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
/// How many seconds somebody waits for a name to be free: as long as the longest Job and its quarantine.
const PATIENCE: u32 = 1200;
const WORKERS: &str = "/apis/jobferry.dev/v1alpha1/workers";

/// Installs the CRDs and registers the workers.
pub(crate) async fn set_up(manager: &Cluster, workers: &[Cluster]) -> Result<(), CallError> {
    let client = manager.client("admin", Role::User);
    for definition in jobferry_api::custom_resource_definitions() {
        let definition = serde_json::to_value(definition).unwrap_or_default();
        create(&client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await?;
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}});
    create(&client, "/api/v1/namespaces", &namespace).await?;
    // A CRD is served a moment after it was created.
    sleep(Duration::from_secs(1)).await;
    for worker in workers {
        create(&client, WORKERS, &worker_object(&worker.name)).await?;
    }
    Ok(())
}

fn worker_object(name: &str) -> Value {
    json!({"apiVersion": "jobferry.dev/v1alpha1", "kind": "Worker", "metadata": {"name": name},
           "spec": {"kubeconfigSecret": name}})
}

/// Creates an object; if the name is taken, waits for it to be free, as `kubectl replace --force` does.
async fn create_when_free(client: &Client, path: &str, object: &Value) {
    for _ in 0..PATIENCE {
        match create(client, path, object).await {
            Err(error) if error.is_already_exists() || error.refusal().is_none() => sleep(Duration::from_secs(1)).await,
            _ => return,
        }
    }
}

/// Whoever edits tries until there is an answer: a server may be frozen for a while. A refusal is an answer too.
async fn edit(client: &Client, path: &str, change: Value) {
    let change = change.to_string().into_bytes();
    for _ in 0..TRIES {
        match kubeio::patch(client, path, Patch::Merge, change.clone(), ANSWER_WITHIN).await {
            Err(error) if error.refusal().is_none() => sleep(ANSWER_WITHIN).await,
            _ => return,
        }
    }
}

async fn create(client: &Client, path: &str, object: &Value) -> Result<(), CallError> {
    kubeio::create(client, path, object.to_string().into_bytes(), ANSWER_WITHIN).await.map(drop)
}

/// Lives through a workload's story.
pub(crate) async fn tell(manager: Cluster, story: WorkloadStory) {
    let client = manager.client("user", Role::User);
    let path = format!("{JOBS}/{}", story.name);
    for (wait, step) in story.steps {
        sleep(wait).await;
        // A refusal is an answer too: the name is still taken, the Job is gone.
        match step {
            Step::Create => create_when_free(&client, JOBS, &story.job).await,
            Step::Suspend(suspend) => edit(&client, &path, json!({"spec": {"suspend": suspend}})).await,
            Step::Resize(parallelism) => edit(&client, &path, json!({"spec": {"parallelism": parallelism}})).await,
            Step::Delete(propagation) => delete(&client, &path, propagation).await,
        }
    }
}

async fn delete(client: &Client, path: &str, propagation: &str) {
    let options = json!({"propagationPolicy": propagation}).to_string().into_bytes();
    let _ = kubeio::delete(client, path, options, ANSWER_WITHIN).await;
}

/// Does what others do.
pub(crate) async fn meddle(manager: Cluster, worker: Cluster, incident: Incident, weather: &Weather) {
    sleep(incident.after).await;
    weather.hub().disturb(&worker.name);
    let foreigner = worker.client("foreigner", Role::Foreigner);
    let name = &worker.name;
    match incident.deed {
        Deed::DeleteMirror(job) => {
            weather.count(Fault::MirrorDeleted, format_args!("{name} /{job}"));
            delete(&foreigner, &format!("{JOBS}/{job}"), "Background").await;
        }
        Deed::TakeName(job, time) => {
            weather.count(Fault::NameTaken, format_args!("{name} /{job} for {time:?}"));
            let template =
                json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "work"}]}});
            let squatter = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": job, "namespace": "default"},
                                  "spec": {"template": template, "suspend": true}});
            if create(&foreigner, JOBS, &squatter).await.is_ok() {
                sleep(time).await;
                delete(&foreigner, &format!("{JOBS}/{job}"), "Background").await;
            }
        }
        Deed::Cordon(time) => {
            weather.count(Fault::Cordon, format_args!("{name} for {time:?}"));
            let admin = manager.client("admin", Role::User);
            for cordoned in [true, false] {
                edit(&admin, &format!("{WORKERS}/{name}"), json!({"spec": {"cordoned": cordoned}})).await;
                sleep(time).await;
            }
        }
        Deed::TakeLabel(job) => {
            weather.count(Fault::MirrorEdited, format_args!("{name} /{job}"));
            edit(&foreigner, &format!("{JOBS}/{job}"), json!({"metadata": {"labels": {labels::ORIGIN: null}}})).await;
        }
        Deed::Hold(job, time) => {
            weather.count(Fault::WorkerQueue, format_args!("{name} /{job} for {time:?}"));
            let queue = worker.client("queue", Role::Cluster);
            for suspend in [true, false] {
                edit(&queue, &format!("{JOBS}/{job}"), json!({"spec": {"suspend": suspend}})).await;
                sleep(time).await;
            }
        }
        Deed::Remove(time) => {
            weather.count(Fault::WorkerRemoved, format_args!("{name} for {time:?}"));
            let admin = manager.client("admin", Role::User);
            manager.hub().ill(name, true);
            delete(&admin, &format!("{WORKERS}/{name}"), "Background").await;
            sleep(time).await;
            create_when_free(&admin, WORKERS, &worker_object(name)).await;
            manager.hub().ill(name, false);
        }
    }
}

/// The user deletes everything and goes home.
pub(crate) async fn delete_all(manager: &Cluster, names: Vec<String>) {
    let client = manager.client("user", Role::User);
    for name in names {
        delete(&client, &format!("{JOBS}/{name}"), "Background").await;
    }
}
