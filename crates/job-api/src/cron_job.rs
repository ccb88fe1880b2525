//! A CronJob is judged for the sake of the Job in it.

use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec};

use crate::{Errors, Rules, metadata, path::Path, schedule, spec};

/// Jobs are called after their CronJob and a time stamp of eleven characters.
const NAME_MAX_BYTES: usize = 52;
const CONCURRENCY_POLICIES: [&str; 3] = ["Allow", "Forbid", "Replace"];

/// What the server would say about creating this CronJob, once
/// [`defaults::apply_to_cron_job`](crate::defaults::apply_to_cron_job) was called.
///
/// Whether a time zone of that name exists is left to the server.
///
/// ```
/// use job_api::{Rules, cron_job, defaults};
/// use k8s_openapi::api::batch::v1::CronJob;
///
/// let mut nightly: CronJob = serde_json::from_str(r#"{
///     "metadata": {"name": "nightly", "namespace": "ml"},
///     "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"managedBy": "queue", "template": {"spec": {
///         "containers": [{"name": "main", "image": "app:1"}], "restartPolicy": "Never"}}}}}
/// }"#)?;
/// defaults::apply_to_cron_job(&mut nightly);
/// let errors = cron_job::validate(&nightly, Rules::newest());
/// assert_eq!(errors.iter().next().unwrap().field, "spec.jobTemplate.spec.managedBy");
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn validate(cron_job: &CronJob, rules: Rules) -> Errors {
    let mut errors = Errors::new();
    metadata::validate_job(&cron_job.metadata, rules, &mut errors);
    let unset = CronJobSpec::default();
    validate_spec(cron_job.spec.as_ref().unwrap_or(&unset), &mut errors);
    let name = cron_job.metadata.name.as_deref().unwrap_or_default();
    if name.len() > NAME_MAX_BYTES {
        errors.invalid_text(&Path::root("metadata.name"), name, "must be no more than 52 characters");
    }
    if rules.declarative_checks { errors.without_repetitions() } else { errors }
}

fn validate_spec(spec: &CronJobSpec, errors: &mut Errors) {
    let field = Path::root("spec");
    if spec.schedule.is_empty() {
        errors.required(&field.child("schedule"), "");
    } else if !spec.schedule.contains("TZ") && !schedule::is_schedule(&spec.schedule) {
        let detail = "must be five fields of cron, or a descriptor such as @daily";
        errors.invalid_text(&field.child("schedule"), &spec.schedule, detail);
    } else if spec.schedule.contains("TZ") {
        let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        errors.invalid_text(&field.child("schedule"), &spec.schedule, detail);
    }
    errors.non_negative(&field.child("startingDeadlineSeconds"), spec.starting_deadline_seconds.unwrap_or(0));
    if let Some(zone) = spec.time_zone.as_deref().filter(|zone| !schedule::is_time_zone(zone)) {
        errors.invalid_text(&field.child("timeZone"), zone, "must be the name of a time zone, such as Europe/Berlin");
    }
    match spec.concurrency_policy.as_deref().unwrap_or_default() {
        "" => errors.required(&field.child("concurrencyPolicy"), ""),
        policy if !CONCURRENCY_POLICIES.contains(&policy) => {
            errors.not_supported(&field.child("concurrencyPolicy"), policy, &CONCURRENCY_POLICIES);
        }
        _ => {}
    }
    spec::validate_job_template(&field.child("jobTemplate"), &spec.job_template, errors);
    let successful = spec.successful_jobs_history_limit.unwrap_or(0);
    errors.non_negative(&field.child("successfulJobsHistoryLimit"), successful);
    errors.non_negative(&field.child("failedJobsHistoryLimit"), spec.failed_jobs_history_limit.unwrap_or(0));
}
