//! What a server accepts and a dispatcher's user will regret.

use job_api::managed_by::{self, ManagedBy, RESERVED};
use jobferry_api::managed_by::{DISPATCHER, LOCAL};
use k8s_openapi::api::batch::v1::{CronJob, Job, JobSpec};
use k8s_openapi::api::core::v1::{Container, PodSpec, Volume};

use super::report::Finding;

/// The code of the warning for Jobs that stay where they are submitted.
pub(super) const MANAGED_BY_MISSING: &str = "managed-by-missing";

/// Shorter than this, a finished Job may be gone before its result was read or its status copied by others.
const SHORT_TTL_SECONDS: i32 = 60;
/// `-99999`: what the last pod of the largest Indexed Job adds to the name.
const LARGEST_INDEX_SUFFIX_BYTES: usize = 6;
const DNS_LABEL_MAX_BYTES: usize = 63;

pub(super) fn for_job(job: &Job) -> Vec<Finding> {
    let mut found = Vec::new();
    let name = job.metadata.name.as_deref().unwrap_or_default();
    if name.contains('.') {
        let message = "is used in the names of pods and hosts, where dots surprise: a DNS label is better";
        found.push(warning("name-with-dots", "metadata.name", message));
    }
    if let Some(spec) = &job.spec {
        let is_indexed = spec.completion_mode.as_deref() == Some("Indexed");
        if is_indexed && name.len() + LARGEST_INDEX_SUFFIX_BYTES > DNS_LABEL_MAX_BYTES {
            let message = format!(
                "is long for an Indexed Job: pods are called NAME-INDEX and must stay within {DNS_LABEL_MAX_BYTES} \
                 characters, so it cannot be scaled up at will"
            );
            found.push(warning("long-name-for-indexed", "metadata.name", message));
        }
        if job.metadata.owner_references.is_some() {
            let message = "owners stay behind on the management cluster: the mirror has none";
            found.push(warning("owner-references", "metadata.ownerReferences", message));
        }
        warn_of_spec("spec", spec, &mut found);
    }
    found
}

pub(super) fn for_cron_job(cron_job: &CronJob) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(spec) = cron_job.spec.as_ref().and_then(|spec| spec.job_template.spec.as_ref()) {
        warn_of_spec("spec.jobTemplate.spec", spec, &mut found);
    }
    found
}

fn warning(code: &str, field: impl Into<String>, message: impl Into<String>) -> Finding {
    Finding { code: code.to_owned(), field: field.into(), line: None, message: message.into() }
}

fn warn_of_spec(path: &str, spec: &JobSpec, found: &mut Vec<Finding>) {
    warn_of_managed_by(path, spec, found);
    if let Some(ttl) = spec.ttl_seconds_after_finished.filter(|ttl| (0..SHORT_TTL_SECONDS).contains(ttl)) {
        let message = format!("the Job and its result are deleted {ttl} s after its end: too soon for most readers");
        found.push(warning("short-ttl", format!("{path}.ttlSecondsAfterFinished"), message));
    }
    if spec.manual_selector == Some(true) {
        let message = "the mirror on the worker gets a generated selector; nobody uses this one there";
        found.push(warning("manual-selector", format!("{path}.manualSelector"), message));
    }
    if let Some(pod) = &spec.template.spec {
        warn_of_pod(&format!("{path}.template.spec"), pod, found);
    }
}

fn warn_of_managed_by(path: &str, spec: &JobSpec, found: &mut Vec<Finding>) {
    let field = format!("{path}.managedBy");
    match ManagedBy::of(spec.managed_by.as_deref()) {
        ManagedBy::Standard if spec.managed_by.is_none() => {
            let message = format!("not set: the Job stays on this cluster. To dispatch it, set {DISPATCHER}");
            found.push(warning(MANAGED_BY_MISSING, field, message));
        }
        ManagedBy::Standard => {
            let message = format!("{RESERVED} keeps the Job on this cluster. To dispatch it, set {DISPATCHER}");
            found.push(warning("managed-by-reserved", field, message));
        }
        // What no server accepts is an error already.
        ManagedBy::Delegated(name) if !managed_by::validate(&name).is_empty() => {}
        ManagedBy::Delegated(name) if name != DISPATCHER && name != LOCAL => {
            let message =
                format!("{name} is not ours: Jobferry leaves the Job alone. To dispatch it, set {DISPATCHER}");
            found.push(warning("managed-by-other", field, message));
        }
        ManagedBy::Delegated(_) => {}
    }
}

