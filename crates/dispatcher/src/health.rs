//! How this process is: what `/metrics` and `/readyz` answer.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use jobferry_core::placement::Link;
use jobferry_kubeio::metrics::Observed;

use crate::{
    Shared,
    metrics::{Metrics, Standing, WorkerStanding},
};

/// What can be asked of a dispatcher while it runs. Made before it starts and shared with whoever asks.
#[derive(Default)]
pub struct Vitals {
    pub(crate) metrics: Metrics,
    stage: Mutex<Stage>,
}

/// How far this process has come.
#[derive(Default, Clone)]
enum Stage {
    /// The management cluster has not answered yet.
    #[default]
    Starting,
    /// Another process leads; this one could at any time.
    StandingBy,
    Leading(Weak<Shared>),
}

impl Vitals {
    pub(crate) fn stand_by(&self) {
        self.set(Stage::StandingBy);
    }

    pub(crate) fn lead(&self, shared: &Arc<Shared>) {
        self.set(Stage::Leading(Arc::downgrade(shared)));
    }

    fn set(&self, stage: Stage) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = stage;
    }

    fn stage(&self) -> Stage {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn leading(&self) -> Option<Arc<Shared>> {
        match self.stage() {
            Stage::Leading(shared) => shared.upgrade(),
            Stage::Starting | Stage::StandingBy => None,
        }
    }
}

impl Observed for Vitals {
    fn metrics(&self) -> String {
        self.metrics.exposition(&self.leading().map(|shared| standing(&shared)).unwrap_or_default())
    }

    fn ready(&self) -> Result<&'static str, &'static str> {
        match self.stage() {
            Stage::Starting => Err("the management cluster has not answered yet"),
            Stage::StandingBy => Ok("standing by"),
            Stage::Leading(shared) => match shared.upgrade() {
                Some(shared) if !shared.index.survey().listed => Err("the management cluster is not listed yet"),
                _ => Ok("leading"),
            },
        }
    }
}

fn standing(shared: &Shared) -> Standing {
    let survey = shared.index.survey();
    let workers = survey.workers.into_iter().map(|(name, view)| WorkerStanding {
        queue: shared.lanes.worker_depth(&name),
        up: matches!(view.link, Link::Live { .. }),
        cordoned: view.cordoned,
        unfinished: view.unfinished,
        unacknowledged: view.unacknowledged,
        name,
    });
    Standing {
        leads: shared.leadership.holds(),
        halted: survey.halted,
        waiting: survey.waiting,
        manager_queue: shared.lanes.manager_depth(),
        events_dropped: shared.recorder.dropped(),
        workers: workers.collect(),
    }
}
