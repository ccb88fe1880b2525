//! Who may use which workers: `DispatchPolicy` objects, read once, and which of them is whose.

use std::{collections::BTreeMap, time::Duration};

use jobferry_api::{DispatchPolicySpec, KueueQueues, LostAction, labels};

use crate::{
    selector::{Selector, SelectorError},
    workload::Workload,
};

/// The policy of namespaces that name none.
const DEFAULT: &str = "default";

/// A policy, ready to be applied. The default one is open: every worker, no preferences, wait for lost workers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    namespaces: Option<Selector>,
    workers: Option<Selector>,
    prefer: Vec<(Selector, i32)>,
    /// After how long the loss of a worker fails its workloads. `None`: never.
    pub fail_after: Option<Duration>,
    /// How long finished mirrors stay. `None`: as long as their workload.
    pub keep_finished: Option<Duration>,
    /// A queue of Kueue's that a workload names is one of its worker's, not of a MultiKueue on the manager.
    pub queues_are_the_workers: bool,
}

impl Policy {
    /// Reads the spec of a `DispatchPolicy`.
    pub fn read(spec: &DispatchPolicySpec) -> Result<Self, SelectorError> {
        let prefer = spec.prefer.iter().map(|p| Ok((Selector::from_labels(&p.workers)?, p.weight)));
        let lost = spec.on_worker_lost.as_ref().filter(|lost| lost.action == LostAction::Fail);
        Ok(Self {
            namespaces: spec.namespaces.as_ref().map(Selector::from_labels).transpose()?,
            workers: spec.workers.as_ref().map(Selector::from_labels).transpose()?,
            prefer: prefer.collect::<Result<_, SelectorError>>()?,
            fail_after: lost.and_then(|lost| lost.after).map(|span| span.0),
            keep_finished: spec.keep_finished.map(|span| span.0),
            queues_are_the_workers: spec.kueue_queues == Some(KueueQueues::Workers),
        })
    }

    /// Whether workloads may be placed on a worker with these labels.
    pub fn allows(&self, worker: &BTreeMap<String, String>) -> bool {
        self.workers.as_ref().is_none_or(|selector| selector.matches(worker))
    }

    /// How much a worker with these labels is preferred.
    pub fn weight(&self, worker: &BTreeMap<String, String>) -> i32 {
        self.prefer.iter().filter(|(selector, _)| selector.matches(worker)).map(|(_, weight)| weight).sum()
    }

    fn is_open_to(&self, namespace: &BTreeMap<String, String>) -> bool {
        self.namespaces.as_ref().is_none_or(|selector| selector.matches(namespace))
    }
}

/// All policies, and the labels of the namespaces that choose among them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policies {
    /// By name; an `Err` cannot be read.
    pub policies: BTreeMap<String, Result<Policy, SelectorError>>,
    /// The labels of each namespace of the management cluster.
    pub namespaces: BTreeMap<String, BTreeMap<String, String>>,
}

/// Why a workload has no policy: it is not placed until somebody corrects that.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// There is none of that name.
    #[error("DispatchPolicy {0} does not exist")]
    Missing(String),
    /// It cannot be read.
    #[error("DispatchPolicy {0}: {1}")]
    Unreadable(String, SelectorError),
    /// It is not for this namespace.
    #[error("DispatchPolicy {policy} is not open to namespace {namespace}")]
    Closed {
        /// Its name.
        policy: String,
        /// The namespace.
        namespace: String,
    },
}

const OPEN: &Policy = &Policy {
    namespaces: None,
    workers: None,
    prefer: Vec::new(),
    fail_after: None,
    keep_finished: None,
    queues_are_the_workers: false,
};

