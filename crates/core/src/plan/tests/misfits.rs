//! Mirrors that a worker made something else of, and names that something else has.

use super::*;
use crate::claim::Misfit;
use k8s_openapi::api::batch::v1::JobStatus;

#[test]
fn a_mirror_that_was_given_to_another_controller_is_discarded_unless_it_has_counted() {
    let delegated = || Mirror { controller: Some("example.com/other".into()), ..mirror(&json!({})) };
    let seen = |at: &Placement, mirror| world().placed(at).mirror_on("eu-1", mirror).plan();
    let plan = seen(&placement(), delegated());
    let misfit = Misfit::Controller("example.com/other".into());
    assert_eq!(plan, [Action::DiscardMirror { placement: placement(), mirror: the_mirror(), misfit }]);
    assert_eq!(seen(&placement(), Mirror { deleting: true, ..delegated() }), [], "it is going already");
    let counted = seen(&placement().with_mirror("m1"), delegated());
    assert!(!counted.iter().any(|action| matches!(action, Action::DiscardMirror { .. })), "{counted:?}");
    let unmarked = seen(&placement(), Mirror { epoch: None, ..delegated() });
    assert!(matches!(unmarked[..], [Action::DiscardMirror { .. }]), "{unmarked:?}");
    let recovered = world().mirror_on("eu-1", delegated()).plan();
    assert_eq!(recovered, [Action::RecordPlacement(placement())], "nor does it count when its record is written anew");
}

#[test]
fn a_mirror_that_was_recorded_before_it_was_found_altered_leaves_its_worker_instead_of_failing_its_workload() {
    let at = placement().with_mirror("m1");
    let gone = |discarded: &str, absent| {
        let refusal = Refusal::after(None, 1, Ground::Altered, "its server drops spec.x".into(), NOW.monotonic);
        let discarded = Some(Box::new((discarded.to_owned(), Misfit::Dropped("x".into()))));
        let refusals = BTreeMap::from([("eu-1".into(), refusal)]);
        let acknowledged = Some((1, NOW.monotonic));
        world().placed(&at).remembering(Memory { acknowledged, absent, discarded, refusals, ..Memory::default() })
    };
    let proved = Some(Absence::proved_for(&at));
    assert_eq!(gone("m1", None).plan(), [prove_absent()]);
    let plan = gone("m1", proved.clone()).plan();
    assert_eq!(plan, [Action::RecordPlacement(placement())], "first it is off the record");
    let mut beside_another = gone("m1", proved.clone());
    beside_another.leads_alone = false;
    assert_eq!(
        beside_another.plan(),
        [Action::WakeAt(NOW.monotonic + RECORD_AGAIN)],
        "who has not heard of it records it again"
    );
    for (counts, why) in [
        (gone("m0", proved.clone()), "the recorded one was deleted by others"),
        (gone("m1", proved).condition(json!({"type": "FailureTarget", "status": "True"})), "its end was announced"),
    ] {
        let plan = counts.plan();
        assert!(matches!(plan[..], [Action::WriteStatus { .. }]), "{why}: {plan:?}");
    }
}

#[test]
fn the_end_of_a_mirror_counts_whatever_somebody_made_of_its_mark() {
    for epoch in [None, Some(0), Some(1)] {
        let plan = world().placed(&placement()).mirror_on("eu-1", Mirror { epoch, ..complete() }).plan();
        let [Action::WriteStatus { status, .. }, ..] = plan.as_slice() else { panic!("{epoch:?}: {plan:?}") };
        assert!(conditions::is_true(status.conditions.as_deref().unwrap(), "SuccessCriteriaMet"));
    }
}

#[test]
fn a_mirror_that_was_made_of_a_later_record_than_ours_is_not_judged_by_ours() {
    let seen = |at: Placement, made_of| {
        let other = Mirror { manager_version: Some(made_of), ..running() };
        world().placed(&at).mirror_on("eu-1", other).plan()
    };
    for at in [placement().with_mirror("m0"), Placement::new("eu-1".into(), "id-1".into(), 2, NOW.wall)] {
        assert!(seen(at.clone(), 50).contains(&delete_pods_first_on("eu-1")), "{at:?}");
        assert!(!seen(at.clone(), 51).contains(&delete_pods_first_on("eu-1")), "{at:?}");
    }
}

