//! Reads recordings.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde_json::Value;

/// Names a directory with other recordings than those in the repository.
const OTHER_RECORDINGS: &str = "JOB_API_RECORDINGS";

/// The lines of one recording of one server.
pub(crate) fn recording(server: &str, name: &str) -> Vec<Value> {
    let ours = || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    let directory = std::env::var_os(OTHER_RECORDINGS).map_or_else(ours, PathBuf::from);
    let path = directory.join(server).join(format!("{name}.jsonl.gz"));
    let file = File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines = BufReader::new(GzDecoder::new(file)).lines();
    lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect()
}
