//! Creating a Job: what the server makes of it, and whether it accepts the result.

use k8s_openapi::api::batch::v1::Job;

use crate::{Errors, Rules, formats, labels, metadata, path::Path, spec};

/// Does what the server does to a new Job once its defaults are in: the generation is 1, a status that was sent is
/// dropped, and unless `manualSelector` is true the labels and the selector that tie pods to this very Job are added.
///
/// Call [`defaults::apply`](crate::defaults::apply) first, and set `metadata.uid`: it becomes part of the selector.
///
/// ```
/// use job_api::{create, defaults, Rules};
/// use k8s_openapi::api::batch::v1::Job;
///
/// let mut job: Job = serde_json::from_str(r#"{
///     "metadata": {"name": "train", "namespace": "ml", "uid": "7a0f"},
///     "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "app:1"}], "restartPolicy": "Never"}}},
///     "status": {"succeeded": 7}
/// }"#)?;
/// defaults::apply(&mut job);
/// create::prepare(&mut job);
/// assert!(create::validate(&job, Rules::newest()).is_empty());
/// assert_eq!((job.status, job.metadata.generation), (None, Some(1)));
/// let selector = job.spec.unwrap().selector.unwrap().match_labels.unwrap();
/// assert_eq!(selector["batch.kubernetes.io/controller-uid"], "7a0f");
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn prepare(job: &mut Job) {
    job.status = None;
    job.metadata.generation = Some(1);
    job.metadata.deletion_timestamp = None;
    job.metadata.deletion_grace_period_seconds = None;
    labels::generate(job);
}

/// What the server would say about creating this Job, after defaulting and [`prepare`].
///
/// Of the pod template only a part is judged, that part exactly: containers and init containers (name, image, command,
/// args, env names, ports, resources, pull policy, volume mounts), emptyDir, configMap and secret volumes, restart
/// policy, grace period, node selector, tolerations, scheduling gates, labels and annotations. Nothing else in it is
/// ever refused here.
pub fn validate(job: &Job, _rules: Rules) -> Errors {
    let mut errors = Errors::new();
    check(job, spec::Leniency::NONE, &mut errors);
    errors
}

/// The create rules; updates of older servers run them too, lenient to what is already stored.
pub(crate) fn check(job: &Job, leniency: spec::Leniency, errors: &mut Errors) {
    metadata::validate_job(&job.metadata, errors);
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
