//! Workloads that are deleted or gone, and what is left of them on workers.

use super::*;

/// A proof that the manager, at this version, has the workload no more.
fn gone_at(version: u64) -> Gone {
    Gone { version, at: NOW.monotonic }
}

#[test]
fn a_deleted_workload_takes_its_mirror_along() {
    let deleting = json!("2026-11-15T10:00:00Z");
    let plan =
        world().placed(&placement()).job("/metadata/deletionTimestamp", deleting).mirror_on("eu-1", running()).plan();
    assert_eq!(plan, [delete_on("eu-1")]);
}

#[test]
fn whoever_keeps_a_deleted_workload_until_its_end_is_told_that_end_first() {
    let deleting = || {
        let held = world().placed(&placement()).job("/metadata/deletionTimestamp", json!("2026-11-15T10:00:00Z"));
        held.mirror_on("eu-1", complete())
    };
    let plan = deleting().plan();
    let [Action::WriteStatus { status, .. }] = plan.as_slice() else { panic!("{plan:?}") };
    assert!(conditions::is_true(status.conditions.as_deref().unwrap(), "Complete"));
    let version = deleting().job["metadata"]["resourceVersion"].as_str().map(str::to_owned);
    let refused = deleting().remembering(Memory { status_refused: version, ..Memory::default() }).plan();
    assert!(
        !refused.iter().any(Action::writes_workload),
        "what the manager does not take holds nobody up: {refused:?}"
    );
    let plan = deleting().mirror_on("eu-2", running()).plan();
    assert!(matches!(&plan[..], [Action::WriteStatus { .. }, stop] if *stop == delete_on("eu-2")), "{plan:?}");
}

#[test]
fn whoever_keeps_a_deleted_workload_does_not_read_that_it_runs_once_its_mirror_is_gone() {
    let kept = |mut status: Value| {
        status["conditions"] = json!([]);
        let held = world().job("/status", status).placed(&placement().with_mirror("m1"));
        held.job("/metadata/deletionTimestamp", json!("2026-11-15T10:00:00Z"))
    };
    let running = || json!({"startTime": "2026-11-15T09:00:00Z", "active": 2, "ready": 1, "failed": 1});
    assert_eq!(
        kept(running()).mirror_on("eu-1", mirror(&running())).plan(),
        [delete_on("eu-1")],
        "not before it is gone"
    );
    assert_eq!(kept(running()).link("eu-1", Link::Connecting).plan(), [], "nor while nobody can know");
    let plan = kept(running()).plan();
    let [Action::WriteStatus { status, placement: None }] = &plan[..] else { panic!("{plan:?}") };
    assert_eq!((status.active, status.ready, status.terminating, status.failed), (None, Some(0), None, Some(1)));
    assert_eq!(kept(serde_json::to_value(status).unwrap()).plan(), [], "once");
}

#[test]
fn the_name_of_what_this_process_placed_first_is_free_as_soon_as_it_is_gone() {
    let gone = |placed_first| {
        let memory = Memory { gone: Some(gone_at(42)), placed_first, ..Memory::default() };
        let world = World { leading_since: NOW.monotonic, ..world() };
        world.without_workload().mirror_on("eu-1", complete()).remembering(memory).plan()
    };
    assert_eq!(gone(false), [Action::WakeAt(NOW.monotonic + QUARANTINE)], "an earlier leader may have placed it");
    assert_eq!(gone(true), [delete_on("eu-1")]);
}

#[test]
fn an_orphan_is_removed_only_after_the_manager_proved_its_owner_gone() {
    let orphan = || world().without_workload().mirror_on("eu-1", running());
    assert_eq!(orphan().plan(), [Action::ProveGone { namespace: "ml".into(), name: "train".into() }]);
    let proved = |version| orphan().remembering(Memory { gone: Some(gone_at(version)), ..Memory::default() }).plan();
    assert_eq!(proved(42), [delete_on("eu-1")]);
    let restored = proved(41);
    assert!(matches!(restored[..], [Action::Alarm(Alarm::ManagerRestored(_)), Action::WakeAt(_)]), "{restored:?}");
}

