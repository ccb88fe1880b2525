//! What Jobferry does with workloads of other kinds than Job. There is no operator: a scenario says itself what the worker's
//! operator would.

use std::time::Duration;

use jobferry_api::labels;
use serde_json::{Value, json};

use super::dispatch::Outcome;
use crate::fleet::{Fleet, Objects, ScenarioError};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const KINDS: &str = "/apis/jobferry.dev/v1alpha1/workloadkinds";

/// Whoever runs an object that is ours must not stay unnoticed for longer.
const NOTICED_WITHIN: Duration = Duration::from_secs(20);

/// A kind to try, in a namespace of its own.
pub struct Subject {
    namespace: &'static str,
    definition: Value,
    /// The kind's rules, if they are not built in.
    rules: Option<&'static str>,
    spec: Value,
    suspended: Value,
    /// The spec of a released object: managedBy is not ours any more.
    released: Value,
    running: Value,
    succeeded: Value,
    failed: Value,
    /// What its operator creates for an object, without its metadata.
    child: Value,
    /// The resource and the label of that.
    children: (&'static str, &'static str),
}

/// A definition with a subresource `status` that takes everything.
fn definition(group: &str, version: &str, kind: &str, plural: &str) -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{
                "name": version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
            }],
        },
    })
}

fn condition(type_: &str) -> Value {
    json!({"type": type_, "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

impl Subject {
    /// JobSet, whose rules are built in.
    pub fn job_set(namespace: &'static str) -> Self {
        let pod = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
        Self {
            namespace,
            definition: definition("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets"),
            rules: None,
            spec: json!({
                "managedBy": "jobferry.dev/dispatcher", "ttlSecondsAfterFinished": 60,
                "replicatedJobs": [{"name": "w", "replicas": 1, "template": {"spec": {"template": pod}}}],
            }),
            suspended: json!({"suspend": true}),
            released: json!({"managedBy": "jobset.sigs.k8s.io/jobset-controller"}),
            running: json!({"replicatedJobsStatus": [{"name": "w", "active": 1}]}),
            succeeded: json!({"conditions": [condition("Completed")], "terminalState": "Completed"}),
            failed: json!({"conditions": [condition("Failed")], "terminalState": "Failed"}),
            child: json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"suspend": true, "template": pod}}),
            children: ("jobs", "jobset.sigs.k8s.io/jobset-name"),
        }
    }

    /// A kind of a user's own, known by a WorkloadKind.
    pub fn etl_run(namespace: &'static str) -> Self {
        let pod = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
        Self {
            namespace,
            definition: definition("workloads.example.dev", "v1alpha1", "EtlRun", "etlruns"),
            rules: Some(include_str!("../../../../examples/kind-etl-run.yaml")),
            spec: json!({
                "control": {"managedBy": "jobferry.dev/dispatcher", "keepSeconds": 60},
                "stages": {"load": {"instances": 1, "template": pod}},
            }),
            suspended: json!({"control": {"paused": true}}),
            released: json!({"control": {"managedBy": null}}),
            running: json!({"phase": "Running", "runId": "r-1"}),
            succeeded: json!({"phase": "Done", "runId": "r-1"}),
            failed: json!({"phase": "Broken"}),
            child: json!({"apiVersion": "v1", "kind": "Pod", "spec": pod["spec"]}),
            children: ("pods", "workloads.example.dev/run"),
        }
    }

    fn text(&self, pointer: &str) -> &str {
        self.definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    fn collection(&self) -> String {
        let (group, plural) = (self.text("/spec/group"), self.text("/spec/names/plural"));
        format!("/apis/{group}/{}/namespaces/{}/{plural}", self.text("/spec/versions/0/name"), self.namespace)
    }

    fn object(&self, name: &str, spec: &Value) -> Value {
        json!({
            "apiVersion": format!("{}/{}", self.text("/spec/group"), self.text("/spec/versions/0/name")),
            "kind": self.text("/spec/names/kind"),
            "metadata": {"name": name, "namespace": self.namespace, "labels": {"team": "etl"}},
            "spec": spec,
        })
    }

    /// Creates on the manager what the operator would for this object, labelled as for the one of that name.
    async fn create_child(&self, fleet: &Fleet, of: &Value, labelled: &str) -> Outcome {
        let (plural, label) = self.children;
        let api_version = self.child["apiVersion"].as_str().unwrap_or_default();
        let root = if api_version.contains('/') { "/apis" } else { "/api" };
        let children = fleet.on_manager(&format!("{root}/{api_version}/namespaces/{}/{plural}", self.namespace));
        let mut child = self.child.clone();
        let owner = json!({
            "apiVersion": of["apiVersion"], "kind": of["kind"], "name": of["metadata"]["name"],
            "uid": of["metadata"]["uid"], "controller": true,
        });
        child["metadata"] = json!({
            "name": format!("{}-0", of["metadata"]["name"].as_str().unwrap_or_default()), "namespace": self.namespace,
            "labels": {label: labelled}, "ownerReferences": [owner],
        });
        children.create(&child).await
    }

    /// Waits until people are told that somebody else acts on this object; returns in which words.
    async fn until_told_of_another(&self, fleet: &Fleet, name: &str) -> Result<String, ScenarioError> {
        let events = fleet.on_manager(&format!("/api/v1/namespaces/{}/events", self.namespace));
        let told = events.until_one("a word about the operator", |event| {
            event["reason"] == "ForeignController" && event["involvedObject"]["name"] == name
        });
        let event = tokio::time::timeout(NOTICED_WITHIN, told).await;
        let event = event.unwrap_or_else(|_| panic!("nobody noticed within {NOTICED_WITHIN:?}"))?;
        assert!(fleet.metrics().contains(r#"alarm="acted_on""#), "{}", fleet.metrics());
        Ok(event["message"].as_str().unwrap_or_default().to_owned())
    }

    /// Installs the definition on the manager and on these workers, and the rules if need be.
    pub async fn install(&self, fleet: &Fleet, workers: &[&str]) -> Outcome {
        fleet.namespace(self.namespace).await?;
        for worker in workers {
            self.install_on_worker(fleet, worker).await?;
        }
        fleet.on_manager(DEFINITIONS).create(&self.definition).await?;
        // A definition is served a moment after it was created.
        fleet.on_manager(&self.collection()).until_gone("nobody").await?;
        if let Some(rules) = self.rules {
            let rules: Value = serde_saphyr::from_str(rules).unwrap_or_else(|error| panic!("{error}"));
            fleet.on_manager(KINDS).create(&rules).await?;
        }
        Ok(())
    }

    async fn install_on_worker(&self, fleet: &Fleet, worker: &str) -> Outcome {
        fleet.on_worker(worker, DEFINITIONS).create(&self.definition).await
    }

    /// An object that was submitted and whose mirror is there.
    async fn placed(&self, fleet: &Fleet, name: &str) -> Result<Placed, ScenarioError> {
        self.placed_as(fleet, name, self.object(name, &self.spec)).await
    }

    async fn placed_as(&self, fleet: &Fleet, name: &str, object: Value) -> Result<Placed, ScenarioError> {
        let manager = fleet.on_manager(&self.collection());
        manager.create(&object).await?;
        let object = manager.until(name, "placed", |object| chosen_worker(object).is_some()).await?;
        let on = chosen_worker(&object).unwrap_or_default().to_owned();
        let worker = fleet.on_worker(&on, &self.collection());
        let mirror = worker.until(name, "mirrored", |_| true).await?;
        Ok(Placed { manager, worker, on, mirror })
    }
}

struct Placed {
    manager: Objects,
    worker: Objects,
    /// The worker's name.
    on: String,
    mirror: Value,
}

pub(super) fn chosen_worker(object: &Value) -> Option<&str> {
    object["metadata"]["labels"]["jobferry.dev/worker"].as_str()
}

fn has_status(wanted: &Value) -> impl Fn(&Value) -> bool {
    let wanted = wanted.clone();
    move |object| object["status"] == wanted
}

fn note_of(object: &Value) -> &str {
    object["metadata"]["annotations"]["jobferry.dev/placed"].as_str().unwrap_or_default()
}

/// The worker's own operator runs the mirror; what it says comes back, to the end.
pub async fn it_runs_on_a_worker_and_succeeds(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &fleet.two_workers()).await?;
    let at = subject.placed(fleet, "nightly").await?;
    let (managed_by, spec) = (format!("{}", at.mirror["spec"]).contains("managedBy"), &at.mirror["spec"]);
    assert!(!managed_by, "the worker's operator would not run it: {spec}");
    assert_eq!(at.mirror["metadata"]["labels"]["team"], "etl");
    at.worker.report("nightly", &subject.running).await?;
    at.manager.until("nightly", "its progress", has_status(&subject.running)).await?;
    at.worker.report("nightly", &subject.succeeded).await?;
    let done = at.manager.until("nightly", "its end", |object| {
        subject.succeeded.as_object().into_iter().flatten().all(|(field, value)| object["status"][field] == *value)
    });
    done.await?;
    assert!(at.worker.find("nightly").await?.is_some(), "a finished mirror stays");
    Ok(())
}

/// A failure is a result too.
pub async fn it_fails_as_its_mirror_does(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &fleet.two_workers()).await?;
    let at = subject.placed(fleet, "nightly").await?;
    at.worker.report("nightly", &subject.failed).await?;
    at.manager.until("nightly", "its end", has_status(&subject.failed)).await?;
    Ok(())
}

/// An edit reaches the mirror, and the status goes on being copied.
pub async fn it_is_suspended_on_its_worker(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &fleet.two_workers()).await?;
    let at = subject.placed(fleet, "nightly").await?;
    at.manager.change("nightly", &json!({"spec": subject.suspended, "metadata": {"labels": {"stage": "two"}}})).await?;
    let includes = |object: &Value| includes(&object["spec"], &subject.suspended);
    let mirror = at.worker.until("nightly", "suspended", includes).await?;
    assert_eq!(mirror["metadata"]["labels"]["stage"], "two");
    at.worker.report("nightly", &subject.running).await?;
    at.manager.until("nightly", "its progress", has_status(&subject.running)).await?;
    Ok(())
}

