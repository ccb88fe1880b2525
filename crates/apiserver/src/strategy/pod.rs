//! Pods: completed as the admission of a plain cluster would, bound once, deleted with grace while they run.

use job_api::defaults;
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::{Map, Value, json};

use super::{Part, keep};
use crate::error::Cause;
use crate::metadata;
use crate::registry::Resource;
use crate::schema::normalise;

pub(super) fn create(resource: &Resource, object: &mut Value) -> Vec<Cause> {
    if let Err(cause) = default(resource, object) {
        return vec![cause];
    }
    metadata::set(object, "generation", 1.into());
    object["status"] = json!({"phase": "Pending", "qosClass": quality_of_service(&object["spec"])});
    validate(object)
}

pub(super) fn update(resource: &Resource, part: Part, new: &mut Value, old: &Value) -> Vec<Cause> {
    if part == Part::Status {
        keep(new, old, "spec");
        return Vec::new();
    }
    keep(new, old, "status");
    if let Err(cause) = default(resource, new) {
        return vec![cause];
    }
    if new["spec"] == old["spec"] {
        return Vec::new();
    }
    metadata::bump_generation(new);
    frozen(new, old)
}

/// Fills in what the API server's defaults and built-in admission give a pod.
fn default(resource: &Resource, object: &mut Value) -> Result<(), Cause> {
    let unreadable = |error: &dyn std::fmt::Display| Cause {
        reason: "FieldValueInvalid".into(),
        message: format!("Invalid value: {error}"),
        field: "spec".into(),
    };
    // A pod template has the same defaults as a pod: what is known for Jobs is used.
    let template = PodTemplateSpec {
        metadata: None,
        spec: Some(serde_json::from_value(object["spec"].clone()).map_err(|error| unreadable(&error))?),
    };
    let mut job = Job { spec: Some(JobSpec { template, ..JobSpec::default() }), ..Job::default() };
    defaults::apply(&mut job);
    let spec = job.spec.and_then(|spec| spec.template.spec).unwrap_or_default();
    object["spec"] = serde_json::to_value(spec).map_err(|error| unreadable(&error))?;
    let spec = &mut object["spec"];
    for container in containers_mut(spec) {
        requests_from_limits(container);
    }
    set_if_absent(spec, "enableServiceLinks", true.into());
    set_if_absent(spec, "serviceAccountName", "default".into());
    set_if_absent(spec, "priority", 0.into());
    set_if_absent(spec, "preemptionPolicy", "PreemptLowerPriority".into());
    tolerate_short_outages(spec);
    let account = spec["serviceAccountName"].clone();
    spec["serviceAccount"] = account;
    normalise(&resource.schema, object).map_err(|why| unreadable(&why))?;
    Ok(())
}

/// A node that is away for less than five minutes does not cost its pods.
fn tolerate_short_outages(spec: &mut Value) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerations = spec["tolerations"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is_covered = tolerations.iter().any(|toleration| {
            let names = |field: &str, value: &str| toleration[field].as_str().unwrap_or(value) == value;
            (toleration["key"].is_null() || toleration["key"] == key) && names("effect", "NoExecute")
        });
        if !is_covered {
            let toleration = json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
            match spec["tolerations"].as_array_mut() {
                Some(list) => list.push(toleration),
                None => spec["tolerations"] = json!([toleration]),
            }
        }
    }
}

fn set_if_absent(spec: &mut Value, field: &str, value: Value) {
    if spec[field].is_null() {
        spec[field] = value;
    }
}

fn containers_mut(spec: &mut Value) -> impl Iterator<Item = &mut Value> {
    let entries = spec.as_object_mut().into_iter().flat_map(Map::iter_mut);
    entries
        .filter(|(key, _)| *key == "containers" || *key == "initContainers")
        .filter_map(|(_, list)| list.as_array_mut())
        .flatten()
}

fn requests_from_limits(container: &mut Value) {
    let limits = container["resources"]["limits"].as_object().cloned().unwrap_or_default();
    for (name, limit) in limits {
        if container["resources"]["requests"][&name].is_null() {
            container["resources"]["requests"][&name] = limit;
        }
    }
    if container["resources"]["requests"].is_null() {
        container["resources"].as_object_mut().map(|resources| resources.remove("requests"));
    }
}

/// Guaranteed: every container has cpu and memory limits, and requests equal to them. BestEffort: none has any.
fn quality_of_service(spec: &Value) -> &'static str {
    let all =
        || ["containers", "initContainers"].into_iter().flat_map(|list| spec[list].as_array().into_iter().flatten());
    let resources =
        |container: &Value, kind: &str| container["resources"][kind].as_object().cloned().unwrap_or_default();
    if all().all(|container| resources(container, "limits").is_empty() && resources(container, "requests").is_empty()) {
        return "BestEffort";
    }
    let is_guaranteed = all().all(|container| {
        let (limits, requests) = (resources(container, "limits"), resources(container, "requests"));
        ["cpu", "memory"].iter().all(|name| limits.contains_key(*name) && limits.get(*name) == requests.get(*name))
    });
    if is_guaranteed { "Guaranteed" } else { "Burstable" }
}

fn validate(object: &Value) -> Vec<Cause> {
    let containers = object["spec"]["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut causes = Vec::new();
    if containers.is_empty() {
        causes.push(Cause::required("spec.containers", ""));
    }
    let mut seen: Vec<&str> = Vec::new();
    for (index, container) in containers.iter().enumerate() {
        let name = container["name"].as_str().unwrap_or_default();
        let field = format!("spec.containers[{index}].name");
        if name.is_empty() {
            causes.push(Cause::required(field, ""));
        } else if let Err(why) = crate::names::dns_label(name) {
            causes.push(Cause::invalid(field, &name.into(), &why));
        } else if seen.contains(&name) {
            causes.push(Cause::duplicate(field, &name.into()));
        }
        seen.push(name);
        if container["image"].as_str().unwrap_or_default().is_empty() {
            causes.push(Cause::required(format!("spec.containers[{index}].image"), ""));
        }
    }
    let policy = &object["spec"]["restartPolicy"];
    if !["Always", "OnFailure", "Never"].iter().any(|known| policy == known) {
        let allowed = ["\"Always\"", "\"OnFailure\"", "\"Never\""].map(str::to_owned);
        causes.push(Cause::not_supported("spec.restartPolicy", policy, &allowed));
    }
    causes
}

/// Of the spec of an existing pod only images, deadlines, tolerations and scheduling gates may change.
fn frozen(new: &Value, old: &Value) -> Vec<Cause> {
    let mut allowed = new["spec"].clone();
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates", "terminationGracePeriodSeconds"] {
        super::keep(&mut allowed, &old["spec"], field);
    }
    for list in ["containers", "initContainers"] {
        let before = old["spec"][list].as_array().cloned().unwrap_or_default();
        for (container, before) in allowed[list].as_array_mut().into_iter().flatten().zip(before) {
            container["image"] = before["image"].clone();
        }
    }
    if allowed == old["spec"] {
        return Vec::new();
    }
    let told = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
    vec![Cause::forbidden("spec", told)]
}

/// Seconds a pod may take to end: what was asked for, otherwise its own setting. One that runs nowhere or has ended
/// needs none.
pub(crate) fn grace_seconds(pod: &Value, asked: Option<i64>) -> i64 {
    let is_unbound = pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
    let has_ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if is_unbound || has_ended {
        return 0;
    }
    let own = pod["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
    // A negative period means "as short as possible, but not by force".
    match asked.unwrap_or(own) {
        negative if negative < 0 => 1,
        seconds => seconds,
    }
}
