//! What a pod is to do, read from its annotations.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

/// How long the pod runs, in seconds; fractions are fine. Absent: it ends at once.
pub const RUN_SECONDS: &str = "testkit.jobferry.dev/run-seconds";
/// What it ends with. Absent: 0, or 1 for an index named by [`FAILING_INDEXES`].
pub const EXIT_CODE: &str = "testkit.jobferry.dev/exit-code";
/// Which completion indexes of an Indexed Job fail, such as `1,3`; the others succeed. Absent: all are treated alike.
pub const FAILING_INDEXES: &str = "testkit.jobferry.dev/failing-indexes";

/// Set by the Job controller on the pods of an Indexed Job.
const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";

#[derive(Debug, PartialEq)]
pub(super) struct Script {
    pub(super) run_time: Duration,
    pub(super) exit_code: i32,
}

impl Script {
    pub(super) fn of(pod: &Pod) -> Self {
        let annotation = |name| pod.metadata.annotations.as_ref()?.get(name).map(String::as_str);
        let seconds = annotation(RUN_SECONDS).and_then(|text| text.parse().ok()).unwrap_or_default();
        let exit_code: Option<i32> = annotation(EXIT_CODE).and_then(|text| text.parse().ok());
        let exit_code = match annotation(FAILING_INDEXES) {
            None => exit_code.unwrap_or(0),
            Some(failing) => {
                let index = annotation(COMPLETION_INDEX);
                let fails = failing.split(',').any(|failing| Some(failing.trim()) == index);
                if fails { exit_code.unwrap_or(1) } else { 0 }
            }
        };
        Self { run_time: Duration::try_from_secs_f64(seconds).unwrap_or_default(), exit_code }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(annotations: &[(&str, &str)]) -> Script {
        let mut pod = Pod::default();
        let pairs = annotations.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        pod.metadata.annotations = Some(pairs.collect());
        Script::of(&pod)
    }

    fn exits(annotations: &[(&str, &str)]) -> i32 {
        script(annotations).exit_code
    }

    #[test]
    fn a_pod_without_a_script_succeeds_at_once() {
        assert_eq!(Script::of(&Pod::default()), Script { run_time: Duration::ZERO, exit_code: 0 });
    }

    #[test]
    fn time_and_exit_code_are_as_annotated() {
        let expected = Script { run_time: Duration::from_millis(1500), exit_code: 42 };
        assert_eq!(script(&[(RUN_SECONDS, "1.5"), (EXIT_CODE, "42")]), expected);
        assert_eq!(script(&[(RUN_SECONDS, "-1")]).run_time, Duration::ZERO);
    }

    #[test]
    fn only_the_failing_indexes_fail() {
        let failing = (FAILING_INDEXES, "1, 3");
        assert_eq!(exits(&[failing, (COMPLETION_INDEX, "3")]), 1);
        assert_eq!(exits(&[failing, (COMPLETION_INDEX, "3"), (EXIT_CODE, "7")]), 7);
        assert_eq!(exits(&[failing, (COMPLETION_INDEX, "2"), (EXIT_CODE, "7")]), 0);
        assert_eq!(exits(&[failing, (COMPLETION_INDEX, "13")]), 0);
    }
}
