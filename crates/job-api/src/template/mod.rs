//! The pod template of a Job, as far as it is judged here.

mod annotations;
mod containers;
mod resources;
mod scheduling;
mod volumes;

use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};

use crate::{Errors, metadata, path::Path, selector::validate_labels};

const RESTART_POLICIES: [&str; 3] = ["Always", "OnFailure", "Never"];

/// What the server tolerates in a template on update because the stored one has it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TemplateLeniency {
    /// Huge pages that are not a multiple of the page size.
    pub(crate) indivisible_huge_pages: bool,
    /// Tolerations with the operators `Lt` and `Gt`, for which a server needs a feature gate that is off.
    pub(crate) numeric_tolerations: bool,
    /// A pod deletion cost that is not a number.
    pub(crate) invalid_deletion_cost: bool,
}

impl TemplateLeniency {
    pub(crate) const NONE: Self =
        Self { indivisible_huge_pages: false, numeric_tolerations: false, invalid_deletion_cost: false };

    pub(crate) fn towards(stored: &PodTemplateSpec) -> Self {
        let spec = stored.spec.as_ref();
        Self {
            indivisible_huge_pages: spec
                .is_some_and(|spec| all_containers(spec).any(resources::has_indivisible_huge_pages)),
            numeric_tolerations: spec.is_some_and(scheduling::has_numeric_tolerations),
            invalid_deletion_cost: annotations::has_invalid_deletion_cost(stored),
        }
    }
}

fn all_containers(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.init_containers.iter().flatten().chain(&spec.containers)
}

pub(crate) fn validate(field: &Path<'_>, template: &PodTemplateSpec, leniency: TemplateLeniency, errors: &mut Errors) {
    let metadata = template.metadata.as_ref();
    // The server leaves `metadata` out of these two paths.
    validate_labels(&field.child("labels"), metadata.and_then(|metadata| metadata.labels.as_ref()), errors);
    let annotations = metadata.and_then(|metadata| metadata.annotations.as_ref());
    metadata::validate_annotations(&field.child("annotations"), annotations, errors);
    let unset = PodSpec::default();
    let spec = template.spec.as_ref().unwrap_or(&unset);
    annotations::validate(&field.child("annotations"), annotations, spec, leniency, errors);
    validate_spec(&field.child("spec"), spec, leniency, errors);
}

fn validate_spec(field: &Path<'_>, spec: &PodSpec, leniency: TemplateLeniency, errors: &mut Errors) {
    if spec.termination_grace_period_seconds.is_none() {
        errors.required(&field.child("terminationGracePeriodSeconds"), "");
    }
    let volumes = volumes::validate(&field.child("volumes"), spec.volumes.as_deref().unwrap_or_default(), errors);
    containers::validate(&field.child("containers"), spec, &volumes, leniency, errors);
    containers::validate_init(&field.child("initContainers"), spec, &volumes, leniency, errors);
    containers::validate_host_network(&field.child("containers"), spec, errors);
    match spec.restart_policy.as_deref().unwrap_or_default() {
        "" => errors.required(&field.child("restartPolicy"), ""),
        policy if !RESTART_POLICIES.contains(&policy) => {
            errors.not_supported(&field.child("restartPolicy"), policy, &RESTART_POLICIES);
        }
        _ => {}
    }
    validate_labels(&field.child("nodeSelector"), spec.node_selector.as_ref(), errors);
    scheduling::validate_gates(
        &field.child("schedulingGates"),
        spec.scheduling_gates.as_deref().unwrap_or_default(),
        errors,
    );
    scheduling::validate_tolerations(
        &field.child("tolerations"),
        spec.tolerations.as_deref().unwrap_or_default(),
        leniency,
        errors,
    );
}
