//! Kinds that users brought in: of one whose rules make no sense nothing is dispatched, and its users would wait for ever.

use jobferry_api::WorkloadKind;
use jobferry_core::kind::Table;
use jobferry_kubeio as kubeio;
use kube::Client;
use serde::Deserialize;

use super::Finding;
use crate::install::DEADLINE;

/// A finding on every WorkloadKind. Whoever may not read them has none.
pub(super) async fn examine(client: &Client) -> Vec<Finding> {
    #[derive(Deserialize)]
    struct List {
        items: Vec<WorkloadKind>,
    }
    let listed = kubeio::get::<List>(client, "/apis/jobferry.dev/v1alpha1/workloadkinds", DEADLINE).await;
    match (listed, Table::built_in()) {
        (Ok(listed), Ok(mut known)) => listed.items.iter().map(|kind| judge(&mut known, kind)).collect(),
        _ => Vec::new(),
    }
}

fn judge(known: &mut Table, kind: &WorkloadKind) -> Finding {
    let what = format!("kind {}", kind.metadata.name.as_deref().unwrap_or_default());
    match known.add(kind) {
        Ok(()) => Finding::good(what, "its rules make sense"),
        Err(invalid) => {
            let problems: Vec<_> = invalid.problems.iter().map(ToString::to_string).collect();
            Finding::bad(what, problems.join("; "), "correct it; `jobferry kinds try -f` tries it out before")
        }
    }
}
