//! What of a pod template may change while a Job is suspended: where its pods go, what they are called, what they get.

mod print;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::{
    kind::difference,
    ownership::{is_noted_by_kueue, is_users_own},
};
use print::{Print, entries};

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

/// A pod template, as far as it may change.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct Template {
    metadata: Option<Meta>,
    spec: Option<PodSpec>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Meta {
    labels: Option<Labels>,
    annotations: Option<Annotations>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_selector: Print,
    scheduling_gates: Print,
    tolerations: Print,
    affinity: Option<Affinity>,
    containers: Option<Vec<Container>>,
    init_containers: Option<Vec<Container>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Affinity {
    node_affinity: Print,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Container {
    name: Print,
    resources: Print,
}

struct Labels(Print);

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        entries(deserializer, is_users_own).map(Self)
    }
}

struct Annotations(Print);

impl<'de> Deserialize<'de> for Annotations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        entries(deserializer, is_own_annotation).map(Self)
    }
}

fn is_own_annotation(key: &str) -> bool {
    !is_noted_by_kueue(key)
}

impl Template {
    /// Reads it from a whole one.
    pub(crate) fn of(template: Option<&Value>) -> Self {
        template.and_then(|template| Self::deserialize(template).ok()).unwrap_or_default()
    }

    /// What it says. Absent and empty are the same.
    pub(crate) fn noted(self) -> Noted {
        let (meta, spec) = (self.metadata.unwrap_or_default(), self.spec.unwrap_or_default());
        let lists = [spec.containers, spec.init_containers].into_iter().map(Option::unwrap_or_default);
        let resources = lists.map(|list| {
            let given = list.into_iter().filter(|container| container.resources != Print::NOTHING);
            Print::of_list(given.map(|container| Print::of_list([container.name, container.resources])))
        });
        let parts = [
            (LABELS, meta.labels.map_or(Print::NOTHING, |labels| labels.0)),
            (ANNOTATIONS, meta.annotations.map_or(Print::NOTHING, |annotations| annotations.0)),
            ("nodeSelector", spec.node_selector),
            ("schedulingGates", spec.scheduling_gates),
            ("tolerations", spec.tolerations),
            (NODE_AFFINITY, spec.affinity.unwrap_or_default().node_affinity),
            (RESOURCES, Print::of_lists(resources)),
        ];
        let said = parts.into_iter().filter(|(_, print)| *print != Print::NOTHING);
        said.map(|(part, print)| (part.to_owned(), print.to_string())).collect()
    }
}

/// The patch (RFC 7386) of the mirror's template that takes over the parts of the user's that changed, and no others: what
/// somebody on the worker made of those stays.
pub(super) fn edit(before: &Noted, now: &Noted, users: &Value, mirrors: &Value) -> Option<Value> {
    let mut next = mirrors.clone();
    let parts: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    for part in parts.into_iter().filter(|part| before.get(*part) != now.get(*part)) {
        match part.as_str() {
            LABELS => take_map(&mut next, users, LABELS, is_users_own),
            ANNOTATIONS => take_map(&mut next, users, ANNOTATIONS, is_own_annotation),
            part => {
                if let Some(spec) = place(&mut next, "spec") {
                    take_from_spec(spec, &users["spec"], part);
                }
            }
        }
    }
    difference(mirrors, &next)
}

fn take_from_spec(mirrors: &mut Value, users: &Value, part: &str) {
    match part {
        NODE_AFFINITY => take_node_affinity(mirrors, users),
        RESOURCES => take_resources(mirrors, users),
        field if FIELDS.contains(&field) => set(mirrors, field, users[field].clone()),
        _ => {}
    }
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
    if let Some(metadata) = place(mirrors, "metadata") {
        set(metadata, part, map.into());
    }
}

/// Affinity to other pods cannot change.
fn take_node_affinity(mirrors: &mut Value, users: &Value) {
    let mut affinity = mirrors.get_mut("affinity").map(Value::take).unwrap_or_default();
    set(&mut affinity, NODE_AFFINITY, users["affinity"][NODE_AFFINITY].clone());
    set(mirrors, "affinity", affinity);
}

/// By name: somebody on the worker may have added containers of his own.
fn take_resources(mirrors: &mut Value, users: &Value) {
    for list in CONTAINERS {
        for users in users[list].as_array().into_iter().flatten() {
            let same = |container: &&mut Value| container["name"] == users["name"];
            let containers = mirrors.get_mut(list).and_then(Value::as_array_mut);
            if let Some(container) = containers.into_iter().flatten().find(same) {
                set(container, RESOURCES, users[RESOURCES].clone());
            }
        }
    }
}

/// Sets a field, or takes it off if there is nothing to say.
fn set(object: &mut Value, field: &str, value: Value) {
    if is_empty(&value) {
        if let Some(object) = object.as_object_mut() {
            object.remove(field);
        }
    } else if let Some(place) = place(object, field) {
        *place = value;
    }
}

/// Where a field is, or would be. A worker may send anything in place of an object: that has no fields.
fn place<'a>(object: &'a mut Value, field: &str) -> Option<&'a mut Value> {
    if object.is_null() {
        *object = Map::new().into();
    }
    Some(object.as_object_mut()?.entry(field).or_insert(Value::Null))
}
