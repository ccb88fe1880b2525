//! Workloads of other kinds than Job: the same protocol, with their own status and a record beside it.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;
use crate::{
    custom::{read_mirror, read_workload},
    kind::{Kind, Table, digest},
    patch,
    placement::KindLink,
    time::WAITING_INTERVAL,
    workload::Told,
};

fn kind(name: &str) -> Arc<Kind> {
    let table = Table::built_in().unwrap();
    let [(_, kind)] = table.called(name)[..] else { panic!("{name}") };
    Arc::new(kind.clone())
}

fn job_set() -> Value {
    json!({
        "metadata": {"namespace": "ml", "name": "train", "uid": "u1", "resourceVersion": "50", "generation": 1},
        "spec": {"managedBy": "jobferry.dev/dispatcher", "replicatedJobs": []},
    })
}

fn ray_cluster() -> Value {
    json!({
        "metadata": {"namespace": "ml", "name": "train", "uid": "u1", "resourceVersion": "50", "generation": 1,
                     "labels": {"jobferry.dev/dispatch": "true"}},
        "spec": {"managedBy": "kueue.x-k8s.io/multikueue"},
    })
}

/// The object once this placement is recorded on it, as the server merges the patch.
fn recorded(kind: &Arc<Kind>, mut object: Value, placement: &Placement) -> Value {
    let workload = read_workload(kind, &object, NOW.wall).unwrap();
    let patch = patch::placement(&workload, placement, None).unwrap();
    assert!(patch.get("status").is_none(), "a record beside the status");
    for part in ["annotations", "labels"] {
        for (key, value) in patch["metadata"][part].as_object().into_iter().flatten() {
            object["metadata"][part][key] = value.clone();
        }
    }
    object
}

/// The mirror of an object, as its worker shows it.
fn mirrored(kind: &Arc<Kind>, object: &Value, status: &Value) -> Mirror {
    let mut mirror = kind.mirror_of(object, &placement(), "o").unwrap();
    for (field, value) in [("uid", "m1"), ("resourceVersion", "5")] {
        mirror["metadata"][field] = value.into();
    }
    mirror["status"] = status.clone();
    read_mirror(kind, &mirror, NOW.wall).unwrap()
}

/// A world in which the workload is this object, whose kind both workers have.
fn world_of(kind: &Arc<Kind>, object: &Value) -> World {
    let mut world = world().without_workload();
    world.known.workload = Some(read_workload(kind, object, NOW.wall).unwrap().into());
    for worker in world.workers.values_mut() {
        worker.kinds.insert(kind.name(), KindLink::Listed);
    }
    world
}

#[test]
fn it_is_placed_where_its_kind_is_in_sight() {
    let kind = kind("JobSet");
    let mut world = world_of(&kind, &job_set());
    let missing = KindLink::Missing { why: "does not have this kind".into() };
    world.workers.get_mut("eu-1").unwrap().kinds.insert(kind.name(), missing.clone());
    let plan = world.plan();
    let [Action::RecordPlacement(placement)] = &plan[..] else { panic!("{plan:?}") };
    assert_eq!(placement.worker, "eu-2");

    let mut nowhere = world_of(&kind, &job_set());
    for worker in nowhere.workers.values_mut() {
        worker.kinds.insert(kind.name(), missing.clone());
    }
    let plan = nowhere.plan();
    let [Action::Tell(told)] = &plan[..] else { panic!("{plan:?}") };
    assert_eq!(told.message, "of 2 workers none fits: 2 does not have this kind");

    let mut unasked = world_of(&kind, &job_set());
    unasked.workers.values_mut().for_each(|worker| worker.kinds.clear());
    let later = Action::WakeAt(NOW.monotonic + WAITING_INTERVAL);
    assert_eq!(unasked.plan(), [later], "it will be known in a moment");
}

