//! `jobferry kinds try`: what would become of objects, without any cluster.

use std::{fmt::Write as _, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, ensure};
use clap::ValueEnum;
use jobferry_core::{
    kind::{Delegation, Kind, Source, Standing, Table, in_queue},
    record::Placement,
};
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::{called, describe::described, read};
use crate::dispatcher::wall_clock;

#[derive(clap::Args)]
#[command(after_help = "Exit codes: 0 all would be dispatched, 1 one would not, or an error.")]
pub(crate) struct Args {
    /// Manifests of objects, and of WorkloadKinds that are not built in; - reads standard input. An object that comes twice
    /// was edited in between
    #[arg(short, long, value_name = "FILE", required = true)]
    filename: Vec<PathBuf>,
    /// How to print what was found
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Output,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    /// For people
    Text,
    /// A JSON list, one entry an object
    Json,
}

/// What would become of an object.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Trial {
    object: String,
    kind: String,
    built_in: bool,
    dispatched: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    why_not: Option<String>,
    suspended: bool,
    standing: String,
    /// What must exist on the worker.
    needs: Vec<String>,
    /// Fields whose edits are forwarded, beside labels and annotations.
    forwarded: Vec<String>,
    mirror: Value,
    /// The patch that an edit leads to; null if nothing of it is forwarded. Absent: there was no edit.
    #[serde(skip_serializing_if = "Option::is_none")]
    edit: Option<Value>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (known, documents) = read(&args.filename)?;
    let brought: Vec<_> = known.iter().filter(|(source, _)| *source == Source::User).collect();
    if documents.is_empty() && !brought.is_empty() {
        return Ok(only_kinds(args.output, &brought));
    }
    let mut objects: Vec<(Value, Option<Value>)> = Vec::new();
    for document in documents.into_iter().map(stored) {
        // What is in a file beside workloads (a definition, a runtime) is not tried.
        if known.of(&document).is_none() {
            eprintln!("{} is left out: {}", called(&document), unknown(&known, &document));
            continue;
        }
        match objects.iter_mut().find(|(first, _)| is_same(first, &document)) {
            Some((_, edited)) => *edited = Some(document),
            None => objects.push((document, None)),
        }
    }
    ensure!(!objects.is_empty(), "there is no workload in these files: `jobferry kinds list` shows the kinds");
    let mut trials = Vec::new();
    for (object, edited) in &objects {
        let (source, kind) = known.of(object).context("a kind that was just there")?;
        trials.push(Trial::of(source, kind, object, edited.as_ref(), wall_clock())?);
    }
    match args.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&trials)?),
        Output::Text => {
            let texts = trials.iter().map(Trial::to_text).collect::<anyhow::Result<Vec<_>>>()?;
            print!("{}", texts.join("\n"));
        }
    }
    Ok(if trials.iter().all(|trial| trial.dispatched) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Kinds without an object: what can be said is that their rules make sense, and what they say.
fn only_kinds(output: Output, kinds: &[(Source, &Kind)]) -> ExitCode {
    let texts: Vec<_> = kinds.iter().map(|(source, kind)| described(*source, kind)).collect();
    match output {
        Output::Json => println!("[]"),
        Output::Text => print!("{}", texts.join("\n")),
    }
    eprintln!("the rules make sense; give an object too (-f object.yaml) to see what would become of it");
    ExitCode::SUCCESS
}

fn is_same(one: &Value, other: &Value) -> bool {
    let key = |object: &Value| {
        (object["kind"].clone(), object["metadata"]["namespace"].clone(), object["metadata"]["name"].clone())
    };
    key(one) == key(other)
}

/// Why nothing is known of an object's kind.
fn unknown(known: &Table, object: &Value) -> String {
    let (kind, version) =
        (object["kind"].as_str().unwrap_or_default(), object["apiVersion"].as_str().unwrap_or_default());
    let same = known.called(kind);
    match same.first() {
        Some((_, other)) => format!("{kind} is known as {}, not as {version}", other.api_version()),
        None => "not a kind that is dispatched".to_owned(),
    }
}

/// A manifest has not all that a manager would store with it.
fn stored(mut object: Value) -> Value {
    let defaults = [("namespace", "default"), ("uid", "UID-OF-THE-OBJECT"), ("resourceVersion", "1")];
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for (field, value) in defaults {
            metadata.entry(field).or_insert_with(|| value.into());
        }
    }
    object
}

