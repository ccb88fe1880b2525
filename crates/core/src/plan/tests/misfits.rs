//! Mirrors that a worker made something else of, and names that something else has.

use super::*;

#[test]
fn a_mirror_that_was_given_to_another_controller_is_discarded_unless_it_has_counted() {
    let delegated = || Mirror { delegated: true, ..mirror(&json!({})) };
    let seen = |at: &Placement, mirror| world().placed(at).mirror_on("eu-1", mirror).plan();
    let plan = seen(&placement(), delegated());
    let [Action::DiscardMirror { placement: at, mirror, why }] = plan.as_slice() else { panic!("{plan:?}") };
    assert_eq!((at, mirror), (&placement(), &the_mirror()));
    assert!(why.contains("another controller"), "{why}");
    assert_eq!(seen(&placement(), Mirror { deleting: true, ..delegated() }), [], "it is going already");
    let counted = seen(&placement().with_mirror("m1"), delegated());
    assert!(!counted.iter().any(|action| matches!(action, Action::DiscardMirror { .. })), "{counted:?}");
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
    let memory = Memory { edit_refused: Some((digest, refused_edit("too many"))), ..Memory::default() };
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
        let memory = Memory { edit_refused: Some((digest, refused_edit("no"))), ..Memory::default() };
        world().placed(&placement()).condition(told.clone()).mirror_on("eu-1", mirror).remembering(memory).plan()
    };
    assert!(matches!(&seen(digest)[..], [Action::Tell(told)] if told.reason == "Placed"));
    assert!(!matches!(&seen(1)[..], [Action::Tell(told)] if told.reason == "Placed"), "it is still refused");
}
