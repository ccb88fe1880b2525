//! Object metadata: what every object must have, and what an update may not change.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::{Errors, Rules, formats, path::Path, selector::validate_labels};

const METADATA: Path<'static> = Path::root("metadata");
const ANNOTATIONS_MAX_BYTES: usize = 256 * 1024;
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// What a name must look like: for a Job, a DNS subdomain; for the URL of a request, anything without `/` and `%`.
type NameFormat = fn(&str) -> Vec<String>;

/// What an update takes over from the stored object, whatever the client sent.
pub(crate) fn carry_over(new: &mut ObjectMeta, old: &ObjectMeta) {
    if text(new.uid.as_ref()).is_empty() {
        new.uid.clone_from(&old.uid);
    }
    // An update without a resourceVersion is unconditional: it is for the stored one, whichever that is.
    if text(new.resource_version.as_ref()).is_empty() {
        new.resource_version.clone_from(&old.resource_version);
    }
    if old.creation_timestamp.is_some() {
        new.creation_timestamp.clone_from(&old.creation_timestamp);
    }
    if old.deletion_timestamp.is_some() {
        new.deletion_timestamp.clone_from(&old.deletion_timestamp);
    }
    if new.deletion_grace_period_seconds.is_none() {
        new.deletion_grace_period_seconds = old.deletion_grace_period_seconds;
    }
}

/// The checks of a batch object's own validator on create; it also runs on updates of older servers.
pub(crate) fn validate_job(meta: &ObjectMeta, rules: Rules, errors: &mut Errors) {
    validate(meta, formats::dns_subdomain, dns_subdomain_prefix, rules, errors);
    validate_finalizers_are_qualified(meta, errors);
}

/// The checks that the server makes on every update of every kind before it asks the kind's own validator.
pub(crate) fn validate_update_request(new: &ObjectMeta, old: &ObjectMeta, rules: Rules, errors: &mut Errors) {
    validate(new, path_segment, path_segment_prefix, rules, errors);
    validate_update(new, old, rules, errors);
}

/// The checks of a batch object's own validator on update.
pub(crate) fn validate_job_update(new: &ObjectMeta, old: &ObjectMeta, rules: Rules, errors: &mut Errors) {
    validate_update(new, old, rules, errors);
    validate_finalizers_are_qualified(new, errors);
}

fn validate(meta: &ObjectMeta, name_format: NameFormat, prefix_format: NameFormat, rules: Rules, errors: &mut Errors) {
    let prefix = text(meta.generate_name.as_ref());
    if !prefix.is_empty() {
        errors.invalid_format(&METADATA.child("generateName"), prefix, prefix_format(prefix));
    }
    let name = text(meta.name.as_ref());
    if name.is_empty() {
        errors.required(&METADATA.child("name"), "name or generateName is required");
    } else {
        errors.invalid_format(&METADATA.child("name"), name, name_format(name));
    }
    let namespace = text(meta.namespace.as_ref());
    if namespace.is_empty() {
        errors.required(&METADATA.child("namespace"), "");
    } else {
        errors.invalid_format(&METADATA.child("namespace"), namespace, formats::dns_label(namespace));
    }
    errors.non_negative(&METADATA.child("generation"), meta.generation.unwrap_or(0));
    validate_maps_and_owners(meta, rules, errors);
    validate_finalizers(meta, errors);
}

fn validate_maps_and_owners(meta: &ObjectMeta, rules: Rules, errors: &mut Errors) {
    validate_labels(&METADATA.child("labels"), meta.labels.as_ref(), errors);
    validate_annotations(&METADATA.child("annotations"), meta.annotations.as_ref(), errors);
    validate_owners(meta.owner_references.as_deref().unwrap_or_default(), rules, errors);
}

pub(crate) fn validate_annotations(
    field: &Path<'_>,
    annotations: Option<&BTreeMap<String, String>>,
    errors: &mut Errors,
) {
    let mut total_bytes = 0;
    for (key, value) in annotations.into_iter().flatten() {
        errors.invalid_format(field, key, formats::label_key(&key.to_lowercase()));
        total_bytes += key.len() + value.len();
    }
    if total_bytes > ANNOTATIONS_MAX_BYTES {
        errors.too_long(field, ANNOTATIONS_MAX_BYTES);
    }
}

