//! When what was seen of each Job, on the manager and on its worker.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::Deserialize;
use tokio::{sync::Notify, time::Instant};

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
    UserEnded,
}

/// The lives of the Jobs that are expected now. Others are not looked at.
#[derive(Default)]
pub(crate) struct Timeline {
    lives: Mutex<Lives>,
    changed: Notify,
}

#[derive(Default)]
struct Lives {
    of: HashMap<String, Life>,
    mirrored: usize,
    active: usize,
    ended: usize,
}

/// How far Jobs have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Their mirrors exist.
    Mirrored,
    /// Their users see them active.
    Active,
    /// Their users see them ended.
    Ended,
}

impl Timeline {
    /// From now on, these.
    pub(crate) fn expect(&self, names: &[String]) {
        let of = names.iter().map(|name| (name.clone(), Life::default())).collect();
        *self.lock() = Lives { of, ..Lives::default() };
    }

    pub(crate) fn sent(&self, name: &str) {
        if let Some(life) = self.lock().of.get_mut(name) {
            life.sent = Some(Instant::now());
        }
    }

    /// The manager shows the Job like this.
    pub(crate) fn on_manager(&self, job: &Seen) -> Option<News> {
        let mut lives = self.lock();
        let Lives { of, active, ended, .. } = &mut *lives;
        let life = of.get_mut(&job.metadata.name)?;
        let mut news = None;
        if job.is_active() && note(&mut life.user_active) {
            *active += 1;
            news = Some(News::UserActive);
        }
        if job.has_ended() && note(&mut life.user_end) {
            *ended += 1;
            news = Some(News::UserEnded);
        }
        if news.is_some() {
            self.changed.notify_one();
        }
        news
    }

    /// A worker shows its mirror like this.
    pub(crate) fn on_worker(&self, worker: usize, mirror: &Seen) -> Option<News> {
        let mut lives = self.lock();
        let Lives { of, mirrored, .. } = &mut *lives;
        let life = of.get_mut(&mirror.metadata.name)?;
        life.worker = Some(worker);
        if mirror.is_active() {
            note(&mut life.mirror_active);
        }
        if mirror.has_ended() {
            note(&mut life.mirror_end);
        }
        note(&mut life.mirror).then(|| {
            *mirrored += 1;
            self.changed.notify_one();
            News::Mirrored
        })
    }

    pub(crate) fn life(&self, name: &str) -> Option<Life> {
        self.lock().of.get(name).copied()
    }

    /// All lives as they are.
    pub(crate) fn lives(&self) -> Vec<Life> {
        self.lock().of.values().copied().collect()
    }

    /// Waits until all have come so far.
    pub(crate) async fn until(&self, stage: Stage) {
        loop {
            let changed = self.changed.notified();
            {
                let lives = self.lock();
                let come = match stage {
                    Stage::Mirrored => lives.mirrored,
                    Stage::Active => lives.active,
                    Stage::Ended => lives.ended,
                };
                if come == lives.of.len() {
                    return;
                }
            }
            changed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Lives> {
        self.lives.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether this is the first time.
fn note(moment: &mut Option<Instant>) -> bool {
    let first = moment.is_none();
    moment.get_or_insert_with(Instant::now);
    first
}

/// From one moment to another, if both came.
pub(crate) fn between(from: Option<Instant>, to: Option<Instant>) -> Option<Duration> {
    Some(to?.saturating_duration_since(from?))
}