#[test]
fn a_worker_that_does_not_let_us_look_may_have_its_mirror_and_one_without_the_kind_has_not() {
    let kind = kind("JobSet");
    let mut wiped = job_set();
    wiped["metadata"]["labels"][api::labels::WORKER] = json!("eu-1");
    let why = || "so".to_owned();
    let plan = |link: KindLink| {
        let mut world = world_of(&kind, &wiped);
        world.workers.get_mut("eu-1").unwrap().kinds.insert(kind.name(), link);
        world.plan()
    };
    let hidden = plan(KindLink::Forbidden { why: why() });
    assert!(matches!(&hidden[..], [Action::Tell(told)] if told.message.contains("worker eu-1")), "{hidden:?}");
    let absent = plan(KindLink::Missing { why: why() });
    assert!(matches!(absent[..], [Action::RecordPlacement(_)]), "{absent:?}");
}

#[test]
fn a_record_that_somebody_wiped_off_is_not_written_anew_while_a_create_may_land() {
    let kind = kind("JobSet");
    let placed_at = Duration::from_secs(900);
    let over = placed_at + QUARANTINE;
    for memory in [
        Memory { acknowledged: Some((1, placed_at)), ..Memory::default() },
        Memory { acknowledged: Some((1, Duration::ZERO)), in_doubt: Some(placed_at), ..Memory::default() },
        Memory { placement_seen: Some((1, Time(NOW.wall), placed_at)), ..Memory::default() },
    ] {
        let wiped = || world_of(&kind, &job_set()).remembering(memory.clone());
        assert_eq!(
            wiped().at(over.checked_sub(Duration::from_secs(1)).unwrap()).plan(),
            [Action::WakeAt(over)],
            "{memory:?}"
        );
        let plan = wiped().at(over).plan();
        assert!(matches!(plan[..], [Action::RecordPlacement(_)]), "{plan:?}");

        let plan = wiped().at(over).link("eu-1", AWAY).plan();
        let [Action::Alarm(Alarm::UnreadableRecord), Action::Tell(told)] = &plan[..] else { panic!("{plan:?}") };
        assert_eq!(told.reason, "RecordLost", "it may run where we do not see it");
    }
}

#[test]
fn a_record_that_the_manager_did_not_keep_is_written_anew_after_a_while() {
    let kind = kind("JobSet");
    let memory = Memory { unkept: Some(NOW.monotonic), ..Memory::default() };
    let unkept = || world_of(&kind, &job_set()).remembering(memory.clone());
    let again = NOW.monotonic + RECORD_AGAIN;
    assert_eq!(unkept().plan(), [Action::WakeAt(again)]);
    assert!(matches!(unkept().at(again).plan()[..], [Action::RecordPlacement(_)]));
}

#[test]
fn where_both_the_record_and_the_mirror_are_gone_nothing_is_started_again() {
    let kind = kind("JobSet");
    let mirror = mirrored(&kind, &job_set(), &json!({"restarts": 1}));
    let plan = world_of(&kind, &job_set()).vanished_on("eu-1", mirror).plan();
    assert_left_alone(&plan, "the record of where is gone");
}

#[test]
fn a_lost_record_is_written_anew_only_where_the_worker_has_shown_this_kind_since() {
    let kind = kind("JobSet");
    let mirror = mirrored(&kind, &job_set(), &json!({"restarts": 1}));
    let seen = || world_of(&kind, &job_set()).mirror_on("eu-1", mirror.clone());
    assert_eq!(seen().plan(), [Action::RecordPlacement(placement().with_mirror("m1"))]);
    let mut reconnected = seen().link("eu-1", Link::Live { identity: "id-9".into() });
    reconnected.workers.get_mut("eu-1").unwrap().kinds.clear();
    assert_eq!(reconnected.plan(), [], "another cluster may answer, and the mirror be in the one before");
}