#[test]
fn where_pods_proved_that_there_was_a_mirror_a_lost_record_is_not_followed_by_another() {
    let plan = world().remembering(Memory { evidence: Some(1), ..Memory::default() }).plan();
    assert_left_alone(&plan, "it has run");
}

#[test]
fn a_record_that_was_wiped_off_is_followed_by_one_of_a_later_epoch() {
    let seen = NOW.monotonic.checked_sub(QUARANTINE).unwrap();
    let memory = Memory { placement_seen: Some((2, placement().since, seen)), ..Memory::default() };
    let plan = world().remembering(memory).plan();
    assert!(matches!(&plan[..], [Action::RecordPlacement(placement)] if placement.epoch == 3), "{plan:?}");
}

#[test]
fn a_name_that_is_about_to_be_free_is_waited_for_told_after_a_moment_and_left_only_if_that_takes_long() {
    let refused = |times, is_absent: bool| {
        let why = "the mirror of an earlier Job is still there".to_owned();
        let refusal = Refusal { epoch: 1, ground: Ground::BeingRemoved, why, at: NOW.monotonic, times };
        let refusals = BTreeMap::from([("eu-1".into(), refusal)]);
        let absent = is_absent.then(|| absent(1));
        let memory = Memory { acknowledged: Some((1, NOW.monotonic)), refusals, absent, ..Memory::default() };
        world().placed(&placement()).remembering(memory).plan()
    };
    let in_seconds = |seconds| Action::WakeAt(NOW.monotonic + Duration::from_secs(seconds));
    assert_eq!(refused(1, true), [in_seconds(1)]);
    let told = refused(7, true);
    assert!(
        matches!(&told[..], [Action::Tell(told), wake] if told.reason == "Refused" && *wake == in_seconds(5)),
        "{told:?}"
    );
    assert_eq!(refused(24, false), [prove_absent()]);
    let moved = refused(24, true);
    assert!(matches!(&moved[..], [Action::RecordPlacement(intent)] if intent.moving), "{moved:?}");
}

#[test]
fn a_worker_that_goes_on_failing_is_told_of_and_given_a_moment_before_the_workload_leaves_it() {
    let failing = |times, absent| {
        let (ground, why) = (Ground::Failing, "failed calling webhook".into());
        let refusal = Refusal { epoch: 1, ground, why, at: NOW.monotonic, times };
        let refusals = BTreeMap::from([("eu-1".into(), refusal)]);
        let acknowledged = Some((1, NOW.monotonic));
        let memory = Memory { acknowledged, in_doubt: Some(NOW.monotonic), absent, refusals, ..Memory::default() };
        world().placed(&placement()).remembering(memory).plan()
    };
    let plan = failing(1, None);
    let again = NOW.monotonic + Duration::from_secs(15);
    assert!(
        matches!(&plan[..], [Action::Tell(told), Action::WakeAt(at)]
            if told.message == "worker eu-1 refuses: failed calling webhook" && *at == again),
        "{plan:?}"
    );
    assert_eq!(failing(2, None), [prove_absent()], "it may have created the mirror all the same");
    assert_eq!(failing(2, Some(absent(1))), [Action::RecordPlacement(placement().leaving(0, NOW.wall))]);
}

#[test]
fn pods_without_a_mirror_end_a_move_for_it_may_have_run_unseen() {
    let intent = placement().leaving(0, NOW.wall);
    let seen = NOW.monotonic.checked_sub(QUARANTINE).unwrap();
    let memory = Memory {
        placement_seen: Some((2, intent.since.clone(), seen)),
        absent: Some(absent(2)),
        evidence: Some(2),
        ..Memory::default()
    };
    let plan = world().placed(&intent).remembering(memory).plan();
    let [Action::WriteStatus { status, .. }] = plan.as_slice() else { panic!("{plan:?}") };
    let failed = conditions::find(status.conditions.as_deref().unwrap(), "Failed").unwrap();
    assert_eq!(failed.reason.as_deref(), Some("MirrorDeleted"));
}

