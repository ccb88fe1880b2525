//! Updates of a Job's status, as the API server judges them for every writer, built-in or external.
//!
//! A rule looks at what a write changes: a fault that is already stored is tolerated as long as the fields behind it
//! stay as they are. Each rule is one line of a list here, in the server's order.

mod rules;

use k8s_openapi::api::batch::v1::{Job, JobStatus};

use crate::{Errors, Rules, SpecView, metadata};

/// What the server would say about replacing status `old` by `new`. `spec` is the stored spec.
///
/// ```
/// use job_api::{Rules, SpecView, conditions, status};
/// use k8s_openapi::api::batch::v1::{JobSpec, JobStatus};
/// use k8s_openapi::jiff::Timestamp;
///
/// // An external controller reports the end, but forgets the interim condition and both times.
/// let done = conditions::new(conditions::COMPLETE, true, "CompletionsReached", "", Timestamp::UNIX_EPOCH);
/// let new = JobStatus { conditions: Some(vec![done]), ..JobStatus::default() };
///
/// let errors = status::validate(&SpecView::of(&JobSpec::default()), &JobStatus::default(), &new, Rules::newest());
/// let fields: Vec<_> = errors.iter().map(|error| (error.kind.as_str(), error.field.as_str())).collect();
/// assert_eq!(fields, [
///     ("Required", "status.completionTime"),
///     ("Invalid", "status.conditions"),
///     ("Required", "status.startTime"),
/// ]);
/// ```
pub fn validate(spec: &SpecView, old: &JobStatus, new: &JobStatus, rules: Rules) -> Errors {
    let mut errors = Errors::new();
    rules::check(spec, old, new, rules, &mut errors);
    errors
}

/// Does what the server does to the body of a request to `/status` before it judges it: the spec is the stored one,
/// and so is the metadata that no client may change. Labels, annotations, finalizers and owners stay as sent.
pub fn prepare(new: &mut Job, old: &Job) {
    new.spec.clone_from(&old.spec);
    new.metadata.generation = old.metadata.generation;
    metadata::carry_over(&mut new.metadata, &old.metadata);
}

/// What the server would say about a request to `/status` as a whole, metadata included. Call [`prepare`] first.
pub fn validate_request(new: &Job, old: &Job, rules: Rules) -> Errors {
    let mut errors = Errors::new();
    metadata::validate_update_request(&new.metadata, &old.metadata, rules, &mut errors);
    metadata::validate_job_update(&new.metadata, &old.metadata, rules, &mut errors);
    let spec = new.spec.as_ref().map(SpecView::of).unwrap_or_default();
    let unset = JobStatus::default();
    let (old, new) = (old.status.as_ref().unwrap_or(&unset), new.status.as_ref().unwrap_or(&unset));
    rules::check(&spec, old, new, rules, &mut errors);
    if rules.declarative_checks { errors.without_repetitions() } else { errors }
}
