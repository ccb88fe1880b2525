//! Reasons of the Events that `kubectl describe job` shows. Warnings of a mirror are repeated with the worker's own
//! reason, for example `FailedCreate`.

/// Who tells them.
pub const COMPONENT: &str = "jobferry-dispatcher";

/// A worker was chosen.
pub const PLACED: &str = "Placed";
/// No worker fits now.
pub const WAITING_FOR_WORKER: &str = "WaitingForWorker";
/// The worker that was chosen refuses the workload.
pub const REFUSED: &str = "Refused";
/// The workload leaves a worker that refused it.
pub const MOVING: &str = "Moving";
/// The worker refuses the user's last edit.
pub const EDIT_REFUSED: &str = "EditRefused";
/// Somebody deleted the mirror on the worker; the workload failed.
pub const MIRROR_DELETED: &str = "MirrorDeleted";
/// The worker was lost for too long; the workload failed.
pub const WORKER_LOST: &str = "WorkerLost";
/// The end of the mirror was copied.
pub const FINISHED: &str = "Finished";
/// Somebody else acts on a delegated workload; it is left alone.
pub const FOREIGN_CONTROLLER: &str = "ForeignController";
/// On the canary: this cluster does not leave delegated Jobs alone, so none is placed.
pub const DELEGATION_BROKEN: &str = "DelegationBroken";
/// On a Worker: its credential ends soon and could not be renewed.
pub const CREDENTIAL_EXPIRES: &str = "CredentialExpires";
