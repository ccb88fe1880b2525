//! What differs from kind to kind: defaults, what the server sets itself, what it refuses.

mod config;
mod definition;
pub(crate) mod event;
mod job;
mod namespace;
pub(crate) mod pod;

use serde_json::Value;

use crate::error::Cause;
use crate::metadata;
use crate::registry::{Resource, Strategy};

/// Which part of an object a write is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The object itself; where there is a status subresource the status is left alone.
    Main,
    Status,
    /// `spec.finalizers` of a namespace.
    Finalize,
}

/// Completes a new object and judges it. It has its identity already; it is fine when nothing comes back.
pub(crate) fn create(resource: &Resource, object: &mut Value, warnings: &mut Vec<String>) -> Vec<Cause> {
    // Jobs and CronJobs are judged as a whole, metadata included, in the order of upstream.
    match resource.strategy {
        Strategy::Job => return job::create(resource, object, warnings),
        Strategy::CronJob => return job::create_cron_job(resource, object),
        _ => {}
    }
    let mut causes = metadata::validate(resource, object);
    match resource.strategy {
        Strategy::Namespace => namespace::create(object),
        Strategy::Pod => causes.extend(pod::create(resource, object)),
        Strategy::ConfigMap => causes.extend(config::validate(object, &["data", "binaryData"])),
        Strategy::Secret => {
            config::default_secret(object);
            causes.extend(config::validate(object, &["data"]));
        }
        Strategy::Definition => {
            causes.extend(definition::create(object));
            warnings.extend(crate::crd::warning(object));
        }
        Strategy::Custom => {
            metadata::set(object, "generation", 1.into());
            causes.extend(crate::crd::create(resource, object));
        }
        _ => {}
    }
    causes
}

/// Completes the new state of an object and judges the step from `old` to it. The metadata that clients cannot change
/// has been carried over already.
pub(crate) fn update(resource: &Resource, part: Part, new: &mut Value, old: &Value) -> Vec<Cause> {
    match resource.strategy {
        Strategy::Job => return job::update(resource, part, new, old),
        Strategy::CronJob => return job::update_cron_job(resource, part, new, old),
        Strategy::Custom => crate::crd::keep_parts(resource, part, new, old),
        Strategy::Namespace => namespace::update(part, new, old),
        Strategy::Secret => config::default_secret(new),
        _ => keep_parts(resource, part, new, old),
    }
    let mut causes = metadata::validate_update(resource, new, old);
    match resource.strategy {
        Strategy::Pod => causes.extend(pod::update(resource, part, new, old)),
        Strategy::ConfigMap => causes.extend(config::validate_update(new, old, &["data", "binaryData"])),
        Strategy::Secret => causes.extend(config::validate_update(new, old, &["data"])),
        Strategy::Definition => causes.extend(definition::update(new, old)),
        Strategy::Custom => causes.extend(crate::crd::update(resource, part, new, old)),
        _ => {}
    }
    causes
}

/// Where there is a status subresource, the object itself does not write the status, and the other way round.
fn keep_parts(resource: &Resource, part: Part, new: &mut Value, old: &Value) {
    match part {
        Part::Status => keep(new, old, "spec"),
        Part::Main | Part::Finalize if resource.has_status() => keep(new, old, "status"),
        Part::Main | Part::Finalize => {}
    }
}

/// Takes a field from the stored object.
pub(crate) fn keep(new: &mut Value, old: &Value, field: &str) {
    match old.get(field) {
        Some(value) => new[field] = value.clone(),
        None => {
            new.as_object_mut().map(|entries| entries.remove(field));
        }
    }
}
