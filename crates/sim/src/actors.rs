//! The people of a run: users of the management cluster, and others on the workers.

use std::collections::BTreeSet;
use std::time::Duration;

use jobferry_api::{SYSTEM_NAMESPACE, labels};
use jobferry_kubeio::{self as kubeio, CallError, Patch};
use kube::Client;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::admission::Rule;
use crate::cluster::Cluster;
use crate::crew::Secrets;
use crate::etl;
use crate::facts::JobFacts;
use crate::faults::Fault;
use crate::scenario::{Deed, Incident, Step, WorkloadStory};
use crate::strangers;
use crate::truth::Role;
use crate::weather::Weather;

pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How often somebody tries to edit an object.
pub(crate) const TRIES: u32 = 20;
pub(crate) const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
/// How many seconds somebody waits for a name to be free: as long as the longest Job and its quarantine.
const PATIENCE: u32 = 1200;
pub(crate) const WORKERS: &str = "/apis/jobferry.dev/v1alpha1/workers";
const CANARY: &str = "/apis/batch/v1/namespaces/jobferry-system/jobs/jobferry-canary";
const KINDS: &str = "/apis/jobferry.dev/v1alpha1/workloadkinds";
pub(crate) const POLICIES: &str = "/apis/jobferry.dev/v1alpha1/dispatchpolicies";

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
    if manager.mixed {
        create(&client, KINDS, &etl::rules()).await?;
    }
    for worker in workers {
        create(&client, WORKERS, &worker_object(&worker.name)).await?;
    }
    Ok(())
}

/// Whoever runs the fleet puts it in order: every worker is registered, once, and open, no policy is in the way, and the canary
/// is looked at anew. (A manager that was restored may have gone back to when it was otherwise.)
pub(crate) async fn put_in_order(manager: &Cluster, workers: &[Cluster]) {
    let admin = manager.client("admin", Role::User);
    delete(&admin, &format!("{POLICIES}/default"), "Background").await;
    delete(&admin, CANARY, "Background").await;
    delete(&admin, &format!("{WORKERS}/{}", strangers::TWIN), "Background").await;
    for name in workers.iter().map(|worker| &*worker.name).chain([strangers::TWIN]) {
        let path = format!("{WORKERS}/{name}");
        let stored: Value = kubeio::get(&admin, &path, ANSWER_WITHIN).await.unwrap_or_default();
        if stored["metadata"]["deletionTimestamp"].is_null() {
            edit(&admin, &path, json!({"spec": {"cordoned": false}})).await;
        } else {
            // As `jobferry worker forget` does: it may wait for workloads that their users have suspended.
            edit(&admin, &path, json!({"metadata": {"finalizers": null}})).await;
        }
    }
    register(manager, workers).await;
}

/// Registers the workers that are not registered any more.
pub(crate) async fn register(manager: &Cluster, workers: &[Cluster]) {
    let client = manager.client("admin", Role::User);
    for worker in workers {
        // It is there: nothing to do.
        let _ = create(&client, WORKERS, &worker_object(&worker.name)).await;
    }
}

/// A Worker whose Secret has its name; those with an odd number are in zone a, the others in zone b.
pub(crate) fn worker_object(name: &str) -> Value {
    let zone = if name.ends_with(['1', '3', '5']) { "a" } else { "b" };
    json!({"apiVersion": "jobferry.dev/v1alpha1", "kind": "Worker", "metadata": {"name": name, "labels": {"zone": zone}},
           "spec": {"kubeconfigSecret": name}})
}

/// Creates an object; if the name is taken, waits for it to be free, as `kubectl replace --force` does.
pub(crate) async fn create_when_free(client: &Client, path: &str, object: &Value) {
    for _ in 0..PATIENCE {
        match create(client, path, object).await {
            Err(error) if error.is_already_exists() || error.refusal().is_none() => sleep(Duration::from_secs(1)).await,
            _ => return,
        }
    }
}

/// Whoever edits tries until there is an answer: a server may be frozen for a while. A refusal is an answer too.
pub(crate) async fn edit(client: &Client, path: &str, change: Value) {
    let change = change.to_string().into_bytes();
    for _ in 0..TRIES {
        match kubeio::patch(client, path, Patch::Merge, change.clone(), ANSWER_WITHIN).await {
            Err(error) if error.refusal().is_none() => sleep(ANSWER_WITHIN).await,
            _ => return,
        }
    }
}

