//! The few facts of a Job's spec that its status is judged by.

use k8s_openapi::api::batch::v1::JobSpec;

/// What the status rules read of a Job's spec: a few words instead of a whole pod template.
///
/// It is taken from the spec *as stored*; no defaults are applied.
///
/// ```
/// use job_api::SpecView;
/// use k8s_openapi::api::batch::v1::JobSpec;
///
/// let spec = JobSpec { completion_mode: Some("Indexed".to_owned()), completions: Some(3), parallelism: Some(3), ..JobSpec::default() };
/// assert!(SpecView::of(&spec).is_elastic());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each flag mirrors one field of the spec")]
pub struct SpecView {
    /// `spec.completions`.
    pub completions: Option<i32>,
    /// `spec.parallelism`.
    pub parallelism: Option<i32>,
    /// `spec.completionMode` is `Indexed`.
    pub indexed: bool,
    /// `spec.suspend` is true.
    pub suspended: bool,
    /// `spec.backoffLimitPerIndex` is set.
    pub has_backoff_limit_per_index: bool,
    /// `spec.successPolicy` is set.
    pub has_success_policy: bool,
    /// `spec.activeDeadlineSeconds`. No rule of the API server looks at it; whoever writes a status does.
    pub active_deadline_seconds: Option<i64>,
}

impl SpecView {
    /// The view of this spec.
    pub fn of(spec: &JobSpec) -> Self {
        Self {
            completions: spec.completions,
            parallelism: spec.parallelism,
            indexed: spec.completion_mode.as_deref() == Some("Indexed"),
            suspended: spec.suspend == Some(true),
            has_backoff_limit_per_index: spec.backoff_limit_per_index.is_some(),
            has_success_policy: spec.success_policy.is_some(),
            active_deadline_seconds: spec.active_deadline_seconds,
        }
    }

    /// An Indexed Job with equal completions and parallelism: it may be scaled, so its succeeded counter may fall.
    pub fn is_elastic(&self) -> bool {
        self.indexed && self.completions == self.parallelism
    }
}

impl From<&JobSpec> for SpecView {
    fn from(spec: &JobSpec) -> Self {
        Self::of(spec)
    }
}
