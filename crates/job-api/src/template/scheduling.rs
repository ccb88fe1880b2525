//! Tolerations and scheduling gates.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PodSchedulingGate, PodSpec, Toleration};

use super::TemplateLeniency;
use crate::{Errors, formats, path::Path};

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const OPERATORS: [&str; 2] = ["Equal", "Exists"];

pub(super) fn validate_gates(field: &Path<'_>, gates: &[PodSchedulingGate], errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, gate) in gates.iter().enumerate() {
        let field = field.index(index);
        errors.invalid_format(&field, &gate.name, formats::label_key(&gate.name));
        if !seen.insert(&gate.name) {
            errors.duplicate(&field, &gate.name);
        }
    }
}

pub(super) fn validate_tolerations(
    field: &Path<'_>,
    tolerations: &[Toleration],
    leniency: TemplateLeniency,
    errors: &mut Errors,
) {
    for (index, toleration) in tolerations.iter().enumerate() {
        validate_toleration(&field.index(index), toleration, leniency, errors);
    }
}

fn validate_toleration(field: &Path<'_>, toleration: &Toleration, leniency: TemplateLeniency, errors: &mut Errors) {
    let key = toleration.key.as_deref().unwrap_or_default();
    let operator = toleration.operator.as_deref().unwrap_or_default();
    let value = toleration.value.as_deref().unwrap_or_default();
    let effect = toleration.effect.as_deref().unwrap_or_default();
    if !key.is_empty() {
        errors.invalid_format(&field.child("key"), key, formats::label_key(key));
    } else if operator != "Exists" {
        errors.invalid_text(&field.child("operator"), operator, "operator must be Exists when `key` is empty");
    }
    if toleration.toleration_seconds.is_some() && effect != "NoExecute" {
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.invalid_text(&field.child("effect"), effect, detail);
    }
    match operator {
        "" | "Equal" => {
            let broken = formats::label_value(value);
            if !broken.is_empty() {
                errors.invalid_text(&field.child("operator"), value, broken.join(";"));
            }
        }
        "Exists" => {
            if !value.is_empty() {
                let detail = "value must be empty when `operator` is 'Exists'";
                errors.invalid_text(&field.child("operator"), value, detail);
            }
        }
        "Lt" | "Gt" if leniency.numeric_tolerations => validate_number(&field.child("value"), value, errors),
        unknown => errors.not_supported(&field.child("operator"), unknown, &OPERATORS),
    }
    if !effect.is_empty() && !EFFECTS.contains(&effect) {
        errors.not_supported(&field.child("effect"), effect, &EFFECTS);
    }
}

/// Two rules: written without plus sign and leading zeros, and within 64 bits.
fn validate_number(field: &Path<'_>, value: &str, errors: &mut Errors) {
    let digits = value.strip_prefix('-').unwrap_or(value);
    let is_decimal = value == "0"
        || (digits.starts_with(|c: char| ('1'..='9').contains(&c)) && digits.bytes().all(|byte| byte.is_ascii_digit()));
    if !is_decimal {
        errors.invalid_text(field, value, "must be a decimal integer without leading zeros");
    }
    if value.parse::<i64>().is_err() {
        errors.invalid_text(field, value, "must fit into 64 bits");
    }
}

pub(super) fn has_numeric_tolerations(spec: &PodSpec) -> bool {
    spec.tolerations.iter().flatten().any(|toleration| matches!(toleration.operator.as_deref(), Some("Lt" | "Gt")))
}
