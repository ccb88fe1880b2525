//! Where two answers differ, and which of it is known and explained.

use std::fmt;

use serde_json::Value;

/// One place where our answer is not the real one.
pub(crate) struct Difference {
    /// JSON pointer into the answer; list positions are `*`.
    pub(crate) at: String,
    real: Value,
    ours: Value,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n      real {}\n      ours {}", self.at, self.real, self.ours)
    }
}

/// Every place where `ours` is not `real`.
pub(crate) fn between(real: &Value, ours: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare("", real, ours, &mut found);
    found
}

fn compare(at: &str, real: &Value, ours: &Value, found: &mut Vec<Difference>) {
    match (real, ours) {
        (Value::Object(a), Value::Object(b)) => {
            let mut keys: Vec<&String> = a.keys().chain(b.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                compare(&format!("{at}/{}", key.replace('/', "~1")), &real[key.as_str()], &ours[key.as_str()], found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (real, ours) in a.iter().zip(b) {
                compare(&format!("{at}/*"), real, ours, found);
            }
        }
        _ if real != ours => found.push(Difference { at: at.to_owned(), real: real.clone(), ours: ours.clone() }),
        _ => {}
    }
}

/// The table of known differences: `| step | place | why |`; `*` at the end of a step or a place matches any rest.
pub(crate) struct Allowed(Vec<Entry>);

struct Entry {
    step: String,
    place: String,
    used: bool,
}

impl Allowed {
    pub(crate) fn read(document: &str) -> Self {
        let section = document.split("## Known differences").nth(1).expect("docs/embedded.md has the section");
        let section = section.split("\n## ").next().unwrap_or_default();
        let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
        Self(
            rows.map(|row| {
                let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
                Entry { step: cells[0].trim_matches('`').into(), place: cells[1].trim_matches('`').into(), used: false }
            })
            .collect(),
        )
    }

    pub(crate) fn covers(&mut self, step: &str, difference: &Difference) -> bool {
        let fits = |pattern: &str, text: &str| match pattern.strip_suffix('*') {
            Some(start) => text.starts_with(start),
            None => pattern == text,
        };
        let mut covered = false;
        for entry in self.0.iter_mut().filter(|entry| fits(&entry.step, step) && fits(&entry.place, &difference.at)) {
            entry.used = true;
            covered = true;
        }
        covered
    }

    pub(crate) fn unused(&self) -> Vec<String> {
        self.0.iter().filter(|entry| !entry.used).map(|entry| format!("{} {}", entry.step, entry.place)).collect()
    }
}
