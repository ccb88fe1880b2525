//! What a server would say about one document, and what it would make of it.

use job_api::{Errors, create, cron_job, defaults};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::input::Document;
use super::report::{Filled, Finding, Judged, Unreadable};
use super::warnings;
use crate::server_version::ServerVersion;

/// Stands in for what a server would choose at random.
const GENERATED_SUFFIX: &str = "x7k2p";
const UID: &str = "00000000-0000-0000-0000-000000000000";

pub(super) fn check(document: &Document, server: ServerVersion) -> Result<Judged, Unreadable> {
    let content = &document.content;
    let unreadable = |field: Option<&str>, why: String| Unreadable {
        source: document.source.clone(),
        document: Some(document.number),
        field: field.map(str::to_owned),
        line: content.line_of(field.unwrap_or_default()),
        why,
    };
    let value = content.to_value();
    let judged = match (content.text("apiVersion"), content.text("kind")) {
        (Some("batch/v1"), Some("Job")) => judge_job(&value, server),
        (Some("batch/v1"), Some("CronJob")) => judge_cron_job(&value, server),
        (_, None) => {
            return Err(unreadable(Some("kind"), "missing: Job or CronJob of batch/v1 is expected".to_owned()));
        }
        (version, Some(kind)) => {
            let version = version.unwrap_or("no apiVersion");
            let why = format!("cannot judge {kind} of {version}: only Job and CronJob of batch/v1");
            return Err(unreadable(Some("kind"), why));
        }
    };
    let mut judged = judged.map_err(|WrongType { field, why }| unreadable(Some(&field), why))?;
    judged.source.clone_from(&document.source);
    judged.document = document.number;
    judged.line = content.line_of("");
    for finding in judged.errors.iter_mut().chain(&mut judged.warnings) {
        finding.line = content.line_of(&finding.field);
    }
    Ok(judged)
}

/// A field that cannot be read as what it should be.
struct WrongType {
    field: String,
    why: String,
}

fn decode<T: DeserializeOwned>(value: &Value) -> Result<T, WrongType> {
    serde_path_to_error::deserialize(value)
        .map_err(|error| WrongType { field: error.path().to_string(), why: error.inner().to_string() })
}

fn judge_job(value: &Value, server: ServerVersion) -> Result<Judged, WrongType> {
    let mut job: Job = decode(value)?;
    let unknown = unknown_fields(value, &encode(&job), server);
    let name = job.metadata.name.clone().or_else(|| job.metadata.generate_name.clone()).unwrap_or_default();
    complete(&mut job.metadata);
    let mut prepared = job.clone();
    create::prepare(&mut prepared);
    let errors = create::validate(&prepared, server.rules());
    let as_sent = encode(&job);
    defaults::apply(&mut job);
    let mut warnings = warnings::for_job(&job);
    warnings.extend(unknown);
    Ok(judged("Job", name, &errors, warnings, added("", &as_sent, &encode(&job))))
}

fn judge_cron_job(value: &Value, server: ServerVersion) -> Result<Judged, WrongType> {
    let mut cron_job: CronJob = decode(value)?;
    let unknown = unknown_fields(value, &encode(&cron_job), server);
    let name = cron_job.metadata.name.clone().or_else(|| cron_job.metadata.generate_name.clone()).unwrap_or_default();
    complete(&mut cron_job.metadata);
    let as_sent = encode(&cron_job);
    defaults::apply_to_cron_job(&mut cron_job);
    let errors = cron_job::validate(&cron_job, server.rules());
    let mut warnings = warnings::for_cron_job(&cron_job);
    warnings.extend(unknown);
    Ok(judged("CronJob", name, &errors, warnings, added("", &as_sent, &encode(&cron_job))))
}

/// What the request, not the manifest, would bring.
fn complete(metadata: &mut ObjectMeta) {
    if metadata.name.as_deref().unwrap_or_default().is_empty()
        && let Some(prefix) = &metadata.generate_name
    {
        metadata.name = Some(format!("{prefix}{GENERATED_SUFFIX}"));
    }
    metadata.namespace.get_or_insert_with(|| "default".to_owned());
    metadata.uid = Some(UID.to_owned());
}

fn judged(kind: &str, name: String, errors: &Errors, warnings: Vec<Finding>, defaults: Vec<Filled>) -> Judged {
    let mut findings: Vec<Finding> = Vec::new();
    for error in errors {
        let finding = Finding {
            code: error.kind.as_str().to_owned(),
            field: error.field.clone(),
            line: None,
            message: error.body(),
        };
        // A server finds some faults twice; a person needs to read them once.
        if !findings.contains(&finding) {
            findings.push(finding);
        }
    }
    Judged {
        source: String::new(),
        document: 0,
        line: None,
        kind: kind.to_owned(),
        name,
        errors: findings,
        warnings,
        defaults,
    }
}

fn encode(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

fn child(path: &str, key: &str) -> String {
    match path {
        "" => key.to_owned(),
        _ if key.contains(['.', '/']) => format!("{path}[{key}]"),
        _ => format!("{path}.{key}"),
    }
}

/// Values that are in `after` and not in `before`. Empty ones say nothing to a person.
fn added(path: &str, before: &Value, after: &Value) -> Vec<Filled> {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => after
            .iter()
            .flat_map(|(key, value)| added(&child(path, key), before.get(key).unwrap_or(&Value::Null), value))
            .collect(),
        (Value::Null, Value::Object(after)) => {
            after.iter().flat_map(|(key, value)| added(&child(path, key), &Value::Null, value)).collect()
        }
        (Value::Array(before), Value::Array(after)) => before
            .iter()
            .zip(after)
            .enumerate()
            .flat_map(|(index, (before, after))| added(&format!("{path}[{index}]"), before, after))
            .collect(),
        (Value::Null, value) if !says_nothing(value) => vec![Filled { field: path.to_owned(), value: value.clone() }],
        _ => Vec::new(),
    }
}

fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

/// Fields that got lost on the way through the types of the API.
fn unknown_fields(sent: &Value, known: &Value, server: ServerVersion) -> Vec<Finding> {
    lost("", sent, known)
        .into_iter()
        // Our types are those of 1.35.
        .filter(|field| !(server.is_at_least(37) && field.ends_with("spec.scheduling")))
        .map(|field| Finding {
            code: "unknown-field".to_owned(),
            message: format!("Kubernetes {server} has no such field: it would be dropped, or refused by kubectl"),
            field,
            line: None,
        })
        .collect()
}

fn lost(path: &str, sent: &Value, known: &Value) -> Vec<String> {
    match (sent, known) {
        (Value::Object(sent), known) => sent
            .iter()
            .filter(|(_, value)| !value.is_null())
            .flat_map(|(key, value)| match known.get(key) {
                Some(known) => lost(&child(path, key), value, known),
                None => vec![child(path, key)],
            })
            .collect(),
        (Value::Array(sent), Value::Array(known)) => sent
            .iter()
            .zip(known)
            .enumerate()
            .flat_map(|(index, (sent, known))| lost(&format!("{path}[{index}]"), sent, known))
            .collect(),
        _ => Vec::new(),
    }
}