fn includes(whole: &Value, part: &Value) -> bool {
    match part {
        Value::Object(fields) => fields.iter().all(|(field, value)| includes(&whole[field], value)),
        _ => whole == part,
    }
}

/// Whoever submits it suspended wants nothing to happen yet.
pub async fn it_waits_while_it_is_suspended(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &fleet.two_workers()).await?;
    let manager = fleet.on_manager(&subject.collection());
    let mut object = subject.object("held", &subject.spec);
    merge(&mut object["spec"], &subject.suspended);
    manager.create(&object).await?;
    // Another one that comes later is placed: so this one was looked at.
    let at = subject.placed(fleet, "other").await?;
    assert!(at.worker.find("held").await?.is_none());
    assert_eq!(chosen_worker(&manager.find("held").await?.unwrap_or_default()), None);
    Ok(())
}

fn merge(whole: &mut Value, part: &Value) {
    match part {
        Value::Object(fields) => fields.iter().for_each(|(field, value)| merge(&mut whole[field], value)),
        _ => *whole = part.clone(),
    }
}

/// Deleting the object removes its mirror.
pub async fn it_takes_its_mirror_along_when_it_is_deleted(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &fleet.two_workers()).await?;
    let at = subject.placed(fleet, "nightly").await?;
    at.worker.report("nightly", &subject.running).await?;
    at.manager.delete("nightly").await?;
    at.worker.until_gone("nightly").await
}

