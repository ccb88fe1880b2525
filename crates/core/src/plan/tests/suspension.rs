//! What is shown of a Job that its user suspends or resumes before it has a mirror.

use super::*;
use crate::patch;

fn suspended() -> World {
    world().job("/spec/suspend", json!(true))
}

/// The world once these statuses were written, and the suspension that they showed.
fn shown(world: impl Fn() -> World, holds: &str) -> World {
    let plan = world().plan();
    let [Action::WriteStatus { status, placement: None }, ..] = plan.as_slice() else { panic!("{plan:?}") };
    let condition = conditions::find(status.conditions.as_deref().unwrap(), "Suspended").unwrap();
    assert_eq!(condition.status, holds, "{plan:?}");
    world().condition(serde_json::to_value(condition).unwrap())
}

fn shown_before() -> Value {
    json!({"type": "Suspended", "status": "True", "reason": "JobSuspended", "message": "Job suspended",
           "lastTransitionTime": "2026-11-15T10:00:00Z"})
}

fn refused() -> Memory {
    Memory { refusals: refusal("no namespace", Duration::from_secs(1)), ..Memory::default() }
}

#[test]
fn a_suspended_job_has_the_fields_that_the_built_in_controller_notes_at_its_first_look() {
    let plan = suspended().plan();
    let [Action::WriteStatus { status, .. }] = plan.as_slice() else { panic!("{plan:?}") };
    assert_eq!((status.ready, status.terminating, &status.failed_indexes), (Some(0), Some(0), &None));

    let by_index =
        suspended().job("/spec/completionMode", json!("Indexed")).job("/spec/backoffLimitPerIndex", json!(1));
    let plan = by_index.plan();
    let [Action::WriteStatus { status, .. }] = plan.as_slice() else { panic!("{plan:?}") };
    assert_eq!(status.failed_indexes.as_deref(), Some(""), "none has failed, which is not the same as unknown");
}

#[test]
fn a_job_that_is_suspended_while_its_worker_refuses_it_shows_so_at_once_and_once() {
    let alone = || suspended().placed(&placement()).link("eu-2", AWAY).remembering(refused());
    let plan = shown(alone, "True").plan();
    assert!(matches!(plan[..], [Action::Tell(_), Action::WakeAt(_)]), "what there is to do goes on: {plan:?}");
    let away = || suspended().placed(&placement()).link("eu-1", AWAY);
    assert_eq!(shown(away, "True").plan(), []);
}

#[test]
fn a_placed_job_that_is_suspended_gets_its_mirror_all_the_same() {
    let placed = || suspended().placed(&placement()).acknowledged(Duration::from_secs(1));
    let plan = placed().plan();
    assert!(matches!(plan[..], [Action::WriteStatus { .. }, Action::CreateMirror(_)]), "{plan:?}");
    assert_eq!(shown(placed, "True").plan(), [Action::CreateMirror(placement())]);
}

#[test]
fn a_job_that_is_resumed_before_it_has_a_mirror_shows_so_at_once_and_once() {
    let placed = || world().condition(shown_before()).placed(&placement()).link("eu-1", AWAY);
    let plan = placed().plan();
    let [Action::WriteStatus { status, .. }] = plan.as_slice() else { panic!("{plan:?}") };
    let [condition] = status.conditions.as_deref().unwrap() else { panic!("{status:?}") };
    assert_eq!((condition.status.as_str(), condition.reason.as_deref()), ("False", Some("JobResumed")));
    assert_eq!(status.start_time, None, "its deadline does not count before it runs");

    let nowhere = world().condition(shown_before()).link("eu-1", AWAY).link("eu-2", AWAY).plan();
    assert!(matches!(nowhere[..], [Action::WriteStatus { .. }, ..]), "{nowhere:?}");
}

#[test]
fn a_resumption_that_leads_to_a_placement_costs_no_write_of_its_own() {
    let resumed = world().condition(shown_before());
    let workload: Workload = serde_json::from_value(resumed.job.clone()).unwrap();
    let plan = resumed.plan();
    let [Action::RecordPlacement(placement)] = plan.as_slice() else { panic!("{plan:?}") };
    let patch = patch::placement(&workload, placement, None).unwrap();
    let written = patch["status"]["conditions"].as_array().unwrap();
    let suspension = written.iter().find(|condition| condition["type"] == "Suspended").unwrap();
    assert_eq!((&suspension["status"], &suspension["reason"]), (&json!("False"), &json!("JobResumed")));
}

#[test]
fn a_job_that_has_run_is_shown_as_its_mirror_says() {
    let recorded = placement().with_mirror("m1");
    assert_eq!(suspended().placed(&recorded).link("eu-1", AWAY).plan(), []);
    let started = suspended().placed(&placement()).job("/status/startTime", json!("2026-11-15T10:00:00Z"));
    assert_eq!(started.link("eu-1", AWAY).plan(), [], "its start is the last trace of that");
}

#[test]
fn a_job_that_leaves_a_worker_goes_nowhere_while_it_is_suspended() {
    let intent = placement().leaving(0, NOW.wall);
    let seen = NOW.monotonic.checked_sub(QUARANTINE).unwrap();
    let memory =
        || Memory { placement_seen: Some((2, intent.since.clone(), seen)), absent: Some(absent(2)), ..refused() };
    let leaving = |world: World| world.placed(&intent).remembering(memory());
    let plan = shown(|| leaving(suspended()), "True").plan();
    let [Action::Tell(told)] = plan.as_slice() else { panic!("{plan:?}") };
    assert!(!told.holds && told.message.ends_with("once it is resumed"), "{told:?}");
    let plan = leaving(world().condition(shown_before())).plan();
    assert!(matches!(&plan[..], [Action::RecordPlacement(next)] if next.worker == "eu-2"), "{plan:?}");
}