fn warn_of_pod(path: &str, pod: &PodSpec, found: &mut Vec<Finding>) {
    for (index, volume) in pod.volumes.iter().flatten().enumerate() {
        warn_of_volume(&format!("{path}.volumes[{index}]"), volume, found);
    }
    let containers = pod.containers.iter().enumerate().map(|(index, container)| ("containers", index, container));
    let init = pod.init_containers.iter().flatten().enumerate();
    let init = init.map(|(index, container)| ("initContainers", index, container));
    for (list, index, container) in containers.chain(init) {
        warn_of_container(&format!("{path}.{list}[{index}]"), container, found);
    }
    let text = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
    if let Some(node) = text(&pod.node_name) {
        let message = format!("node {node} is on one cluster only, and the scheduler is not asked");
        found.push(warning("node-name", format!("{path}.nodeName"), message));
    }
    for (field, kind, name) in [
        ("serviceAccountName", "ServiceAccount", text(&pod.service_account_name).filter(|name| name != "default")),
        ("priorityClassName", "PriorityClass", text(&pod.priority_class_name)),
        ("runtimeClassName", "RuntimeClass", text(&pod.runtime_class_name)),
    ] {
        found.extend(name.map(|name| reference(format!("{path}.{field}"), kind, &name)));
    }
    for (index, secret) in pod.image_pull_secrets.iter().flatten().enumerate() {
        found.push(reference(format!("{path}.imagePullSecrets[{index}].name"), "Secret", &secret.name));
    }
}

fn reference(field: String, kind: &str, name: &str) -> Finding {
    let message = format!("{kind} {name} has to exist on every worker: it is not copied");
    warning("reference", field, message)
}

fn warn_of_volume(path: &str, volume: &Volume, found: &mut Vec<Finding>) {
    if let Some(host_path) = &volume.host_path {
        let message = format!("{} is on the node that happens to run the pod, on whichever cluster", host_path.path);
        found.push(warning("host-path", format!("{path}.hostPath"), message));
    }
    for (field, kind, name) in [
        ("configMap", "ConfigMap", volume.config_map.as_ref().map(|source| source.name.as_str())),
        ("secret", "Secret", volume.secret.as_ref().and_then(|source| source.secret_name.as_deref())),
        (
            "persistentVolumeClaim",
            "PersistentVolumeClaim",
            volume.persistent_volume_claim.as_ref().map(|claim| claim.claim_name.as_str()),
        ),
    ] {
        found.extend(name.map(|name| reference(format!("{path}.{field}"), kind, name)));
    }
}

fn warn_of_container(path: &str, container: &Container, found: &mut Vec<Finding>) {
    if container.image_pull_policy.as_deref() == Some("Always")
        && container.image.as_deref().is_some_and(|image| !image.contains('@') && is_latest(image))
    {
        let message = "the tag `latest` may be another image on another cluster or day: name a version or a digest";
        found.push(warning("image-latest", format!("{path}.image"), message));
    }
    for (index, variable) in container.env.iter().flatten().enumerate() {
        let Some(source) = &variable.value_from else { continue };
        for (field, kind, name) in [
            ("configMapKeyRef", "ConfigMap", source.config_map_key_ref.as_ref().map(|key| &key.name)),
            ("secretKeyRef", "Secret", source.secret_key_ref.as_ref().map(|key| &key.name)),
        ] {
            found.extend(name.map(|name| reference(format!("{path}.env[{index}].valueFrom.{field}"), kind, name)));
        }
    }
    for (index, source) in container.env_from.iter().flatten().enumerate() {
        for (field, kind, name) in [
            ("configMapRef", "ConfigMap", source.config_map_ref.as_ref().map(|source| &source.name)),
            ("secretRef", "Secret", source.secret_ref.as_ref().map(|source| &source.name)),
        ] {
            found.extend(name.map(|name| reference(format!("{path}.envFrom[{index}].{field}"), kind, name)));
        }
    }
}

fn is_latest(image: &str) -> bool {
    let last = image.rsplit('/').next().unwrap_or(image);
    last.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}
