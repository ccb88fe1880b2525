//! The rules that no history may break.

use std::collections::BTreeSet;

use job_api::{IndexSet, Rules, status};
use job_controller::{JobView, Phase, PodPlan, PodView};
use k8s_openapi::api::batch::v1::JobStatus;

use super::Truth;

/// What must be remembered to judge later.
#[derive(Default)]
pub(crate) struct Ledger {
    /// Pods that left `uncountedTerminatedPods` for the counters.
    counted: BTreeSet<String>,
    /// Pods that need not be counted: stopped on purpose, or taken away by somebody else.
    pub(crate) excused: BTreeSet<String>,
    /// The smallest width that an elastic Job was scaled to.
    narrowest: Option<u32>,
    /// Indexes of which any pod ever succeeded.
    ever_done: BTreeSet<u32>,
    /// Indexes that succeeded where the controller was bound to see it.
    done: BTreeSet<u32>,
}

impl Ledger {
    /// A pod has succeeded. It settles its index unless the controller could not rely on it: someone had asked for its
    /// deletion before (a replacement may be under way), its finalizer was gone, or the Job once gave the index up.
    pub(crate) fn succeeded(&mut self, pod: &PodView) {
        let Some(index) = pod.index else { return };
        self.ever_done.insert(index);
        if !pod.deleting && !pod.finalizers.is_empty() && self.narrowest.is_none_or(|width| index < width) {
            self.done.insert(index);
        }
    }

    /// A pod was taken away by force; the controller may never have seen how it ended.
    pub(crate) fn torn_out(&mut self, pod: &PodView, recorded: Option<&str>) {
        self.excused.insert(pod.uid.clone());
        if let Some(index) = pod.index.filter(|index| !indexes(recorded).contains(*index)) {
            self.done.remove(&index);
        }
    }

    /// Indexes that an elastic Job lost are to be done again if it gets them back.
    pub(crate) fn width_changed(&mut self, width: u32) {
        self.narrowest = Some(self.narrowest.map_or(width, |known| known.min(width)));
        self.done.retain(|index| *index < width);
    }
}

fn promised(status: &JobStatus) -> (BTreeSet<String>, BTreeSet<String>) {
    let lists = status.uncounted_terminated_pods.clone().unwrap_or_default();
    (lists.succeeded.into_iter().flatten().collect(), lists.failed.into_iter().flatten().collect())
}

fn indexes(text: Option<&str>) -> IndexSet {
    IndexSet::parse(text.unwrap_or_default(), i32::MAX).unwrap()
}

impl Truth {
    /// Legal for the API server; every pod promised once, counted once, and counted only when it cannot come back.
    pub(crate) fn check_status(&mut self, new: &JobStatus) {
        let (seed, old) = (self.seed, self.job.status.clone());
        let refused = status::validate(&self.job.spec_view(), &old, new, Rules::newest());
        assert!(refused.is_empty(), "seed {seed}: {refused}: {new:?} after {old:?}");

        let (old_succeeded, old_failed) = promised(&old);
        let (new_succeeded, new_failed) = promised(new);
        let kept: BTreeSet<&String> = new_succeeded.union(&new_failed).collect();
        for uid in &kept {
            assert!(!self.ledger.counted.contains(*uid), "seed {seed}: {uid} is promised again after it was counted");
        }
        for uid in old_succeeded.union(&old_failed).filter(|uid| !kept.contains(uid)) {
            let held = self.pods.get(uid).is_some_and(|pod| !pod.finalizers.is_empty());
            assert!(!held, "seed {seed}: {uid} is counted while it holds its finalizer");
            assert!(self.ledger.counted.insert(uid.clone()), "seed {seed}: {uid} is counted twice");
        }
        let left = |old: &BTreeSet<String>, new: &BTreeSet<String>| i32::try_from(old.difference(new).count()).unwrap();
        let grown = |old: Option<i32>, new: Option<i32>| new.unwrap_or(0) - old.unwrap_or(0);
        assert_eq!(grown(old.failed, new.failed), left(&old_failed, &new_failed), "seed {seed}: failed");
        if self.job.spec.indexed {
            for index in
                indexes(new.completed_indexes.as_deref()).subtract(&indexes(old.completed_indexes.as_deref())).iter()
            {
                assert!(
                    self.ledger.ever_done.contains(&index),
                    "seed {seed}: index {index} is called complete, but no pod of it succeeded"
                );
            }
        } else {
            assert_eq!(
                grown(old.succeeded, new.succeeded),
                left(&old_succeeded, &new_succeeded),
                "seed {seed}: succeeded"
            );
        }
    }

    /// Never more active pods than wanted, never two of one index, never an index that has succeeded.
    pub(crate) fn check_creation(&self, view: &JobView, plan: &PodPlan) {
        let seed = self.seed;
        let active = self.pods.values().filter(|pod| pod.active());
        let busy = active.clone().count();
        let parallelism = usize::try_from(view.spec.parallelism).unwrap();
        assert!(busy <= parallelism, "seed {seed}: {busy} active pods with parallelism {parallelism}");
        if let Some(index) = plan.index {
            let same = active.filter(|pod| pod.index == Some(index)).count();
            assert_eq!(same, 1, "seed {seed}: index {index} runs twice");
            assert!(!self.ledger.done.contains(&index), "seed {seed}: index {index} runs again after it succeeded");
        }
    }

    /// Nothing that ended is let go before the status knows it.
    pub(crate) fn check_release(&self, seen: &JobView, pod: Option<&PodView>) {
        let Some(pod) = pod.filter(|pod| pod.ended() && self.pods.contains_key(&pod.uid)) else { return };
        let in_range =
            !seen.spec.indexed || pod.index.zip(seen.spec.completions).is_some_and(|(index, width)| index < width);
        let ignored = pod.exits.iter().any(|exit| exit.code == 7) && seen.spec.pod_failure_policy.is_some();
        let finished = self.ended().is_some();
        let (succeeded, failed) = promised(&self.job.status);
        let known = match pod.phase {
            Phase::Succeeded if seen.spec.indexed => {
                let recorded = indexes(self.job.status.completed_indexes.as_deref());
                pod.index.is_some_and(|index| recorded.contains(index)) || failed.contains(&pod.uid)
            }
            _ => succeeded.contains(&pod.uid) || failed.contains(&pod.uid),
        };
        assert!(
            known || !in_range || finished || (ignored && pod.phase == Phase::Failed),
            "seed {}: {} is let go before it is counted: {:?}",
            self.seed,
            pod.uid,
            self.job.status
        );
    }

    /// At the end every pod is accounted for and nobody is held.
    pub(crate) fn check_final_counts(&self) {
        let seed = self.seed;
        let (succeeded, failed) = promised(&self.job.status);
        assert!(succeeded.is_empty() && failed.is_empty(), "seed {seed}: uncounted pods at the end");
        for pod in self.pods.values() {
            assert!(pod.finalizers.is_empty(), "seed {seed}: {} is still held at the end", pod.uid);
            assert!(pod.ended(), "seed {seed}: {} still runs after the end", pod.uid);
        }
    }
}
