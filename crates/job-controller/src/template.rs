//! The pod that a plan asks for, made from the Job's template as raw JSON.

use serde_json::{Map, Value, json};

use crate::{JobView, PodPlan, names};

/// Names longer than this are cut before the random suffix of five is added.
const LONGEST_PREFIX: usize = 58;
/// Characters of a suffix: no vowels (no words), nothing that looks like another.
const SUFFIX_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A pod name: the Job's name, the index, five characters from `random`.
pub fn pod_name(job: &JobView, plan: &PodPlan, mut random: u64) -> String {
    let mut name = name_prefix(&job.name, plan.index);
    for _ in 0..5 {
        let letters = SUFFIX_ALPHABET.len() as u64;
        name.push(char::from(SUFFIX_ALPHABET[usize::try_from(random % letters).unwrap_or(0)]));
        random /= letters;
    }
    name
}

fn name_prefix(job: &str, index: Option<u32>) -> String {
    let tail = index.map_or_else(|| "-".to_owned(), |index| format!("-{index}-"));
    let kept = if index.is_some() { LONGEST_PREFIX.saturating_sub(tail.len()) } else { LONGEST_PREFIX - 1 };
    let mut prefix: String = job.chars().take(kept).collect();
    if index.is_none() && job.len() > kept {
        // The API server cuts the plain prefix wherever it ends, and so does the built-in controller's result.
        prefix = job.chars().take(LONGEST_PREFIX).collect();
        return prefix;
    }
    prefix.push_str(&tail);
    prefix
}

/// The pod object to be created.
pub fn pod(job: &JobView, plan: &PodPlan, name: &str) -> Value {
    let template = &job.template;
    let part = |key: &str| template.pointer(&format!("/metadata/{key}")).cloned();
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), json!(name));
    metadata.insert("generateName".to_owned(), json!(name_prefix(&job.name, plan.index)));
    metadata.insert("namespace".to_owned(), json!(job.namespace));
    for key in ["labels", "annotations"] {
        if let Some(value @ Value::Object(_)) = part(key) {
            metadata.insert(key.to_owned(), value);
        }
    }
    let mut finalizers = part("finalizers").and_then(|value| value.as_array().cloned()).unwrap_or_default();
    if !finalizers.iter().any(|finalizer| finalizer == job.finalizer()) {
        finalizers.push(json!(job.finalizer()));
    }
    metadata.insert("finalizers".to_owned(), Value::Array(finalizers));
    metadata.insert(
        "ownerReferences".to_owned(),
        json!([{
            "apiVersion": "batch/v1", "kind": "Job", "name": job.name, "uid": job.uid,
            "controller": true, "blockOwnerDeletion": true,
        }]),
    );
    let mut spec = template.get("spec").cloned().unwrap_or_else(|| json!({}));
    if let Some(index) = plan.index {
        let mark = |metadata: &mut Map<String, Value>, group: &str, key: &str, value: String| {
            let entries = metadata.entry(group).or_insert_with(|| json!({}));
            entries[key] = Value::String(value);
        };
        mark(&mut metadata, "annotations", names::COMPLETION_INDEX, index.to_string());
        mark(&mut metadata, "labels", names::COMPLETION_INDEX, index.to_string());
        if let Some(failures) = plan.failures {
            mark(&mut metadata, "annotations", names::INDEX_FAILURE_COUNT, failures.counted.to_string());
            if failures.ignored > 0 {
                mark(&mut metadata, "annotations", names::INDEX_IGNORED_FAILURE_COUNT, failures.ignored.to_string());
            }
        }
        spec["hostname"] = json!(format!("{}-{index}", job.name));
        add_index_env(&mut spec);
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

/// Every container learns its index, unless it sets the variable itself.
fn add_index_env(spec: &mut Value) {
    let variable = json!({
        "name": names::COMPLETION_INDEX_ENV,
        "valueFrom": {"fieldRef": {"fieldPath": format!("metadata.labels['{}']", names::COMPLETION_INDEX)}},
    });
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(container) = container.as_object_mut() else { continue };
            let env = container.entry("env").or_insert_with(|| json!([]));
            if let Some(env) = env.as_array_mut()
                && !env.iter().any(|entry| entry["name"] == names::COMPLETION_INDEX_ENV)
            {
                env.push(variable.clone());
            }
        }
    }
}
