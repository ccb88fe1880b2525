//! What a plan consists of.

use std::time::Duration;

use job_api::Errors;
use k8s_openapi::api::batch::v1::JobStatus;
use serde_json::Value;

use crate::{
    claim::Misfit,
    custom::KindRef,
    forward::Digest,
    knowledge::Activity,
    record::Placement,
    workload::{Mirror, Told},
};

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Write where the workload goes, before anything is created there.
    RecordPlacement(Placement),
    /// Create the mirror of this placement on its worker.
    CreateMirror(Placement),
    /// Read the mirror's name on the worker, fresh: is it absent?
    ProveAbsent {
        /// The worker to ask.
        worker: String,
        /// The epoch that the proof is for.
        epoch: u32,
    },
    /// Look for a mirror in the cluster that took the place of its worker.
    LookForStray {
        /// The worker by whose name that cluster answers.
        worker: String,
    },
    /// Read the workload on the manager, fresh: is it gone?
    ProveGone {
        /// The namespace of the workload.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The manager's view is older than what a worker shows: read the workload again.
    ReadAgain,
    /// Write the status, and with it the record if it changed.
    WriteStatus {
        /// The next status.
        status: Box<JobStatus>,
        /// The record to write along.
        placement: Option<Placement>,
    },
    /// Write the status of a workload of another kind than Job.
    WriteCustomStatus {
        /// The next status, whole.
        status: Box<Value>,
    },
    /// Tell people why the workload waits.
    Tell(Told),
    /// Send the user's last edit to the mirror.
    ForwardEdit {
        /// The worker that has it.
        worker: String,
        /// The mirror.
        mirror: MirrorRef,
        /// The fingerprint of what is forwarded.
        digest: Digest,
    },
    /// Delete a mirror, by its UID.
    DeleteMirror {
        /// The worker that has it.
        worker: String,
        /// The mirror.
        mirror: MirrorRef,
        /// What becomes of its pods.
        pods: Pods,
    },
    /// Delete a mirror that the worker made something unusable of, and remember why: it never counted.
    DiscardMirror {
        /// The placement that it was created for.
        placement: Placement,
        /// The mirror.
        mirror: MirrorRef,
        /// What is wrong with it.
        misfit: Misfit,
    },
    /// Delete a finished workload of another kind than Job, whose time to live is over.
    DeleteWorkload,
    /// Nothing before this (monotonic) time.
    WakeAt(Duration),
    /// Something that should never be: to be logged and counted.
    Alarm(Alarm),
}

impl Action {
    /// Whether it is a write to the user's workload.
    pub const fn writes_workload(&self) -> bool {
        matches!(
            self,
            Self::RecordPlacement(_)
                | Self::WriteStatus { .. }
                | Self::WriteCustomStatus { .. }
                | Self::Tell(_)
                | Self::DeleteWorkload
        )
    }
}

/// What becomes of a deleted mirror's pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pods {
    /// They are deleted after it.
    Later,
    /// They are deleted before it: it holds its name until the last one is gone, which is the proof that a move needs.
    First,
}

/// What it takes to name exactly one mirror.
#[derive(Debug, Clone, PartialEq)]
pub struct MirrorRef {
    /// Its kind.
    pub kind: KindRef,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The version that the decision was made on. What has changed since (it may have finished) is looked at again.
    pub resource_version: String,
}

impl From<&Mirror> for MirrorRef {
    fn from(mirror: &Mirror) -> Self {
        Self {
            kind: mirror.kind(),
            namespace: mirror.namespace.clone(),
            name: mirror.name.clone(),
            uid: mirror.uid.clone(),
            resource_version: mirror.resource_version.clone(),
        }
    }
}

/// Something that should never be.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Alarm {
    /// The projection made a status that the API server would reject. It is not written.
    #[error("the projected status breaks a rule of the Job API and is held back: {0}")]
    IllegalStatus(Errors),
    /// The manager is older than the mirrors that it made: it was restored from a backup, and does not know what is an
    /// orphan.
    #[error("the manager's version is below that of mirror {0}: was it restored from a backup? No orphan is deleted")]
    ManagerRestored(String),
    /// Somebody else acts on a workload of ours, on the manager.
    #[error(
        "{0}: dispatching it stops, and a mirror that it has is left alone; stop that controller or let it heed managedBy, \
         then submit the workload again"
    )]
    ActedOn(Activity),
    /// The record on the workload cannot be read.
    #[error("the placement record is unreadable or lost; the workload is left alone until all workers were seen")]
    UnreadableRecord,
}
