//! Condition types and reasons on the user's workload and on Workers.

/// For people: True says on which worker and why, False says why not yet.
pub const PLACED: &str = "jobferry.dev/Placed";
/// For the dispatcher: the placement record, as JSON in the message. Users with the `edit` role cannot write status, so
/// they can neither forge nor remove it.
pub const PLACEMENT: &str = "jobferry.dev/Placement";

/// Reason of `Placed=True`.
pub const REASON_PLACED: &str = "Placed";
/// Reason of `Placed=False`: no worker fits now; the message counts the reasons.
pub const REASON_NO_WORKER_FITS: &str = "NoWorkerFits";
/// Reason of `Placed=False`: the workload's own narrowing cannot be read.
pub const REASON_INVALID_NARROWING: &str = "InvalidNarrowing";
/// Reason of `Placed=False`: a workload like this cannot be dispatched; the message says why.
pub const REASON_NOT_DISPATCHABLE: &str = "NotDispatchable";
/// Reason of `Placed=False`: no DispatchPolicy lets it be placed.
pub const REASON_NO_POLICY: &str = "NoPolicy";
/// Reason of `Placed=False`: the dispatcher places nothing at the moment.
pub const REASON_HALTED: &str = "Halted";
/// Reason of `Placed=False`: the worker that was chosen refuses to take the workload.
pub const REASON_REFUSED: &str = "Refused";
/// Reason of `Placed=True`: the worker refuses the user's last edit; the mirror goes on as it was.
pub const REASON_EDIT_REFUSED: &str = "EditRefused";
/// Reason of `Placed=True`: its worker is not registered any more.
pub const REASON_WORKER_MISSING: &str = "WorkerMissing";
/// Reason of `Placed=True`: its worker answers, but does not have its kind any more, or does not let us look at it.
pub const REASON_KIND_MISSING: &str = "KindMissing";
/// Reason of `Placed=True`: the record of its placement is unreadable or gone, and the workload is left alone. Of
/// `Placed=False`: only its label says that it was placed, on a worker that is out of sight.
pub const REASON_RECORD_LOST: &str = "RecordLost";
/// Reason of `Placed=True` of a workload of another kind than Job: it has ended. Its time to live counts from when this was
/// told.
pub const REASON_FINISHED: &str = "Finished";
/// Reason of `Placed=False`: the workload leaves a worker that refused it.
pub const REASON_MOVING: &str = "Moving";
/// Reason of a Job that failed because somebody deleted its mirror on the worker before its end was seen.
pub const REASON_MIRROR_DELETED: &str = "MirrorDeleted";
/// Reason of a Job that failed because its worker did not answer for as long as its policy allows.
pub const REASON_WORKER_LOST: &str = "WorkerLost";
/// Reason, whether it is placed or not, of a workload of another kind than Job: somebody else acts on it here, and it is left
/// alone.
pub const REASON_FOREIGN_CONTROLLER: &str = "ForeignController";

/// On a Worker: the dispatcher has a live watch on it.
pub const CONNECTED: &str = "Connected";
/// On a Worker: its credentials and identity are fit to be used.
pub const ACCEPTED: &str = "Accepted";
/// Reason of a Worker's [`ACCEPTED`]: it may be used.
pub const REASON_ACCEPTED: &str = "Accepted";
/// Reason of `Accepted=False` on a WorkloadKind: its rules make no sense, or contradict a built-in kind.
pub const REASON_INVALID_RULES: &str = "InvalidRules";
/// Reason of a Worker's conditions: it must not be used until somebody changes something.
pub const REASON_UNFIT: &str = "Refused";
/// Reason of a Worker's [`CONNECTED`]: its mirrors are watched.
pub const REASON_WATCHING: &str = "Watching";
/// Reason of a Worker's [`CONNECTED`]: it does not answer.
pub const REASON_NO_ANSWER: &str = "NoAnswer";
/// Reason of a Worker's conditions: how to reach it cannot be read, so it was not even asked.
pub const REASON_SECRET_UNREADABLE: &str = "SecretUnreadable";
