//! `jobferry conformance check`, the real binary, as authors of controllers run it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::process::{Command, Output, Stdio};

fn check(arguments: &[&str], input: &str) -> (Option<i32>, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_jobferry"))
        .args(["conformance", "check"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

const LEGAL: &str =
    r#"{"id":"start","spec":{"parallelism":1},"newStatus":{"startTime":"2026-01-01T10:00:00Z","active":1}}"#;
const MOVED_START: &str =
    r#"{"id":2,"oldStatus":{"startTime":"2026-01-01T10:00:00Z"},"newStatus":{"startTime":"2026-01-01T11:00:00Z"}}"#;

#[test]
fn each_line_gets_one_answer_and_a_summary_goes_to_stderr() {
    let (code, stdout, stderr) = check(&["-"], &format!("{LEGAL}\n{MOVED_START}\n"));
    assert_eq!(code, Some(0));
    assert_eq!(
        stdout,
        "{\"id\":\"start\",\"errors\":[]}\n{\"id\":2,\"errors\":[{\"type\":\"Required\",\"field\":\"status.startTime\"}]}\n"
    );
    assert_eq!(stderr, "Kubernetes 1.35: 1 legal, 1 illegal, 0 malformed\n");
}

#[test]
fn the_rules_are_those_of_the_named_server() {
    let (_, stdout, _) = check(&["--server", "1.36", "-"], MOVED_START);
    assert!(stdout.contains(r#""type":"Invalid""#), "{stdout}");
    let (code, _, stderr) = check(&["--server", "1.12", "-"], "");
    assert_eq!(code, Some(2));
    assert!(stderr.contains("1.32 to 1.37"), "{stderr}");
}

#[test]
fn strict_fails_on_illegal_transitions() {
    assert_eq!(check(&["--strict", "-"], LEGAL).0, Some(0));
    assert_eq!(check(&["--strict", "-"], MOVED_START).0, Some(1));
}

#[test]
fn malformed_lines_are_answered_and_the_run_goes_on() {
    let (code, stdout, stderr) =
        check(&["-"], &format!("nonsense\n{{\"id\":7,\"newStatus\":{{\"active\":[]}}}}\n{LEGAL}\n"));
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!((code, lines.len()), (Some(2), 3));
    assert!(lines[0].starts_with(r#"{"id":null,"malformed":"line 1: "#), "{stdout}");
    assert!(lines[1].starts_with(r#"{"id":7,"malformed":"line 2: newStatus.active: "#), "{stdout}");
    assert_eq!(lines[2], r#"{"id":"start","errors":[]}"#);
    assert_eq!(stderr, "Kubernetes 1.35: 1 legal, 0 illegal, 2 malformed\n");
}

#[test]
fn a_missing_file_is_named() {
    let (code, _, stderr) = check(&["nowhere.jsonl"], "");
    assert_eq!(code, Some(2));
    assert!(stderr.contains("nowhere.jsonl"), "{stderr}");
}