#[test]
fn of_two_writes_to_the_workload_the_second_waits_for_the_next_plan() {
    let edited = || world().placed(&placement()).job("/spec/parallelism", json!(5));
    let digest = Forwarded::of(&edited().job).digest();
    let memory = Memory { edit_refused: Some(Box::new((digest, refused_edit("too many")))), ..Memory::default() };
    let mirror = Mirror { forwarded: Some(1), ..running() };
    let plan = edited().mirror_on("eu-1", mirror).remembering(memory).plan();
    assert!(matches!(plan[..], [Action::WriteStatus { .. }, Action::WakeAt(_)]), "{plan:?}");
}

#[test]
fn while_placing_is_halted_nothing_is_created_either() {
    let acknowledged = || world().placed(&placement()).acknowledged(Duration::ZERO);
    assert_eq!(acknowledged().plan(), [Action::CreateMirror(placement())]);
    let halted = World { halted: Some(Halt::Undecided), ..acknowledged() };
    assert_eq!(halted.plan(), []);
    let halted = World { halted: Some(Halt::Because("somebody acts on Jobs".into())), ..acknowledged() };
    assert!(matches!(&halted.plan()[..], [Action::Tell(told)] if told.reason == "Halted"));
}

#[test]
fn an_edit_that_was_accepted_after_all_is_no_longer_told_as_refused() {
    let told = json!({"type": "jobferry.dev/Placed", "status": "True", "reason": "EditRefused", "message": "no",
                      "lastProbeTime": "2026-11-15T10:00:00Z", "lastTransitionTime": "2026-11-15T10:00:00Z"});
    let digest = Forwarded::of(&world().job).digest();
    let seen = |forwarded| {
        let mirror = Mirror { forwarded: Some(forwarded), ..mirror(&json!({})) };
        let memory = Memory { edit_refused: Some(Box::new((digest, refused_edit("no")))), ..Memory::default() };
        world().placed(&placement()).condition(told.clone()).mirror_on("eu-1", mirror).remembering(memory).plan()
    };
    assert!(matches!(&seen(digest)[..], [Action::Tell(told)] if told.reason == "Placed"));
    assert!(!matches!(&seen(1)[..], [Action::Tell(told)] if told.reason == "Placed"), "it is still refused");
}

#[test]
fn what_was_said_a_moment_ago_is_not_said_again_though_another_dispatcher_has_said_something_else_since() {
    let other = json!({"type": "jobferry.dev/Placed", "status": "True", "reason": "Placed", "message": "on worker eu-1",
                       "lastProbeTime": "2026-11-15T10:00:00Z", "lastTransitionTime": "2026-11-15T10:00:00Z"});
    let seen = |memory: Memory| {
        let mirror = Mirror { forwarded: Some(1), ..mirror(&json!({})) };
        let digest = Forwarded::of(&world().job).digest();
        let memory = Memory { edit_refused: Some(Box::new((digest, refused_edit("no")))), ..memory };
        world().placed(&placement()).condition(other.clone()).mirror_on("eu-1", mirror).remembering(memory).plan()
    };
    let first = seen(Memory::default());
    let [Action::Tell(told), Action::WakeAt(_)] = &first[..] else { panic!("{first:?}") };
    let said = |ago: u64| {
        let when = NOW.monotonic.checked_sub(Duration::from_secs(ago)).unwrap();
        seen(Memory { told: Some((told.fingerprint(), when)), ..Memory::default() })
    };
    assert!(!said(20).iter().any(|action| matches!(action, Action::Tell(_))));
    assert!(said(20).contains(&Action::WakeAt(NOW.monotonic + Duration::from_secs(40))));
    assert_eq!(said(60), first);
}

#[test]
fn a_delegated_mirror_that_has_come_to_its_end_is_a_result() {
    let ended = Mirror { controller: Some("example.com/other".into()), ..complete() };
    let plan = world().placed(&placement()).mirror_on("eu-1", ended).plan();
    assert!(matches!(&plan[..], [Action::WriteStatus { status, .. }] if status.succeeded == Some(1)), "{plan:?}");
}