impl Policies {
    /// The policy of a workload: the one that it names, else the one that its namespace names, else the default one.
    pub fn of(&self, workload: &Workload) -> Result<&Policy, PolicyError> {
        let nothing = BTreeMap::new();
        let namespace = self.namespaces.get(&workload.namespace).unwrap_or(&nothing);
        let named = workload.policy.as_ref().or_else(|| namespace.get(labels::POLICY));
        let name = named.map_or(DEFAULT, String::as_str);
        let policy = match self.policies.get(name) {
            Some(Ok(policy)) => policy,
            Some(Err(error)) => return Err(PolicyError::Unreadable(name.into(), error.clone())),
            None if named.is_none() => OPEN,
            None => return Err(PolicyError::Missing(name.into())),
        };
        if policy.is_open_to(namespace) {
            return Ok(policy);
        }
        Err(PolicyError::Closed { policy: name.into(), namespace: workload.namespace.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn policies(policies: &Value, namespace: &Value) -> Policies {
        let policies: BTreeMap<String, DispatchPolicySpec> = serde_json::from_value(policies.clone()).unwrap();
        Policies {
            policies: policies.iter().map(|(name, spec)| (name.clone(), Policy::read(spec))).collect(),
            namespaces: [("ml".into(), serde_json::from_value(namespace.clone()).unwrap())].into(),
        }
    }

    fn workload(policy: Option<&str>) -> Workload {
        let labels = policy.map(|name| json!({ labels::POLICY: name }));
        let meta = json!({"namespace": "ml", "name": "a", "uid": "u", "resourceVersion": "1", "labels": labels});
        serde_json::from_value(json!({ "metadata": meta })).unwrap()
    }

    fn labels_of(worker: &Value) -> BTreeMap<String, String> {
        serde_json::from_value(worker.clone()).unwrap()
    }

    #[test]
    fn without_a_default_policy_every_worker_is_open_to_everybody() {
        let found = policies(&json!({"other": {"workers": {"matchLabels": {"a": "b"}}}}), &json!({}));
        assert_eq!(found.of(&workload(None)), Ok(&Policy::default()));
    }

    #[test]
    fn a_workload_names_its_policy_before_its_namespace_does() {
        let all = json!({
            "default": {"keepFinished": "1s"}, "namespaces-own": {"keepFinished": "2s"}, "jobs-own": {"keepFinished": "3s"},
        });
        let kept = |namespace: Value, job: Option<&str>| {
            policies(&all, &namespace).of(&workload(job)).unwrap().keep_finished.unwrap().as_secs()
        };
        assert_eq!(kept(json!({}), None), 1);
        assert_eq!(kept(json!({labels::POLICY: "namespaces-own"}), None), 2);
        assert_eq!(kept(json!({labels::POLICY: "namespaces-own"}), Some("jobs-own")), 3);
    }

    #[test]
    fn a_policy_that_is_missing_unreadable_or_not_for_this_namespace_places_nothing() {
        let all = json!({
            "default": {"namespaces": {"matchLabels": {"team": "ml"}}},
            "bad": {"workers": {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}},
        });
        let error = |namespace: Value, job| policies(&all, &namespace).of(&workload(job)).unwrap_err().to_string();
        assert_eq!(error(json!({}), None), "DispatchPolicy default is not open to namespace ml");
        assert_eq!(error(json!({}), Some("none")), "DispatchPolicy none does not exist");
        assert!(error(json!({}), Some("bad")).starts_with("DispatchPolicy bad: "));
        assert!(policies(&all, &json!({"team": "ml"})).of(&workload(None)).is_ok());
    }

    #[test]
    fn weights_of_all_preferences_that_match_are_added_up() {
        let spec = json!({
            "workers": {"matchLabels": {"region": "eu"}},
            "prefer": [{"workers": {"matchLabels": {"price": "low"}}, "weight": 10},
                       {"workers": {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}, "weight": 5}],
            "onWorkerLost": {"action": "Fail", "after": "15m"},
        });
        let policy = Policy::read(&serde_json::from_value(spec).unwrap()).unwrap();
        let both = labels_of(&json!({"region": "eu", "price": "low", "gpu": "a100"}));
        assert_eq!((policy.allows(&both), policy.weight(&both)), (true, 15));
        let neither = labels_of(&json!({"region": "us"}));
        assert_eq!((policy.allows(&neither), policy.weight(&neither)), (false, 0));
        assert_eq!(policy.fail_after, Some(Duration::from_secs(900)));
    }
}
