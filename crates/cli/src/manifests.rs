//! The manifests that this program ships: the same files that are in `manifests/` of the repository.

use anyhow::Context as _;
use serde_json::Value;

/// What the dispatcher may do on the management cluster.
pub(crate) const MANAGER: &str = include_str!("../../../manifests/manager.yaml");
/// The dispatcher in a pod of the management cluster.
pub(crate) const DEPLOYMENT: &str = include_str!("../../../manifests/deployment.yaml");

/// The custom resource definitions, as YAML documents.
pub(crate) fn custom_resource_definitions() -> anyhow::Result<String> {
    // By way of Values, whose keys are sorted: the order of fields in a struct is nobody's business.
    let definitions = jobferry_api::custom_resource_definitions().into_iter().map(serde_json::to_value);
    yaml(&definitions.collect::<Result<Vec<_>, _>>()?)
}

/// The objects of a manifest, in order.
pub(crate) fn objects(manifest: &str) -> anyhow::Result<Vec<Value>> {
    manifest.split("\n---\n").map(|document| serde_saphyr::from_str(document).context("manifest")).collect()
}

/// The path of the collection that an object of ours belongs to.
pub(crate) fn collection(object: &Value) -> anyhow::Result<String> {
    let root = match text(object, "/apiVersion") {
        "v1" => "/api/v1".to_owned(),
        other => format!("/apis/{other}"),
    };
    let plural = plural(object)?;
    Ok(match text(object, "/metadata/namespace") {
        "" => format!("{root}/{plural}"),
        namespace => format!("{root}/namespaces/{namespace}/{plural}"),
    })
}

/// What the API server calls objects of this kind.
pub(crate) fn plural(object: &Value) -> anyhow::Result<&'static str> {
    Ok(match text(object, "/kind") {
        "Namespace" => "namespaces",
        "ServiceAccount" => "serviceaccounts",
        "Secret" => "secrets",
        "ClusterRole" => "clusterroles",
        "ClusterRoleBinding" => "clusterrolebindings",
        "Role" => "roles",
        "RoleBinding" => "rolebindings",
        "Deployment" => "deployments",
        "PodDisruptionBudget" => "poddisruptionbudgets",
        "CustomResourceDefinition" => "customresourcedefinitions",
        "ValidatingAdmissionPolicy" => "validatingadmissionpolicies",
        "ValidatingAdmissionPolicyBinding" => "validatingadmissionpolicybindings",
        "Worker" => "workers",
        other => anyhow::bail!("a manifest holds a {other}, which is not known how to write"),
    })
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// An object as people speak of it: `role/eu-1 in namespace ml`.
pub(crate) fn name(object: &Value) -> String {
    let (kind, name) = (text(object, "/kind").to_lowercase(), text(object, "/metadata/name"));
    match text(object, "/metadata/namespace") {
        "" => format!("{kind}/{name}"),
        namespace => format!("{kind}/{name} in namespace {namespace}"),
    }
}

/// Objects as a stream of YAML documents.
pub(crate) fn yaml(objects: &[Value]) -> anyhow::Result<String> {
    let documents = objects.iter().map(|object| Ok(format!("---\n{}", serde_saphyr::to_string(object)?)));
    documents.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_has_a_collection() {
        for manifest in [MANAGER, DEPLOYMENT, custom_resource_definitions().unwrap().trim_start_matches("---\n")] {
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
        for role in objects(MANAGER).unwrap() {
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
