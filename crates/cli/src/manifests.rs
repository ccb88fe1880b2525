//! The manifests that this program ships: the same files that are in `manifests/` of the repository.

use anyhow::Context as _;
use serde_json::Value;

/// What the dispatcher may do on the management cluster.
pub(crate) const MANAGER: &str = include_str!("../../../manifests/manager.yaml");
/// What it may do on a worker cluster.
pub(crate) const WORKER: &str = include_str!("../../../manifests/worker.yaml");

/// The custom resource definitions, as YAML documents.
pub(crate) fn custom_resource_definitions() -> anyhow::Result<String> {
    let mut text = String::new();
    for definition in jobferry_api::custom_resource_definitions() {
        text.push_str("---\n");
        // By way of a Value, whose keys are sorted: the order of fields in a struct is nobody's business.
        text.push_str(&serde_saphyr::to_string(&serde_json::to_value(definition)?)?);
    }
    Ok(text)
}

/// The objects of a manifest, in order.
pub(crate) fn objects(manifest: &str) -> anyhow::Result<Vec<Value>> {
    manifest.split("\n---\n").map(|document| serde_saphyr::from_str(document).context("manifest")).collect()
}

/// The path of the collection that an object of ours belongs to.
pub(crate) fn collection(object: &Value) -> anyhow::Result<String> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let root = match text("/apiVersion") {
        "v1" => "/api/v1".to_owned(),
        other => format!("/apis/{other}"),
    };
    let plural = match text("/kind") {
        "Namespace" => "namespaces",
        "ServiceAccount" => "serviceaccounts",
        "ClusterRole" => "clusterroles",
        "ClusterRoleBinding" => "clusterrolebindings",
        "Role" => "roles",
        "RoleBinding" => "rolebindings",
        "CustomResourceDefinition" => "customresourcedefinitions",
        other => anyhow::bail!("a manifest holds a {other}, which is not known how to write"),
    };
    Ok(match text("/metadata/namespace") {
        "" => format!("{root}/{plural}"),
        namespace => format!("{root}/namespaces/{namespace}/{plural}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_has_a_collection() {
        for manifest in [MANAGER, WORKER, &custom_resource_definitions().unwrap()] {
            for object in objects(manifest).unwrap() {
                collection(&object).unwrap();
            }
        }
    }

    /// An alert on a metric that does not exist never fires.
    #[test]
    fn every_alert_watches_a_metric_that_exists() {
        use jobferry_api::metrics as names;
        let alerts: Value = serde_saphyr::from_str(include_str!("../../../manifests/alerts.yaml")).unwrap();
        let known = [
            names::LEADER,
            names::HALTED,
            names::WAITING,
            names::STATUS_LAG,
            names::MANAGER_WRITES_FAILED,
            names::ORPHANS_DELETED,
            names::ALARMS,
            names::WORKER_UP,
            names::WORKER_UNACKNOWLEDGED,
            names::WORKER_CONNECTIONS,
            names::WORKER_CREDENTIAL_EXPIRY,
        ];
        let rules = alerts["groups"][0]["rules"].as_array().unwrap();
        for rule in rules {
            let expression = rule["expr"].as_str().unwrap();
            let words = expression.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            for metric in words.filter(|word| word.starts_with("jobferry_")) {
                let family = metric.trim_end_matches("_total").trim_end_matches("_bucket");
                assert!(known.contains(&family), "{}: {metric}", rule["alert"]);
            }
        }
        assert!(rules.len() > 5);
    }

    /// Whoever can read them all can become any worker's deputy; whoever has a wildcard can do anything.
    #[test]
    fn no_rule_is_wider_than_it_must_be() {
        for manifest in [MANAGER, WORKER] {
            for role in objects(manifest).unwrap() {
                let cluster_wide = role["kind"] == "ClusterRole";
                for rule in role["rules"].as_array().into_iter().flatten() {
                    let words: Vec<_> = ["apiGroups", "resources", "verbs"]
                        .iter()
                        .flat_map(|part| rule[part].as_array().into_iter().flatten())
                        .filter_map(Value::as_str)
                        .collect();
                    assert!(!words.contains(&"*"), "{rule}");
                    assert!(!(cluster_wide && words.contains(&"secrets")), "{rule}");
                }
            }
        }
    }
}