#[test]
fn a_restored_manager_is_asked_again_about_an_orphan_now_and_then() {
    let asked = |ago| {
        let gone = Some(Gone { at: NOW.monotonic.checked_sub(ago).unwrap(), ..gone_at(41) });
        let orphan = world().without_workload().mirror_on("eu-1", running());
        orphan.remembering(Memory { gone, ..Memory::default() }).plan()
    };
    assert!(asked(Duration::ZERO).contains(&Action::WakeAt(NOW.monotonic + ORPHAN_PAUSE)));
    assert_eq!(asked(ORPHAN_PAUSE), [Action::ProveGone { namespace: "ml".into(), name: "train".into() }]);
}

#[test]
fn the_youngest_of_several_mirrors_tells_that_the_manager_was_restored() {
    for (eu_1, eu_2, leaving, is_restored) in [
        (Some(40), Some(42), false, false),
        (Some(40), Some(43), false, true),
        (Some(43), Some(40), false, true),
        (Some(40), Some(43), true, true),
        (Some(40), None, false, true),
        (Some(40), None, true, false),
    ] {
        let stamped = |manager_version, deleting| Mirror { manager_version, deleting, ..running() };
        let two = world().without_workload().mirror_on("eu-1", stamped(eu_1, false));
        let two = two.mirror_on("eu-2", stamped(eu_2, leaving));
        let plan = two.remembering(Memory { gone: Some(gone_at(42)), ..Memory::default() }).plan();
        let alarms = plan.iter().filter(|action| matches!(action, Action::Alarm(Alarm::ManagerRestored(_)))).count();
        assert_eq!((alarms == 1, plan.contains(&delete_on("eu-1"))), (is_restored, !is_restored), "{eu_1:?} {eu_2:?}");
    }
}

#[test]
fn a_finished_mirror_guards_its_name_until_no_create_can_land_any_more() {
    let gone = |in_doubt| {
        let memory = Memory { gone: Some(gone_at(42)), in_doubt, ..Memory::default() };
        world().without_workload().mirror_on("eu-1", complete()).remembering(memory).plan()
    };
    assert_eq!(gone(None), [delete_on("eu-1")]);
    assert_eq!(gone(Some(NOW.monotonic)), [Action::WakeAt(NOW.monotonic + QUARANTINE)]);
}

#[test]
fn without_a_lease_a_finished_mirror_also_guards_against_creates_of_other_dispatchers() {
    let let_go = |leads_alone, seen| {
        let placement_seen = Some((1, placement().since, seen));
        let memory = Memory { gone: Some(gone_at(42)), owner_seen: true, placement_seen, ..Memory::default() };
        let world = World { leads_alone, ..world() };
        world.without_workload().mirror_on("eu-1", complete()).remembering(memory).plan()
    };
    assert_eq!(let_go(true, NOW.monotonic), [delete_on("eu-1")]);
    assert_eq!(let_go(false, NOW.monotonic), [Action::WakeAt(NOW.monotonic + QUARANTINE)]);
    assert_eq!(let_go(false, NOW.monotonic.checked_sub(QUARANTINE).unwrap()), [delete_on("eu-1")]);
}

#[test]
fn without_a_lease_the_placement_of_an_orphan_is_taken_for_as_young_as_its_first_sight() {
    let mut world = World { leads_alone: false, ..world() }.without_workload().mirror_on("eu-1", complete());
    world.known.memory.gone = Some(gone_at(42));
    world.known.notice(&world.workers, NOW);
    assert_eq!(world.plan(), [Action::WakeAt(NOW.monotonic + QUARANTINE)]);
}

#[test]
fn orphans_that_nobody_here_ever_saw_are_deleted_in_batches() {
    let orphan = |owner_seen| {
        let memory = Memory { gone: Some(gone_at(42)), owner_seen, ..Memory::default() };
        let world = World { may_delete_orphan: false, ..world() };
        world.without_workload().mirror_on("eu-1", running()).remembering(memory).plan()
    };
    assert_eq!(orphan(false), [Action::WakeAt(NOW.monotonic + ORPHAN_PAUSE)]);
    assert_eq!(orphan(true), [delete_on("eu-1")], "what its user deleted is no orphan of unknown descent");
}

#[test]
fn a_finished_workload_keeps_its_finished_mirror_and_tolerates_no_live_one() {
    let finished = || {
        world()
            .placed(&placement())
            .condition(json!({"type": "Complete", "status": "True"}))
            .job("/status/succeeded", json!(1))
    };
    assert_eq!(finished().plan(), []);
    assert_eq!(finished().mirror_on("eu-1", complete()).plan(), []);
    assert_eq!(finished().mirror_on("eu-1", running()).plan(), [delete_on("eu-1")]);
}
