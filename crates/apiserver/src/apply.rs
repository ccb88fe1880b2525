//! Server-side apply: who owns which field, and what follows from it.
//!
//! ```text
//!   applied configuration ──► merged into the live object ──► fields the applier gave up are removed
//!            │                            │
//!            └─ becomes its field set     └─ changes a field of another owner: conflict, unless forced
//! ```
//!
//! Ownership is tracked from the first apply on. What an object has by then belongs to `before-first-apply`, as
//! upstream does for objects that have no `managedFields`; objects that nobody applies stay as small as they are. Only who
//! writes the status of a custom object is always noted: controllers tell by it whether another one acts on the object.

mod compare;
mod field_set;
mod managers;
mod merge;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use crate::error::{ApiError, Cause};
use crate::registry::Resource;
use crate::schema::seconds;
use crate::strategy::Part;
use compare::{compare, field_set};
use field_set::FieldSet;
use managers::{Manager, Operation};

/// The owner of everything that was there before anybody applied.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Who writes, through which door, and when.
#[derive(Debug, Clone)]
pub(crate) struct Writer<'a> {
    pub(crate) resource: &'a Resource,
    pub(crate) part: Part,
    pub(crate) manager: &'a str,
    pub(crate) now: Timestamp,
}

impl Writer<'_> {
    fn entry(&self, operation: Operation, set: FieldSet) -> Manager {
        Manager {
            name: self.manager.to_owned(),
            operation,
            api_version: self.resource.api_version(),
            subresource: if self.part == Part::Status { "status".into() } else { String::new() },
            time: seconds(self.now),
            set,
        }
    }

    /// Whether this is a write to the status of a custom object. Without a subresource it comes with the object.
    fn writes_custom_status(&self, new: &Value, old: &Value) -> bool {
        let with_object = self.part == Part::Main && !self.resource.has_status() && new["status"] != old["status"];
        self.resource.is_custom() && (self.part == Part::Status || with_object)
    }

    /// Whether all that is known of a custom object is who writes its status, which says nothing about the fields that this
    /// door writes.
    fn knows_status_writers_only(&self, owners: &[Manager]) -> bool {
        self.part != Part::Status && self.resource.is_custom() && !owners.iter().any(Manager::owns_main_part)
    }

    /// Fields that nobody owns, and those that this door does not write.
    fn without_reserved(&self, set: &FieldSet) -> FieldSet {
        let mut set = set.clone();
        for field in ["apiVersion", "kind"] {
            set.forget(&[field]);
        }
        set.forget_member(&["metadata"]);
        for field in [
            "name",
            "generateName",
            "namespace",
            "uid",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "selfLink",
            "managedFields",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
        ] {
            set.forget(&["metadata", field]);
        }
        match self.part {
            Part::Status => set.forget(&["spec"]),
            Part::Main | Part::Finalize if self.resource.has_status() => set.forget(&["status"]),
            Part::Main | Part::Finalize => {}
        }
        set
    }
}

/// The first state of an object that comes into being by an apply.
pub(crate) fn create(writer: &Writer<'_>, mut config: Value) -> Value {
    let set = writer.without_reserved(&field_set(&writer.resource.schema, &config));
    managers::write(&mut config, &[writer.entry(Operation::Apply, set)]);
    config
}

/// What applying `config` makes of `live`, or the conflicts that stand against it.
pub(crate) fn apply(writer: &Writer<'_>, live: &Value, config: &Value, force: bool) -> Result<Value, ApiError> {
    let schema = &writer.resource.schema;
    let mut owners = managers::read(live);
    if owners.is_empty() || writer.knows_status_writers_only(&owners) {
        let all = writer.without_reserved(&field_set(schema, live));
        let mut first = writer.entry(Operation::Update, all);
        BEFORE_FIRST_APPLY.clone_into(&mut first.name);
        owners.push(first);
    }
    let wanted = writer.without_reserved(&field_set(schema, config));
    let mut me = writer.entry(Operation::Apply, FieldSet::default());
    let (mine, mut others): (Vec<Manager>, Vec<Manager>) = owners.into_iter().partition(|owner| owner.is_same(&me));
    let mine = mine.into_iter().next();

    let mut merged = merge::merge(schema, live, config);
    if let Some(mine) = &mine {
        let held = others.iter().fold(FieldSet::default(), |held, owner| held.union(&owner.set));
        let given_up = mine.set.difference(&wanted).difference(&held);
        merge::remove(schema, &mut merged, &given_up, &held);
    }
    let changes = compare(schema, live, &merged);
    let touched = writer.without_reserved(&changes.modified.union(&changes.added));
    let conflicts: Vec<(&Manager, FieldSet)> = others
        .iter()
        .map(|owner| (owner, owner.set.intersection(&touched)))
        .filter(|(_, fields)| !fields.is_empty())
        .collect();
    if !conflicts.is_empty() && !force {
        return Err(conflict(&conflicts));
    }
    for owner in &mut others {
        owner.set = owner.set.difference(&touched).difference(&changes.removed);
    }
    let is_quiet = touched.is_empty() && changes.removed.is_empty();
    match mine {
        Some(mine) if is_quiet && mine.set == wanted => me.time = mine.time,
        // An owner that changed nothing by coming has no time yet, upstream.
        None if is_quiet => me.time.clear(),
        _ => {}
    }
    me.set = wanted;
    others.push(me);
    managers::write(&mut merged, &others);
    Ok(merged)
}