/// The same when the worker was away at that time.
pub async fn it_leaves_nothing_on_a_worker_that_was_away(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &fleet.two_workers()).await?;
    let at = subject.placed(fleet, "nightly").await?;
    fleet.cut(&at.on);
    fleet.until_connected(&at.on, false).await?;
    at.manager.delete("nightly").await?;
    at.manager.until_gone("nightly").await?;
    fleet.mend(&at.on);
    at.worker.until_gone("nightly").await
}

/// An object of somebody else's under the same name is told, and left alone.
pub async fn its_name_is_taken_on_the_worker(fleet: &Fleet, subject: &Subject) -> Outcome {
    let [first, second] = fleet.two_workers();
    subject.install(fleet, &[first, second]).await?;
    let foreign = subject.object("nightly", &json!({"mine": true}));
    for worker in [first, second] {
        fleet.on_worker(worker, &subject.collection()).create(&foreign).await?;
    }
    let manager = fleet.on_manager(&subject.collection());
    manager.create(&subject.object("nightly", &subject.spec)).await?;
    manager.until("nightly", "told", |object| note_of(object).contains("exists there and is not ours")).await?;
    for worker in [first, second] {
        let found = fleet.on_worker(worker, &subject.collection()).find("nightly").await?.unwrap_or_default();
        assert_eq!(found["spec"], json!({"mine": true}));
    }
    Ok(())
}

