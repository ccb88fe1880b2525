//! Resource requests and limits of a container.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::TemplateLeniency;
use crate::quantity::Amount;
use crate::{Errors, formats, path::Path};

const HUGE_PAGES_PREFIX: &str = "hugepages-";
const QUOTA_PREFIX: &str = "requests.";
const NATIVE_DOMAIN: &str = "kubernetes.io/";

/// What a container can ask for without a domain in the name, beside huge pages.
const CONTAINER_RESOURCES: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Names that are known to quotas, but that no container can ask for.
const QUOTA_RESOURCES: [&str; 17] = [
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];

/// Of those, the ones that are counted in whole numbers.
const COUNTED_RESOURCES: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

type ResourceList = BTreeMap<String, Quantity>;

pub(super) fn validate(
    field: &Path<'_>,
    requirements: &ResourceRequirements,
    leniency: TemplateLeniency,
    errors: &mut Errors,
) {
    let (limits_field, requests_field) = (field.child("limits"), field.child("requests"));
    let (no_limits, no_requests) = (ResourceList::new(), ResourceList::new());
    let limits = requirements.limits.as_ref().unwrap_or(&no_limits);
    let requests = requirements.requests.as_ref().unwrap_or(&no_requests);
    for (name, quantity) in limits {
        validate_entry(&limits_field.key(name), name, quantity, leniency, errors);
    }
    for (name, quantity) in requests {
        validate_entry(&requests_field.key(name), name, quantity, leniency, errors);
        match limits.get(name) {
            Some(limit) => validate_request(&requests_field, name, quantity, limit, errors),
            None if !is_overcommit_allowed(name) => {
                errors.required(&limits_field, "Limit must be set for non overcommitable resources");
            }
            None => {}
        }
    }
    let mut names = limits.keys().chain(requests.keys());
    let has_huge_pages = names.clone().any(|name| is_huge_page(name));
    if has_huge_pages && !names.any(|name| name == "cpu" || name == "memory") {
        errors.forbidden(field, "HugePages require cpu or memory");
    }
}

fn validate_entry(field: &Path<'_>, name: &str, quantity: &Quantity, leniency: TemplateLeniency, errors: &mut Errors) {
    validate_name(field, name, errors);
    let Some(amount) = Amount::parse(&quantity.0) else {
        // A server cannot even read such a request: it answers 400 to the whole.
        return errors.invalid_text(field, &quantity.0, "must be a quantity such as 500m, 2 or 1Gi");
    };
    if amount.is_negative() {
        errors.invalid_text(field, &quantity.0, "must be greater than or equal to 0");
    }
    if is_counted(name) && !amount.is_whole() {
        errors.invalid_text(field, &quantity.0, "must be an integer");
    }
    if is_huge_page(name) && !leniency.indivisible_huge_pages && !is_divisible(name, &amount) {
        errors.invalid_text(field, &quantity.0, format!("is not a positive integer multiple of {name}"));
    }
}

fn validate_request(field: &Path<'_>, name: &str, request: &Quantity, limit: &Quantity, errors: &mut Errors) {
    let (Some(asked), Some(allowed)) = (Amount::parse(&request.0), Amount::parse(&limit.0)) else { return };
    if asked.nano() != allowed.nano() && !is_overcommit_allowed(name) {
        errors.invalid_text(field, &request.0, format!("must be equal to {name} limit of {}", limit.0));
    } else if asked.nano() > allowed.nano() {
        errors.invalid_text(field, &request.0, format!("must be less than or equal to {name} limit of {}", limit.0));
    }
}

fn validate_name(field: &Path<'_>, name: &str, errors: &mut Errors) {
    let broken = formats::label_key(name);
    let is_well_formed = broken.is_empty();
    errors.invalid_format(field, name, broken);
    if !name.contains('/') {
        let is_standard = CONTAINER_RESOURCES.contains(&name) || is_huge_page(name);
        let is_known = is_standard || QUOTA_RESOURCES.contains(&name) || is_quota_huge_page(name);
        if is_well_formed && !is_known {
            errors.invalid_text(field, name, "must be a standard resource type or fully qualified");
        }
        if !is_standard {
            errors.invalid_text(field, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.invalid_text(field, name, "doesn't follow extended resource name standard");
    }
}

fn is_huge_page(name: &str) -> bool {
    name.starts_with(HUGE_PAGES_PREFIX)
}

fn is_quota_huge_page(name: &str) -> bool {
    name.strip_prefix(QUOTA_PREFIX).is_some_and(is_huge_page)
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains(NATIVE_DOMAIN)
}

fn is_extended(name: &str) -> bool {
    let is_candidate = !is_native(name) && !name.starts_with(QUOTA_PREFIX);
    is_candidate && formats::label_key(&format!("{QUOTA_PREFIX}{name}")).is_empty()
}

fn is_counted(name: &str) -> bool {
    COUNTED_RESOURCES.contains(&name) || is_extended(name)
}

fn is_overcommit_allowed(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

/// The name of huge pages ends with the size of a page.
fn is_divisible(name: &str, amount: &Amount) -> bool {
    name.strip_prefix(HUGE_PAGES_PREFIX)
        .and_then(Amount::parse)
        .filter(|page| page.nano() > 0 && page.is_whole())
        .is_some_and(|page| amount.whole() % page.whole() == 0)
}

pub(super) fn has_indivisible_huge_pages(container: &Container) -> bool {
    let lists = container.resources.iter().flat_map(|resources| [&resources.limits, &resources.requests]);
    lists.flatten().flatten().any(|(name, quantity)| {
        is_huge_page(name) && Amount::parse(&quantity.0).is_none_or(|amount| !is_divisible(name, &amount))
    })
}
