//! The spec of a Job.

mod policies;

use k8s_openapi::api::batch::v1::{Job, JobSpec, JobTemplateSpec};

use crate::template::{self, TemplateLeniency};
use crate::{Errors, managed_by, path::Path, selector};

const PARALLELISM_MAX: i32 = 100_000;
const FAILED_INDEXES_MAX: i32 = 100_000;
/// With more completions than this, an Indexed Job with a limit per index has tighter bounds ...
const MANY_COMPLETIONS: i32 = 100_000;
/// ... for both parallelism and maxFailedIndexes: both decide how long the index texts of the status can get.
const MANY_COMPLETIONS_LIMIT: i32 = 10_000;

/// What the server tolerates on update because it is already stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leniency {
    /// The stored Job is older than the labels with a prefix.
    pub(crate) without_prefixed_labels: bool,
    /// The stored selector has values that no label can have.
    pub(crate) invalid_selector_values: bool,
    pub(crate) template: TemplateLeniency,
}

impl Leniency {
    pub(crate) const NONE: Self =
        Self { without_prefixed_labels: false, invalid_selector_values: false, template: TemplateLeniency::NONE };

    pub(crate) fn towards(stored: &Job) -> Self {
        let Some(spec) = &stored.spec else { return Self::NONE };
        let labels = spec.template.metadata.as_ref().and_then(|metadata| metadata.labels.as_ref());
        let has = |key: &str| labels.is_some_and(|labels| labels.contains_key(key));
        Self {
            without_prefixed_labels: !(has(crate::labels::JOB_NAME) && has(crate::labels::CONTROLLER_UID)),
            invalid_selector_values: selector::has_invalid_value(spec.selector.as_ref()),
            template: TemplateLeniency::towards(&spec.template),
        }
    }
}

/// The spec of a Job, which has a selector by now.
pub(crate) fn validate_job(field: &Path<'_>, spec: &JobSpec, leniency: Leniency, errors: &mut Errors) {
    validate(field, spec, leniency.template, errors);
    match &spec.selector {
        None => errors.required(&field.child("selector"), ""),
        Some(selector) => {
            selector::validate(&field.child("selector"), selector, leniency.invalid_selector_values, errors);
        }
    }
    let labels = spec.template.metadata.as_ref().and_then(|metadata| metadata.labels.clone()).unwrap_or_default();
    if selector::matches(spec.selector.as_ref(), &labels) == Some(false) {
        errors.invalid(&field.child("template.metadata.labels"), "`selector` does not match template `labels`");
    }
}

/// The Job in a CronJob, which must leave the selector to the server.
pub(crate) fn validate_job_template(field: &Path<'_>, template: &JobTemplateSpec, errors: &mut Errors) {
    let field = field.child("spec");
    let unset = JobSpec::default();
    let spec = template.spec.as_ref().unwrap_or(&unset);
    validate(&field, spec, TemplateLeniency::NONE, errors);
    if spec.selector.is_some() {
        errors.invalid(&field.child("selector"), "`selector` will be auto-generated");
    }
    if spec.manual_selector == Some(true) {
        errors.not_supported(&field.child("manualSelector"), "true", &["nil", "false"]);
    }
}

fn validate(field: &Path<'_>, spec: &JobSpec, leniency: TemplateLeniency, errors: &mut Errors) {
    validate_numbers(field, spec, errors);
    if let Some(managed_by) = &spec.managed_by {
        managed_by::validate_at(&field.child("managedBy"), managed_by, errors);
    }
    validate_completion_mode(field, spec, errors);
    if let Some(policy) = &spec.pod_failure_policy {
        policies::validate_pod_failure_policy(&field.child("podFailurePolicy"), policy, spec, errors);
    }
    if let Some(policy) = &spec.success_policy {
        let field = field.child("successPolicy");
        if is_indexed(spec) {
            policies::validate_success_policy(&field, policy, spec.completions, errors);
        } else {
            errors.invalid(&field, "requires indexed completion mode");
        }
    }
    validate_pod_replacement_policy(field, spec, errors);
    template::validate(&field.child("template"), &spec.template, leniency, errors);
    validate_restart_policy(field, spec, errors);
}

fn is_indexed(spec: &JobSpec) -> bool {
    spec.completion_mode.as_deref() == Some("Indexed")
}

