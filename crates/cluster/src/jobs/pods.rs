//! Creating, deleting and letting go of pods.

use std::sync::Arc;

use futures::future::join_all;
use job_controller::{JobView, Notice, PodAction, PodPlan, PodRef, PodView, names};
use jobferry_kubeio::{self as kubeio, CallError, Patch};
use k8s_openapi::jiff::SignedDuration;
use serde_json::json;

use super::{Controller, DEADLINE, SyncError, lock};

/// What became of a creation.
enum Created {
    Yes,
    Refused(CallError),
    /// No answer: it may exist, now or soon.
    Uncertain,
}

impl Controller {
    /// Carries out the actions of one step. Creations go in growing batches, so that a refusal that would meet all of
    /// them (a quota, a broken template) costs a few requests and not hundreds.
    pub(super) async fn act(&self, job: &Arc<JobView>, actions: Vec<PodAction>) -> Result<(), SyncError> {
        let (plans, others): (Vec<_>, Vec<_>) =
            actions.into_iter().partition(|action| matches!(action, PodAction::Create(_)));
        let outcomes = join_all(others.iter().map(|action| async move {
            match action {
                PodAction::Delete(pod) => self.delete_pod(job, pod).await,
                PodAction::Release(pod) => self.release_pod(&job.namespace, pod, job.finalizer(), None).await.map(drop),
                PodAction::Discard(pod) => {
                    let seen = Some(pod.resource_version.as_str());
                    if self.release_pod(&job.namespace, pod, job.finalizer(), seen).await? {
                        self.delete_pod(job, pod).await
                    } else {
                        Ok(())
                    }
                }
                PodAction::Create(_) => Ok(()),
            }
        }))
        .await;
        outcomes.into_iter().collect::<Result<Vec<()>, _>>()?;

        let plans: Vec<PodPlan> = plans
            .into_iter()
            .filter_map(|action| if let PodAction::Create(plan) = action { Some(plan) } else { None })
            .collect();
        let mut rest = plans.as_slice();
        let mut batch = 1;
        while !rest.is_empty() && self.leadership.holds() {
            let (now, later) = rest.split_at(batch.min(rest.len()));
            let outcomes = join_all(now.iter().map(|plan| self.create_pod(job, plan))).await;
            if outcomes.into_iter().filter(|created| !created).count() > 0 {
                break;
            }
            rest = later;
            batch *= 2;
        }
        if rest.is_empty() && !plans.is_empty() {
            self.note_creates(job, true);
        }
        Ok(())
    }

    /// Creates one pod; returns whether the next may be tried.
    async fn create_pod(&self, job: &Arc<JobView>, plan: &PodPlan) -> bool {
        let name = job_controller::pod_name(job, plan, self.random.next());
        match self.post_pod(job, plan, &name).await {
            Created::Yes => {
                self.tell(job, notice(false, "SuccessfulCreate", format!("Created pod: {name}")));
                true
            }
            Created::Uncertain => {
                if let Some(notes) = lock(&self.notes).get_mut(&job.uid) {
                    notes.uncertain.push((*plan, name));
                }
                false
            }
            Created::Refused(error) => {
                self.note_creates(job, false);
                self.tell(job, notice(true, "FailedCreate", format!("Error creating: {error}")));
                false
            }
        }
    }

    async fn post_pod(&self, job: &JobView, plan: &PodPlan, name: &str) -> Created {
        let path = format!("/api/v1/namespaces/{}/pods", job.namespace);
        let pod = job_controller::pod(job, plan, name).to_string().into_bytes();
        match kubeio::create(&self.client, &path, pod, DEADLINE).await {
            Ok(answer) => {
                self.learn_pod(&answer);
                Created::Yes
            }
            Err(error) if error.refusal().is_some() => Created::Refused(error),
            Err(error) => {
                tracing::warn!(namespace = job.namespace, pod = name, %error, "whether a pod was created is not known");
                Created::Uncertain
            }
        }
    }

