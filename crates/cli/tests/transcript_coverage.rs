//! Every command has a transcript of every way in which it can go wrong, or a reason why it cannot.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")]

mod support;

use std::{collections::BTreeSet, fs};

use support::{jobferry, succeed, transcript::steps};

/// A way in which commands go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    NoCluster,
    WrongContext,
    NoPermission,
    UnknownName,
    AlreadyJoined,
    UnreachableWorker,
    ExpiredToken,
    DropsManagedBy,
}
use Case::{
    AlreadyJoined, DropsManagedBy, ExpiredToken, NoCluster, NoPermission, UnknownName, UnreachableWorker, WrongContext,
};

const EVERY: &[Case] = &[
    NoCluster,
    WrongContext,
    NoPermission,
    UnknownName,
    AlreadyJoined,
    UnreachableWorker,
    ExpiredToken,
    DropsManagedBy,
];

impl Case {
    /// The transcript that shows it, and what every command that meets it prints (one of these).
    const fn transcript(self) -> (&'static str, &'static [&'static str]) {
        match self {
            NoCluster => ("no-cluster", &["no cluster to talk to", "Connection refused"]),
            WrongContext => ("wrong-context", &["has no context nowhere"]),
            NoPermission => ("real-no-permission", &["403 Forbidden", "you may not", "a Job cannot be created here"]),
            UnknownName => ("unknown-name", &["not found", "there is no worker nobody"]),
            AlreadyJoined => ("already-joined", &["is joined already"]),
            UnreachableWorker => {
                ("unreachable-worker", &["Connection refused", "Lost", "not connected", "worker/gone"])
            }
            ExpiredToken => ("real-expired-token", &["401 Unauthorized"]),
            DropsManagedBy => ("old-server", &["drops spec.managedBy", "DROPS spec.managedBy"]),
        }
    }
}

/// Which commands cannot go wrong in which ways, and why.
const CANNOT: [(&[&str], &[Case], &str); 7] = [
    (
        &["kinds list", "kinds describe", "kinds try", "lint", "conformance check", "crds", "completion"],
        EVERY,
        "it asks no cluster",
    ),
    (
        &["demo", "up", "status", "down"],
        EVERY,
        "its clusters are its own: fleet.txt and demo.txt show what can go wrong",
    ),
    (
        &["submit", "doctor", "version", "dispatcher", "job-controller", "install", "worker list"],
        &[UnknownName],
        "it is given no name of something that must be there",
    ),
    (
        &[
            "get",
            "explain",
            "submit",
            "wait",
            "logs",
            "doctor",
            "version",
            "dispatcher",
            "job-controller",
            "install",
            "worker list",
            "worker describe",
            "worker cordon",
            "worker uncordon",
            "worker leave",
            "worker forget",
        ],
        &[AlreadyJoined],
        "it joins nothing",
    ),
    (&["get", "submit", "wait", "version", "install", "job-controller"], &[UnreachableWorker], "it asks no worker"),
    (&["dispatcher"], &[UnreachableWorker], "it goes on without that worker, and tells it on the Worker"),
    (
        &[
            "get",
            "explain",
            "wait",
            "logs",
            "worker list",
            "worker describe",
            "worker cordon",
            "worker uncordon",
            "worker leave",
            "worker forget",
        ],
        &[DropsManagedBy],
        "it delegates nothing; whoever does is told",
    ),
];

fn why_not(command: &str, case: Case) -> Option<&'static str> {
    let row = CANNOT.iter().find(|(commands, cases, _)| commands.contains(&command) && cases.contains(&case));
    row.map(|(_, _, reason)| *reason)
}

/// The commands that do something: `get`, `worker list`.
fn commands(above: &[&str]) -> Vec<String> {
    let help = succeed(jobferry(&[above, &["--help"]].concat()));
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let indented = listed.filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    let names: Vec<&str> =
        indented.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect();
    if names.is_empty() {
        return vec![above.join(" ")];
    }
    names.into_iter().flat_map(|name| commands(&[above, &[name]].concat())).collect()
}

/// Whether a line runs this command.
fn runs(line: &str, command: &str) -> bool {
    let words: Vec<&str> = line.split([' ', '(', ')', ';', '|', '&']).filter(|word| !word.is_empty()).collect();
    let wanted: Vec<&str> = std::iter::once("jobferry").chain(command.split(' ')).collect();
    words.windows(wanted.len()).any(|window| window == wanted)
}

fn read(transcript: &str) -> String {
    let path = format!("{}/tests/transcripts/{transcript}.txt", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn shows(command: &str, case: Case) -> bool {
    let (file, marks) = case.transcript();
    let told = |printed: &str| marks.iter().any(|mark| printed.contains(mark));
    steps(&read(file)).iter().any(|(line, printed)| runs(line, command) && told(printed))
}

#[test]
fn every_command_shows_every_way_in_which_it_can_go_wrong() {
    let commands = commands(&[]);
    assert!(commands.len() > 20, "{commands:?}");
    let mut wrong = Vec::new();
    for (command, case) in commands.iter().flat_map(|command| EVERY.iter().map(move |case| (command, *case))) {
        match (shows(command, case), why_not(command, case)) {
            (false, None) => wrong.push(format!("{}.txt lacks `jobferry {command}`", case.transcript().0)),
            (true, Some(why)) => wrong.push(format!("{command} shows {case:?}, though {why:?}")),
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let known: BTreeSet<&str> = commands.iter().map(String::as_str).collect();
    let named: BTreeSet<&str> = CANNOT.iter().flat_map(|(commands, _, _)| commands.iter().copied()).collect();
    assert!(named.is_subset(&known), "there is no {:?}", named.difference(&known));
}

#[test]
fn every_command_is_shown_when_it_works() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transcripts");
    let files = fs::read_dir(directory).unwrap().flatten().filter_map(|file| fs::read_to_string(file.path()).ok());
    let texts: Vec<String> = files.collect();
    let good = |printed: &str| !printed.contains("(exit ");
    let works = |command: &str| {
        let mut steps = texts.iter().flat_map(|text| steps(text));
        steps.any(|(line, printed)| runs(line, command) && good(&printed))
    };
    let missing: Vec<String> = commands(&[]).into_iter().filter(|command| !works(command)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
