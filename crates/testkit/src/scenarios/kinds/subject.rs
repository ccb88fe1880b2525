//! An object of a kind other than Job and how its life looks, read from the case that the kind's rules are held against.
//!
//! What a kind can do at all (end, fail, be suspended, have a time to live) is asked of its rules.

use std::{collections::BTreeMap, fs};

use jobferry_api::{Outcome as End, Test, WorkloadKind, labels};
use jobferry_core::kind::{Children, Kind, Path, Table};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::merge;

/// Fields and the values that they have.
type Fields = BTreeMap<String, Value>;

/// A kind to try, in a namespace of its own.
pub struct Subject {
    namespace: String,
    pub(super) kind: Kind,
    suspended: Option<Test>,
    /// Its WorkloadKind, if it is not built in.
    rules: Option<Value>,
    submitted: Value,
    pub(super) running: Value,
    ends: Vec<(End, Value)>,
    /// An edit of the spec that is forwarded.
    edit: Fields,
}

/// What is read here of a case.
#[derive(Deserialize)]
struct Case {
    object: Value,
    states: Vec<State>,
    edits: Vec<Edit>,
}

#[derive(Deserialize)]
struct State {
    status: Value,
    is: String,
    /// Differences of an object that is not the one submitted here.
    #[serde(default)]
    object: Fields,
}

#[derive(Deserialize)]
struct Edit {
    change: Fields,
    #[serde(default)]
    forwarded: Option<Value>,
}

