//! Pod failure policy and success policy.

use std::collections::BTreeSet;

use k8s_openapi::api::batch::v1::{
    JobSpec, PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyOnPodConditionsPattern,
    PodFailurePolicyRule, SuccessPolicy, SuccessPolicyRule,
};

use crate::{ErrorKind, Errors, formats, index_set, path::Path};

const FAILURE_RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const CONDITION_PATTERNS_MAX: usize = 20;
const SUCCESS_RULES_MAX: usize = 20;
const SUCCEEDED_INDEXES_MAX_BYTES: usize = 64 * 1024;

const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: [&str; 2] = ["In", "NotIn"];
const CONDITION_STATUSES: [&str; 3] = ["False", "True", "Unknown"];

pub(super) fn validate_pod_failure_policy(
    field: &Path<'_>,
    policy: &PodFailurePolicy,
    spec: &JobSpec,
    errors: &mut Errors,
) {
    let rules = field.child("rules");
    if policy.rules.len() > FAILURE_RULES_MAX {
        errors.too_many(&rules, policy.rules.len(), FAILURE_RULES_MAX);
    }
    let pod = spec.template.spec.as_ref();
    let container_names: BTreeSet<&str> = pod
        .into_iter()
        .flat_map(|pod| pod.containers.iter().chain(pod.init_containers.iter().flatten()))
        .map(|container| container.name.as_str())
        .collect();
    for (index, rule) in policy.rules.iter().enumerate() {
        let field = rules.index(index);
        validate_action(&field, rule, spec, errors);
        let patterns = rule.on_pod_conditions.as_deref().unwrap_or_default();
        if let Some(requirement) = &rule.on_exit_codes {
            validate_exit_codes(&field.child("onExitCodes"), requirement, &container_names, errors);
        }
        validate_condition_patterns(&field.child("onPodConditions"), patterns, errors);
        match (rule.on_exit_codes.is_some(), !patterns.is_empty()) {
            (true, true) => errors.invalid(&field, "onExitCodes and onPodConditions exclude each other"),
            (false, false) => errors.invalid(&field, "one of onExitCodes and onPodConditions is required"),
            _ => {}
        }
    }
}

fn validate_action(field: &Path<'_>, rule: &PodFailurePolicyRule, spec: &JobSpec, errors: &mut Errors) {
    let field = field.child("action");
    match rule.action.as_str() {
        "" => errors.required(&field, format!("valid values: {ACTIONS:?}")),
        "FailIndex" if spec.backoff_limit_per_index.is_none() => {
            errors.invalid_text(&field, &rule.action, "requires the backoffLimitPerIndex to be set");
        }
        action if !ACTIONS.contains(&action) => errors.not_supported(&field, action, &ACTIONS),
        _ => {}
    }
}

fn validate_exit_codes(
    field: &Path<'_>,
    requirement: &PodFailurePolicyOnExitCodesRequirement,
    container_names: &BTreeSet<&str>,
    errors: &mut Errors,
) {
    match requirement.operator.as_str() {
        "" => errors.required(&field.child("operator"), format!("valid values: {OPERATORS:?}")),
        operator if !OPERATORS.contains(&operator) => {
            errors.not_supported(&field.child("operator"), operator, &OPERATORS);
        }
        _ => {}
    }
    if let Some(name) = &requirement.container_name
        && !container_names.contains(name.as_str())
    {
        let detail = "must be one of the container or initContainer names in the pod template";
        errors.invalid_text(&field.child("containerName"), name, detail);
    }
    let (field, codes) = (field.child("values"), &requirement.values);
    if codes.is_empty() {
        errors.invalid(&field, "at least one value is required");
    } else if codes.len() > EXIT_CODES_MAX {
        errors.too_many(&field, codes.len(), EXIT_CODES_MAX);
    }
    let mut seen = BTreeSet::new();
    for (index, code) in codes.iter().enumerate() {
        if requirement.operator == "In" && *code == 0 {
            errors.invalid_number(&field.index(index), *code, "must not be 0 for the In operator");
        }
        if !seen.insert(code) {
            errors.push(ErrorKind::Duplicate, &field.index(index), Some(code.to_string()), "");
        }
    }
    if !codes.is_sorted() {
        errors.invalid(&field, "must be ordered");
    }
}

fn validate_condition_patterns(
    field: &Path<'_>,
    patterns: &[PodFailurePolicyOnPodConditionsPattern],
    errors: &mut Errors,
) {
    if patterns.len() > CONDITION_PATTERNS_MAX {
        errors.too_many(field, patterns.len(), CONDITION_PATTERNS_MAX);
    }
    for (index, pattern) in patterns.iter().enumerate() {
        let field = field.index(index);
        errors.invalid_format(&field.child("type"), &pattern.type_, formats::label_key(&pattern.type_));
        match pattern.status.as_deref().unwrap_or_default() {
            "" => errors.required(&field.child("status"), format!("valid values: {CONDITION_STATUSES:?}")),
            status if !CONDITION_STATUSES.contains(&status) => {
                errors.not_supported(&field.child("status"), status, &CONDITION_STATUSES);
            }
            _ => {}
        }
    }
}

pub(super) fn validate_success_policy(
    field: &Path<'_>,
    policy: &SuccessPolicy,
    completions: Option<i32>,
    errors: &mut Errors,
) {
    let rules = field.child("rules");
    if policy.rules.is_empty() {
        errors.required(&rules, "a success policy needs at least one rule");
    }
    if policy.rules.len() > SUCCESS_RULES_MAX {
        errors.too_many(&rules, policy.rules.len(), SUCCESS_RULES_MAX);
    }
    for (index, rule) in policy.rules.iter().enumerate() {
        validate_success_rule(&rules.index(index), rule, completions, errors);
    }
}

/// Real servers crash on a rule when there are no completions; that they are missing is an error of its own already.
fn validate_success_rule(field: &Path<'_>, rule: &SuccessPolicyRule, completions: Option<i32>, errors: &mut Errors) {
    if rule.succeeded_count.is_none() && rule.succeeded_indexes.is_none() {
        errors.required(field, "at least one of succeededCount or succeededIndexes must be specified");
    }
    let mut listed = None;
    if let Some(indexes) = &rule.succeeded_indexes {
        let field = field.child("succeededIndexes");
        if indexes.len() > SUCCEEDED_INDEXES_MAX_BYTES {
            errors.too_long(&field, SUCCEEDED_INDEXES_MAX_BYTES);
        }
        if let Some(completions) = completions {
            listed = Some(index_set::count(indexes, completions).unwrap_or_else(|error| {
                errors.invalid_text(&field, indexes, error.to_string());
                0
            }));
        }
    }
    if let Some(count) = rule.succeeded_count {
        let field = field.child("succeededCount");
        errors.non_negative(&field, count);
        if let Some(completions) = completions
            && count > completions
        {
            let detail = format!("must be less than or equal to {completions} (the number of completions)");
            errors.invalid_number(&field, count, detail);
        }
        if let Some(listed) = listed
            && i64::from(count) > listed
        {
            let detail = format!("must be less than or equal to {listed} (the number of succeededIndexes)");
            errors.invalid_number(&field, count, detail);
        }
    }
}
