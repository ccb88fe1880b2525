//! A Job, its pods and an API server that does at once what the controller asks for.

use job_api::{Rules, status};
use job_controller::{Exit, JobView, Memory, Notice, Phase, PodAction, PodRef, PodView, Step, sync};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

pub(crate) struct World {
    pub(crate) job: JobView,
    pub(crate) pods: Vec<PodView>,
    pub(crate) memory: Memory,
    pub(crate) now: Timestamp,
    pub(crate) notices: Vec<Notice>,
    pub(crate) created: usize,
}

/// A Job with this spec, and nothing else.
pub(crate) fn world(spec: Value) -> World {
    let mut spec = spec;
    let object = spec.as_object_mut().unwrap();
    object.entry("template").or_insert_with(|| json!({"spec": {"restartPolicy": "Never"}}));
    if !object.contains_key("parallelism") && !object.contains_key("completions") {
        object.insert("completions".to_owned(), json!(1));
    }
    let job = json!({"metadata": {"namespace": "default", "name": "job", "uid": "job-uid"}, "spec": spec});
    World {
        job: serde_json::from_value(job).unwrap(),
        pods: Vec::new(),
        memory: Memory::default(),
        now: Timestamp::from_second(1_000_000).unwrap(),
        notices: Vec::new(),
        created: 0,
    }
}

impl World {
    /// Carries out steps until there is nothing to do; returns when to wake up, in seconds from now.
    pub(crate) fn settle(&mut self) -> Option<i64> {
        for _ in 0..10_000 {
            let decision = sync(&self.job, &self.pods, &self.memory, self.now);
            match decision.step {
                Step::Rest => return decision.wake_at.map(|at| at.duration_since(self.now).as_secs()),
                Step::Record(status) => {
                    let refused = status::validate(&self.job.spec_view(), &self.job.status, &status, Rules::newest());
                    assert!(refused.is_empty(), "{refused}: {status:?} after {:?}", self.job.status);
                    self.job.status = *status;
                }
                Step::Pods(actions) => actions.into_iter().for_each(|action| self.act(action)),
            }
            self.memory.backoff = decision.backoff;
            self.notices.extend(decision.notices);
        }
        panic!("the controller does not come to rest: {:?}", self.job.status);
    }

    fn act(&mut self, action: PodAction) {
        match action {
            PodAction::Create(plan) => {
                self.created += 1;
                let name = format!("job-{}", self.created);
                let mut pod = job_controller::pod(&self.job, &plan, &name);
                pod["metadata"]["uid"] = json!(format!("uid-{}", self.created));
                pod["metadata"]["creationTimestamp"] = json!(self.now.to_string());
                self.pods.push(serde_json::from_value(pod).unwrap());
            }
            PodAction::Delete(pod) => self.delete(&pod),
            PodAction::Release(pod) => self.release(&pod),
            PodAction::Discard(pod) => {
                self.release(&pod);
                self.delete(&pod);
            }
        }
    }

    fn release(&mut self, pod: &PodRef) {
        let found = self.pods.iter_mut().find(|p| p.uid == pod.uid).expect("a pod to release");
        found.finalizers.clear();
        self.sweep();
    }

    /// An unbound pod goes at once, a bound one when its node says so.
    fn delete(&mut self, pod: &PodRef) {
        if let Some(found) = self.pods.iter_mut().find(|p| p.uid == pod.uid) {
            found.deleting = true;
            found.finished = self.now;
        }
        self.sweep();
    }

    fn sweep(&mut self) {
        self.pods.retain(|pod| !(pod.deleting && pod.finalizers.is_empty() && (pod.ended() || !pod.scheduled)));
    }

    pub(crate) fn wait(&mut self, seconds: i64) -> &mut Self {
        self.now = self.now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
        self
    }

    /// The pods that run, by position of creation.
    pub(crate) fn active(&self) -> Vec<&PodView> {
        self.pods.iter().filter(|pod| pod.active()).collect()
    }

    pub(crate) fn active_indexes(&self) -> Vec<u32> {
        let mut indexes: Vec<u32> = self.active().iter().filter_map(|pod| pod.index).collect();
        indexes.sort_unstable();
        indexes
    }

    fn pick(&mut self, choose: impl Fn(&PodView) -> bool) -> &mut PodView {
        self.pods.iter_mut().find(|pod| !pod.ended() && choose(pod)).expect("such a pod")
    }

    fn end(&mut self, choose: impl Fn(&PodView) -> bool, code: i32) {
        let now = self.now;
        let pod = self.pick(choose);
        pod.phase = if code == 0 { Phase::Succeeded } else { Phase::Failed };
        pod.scheduled = true;
        pod.ready_since = None;
        pod.finished = now;
        pod.exits = vec![Exit { container: "main".to_owned(), code }];
        self.sweep();
    }

    pub(crate) fn succeed_any(&mut self) -> &mut Self {
        self.end(|pod| !pod.deleting, 0);
        self
    }

    pub(crate) fn fail_any(&mut self) -> &mut Self {
        self.end(|pod| !pod.deleting, 1);
        self
    }

    pub(crate) fn succeed(&mut self, index: u32) -> &mut Self {
        self.end(|pod| pod.index == Some(index), 0);
        self
    }

    pub(crate) fn fail(&mut self, index: u32) -> &mut Self {
        self.end(|pod| pod.index == Some(index), 1);
        self
    }

    pub(crate) fn exit(&mut self, index: u32, code: i32) -> &mut Self {
        self.end(|pod| pod.index == Some(index), code);
        self
    }

    /// Every pod that waits is bound to a node and runs.
    pub(crate) fn run_all(&mut self) -> &mut Self {
        for pod in self.pods.iter_mut().filter(|pod| pod.active()) {
            pod.scheduled = true;
            pod.phase = Phase::Running;
            pod.ready_since = Some(self.now);
        }
        self
    }

    /// Terminating pods end, as their node would end them.
    pub(crate) fn nodes_finish_terminating(&mut self) -> &mut Self {
        for pod in self.pods.iter_mut().filter(|pod| pod.terminating()) {
            pod.phase = Phase::Failed;
        }
        self.sweep();
        self
    }

    /// Conditions that are true, with their reasons.
    pub(crate) fn conditions(&self) -> Vec<(&str, &str)> {
        let list = self.job.status.conditions.as_deref().unwrap_or_default();
        list.iter()
            .filter(|c| c.status == "True")
            .map(|c| (c.type_.as_str(), c.reason.as_deref().unwrap_or("")))
            .collect()
    }

    /// active, succeeded, failed.
    pub(crate) fn counters(&self) -> (i32, i32, i32) {
        let status = &self.job.status;
        (status.active.unwrap_or(0), status.succeeded.unwrap_or(0), status.failed.unwrap_or(0))
    }

    pub(crate) fn completed_indexes(&self) -> &str {
        self.job.status.completed_indexes.as_deref().unwrap_or("")
    }
}