pub(crate) async fn create(client: &Client, path: &str, object: &Value) -> Result<(), CallError> {
    kubeio::create(client, path, object.to_string().into_bytes(), ANSWER_WITHIN).await.map(drop)
}

/// Lives through a workload's story.
pub(crate) async fn tell(manager: Cluster, story: WorkloadStory) {
    let client = manager.client("user", Role::User);
    let (collection, path) = (etl::collection_of(&story.name), etl::path_of(&story.name));
    for (wait, step) in story.steps {
        sleep(wait).await;
        // A refusal is an answer too: the name is still taken, the Job is gone.
        match step {
            Step::Create => create_when_free(&client, collection, &story.job).await,
            Step::Suspend(suspend) => edit(&client, &path, etl::suspend(&story.name, suspend)).await,
            Step::Resize(parallelism) => edit(&client, &path, json!({"spec": {"parallelism": parallelism}})).await,
            Step::Delete(propagation) => delete(&client, &path, propagation).await,
            Step::Relabel(stage) => {
                let labels = json!({"stage": stage.to_string()});
                edit(&client, &path, json!({"spec": {"template": {"metadata": {"labels": labels}}}})).await;
            }
            Step::Widen(size) => {
                edit(&client, &path, json!({"spec": {"completions": size, "parallelism": size}})).await;
            }
            Step::Keep(kept) => strangers::keep(&client, &story.name, kept).await,
        }
    }
}

/// Like [`edit`].
pub(crate) async fn delete(client: &Client, path: &str, propagation: &str) {
    let options = json!({"propagationPolicy": propagation}).to_string().into_bytes();
    for _ in 0..TRIES {
        match kubeio::delete(client, path, options.clone(), ANSWER_WITHIN).await {
            Err(error) if error.refusal().is_none() => sleep(ANSWER_WITHIN).await,
            _ => return,
        }
    }
}

/// Does what others do.
pub(crate) async fn meddle(
    manager: Cluster,
    worker: Cluster,
    incident: Incident,
    weather: &Weather,
    secrets: &Secrets,
) {
    sleep(incident.after).await;
    weather.hub().disturb(&worker.name);
    let foreigner = worker.client("foreigner", Role::Foreigner);
    let name = &worker.name;
    match incident.deed {
        Deed::DeleteMirror(job) => {
            weather.count(Fault::MirrorDeleted, format_args!("{name} /{job}"));
            delete(&foreigner, &etl::path_of(&job), "Background").await;
        }
        Deed::TakeName(job, time) => {
            weather.count(Fault::NameTaken, format_args!("{name} /{job} for {time:?}"));
            if create(&foreigner, etl::collection_of(&job), &squatter(&job)).await.is_ok() {
                sleep(time).await;
                delete(&foreigner, &etl::path_of(&job), "Background").await;
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
            edit(&foreigner, &etl::path_of(&job), json!({"metadata": {"labels": {labels::ORIGIN: null}}})).await;
        }
        Deed::Hold(job, time) => {
            weather.count(Fault::WorkerQueue, format_args!("{name} /{job} for {time:?}"));
            let queue = worker.client("queue", Role::Cluster);
            for held in [true, false] {
                edit(&queue, &etl::path_of(&job), strangers::hold(&job, held)).await;
                sleep(time).await;
            }
        }
        Deed::Remove(time) => {
            weather.count(Fault::WorkerRemoved, format_args!("{name} for {time:?}"));
            let admin = manager.client("admin", Role::User);
            manager.hub().ill(name, "removed", true);
            delete(&admin, &format!("{WORKERS}/{name}"), "Background").await;
            sleep(time).await;
            create_when_free(&admin, WORKERS, &worker_object(name)).await;
            manager.hub().ill(name, "removed", false);
        }
        Deed::Rotate(time) => {
            weather.count(Fault::SecretRotated, format_args!("{name} after {time:?}"));
            manager.hub().ill(name, "credentials", true);
            worker.impose(Rule::Denied(401));
            sleep(time).await;
            worker.lift(Rule::Denied(401));
            secrets.change(name);
            manager.hub().ill(name, "credentials", false);
        }
        Deed::Policies(policies, time) => {
            let admin = manager.client("admin", Role::User);
            for spec in policies {
                weather.count(Fault::PolicyChanged, format_args!("{spec} for {time:?}"));
                // Placements may have to wait for the next one.
                manager.hub().disturb_for(&manager.name, time);
                put_policy(&manager, &spec).await;
                sleep(time).await;
            }
            delete(&admin, &format!("{POLICIES}/default"), "Background").await;
        }
        deed => strangers::meddle(&manager, &worker, deed, weather, secrets).await,
    }
}

/// Something of somebody else's under the name of a mirror.
fn squatter(name: &str) -> Value {
    if etl::collection_of(name) != JOBS {
        return etl::squatter(name);
    }
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "work"}]}});
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"},
           "spec": {"template": template, "suspend": true}})
}