#[test]
fn a_mirror_is_named_in_the_record_before_anything_of_it_is_shown() {
    let kind = kind("JobSet");
    let status = json!({"restarts": 1});
    let placed = recorded(&kind, job_set(), &placement());
    let mirror = mirrored(&kind, &placed, &status);
    let first = world_of(&kind, &placed).mirror_on("eu-1", mirror.clone()).plan();
    assert_eq!(first, [Action::RecordPlacement(placement().with_mirror("m1"))]);

    let named = recorded(&kind, placed, &placement().with_mirror("m1"));
    let then = world_of(&kind, &named).mirror_on("eu-1", mirror.clone()).plan();
    assert_eq!(then, [Action::WriteCustomStatus { status: Box::new(status.clone()) }]);

    // A manager whose definition drops the field never stores what was sent.
    let answered = |stored: &Value| {
        let memory = Memory { status_copied: Some((digest(&status), digest(stored))), ..Memory::default() };
        world_of(&kind, &named).mirror_on("eu-1", mirror.clone()).remembering(memory).plan()
    };
    assert_eq!(answered(&named["status"]), []);
    // Somebody took what was stored back: a restored manager, a manifest that was applied again.
    assert_eq!(answered(&json!({"stored": "once"})), then);

    // Right after it was written it is another dispatcher that has seen something else of the mirror.
    let wrote = |status: &Value, ago: Duration| {
        let copied = Some((digest(status), digest(&json!({"stored": "once"}))));
        let memory =
            Memory { status_copied: copied, status_written: NOW.monotonic.checked_sub(ago), ..Memory::default() };
        world_of(&kind, &named).mirror_on("eu-1", mirror.clone()).remembering(memory).plan()
    };
    let second = Duration::from_secs(1);
    let again = (NOW.monotonic + WAITING_INTERVAL).checked_sub(second).unwrap();
    assert_eq!(wrote(&status, second), [Action::WakeAt(again)]);
    assert_eq!(wrote(&status, WAITING_INTERVAL), then);
    assert_eq!(wrote(&json!({"restarts": 0}), second), then, "news are not held back");
}

#[test]
fn a_record_on_a_copy_of_the_manifest_is_none_and_a_damaged_one_is_no_absence() {
    let kind = kind("JobSet");
    let mut copy = recorded(&kind, job_set(), &placement());
    copy["metadata"]["uid"] = json!("u2");
    assert_eq!(read_workload(&kind, &copy, NOW.wall).unwrap().record, Record::None);
    let mut damaged = job_set();
    damaged["metadata"]["annotations"] = json!({"jobferry.dev/placement": "{}"});
    let plan = world_of(&kind, &damaged).plan();
    let [Action::Alarm(Alarm::UnreadableRecord), Action::Tell(told)] = &plan[..] else { panic!("{plan:?}") };
    let workload = read_workload(&kind, &damaged, NOW.wall).unwrap();
    let written = patch::told(&workload, told)["metadata"]["annotations"].clone();
    assert!(written.get("jobferry.dev/placement").is_none(), "what cannot be read is not written over");
}

#[test]
fn an_object_that_somebody_else_has_run_is_not_adopted() {
    let kind = kind("JobSet");
    let mut object = job_set();
    object["status"] = json!({"restarts": 0, "conditions": []});
    assert!(matches!(world_of(&kind, &object).plan()[..], [Action::RecordPlacement(_)]), "defaults say nothing");
    object["status"]["restarts"] = json!(1);
    let plan = world_of(&kind, &object).plan();
    assert!(matches!(plan[..], [Action::Alarm(Alarm::UnreadableRecord), Action::Tell(_)]), "{plan:?}");
}

/// A kind without a subresource for its status.
fn without_subresource(kind: &Kind) -> Arc<Kind> {
    let mut kind = kind.clone();
    kind.status.in_object = true;
    Arc::new(kind)
}

/// Who acts on an object of which this plan says so, in an alarm and in our note (which changes once a minute at most), and
/// does nothing else.
fn left_alone(plan: &[Action]) -> Option<Alarm> {
    match plan {
        [Action::Alarm(alarm), Action::WakeAt(_)] => Some(alarm.clone()),
        [Action::Alarm(alarm), Action::Tell(told)] => {
            assert_eq!((told.reason.as_str(), &told.message), ("ForeignController", &alarm.to_string()));
            Some(alarm.clone())
        }
        _ => None,
    }
}

