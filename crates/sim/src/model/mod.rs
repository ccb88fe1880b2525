//! Exhaustive small worlds: every interleaving of one Job, a second one under its name, two workers, and two dispatchers
//! that both believe to lead (or one at a time, by a lease).
//!
//! ```text
//!   World ──► every step: send, carry out, hear, break off, watch, tick, crash, cut, refuse, start, end, delete ... ──► Worlds
//!               │
//!               └─ what a dispatcher sends is what the shipped `plan` asks for, given what that dispatcher knows
//! ```
//!
//! The model's own rules are small: how an API server carries out a request on one object (`server`), how a dispatcher
//! takes over what it sees and hears (`mind`), how time passes (`time`). The decisions are the shipped ones
//! (`book`). The search is breadth-first, so the first broken promise comes with the shortest way there.
//!
//! ```
//! use jobferry_sim::model::{Budget, explore};
//!
//! let report = explore(Budget::of_faults(0), None, 200_000);
//! assert!(report.complete && report.counterexample.is_none());
//! ```

mod book;
mod flaw;
mod mind;
mod search;
mod server;
mod steps;
mod time;
mod world;

pub use flaw::Flaw;
pub use search::{Counterexample, Report, explore};
pub use world::Budget;

/// A world that is small enough for every order of events, or for the first of them.
#[derive(Debug, Clone, Copy)]
pub struct SmallWorld {
    /// What happens in it.
    pub name: &'static str,
    /// How much of it.
    pub budget: Budget,
    /// A search ends after so many states.
    pub most_states: usize,
}

/// More than those worlds have that are gone through to their ends: up to eight gigabytes.
const ALL: usize = 40_000_000;
/// Of those that have no end in sight.
const THE_FIRST: usize = 10_000_000;

/// The small worlds: in most of them one thing goes wrong, at any moment.
pub const SMALL_WORLDS: [SmallWorld; 12] = [
    SmallWorld::whole("nothing goes wrong", Budget::of_faults(0)),
    SmallWorld::whole("a worker refuses once", Budget { refusals: 1, ..Budget::of_one_kind() }),
    SmallWorld::whole("a dispatcher crashes", Budget { crashes: 1, ..Budget::of_one_kind() }),
    SmallWorld::whole("a connection breaks", Budget { cuts: 1, ..Budget::of_one_kind() }),
    SmallWorld::whole("a request is late, or lost, or its answer is", Budget { requests: 1, ..Budget::of_one_kind() }),
    SmallWorld::whole(
        "a stranger deletes the mirror or takes its name",
        Budget { strangers: 1, ..Budget::of_one_kind() },
    ),
    SmallWorld::whole("the user deletes, suspends or resumes", Budget { users: 1, ..Budget::of_one_kind() }),
    SmallWorld::vast("the user deletes and creates again", Budget { users: 2, ..Budget::of_one_kind() }),
    SmallWorld::vast("two things go wrong", Budget { under_way: 2, ..Budget::of_faults(2) }),
    SmallWorld::vast(
        "one thing goes wrong, and the user does one",
        Budget { under_way: 2, users: 1, ..Budget::of_faults(1) },
    ),
    SmallWorld::whole(
        "by lease: it passes on, and the user does one thing",
        Budget { leased: true, crashes: 1, users: 1, ..Budget::of_one_kind() },
    ),
    SmallWorld::vast(
        "by lease: two things go wrong, and the user does one",
        Budget { leased: true, under_way: 2, users: 1, ..Budget::of_faults(2) },
    ),
];

impl SmallWorld {
    const fn whole(name: &'static str, budget: Budget) -> Self {
        Self { name, budget, most_states: ALL }
    }

    const fn vast(name: &'static str, budget: Budget) -> Self {
        Self { name, budget, most_states: THE_FIRST }
    }
}

/// A promise that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Broken {
    promise: &'static str,
    what: &'static str,
}

impl Broken {
    const fn new(promise: &'static str, what: &'static str) -> Self {
        Self { promise, what }
    }
}

impl Budget {
    /// So many things go wrong, of whatever kind; the user does nothing but submit.
    pub const fn of_faults(faults: u8) -> Self {
        let (requests, refusals, crashes, cuts, strangers) = (faults, faults, faults, faults, faults);
        Self { faults, requests, refusals, crashes, cuts, strangers, under_way: 3, users: 0, leased: false }
    }

    /// One thing may go wrong; of which kind is to be said. Two requests are under way at once, to keep the world small.
    const fn of_one_kind() -> Self {
        Self { faults: 1, under_way: 2, ..Self::of_faults(0) }
    }
}
