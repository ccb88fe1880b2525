//! Names that others depend on, from the sources that hold them: each constant with its doc comment.

use std::fmt::Write as _;

use super::{cell, opening};

/// A heading, what it is about, and the module.
const GROUPS: [(&str, &str, &str); 7] = [
    ("Values of spec.managedBy", "", include_str!("../../../api/src/managed_by.rs")),
    ("Labels", "", include_str!("../../../api/src/labels.rs")),
    ("Annotations", "", include_str!("../../../api/src/annotations.rs")),
    ("Finalizers", "", include_str!("../../../api/src/finalizers.rs")),
    (
        "Conditions and their reasons",
        "`jobferry.dev/...` are conditions of Jobs, the others of Workers.",
        include_str!("../../../api/src/conditions.rs"),
    ),
    (
        "Events",
        "Beside these, a reason of the condition `Placed` that is not its normal state is told as an Event of the same name \
         (`NoPolicy`, `InvalidNarrowing`, `Halted`, `WorkerMissing`, `RecordLost`), and warnings about a mirror keep the worker's reason.",
        include_str!("../../../api/src/events.rs"),
    ),
    (
        "Rights",
        "In the group `jobferry.dev`; admission policies ask for them.",
        include_str!("../../../api/src/rights.rs"),
    ),
];

/// A constant and what is said of it.
struct Name {
    value: String,
    says: String,
}

pub(super) fn page() -> String {
    let about = "Labels, annotations, finalizers, conditions, reasons and Events: what programs may rely on.";
    let mut text = opening("Names", about);
    for (title, about, source) in GROUPS {
        let _ = writeln!(text, "\n## {title}");
        if !about.is_empty() {
            let _ = writeln!(text, "\n{about}");
        }
        table(&mut text, &names(source));
    }
    text
}

pub(super) fn metrics() -> String {
    let about = "Served at `/metrics` of the dispatcher as OpenMetrics text. Names of counters are shown without the suffix \
                 `_total` that the exposition adds. No label names a workload. [Operating](../operating.md) says which labels \
                 there are and what to alert on.";
    let mut text = opening("Metrics", about);
    let source = include_str!("../../../api/src/metrics.rs");
    let (metrics, values): (Vec<Name>, Vec<Name>) =
        names(source).into_iter().partition(|name| name.value.starts_with("jobferry_"));
    table(&mut text, &metrics);
    text.push_str("\n## Values of labels\n");
    table(&mut text, &values);
    text
}

fn table(text: &mut String, names: &[Name]) {
    text.push_str("\n| name | |\n| --- | --- |\n");
    for Name { value, says } in names {
        let _ = writeln!(text, "| `{value}` | {} |", cell(says));
    }
}

/// The constants of a module that hold a text.
fn names(source: &str) -> Vec<Name> {
    let (mut names, mut says) = (Vec::new(), String::new());
    for line in source.lines().map(str::trim) {
        if let Some(words) = line.strip_prefix("///") {
            says.push_str(words);
        } else if let Some(rest) = line.strip_prefix("pub const ") {
            let value = rest.split_once(": &str = \"").and_then(|(_, value)| value.split_once("\";"));
            if let Some((value, _)) = value {
                names.push(Name { value: value.to_owned(), says: plain(&std::mem::take(&mut says)) });
            }
            says.clear();
        } else {
            says.clear();
        }
    }
    names
}

/// Links of the API's documentation lead nowhere in a page: ``[`PLACED`]`` becomes `PLACED`.
fn plain(says: &str) -> String {
    says.replace("[`", "`").replace("`]", "`")
}

#[test]
fn a_constant_is_read_with_all_lines_of_its_comment() {
    let source = "//! Module.\n\n/// First\n/// and second.\npub const A: &str = \"a\";\npub const B: u32 = 1;\n/// Next.\npub const C: &str = \"c\";\n";
    let read: Vec<_> = names(source).into_iter().map(|name| format!("{}:{}", name.value, name.says)).collect();
    assert_eq!(read, ["a: First and second.", "c: Next."]);
}