/// A worker without the definition is no candidate, and nothing else of it is disturbed.
pub async fn it_goes_where_its_kind_is_known(fleet: &Fleet, subject: &Subject) -> Outcome {
    let [without, with] = fleet.two_workers();
    subject.install(fleet, &[with]).await?;
    for name in ["one", "two", "three"] {
        assert_eq!(subject.placed(fleet, name).await?.on, with);
    }
    fleet.until_connected(without, true).await?;
    // It gets the definition later, and the other one is closed.
    subject.install_on_worker(fleet, without).await?;
    fleet.change_worker(with, &json!({"spec": {"cordoned": true}})).await?;
    assert_eq!(subject.placed(fleet, "four").await?.on, without);
    Ok(())
}

/// Where no worker knows the kind, people are told.
pub async fn it_waits_where_no_worker_knows_its_kind(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &[]).await?;
    let manager = fleet.on_manager(&subject.collection());
    manager.create(&subject.object("nightly", &subject.spec)).await?;
    manager.until("nightly", "told", |object| note_of(object).contains("2 does not have this kind")).await?;
    Ok(())
}

/// A dispatcher that is restarted goes on where it was: nothing is mirrored twice.
pub async fn it_outlives_the_dispatcher(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &fleet.two_workers()).await?;
    let at = subject.placed(fleet, "nightly").await?;
    at.worker.report("nightly", &subject.running).await?;
    at.manager.until("nightly", "its progress", has_status(&subject.running)).await?;
    fleet.stop_dispatchers().await;
    at.worker.report("nightly", &subject.succeeded).await?;
    fleet.start_dispatcher().await;
    let end = at.manager.until("nightly", "its end", |object| includes(&object["status"], &subject.succeeded)).await?;
    assert_eq!(chosen_worker(&end), Some(at.on.as_str()));
    assert_eq!(at.worker.find("nightly").await?.unwrap_or_default()["metadata"]["uid"], at.mirror["metadata"]["uid"]);
    let elsewhere = fleet.workers.keys().find(|worker| **worker != at.on).cloned().unwrap_or_default();
    assert!(fleet.on_worker(&elsewhere, &subject.collection()).find("nightly").await?.is_none());
    Ok(())
}

/// A mirror that somebody deleted may have ended unseen: the object fails, and nothing runs again.
pub async fn it_fails_when_somebody_deletes_its_mirror(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &fleet.two_workers()).await?;
    let at = subject.placed(fleet, "nightly").await?;
    at.worker.report("nightly", &subject.running).await?;
    at.manager.until("nightly", "its progress", has_status(&subject.running)).await?;
    at.worker.delete("nightly").await?;
    at.manager.until("nightly", "failed", |object| has_failed(object, "MirrorDeleted")).await?;
    for worker in fleet.two_workers() {
        assert!(fleet.on_worker(worker, &subject.collection()).find("nightly").await?.is_none());
    }
    Ok(())
}

/// An object that is taken back from us: its mirror goes, and nothing is copied any more.
pub async fn it_is_released_when_managed_by_goes(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &fleet.two_workers()).await?;
    let at = subject.placed(fleet, "nightly").await?;
    at.manager.change("nightly", &json!({"spec": subject.released})).await?;
    at.worker.until_gone("nightly").await
}

/// Its operator does not look at a delegated object, so the time to live is ours.
pub async fn it_goes_when_its_time_is_over(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &fleet.two_workers()).await?;
    let at = subject.placed(fleet, "nightly").await?;
    at.worker.report("nightly", &subject.succeeded).await?;
    let told = |object: &Value| note_of(object).contains("Succeeded on worker");
    at.manager.until("nightly", "told of its end", told).await?;
    at.manager.until_gone("nightly").await?;
    at.worker.until_gone("nightly").await
}

/// A status that somebody else writes on the manager means that somebody else runs it: people hear of it, and nothing is
/// copied over it.
pub async fn it_is_left_alone_when_somebody_else_acts_on_it(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &fleet.two_workers()).await?;
    let at = subject.placed(fleet, "nightly").await?;
    at.manager.report("nightly", &subject.running).await?;
    let message = subject.until_told_of_another(fleet, "nightly").await?;
    assert!(message.starts_with("operator writes the status of a workload that was handed to Jobferry"), "{message}");
    at.worker.report("nightly", &subject.succeeded).await?;
    // What another one reports later has come through: so this was looked at.
    let other = subject.placed(fleet, "other").await?;
    other.worker.report("other", &subject.running).await?;
    other.manager.until("other", "its progress", has_status(&subject.running)).await?;
    let left = at.manager.find("nightly").await?.unwrap_or_default();
    assert_eq!(left["status"], subject.running);
    Ok(())
}

