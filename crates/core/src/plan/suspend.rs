//! That a Job is suspended, or resumed, while no mirror says so.

use super::Case;
use crate::{
    action::{Action, Alarm},
    project::unmirrored,
    record::Record,
};

impl Case<'_> {
    /// These actions, and before them what the built-in controller shows at once of a Job that its user suspends or resumes:
    /// whoever waits for the condition must not have to wait until a worker takes the Job.
    pub(super) fn with_suspension(&self, mut actions: Vec<Action>) -> Vec<Action> {
        let Some(show) = self.show_suspension() else { return actions };
        // A resumption goes along with the placement that it leads to.
        let goes_along = |action: &Action| matches!(action, Action::RecordPlacement(_));
        if self.workload.spec.suspended || !actions.iter().any(goes_along) {
            actions.insert(0, show);
        }
        actions
    }

    /// Once there was a mirror, what is shown is made of its status, and what it has run is not to be wiped out here.
    fn show_suspension(&self) -> Option<Action> {
        let workload = self.workload;
        let recorded = matches!(&workload.record, Record::Placed(at) if at.mirror.is_some());
        let has_run = recorded || workload.status.start_time.is_some() || self.known.had_mirror();
        if workload.custom.is_some() || has_run {
            return None;
        }
        match unmirrored(&workload.spec, &workload.status, self.around.rules, self.around.now.wall) {
            Ok(status) => Some(Action::WriteStatus { status: Box::new(status?), placement: None }),
            Err(errors) => Some(Action::Alarm(Alarm::IllegalStatus(errors))),
        }
    }
}
