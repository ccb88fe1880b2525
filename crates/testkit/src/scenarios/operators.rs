//! The life of a workload whose kind's own operator runs, on the manager as well as on the workers.

use std::{collections::BTreeMap, time::Duration};

use futures::future::{select_ok, try_join_all};
use jobferry_core::{
    custom::FIELD_MANAGER,
    kind::{Kind, Path, Table},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::dispatch::Outcome;
use super::kinds::chosen_worker;
use crate::fleet::{Fleet, Namespace, Objects, Place, ScenarioError};
use crate::{EXIT_CODE, RUN_SECONDS};

/// The name of every object here: each has a namespace of its own.
const NAME: &str = "nightly";

/// Whoever runs what was handed over is noticed this soon after it first writes: seconds, on a machine that is busy with
/// two clusters and their operators.
const NOTICED_WITHIN: Duration = Duration::from_secs(20);

/// An object of a kind, and how it looks in the course of its life. Fields are named as in a kind's rules.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Specimen {
    /// Handed to the dispatcher.
    object: Value,
    /// What makes pods: their script goes there. None: the object's own annotations reach its pods.
    #[serde(default)]
    pod_templates: Vec<String>,
    /// A field that takes the script as a word, where it is not the pods that end the object.
    script_field: Option<String>,
    /// What must exist in every cluster.
    #[serde(default)]
    beside: Vec<Beside>,
    running: State,
    /// How it ends; none of both if it never does.
    succeeded: Option<State>,
    failed: Option<State>,
    suspension: Option<Suspension>,
    edit: Option<Edit>,
    /// What its operator creates for it cannot be told from what others create: a limit that is documented.
    #[serde(default)]
    childless: bool,
}

/// An object without a namespace, and its collection.
#[derive(Deserialize)]
struct Beside {
    collection: String,
    object: Value,
}

/// Fields and the values that they have.
type State = BTreeMap<String, Value>;

#[derive(Deserialize)]
struct Suspension {
    /// The field that suspends an object when it is true.
    field: String,
    /// How the status of a suspended object looks.
    shows: State,
}

/// A change of the spec whose effect shows in the status.
#[derive(Deserialize)]
struct Edit {
    change: Value,
    shows: State,
}

/// What its pods do.
#[derive(Clone, Copy)]
enum Script {
    Succeed,
    Fail,
    RunOn,
}

impl Specimen {
    /// Reads a specimen.
    pub fn read(text: &str) -> Self {
        let specimen: Self =
            serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("a specimen that cannot be read: {error}"));
        let (kind, told) = (specimen.kind(), [&specimen.succeeded, &specimen.failed].map(Option::is_some));
        assert_eq!(told, [kind.ends(); 2], "a specimen says how a {} ends if it does", kind.kind);
        specimen
    }

    fn kind(&self) -> Kind {
        let table = Table::built_in().unwrap_or_else(|error| panic!("{error}"));
        let Some((_, kind)) = table.of(&self.object) else { panic!("{} is not built in", self.object["kind"]) };
        kind.clone()
    }

    fn object(&self, script: Script) -> Value {
        let (word, annotations) = match script {
            Script::Succeed => ("succeed", json!({})),
            Script::Fail => ("fail", json!({EXIT_CODE: "1"})),
            Script::RunOn => ("run on", json!({RUN_SECONDS: "3600"})),
        };
        let mut object = self.object.clone();
        object["metadata"]["name"] = NAME.into();
        if let Some(field) = &self.script_field {
            path(field).set(&mut object, word.into());
        } else if self.pod_templates.is_empty() {
            object["metadata"]["annotations"] = annotations.clone();
        }
        for templates in &self.pod_templates {
            for (template, _) in path(templates).find(&self.object) {
                path(&format!("{template}.metadata.annotations")).set(&mut object, annotations.clone());
            }
        }
        object
    }

    /// What it does when all is well, and how that shows: it succeeds, or runs on if its kind never ends.
    fn at_best(&self) -> (Script, &State) {
        self.succeeded.as_ref().map_or((Script::RunOn, &self.running), |succeeded| (Script::Succeed, succeeded))
    }

    /// The same, left to the kind's own operator.
    fn not_delegated(&self, script: Script) -> Value {
        let mut object = self.object(script);
        if let Some(managed_by) = self.kind().managed_by {
            managed_by.path.remove(&mut object);
        }
        object
    }
}

impl Suspension {
    fn set(&self, suspended: bool) -> Value {
        let mut change = Value::Object(Map::new());
        path(&self.field).set(&mut change, suspended.into());
        change
    }
}

