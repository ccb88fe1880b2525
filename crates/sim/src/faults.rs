//! The kinds of trouble, each with a switch and a weight.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// A kind of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A request never arrives.
    LostRequest,
    /// A request is carried out, its answer never arrives.
    LostAnswer,
    /// A request arrives late, up to a minute.
    LateRequest,
    /// An answer arrives late.
    LateAnswer,
    /// The connection breaks, before or after the request was carried out.
    Reset,
    /// 409, 429, 500, 503, 504, carried out or not, or a path that is not served.
    ServerError,
    /// 401 or 403.
    Denied,
    /// A watch breaks off.
    WatchCut,
    /// The events of a watch come late.
    WatchSlow,
    /// A watch ends with 410.
    WatchExpired,
    /// Nothing passes between dispatchers and a cluster.
    Partition,
    /// Requests pass and answers do not, or the other way round.
    OneWay,
    /// A dispatcher ends between two instructions, at a request, and is started again.
    Crash,
    /// Two dispatchers at once, both of which believe to be alone.
    Twins,
    /// Somebody on a worker deletes a mirror.
    MirrorDeleted,
    /// Somebody on a worker has a Job of the same name.
    NameTaken,
    /// A worker is closed and opened again.
    Cordon,
    /// A watch says nothing any more, not even a bookmark, and stays open.
    WatchSilent,
    /// An API server stands still for a while.
    Freeze,
    /// Every answer of a cluster takes seconds for a while.
    Slow,
    /// A worker's quota is used up for a while.
    Quota,
    /// A worker's admission changes what is created, for a while.
    Webhook,
    /// A worker lacks the namespace, or is about to delete it, for a while.
    NoNamespace,
    /// A worker takes none of our credentials for a while.
    Credentials,
    /// One dispatcher is cut off from everything for longer than its lease.
    CutOff,
    /// Several dispatchers, of which one leads by lease.
    Replicas,
    /// The clocks of the clusters and dispatchers differ by minutes.
    Skew,
    /// Somebody on a worker takes our marks off a mirror.
    MirrorEdited,
    /// A queue of a worker's own suspends a mirror and resumes it later.
    WorkerQueue,
    /// A Worker is removed and registered again.
    WorkerRemoved,
    /// A list, or the first events of a watch, shows the past.
    StaleList,
    /// An API server is started again: all watches end and none can be resumed.
    Restart,
    /// A worker is restored from a backup: objects and resourceVersion go back.
    Restored,
    /// A worker is built anew behind the same address: it has another identity and nothing of ours.
    Rebuilt,
    /// A queue of a worker's own suspends every mirror as it is created, and admits it later.
    QueueAdmits,
    /// Another management cluster with workloads of the same names shares a worker.
    SecondManager,
    /// The credentials of a worker are refused, and its Secret is changed.
    SecretRotated,
    /// The default DispatchPolicy is changed.
    PolicyChanged,
    /// A Job controller of the management cluster that does not know `managedBy` runs delegated Jobs.
    OldController,
    /// One dispatcher and one cluster do not reach each other; everybody else reaches both.
    PairCut,
    /// Jobs with a deadline, with a success policy, or with a selector of their own.
    OddShapes,
    /// Somebody wipes or damages the placement record, or forges the label with the worker's name.
    RecordWiped,
    /// The management cluster is restored from a backup: objects and resourceVersion go back.
    ManagerRestored,
    /// Somebody on a worker edits the spec or the annotations of a mirror.
    MirrorRewritten,
    /// Somebody on a worker keeps a mirror by a finalizer of their own.
    MirrorHeld,
    /// Somebody else writes that a workload has failed.
    EndedByOthers,
    /// The Secret of a worker leads to another cluster for a while.
    SecretMisled,
    /// A cluster is registered a second time, or the management cluster as a worker of its own.
    WorkerDoubled,
    /// The namespace of a worker is deleted, with all that is in it, and made again.
    NamespaceDeleted,
    /// A watch has no bookmarks; events come.
    NoBookmarks,
    /// The dispatchers keep a canary, on which an old Job controller acts.
    Canary,
    /// More Jobs at once than a worker has create slots.
    Crowd,
    /// Users change more of their Jobs than whether they are suspended, or keep what they delete by a finalizer.
    UserEdits,
    /// A worker refuses every edit of a mirror for a while.
    EditsRefused,
    /// A worker fails at every mirror that is created or edited for a while: a webhook is down.
    WebhookDown,
}

