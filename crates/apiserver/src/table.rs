//! Table answers: what `kubectl get` prints. The server makes the cells; kubectl only aligns them.

mod duration;
mod jsonpath;
mod pod;
mod workload;

use std::borrow::Cow;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::crd::PrinterColumn;
use crate::registry::{Resource, Strategy};
use duration::since;

/// One column of a table.
pub(crate) struct Column {
    name: Cow<'static, str>,
    kind: Cow<'static, str>,
    format: Cow<'static, str>,
    description: Cow<'static, str>,
    /// Above zero: only with `-o wide`.
    priority: i64,
    cell: Cell,
}

enum Cell {
    Made(fn(&Value, Timestamp) -> Value),
    Found(jsonpath::Path),
}

impl Column {
    fn new(name: &'static str, cell: fn(&Value, Timestamp) -> Value) -> Self {
        let format = if name == "Name" { "name" } else { "" };
        Self {
            name: name.into(),
            kind: "string".into(),
            format: format.into(),
            description: "".into(),
            priority: 0,
            cell: Cell::Made(cell),
        }
    }

    fn wide(name: &'static str, cell: fn(&Value, Timestamp) -> Value) -> Self {
        Self { priority: 1, ..Self::new(name, cell) }
    }

    fn of_kind(mut self, kind: &'static str) -> Self {
        self.kind = kind.into();
        self
    }

    fn custom(column: &PrinterColumn) -> Self {
        Self {
            name: column.name.clone().into(),
            kind: column.kind.clone().into(),
            format: column.format.clone().into(),
            description: column.description.clone().into(),
            priority: column.priority,
            cell: Cell::Found(jsonpath::Path::parse(&column.path)),
        }
    }

    /// The entry in `columnDefinitions`.
    pub(crate) fn definition(&self) -> Value {
        json!({"name": self.name, "type": self.kind, "format": self.format, "description": self.description,
            "priority": self.priority})
    }

    /// The cell of one object.
    pub(crate) fn cell(&self, object: &Value, now: Timestamp) -> Value {
        match &self.cell {
            Cell::Made(make) => make(object, now),
            Cell::Found(path) => {
                let found = path.find(object);
                match (&*self.kind, found) {
                    ("date", Some(value)) => since(value, now).unwrap_or_else(|| "<unknown>".into()).into(),
                    ("string", Some(value)) if !value.is_string() => value.to_string().into(),
                    (_, Some(value)) => value.clone(),
                    (_, None) => Value::Null,
                }
            }
        }
    }
}

/// The columns of a resource, as kubectl 1.35 shows them.
pub(crate) fn columns(resource: &Resource) -> Vec<Column> {
    if let Some(custom) = &resource.custom {
        let name = std::iter::once(Column::new("Name", name));
        if custom.columns.is_empty() {
            return name.chain([Column::new("Age", age).of_kind("date")]).collect();
        }
        return name.chain(custom.columns.iter().map(Column::custom)).collect();
    }
    match (resource.strategy, resource.plural.as_str()) {
        (Strategy::Job, _) => workload::job_columns(),
        (Strategy::CronJob, _) => workload::cron_job_columns(),
        (Strategy::Pod, _) => pod::columns(),
        (Strategy::NewEvent, _) | (_, "events") => workload::event_columns(),
        (_, "nodes") => workload::node_columns(),
        (Strategy::Namespace, _) => vec![
            Column::new("Name", name),
            Column::new("Status", |object, _| object["status"]["phase"].clone()),
            Column::new("Age", age),
        ],
        (Strategy::ConfigMap, _) => {
            vec![Column::new("Name", name), Column::new("Data", entries), Column::new("Age", age)]
        }
        (Strategy::Secret, _) => vec![
            Column::new("Name", name),
            Column::new("Type", |object, _| object["type"].clone()),
            Column::new("Data", entries),
            Column::new("Age", age),
        ],
        (_, "serviceaccounts") => vec![
            Column::new("Name", name),
            Column::new("Secrets", |object, _| object["secrets"].as_array().map_or(0, Vec::len).into()),
            Column::new("Age", age),
        ],
        (_, "leases") => vec![
            Column::new("Name", name),
            Column::new("Holder", |object, _| text(&object["spec"]["holderIdentity"]).into()),
            Column::new("Age", age),
        ],
        (_, "roles" | "clusterroles" | "customresourcedefinitions") => vec![
            Column::new("Name", name),
            Column::new("Created At", |object, _| object["metadata"]["creationTimestamp"].clone()),
        ],
        (_, "rolebindings" | "clusterrolebindings") => vec![
            Column::new("Name", name),
            Column::new("Role", |object, _| {
                format!("{}/{}", text(&object["roleRef"]["kind"]), text(&object["roleRef"]["name"])).into()
            }),
            Column::new("Age", age),
        ],
        _ => vec![Column::new("Name", name), Column::new("Age", age)],
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn name(object: &Value, _: Timestamp) -> Value {
    object["metadata"]["name"].clone()
}

fn age(object: &Value, now: Timestamp) -> Value {
    since(&object["metadata"]["creationTimestamp"], now).unwrap_or_else(|| "<unknown>".into()).into()
}

fn entries(object: &Value, _: Timestamp) -> Value {
    let count = |part: &str| object[part].as_object().map_or(0, serde_json::Map::len);
    (count("data") + count("binaryData")).into()
}

fn or_none(value: &Value) -> Value {
    match value.as_str() {
        Some(text) if !text.is_empty() => text.into(),
        _ => "<none>".into(),
    }
}
