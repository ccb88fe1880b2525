//! Jobs and CronJobs: everything about them is said in `job-api`; here it meets JSON.

use job_api::{Errors, Rules, create as creation, cron_job, defaults, status, update as changes};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Part, keep_parts};
use crate::error::Cause;
use crate::metadata;
use crate::registry::Resource;
use crate::schema::normalise;

/// The release whose behaviour this server has.
const RULES: Rules = Rules::for_server(1, 35, Some(8));

pub(super) fn create(resource: &Resource, object: &mut Value, warnings: &mut Vec<String>) -> Vec<Cause> {
    typed::<Job>(resource, object, |job| {
        creation::prepare(job);
        let name = job.metadata.name.as_deref().unwrap_or_default();
        let why =
            if name.contains('.') { Err("must not contain dots".to_owned()) } else { crate::names::dns_label(name) };
        if let Err(why) = why {
            warnings.push(format!(
                "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [{why}]"
            ));
        }
        let errors = creation::validate(job, RULES);
        // What is read back has been defaulted once more: a Job without labels shows those of its template.
        defaults::apply(job);
        errors
    })
}

pub(super) fn update(resource: &Resource, part: Part, new: &mut Value, old: &Value) -> Vec<Cause> {
    let mut old = match Job::deserialize(old) {
        Ok(old) => old,
        Err(error) => return vec![unreadable(&error)],
    };
    typed::<Job>(resource, new, |new| {
        defaults::apply(&mut old);
        defaults::apply(new);
        if part == Part::Status {
            status::prepare(new, &old);
            status::validate_request(new, &old, RULES)
        } else {
            changes::prepare(new, &old);
            changes::validate(new, &old, RULES)
        }
    })
}

pub(super) fn create_cron_job(resource: &Resource, object: &mut Value) -> Vec<Cause> {
    metadata::set(object, "generation", 1.into());
    object.as_object_mut().map(|entries| entries.remove("status"));
    typed::<CronJob>(resource, object, |cron_job| {
        defaults::apply_to_cron_job(cron_job);
        cron_job::validate(cron_job, RULES)
    })
}

pub(super) fn update_cron_job(resource: &Resource, part: Part, new: &mut Value, old: &Value) -> Vec<Cause> {
    keep_parts(resource, part, new, old);
    let mut causes = typed::<CronJob>(resource, new, |cron_job| {
        defaults::apply_to_cron_job(cron_job);
        cron_job::validate(cron_job, RULES)
    });
    if new["spec"] != old["spec"] {
        metadata::bump_generation(new);
    }
    let known: Vec<String> = causes.iter().map(|cause| cause.field.clone()).collect();
    let of_metadata = metadata::validate_update(resource, new, old);
    causes.extend(of_metadata.into_iter().filter(|cause| !known.contains(&cause.field)));
    causes
}

/// Works on the object as its type and puts the result back in its normal form.
fn typed<T: Serialize + DeserializeOwned>(
    resource: &Resource,
    object: &mut Value,
    work: impl FnOnce(&mut T) -> Errors,
) -> Vec<Cause> {
    let mut typed: T = match serde_json::from_value(object.take()) {
        Ok(typed) => typed,
        Err(error) => return vec![unreadable(&error)],
    };
    let errors = work(&mut typed);
    match serde_json::to_value(&typed) {
        Ok(value) => *object = value,
        Err(error) => return vec![unreadable(&error)],
    }
    if let Err(why) = normalise(&resource.schema, object) {
        return vec![unreadable(&why)];
    }
    errors.iter().map(cause).collect()
}

fn cause(error: &job_api::FieldError) -> Cause {
    Cause { reason: error.kind.cause_reason().to_owned(), message: error.body(), field: error.field.clone() }
}

fn unreadable(error: &dyn std::fmt::Display) -> Cause {
    Cause { reason: "FieldValueInvalid".into(), message: format!("Invalid value: {error}"), field: String::new() }
}