fn path(text: &str) -> Path {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn shows(state: &State) -> impl Fn(&Value) -> bool {
    let wanted: Vec<(Path, Value)> = state.iter().map(|(field, value)| (path(field), value.clone())).collect();
    move |object| wanted.iter().all(|(field, value)| field.first(object) == Some(value))
}

/// Objects of one kind in a namespace of their own.
struct Stage<'a> {
    fleet: &'a Fleet,
    namespace: Namespace<'a>,
    collection: String,
}

impl<'a> Stage<'a> {
    async fn set(fleet: &'a Fleet, kind: &Kind, what: &str) -> Result<Self, ScenarioError> {
        let namespace = fleet.namespace(&format!("{}-{what}", kind.kind.to_lowercase())).await?;
        let collection = format!("/apis/{}/namespaces/{}/{}", kind.api_version(), namespace.name(), kind.plural);
        Ok(Self { fleet, namespace, collection })
    }

    fn manager(&self) -> Objects {
        self.fleet.on_manager(&self.collection)
    }

    /// Submits an object and waits for its mirror: which worker has it, and the kind's objects there.
    async fn dispatched(&self, object: &Value) -> Result<(Place, Objects), ScenarioError> {
        self.manager().create(object).await?;
        let placed = self.manager().until(NAME, "placed", |object| chosen_worker(object).is_some()).await?;
        let worker = chosen_worker(&placed).unwrap_or_default();
        let mirrors = self.fleet.on_worker(worker, &self.collection);
        mirrors.until(NAME, "mirrored", |_| true).await?;
        Ok((self.namespace.worker(worker), mirrors))
    }

    /// The operator of the manager made something of which the dispatcher would see that the object runs there.
    async fn until_a_child_shows(&self, kind: &Kind) -> Outcome {
        let owner = self.manager().find(NAME).await?.unwrap_or_default()["metadata"]["uid"].take();
        let seen = kind.children.iter().map(|children| {
            let objects = self.fleet.on_manager(&children.path_in(self.namespace.name()));
            let is_child = |object: &Value| {
                let Value::Object(metadata) = &object["metadata"] else { return false };
                let owners = metadata.get("ownerReferences").and_then(Value::as_array).into_iter().flatten();
                let labels = metadata.get("labels");
                let labelled = |label: &String| labels.is_some_and(|labels| labels.get(label).is_some());
                children.label.as_ref().is_none_or(labelled)
                    && owners.into_iter().any(|by| by["uid"] == owner && by["controller"] == true)
            };
            Box::pin(async move { objects.until_one("what its operator creates", is_child).await })
        });
        select_ok(seen).await.map(drop)
    }

    /// The operator of the manager left the object alone.
    async fn nothing_ran_on_the_manager(&self) -> Outcome {
        let manager = self.namespace.manager();
        assert_eq!((manager.pods().await?, manager.jobs().await?.len()), (0, 0), "in {}", self.namespace.name());
        Ok(())
    }
}

/// Makes what objects of a kind need in every cluster.
async fn put_beside(fleet: &Fleet, specimen: &Specimen) -> Outcome {
    for Beside { collection, object } in &specimen.beside {
        for client in std::iter::once(&fleet.manager).chain(fleet.workers.values()) {
            fleet.create_on(client, collection, object).await?;
        }
    }
    Ok(())
}

/// The manager's operator runs an object, and leaves another one alone that differs only in who is to run it.
pub async fn it_is_left_alone_on_the_manager(fleet: &Fleet, specimen: &Specimen) -> Outcome {
    put_beside(fleet, specimen).await?;
    let kind = specimen.kind();
    let (delegated, own) = (Stage::set(fleet, &kind, "delegated").await?, Stage::set(fleet, &kind, "own").await?);
    let (script, state) = specimen.at_best();
    delegated.dispatched(&specimen.object(script)).await?;
    own.manager().create(&specimen.not_delegated(script)).await?;
    own.manager().until(NAME, "run by the manager", shows(state)).await?;
    assert!(own.namespace.manager().pods().await? > 0, "its pods were on the manager");
    if !specimen.childless {
        own.until_a_child_shows(&kind).await?;
    }
    delegated.nothing_ran_on_the_manager().await
}

/// The worker's operator runs the mirror: progress and ends come back, edits arrive, and deleting leaves nothing.
pub async fn it_lives_on_its_worker(fleet: &Fleet, specimen: &Specimen) -> Outcome {
    put_beside(fleet, specimen).await?;
    let ends = [(Script::Succeed, &specimen.succeeded), (Script::Fail, &specimen.failed)];
    let ends = ends.into_iter().filter_map(|(script, end)| Some((script, end.as_ref()?)));
    let ends = ends.map(|(script, end)| it_ends_as_its_mirror(fleet, specimen, script, end));
    tokio::try_join!(try_join_all(ends), it_is_edited_and_deleted(fleet, specimen))?;
    Ok(())
}