#[test]
fn an_end_whose_name_is_about_to_be_free_is_announced_and_waits_for_a_create_without_an_answer() {
    let going = || Mirror { deleting: true, ..complete() };
    let in_doubt = || Memory { in_doubt: Some(NOW.monotonic), ..Memory::default() };
    let wait = Action::WakeAt(NOW.monotonic + QUARANTINE);
    let types = |status: &JobStatus| {
        status.conditions.iter().flatten().map(|condition| condition.type_.clone()).collect::<Vec<_>>()
    };
    let plan = world().placed(&placement()).mirror_on("eu-1", going()).remembering(in_doubt()).plan();
    let [Action::WriteStatus { status, placement: Some(at) }, waits] = &plan[..] else { panic!("{plan:?}") };
    assert_eq!((types(status), waits), (vec!["SuccessCriteriaMet".to_owned()], &wait));
    let announced = world().job("/status", serde_json::to_value(status).unwrap()).placed(at);
    assert_eq!(announced.mirror_on("eu-1", going()).remembering(in_doubt()).plan(), [wait], "once");

    // Another process, which never saw the mirror.
    let proved = Memory { absent: Some(Absence::proved_for(at)), ..Memory::default() };
    let later = world().job("/status", serde_json::to_value(status).unwrap()).placed(at).remembering(proved).plan();
    let [Action::WriteStatus { status, .. }] = &later[..] else { panic!("{later:?}") };
    assert!(types(status).contains(&"Complete".to_owned()), "{status:?}");

    let plan = world().placed(&placement()).mirror_on("eu-1", going()).plan();
    let [Action::WriteStatus { status, .. }] = &plan[..] else { panic!("{plan:?}") };
    assert!(types(status).contains(&"Complete".to_owned()), "nothing is under way: {status:?}");
}

#[test]
fn a_workload_whose_mirror_is_gone_is_not_failed_while_a_create_of_it_may_be_under_way() {
    let at = placement().with_mirror("m1");
    let proved = Memory { absent: Some(Absence::proved_for(&at)), ..Memory::default() };
    let in_doubt = Memory { in_doubt: Some(NOW.monotonic), ..proved.clone() };
    let plan = world().placed(&at).remembering(in_doubt).plan();
    assert_eq!(plan, [Action::WakeAt(NOW.monotonic + QUARANTINE)]);
    let plan = world().placed(&at).remembering(proved).plan();
    assert!(matches!(plan[..], [Action::WriteStatus { .. }]), "{plan:?}");
}

#[test]
fn a_name_that_another_object_had_is_looked_at_before_the_placement_is_recorded_anew() {
    let behind = Memory { absent: Some(absent(1).behind_another()), ..Memory::default() };
    assert_eq!(world().placed(&placement()).remembering(behind).plan(), [prove_absent()]);
}

#[test]
fn a_record_that_is_repeated_leaves_what_people_were_told() {
    let told = json!({"type": "jobferry.dev/Placed", "status": "False", "reason": "Refused", "message": "no"});
    let job = world().placed(&placement()).condition(told).job;
    let workload: Workload = serde_json::from_value(job).unwrap();
    let types = |body: &Value| {
        let list = body["status"]["conditions"].as_array().unwrap();
        list.iter().map(|condition| condition["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let repeated = crate::patch::placement(&workload, &placement(), None).unwrap();
    assert_eq!(types(&repeated), ["jobferry.dev/Placement"]);
    let elsewhere = Placement::new("eu-2".into(), "id-2".into(), 2, NOW.wall);
    let moved = crate::patch::placement(&workload, &elsewhere, None).unwrap();
    assert_eq!(types(&moved), ["jobferry.dev/Placement", "jobferry.dev/Placed"]);
}

#[test]
fn a_mirror_that_somebody_made_in_place_of_the_recorded_one_does_not_go_on() {
    let recorded = || world().placed(&placement().with_mirror("another"));
    // With its mark, and where admission or somebody took that off.
    for epoch in [Some(1), None] {
        let made = |mirror: Mirror| recorded().mirror_on("eu-1", Mirror { epoch, ..mirror }).plan();
        assert_eq!(made(running()), [delete_pods_first_on("eu-1")]);
        assert_eq!(made(Mirror { deleting: true, ..running() }), []);
        let plan = made(complete());
        assert!(matches!(plan[..], [Action::WriteStatus { .. }]), "an end is an end: {plan:?}");
    }
}

#[test]
fn an_unreadable_record_raises_an_alarm_and_is_told_and_nothing_else() {
    let damaged = json!({"type": "jobferry.dev/Placement", "status": "True", "message": "{\"v\":9}"});
    assert_left_alone(&world().condition(damaged).plan(), "cannot be read");
}
