//! What this server offers, in both forms that clients ask for: group by group, or all at once.

use std::sync::Arc;

use http::HeaderMap;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::http::{Reply, wants_aggregated_discovery};
use crate::registry::{Registry, Resource, Subresource, api_version};

/// The Kubernetes release whose API this server speaks.
pub(crate) fn version() -> Value {
    json!({
        "major": "1", "minor": "35", "emulationMajor": "1", "emulationMinor": "35",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "34",
        "gitVersion": "v1.35.8+jobferry", "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

/// `/api`
pub(crate) fn core(registry: &Registry, headers: &HeaderMap) -> Reply {
    if let Some(version) = wants_aggregated_discovery(headers) {
        return aggregated(registry, version, str::is_empty);
    }
    Reply::value(&json!({"kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}]}))
}

/// `/apis`
pub(crate) fn groups(registry: &Registry, headers: &HeaderMap) -> Reply {
    if let Some(version) = wants_aggregated_discovery(headers) {
        return aggregated(registry, version, |group| !group.is_empty());
    }
    let groups: Vec<Value> = group_names(registry).iter().map(|group| group_json(registry, group)).collect();
    Reply::value(&json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
}

/// `/apis/batch`
pub(crate) fn group(registry: &Registry, group: &str) -> Result<Reply, ApiError> {
    if group.is_empty() || !registry.serves_group(group) {
        return Err(ApiError::no_such_page());
    }
    let mut document = group_json(registry, group);
    document["kind"] = "APIGroup".into();
    document["apiVersion"] = "v1".into();
    Ok(Reply::value(&document))
}

/// `/apis/batch/v1`
pub(crate) fn resources(registry: &Registry, group: &str, version: &str) -> Result<Reply, ApiError> {
    let resources = of_version(registry, group, version);
    if resources.is_empty() {
        return Err(ApiError::no_such_page());
    }
    let list: Vec<Value> = resources.iter().flat_map(|resource| resource_json(resource)).collect();
    Ok(Reply::value(&json!({"kind": "APIResourceList", "apiVersion": "v1",
        "groupVersion": api_version(group, version), "resources": list})))
}

/// Groups other than the core, in the order of the registry.
pub(crate) fn group_names(registry: &Registry) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for resource in registry.all() {
        if !resource.group.is_empty() && !names.contains(&resource.group) {
            names.push(resource.group.clone());
        }
    }
    names
}

/// Versions of a group, the preferred one first.
pub(crate) fn versions(registry: &Registry, group: &str) -> Vec<String> {
    let mut versions: Vec<String> = Vec::new();
    for resource in registry.all() {
        if resource.group == group && !versions.contains(&resource.version) {
            versions.push(resource.version.clone());
        }
    }
    versions.sort_by_key(|version| std::cmp::Reverse(maturity(version)));
    versions
}

/// Orders versions as Kubernetes does: stable before beta before alpha, higher numbers first.
fn maturity(version: &str) -> (u8, u64, u64) {
    let number = |text: &str| text.parse().unwrap_or(0);
    let Some(rest) = version.strip_prefix('v') else { return (0, 0, 0) };
    for (stage, rank) in [("alpha", 1), ("beta", 2)] {
        if let Some((major, minor)) = rest.split_once(stage) {
            return (rank, number(major), number(minor));
        }
    }
    (3, number(rest), 0)
}

pub(crate) fn of_version(registry: &Registry, group: &str, version: &str) -> Vec<Arc<Resource>> {
    let mut found = registry.all();
    found.retain(|resource| resource.group == group && resource.version == version);
    found.sort_by(|a, b| a.plural.cmp(&b.plural));
    found
}

fn group_json(registry: &Registry, group: &str) -> Value {
    let versions: Vec<Value> = versions(registry, group)
        .iter()
        .map(|version| json!({"groupVersion": api_version(group, version), "version": version}))
        .collect();
    json!({"name": group, "versions": versions, "preferredVersion": versions.first()})
}

fn resource_json(resource: &Resource) -> Vec<Value> {
    let mut own = json!({
        "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
        "kind": resource.kind, "verbs": resource.verbs(),
    });
    if !resource.short_names.is_empty() {
        own["shortNames"] = resource.short_names.clone().into();
    }
    if !resource.categories.is_empty() {
        own["categories"] = resource.categories.clone().into();
    }
    let parts = resource.subresources.iter().map(|part| {
        json!({"name": format!("{}/{}", resource.plural, part.name()), "singularName": "",
            "namespaced": resource.namespaced, "kind": part_kind(resource, *part), "verbs": part.verbs()})
    });
    std::iter::once(own).chain(parts).collect()
}

fn part_kind(resource: &Resource, part: Subresource) -> &str {
    match part {
        Subresource::Binding => "Binding",
        _ => &resource.kind,
    }
}

fn aggregated(registry: &Registry, version: &'static str, wanted: impl Fn(&str) -> bool) -> Reply {
    let groups: Vec<Value> = std::iter::once(String::new())
        .chain(group_names(registry))
        .filter(|group| wanted(group))
        .map(|group| {
            let versions: Vec<Value> = versions(registry, &group)
                .iter()
                .map(|version| {
                    let resources: Vec<Value> =
                        of_version(registry, &group, version).iter().map(|r| aggregated_resource(r)).collect();
                    json!({"version": version, "freshness": "Current", "resources": resources})
                })
                .collect();
            let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    let document = json!({"kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {}, "items": groups});
    Reply::value(&document).with_content_type(match version {
        "v2" => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        _ => "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
    })
}

fn aggregated_resource(resource: &Resource) -> Value {
    let kind = |name: &str| json!({"group": resource.group, "version": resource.version, "kind": name});
    let parts: Vec<Value> = resource
        .subresources
        .iter()
        .map(|part| {
            json!({"subresource": part.name(), "responseKind": kind(part_kind(resource, *part)), "verbs": part.verbs()})
        })
        .collect();
    let mut own = json!({
        "resource": resource.plural, "responseKind": kind(&resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular, "verbs": resource.verbs(),
    });
    for (field, list) in [("shortNames", &resource.short_names), ("categories", &resource.categories)] {
        if !list.is_empty() {
            own[field] = list.clone().into();
        }
    }
    if !parts.is_empty() {
        own["subresources"] = parts.into();
    }
    own
}

#[cfg(test)]
mod tests {
    use super::maturity;

    #[test]
    fn stable_versions_come_before_beta_before_alpha() {
        let mut versions = ["v1alpha1", "v2", "v1beta2", "v10", "v1beta1", "v1", "odd"];
        versions.sort_by_key(|version| std::cmp::Reverse(maturity(version)));
        assert_eq!(versions, ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "odd"]);
    }
}