fn validate_numbers(field: &Path<'_>, spec: &JobSpec, errors: &mut Errors) {
    for (name, value) in [
        ("parallelism", spec.parallelism.map(i64::from)),
        ("completions", spec.completions.map(i64::from)),
        ("activeDeadlineSeconds", spec.active_deadline_seconds),
        ("backoffLimit", spec.backoff_limit.map(i64::from)),
        ("ttlSecondsAfterFinished", spec.ttl_seconds_after_finished.map(i64::from)),
        ("backoffLimitPerIndex", spec.backoff_limit_per_index.map(i64::from)),
        ("maxFailedIndexes", spec.max_failed_indexes.map(i64::from)),
    ] {
        errors.non_negative(&field.child(name), value.unwrap_or(0));
    }
    if spec.max_failed_indexes.is_some() && spec.backoff_limit_per_index.is_none() {
        errors.required(&field.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
}

fn validate_completion_mode(field: &Path<'_>, spec: &JobSpec, errors: &mut Errors) {
    match spec.completion_mode.as_deref() {
        Some("Indexed") => validate_indexed(field, spec, errors),
        None | Some("NonIndexed") => {
            for (name, value) in
                [("backoffLimitPerIndex", spec.backoff_limit_per_index), ("maxFailedIndexes", spec.max_failed_indexes)]
            {
                if let Some(value) = value {
                    errors.invalid_number(&field.child(name), value, "requires indexed completion mode");
                }
            }
        }
        Some(unknown) => {
            errors.not_supported(&field.child("completionMode"), unknown, &["NonIndexed", "Indexed"]);
        }
    }
}

fn validate_indexed(field: &Path<'_>, spec: &JobSpec, errors: &mut Errors) {
    let (parallelism, max_failed) = (field.child("parallelism"), field.child("maxFailedIndexes"));
    let at_most = |limit: i32| format!("must be less than or equal to {limit}");
    if spec.completions.is_none() {
        errors.required(&field.child("completions"), "when completion mode is Indexed");
    }
    if let Some(value) = spec.parallelism
        && value > PARALLELISM_MAX
    {
        errors.invalid_number(&parallelism, value, at_most(PARALLELISM_MAX));
    }
    if let (Some(completions), Some(value)) = (spec.completions, spec.max_failed_indexes)
        && value > completions
    {
        errors.invalid_number(&max_failed, value, "must be less than or equal to completions");
    }
    if let Some(value) = spec.max_failed_indexes
        && value > FAILED_INDEXES_MAX
    {
        errors.invalid_number(&max_failed, value, at_most(FAILED_INDEXES_MAX));
    }
    let has_many = spec.completions.is_some_and(|completions| completions > MANY_COMPLETIONS);
    if !has_many || spec.backoff_limit_per_index.is_none() {
        return;
    }
    let why = format!(
        "{} when completions are above {MANY_COMPLETIONS} and backoffLimitPerIndex is set",
        at_most(MANY_COMPLETIONS_LIMIT)
    );
    if spec.max_failed_indexes.is_none() {
        let detail = format!("must be specified when completions are above {MANY_COMPLETIONS}");
        errors.required(&max_failed, detail);
    }
    for (field, value) in [(parallelism, spec.parallelism), (max_failed, spec.max_failed_indexes)] {
        if let Some(value) = value
            && value > MANY_COMPLETIONS_LIMIT
        {
            errors.invalid_number(&field, value, why.clone());
        }
    }
}

fn validate_pod_replacement_policy(field: &Path<'_>, spec: &JobSpec, errors: &mut Errors) {
    let supported: &[&str] =
        if spec.pod_failure_policy.is_some() { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    if let Some(policy) = spec.pod_replacement_policy.as_deref()
        && !supported.contains(&policy)
    {
        errors.not_supported(&field.child("podReplacementPolicy"), policy, supported);
    }
}

fn validate_restart_policy(field: &Path<'_>, spec: &JobSpec, errors: &mut Errors) {
    let field = field.child("template.spec.restartPolicy");
    let policy = spec.template.spec.as_ref().and_then(|pod| pod.restart_policy.as_deref()).unwrap_or_default();
    match policy {
        "" | "Always" => errors.required(&field, "valid values: \"OnFailure\", \"Never\""),
        "Never" => {}
        "OnFailure" if spec.pod_failure_policy.is_none() => {}
        "OnFailure" => {
            errors.invalid_text(&field, policy, "only \"Never\" is supported when podFailurePolicy is specified");
        }
        unknown => errors.not_supported(&field, unknown, &["OnFailure", "Never"]),
    }
}
