//! What users and operators do to the objects of a kind, and what is waited for.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Outcome, Subject, chosen_worker, subject::path};
use crate::fleet::{Fleet, Objects, ScenarioError};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const KINDS: &str = "/apis/jobferry.dev/v1alpha1/workloadkinds";

/// Whoever runs an object that is ours must not stay unnoticed for longer.
const NOTICED_WITHIN: Duration = Duration::from_secs(20);

/// Where an operator says which generation it has seen.
const OBSERVED: [&str; 2] = ["status.observedGeneration", "status.conditions[*].observedGeneration"];

/// An object that has a mirror.
pub(super) struct Placed {
    name: String,
    pub(super) manager: Objects,
    pub(super) worker: Objects,
    /// The worker's name.
    pub(super) on: String,
    pub(super) mirror: Value,
}

impl Placed {
    /// The user's object as it is now.
    pub(super) async fn object(&self) -> Result<Value, ScenarioError> {
        Ok(self.manager.find(&self.name).await?.unwrap_or_default())
    }
}

impl Subject {
    /// Installs the definition on the manager and on these workers, and the rules if need be.
    pub async fn install(&self, fleet: &Fleet, workers: &[&str]) -> Outcome {
        fleet.namespace(self.namespace()).await?;
        for worker in workers {
            self.install_on_worker(fleet, worker).await?;
        }
        for definition in self.definition_of_child().into_iter().chain([self.definition()]) {
            fleet.on_manager(DEFINITIONS).create(&definition).await?;
        }
        // A definition is served a moment after it was created.
        fleet.on_manager(&self.collection()).until_gone("nobody").await?;
        match self.rules() {
            Some(rules) => fleet.on_manager(KINDS).create(rules).await,
            None => Ok(()),
        }
    }

    pub(super) async fn install_on_worker(&self, fleet: &Fleet, worker: &str) -> Outcome {
        fleet.on_worker(worker, DEFINITIONS).create(&self.definition()).await
    }

    /// An object that was submitted and whose mirror is there.
    pub(super) async fn placed(&self, fleet: &Fleet, name: &str) -> Result<Placed, ScenarioError> {
        self.placed_as(fleet, self.object(name)).await
    }

    pub(super) async fn placed_as(&self, fleet: &Fleet, object: Value) -> Result<Placed, ScenarioError> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let manager = fleet.on_manager(&self.collection());
        manager.create(&object).await?;
        let object = manager.until(&name, "placed", |object| chosen_worker(object).is_some()).await?;
        let on = chosen_worker(&object).unwrap_or_default().to_owned();
        let worker = fleet.on_worker(&on, &self.collection());
        let mirror = worker.until(&name, "mirrored", |_| true).await?;
        Ok(Placed { name, manager, worker, on, mirror })
    }

    /// An object whose operator is at work, as the user sees too.
    pub(super) async fn running(&self, fleet: &Fleet, name: &str) -> Result<Placed, ScenarioError> {
        let at = self.placed(fleet, name).await?;
        self.run(&at).await?;
        Ok(at)
    }

    /// Its operator is at work, and the user sees that.
    pub(super) async fn run(&self, at: &Placed) -> Outcome {
        self.report(at, &self.running).await?;
        self.until_told(at, "its progress").await.map(drop)
    }

    /// The worker's operator says this of the mirror.
    pub(super) async fn report(&self, at: &Placed, status: &Value) -> Outcome {
        self.report_on(&at.worker, &at.name, status).await
    }

    /// An operator says this of an object. What it has observed is the generation that there is.
    pub(super) async fn report_on(&self, objects: &Objects, name: &str, status: &Value) -> Outcome {
        let generation = objects.find(name).await?.unwrap_or_default()["metadata"]["generation"].take();
        let mut said = json!({ "status": status });
        for observed in OBSERVED {
            for (place, _) in path(observed).find(&said.clone()) {
                place.set(&mut said, generation.clone());
            }
        }
        if self.kind.status.in_object {
            objects.change_by_operator(name, &said).await
        } else {
            objects.report(name, &said["status"]).await
        }
    }

    /// Waits until the user's object says what its mirror does, in what the kind's rules make of it.
    pub(super) async fn until_told(&self, at: &Placed, what: &str) -> Result<Value, ScenarioError> {
        let mirror = at.worker.find(&at.name).await?.unwrap_or_default();
        let generation = mirror["metadata"]["generation"].as_i64();
        let told = |object: &Value| {
            let expected = self.kind.project(&self.kind.stored(object), &mirror["status"], generation, true);
            expected.is_some_and(|expected| object["status"] == expected)
        };
        at.manager.until(&at.name, what, told).await
    }

    /// Creates on the manager what the operator would for this object, labelled as for the one of that name.
    pub(super) async fn create_child(&self, fleet: &Fleet, of: &Value, labelled: &str) -> Outcome {
        let (children, mut child) = self.child();
        let owner = json!({
            "apiVersion": of["apiVersion"], "kind": of["kind"], "name": of["metadata"]["name"],
            "uid": of["metadata"]["uid"], "controller": true,
        });
        let label = children.label.iter().map(|label| (label.clone(), labelled.into()));
        child["metadata"] = json!({
            "name": format!("{}-0", of["metadata"]["name"].as_str().unwrap_or_default()), "namespace": self.namespace(),
            "labels": label.collect::<serde_json::Map<_, _>>(), "ownerReferences": [owner],
        });
        fleet.on_manager(&children.path_in(self.namespace())).create(&child).await
    }

    /// Waits for an Event about this object.
    pub(super) async fn until_event(&self, fleet: &Fleet, name: &str, reason: &str) -> Result<Value, ScenarioError> {
        let events = fleet.on_manager(&format!("/api/v1/namespaces/{}/events", self.namespace()));
        let is_it = |event: &Value| event["reason"] == reason && event["involvedObject"]["name"] == name;
        events.until_one(&format!("an Event {reason} about {name}"), is_it).await
    }

    /// Waits until people are told that somebody else acts on this object; returns in which words.
    pub(super) async fn until_told_of_another(&self, fleet: &Fleet, name: &str) -> Result<String, ScenarioError> {
        let event = tokio::time::timeout(NOTICED_WITHIN, self.until_event(fleet, name, "ForeignController")).await;
        let event = event.unwrap_or_else(|_| panic!("nobody noticed within {NOTICED_WITHIN:?}"))?;
        assert!(fleet.metrics().contains(r#"alarm="acted_on""#), "{}", fleet.metrics());
        Ok(event["message"].as_str().unwrap_or_default().to_owned())
    }
}
