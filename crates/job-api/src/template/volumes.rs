//! Volumes: emptyDir, configMap and secret. A volume of any other type is taken as it is.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{KeyToPath, Volume};

use crate::quantity::Amount;
use crate::{Errors, formats, path::Path};

const FILE_MODE_MAX: i32 = 0o777;

/// Judges the volumes; returns the names of the good ones, the only ones that can be mounted.
pub(super) fn validate<'a>(field: &Path<'_>, volumes: &'a [Volume], errors: &mut Errors) -> BTreeSet<&'a str> {
    let mut good = BTreeSet::new();
    for (index, volume) in volumes.iter().enumerate() {
        let field = field.index(index);
        let name = field.child("name");
        let errors_before = errors.len();
        validate_source(&field, volume, errors);
        if volume.name.is_empty() {
            errors.required(&name, "");
        } else {
            errors.invalid_format(&name, &volume.name, formats::dns_label(&volume.name));
        }
        if good.contains(volume.name.as_str()) {
            errors.duplicate(&name, &volume.name);
        }
        if errors.len() == errors_before {
            good.insert(volume.name.as_str());
        }
    }
    good
}

fn validate_source(field: &Path<'_>, volume: &Volume, errors: &mut Errors) {
    let mut has_type = false;
    let mut is_first = |name: &str, errors: &mut Errors| {
        if has_type {
            errors.forbidden(&field.child(name), "may not specify more than 1 volume type");
        }
        !std::mem::replace(&mut has_type, true)
    };
    if let Some(empty_dir) = &volume.empty_dir {
        is_first("emptyDir", errors);
        let limit = empty_dir.size_limit.as_ref().map(|limit| Amount::parse(&limit.0));
        if limit.is_some_and(|limit| limit.is_none_or(|limit| limit.is_negative())) {
            errors.forbidden(&field.child("emptyDir.sizeLimit"), "must be a valid resource quantity");
        }
    }
    if let Some(secret) = &volume.secret
        && is_first("secret", errors)
    {
        let field = field.child("secret");
        if secret.secret_name.as_deref().unwrap_or_default().is_empty() {
            errors.required(&field.child("secretName"), "");
        }
        validate_files(&field, secret.default_mode, secret.items.as_deref().unwrap_or_default(), errors);
    }
    if let Some(config_map) = &volume.config_map
        && is_first("configMap", errors)
    {
        let field = field.child("configMap");
        if config_map.name.is_empty() {
            errors.required(&field.child("name"), "");
        }
        validate_files(&field, config_map.default_mode, config_map.items.as_deref().unwrap_or_default(), errors);
    }
}

fn validate_files(field: &Path<'_>, default_mode: Option<i32>, items: &[KeyToPath], errors: &mut Errors) {
    validate_mode(&field.child("defaultMode"), default_mode, errors);
    let list = field.child("items");
    for (index, item) in items.iter().enumerate() {
        let field = list.index(index);
        if item.key.is_empty() {
            errors.required(&field.child("key"), "");
        }
        let path = field.child("path");
        if item.path.is_empty() {
            errors.required(&path, "");
        }
        validate_descending_path(&path, &item.path, errors);
        if item.path.starts_with("..") && !item.path.starts_with("../") {
            errors.invalid_text(&path, &item.path, "must not start with '..'");
        }
        validate_mode(&field.child("mode"), item.mode, errors);
    }
}

fn validate_mode(field: &Path<'_>, mode: Option<i32>, errors: &mut Errors) {
    if let Some(mode) = mode
        && !(0..=FILE_MODE_MAX).contains(&mode)
    {
        errors.invalid_number(field, mode, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

/// A path that leads down from where it is mounted, and nowhere else.
pub(super) fn validate_descending_path(field: &Path<'_>, path: &str, errors: &mut Errors) {
    if path.starts_with('/') {
        errors.invalid_text(field, path, "must be a relative path");
    }
    if path.split('/').any(|part| part == "..") {
        errors.invalid_text(field, path, "must not contain '..'");
    }
}