/// Follows a plain write to an object whose owners are known, or to the status of a custom one: what changed is the
/// writer's from now on.
pub(crate) fn track(writer: &Writer<'_>, new: &mut Value, old: &Value) {
    let given_back = new["metadata"]["managedFields"]
        .as_array()
        .is_some_and(|list| list.iter().all(|entry| entry["manager"].is_null() && entry["fieldsV1"].is_null()));
    let mut owners = if given_back { Vec::new() } else { managers::read(old) };
    let begins = writer.writes_custom_status(new, old) && !given_back;
    let is_untracked = owners.is_empty() || writer.knows_status_writers_only(&owners);
    if is_untracked && !begins {
        managers::write(new, &owners);
        return;
    }
    let changes = compare(&writer.resource.schema, old, new);
    let gone = writer.without_reserved(&changes.removed);
    let mut touched = writer.without_reserved(&changes.modified.union(&changes.added));
    if is_untracked && writer.part != Part::Status {
        touched = touched.only("status");
    }
    let me = writer.entry(Operation::Update, touched.clone());
    let mut is_known = false;
    for owner in &mut owners {
        let before = owner.set.clone();
        owner.set = owner.set.difference(&gone);
        if owner.is_same(&me) {
            is_known = true;
            owner.set = owner.set.union(&touched);
        } else {
            owner.set = owner.set.difference(&touched);
        }
        if owner.set != before && owner.is_same(&me) {
            owner.time.clone_from(&me.time);
        }
    }
    if !is_known {
        owners.push(me);
    }
    managers::write(new, &owners);
}

