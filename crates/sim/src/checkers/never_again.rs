//! never-again: a finished workload never runs again.
//!
//! Only processes of a mirror that was created after the end count, or of another one than that which ended: those of an
//! older mirror may still be starting when its workload is declared failed. Documented limit: when somebody else deletes a
//! mirror on the worker, or the worker is turned back, the guard that its name is against a create still under way is gone. An
//! old Job controller of the
//! management cluster does as it likes. A management cluster that was turned back has forgotten ends, and mirrors that
//! would tell of them may be gone. Somebody who writes an end cannot know of a create that is under way.
//! One whose record was wiped off, and whose mirror admission hid, is not found.

use super::{Checker, Seen, Violation, words};
use crate::truth::Truth;

pub(super) struct NeverAgain;

impl Checker for NeverAgain {
    fn see(&mut self, seen: &Seen<'_>, truth: &Truth) -> Vec<Violation> {
        let Seen::Started { cluster, workload, mirror } = seen else { return Vec::new() };
        let Some(history) = truth.history(workload) else { return Vec::new() };
        let (Some(finished), Some(created)) = (history.finished_at, history.mirrors.get(*mirror)) else {
            return Vec::new();
        };
        let foreign = history.meddled || history.acted_on || history.ended_by_others;
        let is_another = history.ended_mirror.as_ref().is_some_and(|ended| ended != mirror);
        let is_late = *created >= finished || is_another;
        if !is_late || foreign || history.forgotten || history.untraceable {
            return Vec::new();
        }
        let what = format!("workload {workload} had finished and was started again in {cluster}");
        vec![Violation { promise: "never-again", about: words(truth, workload), what }]
    }
}