#[test]
fn an_object_whose_status_somebody_else_writes_is_left_alone_wherever_it_stands() {
    let kind = kind("JobSet");
    let whole = json!({"manager": "operator", "fieldsV1": {"f:status": {"f:restarts": {}}}});
    for (writers, kind, by) in [
        (json!([{"manager": "operator", "subresource": "status"}]), &kind, Some("operator")),
        (json!([{"manager": "jobferry", "subresource": "status"}, {"manager": "kubectl"}]), &kind, None),
        (
            json!([{"manager": "jobferry", "subresource": "status"}, {"manager": "operator", "subresource": "status"}]),
            &kind,
            Some("operator"),
        ),
        // With a subresource, what somebody sends as the status of the object itself is not stored.
        (json!([whole]), &kind, None),
        (json!([whole]), &without_subresource(&kind), Some("operator")),
        (json!([{"manager": "user", "fieldsV1": {"f:spec": {}}}]), &without_subresource(&kind), None),
    ] {
        let placed = recorded(kind, job_set(), &placement().with_mirror("m1"));
        let mirror = mirrored(kind, &placed, &json!({"restarts": 1}));
        for (mut object, mirror) in [(job_set(), None), (placed, Some(mirror))] {
            object["metadata"]["managedFields"] = writers.clone();
            let world = world_of(kind, &object);
            let plan = match mirror {
                Some(mirror) => world.mirror_on("eu-1", mirror).plan(),
                None => world.plan(),
            };
            let alarm = by.map(|by| Alarm::ActedOn(Activity::Status(by.into())));
            assert_eq!(left_alone(&plan), alarm, "{writers}: {plan:?}");
        }
    }
}

#[test]
fn who_acts_on_an_object_is_noted_once_however_many_take_turns() {
    let kind = kind("JobSet");
    let object = |writers: [&str; 2]| {
        let mut object = recorded(&kind, job_set(), &placement().with_mirror("m1"));
        let writes = |by| json!({"manager": by, "subresource": "status"});
        object["metadata"]["managedFields"] = writers.map(writes).into_iter().collect();
        object
    };
    let plan = world_of(&kind, &object(["b", "a"])).plan();
    let [alarm @ Action::Alarm(_), Action::Tell(told)] = &plan[..] else { panic!("{plan:?}") };
    for writers in [["b", "a"], ["a", "b"], ["c", "b"]] {
        let plan = world_of(&kind, &after_told(&kind, &object(writers), told)).plan();
        assert!(matches!(plan[..], [Action::Alarm(_)]), "{writers:?}: {plan:?}");
        assert_eq!(plan.contains(alarm), writers.contains(&"a"), "of several always the same: {writers:?}");
    }
}

#[test]
fn an_object_for_which_something_was_created_on_the_manager_is_left_alone_until_it_ends_or_goes() {
    let kind = kind("JobSet");
    let at = placement().with_mirror("m1");
    let placed = recorded(&kind, job_set(), &at);
    let changed = |pointer: &str, value: Value| {
        let mut object = placed.clone();
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[field] = value;
        object
    };
    let ahead = recorded(&kind, job_set(), &Placement::new("eu-1".into(), "id-1".into(), 0, NOW.wall));
    let moving = recorded(&kind, job_set(), &at.leaving(0, NOW.wall));
    let alarm = Alarm::ActedOn(Activity::Child("jobs.batch/train-w-0".into()));
    let ended = json!({"conditions": [{"type": "Completed", "status": "True"}]});
    for (what, object, mirrored_yet, stops) in [
        ("unplaced", job_set(), false, true),
        ("placed", placed.clone(), false, true),
        ("running", placed.clone(), true, true),
        ("a record behind its mirror", ahead, true, true),
        ("leaving its worker", moving, true, true),
        ("without a record", job_set(), true, true),
        ("ended by another, while its mirror runs", changed("/status", ended.clone()), true, true),
        ("finished", changed("/status", ended), false, false),
        ("being deleted", changed("/metadata/deletionTimestamp", json!("2026-11-15T10:00:00Z")), true, false),
        ("taken back", changed("/spec/managedBy", json!("jobset.sigs.k8s.io/jobset-controller")), true, false),
    ] {
        let memory = Memory { local_child: Some("jobs.batch/train-w-0".into()), ..Memory::default() };
        let mut world = world_of(&kind, &object).remembering(memory);
        if mirrored_yet {
            world = world.mirror_on("eu-1", mirrored(&kind, &object, &json!({"restarts": 1})));
        }
        let plan = world.plan();
        assert_eq!(left_alone(&plan), stops.then(|| alarm.clone()), "{what}: {plan:?}");
        assert!(stops || !plan.contains(&Action::Alarm(alarm.clone())), "{what}: {plan:?}");
    }
}