/// So does an object that was created for it on the manager. What was created for another one tells nothing, whatever its
/// label says.
pub async fn it_is_left_alone_when_something_is_created_for_it(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &fleet.two_workers()).await?;
    let at = subject.placed(fleet, "nightly").await?;
    let other = subject.placed(fleet, "other").await?;
    let mut local = subject.object("local", &subject.spec);
    merge(&mut local["spec"], &subject.released);
    at.manager.create(&local).await?;
    let local = at.manager.find("local").await?.unwrap_or_default();
    subject.create_child(fleet, &local, "other").await?;
    let nightly = at.manager.find("nightly").await?.unwrap_or_default();
    subject.create_child(fleet, &nightly, "nightly").await?;
    let message = subject.until_told_of_another(fleet, "nightly").await?;
    assert!(message.contains("/nightly-0 was created here for a workload that was handed to Jobferry"), "{message}");
    at.worker.report("nightly", &subject.succeeded).await?;
    other.worker.report("other", &subject.running).await?;
    other.manager.until("other", "its progress", has_status(&subject.running)).await?;
    assert_eq!(at.manager.find("nightly").await?.unwrap_or_default()["status"], Value::Null);
    Ok(())
}

/// Also when it was created while no dispatcher watched: then nothing is placed at all.
pub async fn it_is_not_placed_when_something_was_created_for_it_before(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &fleet.two_workers()).await?;
    // Its kind is followed by now: the next dispatcher finds it at its start.
    subject.placed(fleet, "earlier").await?;
    fleet.stop_dispatchers().await;
    let manager = fleet.on_manager(&subject.collection());
    manager.create(&subject.object("nightly", &subject.spec)).await?;
    let nightly = manager.find("nightly").await?.unwrap_or_default();
    subject.create_child(fleet, &nightly, "nightly").await?;
    fleet.start_dispatcher().await;
    subject.until_told_of_another(fleet, "nightly").await?;
    subject.placed(fleet, "other").await?;
    assert_eq!(chosen_worker(&manager.find("nightly").await?.unwrap_or_default()), None);
    for worker in fleet.two_workers() {
        assert!(fleet.on_worker(worker, &subject.collection()).find("nightly").await?.is_none());
    }
    Ok(())
}

/// What ended on a worker that was away is not lost, and nothing runs again.
pub async fn its_result_waits_for_a_worker_that_is_away(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &fleet.two_workers()).await?;
    let at = subject.placed(fleet, "nightly").await?;
    at.worker.report("nightly", &subject.running).await?;
    at.manager.until("nightly", "its progress", has_status(&subject.running)).await?;
    fleet.cut(&at.on);
    fleet.until_connected(&at.on, false).await?;
    at.worker.report("nightly", &subject.succeeded).await?;
    // Another one goes to the worker that is left.
    assert_ne!(subject.placed(fleet, "other").await?.on, at.on);
    assert_eq!(at.manager.find("nightly").await?.unwrap_or_default()["status"], subject.running);
    fleet.mend(&at.on);
    let end = at.manager.until("nightly", "its end", |object| includes(&object["status"], &subject.succeeded)).await?;
    assert_eq!(chosen_worker(&end), Some(at.on.as_str()));
    Ok(())
}

/// Where the policy says so it fails when its worker was lost for too long, and what ran on there goes later.
pub async fn it_fails_when_its_worker_is_lost_for_too_long(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &fleet.two_workers()).await?;
    fleet.create_policy("give-up", &json!({"onWorkerLost": {"action": "Fail", "after": "30s"}})).await?;
    let mut object = subject.object("nightly", &subject.spec);
    object["metadata"]["labels"][labels::POLICY] = "give-up".into();
    let at = subject.placed_as(fleet, "nightly", object).await?;
    at.worker.report("nightly", &subject.running).await?;
    at.manager.until("nightly", "its progress", has_status(&subject.running)).await?;
    fleet.cut(&at.on);
    let failed = at.manager.until("nightly", "failed", |object| has_failed(object, "WorkerLost")).await?;
    assert!(at.worker.find("nightly").await?.is_some(), "nobody can reach it");
    fleet.mend(&at.on);
    at.worker.until_gone("nightly").await?;
    assert_eq!(at.manager.find("nightly").await?.unwrap_or_default()["status"], failed["status"]);
    Ok(())
}

/// Whether an object has failed, as far as its kind lets one say why.
fn has_failed(object: &Value, reason: &str) -> bool {
    let status = &object["status"];
    status["phase"] == "Broken" || status["conditions"][0]["reason"] == reason
}
