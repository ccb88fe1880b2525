//! How a failed command is told: one line with the object, the reason and the next step.

use std::fmt;

use jobferry_kubeio::CallError;

/// What a command wanted of a worker cluster, as the context of an error: other flags lead there than to the manager.
#[derive(Debug)]
pub(crate) struct OfWorker(pub(crate) String);

impl fmt::Display for OfWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The line.
pub(crate) fn line(error: &anyhow::Error) -> String {
    let line = format!("{error:#}");
    let call = error.chain().find_map(|cause| cause.downcast_ref::<CallError>());
    let step = match call {
        Some(CallError::Deadline(_) | CallError::Transport(_)) if error.is::<OfWorker>() => {
            Some("check that the cluster runs, and --worker-kubeconfig and --worker-context")
        }
        call => call.and_then(next_step),
    };
    match step {
        Some(step) => format!("{line}; {step}"),
        None => line,
    }
}

/// A cluster that does not know our resources is a worker, or not prepared yet.
pub(crate) const NOT_A_MANAGER: &str =
    "choose the management cluster with --context, or make this one a management cluster with `jobferry install`";

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
            404 if refusal.name.is_empty() => Some(NOT_A_MANAGER),
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
            (
                refused(404, ""),
                "jobs: 404 R: m; choose the management cluster with --context, or make this one a management cluster with \
                 `jobferry install`",
            ),
            (refused(404, "a"), "jobs: 404 R: m"),
            (refused(409, "a"), "jobs: 409 R: m"),
        ] {
            let error = Err::<(), _>(error).context("jobs").unwrap_err();
            assert_eq!(line(&error), expected);
        }
    }

    #[test]
    fn a_worker_is_found_by_flags_of_its_own() {
        let unreachable = Err::<(), _>(CallError::Transport("refused".into()));
        let error = unreachable.context(OfWorker("the worker does not answer".into())).context("join").unwrap_err();
        let expected = "join: the worker does not answer: connection failed: refused; check that the cluster runs, and \
                        --worker-kubeconfig and --worker-context";
        assert_eq!(line(&error), expected);
    }
}