#[test]
fn an_object_that_must_not_be_dispatched_is_told_so() {
    let kind = kind("RayCluster");
    let mut object = ray_cluster();
    object["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = json!("gpus");
    let plan = world_of(&kind, &object).plan();
    let [Action::Tell(told)] = &plan[..] else { panic!("{plan:?}") };
    assert_eq!((told.holds, told.reason.as_str()), (false, "NotDispatchable"));
    assert!(told.message.contains("Kueue's queue gpus"), "{}", told.message);

    // With no MultiKueue on the manager the queue is one of the worker's.
    let placed = world_of(&kind, &object).policy(json!({"kueueQueues": "Workers"})).plan();
    assert!(matches!(placed[..], [Action::RecordPlacement(_)]), "{placed:?}");
    let manager = world_of(&kind, &object).policy(json!({"kueueQueues": "Manager"})).plan();
    assert!(matches!(manager[..], [Action::Tell(_)]), "{manager:?}");
}

#[test]
fn what_of_the_status_holds_on_the_worker_only_is_told_beside_it() {
    let note = |kind: &Arc<Kind>, object| {
        recorded(kind, object, &placement())["metadata"]["annotations"]["jobferry.dev/worker-references"].clone()
    };
    assert_eq!(note(&kind("RayCluster"), ray_cluster()), json!("eu-1: status.endpoints, status.head"));
    assert_eq!(note(&kind("JobSet"), job_set()), Value::Null, "nothing of it does");
}

/// The object after what we tell of it was written.
fn after_told(kind: &Arc<Kind>, object: &Value, told: &Told) -> Value {
    let patch = patch::told(&read_workload(kind, object, NOW.wall).unwrap(), told);
    let mut object = object.clone();
    let note = "jobferry.dev/placed";
    object["metadata"]["annotations"][note] = patch["metadata"]["annotations"][note].clone();
    object
}

#[test]
fn a_mirror_that_somebody_deleted_fails_the_object_in_the_words_of_its_kind() {
    let message = "the mirror on worker eu-1 was deleted before its end was seen";
    let named = placement().with_mirror("m1");
    let memory = || Memory { absent: Some(Absence::proved_for(&named)), ..Memory::default() };
    let plan = |kind: &Arc<Kind>, object: &Value| world_of(kind, object).remembering(memory()).plan();
    let jobset_condition = json!({
        "type": "Failed", "status": "True", "reason": "MirrorDeleted", "message": message,
        "lastTransitionTime": NOW.wall.to_string(),
    });
    for (name, object, failed) in
        [("JobSet", job_set(), Some(json!({"conditions": [jobset_condition]}))), ("RayCluster", ray_cluster(), None)]
    {
        let kind = kind(name);
        let object = recorded(&kind, object, &named);
        let told = plan(&kind, &object);
        let [Action::Tell(told)] = &told[..] else { panic!("{told:?}") };
        assert_eq!(
            (told.holds, told.reason.as_str(), told.message.as_str()),
            (false, "MirrorDeleted", message),
            "{name}"
        );

        let mut object = after_told(&kind, &object, told);
        let next = plan(&kind, &object);
        let Some(failed) = failed else {
            assert_eq!(next, [], "{name} never ends");
            continue;
        };
        assert_eq!(next, [Action::WriteCustomStatus { status: Box::new(failed.clone()) }], "{name}");
        object["status"] = failed;
        let end = plan(&kind, &object);
        let Some(Action::Tell(told)) = end.last() else { panic!("{end:?}") };
        assert_eq!(told.message, format!("Failed on worker eu-1: {message}"), "why stays told, and is so at once");
    }
}

#[test]
fn an_object_that_is_taken_back_loses_its_mirror() {
    let kind = kind("JobSet");
    let mut object = recorded(&kind, job_set(), &placement().with_mirror("m1"));
    let mirror = mirrored(&kind, &object, &json!({"restarts": 1}));
    object["spec"]["managedBy"] = json!("jobset.sigs.k8s.io/jobset-controller");
    let plan = world_of(&kind, &object).mirror_on("eu-1", mirror.clone()).plan();
    let expected = Action::DeleteMirror { worker: "eu-1".into(), mirror: (&mirror).into(), pods: Pods::Later };
    assert_eq!(plan, [expected]);
}

#[test]
fn an_end_that_the_operator_may_take_back_counts_when_it_has_stood_for_a_while() {
    let kind = kind("TrainJob");
    let failed = |ago: i64| {
        let since = Timestamp::from_second(NOW.wall.as_second() - ago).unwrap().to_string();
        json!({"conditions": [{"type": "Failed", "status": "True", "reason": "FailedJobs", "lastTransitionTime": since}]})
    };
    let mut object = ray_cluster();
    object["status"] = failed(20);
    let mut workload = read_workload(&kind, &object, NOW.wall).unwrap();
    assert!(!workload.is_finished());
    workload.settle(NOW.wall.checked_add(Duration::from_secs(39)).unwrap());
    assert!(!workload.is_finished());
    workload.settle(NOW.wall.checked_add(Duration::from_secs(40)).unwrap());
    assert!(workload.is_finished());
    object["status"] = failed(61);
    assert!(read_workload(&kind, &object, NOW.wall).unwrap().is_finished());
}

#[test]
fn a_finished_object_goes_when_its_time_to_live_is_over() {
    let kind = kind("JobSet");
    let mut object = recorded(&kind, job_set(), &placement().with_mirror("m1"));
    object["spec"]["ttlSecondsAfterFinished"] = json!(60);
    object["status"] = json!({"conditions": [{"type": "Completed", "status": "True"}]});
    let plan = world_of(&kind, &object).plan();
    let [Action::Tell(told)] = &plan[..] else { panic!("{plan:?}") };
    assert_eq!((told.reason.as_str(), told.message.as_str()), ("Finished", "Succeeded on worker eu-1"));

    let patch = patch::told(&read_workload(&kind, &object, NOW.wall).unwrap(), told);
    object["metadata"]["annotations"]["jobferry.dev/placed"] =
        patch["metadata"]["annotations"]["jobferry.dev/placed"].clone();
    let after = |seconds: u64| {
        let mut world = world_of(&kind, &object);
        world.now.wall = NOW.wall.checked_add(Duration::from_secs(seconds)).unwrap();
        world.plan()
    };
    assert_eq!(after(20), [Action::WakeAt(NOW.monotonic + Duration::from_secs(40))]);
    assert_eq!(after(60), [Action::DeleteWorkload]);
    object["spec"].as_object_mut().unwrap().remove("ttlSecondsAfterFinished");
    assert_eq!(world_of(&kind, &object).plan(), [], "without one it stays");
}

#[test]
fn what_an_operator_makes_of_a_mirror_inherits_its_marks_and_is_no_mirror() {
    let kind = kind("RayCluster");
    let mut object = kind.mirror_of(&ray_cluster(), &placement(), "o").unwrap();
    for (field, value) in [("uid", "m1"), ("resourceVersion", "5"), ("name", "train-x7k2p")] {
        object["metadata"][field] = value.into();
    }
    let origin = |object: &Value| read_mirror(&kind, object, NOW.wall).unwrap().origin_uid;
    assert_eq!(origin(&object), "u1");
    object["metadata"]["ownerReferences"] = json!([{"kind": "RayJob", "name": "train", "controller": true}]);
    assert_eq!(origin(&object), "");
}

/// A world in which the mirror was seen, if so, before its worker began to say this of its kind.
fn lacking(kind: &Arc<Kind>, link: &KindLink, ago: Duration, seen: bool) -> World {
    let status = json!({"restarts": 1});
    let mut object = recorded(kind, job_set(), &placement().with_mirror("m1"));
    object["status"] = status.clone();
    let mut world = world_of(kind, &object);
    world.workers.get_mut("eu-1").unwrap().kinds.insert(kind.name(), link.clone());
    // Its placement was told long ago.
    world.now.wall = NOW.wall.checked_add(60 * WAITING_INTERVAL).unwrap();
    let world = world.remembering(Memory { worker_unusable: NOW.monotonic.checked_sub(ago), ..Memory::default() });
    if seen { world.mirror_on("eu-1", mirrored(kind, &object, &status)) } else { world }
}

#[test]
fn people_are_told_when_the_worker_of_an_object_does_not_show_its_kind_any_more() {
    let kind = kind("JobSet");
    let missing = KindLink::Missing { why: "none".into() };
    let forbidden = KindLink::Forbidden { why: "no".into() };
    for (link, words) in [
        (&missing, "on worker eu-1, which does not have this kind any more; it is waited for"),
        (&forbidden, "on worker eu-1, which does not let us watch this kind any more; it is waited for"),
    ] {
        for seen in [false, true] {
            let at_once = lacking(&kind, link, Duration::ZERO, seen).plan();
            assert_eq!(at_once, [Action::WakeAt(NOW.monotonic + WAITING_INTERVAL)], "it may be back in a moment");
            let plan = lacking(&kind, link, WAITING_INTERVAL, seen).plan();
            let [Action::Tell(told)] = &plan[..] else { panic!("{plan:?}") };
            assert_eq!((told.holds, told.reason.as_str(), told.message.as_str()), (true, "KindMissing", words));
        }
    }
    let fails = || json!({"onWorkerLost": {"action": "Fail", "after": "15m"}});
    for link in [&missing, &forbidden] {
        let plan = lacking(&kind, link, 15 * WAITING_INTERVAL, true).policy(fails()).plan();
        assert!(matches!(plan[..], [Action::Tell(_)]), "a worker that answers is not lost: {plan:?}");
    }
}

#[test]
fn an_object_that_cannot_be_failed_is_told_once_that_its_worker_is_lost() {
    let kind = kind("RayCluster");
    let named = recorded(&kind, ray_cluster(), &placement().with_mirror("m1"));
    // Its placement was told long ago.
    let now = |later: Duration| Now {
        wall: NOW.wall.checked_add(60 * WAITING_INTERVAL + later).unwrap(),
        monotonic: NOW.monotonic + later,
    };
    let lost = |object: &Value, removed: bool, later: Duration| {
        let mut world = world_of(&kind, object).policy(json!({"onWorkerLost": {"action": "Fail", "after": "15m"}}));
        world.now = now(later);
        if removed {
            let missed = NOW.monotonic.checked_sub(15 * WAITING_INTERVAL);
            let mut world = world.remembering(Memory { worker_missing: missed, ..Memory::default() });
            world.workers.remove("eu-1");
            return world;
        }
        let away = Link::Away { since: NOW.wall, noticed: NOW.monotonic.checked_sub(15 * WAITING_INTERVAL).unwrap() };
        world.link("eu-1", away).mirror_on("eu-1", mirrored(&kind, object, &Value::Null))
    };
    for removed in [true, false] {
        let plan = lost(&named, removed, Duration::ZERO).plan();
        let [Action::Tell(told)] = &plan[..] else { panic!("{plan:?}") };
        assert_eq!((told.holds, told.reason.as_str()), (false, "WorkerLost"), "removed: {removed}");

        let object = after_told(&kind, &named, told);
        for later in [Duration::from_secs(1), WAITING_INTERVAL, 3 * WAITING_INTERVAL] {
            let plan = lost(&object, removed, later).plan();
            assert!(!plan.iter().any(|action| matches!(action, Action::Tell(_))), "{later:?}: {plan:?}");
        }
    }
    // Nor does it wait because something else was told a moment ago.
    let missing = Told {
        holds: true,
        reason: api::conditions::REASON_WORKER_MISSING.into(),
        message: "m".into(),
        at: Some(Time(now(Duration::ZERO).wall)),
    };
    let plan = lost(&after_told(&kind, &named, &missing), true, Duration::from_secs(1)).plan();
    let says_lost = |action: &Action| matches!(action, Action::Tell(told) if told.reason == "WorkerLost");
    assert!(plan.iter().any(says_lost), "{plan:?}");
}
