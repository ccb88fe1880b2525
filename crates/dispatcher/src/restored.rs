//! Was the management cluster restored from a backup? Every mirror bears the version that the manager had when it was
//! placed. A manager that has not come that far yet has forgotten things, placements among them.

use std::{sync::Arc, time::Duration};

use jobferry_core::{action::Alarm, time::WRITE_DEADLINE, workload::Mirror};
use jobferry_kubeio::{self as kubeio, CallError};
use serde::Deserialize;

use crate::{Shared, index::Kept};

/// After a failure to ask the manager. Nothing is placed before it has answered, and without it nothing could be.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Looks at the mirrors of a worker before anything is concluded from them.
pub(crate) async fn check(shared: &Arc<Shared>, mirrors: &[Kept<Mirror>]) {
    let Some(newest) = mirrors.iter().max_by_key(|mirror| mirror.manager_version) else { return };
    let Some(stamp) = newest.manager_version.filter(|stamp| *stamp > shared.index.manager_version()) else { return };
    let version = loop {
        match manager_version(shared).await {
            Ok(version) => break version,
            Err(error) => tracing::warn!(%error, "the management cluster does not tell its version; asking again"),
        }
        tokio::time::sleep(ASK_AGAIN).await;
    };
    shared.index.note_manager_version(version);
    if stamp > version {
        let mirror = format!("{}/{}", newest.namespace, newest.name);
        let alarm = Alarm::ManagerRestored(mirror.clone());
        tracing::error!(%alarm, version, stamp);
        shared.metrics().alarm(&alarm);
        shared.index.find_restored(mirror);
    }
}

/// How far the manager has come: the version of a fresh list.
pub(crate) async fn manager_version(shared: &Shared) -> Result<u64, CallError> {
    #[derive(Deserialize)]
    struct List {
        metadata: ListMeta,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ListMeta {
        resource_version: String,
    }
    let list: List = kubeio::get(&shared.manager, "/apis/batch/v1/jobs?limit=1", WRITE_DEADLINE).await?;
    // What is no number cannot be compared, and proves nothing.
    Ok(list.metadata.resource_version.parse().unwrap_or(0))
}
