use jobferry_core::{
    kind::Table,
    placement::{KindLink, Verdict},
    policy::Policies,
    refusal::{Ground, Refusal},
};
use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use std::{sync::Arc, time::Duration};

use super::{
    explanation::{Because, Judged, Outcome, Runner, Unblock, Wrong},
    fleet::view,
    *,
};

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
    let subject = Subject::Object { kind: KindRef::Job, object: job.clone() };
    Explanation::of(&subject, fleet(), refusals, NOW).unwrap()
}

fn chosen(worker: &str, because: Because) -> Outcome {
    Outcome::Chosen { worker: worker.to_owned(), because }
}

#[test]
fn each_worker_has_a_verdict_and_what_would_change_it() {
    let explained = explained(&ours(&json!({"jobferry.dev/worker-selector": "region=eu"})), &BTreeMap::new());
    assert_eq!(explained.outcome, chosen("eu-1", Because::OnlyOneThatFits));
    let verdicts: Vec<_> = explained.workers.iter().map(|line| (line.worker.as_str(), line.verdict.kind)).collect();
    assert_eq!(verdicts, [("eu-1", "Fits"), ("eu-2", "Cordoned"), ("us-1", "SelectorMismatch")]);
    assert_eq!(explained.workers[1].unblock, Some(Unblock::Run("jobferry worker uncordon eu-2".into())));
}

#[test]
fn a_worker_that_refused_says_why() {
    let refusal =
        Refusal { epoch: 1, ground: Ground::Quota, why: "exceeded quota".into(), at: Duration::ZERO, times: 1 };
    let explained = explained(&ours(&json!({})), &[("eu-1".to_owned(), refusal)].into());
    let verdict = &explained.workers[0].verdict;
    assert_eq!((verdict.kind, verdict.refusal.as_deref()), ("Refused", Some("exceeded quota")));
    assert_eq!(explained.outcome, chosen("us-1", Because::OnlyOneThatFits));
}

#[test]
fn programs_get_what_people_read() {
    let too_old = serde_json::to_value(Judged::of(&Verdict::TooOld { needs: 34 })).unwrap();
    let message = "older than Kubernetes 1.34, which its spec needs";
    assert_eq!(too_old, json!({"type": "TooOld", "message": message, "needsMinor": 34}));
    let outcome = serde_json::to_value(chosen("eu-1", Because::FewestUnfinished)).unwrap();
    assert_eq!(outcome, json!({"type": "Chosen", "worker": "eu-1", "because": "FewestUnfinished"}));
}

/// A file has no UID yet: which of two equals it would get is not known, and not guessed.
#[test]
fn what_a_uid_decides_is_open_before_there_is_one() {
    let job = ours(&json!({}));
    let submitted = explained(&job, &BTreeMap::new());
    assert!(matches!(submitted.outcome, Outcome::Chosen { because: Because::Uid, .. }), "{:?}", submitted.outcome);
    let file = Subject::File { job, namesake: None };
    let file = Explanation::of(&file, fleet(), &BTreeMap::new(), NOW).unwrap();
    assert_eq!(file.outcome, Outcome::OneOf { workers: vec!["eu-1".into(), "us-1".into()] });
    assert!(file.to_string().starts_with("a was not submitted yet\na Job like this would now go to eu-1 or us-1: "));
}

#[test]
fn a_file_whose_job_is_there_already_says_so() {
    let mut there = ours(&json!({}));
    there["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
    there["status"] = json!({"conditions": [{"type": "Complete", "status": "True", "reason": "CompletionsReached"}]});
    let file = Subject::File { job: ours(&json!({})), namesake: Some(there) };
    let told = Explanation::of(&file, fleet(), &BTreeMap::new(), NOW).unwrap().to_string();
    assert!(told.starts_with("a Job a is there already, and is Complete on no worker, 0/1 done"), "{told}");
}

#[test]
fn a_job_that_cannot_be_placed_at_all_says_why() {
    let explained = explained(&ours(&json!({"jobferry.dev/worker-selector": "a b"})), &BTreeMap::new());
    let Outcome::Unplaceable { wrong, message } = explained.outcome else { panic!("{:?}", explained.outcome) };
    assert_eq!(wrong, Wrong::Selector);
    assert!(message.starts_with("annotation jobferry.dev/worker-selector"), "{message}");
}

#[test]
fn a_job_of_somebody_else_is_told_so() {
    for (managed_by, runner, words) in [
        (None, Runner::Cluster, "the cluster's own Job controller"),
        (Some("kubernetes.io/job-controller"), Runner::Cluster, "the cluster's own Job controller"),
        (Some("jobferry.dev/local"), Runner::Local, "`jobferry job-controller`"),
        (Some("example.com/x"), Runner::Other { managed_by: "example.com/x".into() }, "another controller"),
        (Some("jobferry.dev/dispatcher"), Runner::Dispatcher, "a Job like this would now go to"),
    ] {
        let explained = explained(&job(managed_by, &json!({})), &BTreeMap::new());
        assert!(explained.to_string().contains(words), "{managed_by:?}: {explained}");
        assert_eq!(explained.runner, runner);
    }
}

/// A kind other than Job, by its name.
fn kind(name: &str) -> KindRef {
    let table = Table::built_in().unwrap();
    let [(_, kind)] = table.called(name)[..] else { panic!("{name} is not built in") };
    KindRef::Custom(Arc::new(kind.clone()))
}

#[test]
fn other_kinds_are_judged_by_the_same_placement() {
    let why = "does not have this kind".to_owned();
    let missing = || {
        let mut fleet = fleet();
        let lacks = KindLink::Missing { why: why.clone() };
        fleet.workers.get_mut("eu-1").unwrap().kinds.insert("jobsets.jobset.x-k8s.io".into(), lacks);
        fleet
    };
    let explain = |name: &str, object: Value| {
        Explanation::of(&Subject::Object { kind: kind(name), object }, missing(), &BTreeMap::new(), NOW).unwrap()
    };
    let ours = explain("JobSet", ours(&json!({})));
    assert_eq!((&ours.runner, &ours.outcome), (&Runner::Dispatcher, &chosen("us-1", Because::OnlyOneThatFits)));
    assert_eq!((ours.workers[0].verdict.kind, &ours.workers[0].verdict.message), ("NoSuchKind", &why));
    assert!(ours.to_string().starts_with("a waits: no dispatcher has looked at it yet\nan object like this would"));

    let operators = explain("JobSet", job(Some("jobset.sigs.k8s.io/jobset-controller"), &json!({})));
    assert_eq!(operators.runner, Runner::Operator);
    let others = explain("JobSet", job(Some("example.com/other"), &json!({})));
    assert_eq!(others.runner, Runner::Other { managed_by: "example.com/other".into() });

    let mut queued = job(Some(managed_by::MULTIKUEUE), &json!({}));
    queued["metadata"]["labels"] = json!({"jobferry.dev/dispatch": "true", "kueue.x-k8s.io/queue-name": "gpus"});
    let queued = explain("RayJob", queued);
    assert!(matches!(queued.outcome, Outcome::Unplaceable { wrong: Wrong::Workload, .. }), "{:?}", queued.outcome);
}