use Fault::{
    Canary, Cordon, Crash, Credentials, Crowd, CutOff, Denied, EditsRefused, EndedByOthers, Freeze, LateAnswer,
    LateRequest, LostAnswer, LostRequest, ManagerRestored, MirrorDeleted, MirrorEdited, MirrorHeld, MirrorRewritten,
    NameTaken, NamespaceDeleted, NoBookmarks, NoNamespace, OddShapes, OldController, OneWay, PairCut, Partition,
    PolicyChanged, QueueAdmits, Quota, Rebuilt, RecordWiped, Replicas, Reset, Restart, Restored, SecondManager,
    SecretMisled, SecretRotated, ServerError, Skew, Slow, StaleList, Twins, UserEdits, WatchCut, WatchExpired,
    WatchSilent, WatchSlow, Webhook, WebhookDown, WorkerDoubled, WorkerQueue, WorkerRemoved,
};

/// Every kind, its name and its weight among the kinds of its group.
const TABLE: [(Fault, &str, u64); 55] = [
    (LostRequest, "lost-request", 10),
    (LostAnswer, "lost-answer", 20),
    (LateRequest, "late-request", 20),
    (LateAnswer, "late-answer", 10),
    (Reset, "reset", 10),
    (ServerError, "server-error", 15),
    (Denied, "denied", 8),
    (Crash, "crash", 7),
    (WatchCut, "watch-cut", 4),
    (WatchSlow, "watch-slow", 3),
    (WatchExpired, "watch-expired", 2),
    (WatchSilent, "watch-silent", 2),
    (Partition, "partition", 6),
    (OneWay, "one-way", 4),
    (Freeze, "freeze", 3),
    (Slow, "slow", 3),
    (Quota, "quota", 3),
    (Webhook, "webhook", 2),
    (NoNamespace, "no-namespace", 2),
    (Credentials, "credentials", 2),
    (CutOff, "cut-off", 1),
    (Twins, "twins", 1),
    (Replicas, "replicas", 1),
    (Skew, "skew", 1),
    (MirrorDeleted, "mirror-deleted", 1),
    (MirrorEdited, "mirror-edited", 1),
    (WorkerQueue, "worker-queue", 1),
    (NameTaken, "name-taken", 1),
    (Cordon, "cordon", 1),
    (WorkerRemoved, "worker-removed", 1),
    (StaleList, "stale-list", 1),
    (Restart, "restart", 3),
    (Restored, "restored", 2),
    (Rebuilt, "rebuilt", 1),
    (QueueAdmits, "queue-admits", 2),
    (SecondManager, "second-manager", 1),
    (SecretRotated, "secret-rotated", 1),
    (PolicyChanged, "policy-changed", 1),
    (OldController, "old-controller", 1),
    (PairCut, "pair-cut", 1),
    (OddShapes, "odd-shapes", 1),
    (RecordWiped, "record-wiped", 1),
    (ManagerRestored, "manager-restored", 1),
    (MirrorRewritten, "mirror-rewritten", 1),
    (MirrorHeld, "mirror-held", 1),
    (EndedByOthers, "ended-by-others", 1),
    (SecretMisled, "secret-misled", 1),
    (WorkerDoubled, "worker-doubled", 1),
    (NamespaceDeleted, "namespace-deleted", 1),
    (NoBookmarks, "no-bookmarks", 1),
    (Canary, "canary", 1),
    (Crowd, "crowd", 1),
    (UserEdits, "user-edits", 1),
    (EditsRefused, "edits-refused", 1),
    (WebhookDown, "webhook-down", 1),
];

/// Kinds that befall a single request.
pub(crate) const OF_REQUESTS: [Fault; 8] =
    [LostRequest, LostAnswer, LateRequest, LateAnswer, Reset, ServerError, Denied, Crash];