fn validate_owners(owners: &[OwnerReference], rules: Rules, errors: &mut Errors) {
    let list = METADATA.child("ownerReferences");
    let mut has_controller = false;
    for (index, owner) in owners.iter().enumerate() {
        let item = list.index(index);
        // Older servers name the list, not the entry, and call invalid what is missing.
        let field = if rules.declarative_checks { &item } else { &list };
        let version = match owner.api_version.split('/').collect::<Vec<_>>()[..] {
            [version] | [_, version] => version,
            _ => "",
        };
        for (name, value) in
            [("apiVersion", &owner.api_version), ("kind", &owner.kind), ("name", &owner.name), ("uid", &owner.uid)]
        {
            let field = field.child(name);
            match value.as_str() {
                "" if rules.declarative_checks => errors.required(&field, "must not be empty"),
                "" => errors.invalid_text(&field, value, "must not be empty"),
                text if name == "apiVersion" && version.is_empty() => {
                    errors.invalid_text(&field, text, "must be <group>/<version> or <version>");
                }
                _ => {}
            }
        }
        if (owner.api_version.as_str(), owner.kind.as_str()) == ("v1", "Event") {
            errors.invalid(field, "an Event cannot be an owner");
        }
        if owner.controller == Some(true) {
            if has_controller {
                errors.invalid(&list, "only one reference can have controller set to true");
            }
            has_controller = true;
        }
    }
}

fn finalizers(meta: &ObjectMeta) -> &[String] {
    meta.finalizers.as_deref().unwrap_or_default()
}

fn validate_finalizers(meta: &ObjectMeta, errors: &mut Errors) {
    let field = METADATA.child("finalizers");
    for finalizer in finalizers(meta) {
        errors.invalid_format(&field, finalizer, formats::label_key(finalizer));
    }
    let has = |name: &str| finalizers(meta).iter().any(|finalizer| finalizer == name);
    if has(ORPHAN) && has(FOREGROUND) {
        errors.invalid(&field, format!("{ORPHAN} and {FOREGROUND} cannot both be set"));
    }
}

fn validate_finalizers_are_qualified(meta: &ObjectMeta, errors: &mut Errors) {
    let field = METADATA.child("finalizers");
    for (index, finalizer) in finalizers(meta).iter().enumerate() {
        if !finalizer.contains('/') && ![ORPHAN, FOREGROUND, "kubernetes"].contains(&finalizer.as_str()) {
            let detail = "must be a standard finalizer or have a domain prefix";
            errors.invalid_text(&field.index(index), finalizer, detail);
        }
    }
}

fn validate_update(new: &ObjectMeta, old: &ObjectMeta, rules: Rules, errors: &mut Errors) {
    if old.deletion_timestamp.is_some() {
        let known: BTreeSet<_> = finalizers(old).iter().collect();
        if finalizers(new).iter().any(|finalizer| !known.contains(finalizer)) {
            errors.forbidden(&METADATA.child("finalizers"), "none can be added once the object is being deleted");
        }
    }
    if text(new.resource_version.as_ref()).is_empty() {
        errors.invalid_text(&METADATA.child("resourceVersion"), "", "must be specified for an update");
    }
    let (generation, old_generation) = (new.generation.unwrap_or(0), old.generation.unwrap_or(0));
    if generation < old_generation {
        errors.invalid_number(&METADATA.child("generation"), generation, "must not be decremented");
    }
    for (name, is_kept) in [
        ("name", text(new.name.as_ref()) == text(old.name.as_ref())),
        ("namespace", text(new.namespace.as_ref()) == text(old.namespace.as_ref())),
        ("uid", text(new.uid.as_ref()) == text(old.uid.as_ref())),
        ("creationTimestamp", new.creation_timestamp == old.creation_timestamp),
        ("deletionTimestamp", new.deletion_timestamp == old.deletion_timestamp),
        ("deletionGracePeriodSeconds", new.deletion_grace_period_seconds == old.deletion_grace_period_seconds),
    ] {
        if !is_kept {
            errors.invalid(&METADATA.child(name), "field is immutable");
        }
    }
    validate_maps_and_owners(new, rules, errors);
}

fn text(value: Option<&String>) -> &str {
    value.map(String::as_str).unwrap_or_default()
}

/// A prefix may end with a dash, since more will follow.
fn dns_subdomain_prefix(prefix: &str) -> Vec<String> {
    match prefix.strip_suffix('-') {
        Some(stem) if !stem.is_empty() => {
            // The character before the dash is replaced as well: an old quirk of the server.
            let kept = stem.char_indices().next_back().map_or("", |(last, _)| &stem[..last]);
            formats::dns_subdomain(&format!("{kept}a"))
        }
        _ => formats::dns_subdomain(prefix),
    }
}

fn path_segment(name: &str) -> Vec<String> {
    if matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    path_segment_prefix(name)
}

fn path_segment_prefix(prefix: &str) -> Vec<String> {
    ["/", "%"].iter().filter(|part| prefix.contains(*part)).map(|part| format!("may not contain '{part}'")).collect()
}
