//! Which stored objects a list, watch or collection delete is about, and the values selectors look at.

use std::sync::Arc;

use serde_json::Value;

use crate::http::ListQuery;
use crate::registry::{Resource, Strategy};
use crate::selector::{FieldSelector, LabelSelector};
use crate::store::{Draft, Stored};
use crate::strategy::event;

/// Scope and selectors of a request.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    pub(crate) resource: Arc<Resource>,
    pub(crate) namespace: Option<String>,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selection {
    pub(crate) fn new(resource: &Arc<Resource>, namespace: Option<&str>, query: &ListQuery) -> Self {
        Self {
            resource: Arc::clone(resource),
            namespace: namespace.map(str::to_owned),
            labels: query.labels.clone(),
            fields: query.fields.clone(),
        }
    }

    pub(crate) fn matches(&self, stored: &Stored) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| *namespace == stored.key.namespace)
            && self.labels.matches(&stored.labels)
            && self.fields.matches(|field| field_value(&self.resource, stored, field))
    }
}

fn field_value(resource: &Resource, stored: &Stored, field: &str) -> String {
    match field {
        "metadata.name" => stored.key.name.clone(),
        "metadata.namespace" => stored.key.namespace.clone(),
        _ => {
            let position = resource.selectable.iter().position(|known| known == field);
            position.and_then(|at| stored.fields.get(at)).cloned().unwrap_or_default()
        }
    }
}

/// The object as it goes into the store, with the values that field selectors will compare.
pub(crate) fn draft(resource: &Resource, object: Value) -> Draft {
    let fields = selectable_values(resource, &object);
    let object = match resource.strategy {
        Strategy::NewEvent => event::to_core(object),
        _ => object,
    };
    Draft { object, fields }
}

/// The values of the fields that selectors of this resource may name.
pub(crate) fn selectable_values(resource: &Resource, object: &Value) -> Vec<String> {
    resource.selectable.iter().map(|field| read_field(resource, object, field)).collect()
}

fn read_field(resource: &Resource, object: &Value, field: &str) -> String {
    // Two selectors are older than the fields they read.
    let path = match (resource.strategy, field) {
        (Strategy::Job, "status.successful") => "status.succeeded",
        (Strategy::Plain, "source") => "source.component",
        _ => field.trim_start_matches('.'),
    };
    let found = path.split('.').fold(object, |value, key| &value[key]);
    match found {
        Value::String(text) => text.clone(),
        Value::Null => match (resource.strategy, field) {
            (Strategy::Job, "status.successful") => "0".into(),
            (_, "spec.unschedulable" | "spec.hostNetwork") => "false".into(),
            _ => String::new(),
        },
        other => other.to_string(),
    }
}
