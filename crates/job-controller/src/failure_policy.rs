//! What a failed pod means to its Job, by the Job's pod failure policy.

use k8s_openapi::api::batch::v1::{PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement};

use crate::pod::{Exit, PodView};

/// The verdict of the first rule that matches a failed pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The whole Job fails, with this message.
    FailJob(String),
    /// The pod's index fails, whatever its limit.
    FailIndex,
    /// The failure counts towards no limit.
    Ignore,
    /// The failure counts: no rule matched, or one said so.
    Count,
}

impl Verdict {
    pub(crate) fn counts(&self) -> bool {
        *self != Self::Ignore
    }
}

/// Judges a failed pod. A rule looks either at exit codes or at pod conditions, never at both.
pub(crate) fn judge(policy: Option<&PodFailurePolicy>, pod: &PodView) -> Verdict {
    let rules = policy.map_or(&[][..], |policy| &policy.rules);
    for (position, rule) in rules.iter().enumerate() {
        let message = if let Some(requirement) = &rule.on_exit_codes {
            matching_exit(requirement, pod).map(|exit| {
                format!(
                    "Container {} for pod {}/{} failed with exit code {} matching {} rule at index {position}",
                    exit.container, pod.namespace, pod.name, exit.code, rule.action,
                )
            })
        } else {
            let patterns = rule.on_pod_conditions.as_deref().unwrap_or_default();
            let matching = pod.conditions.iter().find(|(kind, status)| {
                patterns.iter().any(|p| p.type_ == *kind && p.status.as_deref().unwrap_or("True") == status)
            });
            matching.map(|(kind, _)| {
                format!(
                    "Pod {}/{} has condition {kind} matching {} rule at index {position}",
                    pod.namespace, pod.name, rule.action,
                )
            })
        };
        match (message, rule.action.as_str()) {
            (None, _) => {}
            (Some(message), "FailJob") => return Verdict::FailJob(message),
            (Some(_), "FailIndex") => return Verdict::FailIndex,
            (Some(_), "Ignore") => return Verdict::Ignore,
            (Some(_), _) => return Verdict::Count,
        }
    }
    Verdict::Count
}

fn matching_exit<'a>(requirement: &PodFailurePolicyOnExitCodesRequirement, pod: &'a PodView) -> Option<&'a Exit> {
    pod.exits.iter().find(|exit| {
        let named = requirement.container_name.as_ref().is_none_or(|name| *name == exit.container);
        let listed = requirement.values.contains(&exit.code);
        let wanted = match requirement.operator.as_str() {
            "In" => listed,
            "NotIn" => !listed,
            _ => false,
        };
        named && exit.code != 0 && wanted
    })
}
