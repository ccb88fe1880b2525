//! Where the binaries and manifests of operators are.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The environment variable that lists their directories, as `PATH` does. `cargo xtask test` sets it.
pub const OPERATORS_VARIABLE: &str = "JOBFERRY_OPERATORS";

/// An operator as it was built: a directory with its binary and its manifests.
#[derive(Debug, Clone)]
pub struct OperatorBuild {
    directory: PathBuf,
    binary: PathBuf,
}

/// There is no such operator here.
#[derive(Debug, thiserror::Error)]
#[error(
    "no operator `{name}` in {OPERATORS_VARIABLE}: run the tests by `cargo xtask test`, or set it to what \
     `cargo xtask testbed build --operator {name}` prints"
)]
pub struct OperatorMissing {
    name: String,
}

impl OperatorBuild {
    /// The operator of that name in the directories that [`OPERATORS_VARIABLE`] lists.
    pub fn find(name: &str) -> Result<Self, OperatorMissing> {
        let directories = std::env::var_os(OPERATORS_VARIABLE).unwrap_or_default();
        Self::find_in(std::env::split_paths(&directories), name)
    }

    fn find_in(directories: impl IntoIterator<Item = PathBuf>, name: &str) -> Result<Self, OperatorMissing> {
        let builds = directories.into_iter().map(|directory| Self { binary: directory.join(name), directory });
        let mut found = builds.filter(|build| build.binary.is_file());
        found.next().ok_or_else(|| OperatorMissing { name: name.to_owned() })
    }

    /// The path of its binary.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// All documents of a file of its manifests, or of the files in a directory of them.
    pub fn manifests(&self, path: &str) -> io::Result<Vec<Value>> {
        let path = self.directory.join(path);
        let mut files = vec![path.clone()];
        if path.is_dir() {
            files = fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
            files.sort();
        }
        let mut documents = Vec::new();
        for file in files {
            documents.extend(parse(&fs::read_to_string(file)?)?);
        }
        Ok(documents)
    }
}

/// The documents of a YAML text.
pub(super) fn parse(text: &str) -> io::Result<Vec<Value>> {
    let parts = text.split("\n---").map(|part| part.trim_start_matches("---").trim()).filter(|part| !part.is_empty());
    let documents: io::Result<Vec<Value>> =
        parts.map(|part| serde_saphyr::from_str(part).map_err(io::Error::other)).collect();
    // Some texts begin with a document that is nothing but comments.
    documents.map(|documents| documents.into_iter().filter(|document| !document.is_null()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_is_found_by_its_binary() {
        let (empty, full) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(full.path().join("jobset"), "").unwrap();
        let directories = [empty.path().to_owned(), full.path().to_owned()];
        let build = OperatorBuild::find_in(directories.clone(), "jobset").unwrap();
        assert_eq!(build.binary(), full.path().join("jobset"));
        let missing = OperatorBuild::find_in(directories, "trainer").unwrap_err().to_string();
        assert!(missing.contains("cargo xtask testbed build --operator trainer"), "{missing}");
    }

    #[test]
    fn every_document_of_a_text_is_read() {
        let documents = parse("# A license.\n---\nkind: A\n---\nkind: B\n").unwrap();
        assert_eq!(documents.iter().map(|document| &document["kind"]).collect::<Vec<_>>(), ["A", "B"]);
    }
}