/// Kinds that befall an open watch.
pub(crate) const OF_WATCHES: [Fault; 4] = [WatchCut, WatchSlow, WatchExpired, WatchSilent];
/// Kinds that befall the management cluster for a while.
pub(crate) const OF_MANAGER: [Fault; 4] = [Partition, OneWay, Freeze, Slow];
/// Kinds that befall a worker for a while.
pub(crate) const OF_WORKERS: [Fault; 8] = [Partition, OneWay, Freeze, Slow, Quota, Webhook, NoNamespace, Credentials];
/// What people do, to a mirror or to a worker.
pub(crate) const OF_PEOPLE: [Fault; 8] =
    [MirrorDeleted, MirrorEdited, WorkerQueue, NameTaken, Cordon, WorkerRemoved, SecretRotated, PolicyChanged];
/// What people do as well; each kind has dice of its own.
pub(crate) const OF_STRANGERS: [Fault; 9] = [
    RecordWiped,
    MirrorRewritten,
    MirrorHeld,
    EndedByOthers,
    SecretMisled,
    WorkerDoubled,
    NamespaceDeleted,
    EditsRefused,
    WebhookDown,
];
/// Accidents of a management cluster, of which it has one at most.
pub(crate) const ACCIDENTS_OF_MANAGER: [Fault; 1] = [Restart];
/// Accidents of a worker, of which it has one at most.
pub(crate) const ACCIDENTS_OF_WORKERS: [Fault; 4] = [Restart, Restored, Rebuilt, QueueAdmits];

impl Fault {
    /// Its name on the command line and in reports.
    pub fn name(self) -> &'static str {
        TABLE.iter().find(|(fault, ..)| *fault == self).map_or("", |(_, name, _)| name)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which kinds are switched on, with their weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultSet(BTreeMap<Fault, u64>);

impl FaultSet {
    /// All kinds.
    pub fn all() -> Self {
        Self(TABLE.iter().map(|(fault, _, weight)| (*fault, *weight)).collect())
    }

    /// None: a world in which everything works.
    pub fn none() -> Self {
        Self(BTreeMap::new())
    }

    /// Whether a kind is switched on.
    pub fn has(&self, fault: Fault) -> bool {
        self.0.contains_key(&fault)
    }

    /// One of these kinds that is switched on, by weight.
    pub(crate) fn draw(&self, among: &[Fault], dice: &mut crate::dice::Dice) -> Option<Fault> {
        let weights: Vec<(Fault, u64)> = among.iter().filter_map(|fault| Some((*fault, *self.0.get(fault)?))).collect();
        let mut at = dice.below(weights.iter().map(|(_, weight)| weight).sum());
        for (fault, weight) in weights {
            if at < weight {
                return Some(fault);
            }
            at -= weight;
        }
        None
    }
}

impl fmt::Display for FaultSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.0.keys().map(|fault| fault.name()).collect();
        f.write_str(if names.is_empty() { "none".to_owned() } else { names.join(",") }.as_str())
    }
}

/// The command line names a fault that does not exist.
#[derive(Debug, thiserror::Error)]
#[error("there is no fault `{0}`; known: all, none, {known}", known = TABLE.map(|(_, name, _)| name).join(", "))]
pub struct UnknownFault(String);

impl FromStr for FaultSet {
    type Err = UnknownFault;

    fn from_str(list: &str) -> Result<Self, UnknownFault> {
        let mut set = Self::none();
        for word in list.split(',').map(str::trim) {
            match word {
                "all" => set = Self::all(),
                "none" => set = Self::none(),
                _ => {
                    let row = TABLE.iter().find(|(_, name, _)| *name == word);
                    let (fault, _, weight) = row.ok_or_else(|| UnknownFault(word.to_owned()))?;
                    set.0.insert(*fault, *weight);
                }
            }
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_a_name_that_switches_it_on() {
        for (fault, name, _) in TABLE {
            let set: FaultSet = name.parse().unwrap();
            assert!(set.has(fault) && set.0.len() == 1, "{name}");
            assert!(FaultSet::all().has(fault) && !FaultSet::none().has(fault));
        }
        for list in ["none", "crash,twins"] {
            assert_eq!(list.parse::<FaultSet>().unwrap().to_string(), list);
        }
        assert!("crash,".parse::<FaultSet>().is_err(), "a name was forgotten");
        assert!("no-such".parse::<FaultSet>().unwrap_err().to_string().contains("lost-answer"));
    }
}
