//! The labels and the selector that the server generates, so that a Job selects its own pods and no others.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::Job;

use crate::{Errors, path::Path, selector, spec::Leniency};

/// On every pod of a Job: the Job's name.
pub const JOB_NAME: &str = "batch.kubernetes.io/job-name";
/// On every pod of a Job: the Job's uid. The generated selector selects by it.
pub const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
/// The older spelling of [`JOB_NAME`], still generated.
pub const LEGACY_JOB_NAME: &str = "job-name";
/// The older spelling of [`CONTROLLER_UID`], still generated.
pub const LEGACY_CONTROLLER_UID: &str = "controller-uid";

/// All generated labels: what has to go when a Job is copied.
pub const GENERATED: [&str; 4] = [JOB_NAME, CONTROLLER_UID, LEGACY_JOB_NAME, LEGACY_CONTROLLER_UID];

/// Adds what is missing; what is already there is kept, and judged by validation.
pub(crate) fn generate(job: &mut Job) {
    let Some(spec) = &mut job.spec else { return };
    if spec.manual_selector == Some(true) {
        return;
    }
    let name = job.metadata.name.clone().unwrap_or_default();
    let uid = job.metadata.uid.clone().unwrap_or_default();
    let labels = spec.template.metadata.get_or_insert_default().labels.get_or_insert_default();
    for (key, value) in
        [(LEGACY_JOB_NAME, &name), (JOB_NAME, &name), (LEGACY_CONTROLLER_UID, &uid), (CONTROLLER_UID, &uid)]
    {
        labels.entry(key.to_owned()).or_insert_with(|| value.clone());
    }
    let selector = spec.selector.get_or_insert_default();
    selector.match_labels.get_or_insert_default().entry(CONTROLLER_UID.to_owned()).or_insert(uid);
}

pub(crate) fn validate(job: &Job, leniency: Leniency, errors: &mut Errors) {
    let Some(spec) = job.spec.as_ref().filter(|spec| spec.manual_selector != Some(true) && spec.selector.is_some())
    else {
        return;
    };
    let name = job.metadata.name.as_deref().unwrap_or_default();
    let uid = job.metadata.uid.as_deref().unwrap_or_default();
    if uid.is_empty() {
        errors.required(&Path::root("metadata.uid"), "a generated selector needs it");
    }
    let mut expected = vec![(LEGACY_CONTROLLER_UID, uid), (LEGACY_JOB_NAME, name)];
    if !leniency.without_prefixed_labels {
        expected.extend([(CONTROLLER_UID, uid), (JOB_NAME, name)]);
    }
    let empty = BTreeMap::new();
    let actual = spec.template.metadata.as_ref().and_then(|metadata| metadata.labels.as_ref()).unwrap_or(&empty);
    let field = Path::root("spec.template.metadata.labels");
    for (key, value) in &expected {
        let detail = format!("must be '{value}'");
        match actual.get(*key) {
            None => errors.required(&field.key(key), detail),
            Some(other) if other != value => errors.invalid_text(&field.key(key), other, detail),
            Some(_) => {}
        }
    }
    let expected = expected.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    if selector::matches(spec.selector.as_ref(), &expected) == Some(false) {
        errors.invalid(&Path::root("spec.selector"), "`selector` not auto-generated");
    }
}
