//! How a failed command is told: one line with the object, the reason and the next step.

use jobferry_kubeio::CallError;

/// The line.
pub(crate) fn line(error: &anyhow::Error) -> String {
    let line = format!("{error:#}");
    let call = error.chain().find_map(|cause| cause.downcast_ref::<CallError>());
    match call.and_then(next_step) {
        Some(step) => format!("{line}; {step}"),
        None => line,
    }
}

/// What whoever got this answer should do.
pub(crate) fn next_step(error: &CallError) -> Option<&'static str> {
    match error {
        CallError::Deadline(_) | CallError::Transport(_) => {
            Some("check that the cluster runs, and --kubeconfig and --context")
        }
        CallError::Unreadable(_) => None,
        CallError::Refused(refusal) => match refusal.code {
            401 => Some("the credentials in the kubeconfig are wrong or have expired: get new ones"),
            403 => Some("ask an admin of the cluster for this right"),
            404 if refusal.name.is_empty() => Some("prepare the cluster with `jobferry install`"),
            429 | 500.. => Some("the cluster is in trouble: try again later"),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;
    use jobferry_kubeio::Refusal;
    use std::time::Duration;

    fn refused(code: u16, name: &str) -> CallError {
        CallError::Refused(Refusal { code, reason: "R".into(), message: "m".into(), name: name.into() })
    }

    #[test]
    fn a_line_says_what_why_and_what_next() {
        let unreachable = CallError::Transport("refused".into());
        for (error, expected) in [
            (
                unreachable,
                "jobs: connection failed: refused; check that the cluster runs, and --kubeconfig and --context",
            ),
            (
                CallError::Deadline(Duration::from_secs(10)),
                "jobs: no answer within 10s; check that the cluster runs, and --kubeconfig and --context",
            ),
            (refused(403, ""), "jobs: 403 R: m; ask an admin of the cluster for this right"),
            (refused(404, ""), "jobs: 404 R: m; prepare the cluster with `jobferry install`"),
            (refused(404, "a"), "jobs: 404 R: m"),
            (refused(409, "a"), "jobs: 409 R: m"),
        ] {
            let error = Err::<(), _>(error).context("jobs").unwrap_err();
            assert_eq!(line(&error), expected);
        }
    }
}
