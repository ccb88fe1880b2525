//! What of a pod template may change while a Job is suspended: where its pods go, what they are called, what they get.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    fingerprint::fingerprint,
    kind::difference,
    ownership::{is_noted_by_kueue, is_users_own},
};

/// Parts that are one field of the pod's spec.
const FIELDS: [&str; 3] = ["nodeSelector", "schedulingGates", "tolerations"];
const NODE_AFFINITY: &str = "nodeAffinity";
const LABELS: &str = "labels";
const ANNOTATIONS: &str = "annotations";
const RESOURCES: &str = "resources";
/// The lists of a pod's spec whose items have resources.
const CONTAINERS: [&str; 2] = ["containers", "initContainers"];

/// A fingerprint of each part that says something.
pub(crate) type Noted = BTreeMap<String, String>;

/// The JSON of a pod template, as far as it may change.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct Template {
    metadata: Option<Meta>,
    spec: Option<PodSpec>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Meta {
    labels: Option<Map<String, Value>>,
    annotations: Option<Map<String, Value>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_selector: Value,
    scheduling_gates: Value,
    tolerations: Value,
    affinity: Option<Affinity>,
    containers: Option<Vec<Container>>,
    init_containers: Option<Vec<Container>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Affinity {
    node_affinity: Value,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Container {
    name: String,
    resources: Value,
}

impl Template {
    /// Reads it from a whole one.
    pub(crate) fn of(template: Option<&Value>) -> Self {
        template.and_then(|template| Self::deserialize(template).ok()).unwrap_or_default()
    }

    /// What it says. Absent and empty are the same.
    pub(crate) fn noted(self) -> Noted {
        let (meta, spec) = (self.metadata.unwrap_or_default(), self.spec.unwrap_or_default());
        let own = |map: Option<Map<String, Value>>, is_own: fn(&str) -> bool| {
            Value::Object(map.into_iter().flatten().filter(|(key, _)| is_own(key)).collect())
        };
        let lists = [spec.containers, spec.init_containers];
        let resources = lists.map(|list| {
            let given = list.into_iter().flatten().filter(|container| !is_empty(&container.resources));
            Value::Array(given.map(|container| json!([container.name, container.resources])).collect())
        });
        let resources = if resources.iter().all(is_empty) { Value::Null } else { resources.into_iter().collect() };
        let parts = [
            (LABELS, own(meta.labels, is_users_own)),
            (ANNOTATIONS, own(meta.annotations, |key| !is_noted_by_kueue(key))),
            ("nodeSelector", spec.node_selector),
            ("schedulingGates", spec.scheduling_gates),
            ("tolerations", spec.tolerations),
            (NODE_AFFINITY, spec.affinity.unwrap_or_default().node_affinity),
            (RESOURCES, resources),
        ];
        let said = parts.into_iter().filter(|(_, value)| !is_empty(value));
        said.map(|(part, value)| (part.to_owned(), format!("{:x}", fingerprint(value.to_string().bytes())))).collect()
    }
}

/// The patch (RFC 7386) of the mirror's template that takes over the parts of the user's that changed, and no others: what
/// somebody on the worker made of those stays.
pub(super) fn edit(before: &Noted, now: &Noted, users: &Value, mirrors: &Value) -> Option<Value> {
    let mut next = mirrors.clone();
    let parts: std::collections::BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    for part in parts.into_iter().filter(|part| before.get(*part) != now.get(*part)) {
        match part.as_str() {
            LABELS => take_map(&mut next, users, LABELS, is_users_own),
            ANNOTATIONS => take_map(&mut next, users, ANNOTATIONS, |key| !is_noted_by_kueue(key)),
            NODE_AFFINITY => take_node_affinity(&mut next["spec"], &users["spec"]),
            RESOURCES => take_resources(&mut next["spec"], &users["spec"]),
            field if FIELDS.contains(&field) => set(&mut next["spec"], field, users["spec"][field].clone()),
            _ => {}
        }
    }
    difference(mirrors, &next)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

/// What is not the user's stays: our own mark on the pods, what the worker's server generated.
fn take_map(mirrors: &mut Value, users: &Value, part: &str, is_own: fn(&str) -> bool) {
    let entries = |template: &Value| template["metadata"][part].as_object().cloned().unwrap_or_default();
    let kept = entries(mirrors).into_iter().filter(|(key, _)| !is_own(key));
    let map: Map<String, Value> = kept.chain(entries(users).into_iter().filter(|(key, _)| is_own(key))).collect();
    set(&mut mirrors["metadata"], part, map.into());
}

/// Affinity to other pods cannot change.
fn take_node_affinity(mirrors: &mut Value, users: &Value) {
    let mut affinity = mirrors["affinity"].take();
    set(&mut affinity, NODE_AFFINITY, users["affinity"][NODE_AFFINITY].clone());
    set(mirrors, "affinity", affinity);
}

/// By name: somebody on the worker may have added containers of his own.
fn take_resources(mirrors: &mut Value, users: &Value) {
    for list in CONTAINERS {
        for users in users[list].as_array().into_iter().flatten() {
            let same = |container: &&mut Value| container["name"] == users["name"];
            if let Some(container) = mirrors[list].as_array_mut().into_iter().flatten().find(same) {
                set(container, RESOURCES, users[RESOURCES].clone());
            }
        }
    }
}

/// Sets a field, or takes it off if there is nothing to say.
fn set(object: &mut Value, field: &str, value: Value) {
    if !is_empty(&value) {
        object[field] = value;
    } else if let Some(object) = object.as_object_mut() {
        object.remove(field);
    }
}