impl Trial {
    fn of(source: Source, kind: &Kind, object: &Value, edited: Option<&Value>, now: Timestamp) -> anyhow::Result<Self> {
        let placement = Placement::new("WORKER".into(), String::new(), 1, now);
        let mirror = kind.mirror_of(object, &placement, "UID-OF-THE-MANAGER").with_context(|| called(object))?;
        let edit = match edited {
            None => None,
            Some(edited) => {
                let patch = kind.edit(edited, &mirror).with_context(|| called(edited))?;
                Some(patch.map_or(Value::Null, without_preconditions))
            }
        };
        let now_stands = edited.unwrap_or(object);
        let (dispatched, why_not) = match kind.delegation(object) {
            Delegation::Ours => (true, None),
            Delegation::Queued(queue) => (false, Some(in_queue(&queue))),
            Delegation::Refused(why) => (false, Some(why)),
            Delegation::Elsewhere => (false, Some(format!("it stays where it is; set {}", kind.how_to_delegate()))),
        };
        let standing = match kind.standing(now_stands, now) {
            Standing::Unfinished => "unfinished".to_owned(),
            Standing::Settling { until, outcome } => {
                format!("{outcome:?}, if it stays so until {until}").to_lowercase()
            }
            Standing::Finished(outcome) => format!("finished: {outcome:?}").to_lowercase(),
        };
        let forwarded = kind.forward.iter().filter(|field| field.applies(now_stands));
        let needs = kind.requirements(object).into_iter().map(|needed| format!("{} {}", needed.what, needed.name));
        Ok(Self {
            object: called(object),
            kind: kind.name(),
            built_in: source == Source::BuiltIn,
            dispatched,
            why_not,
            suspended: kind.is_suspended(now_stands),
            standing,
            needs: needs.collect(),
            forwarded: forwarded.map(|field| field.path.to_string()).collect(),
            mirror,
            edit,
        })
    }

    fn to_text(&self) -> anyhow::Result<String> {
        let yes = |yes: bool| if yes { "yes" } else { "no" };
        let mut text = format!("{}\n", self.object);
        let dispatched = self.why_not.as_ref().map_or("yes".to_owned(), |why| format!("no: {why}"));
        let source = if self.built_in { "built in" } else { "not built in" };
        let mut lines = vec![
            ("kind", format!("{} ({source})", self.kind)),
            ("dispatched", dispatched),
            ("suspended", yes(self.suspended).to_owned()),
            ("standing", self.standing.clone()),
        ];
        lines.extend(self.needs.iter().map(|needed| ("needs", format!("{needed}, on the worker"))));
        lines.extend(self.forwarded.iter().map(|place| ("forwarded", place.clone())));
        for (title, line) in lines {
            let _ = writeln!(text, "  {title:<12} {line}");
        }
        let _ = write!(text, "  mirror\n{}", indented(&self.mirror)?);
        match &self.edit {
            None => {}
            Some(Value::Null) => text.push_str("  edit         nothing of it is forwarded\n"),
            Some(patch) => {
                let _ = write!(text, "  edit\n{}", indented(patch)?);
            }
        }
        Ok(text)
    }
}

/// A mirror that was never created has no uid and no version.
fn without_preconditions(mut patch: Value) -> Value {
    if let Some(metadata) = patch.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|_, value| !value.is_null());
    }
    patch
}

fn indented(value: &Value) -> anyhow::Result<String> {
    let lines = serde_saphyr::to_string(value)?;
    Ok(lines.lines().flat_map(|line| ["    ", line, "\n"]).collect())
}
