use super::{fleet::view, *};
use jobferry_core::{policy::Policies, refusal::Ground};
use serde_json::json;

const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

fn fleet() -> Fleet {
    let worker = |name: &str, region: &str, cordoned: bool| {
        let condition = json!({"type": "Connected", "status": "True", "reason": "", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let worker = json!({
            "apiVersion": "jobferry.dev/v1alpha1", "kind": "Worker",
            "metadata": {"name": name, "labels": {"region": region}},
            "spec": {"kubeconfigSecret": name, "cordoned": cordoned},
            "status": {"identity": name, "version": "v1.35.8", "unfinished": 3, "conditions": [condition]},
        });
        (name.to_owned(), view(&serde_json::from_value(worker).unwrap()))
    };
    let workers = [worker("eu-1", "eu", false), worker("eu-2", "eu", true), worker("us-1", "us", false)].into();
    Fleet { workers, policies: Policies::default() }
}

fn job(managed_by: Option<&str>, annotations: &Value) -> Value {
    json!({"metadata": {"name": "a", "namespace": "ml", "uid": "u", "resourceVersion": "0", "annotations": annotations},
           "spec": {"managedBy": managed_by, "template": {}}})
}

fn ours(annotations: &Value) -> Value {
    job(Some(managed_by::DISPATCHER), annotations)
}

fn explained(job: &Value, refusals: &BTreeMap<String, Refusal>) -> Explanation {
    explain(job, &fleet(), refusals, NOW).unwrap()
}

#[test]
fn each_worker_has_a_verdict_and_what_would_change_it() {
    let explained = explained(&ours(&json!({"jobferry.dev/worker-selector": "region=eu"})), &BTreeMap::new());
    assert_eq!(explained.chosen.as_deref(), Some("eu-1"));
    assert_eq!(explained.because, Some("it is the only one that fits"));
    let verdicts: Vec<_> = explained.workers.iter().map(|line| (line.worker.as_str(), line.verdict.as_str())).collect();
    assert_eq!(verdicts, [("eu-1", "fits"), ("eu-2", "cordoned"), ("us-1", "labels do not match the selector")]);
    assert_eq!(explained.workers[1].unblock, "jobferry worker uncordon eu-2");
}

#[test]
fn a_worker_that_refused_says_why() {
    let refusal =
        Refusal { epoch: 1, ground: Ground::Quota, why: "exceeded quota".into(), at: Duration::ZERO, times: 1 };
    let explained = explained(&ours(&json!({})), &[("eu-1".to_owned(), refusal)].into());
    assert_eq!(explained.workers[0].verdict, "refused it: exceeded quota");
    assert_eq!(explained.chosen.as_deref(), Some("us-1"));
}

#[test]
fn a_job_that_cannot_be_placed_at_all_says_why() {
    let explained = explained(&ours(&json!({"jobferry.dev/worker-selector": "a b"})), &BTreeMap::new());
    assert!(explained.unplaceable.unwrap().starts_with("annotation jobferry.dev/worker-selector"));
}

#[test]
fn a_job_of_somebody_else_is_told_so() {
    for (managed_by, who) in [
        (None, Some("the cluster's own Job controller")),
        (Some("kubernetes.io/job-controller"), Some("the cluster's own Job controller")),
        (Some("jobferry.dev/local"), Some("`jobferry job-controller`")),
        (Some("kueue.x-k8s.io/multikueue"), Some("another controller")),
        (Some("jobferry.dev/dispatcher"), None),
    ] {
        let told = explained(&job(managed_by, &json!({})), &BTreeMap::new()).not_dispatched;
        assert_eq!(told.is_some(), who.is_some(), "{managed_by:?}");
        assert!(told.is_none_or(|told| told.starts_with(who.unwrap())), "{managed_by:?}");
    }
}