/// The default policy is this one from now on.
pub(crate) async fn put_policy(manager: &Cluster, spec: &Value) {
    manager.hub().policy(&manager.name, spec);
    let admin = &manager.client("admin", Role::User);
    let metadata = json!({"name": "default"});
    let policy =
        json!({"apiVersion": "jobferry.dev/v1alpha1", "kind": "DispatchPolicy", "metadata": metadata, "spec": spec});
    if create(admin, POLICIES, &policy).await.is_err() {
        let cleared = json!({"workers": null, "prefer": null, "onWorkerLost": null, "keepFinished": null});
        edit(admin, &format!("{POLICIES}/default"), json!({"spec": cleared})).await;
        edit(admin, &format!("{POLICIES}/default"), json!({"spec": spec})).await;
    }
}

/// A Job controller that does not know `managedBy`: it takes every unfinished Job of the manager for its own, until
/// somebody upgrades it.
pub(crate) async fn run_old_controller(manager: &Cluster, time: Duration) {
    let client = manager.client("kube-controller-manager", Role::OldController);
    let mut taken = BTreeSet::new();
    let deadline = Instant::now() + time;
    while Instant::now() < deadline {
        // It acts on a suspended Job as well.
        let now = format!("{}", k8s_openapi::jiff::Timestamp::UNIX_EPOCH);
        let suspended = json!({"type": "Suspended", "status": "True", "reason": "JobSuspended", "message": "",
                               "lastProbeTime": now, "lastTransitionTime": now});
        edit(&client, &format!("{CANARY}/status"), json!({"status": {"conditions": [suspended]}})).await;
        let list: Value = kubeio::get(&client, JOBS, ANSWER_WITHIN).await.unwrap_or_default();
        for job in list["items"].as_array().into_iter().flatten() {
            let facts = JobFacts::of(job);
            if facts.ending.is_none() && !facts.suspended && !facts.deleting && taken.insert(facts.uid) {
                run_itself(&client, job).await;
            }
        }
        sleep(Duration::from_secs(3)).await;
    }
    // After the upgrade somebody lets another canary be made.
    delete(&manager.client("admin", Role::User), CANARY, "Background").await;
}

/// Says so in its status, as this controller, and creates a pod.
async fn run_itself(client: &Client, job: &Value) {
    let (name, uid) = (&job["metadata"]["name"], &job["metadata"]["uid"]);
    let status = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default", "uid": uid},
                        "status": {"active": 1}});
    let path = format!("{JOBS}/{}/status?fieldManager=kube-controller-manager&force=true", name.as_str().unwrap_or(""));
    let request = http::Request::patch(path)
        .header(http::header::CONTENT_TYPE, "application/apply-patch+yaml")
        .body(status.to_string().into_bytes().into());
    let Ok(request) = request else { return };
    if kubeio::call(client, request, ANSWER_WITHIN).await.is_err() {
        return;
    }
    let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": true,
                       "blockOwnerDeletion": true});
    let mut pod = job["spec"]["template"].clone();
    pod["metadata"]["generateName"] = format!("{}-", name.as_str().unwrap_or_default()).into();
    pod["metadata"]["ownerReferences"] = json!([owner]);
    (pod["apiVersion"], pod["kind"]) = ("v1".into(), "Pod".into());
    let _ = create(client, "/api/v1/namespaces/default/pods", &pod).await;
}

/// The user deletes everything and goes home.
pub(crate) async fn delete_all(manager: &Cluster) {
    let client = manager.client("user", Role::User);
    let names: Vec<String> =
        manager.hub().truth(|truth| truth.jobs(&manager.name).map(|job| job.name.clone()).collect());
    for name in names {
        delete(&client, &etl::path_of(&name), "Background").await;
    }
}
