//! Whether an object has ended, and how long it stays then.

use std::time::Duration;

use jobferry_api::{self as api, Outcome};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::{Kind, Path, Test, check::Checked, rule};

/// One way to end.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ending {
    outcome: Outcome,
    pub(super) when: Vec<Test>,
    settles: Option<(Path, Duration)>,
}

/// Where the seconds are that an object may stay after its end.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TimeToLive {
    pub(super) path: Path,
    pub(super) after: Option<Outcome>,
}

/// How an object stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It has not ended.
    Unfinished,
    /// It looks ended, and its operator may take that back until then.
    Settling {
        /// When it counts.
        until: Timestamp,
        /// What it would be.
        outcome: Outcome,
    },
    /// It has ended, for good.
    Finished(Outcome),
}

impl Ending {
    pub(super) fn read(checked: &mut Checked, field: &str, ending: &api::Ending) -> Option<Self> {
        let settles = match &ending.settles {
            None => None,
            Some(settling) => {
                let since = checked.path(&format!("{field}.settles.since"), &settling.since)?;
                Some((since, Duration::from_secs(settling.seconds.into())))
            }
        };
        let when = rule::tests(checked, &format!("{field}.when"), &ending.when);
        Some(Self { outcome: ending.outcome, when, settles })
    }

    fn standing(&self, object: &Value, now: Timestamp) -> Standing {
        let outcome = self.outcome;
        let Some((since, wait)) = &self.settles else { return Standing::Finished(outcome) };
        // Without a time that can be read nobody knows when it began: it counts as having begun just now.
        let since = since.first(object).and_then(Value::as_str).and_then(|time| time.parse().ok()).unwrap_or(now);
        match since.checked_add(*wait) {
            Ok(until) if until > now => Standing::Settling { until, outcome },
            _ => Standing::Finished(outcome),
        }
    }
}

impl TimeToLive {
    pub(super) fn read(checked: &mut Checked, field: &str, ttl: &api::TimeToLive) -> Option<Self> {
        Some(Self { path: checked.path(&format!("{field}.path"), &ttl.path)?, after: ttl.after })
    }
}

impl Kind {
    /// How this object stands. The first rule that holds speaks.
    pub fn standing(&self, object: &Value, now: Timestamp) -> Standing {
        let holds = |ending: &&Ending| ending.when.iter().all(|test| test.holds(object));
        self.finished.iter().find(holds).map_or(Standing::Unfinished, |ending| ending.standing(object, now))
    }

    /// A status in which we ourselves end the object as failed, made from the one that it has; `None` if its kind has no
    /// way to say so.
    pub fn fail(&self, stored: &Value, reason: &str, message: &str, now: Timestamp) -> Option<Value> {
        let failed = self.finished.iter().filter(|ending| ending.outcome == Outcome::Failed);
        failed.filter(|ending| ending.settles.is_none()).find_map(|ending| {
            let mut object = json!({ "status": stored });
            for test in &ending.when {
                test.make_true(&mut object, reason, message, now);
            }
            // Its operator may not have said anything yet of what its definition demands.
            self.fill(&mut object);
            let ended = self.standing(&object, now) == Standing::Finished(Outcome::Failed);
            ended.then(|| object["status"].take())
        })
    }

    /// How long an object that ended so may stay on the manager. `None`: it says nothing about it.
    pub fn time_to_live(&self, object: &Value, outcome: Outcome) -> Option<Duration> {
        let applies = |ttl: &&TimeToLive| ttl.after.is_none_or(|after| after == outcome);
        let seconds = self.ttl.iter().filter(applies).find_map(|ttl| ttl.path.first(object)?.as_u64());
        seconds.map(Duration::from_secs)
    }

    /// The rules by which objects end, in words.
    pub fn endings(&self) -> Vec<(Outcome, String)> {
        let words = |ending: &Ending| {
            let when = rule::all(&ending.when);
            let settles = ending.settles.as_ref();
            settles.map_or(when.clone(), |(_, wait)| format!("{when}, for {} seconds", wait.as_secs()))
        };
        self.finished.iter().map(|ending| (ending.outcome, words(ending))).collect()
    }

    /// Where objects say how long they may stay, in words.
    pub fn times_to_live(&self) -> Vec<String> {
        self.ttl.iter().map(|ttl| ttl.path.to_string()).collect()
    }
}
