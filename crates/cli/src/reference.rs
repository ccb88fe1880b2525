//! `docs/reference/`, written from the code that it describes: `cargo xtask docs`.
//!
//! It is a test, so that pages that are out of date fail, and nothing of it is in the program.

mod commands;
mod names;
mod resources;

use std::{fs, path::PathBuf};

/// A page: its file, and its text.
type Page = (&'static str, String);

fn pages() -> Vec<Page> {
    vec![
        ("commands.md", commands::page()),
        ("exit-codes.md", commands::exit_codes()),
        ("resources.md", resources::page()),
        ("names.md", names::page()),
        ("metrics.md", names::metrics()),
    ]
}

/// What every page says first, below its title.
fn opening(title: &str, about: &str) -> String {
    format!("# {title}\n\n*Written by `cargo xtask docs` from the code.*\n\n{about}\n")
}

/// A cell of a table must not end it.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

#[test]
fn the_reference_is_up_to_date() {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    let update = std::env::var_os("JOBFERRY_UPDATE").is_some();
    if update {
        fs::create_dir_all(&directory).unwrap();
    }
    for (file, text) in pages() {
        let path = directory.join(file);
        if update {
            fs::write(&path, &text).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        let first = text.lines().zip(committed.lines()).find(|(now, before)| now != before);
        assert!(committed == text, "docs/reference/{file} is out of date: run `cargo xtask docs`; first: {first:?}");
    }
}
