//! Which rules a server applies: they changed from release to release, a few even in patch releases.

use crate::SpecView;

/// The rules of one API server.
///
/// ```
/// use job_api::Rules;
///
/// assert_eq!(Rules::for_server(1, 37, Some(0)), Rules::newest());
/// assert_ne!(Rules::for_server(1, 35, None), Rules::newest());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each flag is one change between releases; they are independent")]
pub struct Rules {
    /// The strengthened rules for status updates are on (`JobManagedBy`).
    pub(crate) strict_status: bool,
    /// With the strict rules off, `SuccessCriteriaMet` is for Indexed Jobs with a success policy only.
    pub(crate) success_criteria_for_success_policy_only: bool,
    /// A suspended Job with zero completions may finish without ever having started.
    pub(crate) zero_completions_finish_unstarted: bool,
    /// `startTime` may move in the write that turns `Suspended` from True to False.
    pub resume_moves_start_time: bool,
    /// An illegal change of `startTime` is called Required, although a value may be there.
    pub(crate) start_time_change_is_required: bool,
    /// A spec update is checked by the create rules twice, and the generated selector and labels again.
    pub(crate) update_repeats_create_checks: bool,
    /// Checks are declared with the types: no error is reported twice, and owners are named one by one.
    pub(crate) declarative_checks: bool,
    /// When the template of a suspended Job may still be edited.
    pub(crate) template_edits: TemplateEdits,
}

/// When the pod template of a suspended Job may be edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TemplateEdits {
    /// Scheduling directives only, as long as the Job has never started.
    NeverStarted,
    /// Scheduling directives and resources, when the Job is idle and has the condition `Suspended`.
    ConditionSuspended,
    /// The same, and also when the Job is idle and has never started.
    NeverStartedOrConditionSuspended,
}

/// Feature gates of servers before 1.35 that an administrator may have switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    /// `JobManagedBy`: on by default since 1.32, locked on since 1.35.
    pub job_managed_by: bool,
    /// `JobPodReplacementPolicy`: on by default since 1.29, locked on since 1.34.
    pub job_pod_replacement_policy: bool,
}

/// The newest patch release, for callers who know only the minor version.
const NEWEST_PATCH: u32 = u32::MAX;

impl Rules {
    /// Whether a Job with this spec may finish without ever having started: suspended, and with nothing to complete.
    pub fn may_finish_unstarted(self, spec: &SpecView) -> bool {
        self.zero_completions_finish_unstarted && spec.suspended && spec.completions == Some(0)
    }

    /// Whether a Job that has run keeps its `startTime` while it is suspended.
    ///
    /// Up to 1.35 the built-in controller leaves it, and the server refuses edits of the template for it; since 1.36 it is
    /// taken away. It is taken away as well where a resumption could not move it.
    pub const fn keeps_start_of_suspended(self) -> bool {
        self.resume_moves_start_time && matches!(self.template_edits, TemplateEdits::NeverStarted)
    }

    /// The rules of the server that reports version `major.minor.patch`, with its default feature gates.
    ///
    /// Without a patch the newest patch release of that minor is meant. Servers before 1.32 are taken as 1.32, the
    /// first whose status rules are on; servers newer than this crate as the newest that it knows.
    pub const fn for_server(major: u32, minor: u32, patch: Option<u32>) -> Self {
        let minor = if major == 0 {
            32
        } else if major > 1 || minor > 37 {
            37
        } else if minor < 32 {
            32
        } else {
            minor
        };
        let patch = match patch {
            Some(patch) => patch,
            None => NEWEST_PATCH,
        };
        Self {
            strict_status: true,
            success_criteria_for_success_policy_only: false,
            zero_completions_finish_unstarted: match minor {
                32 => patch >= 7,
                33 => patch >= 3,
                _ => true,
            },
            resume_moves_start_time: match minor {
                32 => patch >= 10,
                33 => patch >= 6,
                34 => patch >= 2,
                _ => true,
            },
            start_time_change_is_required: minor <= 35,
            update_repeats_create_checks: minor <= 36,
            declarative_checks: minor >= 37,
            template_edits: match (minor, patch) {
                (36, 0 | 1) => TemplateEdits::ConditionSuspended,
                (36.., _) => TemplateEdits::NeverStartedOrConditionSuspended,
                _ => TemplateEdits::NeverStarted,
            },
        }
    }

    /// The rules of the newest server that this crate knows.
    pub const fn newest() -> Self {
        Self::for_server(1, 37, None)
    }

    /// The same server with other feature gates than its defaults.
    #[must_use]
    pub const fn with_gates(mut self, gates: Gates) -> Self {
        self.strict_status = gates.job_managed_by;
        // From 1.37 on the limit is gone for good; that server also stopped to run the create rules twice.
        self.success_criteria_for_success_policy_only =
            !gates.job_managed_by && !gates.job_pod_replacement_policy && self.update_repeats_create_checks;
        self
    }
}

impl Default for Rules {
    /// [`Rules::newest`].
    fn default() -> Self {
        Self::newest()
    }
}
