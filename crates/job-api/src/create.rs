//! Creating a Job: what the server makes of it, and whether it accepts the result.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::{Errors, Rules, defaults, formats, labels, metadata, path::Path, spec};

/// Does what the server does to a new Job, as the client sent it: [`defaults`] are filled in, the
/// generation is 1, a status that was sent is dropped, and unless `manualSelector` is true the labels and the selector
/// that tie pods to this very Job are added. Set `metadata.uid` first: it becomes part of the selector.
///
/// A Job without labels takes those of its pod template. The generated ones are among them if the template had labels
/// before; otherwise they join when the stored Job is read, by [`defaults::apply`].
///
/// ```
/// use job_api::{create, Rules};
/// use k8s_openapi::api::batch::v1::Job;
///
/// let mut job: Job = serde_json::from_str(r#"{
///     "metadata": {"name": "train", "namespace": "ml", "uid": "7a0f"},
///     "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "app:1"}], "restartPolicy": "Never"}}},
///     "status": {"succeeded": 7}
/// }"#)?;
/// create::prepare(&mut job);
/// assert!(create::validate(&job, Rules::newest()).is_empty());
/// assert_eq!((job.status, job.metadata.generation), (None, Some(1)));
/// let selector = job.spec.unwrap().selector.unwrap().match_labels.unwrap();
/// assert_eq!(selector["batch.kubernetes.io/controller-uid"], "7a0f");
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn prepare(job: &mut Job) {
    let template_labels = job.spec.as_ref().and_then(|spec| spec.template.metadata.as_ref()?.labels.as_ref());
    let has_no_labels = job.metadata.labels.as_ref().is_none_or(BTreeMap::is_empty);
    // A server that makes up the name works on a copy, in which the two maps are no longer one.
    let shares_labels = has_no_labels && template_labels.is_some() && !has_generated_name(&job.metadata);
    defaults::apply(job);
    job.status = None;
    job.metadata.generation = Some(1);
    job.metadata.deletion_timestamp = None;
    job.metadata.deletion_grace_period_seconds = None;
    labels::generate(job);
    if shares_labels {
        let template = job.spec.as_ref().and_then(|spec| spec.template.metadata.as_ref());
        job.metadata.labels = template.and_then(|metadata| metadata.labels.clone());
    }
}

/// What a server makes of `generateName`: the prefix, cut to fit, and five characters.
fn has_generated_name(metadata: &ObjectMeta) -> bool {
    const SUFFIX_BYTES: usize = 5;
    let prefix_max_bytes = formats::LABEL_MAX_BYTES - SUFFIX_BYTES;
    let prefix = metadata.generate_name.as_deref().unwrap_or_default();
    let name = metadata.name.as_deref().unwrap_or_default();
    !prefix.is_empty()
        && name.len() == prefix.len().min(prefix_max_bytes) + SUFFIX_BYTES
        && name.bytes().zip(prefix.bytes()).take(prefix_max_bytes).all(|(a, b)| a == b)
}

/// What the server would say about creating this Job, after [`prepare`].
///
/// Of the pod template only a part is judged, that part exactly: containers and init containers (name, image, command,
/// args, env names, ports, resources, pull policy, volume mounts), emptyDir, configMap and secret volumes, restart
/// policy, grace period, node selector, tolerations, scheduling gates, labels and annotations. Nothing else in it is
/// ever refused here.
pub fn validate(job: &Job, rules: Rules) -> Errors {
    let mut errors = Errors::new();
    check(job, spec::Leniency::NONE, rules, &mut errors);
    if rules.declarative_checks { errors.without_repetitions() } else { errors }
}

/// The create rules; updates of older servers run them too, lenient to what is already stored.
pub(crate) fn check(job: &Job, leniency: spec::Leniency, rules: Rules, errors: &mut Errors) {
    metadata::validate_job(&job.metadata, rules, errors);
    labels::validate(job, leniency, errors);
    if let Some(spec) = &job.spec {
        spec::validate_job(&Path::root("spec"), spec, leniency, errors);
    }
    check_pod_host_names(job, errors);
}

/// Pods of an Indexed Job are called after the Job and their index, and that name must be a DNS label.
pub(crate) fn check_pod_host_names(job: &Job, errors: &mut Errors) {
    let Some(spec) = &job.spec else { return };
    let name = job.metadata.name.as_deref().unwrap_or_default();
    if let (Some("Indexed"), Some(completions @ 1..)) = (spec.completion_mode.as_deref(), spec.completions) {
        let longest = format!("{name}-{}", completions - 1);
        if !formats::dns_label(&longest).is_empty() {
            let detail = format!("the pod of the last index could not be called {longest}, which is not a DNS label");
            errors.invalid_text(&Path::root("metadata.name"), name, detail);
        }
    }
}
