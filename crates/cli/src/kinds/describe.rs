//! `jobferry kinds describe`: the rules of one kind, in words.

use std::fmt::Write as _;

use anyhow::bail;
use jobferry_api::{Admits, Guard, TtlOnManager, managed_by};
use jobferry_core::kind::{Kind, Source};

use super::{Files, operator, read};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The kind: JobSet, jobsets or jobsets.jobset.x-k8s.io
    kind: String,
    #[command(flatten)]
    files: Files,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let (known, _) = read(&args.files.filename)?;
    let (source, kind) = match known.called(&args.kind)[..] {
        [found] => found,
        [] => bail!("there is no kind {}: `jobferry kinds list` shows all, -f adds one", args.kind),
        ref many => {
            let names: Vec<_> = many.iter().map(|(_, kind)| kind.name()).collect();
            bail!("{} may be {}: name one of them", args.kind, names.join(" or "))
        }
    };
    print!("{}", described(source, kind));
    Ok(())
}

/// All rules of a kind, one a line.
pub(super) fn described(source: Source, kind: &Kind) -> String {
    let origin = if source == Source::User { "not built in" } else { "built in" };
    let mut text = format!("{:<20} {} ({origin})\n", kind.kind, kind.name());
    for (title, lines) in rules(kind) {
        for (index, line) in lines.iter().enumerate() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{:<20} {line}", if index == 0 { title } else { "" });
        }
    }
    text
}

fn rules(kind: &Kind) -> Vec<(&'static str, Vec<String>)> {
    let words = |list: &[jobferry_core::kind::Field]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    let mut endings: Vec<_> = kind.endings().into_iter().map(|(how, when)| format!("{how:?}: {when}")).collect();
    if endings.is_empty() {
        endings.push("never: until it is deleted".to_owned());
    }
    let mut forwarded = words(&kind.forward);
    forwarded.push("labels and annotations".to_owned());
    let ttl = kind.times_to_live().into_iter().map(|path| match kind.ttl_on_manager {
        TtlOnManager::Cluster => format!("{path}, by the cluster itself"),
        TtlOnManager::Dispatcher => format!("{path}, by the dispatcher"),
    });
    vec![
        ("version", vec![kind.api_version()]),
        ("handed over by", vec![kind.how_to_delegate()]),
        ("managedBy", managed_by_rules(kind)),
        ("operator on manager", vec![operator(kind)]),
        ("suspended when", kind.suspended.iter().map(ToString::to_string).collect()),
        ("ends", endings),
        ("time to live", ttl.collect()),
        ("not on the mirror", words(&kind.strip)),
        ("edits forwarded", forwarded),
        ("but not", words(&kind.worker_owned)),
        ("refused when", kind.refusals()),
        ("needs on the worker", kind.requirement_rules()),
        ("operator creates", kind.children.iter().map(ToString::to_string).collect()),
        ("status left out", words(&kind.status.leave_out)),
        ("holds on the worker", kind.status.worker_references.iter().map(ToString::to_string).collect()),
    ]
}

fn managed_by_rules(kind: &Kind) -> Vec<String> {
    let Some(field) = &kind.managed_by else { return vec!["the kind has no such field".to_owned()] };
    let mut lines = Vec::new();
    if let Some(own) = &field.operator {
        lines.push(format!("{own} means the kind's own operator"));
    }
    if field.admits == Admits::MultiKueue {
        let own = managed_by::MULTIKUEUE;
        lines.push(format!("its admission takes no other value than {own} and the operator's own"));
    }
    lines.push(match field.guard {
        Guard::Everything => "fixed at creation by the kind's own admission".to_owned(),
        Guard::Change => "can be added and removed later: nothing of the kind's own prevents it".to_owned(),
        Guard::Nothing => "can be added, changed and removed later: nothing of the kind's own prevents it".to_owned(),
    });
    lines
}
