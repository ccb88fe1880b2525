//! What the documentation points to is there.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
};

fn pages(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// The targets of `[words](target)` that are files.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let targets = targets.map(|target| target.split('#').next().unwrap_or_default());
    targets.filter(|target| !target.is_empty() && !target.contains("://"))
}

#[test]
fn every_link_leads_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    pages(&root.join("docs"), &mut found);
    let mut broken = Vec::new();
    for page in &found {
        let text = fs::read_to_string(page).unwrap();
        let gone = links(&text).filter(|target| !page.parent().unwrap().join(target).exists());
        broken.extend(gone.map(|target| format!("{}: {target}", page.display())));
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// A page that no table of contents names is not found by anybody.
#[test]
fn every_page_is_in_the_table_of_contents() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let contents = fs::read_to_string(docs.join("README.md")).unwrap();
    let mut found = Vec::new();
    pages(&docs, &mut found);
    for page in found {
        let name = page.strip_prefix(&docs).unwrap().to_str().unwrap();
        assert!(name == "README.md" || contents.contains(&format!("({name})")), "{name}");
    }
}
