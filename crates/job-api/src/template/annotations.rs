//! Annotations of a pod template that mean something to the server.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec, Toleration};

use super::{TemplateLeniency, all_containers, scheduling, volumes};
use crate::{Errors, path::Path};

const MIRROR_POD: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER_PREFIX: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";

type Annotations = BTreeMap<String, String>;

pub(super) fn validate(
    field: &Path<'_>,
    annotations: Option<&Annotations>,
    spec: &PodSpec,
    leniency: TemplateLeniency,
    errors: &mut Errors,
) {
    let Some(annotations) = annotations else { return };
    if let Some(value) = annotations.get(MIRROR_POD)
        && spec.node_name.as_deref().unwrap_or_default().is_empty()
    {
        errors.invalid_text(&field.key(MIRROR_POD), value, "must set spec.nodeName if it is a mirror pod");
    }
    if let Some(text) = annotations.get(TOLERATIONS).filter(|text| !text.is_empty()) {
        validate_tolerations(field, text, leniency, errors);
    }
    if let Some(cost) = annotations.get(DELETION_COST)
        && !leniency.invalid_deletion_cost
        && !is_deletion_cost(cost)
    {
        errors.invalid_text(&field.key(DELETION_COST), cost, "must be a 32bit integer");
    }
    validate_seccomp(field, annotations, errors);
    validate_app_armor(field, annotations, spec, errors);
}

fn validate_tolerations(field: &Path<'_>, text: &str, leniency: TemplateLeniency, errors: &mut Errors) {
    match serde_json::from_str::<Vec<Toleration>>(text) {
        Ok(tolerations) => {
            scheduling::validate_tolerations(&field.child(TOLERATIONS), &tolerations, leniency, errors);
        }
        Err(error) => errors.invalid_text(field, TOLERATIONS, error.to_string()),
    }
}

/// A plus sign and leading zeros are not accepted.
fn is_deletion_cost(text: &str) -> bool {
    let starts_well = text == "0" || text.starts_with(|c: char| c == '-' || ('1'..='9').contains(&c));
    starts_well && text.parse::<i32>().is_ok()
}

pub(super) fn has_invalid_deletion_cost(template: &PodTemplateSpec) -> bool {
    template
        .metadata
        .as_ref()
        .and_then(|metadata| metadata.annotations.as_ref()?.get(DELETION_COST))
        .is_some_and(|cost| !is_deletion_cost(cost))
}

fn validate_seccomp(field: &Path<'_>, annotations: &Annotations, errors: &mut Errors) {
    for (key, profile) in annotations {
        if key != SECCOMP_POD && !key.starts_with(SECCOMP_CONTAINER_PREFIX) {
            continue;
        }
        if let Some(path) = profile.strip_prefix("localhost/") {
            volumes::validate_descending_path(&field.child(key), path, errors);
        } else if !matches!(profile.as_str(), "runtime/default" | "docker/default" | "unconfined") {
            errors.invalid_text(&field.child(key), profile, "must be a valid seccomp profile");
        }
    }
}

fn validate_app_armor(field: &Path<'_>, annotations: &Annotations, spec: &PodSpec, errors: &mut Errors) {
    for (key, profile) in annotations {
        let Some(name) = key.strip_prefix(APP_ARMOR_PREFIX) else { continue };
        if !all_containers(spec).any(|container| container.name == name) {
            errors.invalid_text(&field.key(key), name, "container not found");
        }
        let is_known = matches!(profile.as_str(), "" | "runtime/default" | "unconfined");
        if !is_known && !profile.starts_with("localhost/") {
            errors.invalid_text(&field.key(key), profile, "invalid AppArmor profile name");
        }
    }
}
