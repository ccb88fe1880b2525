//! What the API server fills in when a Job leaves it out.

mod normal_form;
mod pod;

use k8s_openapi::api::batch::v1::{CronJob, Job, JobSpec};

/// Retries of a Job that says nothing about them.
const BACKOFF_LIMIT: i32 = 6;

/// Fills in the defaults of batch/v1, and of the pod template, as the server does on every read and write.
///
/// The result is also in the server's normal form: empty lists, maps and texts that mean the same as nothing are gone,
/// quantities are canonical. So two Jobs that the server holds equal compare equal afterwards, but for the notation of
/// quantities. Applying it twice changes nothing.
///
/// ```
/// use job_api::defaults;
/// use k8s_openapi::api::batch::v1::Job;
///
/// let mut job: Job = serde_json::from_str(r#"{
///     "metadata": {"name": "train"},
///     "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "app:1"}], "restartPolicy": "Never"}}}
/// }"#)?;
/// defaults::apply(&mut job);
/// let spec = job.spec.unwrap();
/// assert_eq!((spec.completions, spec.parallelism, spec.backoff_limit), (Some(1), Some(1), Some(6)));
/// assert_eq!(spec.template.spec.unwrap().containers[0].image_pull_policy.as_deref(), Some("IfNotPresent"));
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn apply(job: &mut Job) {
    normal_form::metadata(&mut job.metadata);
    let spec = job.spec.get_or_insert_default();
    apply_to_spec(spec);
    let template_labels = spec.template.metadata.as_ref().and_then(|metadata| metadata.labels.as_ref());
    if job.metadata.labels.is_none() {
        job.metadata.labels = template_labels.cloned();
    }
    job.status.iter_mut().for_each(normal_form::job_status);
}

/// The same for a CronJob and the Job template in it.
pub fn apply_to_cron_job(cron_job: &mut CronJob) {
    normal_form::metadata(&mut cron_job.metadata);
    let spec = cron_job.spec.get_or_insert_default();
    normal_form::drop_empty_text(&mut spec.concurrency_policy);
    spec.concurrency_policy.get_or_insert_with(|| "Allow".to_owned());
    spec.suspend.get_or_insert(false);
    spec.successful_jobs_history_limit.get_or_insert(3);
    spec.failed_jobs_history_limit.get_or_insert(1);
    // The Job in the template is completed when it is created; here only its pod template is.
    if let Some(job) = &mut spec.job_template.spec {
        normal_form::job_spec(job);
        pod::apply(&mut job.template);
        apply_to_failure_policy(job);
    }
}

fn apply_to_spec(spec: &mut JobSpec) {
    normal_form::job_spec(spec);
    if spec.parallelism.is_none() {
        // Only a Job that names neither runs once; parallelism alone makes a work queue.
        spec.completions.get_or_insert(1);
        spec.parallelism = Some(1);
    }
    let backoff_limit = if spec.backoff_limit_per_index.is_some() { i32::MAX } else { BACKOFF_LIMIT };
    spec.backoff_limit.get_or_insert(backoff_limit);
    spec.completion_mode.get_or_insert_with(|| "NonIndexed".to_owned());
    spec.suspend.get_or_insert(false);
    spec.manual_selector.get_or_insert(false);
    let replacement = if spec.pod_failure_policy.is_some() { "Failed" } else { "TerminatingOrFailed" };
    spec.pod_replacement_policy.get_or_insert_with(|| replacement.to_owned());
    apply_to_failure_policy(spec);
    pod::apply(&mut spec.template);
}

fn apply_to_failure_policy(spec: &mut JobSpec) {
    for rule in spec.pod_failure_policy.iter_mut().flat_map(|policy| &mut policy.rules) {
        for pattern in rule.on_pod_conditions.iter_mut().flatten() {
            normal_form::drop_empty_text(&mut pattern.status);
            pattern.status.get_or_insert_with(|| "True".to_owned());
        }
    }
}
