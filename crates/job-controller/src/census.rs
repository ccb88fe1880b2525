//! One look at all pods of a Job: who runs, who has ended, and what of it the status does not know yet.

use std::collections::{BTreeMap, BTreeSet};

use job_api::IndexSet;

use crate::{
    failure_policy::{self, Verdict},
    job::{JobView, count},
    pod::{Phase, PodView},
};

/// The pods of a Job, sorted out. A pod is *tracked* while it holds the Job's finalizer: it cannot vanish uncounted.
pub(crate) struct Census<'a> {
    pub(crate) job: &'a JobView,
    /// All pods, by index, then age, then name.
    pub(crate) pods: Vec<&'a PodView>,
    pub(crate) active: Vec<&'a PodView>,
    pub(crate) terminating: Vec<&'a PodView>,
    /// UIDs in `status.uncountedTerminatedPods`: promised to the counters, not yet in them.
    pub(crate) promised: Promised<'a>,
    /// Tracked pods that succeeded and that no counter, promise or index set knows.
    pub(crate) new_succeeded: Vec<&'a PodView>,
    /// Tracked pods that count as ended without success and that no counter or promise knows.
    pub(crate) new_failed: Vec<&'a PodView>,
    /// Successes so far, recorded or not.
    pub(crate) succeeded: u64,
    /// Counted failures so far, recorded or not.
    pub(crate) failed: u64,
    /// `status.completedIndexes`, without indexes that the Job no longer has.
    pub(crate) recorded_indexes: IndexSet,
    /// These and the indexes of pods that succeeded since.
    pub(crate) completed_indexes: IndexSet,
    /// With a limit per index only: indexes that failed for good.
    pub(crate) failed_indexes: Option<IndexSet>,
    /// With a limit per index only: the last failed pod of each index that waits for its replacement. It keeps its
    /// finalizer until then, because the replacement inherits the count of failures from it.
    pub(crate) awaiting_replacement: BTreeMap<u32, &'a PodView>,
}

/// The two lists of `status.uncountedTerminatedPods`.
pub(crate) struct Promised<'a> {
    pub(crate) succeeded: BTreeSet<&'a str>,
    pub(crate) failed: BTreeSet<&'a str>,
}

impl Promised<'_> {
    pub(crate) fn contains(&self, pod: &PodView) -> bool {
        self.succeeded.contains(pod.uid.as_str()) || self.failed.contains(pod.uid.as_str())
    }
}

impl<'a> Census<'a> {
    pub(crate) fn take(job: &'a JobView, pods: &'a [PodView]) -> Self {
        let mut sorted: Vec<&PodView> = pods.iter().collect();
        sorted.sort_by(|a, b| (a.index, a.created, &a.name).cmp(&(b.index, b.created, &b.name)));
        let recorded_indexes = recorded(job, job.status.completed_indexes.as_deref());
        let mut census = Self {
            job,
            active: sorted.iter().copied().filter(|pod| pod.active()).collect(),
            terminating: sorted.iter().copied().filter(|pod| pod.terminating()).collect(),
            promised: promised(job),
            new_succeeded: Vec::new(),
            new_failed: Vec::new(),
            succeeded: 0,
            failed: 0,
            completed_indexes: recorded_indexes.clone(),
            recorded_indexes,
            failed_indexes: None,
            awaiting_replacement: BTreeMap::new(),
            pods: sorted,
        };
        census.count_ended();
        if job.spec.backoff_limit_per_index.is_some() {
            census.judge_indexes();
        }
        census
    }

