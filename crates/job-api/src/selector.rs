//! Label selectors: format, and which labels they match.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use crate::{Errors, formats, path::Path};

type Labels = BTreeMap<String, String>;

/// Whether the selector matches the labels; `None` when the selector is malformed and so matches nothing at all.
/// No selector matches no labels; an empty selector matches all.
pub(crate) fn matches(selector: Option<&LabelSelector>, labels: &Labels) -> Option<bool> {
    let Some(selector) = selector else { return Some(false) };
    let mut all = true;
    for (key, value) in selector.match_labels.iter().flatten() {
        if !formats::label_key(key).is_empty() || !formats::label_value(value).is_empty() {
            return None;
        }
        all &= labels.get(key) == Some(value);
    }
    for requirement in selector.match_expressions.iter().flatten() {
        all &= meets(requirement, labels)?;
    }
    Some(all)
}

fn meets(requirement: &LabelSelectorRequirement, labels: &Labels) -> Option<bool> {
    let values = values(requirement);
    let is_well_formed = formats::label_key(&requirement.key).is_empty()
        && values.iter().all(|value| formats::label_value(value).is_empty());
    if !is_well_formed {
        return None;
    }
    let actual = labels.get(&requirement.key);
    match requirement.operator.as_str() {
        "In" if !values.is_empty() => Some(actual.is_some_and(|value| values.contains(value))),
        "NotIn" if !values.is_empty() => Some(actual.is_none_or(|value| !values.contains(value))),
        "Exists" if values.is_empty() => Some(actual.is_some()),
        "DoesNotExist" if values.is_empty() => Some(actual.is_none()),
        _ => None,
    }
}

fn values(requirement: &LabelSelectorRequirement) -> &[String] {
    requirement.values.as_deref().unwrap_or_default()
}

/// True when some requirement has a value that no label can have. Such selectors are tolerated once they are stored.
pub(crate) fn has_invalid_value(selector: Option<&LabelSelector>) -> bool {
    selector
        .and_then(|selector| selector.match_expressions.as_ref())
        .into_iter()
        .flatten()
        .flat_map(values)
        .any(|value| !formats::label_value(value).is_empty())
}

pub(crate) fn validate(field: &Path<'_>, selector: &LabelSelector, allow_invalid_values: bool, errors: &mut Errors) {
    validate_labels(&field.child("matchLabels"), selector.match_labels.as_ref(), errors);
    for (index, requirement) in selector.match_expressions.iter().flatten().enumerate() {
        let list = field.child("matchExpressions");
        validate_requirement(&list.index(index), requirement, allow_invalid_values, errors);
    }
}

fn validate_requirement(
    field: &Path<'_>,
    requirement: &LabelSelectorRequirement,
    allow_invalid_values: bool,
    errors: &mut Errors,
) {
    let values = values(requirement);
    match requirement.operator.as_str() {
        "In" | "NotIn" if values.is_empty() => {
            errors.required(&field.child("values"), "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.forbidden(&field.child("values"), detail);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        unknown => errors.invalid_text(&field.child("operator"), unknown, "not a valid selector operator"),
    }
    errors.invalid_format(&field.child("key"), &requirement.key, formats::label_key(&requirement.key));
    if !allow_invalid_values {
        for (index, value) in values.iter().enumerate() {
            errors.invalid_format(&field.child("values").index(index), value, formats::label_value(value));
        }
    }
}

/// Keys and values of a map of labels; all errors are on the map itself.
pub(crate) fn validate_labels(field: &Path<'_>, labels: Option<&Labels>, errors: &mut Errors) {
    for (key, value) in labels.into_iter().flatten() {
        errors.invalid_format(field, key, formats::label_key(key));
        errors.invalid_format(field, value, formats::label_value(value));
    }
}
