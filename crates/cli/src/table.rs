//! Tables as kubectl prints them.

use std::fmt;

use k8s_openapi::jiff::Timestamp;

/// Rows under titles; every column is as wide as its widest cell.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<const N: usize>(titles: [&str; N]) -> Self {
        Self { rows: vec![titles.map(str::to_owned).to_vec()] }
    }

    /// For tables whose columns depend on flags.
    pub(crate) fn with_titles(titles: &[&str]) -> Self {
        Self { rows: vec![titles.iter().map(ToString::to_string).collect()] }
    }

    pub(crate) fn add(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.rows.first().map_or(0, Vec::len)).map(width).collect();
        for row in &self.rows {
            let padded = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            writeln!(f, "{}", padded.collect::<Vec<_>>().join("   ").trim_end())?;
        }
        Ok(())
    }
}

/// How long ago, in the largest unit of which there are at least two: 90s, 5m, 36h, 3d.
pub(crate) fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(since).as_secs().max(0);
    for (unit, worth) in [("d", 86_400), ("h", 3600), ("m", 60)] {
        if seconds >= 2 * worth {
            return format!("{}{unit}", seconds / worth);
        }
    }
    format!("{seconds}s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short_and_not_too_coarse() {
        let now: Timestamp = "2026-01-10T00:00:00Z".parse().unwrap();
        for (since, words) in [
            ("2026-01-10T00:00:00Z", "0s"),
            ("2026-01-09T23:58:30Z", "90s"),
            ("2026-01-09T23:55:00Z", "5m"),
            ("2026-01-08T12:00:00Z", "36h"),
            ("2026-01-01T00:00:00Z", "9d"),
            ("2026-01-10T00:00:05Z", "0s"),
        ] {
            assert_eq!(age(since.parse().unwrap(), now), words, "{since}");
        }
    }
}