fn conflict(conflicts: &[(&Manager, FieldSet)]) -> ApiError {
    let mut causes = Vec::new();
    for (owner, fields) in conflicts {
        for path in fields.paths() {
            causes.push(Cause {
                reason: "FieldManagerConflict".into(),
                message: format!("conflict with {:?} using {}", owner.name, owner.api_version),
                field: path,
            });
        }
    }
    let told: Vec<String> = causes.iter().map(|cause| format!("{}: {}", cause.message, cause.field)).collect();
    let plural = if causes.len() == 1 { "conflict" } else { "conflicts" };
    let message = format!("Apply failed with {} {plural}: {}", causes.len(), told.join("\n"));
    ApiError::apply_conflict(message, &causes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::registry::Registry;

    /// One Job and its writers.
    struct Scene {
        resource: std::sync::Arc<Resource>,
        live: Value,
    }

    impl Scene {
        fn applied(manager: &str, spec: &Value) -> Self {
            let resource = Registry::built_in().find("batch", "v1", "jobs").unwrap();
            let live = create(&writer(&resource, manager), job(spec));
            Self { resource, live }
        }

        fn apply(&mut self, manager: &str, spec: &Value, force: bool) -> Result<(), Vec<String>> {
            match apply(&writer(&self.resource, manager), &self.live, &job(spec), force) {
                Ok(live) => {
                    self.live = live;
                    Ok(())
                }
                Err(error) => {
                    let causes = error.details.unwrap()["causes"].as_array().unwrap().clone();
                    Err(causes.iter().map(|cause| cause["field"].as_str().unwrap().to_owned()).collect())
                }
            }
        }

        fn update(&mut self, manager: &str, spec: &Value) {
            let mut new = self.live.clone();
            new["spec"] = spec.clone();
            track(&writer(&self.resource, manager), &mut new, &self.live);
            self.live = new;
        }

        fn owners(&self) -> Vec<(String, Value)> {
            let list = self.live["metadata"]["managedFields"].as_array().unwrap();
            list.iter().map(|e| (e["manager"].as_str().unwrap().to_owned(), e["fieldsV1"].clone())).collect()
        }
    }

    fn writer<'a>(resource: &'a Resource, manager: &'a str) -> Writer<'a> {
        Writer { resource, part: Part::Main, manager, now: Timestamp::UNIX_EPOCH }
    }

    fn job(spec: &Value) -> Value {
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": spec})
    }

    #[test]
    fn an_applier_owns_what_it_said_and_gives_up_what_it_no_longer_says() {
        let mut scene = Scene::applied("one", &json!({"suspend": true, "parallelism": 2}));
        assert_eq!(scene.owners(), [("one".into(), json!({"f:spec": {"f:suspend": {}, "f:parallelism": {}}}))]);
        scene.apply("one", &json!({"suspend": false}), false).unwrap();
        assert_eq!(scene.live["spec"], json!({"suspend": false}));
        assert_eq!(scene.owners(), [("one".into(), json!({"f:spec": {"f:suspend": {}}}))]);
    }

    #[test]
    fn two_appliers_agree_or_conflict_and_force_takes_over() {
        let mut scene = Scene::applied("one", &json!({"suspend": true}));
        scene.apply("two", &json!({"suspend": true, "parallelism": 3}), false).unwrap();
        assert_eq!(scene.apply("two", &json!({"suspend": false}), false), Err(vec![".spec.suspend".into()]));
        scene.apply("two", &json!({"suspend": false}), true).unwrap();
        assert_eq!(scene.live["spec"], json!({"suspend": false}), "parallelism was two's alone");
        assert_eq!(scene.owners(), [("two".into(), json!({"f:spec": {"f:suspend": {}}}))]);
    }

    #[test]
    fn a_plain_update_takes_the_fields_it_changes() {
        let mut scene = Scene::applied("one", &json!({"suspend": true, "parallelism": 2}));
        scene.update("editor", &json!({"suspend": false, "parallelism": 2}));
        assert_eq!(
            scene.owners(),
            [
                ("one".into(), json!({"f:spec": {"f:parallelism": {}}})),
                ("editor".into(), json!({"f:spec": {"f:suspend": {}}})),
            ]
        );
        assert_eq!(scene.apply("one", &json!({"suspend": true}), false), Err(vec![".spec.suspend".into()]));
    }

    #[test]
    fn list_elements_are_owned_by_their_key() {
        let containers = |list: Value| json!({"template": {"spec": {"containers": list}}});
        let mut scene = Scene::applied("one", &containers(json!([{"name": "a", "image": "x"}])));
        scene.apply("two", &containers(json!([{"name": "b", "image": "y"}])), false).unwrap();
        let names = |live: &Value| -> Vec<String> {
            let list = live["spec"]["template"]["spec"]["containers"].as_array().unwrap();
            list.iter().map(|container| container["name"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(&scene.live), ["a", "b"]);
        let clash = scene.apply("two", &containers(json!([{"name": "a", "image": "z"}])), false);
        assert_eq!(clash, Err(vec![r#".spec.template.spec.containers[name="a"].image"#.into()]));
        scene.apply("one", &containers(json!([])), true).unwrap();
        assert_eq!(names(&scene.live), ["b"]);
    }

    #[test]
    fn who_writes_the_status_of_a_custom_object_is_noted_without_any_apply() {
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}});
        let names = json!({"kind": "Run", "plural": "runs"});
        // With a subresource for it, and without.
        for (subresources, door, noted) in
            [(json!({"status": {}}), Part::Status, json!("status")), (json!({}), Part::Main, json!(null))]
        {
            let version = json!({
                "name": "v1", "served": true, "storage": true, "subresources": subresources, "schema": schema,
            });
            let resources = crate::crd::resources(&json!({
                "spec": {"group": "example.dev", "scope": "Namespaced", "names": names, "versions": [version]},
            }));
            let write = |old: &Value, manager: &str, part: Part, field: &str, value: Value| {
                let mut new = old.clone();
                new[field] = value;
                track(&Writer { part, ..writer(&resources[0], manager) }, &mut new, old);
                new
            };
            let writers = |object: &Value| -> Vec<Value> {
                let list = object["metadata"]["managedFields"].as_array().into_iter().flatten();
                list.map(|entry| json!([entry["manager"], entry["subresource"], entry["fieldsV1"]])).collect()
            };
            let live = json!({"metadata": {"name": "a"}, "spec": {"size": 1}});
            let live = write(&live, "editor", Part::Main, "spec", json!({"size": 2}));
            assert_eq!(writers(&live), Vec::<Value>::new(), "nobody asks who edits");
            let live = write(&live, "operator", door, "status", json!({"phase": "Running"}));
            let operator = json!(["operator", noted, {"f:status": {".": {}, "f:phase": {}}}]);
            assert_eq!(writers(&live), std::slice::from_ref(&operator));
            let live = write(&live, "editor", Part::Main, "spec", json!({"size": 3}));
            assert_eq!(writers(&live), [operator]);
            let config = json!({"metadata": {"name": "a"}, "spec": {"size": 4}});
            let conflict = apply(&writer(&resources[0], "applier"), &live, &config, false);
            assert!(conflict.is_err(), "what was there before has an owner all the same");
        }
    }

    #[test]
    fn what_was_there_before_the_first_apply_has_an_owner_too() {
        let resource = Registry::built_in().find("batch", "v1", "jobs").unwrap();
        let live = job(&json!({"suspend": true, "parallelism": 2}));
        let mut scene = Scene { resource, live };
        assert_eq!(scene.apply("one", &json!({"suspend": false}), false), Err(vec![".spec.suspend".into()]));
        scene.apply("one", &json!({"suspend": false}), true).unwrap();
        let owners: Vec<String> = scene.owners().into_iter().map(|(name, _)| name).collect();
        assert_eq!(owners, ["one", "before-first-apply"], "appliers come first");
    }
}
