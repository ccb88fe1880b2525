//! The planted bugs: what each takes out, where it shows, and which promise it breaks there. Tests and `--planted` go
//! through the same list.

use std::io::Write;

use crate::model::{Budget, Flaw, explore};
use crate::run::{RunError, Settings, run};
use crate::sabotage::Sabotage;

/// A protection that is taken out of the requests, or of the answers, of the dispatcher that ships.
#[derive(Debug, Clone, Copy)]
pub struct AtTheWire {
    /// What is taken out.
    pub sabotage: Sabotage,
    /// In words.
    pub what: &'static str,
    /// The promises by which it may be found.
    pub promises: &'static [&'static str],
    /// Within how many seeds.
    pub within: u64,
    /// Of worlds with these faults.
    pub faults: &'static str,
}

/// Bugs that the seeds find.
pub const AT_THE_WIRE: [AtTheWire; 13] = [
    AtTheWire {
        sabotage: Sabotage::NoVersion,
        what: "status writes without resourceVersion",
        promises: &["never-twice", "never-again", "calm", "legal", "budget"],
        within: 40,
        faults: "all",
    },
    AtTheWire {
        sabotage: Sabotage::NoUidOnDelete,
        what: "deletes without a UID",
        promises: &["own-only"],
        within: 5,
        faults: "all",
    },
    AtTheWire {
        sabotage: Sabotage::FalseGone,
        what: "a workload counts as gone without proof",
        promises: &["budget", "calm"],
        within: 20,
        faults: "all",
    },
    AtTheWire {
        sabotage: Sabotage::RawStatus,
        what: "a status that was not projected",
        promises: &["legal"],
        within: 5,
        faults: "all",
    },
    AtTheWire {
        sabotage: Sabotage::NoMarks,
        what: "mirrors without the mark of their origin",
        // It is not found again, or is taken for altered and deleted, over and over.
        promises: &["own-only", "budget", "calm", "progress"],
        within: 5,
        faults: "all",
    },
    AtTheWire {
        sabotage: Sabotage::UnwrittenEnd,
        what: "the end of a workload taken as written before it is",
        promises: &["never-lost"],
        within: 5,
        faults: "all",
    },
    AtTheWire {
        sabotage: Sabotage::UnsentDelete,
        what: "an orphan taken as deleted before it is",
        promises: &["clean"],
        within: 5,
        faults: "all",
    },
    AtTheWire {
        sabotage: Sabotage::NoIdentity,
        what: "whoever answers at a worker's address taken for that worker",
        promises: &["calm"],
        within: 60,
        faults: "rebuilt,crash,twins",
    },
    AtTheWire {
        sabotage: Sabotage::HastyLoss,
        what: "a short disconnect, or a loss that an earlier dispatcher recorded, taken for a loss at once",
        promises: &["calm"],
        within: 300,
        faults: "all",
    },
    AtTheWire {
        sabotage: Sabotage::UnaskedPolicy,
        what: "workloads of a lost worker fail though no policy asks for that",
        promises: &["calm"],
        within: 60,
        faults: "partition,freeze",
    },
    AtTheWire {
        sabotage: Sabotage::OneQueue,
        what: "creates on healthy workers wait while another one is in trouble",
        promises: &["isolated"],
        within: 40,
        faults: "partition,freeze,slow",
    },
    AtTheWire {
        sabotage: Sabotage::UnsentCreate,
        what: "a mirror taken as created before it is",
        promises: &["calm"],
        within: 10,
        faults: "all",
    },
    AtTheWire {
        sabotage: Sabotage::InventedEnd,
        what: "the failure of a mirror told as a success",
        promises: &["never-lost"],
        within: 10,
        faults: "all",
    },
];

/// A protection of the protocol that is taken out of the model.
#[derive(Debug, Clone, Copy)]
pub struct InTheModel {
    /// What is taken out.
    pub flaw: Flaw,
    /// In words.
    pub what: &'static str,
    /// What goes wrong in the world in which it shows.
    pub world: &'static str,
    /// The same.
    pub budget: Budget,
    /// The promise that it breaks.
    pub promise: &'static str,
    /// The search for it takes minutes.
    pub is_long: bool,
}

const QUIET: Budget = Budget { under_way: 2, ..Budget::of_faults(0) };
const ONE: Budget = Budget { faults: 1, ..QUIET };