    /// Asks again for pods whose creation was not answered. The name makes that safe: there is at most one of it.
    pub(super) async fn settle_uncertain(&self, job: &Arc<JobView>) -> Result<(), SyncError> {
        let uncertain: Vec<(PodPlan, String)> =
            lock(&self.notes).get(&job.uid).map(|notes| notes.uncertain.clone()).unwrap_or_default();
        for (plan, name) in uncertain {
            let known = lock(&self.pods).group(&job.uid).any(|pod| pod.name == name);
            if !known {
                let settled = match self.post_pod(job, &plan, &name).await {
                    Created::Refused(error) if error.is_already_exists() => self.read_pod(&job.namespace, &name).await,
                    Created::Yes | Created::Refused(_) => Ok(()),
                    Created::Uncertain => Err(CallError::Deadline(DEADLINE)),
                };
                settled.map_err(|source| failed("creation", &job.namespace, &name, source))?;
            }
            if let Some(notes) = lock(&self.notes).get_mut(&job.uid) {
                notes.uncertain.retain(|(_, other)| *other != name);
            }
        }
        Ok(())
    }

    async fn read_pod(&self, namespace: &str, name: &str) -> Result<(), CallError> {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        match kubeio::get::<PodView>(&self.client, &path, DEADLINE).await {
            Ok(pod) => lock(&self.pods).learn(pod),
            // The watch will say so as well.
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// After a refused creation the Job waits, longer each time: the refusal is likely to be repeated.
    fn note_creates(&self, job: &JobView, went_well: bool) {
        if let Some(notes) = lock(&self.notes).get_mut(&job.uid) {
            notes.failed_creates = if went_well { 0 } else { notes.failed_creates.saturating_add(1) };
            let wait = notes.failed_creates.checked_sub(1).map(|n| SignedDuration::from_secs(1 << n.min(6)));
            notes.memory.create_not_before = wait.and_then(|wait| self.now().checked_add(wait).ok());
        }
    }

    async fn delete_pod(&self, job: &Arc<JobView>, pod: &PodRef) -> Result<(), SyncError> {
        let path = format!("/api/v1/namespaces/{}/pods/{}", job.namespace, pod.name);
        let options = json!({"preconditions": {"uid": pod.uid}}).to_string().into_bytes();
        match kubeio::delete(&self.client, &path, options, DEADLINE).await {
            Ok(answer) => {
                // An unbound pod is gone at once and its answer still shows it without a deletion time.
                match serde_json::from_slice::<PodView>(&answer) {
                    Ok(stored) if stored.deleting => lock(&self.pods).learn(stored),
                    _ => lock(&self.pods).remove(&pod.uid),
                }
                self.tell(job, notice(false, "SuccessfulDelete", format!("Deleted pod: {}", pod.name)));
                Ok(())
            }
            Err(error) if error.is_not_found() || error.is_conflict() => {
                lock(&self.pods).remove(&pod.uid);
                Ok(())
            }
            Err(source) => {
                self.tell(job, notice(true, "FailedDelete", format!("Error deleting: {source}")));
                Err(failed("deletion", &job.namespace, &pod.name, source))
            }
        }
    }

    /// Removes the finalizer; with `seen` only if the pod has that version. False if it had another: it is read again.
    async fn release_pod(
        &self,
        namespace: &str,
        pod: &PodRef,
        finalizer: &str,
        seen: Option<&str>,
    ) -> Result<bool, SyncError> {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{}", pod.name);
        let mut body = json!({"metadata": {"uid": pod.uid, "$deleteFromPrimitiveList/finalizers": [finalizer]}});
        if let Some(version) = seen {
            body["metadata"]["resourceVersion"] = json!(version);
        }
        match kubeio::patch(&self.client, &path, Patch::Strategic, body.to_string().into_bytes(), DEADLINE).await {
            Ok(answer) => {
                self.learn_pod(&answer);
                Ok(true)
            }
            Err(error) if error.is_conflict() && seen.is_some() => {
                let read = self.read_pod(namespace, &pod.name).await;
                read.map(|()| false).map_err(|source| failed("reading", namespace, &pod.name, source))
            }
            // Another pod took the name: the one we mean is gone.
            Err(error) if error.is_not_found() || error.is_conflict() || is_other_uid(&error) => {
                lock(&self.pods).remove(&pod.uid);
                Ok(true)
            }
            Err(source) => Err(failed("release", namespace, &pod.name, source)),
        }
    }

    /// A Job is not known (any more). If it is proved gone, its pods must not wait for anybody to count them.
    pub(super) async fn release_pods_of_lost_job(&self, uid: &str) -> Result<(), SyncError> {
        let pods: Vec<Arc<PodView>> = lock(&self.pods).group(uid).collect();
        let held = pods
            .into_iter()
            .filter(|pod| pod.owner.is_some() && self.finalizers().any(|finalizer| pod.holds(finalizer)));
        for pod in held.collect::<Vec<_>>() {
            if !self.owner_exists(&pod).await? {
                self.release_from_all(&pod).await?;
            }
        }
        Ok(())
    }

    /// A pod that nobody owns has nobody to count it.
    pub(super) async fn release_orphan(&self, uid: &str) -> Result<(), SyncError> {
        let pod = lock(&self.pods).get(uid);
        match pod.filter(|pod| pod.owner.is_none()) {
            Some(pod) => self.release_from_all(&pod).await,
            None => Ok(()),
        }
    }

    async fn release_from_all(&self, pod: &PodView) -> Result<(), SyncError> {
        let (name, uid) = (pod.name.clone(), pod.uid.clone());
        let reference = PodRef { name, uid, resource_version: pod.resource_version.clone() };
        for finalizer in self.finalizers().filter(|finalizer| pod.holds(finalizer)) {
            self.release_pod(&pod.namespace, &reference, finalizer, None).await?;
        }
        Ok(())
    }

    /// Our view may lag behind: only a fresh answer proves that a Job is gone.
    async fn owner_exists(&self, pod: &PodView) -> Result<bool, SyncError> {
        let Some(owner) = &pod.owner else { return Ok(false) };
        let path = format!("/apis/batch/v1/namespaces/{}/jobs/{}", pod.namespace, owner.name);
        match kubeio::get::<JobView>(&self.client, &path, DEADLINE).await {
            Ok(job) => Ok(job.uid == owner.uid),
            Err(error) if error.is_not_found() => Ok(false),
            Err(source) => {
                Err(SyncError::Call { action: "reading", object: format!("Job of pod {}", pod.name), source })
            }
        }
    }

    /// The finalizers that this controller may have set.
    pub(super) fn finalizers(&self) -> impl Iterator<Item = &'static str> + use<> {
        let standard = self.options.standard.then_some(names::STANDARD_FINALIZER);
        let delegated = (!self.options.managed_by.is_empty()).then_some(names::DELEGATED_FINALIZER);
        [standard, delegated].into_iter().flatten()
    }

    pub(super) fn learn_pod(&self, answer: &[u8]) {
        let Ok(pod) = serde_json::from_slice::<PodView>(answer) else { return };
        // Nothing held this pod but the finalizer that just went: the answer is the last that is heard of it.
        if pod.deleting && pod.finalizers.is_empty() && !pod.scheduled {
            lock(&self.pods).remove(&pod.uid);
        } else {
            lock(&self.pods).learn(pod);
        }
    }
}

/// A patch that names another UID is refused as invalid, not as a conflict.
fn is_other_uid(error: &CallError) -> bool {
    error.refusal().is_some_and(|refusal| refusal.code == 422 && refusal.message.contains("uid"))
}

fn notice(warning: bool, reason: &str, message: String) -> Notice {
    Notice { warning, reason: reason.to_owned(), message }
}

fn failed(action: &'static str, namespace: &str, pod: &str, source: CallError) -> SyncError {
    SyncError::Call { action, object: format!("pod {namespace}/{pod}"), source }
}
