//! An explanation in words, and its table.

use std::fmt;

use super::explanation::{Because, Explanation, Outcome, Runner, Unblock};
use crate::{
    job::{Phase, View},
    table::Table,
};

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match (&self.now, self.from_file) {
            (None, _) => writeln!(f, "{name} was not submitted yet")?,
            (Some(view), false) => writeln!(f, "{name} {}", standing(view))?,
            (Some(view), true) => {
                writeln!(
                    f,
                    "a Job {name} is there already, and {}; the file is explained, not that Job",
                    standing(view)
                )?;
            }
        }
        let mut would = if self.is_job { "a Job like this" } else { "an object like this" }.to_owned();
        if let Some(who) = runs_it(&self.runner) {
            writeln!(f, "it is not dispatched: {who}")?;
            let handed_over =
                if self.is_job { "with managedBy: jobferry.dev/dispatcher" } else { "handed to Jobferry" };
            would = format!("{handed_over} {would}");
        }
        match &self.outcome {
            Outcome::Unplaceable { message, .. } => writeln!(f, "{would} cannot be placed: {message}")?,
            Outcome::Chosen { worker, because } => writeln!(f, "{would} would now go to {worker}: {because}")?,
            Outcome::OneOf { workers } => {
                let workers = workers.join(" or ");
                writeln!(f, "{would} would now go to {workers}: they are equally good, and its UID decides")?;
            }
            Outcome::NoWorkers => writeln!(f, "there are no workers; add one with `jobferry worker join`")?,
            Outcome::NoneFits => writeln!(f, "{would} would now go nowhere: no worker fits")?,
        }
        if self.workers.is_empty() { Ok(()) } else { write!(f, "\n{}", self.table()) }
    }
}

/// Where a Job stands, in a sentence.
fn standing(view: &View) -> String {
    if view.phase == Phase::Waiting {
        return format!("waits: {}", view.why);
    }
    let place = view.place.as_deref().unwrap_or("no worker");
    let why = if view.why.is_empty() { String::new() } else { format!(" ({})", view.why) };
    format!("is {:?} on {place}{}{why}", view.phase, view.done())
}

/// Whoever runs a Job that is not ours to place.
fn runs_it(runner: &Runner) -> Option<String> {
    Some(match runner {
        Runner::Dispatcher => return None,
        Runner::Operator => "the kind's own operator runs it here".into(),
        Runner::Cluster => "the cluster's own Job controller runs it here".into(),
        Runner::Local => "`jobferry job-controller` runs it here (managedBy: jobferry.dev/local)".into(),
        Runner::Other { managed_by } => format!("another controller has it (managedBy: {managed_by})"),
    })
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OnlyOneThatFits => "it is the only one that fits",
            Self::Preferred => "its policy prefers it",
            Self::FewestUnfinished => "it has the fewest unfinished Jobs",
            Self::Uid => "others are as good, and its UID decides",
        })
    }
}

impl fmt::Display for Unblock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Run(words) | Self::Change(words)) = self;
        f.write_str(words)
    }
}

impl Explanation {
    /// Each worker with its verdict.
    pub(super) fn table(&self) -> Table {
        let mut table = Table::new(["WORKER", "VERDICT", "WEIGHT", "UNFINISHED", "TO-UNBLOCK"]);
        for line in &self.workers {
            let unblock = line.unblock.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
            let (weight, unfinished) = (line.weight.to_string(), line.unfinished.to_string());
            table.row([line.worker.clone(), line.verdict.message.clone(), weight, unfinished, unblock]);
        }
        table
    }
}
