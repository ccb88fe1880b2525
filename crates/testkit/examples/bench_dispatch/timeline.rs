//! When what was seen of each Job, on the manager and on its worker.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde::Deserialize;
use tokio::{sync::Semaphore, time::Instant};

/// A Job or a mirror, as far as the bench looks at it.
#[derive(Deserialize)]
pub(crate) struct Seen {
    pub(crate) metadata: Meta,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Meta {
    pub(crate) name: String,
    pub(crate) resource_version: String,
}

#[derive(Deserialize, Default)]
struct Status {
    active: Option<i32>,
    conditions: Option<Vec<Condition>>,
}

#[derive(Deserialize)]
struct Condition {
    r#type: String,
    status: String,
}

impl Seen {
    fn is_active(&self) -> bool {
        self.status.active.is_some_and(|active| active > 0)
    }

    fn has_ended(&self) -> bool {
        let is_end = |condition: &Condition| condition.r#type == "Complete" && condition.status == "True";
        self.status.conditions.iter().flatten().any(is_end)
    }
}

/// The moments of one Job.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Life {
    /// Its creation was sent.
    pub(crate) sent: Option<Instant>,
    pub(crate) mirror: Option<Instant>,
    pub(crate) mirror_active: Option<Instant>,
    pub(crate) user_active: Option<Instant>,
    pub(crate) mirror_end: Option<Instant>,
    pub(crate) user_end: Option<Instant>,
    /// The worker that has the mirror.
    pub(crate) worker: Option<usize>,
}

/// News of a Job, for whoever scripts the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    Mirrored,
    UserActive,
}

/// The lives of the Jobs that are expected now. Others are not looked at.
pub(crate) struct Timeline {
    lives: Mutex<HashMap<String, Life>>,
    /// A permit for each Job that has ended.
    ended: Semaphore,
}

impl Default for Timeline {
    fn default() -> Self {
        Self { lives: Mutex::default(), ended: Semaphore::new(0) }
    }
}

impl Timeline {
    /// From now on, these.
    pub(crate) fn expect(&self, names: &[String]) {
        *self.lock() = names.iter().map(|name| (name.clone(), Life::default())).collect();
    }

    pub(crate) fn sent(&self, name: &str) {
        if let Some(life) = self.lock().get_mut(name) {
            life.sent = Some(Instant::now());
        }
    }

    /// The manager shows the Job like this.
    pub(crate) fn on_manager(&self, job: &Seen) -> Option<News> {
        let mut lives = self.lock();
        let life = lives.get_mut(&job.metadata.name)?;
        let news = (job.is_active() && note(&mut life.user_active)).then_some(News::UserActive);
        if job.has_ended() && note(&mut life.user_end) {
            self.ended.add_permits(1);
        }
        news
    }

    /// A worker shows its mirror like this.
    pub(crate) fn on_worker(&self, worker: usize, mirror: &Seen) -> Option<News> {
        let mut lives = self.lock();
        let life = lives.get_mut(&mirror.metadata.name)?;
        let news = note(&mut life.mirror).then_some(News::Mirrored);
        life.worker = Some(worker);
        if mirror.is_active() {
            note(&mut life.mirror_active);
        }
        if mirror.has_ended() {
            note(&mut life.mirror_end);
        }
        news
    }

    pub(crate) fn life(&self, name: &str) -> Option<Life> {
        self.lock().get(name).copied()
    }

    /// Waits until all have ended on the manager; their lives.
    pub(crate) async fn all(&self) -> Vec<Life> {
        let expected = self.lock().len();
        for _ in 0..expected {
            self.ended.acquire().await.unwrap().forget();
        }
        self.lock().values().copied().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Life>> {
        self.lives.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether this is the first time.
fn note(moment: &mut Option<Instant>) -> bool {
    let first = moment.is_none();
    moment.get_or_insert_with(Instant::now);
    first
}
