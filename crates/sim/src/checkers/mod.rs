//! One small module a promise. Checkers see the true state of all clusters, never the dispatcher's view of it.

mod budget;
mod calm;
mod clean;
mod isolated;
mod legal;
mod never_again;
mod never_lost;
mod never_twice;
mod own_only;
mod progress;

use std::fmt;

use crate::facts::JobFacts;
use crate::hub::Exchange;
use crate::truth::{Role, Truth};

/// Something that happened.
#[derive(Debug)]
pub enum Seen<'a> {
    /// A process was started.
    Started {
        /// Where.
        cluster: &'a str,
        /// The UID of the workload that it belongs to.
        workload: &'a str,
        /// The UID of the mirror that it belongs to.
        mirror: &'a str,
    },
    /// A Job was created, changed or removed.
    Changed {
        /// Where.
        cluster: &'a str,
        /// As it was.
        before: Option<&'a JobFacts>,
        /// As it is.
        after: Option<&'a JobFacts>,
        /// By whom.
        by: Role,
    },
    /// A write was asked for.
    Asked(&'a Exchange),
}

/// A moment at which nothing more is to be expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// The faults have stopped long ago; all workloads are still there.
    Settled,
    /// The user has deleted all workloads.
    Emptied,
}

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The promise.
    pub promise: &'static str,
    /// The workload's name and UID, or whatever else it is about: words by which to find it in the log.
    pub about: Vec<String>,
    /// What was seen.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.promise, self.what)
    }
}

/// Watches one promise.
pub trait Checker: Send {
    /// Looks at something that has just happened; `truth` is the state after it.
    fn see(&mut self, _seen: &Seen<'_>, _truth: &Truth) -> Vec<Violation> {
        Vec::new()
    }

    /// Looks at the state in which everything rests.
    fn at_rest(&mut self, _rest: Rest, _truth: &Truth) -> Vec<Violation> {
        Vec::new()
    }
}

/// All checkers.
pub fn all() -> Vec<Box<dyn Checker>> {
    vec![
        Box::new(never_twice::NeverTwice::default()),
        Box::new(never_again::NeverAgain),
        Box::new(never_lost::NeverLost::default()),
        Box::new(calm::Calm::default()),
        Box::new(own_only::OwnOnly),
        Box::new(clean::Clean),
        Box::new(legal::Legal),
        Box::new(progress::Progress),
        Box::new(isolated::Isolated::default()),
        Box::new(budget::Budget::default()),
    ]
}

/// The words by which a workload is found in the log.
fn words(truth: &Truth, uid: &str) -> Vec<String> {
    let name = truth.history(uid).map(|history| history.name.clone()).filter(|name| !name.is_empty());
    name.map(|name| format!("/{name}")).into_iter().chain([uid.to_owned()]).collect()
}
