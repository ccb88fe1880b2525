use jobferry_api::managed_by;
use jobferry_core::knowledge::Activity;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::*;

fn workload(status: &Value) -> Workload {
    let job = json!({
        "metadata": {"namespace": "ml", "name": "train", "uid": "u", "resourceVersion": "1"},
        "spec": {"managedBy": managed_by::DISPATCHER, "template": {}},
        "status": status,
    });
    serde_json::from_value(job).unwrap()
}

fn placement(worker: &str, epoch: u32) -> Placement {
    Placement::new(worker.into(), "identity".into(), epoch, Timestamp::UNIX_EPOCH)
}

fn placed_on(worker: &str) -> Workload {
    Workload { record: Record::Placed(placement(worker, 1)), ..workload(&json!({})) }
}

fn told(reason: &str) -> Action {
    Action::Tell(Told { holds: false, reason: reason.into(), message: "because".into(), at: None })
}

fn end(type_: &str, reason: &str) -> Value {
    json!({"conditions": [{"type": type_, "status": "True", "reason": reason, "message": "because"}]})
}

fn wrote(status: Value) -> Action {
    Action::WriteStatus { status: serde_json::from_value(status).unwrap(), placement: None }
}

#[test]
fn each_turn_in_the_life_of_a_workload_is_told_in_its_words() {
    use Severity::{Normal, Warning};
    let mut moving = placement("eu-1", 2);
    moving.moving = true;
    for (workload, action, severity, reason, message) in [
        (workload(&json!({})), Action::RecordPlacement(placement("eu-1", 1)), Normal, "Placed", "on worker eu-1"),
        (placed_on("eu-1"), Action::RecordPlacement(moving), Normal, "Moving", "leaves worker eu-1, which refuses it"),
        (
            placed_on("eu-1"),
            Action::Alarm(Alarm::ActedOn(Activity::Status("an-operator".into()))),
            Warning,
            "ForeignController",
            "an-operator writes the status of a workload that was handed to Jobferry, and may run it here: dispatching it \
             stops, and a mirror that it has is left alone; stop that controller or let it heed managedBy, then submit the \
             workload again",
        ),
        (
            placed_on("eu-1"),
            Action::Alarm(Alarm::ActedOn(Activity::Child("pods/train-0".into()))),
            Warning,
            "ForeignController",
            "pods/train-0 was created here for a workload that was handed to Jobferry, so somebody else runs it: dispatching it \
             stops, and a mirror that it has is left alone; stop that controller or let it heed managedBy, then submit the \
             workload again",
        ),
        (workload(&json!({})), told("NoWorkerFits"), Warning, "WaitingForWorker", "because"),
        (workload(&json!({})), told("InvalidNarrowing"), Warning, "InvalidNarrowing", "because"),
        (placed_on("eu-1"), told("Refused"), Warning, "Refused", "because"),
        (placed_on("eu-1"), told("EditRefused"), Warning, "EditRefused", "because"),
        (
            placed_on("eu-1"),
            wrote(end("Complete", "CompletionsReached")),
            Normal,
            "Finished",
            "Complete on worker eu-1: CompletionsReached",
        ),
        (
            placed_on("eu-1"),
            wrote(end("Failed", "BackoffLimitExceeded")),
            Normal,
            "Finished",
            "Failed on worker eu-1: BackoffLimitExceeded",
        ),
        (placed_on("eu-1"), wrote(end("Failed", "MirrorDeleted")), Warning, "MirrorDeleted", "because"),
        (placed_on("eu-1"), wrote(end("Failed", "WorkerLost")), Warning, "WorkerLost", "because"),
        (placed_on("eu-1"), told("Finished"), Normal, "Finished", "because"),
        (placed_on("eu-1"), told("KindMissing"), Warning, "KindMissing", "because"),
    ] {
        let expected = Happening { severity, reason: reason.into(), message: message.into() };
        assert_eq!(news(&workload, &action), Some(expected), "{action:?}");
    }
}

#[test]
fn what_is_no_news_is_not_told() {
    for (workload, action) in [
        (placed_on("eu-1"), Action::RecordPlacement(placement("eu-1", 1))),
        (placed_on("eu-1"), wrote(json!({"active": 1}))),
        (workload(&end("Complete", "CompletionsReached")), wrote(end("Complete", "CompletionsReached"))),
        (placed_on("eu-1"), told("Placed")),
        (placed_on("eu-1"), told("Moving")),
        // Of other kinds than Job the end is news when it is told: what is copied may be taken back.
        (placed_on("eu-1"), Action::WriteCustomStatus { status: Box::new(end("Failed", "FailedJobs")) }),
        (placed_on("eu-1"), Action::ReadAgain),
    ] {
        assert_eq!(news(&workload, &action), None, "{action:?}");
    }
}
