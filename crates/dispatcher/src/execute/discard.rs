//! Deleting a mirror that a worker made something unusable of.

use std::sync::Arc;

use jobferry_core::{
    action::{MirrorRef, Pods},
    claim::Misfit,
    record::Placement,
    refusal::Ground,
    workload::Workload,
};

use super::{
    Asked, Unfinished, decode, decode_mirror, failed,
    mirror::{learn, refuse, send_delete},
    read_raw,
};
use crate::Shared;

/// How often a mirror that is to be discarded is looked at again, if others write to it meanwhile.
const TRIES: u32 = 5;

/// Deletes the mirror, and remembers that the worker is not to be asked again: it never counted. Unless it has come to its
/// end, or was put right, before the delete met it.
pub(super) async fn discard(
    shared: &Arc<Shared>,
    asked: Asked<'_>,
    workload: &Workload,
    placement: &Placement,
    mirror: &MirrorRef,
    misfit: Misfit,
) -> Result<(), Unfinished> {
    let (uid, worker) = (&workload.uid, &placement.worker);
    shared.index.discard(uid, worker, &mirror.uid, &misfit);
    let mut mirror = mirror.clone();
    for _ in 0..TRIES {
        match send_delete(asked.client, &mirror, Pods::First).await {
            Err(error) if error.is_conflict() => {}
            Err(error) if !error.is_not_found() => return Err(failed("delete the altered mirror", uid, &error)),
            _ => {
                refuse(shared, uid, placement, Ground::Altered, misfit.to_string());
                return Ok(());
            }
        }
        // It was written to since.
        match read_raw(asked.client, &mirror.kind.object(&mirror.namespace, &mirror.name)).await {
            Ok(answer) => {
                let found = decode_mirror(shared, asked, &mirror.kind, &answer)?;
                if found.uid != mirror.uid {
                    return Err(Unfinished::Again);
                }
                if misfit.is_mended(&mirror.kind, &decode(&answer)?, uid, &shared.origin) {
                    shared.index.keep(uid);
                    return learn(shared, &mirror.kind, asked, &answer);
                }
                if found.is_finished() {
                    return learn(shared, &mirror.kind, asked, &answer);
                }
                mirror.resource_version = found.resource_version;
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(failed("look at the altered mirror", uid, &error)),
        }
    }
    Err(Unfinished::Again)
}