async fn it_ends_as_its_mirror(fleet: &Fleet, specimen: &Specimen, script: Script, end: &State) -> Outcome {
    let succeeds = matches!(script, Script::Succeed);
    let stage = Stage::set(fleet, &specimen.kind(), if succeeds { "succeeding" } else { "failing" }).await?;
    let (worker, mirrors) = stage.dispatched(&specimen.object(script)).await?;
    stage.manager().until(NAME, "its end", shows(end)).await?;
    let mirror = mirrors.find(NAME).await?.unwrap_or_default();
    assert!(shows(end)(&mirror), "the end is the mirror's: {}", mirror["status"]);
    // Some operators remove pods that failed.
    assert!(!succeeds || worker.pods().await? > 0, "its pods were on the worker");
    stage.nothing_ran_on_the_manager().await
}

async fn it_is_edited_and_deleted(fleet: &Fleet, specimen: &Specimen) -> Outcome {
    let stage = Stage::set(fleet, &specimen.kind(), "lasting").await?;
    let manager = stage.manager();
    let (worker, mirrors) = stage.dispatched(&specimen.object(Script::RunOn)).await?;
    manager.until(NAME, "running", shows(&specimen.running)).await?;
    if let Some(suspension) = &specimen.suspension {
        manager.change(NAME, &suspension.set(true)).await?;
        worker.until_no_pods().await?;
        manager.until(NAME, "suspended", shows(&suspension.shows)).await?;
        manager.change(NAME, &suspension.set(false)).await?;
        worker.until_any("v1", "pods", "a new one", |_| true).await?;
        // Counts of pods may be older than the word about the suspension.
        let (runs, is_suspended) = (shows(&specimen.running), shows(&suspension.shows));
        manager.until(NAME, "running again", |object| runs(object) && !is_suspended(object)).await?;
    }
    if let Some(edit) = &specimen.edit {
        manager.change(NAME, &edit.change).await?;
        manager.until(NAME, "edited", shows(&edit.shows)).await?;
    }
    stage.nothing_ran_on_the_manager().await?;
    manager.delete(NAME).await?;
    mirrors.until_gone(NAME).await?;
    worker.until_no_pods().await
}

/// Whether somebody else than the dispatcher wrote its status.
fn is_written_by_another(object: &Value) -> bool {
    let writers = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let mut of_status = writers.filter(|writer| writer["subresource"] == "status");
    of_status.any(|writer| writer["manager"] != FIELD_MANAGER)
}

/// An operator that does not look at `managedBy` runs an object on the manager all the same: people are told, and the
/// dispatcher keeps its hands off. `other` is of a kind whose operator does look.
pub async fn it_is_noticed_that_the_manager_runs_it(fleet: &Fleet, specimen: &Specimen, other: &Specimen) -> Outcome {
    put_beside(fleet, specimen).await?;
    let stage = Stage::set(fleet, &specimen.kind(), "contested").await?;
    let manager = stage.manager();
    manager.create(&specimen.object(Script::RunOn)).await?;
    manager.until(NAME, "a status that the manager's operator wrote", is_written_by_another).await?;
    let told = |event: &Value| event["reason"] == "ForeignController" && event["involvedObject"]["name"] == NAME;
    let warning = stage.namespace.manager();
    let noticed = tokio::time::timeout(NOTICED_WITHIN, warning.until_any("v1", "events", "a warning", told)).await;
    noticed.unwrap_or_else(|_| panic!("it was not noticed within {NOTICED_WITHIN:?}"))?;
    assert!(fleet.metrics().contains(r#"alarm="acted_on""#), "{}", fleet.metrics());
    stage.namespace.manager().until_any("v1", "pods", "run by the manager's operator", |_| true).await?;
    let mirrors = |worker: &str| fleet.on_worker(worker, &stage.collection);
    let mut before = Vec::new();
    for worker in fleet.workers.keys() {
        before.push((worker, mirrors(worker).find(NAME).await?));
    }

    manager.change(NAME, &json!({"metadata": {"labels": {"stage": "two"}}})).await?;
    // What was submitted later has come to its end: so the edit was looked at.
    let (script, end) = other.at_best();
    it_ends_as_its_mirror(fleet, other, script, end).await?;
    for (worker, before) in before {
        let now = mirrors(worker).find(NAME).await?;
        assert_eq!(now.is_some(), before.is_some(), "no mirror comes or goes");
        let labels = now.map(|mirror| mirror["metadata"]["labels"].clone()).unwrap_or_default();
        assert!(labels.get("stage").is_none(), "the edit was not forwarded");
    }
    Ok(())
}