    fn count_ended(&mut self) {
        for pod in self.pods.iter().copied() {
            if !self.tracks(pod) || self.promised.contains(pod) || !self.has_valid_index(pod) {
                continue;
            }
            if pod.phase == Phase::Succeeded {
                match pod.index.filter(|_| self.job.spec.indexed) {
                    Some(index) if self.recorded_indexes.contains(index) => {}
                    Some(index) => {
                        self.completed_indexes.insert(index);
                        self.new_succeeded.push(pod);
                    }
                    None => self.new_succeeded.push(pod),
                }
            } else if self.counts_as_ended(pod) {
                self.new_failed.push(pod);
            }
        }
        let status = &self.job.status;
        self.succeeded = if self.job.spec.indexed {
            self.completed_indexes.len()
        } else {
            u64::from(count(status.succeeded)) + (self.promised.succeeded.len() + self.new_succeeded.len()) as u64
        };
        let counted = self.new_failed.iter().filter(|pod| self.verdict(pod).counts()).count();
        self.failed = u64::from(count(status.failed)) + (self.promised.failed.len() + counted) as u64;
    }

    fn judge_indexes(&mut self) {
        let Some(limit) = self.job.spec.backoff_limit_per_index else { return };
        let mut failed = recorded(self.job, self.job.status.failed_indexes.as_deref());
        for pod in &self.pods {
            if let Some(index) = pod.index
                && self.tracks(pod)
                && self.has_valid_index(pod)
                && self.counts_as_ended(pod)
            {
                let lost = match self.verdict(pod) {
                    Verdict::FailIndex => true,
                    Verdict::Ignore => false,
                    Verdict::Count | Verdict::FailJob(_) => pod.index_failures >= limit,
                };
                if lost {
                    failed.insert(index);
                }
            }
        }
        // An index that succeeded has not failed, whatever another pod of it says; the API server insists on that.
        let failed = failed.subtract(&self.completed_indexes);
        let running: BTreeSet<u32> = self.active.iter().filter_map(|pod| pod.index).collect();
        for pod in self.pods.iter().copied() {
            let Some(index) = pod.index else { continue };
            let open = !self.completed_indexes.contains(index) && !failed.contains(index) && !running.contains(&index);
            if open && self.tracks(pod) && self.has_valid_index(pod) && self.counts_as_ended(pod) {
                let newest = self.awaiting_replacement.entry(index).or_insert(pod);
                if (failures_with(pod), pod.finished) >= (failures_with(newest), newest.finished) {
                    *newest = pod;
                }
            }
        }
        self.failed_indexes = Some(failed);
    }

    /// The pod holds our finalizer.
    pub(crate) fn tracks(&self, pod: &PodView) -> bool {
        pod.holds(self.job.finalizer())
    }

    /// Pods of an Indexed Job count only under an index that the Job has.
    pub(crate) fn has_valid_index(&self, pod: &PodView) -> bool {
        self.job.indexes().is_none_or(|width| pod.index.is_some_and(|index| index < width))
    }

    /// The pod is over without success. A pod on its way out counts as well, since it may be gone before it reports;
    /// unless only pods that really failed are to be replaced.
    pub(crate) fn counts_as_ended(&self, pod: &PodView) -> bool {
        pod.phase == Phase::Failed
            || (!self.job.spec.replace_only_failed && pod.deleting && pod.phase != Phase::Succeeded)
    }

    pub(crate) fn verdict(&self, pod: &PodView) -> Verdict {
        failure_policy::judge(self.job.spec.pod_failure_policy.as_ref(), pod)
    }

    pub(crate) fn ready(&self) -> usize {
        self.active.iter().filter(|pod| pod.ready()).count()
    }
}

/// Failures of the pod's index up to and without it, ignored ones included.
pub(crate) fn failures_with(pod: &PodView) -> u32 {
    pod.index_failures.saturating_add(pod.index_ignored_failures)
}

fn recorded(job: &JobView, text: Option<&str>) -> IndexSet {
    let width = job.indexes().unwrap_or(0);
    IndexSet::parse(text.unwrap_or_default(), i32::MAX).unwrap_or_default().clip(width)
}

fn promised(job: &JobView) -> Promised<'_> {
    let lists = job.status.uncounted_terminated_pods.as_ref();
    let succeeded =
        lists.and_then(|lists| lists.succeeded.as_ref()).into_iter().flatten().map(String::as_str).collect();
    let failed = lists.and_then(|lists| lists.failed.as_ref()).into_iter().flatten().map(String::as_str).collect();
    Promised { succeeded, failed }
}