/// A file of this repository.
fn read(path: &str) -> Option<String> {
    fs::read_to_string(format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"))).ok()
}

fn parsed<T: serde::de::DeserializeOwned>(text: &str) -> T {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

impl Subject {
    /// The kind whose rules and case have this name: `jobset`, `volcano-job`.
    pub fn of(name: &str, namespace: &str) -> Self {
        let built_in = read(&format!("crates/core/kinds/{name}.yaml"));
        let example = || read(&format!("examples/kind-{name}.yaml"));
        let is_built_in = built_in.is_some();
        let rules = built_in.or_else(example).unwrap_or_else(|| panic!("there is no kind {name}"));
        let case = read(&format!("crates/core/tests/kinds/cases/{name}.yaml"));
        let case: Case = parsed(&case.unwrap_or_else(|| panic!("there is no case of {name}")));
        let spec = parsed::<WorkloadKind>(&rules).spec;
        let kind = Kind::read(&spec).unwrap_or_else(|error| panic!("{error}"));

        let states: Vec<State> = case.states.into_iter().filter(|state| state.object.is_empty()).collect();
        let running = states.iter().find(|state| state.is == "Unfinished").map(|state| state.status.clone());
        let end = |state: State| Some((serde_json::from_value(state.is.into()).ok()?, state.status));
        let subject = Self {
            namespace: namespace.to_owned(),
            suspended: spec.suspended,
            rules: (!is_built_in).then(|| parsed(&rules)),
            submitted: case.object,
            running: running.unwrap_or_else(|| panic!("the case of {name} does not say how it runs")),
            ends: states.into_iter().filter_map(end).collect(),
            edit: (case.edits.into_iter())
                .find(|edit| edit.forwarded.as_ref().is_some_and(|spec| *spec != json!({})))
                .unwrap_or_else(|| panic!("the case of {name} has no edit that is forwarded"))
                .change,
            kind,
        };
        for (end, how) in subject.kind.endings() {
            assert!(subject.end(end).is_some(), "the case of {name} does not show that it can end as {end:?}: {how}");
        }
        subject
    }

    /// How its status looks when it has ended so; `None` if its kind does not end so.
    pub(super) fn end(&self, wanted: End) -> Option<&Value> {
        self.ends.iter().find(|(end, _)| *end == wanted).map(|(_, status)| status)
    }

    /// The last that its operator says when all goes well: an end, or more of the same if its kind never ends.
    pub(super) fn at_last(&self) -> Value {
        let end = self.end(End::Succeeded).or_else(|| self.end(End::Unknown));
        end.cloned().unwrap_or_else(|| {
            let mut later = self.running.clone();
            later["later"] = true.into();
            later
        })
    }

    /// Whether its kind lets us say that it failed.
    pub(super) fn can_fail(&self) -> bool {
        self.end(End::Failed).is_some()
    }

    pub(super) fn collection(&self) -> String {
        format!("/apis/{}/namespaces/{}/{}", self.kind.api_version(), self.namespace, self.kind.plural)
    }

    /// What a user submits.
    pub(super) fn object(&self, name: &str) -> Value {
        let mut object = self.submitted.clone();
        merge(
            &mut object,
            &json!({"metadata": {"name": name, "namespace": self.namespace, "labels": {"team": "etl"}}}),
        );
        object
    }

    /// Somebody else's object.
    pub(super) fn foreign(&self, name: &str) -> Value {
        let (metadata, spec) = (json!({"name": name, "namespace": self.namespace}), json!({"mine": true}));
        json!({"apiVersion": self.kind.api_version(), "kind": self.kind.kind, "metadata": metadata, "spec": spec})
    }

    /// The change that suspends an object, and the one that resumes it; `None` if nothing suspends its kind.
    pub(super) fn suspension(&self) -> Option<[Value; 2]> {
        let Test { path, is, .. } = self.suspended.as_ref()?;
        let text = is.as_ref().and_then(|values| values.first()).map_or("", String::as_str);
        // Rules are texts; a field may be a boolean.
        let value = serde_json::from_str(text).unwrap_or_else(|_| text.into());
        Some([change(path, value), change(path, Value::Null)])
    }

    /// The object after an edit that is forwarded.
    pub(super) fn edited(&self, mut object: Value) -> Value {
        for (place, value) in &self.edit {
            assert!(path(place).set(&mut object, value.clone()), "{place}");
        }
        object
    }

    /// Whether that edit has reached this object.
    pub(super) fn has_edit(&self, object: &Value) -> bool {
        self.edit.iter().all(|(place, value)| path(place).first(object) == Some(value))
    }

    /// The change that takes an object back from us.
    pub(super) fn release(&self) -> Value {
        match &self.kind.managed_by {
            Some(managed_by) => change(&managed_by.path.to_string(), managed_by.operator.clone().into()),
            None => json!({"metadata": {"labels": {labels::DISPATCH: null}}}),
        }
    }

    /// An object that may stay for a minute after its end; without a time to live if its kind has none.
    pub(super) fn short_lived(&self, name: &str) -> Value {
        let mut object = self.object(name);
        for path in self.kind.times_to_live() {
            merge(&mut object, &change(&path, 60.into()));
        }
        object
    }

    /// Its WorkloadKind, if it is not built in.
    pub(super) const fn rules(&self) -> Option<&Value> {
        self.rules.as_ref()
    }

    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Its definition, which takes everything.
    pub(super) fn definition(&self) -> Value {
        let Kind { group, version, kind, plural, status, .. } = &self.kind;
        definition([group, version, kind, plural], !status.in_object)
    }

    /// What its operator creates for an object, and how such a thing looks without its metadata.
    pub(super) fn child(&self) -> (&Children, Value) {
        let Some(children) = self.kind.children.first() else { panic!("{} has no children", self.kind.name()) };
        let pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
        let (kind, spec) = match children.resource().as_str() {
            "pods" => ("Pod".to_owned(), pod),
            "jobs.batch" => ("Job".to_owned(), json!({"suspend": true, "template": {"spec": pod}})),
            resource => (kind_of(resource), json!({})),
        };
        (children, json!({"apiVersion": children.api_version(), "kind": kind, "spec": spec}))
    }

    /// The definition of that, where a cluster does not have it by itself.
    pub(super) fn definition_of_child(&self) -> Option<Value> {
        let (Children { group, version, plural, .. }, child) = self.child();
        let is_own = ["", "batch"].contains(&group.as_str());
        (!is_own).then(|| definition([group, version, child["kind"].as_str().unwrap_or_default(), plural], true))
    }
}

/// What the objects of a resource are called: a kind of ours, or the one thing of another kind that operators create.
fn kind_of(resource: &str) -> String {
    let table = Table::built_in().unwrap_or_else(|error| panic!("{error}"));
    let known = table.iter().find(|(_, kind)| kind.name() == resource).map(|(_, kind)| kind.kind.clone());
    known.unwrap_or_else(|| "StatefulSet".to_owned())
}

/// The change that puts a value there; null takes it away.
fn change(path: &str, value: Value) -> Value {
    let mut change = Value::Object(Map::new());
    assert!(self::path(path).set(&mut change, value), "{path}");
    change
}

pub(super) fn path(text: &str) -> Path {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// A definition that takes everything.
fn definition([group, version, kind, plural]: [&str; 4], status_is_subresource: bool) -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let subresources = if status_is_subresource { json!({"status": {}}) } else { json!({}) };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{
                "name": version, "served": true, "storage": true, "subresources": subresources,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
            }],
        },
    })
}
