//! Workers that refuse, or fail at, what is placed on them.

use super::*;
use crate::placement::{CREATE_SLOTS, LAST_CHOICE};

#[test]
fn a_refusal_sends_the_workload_elsewhere_but_only_after_proof_of_absence() {
    let refused = |absent| {
        let acknowledged = Some((1, NOW.monotonic));
        let memory =
            Memory { acknowledged, absent, refusals: refusal("quota", Duration::from_secs(1)), ..Memory::default() };
        world().placed(&placement()).remembering(memory).plan()
    };
    assert_eq!(refused(None), [prove_absent()], "a refused create does not prove that nothing runs");
    assert_eq!(refused(Some(absent(1))), [Action::RecordPlacement(placement().leaving(0, NOW.wall))]);
}

#[test]
fn a_workload_that_everybody_refuses_stays_where_it_is_and_says_so() {
    let refused_by_both_of = |before, times| {
        let mut refusals = refusal("quota", Duration::from_secs(1));
        let before = Refusal { at: Duration::ZERO, times: before, ..refusals["eu-1"].clone() };
        refusals.insert("eu-2".into(), before);
        refusals.get_mut("eu-1").unwrap().times = times;
        let memory = Memory { absent: Some(absent(1)), refusals, ..Memory::default() };
        world().placed(&placement()).remembering(memory).plan()
    };
    let refused_by_both = |times| refused_by_both_of(1, times);
    let plan = refused_by_both(1);
    assert!(matches!(&plan[..], [Action::Tell(told), Action::WakeAt(_)] if told.message.contains("quota")), "{plan:?}");
    let plan = refused_by_both(2);
    assert!(matches!(plan[..], [Action::RecordPlacement(_)]), "the other one is asked again after all: {plan:?}");
    let wanders = |times| matches!(refused_by_both_of(2, times)[..], [Action::RecordPlacement(_)]);
    assert!(!wanders(3) && wanders(4), "each time it takes twice as long");
}

#[test]
fn a_refusal_with_nowhere_else_to_go_is_told_and_asked_again_later() {
    let asked = |ago| {
        let acknowledged = Some((1, NOW.monotonic));
        let memory = Memory { acknowledged, refusals: refusal("quota", ago), ..Memory::default() };
        world().placed(&placement()).link("eu-2", AWAY).remembering(memory).plan()
    };
    let plan = asked(Duration::from_secs(5));
    let again = NOW.monotonic + Duration::from_secs(10);
    assert!(
        matches!(&plan[..], [Action::Tell(told), Action::WakeAt(at)] if told.message.contains("quota") && *at == again),
        "{plan:?}"
    );
    assert_eq!(asked(Duration::from_secs(20)), [Action::CreateMirror(placement())]);
}

#[test]
fn a_worker_whose_server_fails_at_mirrors_is_asked_with_one_at_a_time_and_only_where_nobody_else_fits() {
    let placed_on = |eu_2: &dyn Fn(&mut WorkerView), eu_1_creates| {
        let mut world = world();
        let failing = world.workers.get_mut("eu-1").unwrap();
        (failing.failing_until, failing.unacknowledged) = (Some(NOW.monotonic + LAST_CHOICE), eu_1_creates);
        eu_2(world.workers.get_mut("eu-2").unwrap());
        match &world.plan()[..] {
            [Action::RecordPlacement(at)] => Some(at.worker.clone()),
            _ => None,
        }
    };
    let busy = |worker: &mut WorkerView| worker.unfinished = 1000;
    let full = |worker: &mut WorkerView| worker.unacknowledged = CREATE_SLOTS;
    assert_eq!(placed_on(&busy, 0).as_deref(), Some("eu-2"));
    assert_eq!(placed_on(&full, 0).as_deref(), Some("eu-1"), "somebody must find out whether it has come round");
    assert_eq!(placed_on(&full, 1), None, "a burst does not pour into it");
}
