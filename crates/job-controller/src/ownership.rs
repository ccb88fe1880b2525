//! Which pods belong to a Job: those that it controls and selects. A pod that stops matching is let go; one without an
//! owner that matches is taken in.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use crate::{JobView, PodView};

/// What a Job does about a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// It is one of its own.
    Own,
    /// It takes the pod in: it becomes the owner, and the pod gets its finalizer.
    Adopt,
    /// It gives the pod up: owner and finalizer go, the pod runs on.
    LetGo,
    /// It has nothing to do with it.
    None,
}

/// Decides about one pod of the Job's namespace. A Job on its way out takes nobody in and lets nobody go.
pub fn claim(job: &JobView, pod: &PodView) -> Claim {
    let selected = || job.spec.selector.as_ref().is_some_and(|selector| selects(selector, &pod.labels));
    match &pod.owner {
        Some(owner) if owner.uid != job.uid => Claim::None,
        Some(_) if job.deleting || job.spec.selector.is_none() || selected() => Claim::Own,
        Some(_) => Claim::LetGo,
        None if job.deleting || pod.deleting || pod.controlled_by_other || pod.namespace != job.namespace => {
            Claim::None
        }
        None if selected() => Claim::Adopt,
        None => Claim::None,
    }
}

/// Whether a selector that the API server has accepted matches these labels.
fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let mut pairs = selector.match_labels.iter().flatten();
    let meets = |requirement: &LabelSelectorRequirement| {
        let value = labels.get(&requirement.key);
        let listed = || value.is_some_and(|value| requirement.values.iter().flatten().any(|other| other == value));
        match requirement.operator.as_str() {
            "In" => listed(),
            "NotIn" => !listed(),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    };
    pairs.all(|(key, value)| labels.get(key) == Some(value)) && selector.match_expressions.iter().flatten().all(meets)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn job(deleting: bool) -> JobView {
        let mut job = json!({
            "metadata": {"namespace": "n", "name": "j", "uid": "1"},
            "spec": {"selector": {
                "matchLabels": {"job": "1"}, "matchExpressions": [{"key": "old", "operator": "DoesNotExist"}],
            }},
        });
        if deleting {
            job["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        serde_json::from_value(job).unwrap()
    }

    fn pod(labels: &Value, owners: &Value) -> PodView {
        let metadata = json!({"namespace": "n", "name": "p", "uid": "7", "labels": labels, "ownerReferences": owners});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    #[test]
    fn a_job_keeps_what_it_selects_takes_in_orphans_and_lets_go_of_strangers() {
        let ours = || json!({"job": "1"});
        let owner = |kind: &str, uid: &str| json!([{"kind": kind, "name": "o", "uid": uid, "controller": true}]);
        for (labels, owners, claimed, claimed_while_deleted) in [
            (ours(), owner("Job", "1"), Claim::Own, Claim::Own),
            (ours(), owner("Job", "2"), Claim::None, Claim::None),
            (ours(), owner("ReplicaSet", "3"), Claim::None, Claim::None),
            (ours(), json!([]), Claim::Adopt, Claim::None),
            (json!({}), json!([]), Claim::None, Claim::None),
            (json!({}), owner("Job", "1"), Claim::LetGo, Claim::Own),
            (json!({"job": "1", "old": ""}), owner("Job", "1"), Claim::LetGo, Claim::Own),
        ] {
            let pod = pod(&labels, &owners);
            assert_eq!(
                (claim(&job(false), &pod), claim(&job(true), &pod)),
                (claimed, claimed_while_deleted),
                "{pod:?}"
            );
        }
    }
}