/// Bugs that the search finds, with the shortest way there.
///
/// [`Flaw::NoWindow`] is not among them: what a mirror is made of is read again, or dropped, when its window is over, and a
/// record that has changed by then stops the create. The window only makes it sure that no more time passes after that.
pub const IN_THE_MODEL: [InTheModel; 12] = [
    InTheModel {
        flaw: Flaw::NoVersion,
        what: "status writes without resourceVersion",
        world: "a broken connection",
        budget: Budget { cuts: 1, ..ONE },
        promise: "never-twice",
        is_long: false,
    },
    InTheModel {
        flaw: Flaw::NoUid,
        what: "deletes without a UID",
        world: "the user deletes and creates again",
        budget: Budget { users: 2, ..QUIET },
        promise: "never-again",
        is_long: true,
    },
    InTheModel {
        flaw: Flaw::DeleteByOldView,
        what: "deletes by UID only, on an old view",
        world: "no fault",
        budget: QUIET,
        promise: "never-again",
        is_long: false,
    },
    InTheModel {
        flaw: Flaw::RefusalIsProof,
        what: "a refused create counts as proof of absence",
        world: "a request without an answer, a refusal",
        budget: Budget { faults: 2, requests: 1, refusals: 1, ..QUIET },
        promise: "never-lost",
        is_long: true,
    },
    InTheModel {
        flaw: Flaw::ReadIsProof,
        what: "every fresh read of a mirror counts as proof of its absence",
        world: "no fault",
        budget: QUIET,
        promise: "never-lost",
        is_long: false,
    },
    InTheModel {
        flaw: Flaw::OldProof,
        what: "a proof of absence from before the record changed",
        world: "no fault",
        budget: QUIET,
        promise: "never-lost",
        is_long: false,
    },
    InTheModel {
        flaw: Flaw::NoQuarantine,
        what: "a move without quarantine",
        world: "a refusal",
        budget: Budget { refusals: 1, ..ONE },
        promise: "never-twice",
        is_long: false,
    },
    InTheModel {
        flaw: Flaw::NoMarks,
        what: "a mirror that is not where the record says taken for stale, whatever its marks say",
        world: "a refusal",
        budget: Budget { refusals: 1, ..ONE },
        promise: "calm",
        is_long: false,
    },
    InTheModel {
        flaw: Flaw::NoGuard,
        what: "a finished mirror deleted as soon as its workload is gone",
        world: "the user deletes",
        budget: Budget { users: 1, ..QUIET },
        promise: "never-again",
        is_long: true,
    },
    InTheModel {
        flaw: Flaw::NoEarlierLeader,
        what: "a leader that does not wait for creates of the one before it",
        world: "by lease, which passes on; the user deletes",
        budget: Budget { crashes: 1, users: 1, leased: true, ..ONE },
        promise: "never-again",
        is_long: true,
    },
    InTheModel {
        flaw: Flaw::ForgetsDoubt,
        what: "a create without an answer, forgotten with its deleted workload",
        world: "by lease; two requests without an answer; the user deletes",
        budget: Budget { faults: 2, requests: 2, users: 1, leased: true, ..QUIET },
        promise: "never-again",
        is_long: true,
    },
    InTheModel {
        flaw: Flaw::NoProofOfGone,
        what: "orphans deleted without proof",
        world: "a crash",
        budget: Budget { crashes: 1, ..ONE },
        promise: "calm",
        is_long: false,
    },
];

/// What it took to find a planted bug.
#[derive(Debug)]
pub struct Found {
    /// The promise that was seen to be broken.
    pub promise: &'static str,
    /// How long it took: a seed, or steps and states.
    pub needed: String,
    /// The broken promise in full.
    pub story: String,
}

impl AtTheWire {
    /// Runs seeds until a promise is broken.
    pub fn find(&self) -> Result<Option<Found>, RunError> {
        let settings = Settings { sabotage: Some(self.sabotage), faults: self.faults.parse()?, ..Settings::default() };
        for seed in 1..=self.within {
            if let Some((found, _)) = run(seed, &settings)?.violations.into_iter().next() {
                let (promise, needed, story) = (found.promise, format!("seed {seed}"), found.to_string());
                return Ok(Some(Found { promise, needed, story }));
            }
        }
        Ok(None)
    }
}

impl InTheModel {
    /// Searches at most so many states.
    pub fn find(&self, limit: usize) -> Option<Found> {
        let report = explore(self.budget, Some(self.flaw), limit);
        let found = report.counterexample?;
        let needed = format!("{} steps, {} ({} states)", found.steps.len(), self.world, report.states);
        Some(Found { promise: found.promise, needed, story: found.to_string() })
    }
}

/// Looks for all of them, and writes the table that stands in the documentation, each row as it comes; then the shortest
/// ways to those of the model. Returns the number of those that did not break a promise that they are expected to break.
pub fn table(limit: usize, out: &mut impl Write) -> Result<usize, RunError> {
    writeln!(out, "| planted bug | found by | needed |\n| --- | --- | --- |")?;
    let (mut missed, mut stories) = (0, String::new());
    for bug in IN_THE_MODEL {
        let found = bug.find(limit);
        missed += usize::from(found.as_ref().is_none_or(|found| found.promise != bug.promise));
        row(out, bug.what, found.as_ref())?;
        stories.extend(found.map(|found| format!("\n{}: {}", bug.what, found.story)));
    }
    for bug in AT_THE_WIRE {
        let found = bug.find()?;
        missed += usize::from(found.as_ref().is_none_or(|found| !bug.promises.contains(&found.promise)));
        row(out, &format!("at the wire: {}", bug.what), found.as_ref())?;
    }
    out.write_all(stories.as_bytes())?;
    Ok(missed)
}

fn row(out: &mut impl Write, what: &str, found: Option<&Found>) -> std::io::Result<()> {
    let (promise, needed) = found.map_or(("-", "not found"), |found| (found.promise, found.needed.as_str()));
    writeln!(out, "| {what} | {promise} | {needed} |")
}
