//! Taking pods in, and letting them go.

use std::sync::Arc;

use job_controller::{Claim, JobView, PodView, claim};
use jobferry_kubeio::{self as kubeio, CallError, Patch};
use serde_json::{Value, json};

use super::{Controller, DEADLINE, Key, SyncError, lock};

/// Labels that the API server puts on the pods of a Job whose selector it made up: the Job's UID.
const CONTROLLER_UID: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];

impl Controller {
    /// Who has to look at a pod: the Job that controls it; Jobs that select it, if nobody does; and we for the pod
    /// itself, if nobody is left to count it but our finalizer still holds it.
    pub(super) fn concerned(&self, pod: &PodView) -> Vec<Key> {
        let known = lock(&self.pods).get(&pod.uid);
        let former = known.filter(|known| known.owner != pod.owner).and_then(|known| known.owner.clone());
        let mut jobs: Vec<String> = former.into_iter().chain(pod.owner.clone()).map(|owner| owner.uid).collect();
        if pod.owner.is_none() && !pod.controlled_by_other {
            let known = lock(&self.jobs);
            let by_label = CONTROLLER_UID.iter().filter_map(|label| known.get(pod.labels.get(*label)?));
            let candidates = by_label.chain(known.group(&pod.namespace));
            jobs.extend(candidates.filter(|job| claim(job, pod) == Claim::Adopt).map(|job| job.uid.clone()));
        }
        if jobs.is_empty() && self.finalizers().any(|finalizer| pod.holds(finalizer)) {
            return vec![Key::Orphan(pod.uid.clone())];
        }
        jobs.into_iter().map(Key::Job).collect()
    }

    /// Makes the pods that a Job controls those that it selects. Returns whether anything changed.
    pub(super) async fn claim_pods(&self, job: &Arc<JobView>) -> Result<bool, SyncError> {
        let due: Vec<(Arc<PodView>, Claim)> = {
            let pods = lock(&self.pods);
            let near = pods.group(&job.uid).chain(pods.group(&job.namespace));
            near.map(|pod| (Arc::clone(&pod), claim(job, &pod)))
                .filter(|(_, claim)| matches!(claim, Claim::Adopt | Claim::LetGo))
                .collect()
        };
        if due.is_empty() {
            return Ok(false);
        }
        // A Job that is on its way out takes nobody in, and our view of it may be old.
        self.read_again(job).await?;
        let Some(job) = lock(&self.jobs).get(&job.uid).filter(|job| !job.deleting) else { return Ok(true) };
        for (pod, claim) in due {
            let body = if claim == Claim::Adopt { adoption(&job, &pod) } else { release(&job, &pod) };
            self.patch_owner(&job, &pod, &body).await?;
        }
        Ok(true)
    }

    async fn patch_owner(&self, job: &JobView, pod: &PodView, body: &Value) -> Result<(), SyncError> {
        let path = format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name);
        match kubeio::patch(&self.client, &path, Patch::Strategic, body.to_string().into_bytes(), DEADLINE).await {
            Ok(answer) => self.learn_pod(&answer),
            Err(error) if error.is_not_found() => lock(&self.pods).remove(&pod.uid),
            // Another pod has the name by now, or another owner was faster: the watch will say so.
            Err(CallError::Refused(refusal)) if matches!(refusal.code, 409 | 422) => {
                tracing::debug!(job = job.name, pod = pod.name, %refusal, "a pod was not claimed");
            }
            Err(source) => {
                let object = format!("pod {}/{}", pod.namespace, pod.name);
                return Err(SyncError::Call { action: "claiming", object, source });
            }
        }
        Ok(())
    }
}

fn adoption(job: &JobView, pod: &PodView) -> Value {
    let owner = json!({
        "apiVersion": "batch/v1", "kind": "Job", "name": job.name, "uid": job.uid,
        "controller": true, "blockOwnerDeletion": true,
    });
    json!({"metadata": {"uid": pod.uid, "ownerReferences": [owner], "finalizers": [job.finalizer()]}})
}

fn release(job: &JobView, pod: &PodView) -> Value {
    json!({"metadata": {
        "uid": pod.uid,
        "ownerReferences": [{"$patch": "delete", "uid": job.uid}],
        "$deleteFromPrimitiveList/finalizers": [job.finalizer()],
    }})
}
