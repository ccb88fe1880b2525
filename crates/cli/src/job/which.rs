//! Which kind of workloads a command is about, and which of them.

use std::{str::FromStr, sync::Arc};

use anyhow::{Context as _, bail, ensure};
use jobferry_api::WorkloadKind;
use jobferry_core::{
    custom::KindRef,
    kind::{Kind, Table},
};
use jobferry_kubeio as kubeio;
use kube::Client;
use serde::Deserialize;

use crate::install::DEADLINE;

const WORKLOAD_KINDS: &str = "/apis/jobferry.dev/v1alpha1/workloadkinds";

/// A workload as people name it: `train`, or as `-o name` and kubectl print it, `job/train`, `jobset/flow`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    kind: Option<String>,
    name: String,
}

impl FromStr for Named {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (kind, name) = text.split_once('/').map_or((None, text), |(kind, name)| (Some(kind), name));
        if name.is_empty() || name.contains('/') || kind == Some("") {
            return Err("write NAME or KIND/NAME");
        }
        Ok(Self { kind: kind.map(str::to_owned), name: name.to_owned() })
    }
}

/// The kind that some words are about, by its name on the command line or in the words themselves, and the names in them.
/// Without any kind it is Jobs. The first word may be a kind, as in `jobferry get jobsets`.
pub(super) async fn sort_out(
    client: &Client,
    kind: Option<&str>,
    words: &[Named],
) -> anyhow::Result<(KindRef, Vec<String>)> {
    let leads = |word: &Named| kind.is_none() && word.kind.is_none() && is_built_in(&word.name);
    let (first, rest) = match words.split_first() {
        Some((first, rest)) if leads(first) => (Some(first.name.as_str()), rest),
        _ => (kind, words),
    };
    let mut kinds = first.into_iter().chain(rest.iter().filter_map(|word| word.kind.as_deref()));
    let found = match kinds.next() {
        Some(word) => find(client, word).await?,
        None => KindRef::Job,
    };
    for other in kinds {
        ensure!(find(client, other).await?.is(&found), "{other}: one kind at a time");
    }
    Ok((found, rest.iter().map(|word| word.name.clone()).collect()))
}

fn is_built_in(word: &str) -> bool {
    Table::built_in().is_ok_and(|known| !known.called(word).is_empty())
}

/// The kind that people call so: a built-in one, or one of the cluster's own.
async fn find(client: &Client, word: &str) -> anyhow::Result<KindRef> {
    // kubectl calls Jobs so.
    let word = if word.eq_ignore_ascii_case("job.batch") { "jobs.batch" } else { word };
    let mut known = Table::built_in()?;
    if known.called(word).is_empty() {
        add_users_kinds(client, &mut known, word).await?;
    }
    match known.called(word)[..] {
        [(_, kind)] => Ok(reference(kind)),
        [] => bail!(
            "there is no kind {word}: `jobferry kinds list` shows the built-in ones, `kubectl get workloadkinds` others"
        ),
        ref many => {
            let names: Vec<_> = many.iter().map(|(_, kind)| kind.name()).collect();
            bail!("{word} may be {}: name one of them", names.join(" or "))
        }
    }
}

fn reference(kind: &Kind) -> KindRef {
    if kind.group == "batch" { KindRef::Job } else { KindRef::Custom(Arc::new(kind.clone())) }
}

/// Of a kind whose rules make no sense nothing is dispatched: whoever asks for it must hear why.
async fn add_users_kinds(client: &Client, known: &mut Table, word: &str) -> anyhow::Result<()> {
    #[derive(Deserialize)]
    struct List {
        items: Vec<WorkloadKind>,
    }
    let listed: List = kubeio::get(client, WORKLOAD_KINDS, DEADLINE).await.context("cannot list WorkloadKinds")?;
    for kind in &listed.items {
        let spec = &kind.spec;
        let named = [&format!("{}.{}", spec.plural, spec.group), &spec.plural, &spec.kind];
        match known.add(kind) {
            Err(invalid) if named.iter().any(|name| name.eq_ignore_ascii_case(word)) => {
                return Err(invalid).context("nothing of this kind is dispatched");
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_is_named_as_people_and_kubectl_do() {
        let read = |text: &str| text.parse::<Named>().map(|named| (named.kind, named.name));
        assert_eq!(read("train"), Ok((None, "train".into())));
        assert_eq!(read("job.batch/train"), Ok((Some("job.batch".into()), "train".into())));
        for wrong in ["", "job/", "/train", "a/b/c"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn built_in_kinds_are_known_by_every_name_that_people_use() {
        for word in ["jobs", "Job", "jobsets", "JobSet", "rayjobs.ray.io"] {
            assert!(is_built_in(word), "{word}");
        }
        assert!(!is_built_in("train"));
    }
}
