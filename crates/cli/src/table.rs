//! Tables as kubectl prints them.

use std::fmt::{self, Write as _};

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
        f.write_str(&Columns::default().go_on(self))
    }
}

/// A table that goes on: its titles come once, and its columns never get narrower.
#[derive(Default)]
pub(crate) struct Columns {
    widths: Vec<usize>,
}

impl Columns {
    /// The lines that come next.
    pub(crate) fn go_on(&mut self, table: &Table) -> String {
        let is_first = self.widths.is_empty();
        self.widths.resize(table.rows.first().map_or(0, Vec::len), 0);
        for row in &table.rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut lines = String::new();
        for row in table.rows.iter().skip(usize::from(!is_first)) {
            let padded = row.iter().zip(&self.widths).map(|(cell, width)| format!("{cell:<width$}"));
            // Writing to a String cannot fail.
            let _ = writeln!(lines, "{}", padded.collect::<Vec<_>>().join("   ").trim_end());
        }
        lines
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
    fn a_table_that_goes_on_has_titles_once_and_columns_that_hold_their_width() {
        let table = |name: &str| {
            let mut table = Table::new(["NAME", "AGE"]);
            table.row([name.into(), "5s".into()]);
            table
        };
        let mut columns = Columns::default();
        assert_eq!(columns.go_on(&table("longer")), "NAME     AGE\nlonger   5s\n");
        assert_eq!(columns.go_on(&table("a")), "a        5s\n");
    }

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
