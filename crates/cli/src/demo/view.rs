//! What the demo shows: on a terminal a table that is redrawn in place, else a line for each change.

use std::{
    collections::BTreeMap,
    io::{IsTerminal as _, Write as _},
};

use jobferry_api::conditions::PLACED;
use k8s_openapi::api::batch::v1::Job;

use super::jobs::{DemoJob, completions, condition, outcome, place};
use crate::table::Table;

/// A row that a terminal would break could not be drawn over.
const ROW_CHARACTERS: usize = 79;
/// Clears from the cursor to the end of the screen.
const CLEAR: &str = "\x1b[J";

pub(crate) struct View {
    names: Vec<&'static str>,
    rows: BTreeMap<String, String>,
    live: bool,
    /// How many lines of the table stand above the cursor.
    drawn: usize,
}

impl View {
    pub(crate) fn new(jobs: &[DemoJob]) -> Self {
        let names = jobs.iter().map(|job| job.name).collect();
        Self { names, rows: BTreeMap::new(), live: std::io::stdout().is_terminal(), drawn: 0 }
    }

    /// A Job changed.
    pub(crate) fn show(&mut self, job: &Job) {
        let name = job.metadata.name.clone().unwrap_or_default();
        let row = format!("{name:<8} {:<9} {}", place(job).unwrap_or("-"), progress(job));
        if self.rows.get(&name) == Some(&row) {
            return;
        }
        if self.live {
            self.rows.insert(name, row);
            self.wipe();
            self.draw();
        } else {
            println!("{row}");
            self.rows.insert(name, row);
        }
    }

    /// Something happened that is no Job's.
    pub(crate) fn tell(&mut self, words: &str) {
        self.wipe();
        println!("--- {words}");
        self.draw();
    }

    /// What another command would print.
    pub(crate) fn quote(&mut self, table: &Table) {
        self.wipe();
        for line in table.to_string().lines() {
            println!("    {line}");
        }
        self.draw();
    }

    fn wipe(&mut self) {
        if self.drawn > 0 {
            print!("\x1b[{}A\r{CLEAR}", self.drawn);
            self.drawn = 0;
        }
    }

    fn draw(&mut self) {
        if self.live {
            let rows = self.names.iter().filter_map(|name| self.rows.get(*name));
            self.drawn = rows.map(|row| println!("{}", painted(row))).count();
            // A terminal that is gone does not stop the demo.
            let _ = std::io::stdout().flush();
        }
    }
}

/// One line of the screen, in a colour for what it says.
fn painted(row: &str) -> String {
    let row: String = row.chars().take(ROW_CHARACTERS).collect();
    let colours = [("Complete", "32"), ("Failed", "31"), ("waits", "33"), ("running", "36")];
    match colours.iter().find(|(word, _)| row.contains(word)) {
        Some((_, colour)) => format!("\x1b[{colour}m{row}\x1b[0m"),
        None => row,
    }
}

fn progress(job: &Job) -> String {
    let started = job.status.as_ref().is_some_and(|status| status.start_time.is_some());
    match (outcome(job), condition(job, PLACED)) {
        (Some(outcome), _) => format!("{outcome}, {} done", completions(job)),
        (None, Some((false, why))) => format!("waits: {why}"),
        (None, None) if place(job).is_none() => "waits".into(),
        _ if started => format!("running, {} done", completions(job)),
        _ => "placed".into(),
    }
}
