//! Workloads that fit nowhere: what people are told, and when.

use super::*;
use crate::placement::CREATE_SLOTS;

/// It has waited for so long that this is news.
fn long_waiting() -> Memory {
    Memory { waiting_since: NOW.monotonic.checked_sub(WAITING_INTERVAL), ..Memory::default() }
}

#[test]
fn one_worker_that_is_never_reached_does_not_keep_people_from_hearing_why_a_workload_waits() {
    let narrowed = || world().job("/metadata/annotations", json!({"jobferry.dev/workers": "us-1"}));
    let connecting = || narrowed().link("eu-2", Link::Connecting);
    let news = Action::WakeAt(NOW.monotonic + WAITING_INTERVAL);
    let just_come = Memory { waiting_since: Some(NOW.monotonic), ..Memory::default() };
    assert_eq!(connecting().remembering(just_come).plan(), [news], "what it will answer may be known in a moment");
    let plan = connecting().remembering(long_waiting()).plan();
    assert!(matches!(&plan[..], [Action::Tell(told)] if told.message.contains("not among the named")), "{plan:?}");
}

#[test]
fn a_slot_that_is_not_free_after_a_minute_is_told() {
    let full = |memory| {
        let mut world = world().remembering(memory);
        for worker in world.workers.values_mut() {
            worker.unacknowledged = CREATE_SLOTS;
        }
        world.plan()
    };
    assert_eq!(full(Memory::default()), [Action::WakeAt(NOW.monotonic + WAITING_INTERVAL)]);
    let plan = full(long_waiting());
    assert!(matches!(&plan[..], [Action::Tell(told)] if told.message.ends_with("2 no free create slot")), "{plan:?}");
}

#[test]
fn a_workload_waits_from_when_it_may_be_placed_until_it_is() {
    let mut known = Knowledge::default();
    let mut waits_since = |suspended: bool, at: Option<Placement>, monotonic: u64| {
        let mut world = world().job("/spec/suspend", json!(suspended));
        if let Some(at) = at {
            world = world.placed(&at);
        }
        known.workload = Some(serde_json::from_value(world.job).unwrap());
        known.notice(&world.workers, Now { monotonic: Duration::from_secs(monotonic), ..NOW });
        known.memory.waiting_since.map(|since| since.as_secs())
    };
    assert_eq!(waits_since(true, None, 1), None);
    assert_eq!(waits_since(false, None, 2), Some(2));
    assert_eq!(waits_since(false, None, 3), Some(2));
    assert_eq!(waits_since(false, Some(placement()), 4), None);
    assert_eq!(waits_since(false, Some(placement().leaving(0, NOW.wall)), 5), Some(5));
}

#[test]
fn news_about_waiting_comes_at_most_once_a_minute() {
    let world = world().job("/metadata/annotations", json!({"jobferry.dev/worker-selector": "a b"}));
    let before = Timestamp::from_second(NOW.wall.as_second() - 20).unwrap();
    let said = json!({"type": "jobferry.dev/Placed", "status": "False", "reason": "NoWorkerFits", "message": "old",
                      "lastTransitionTime": before.to_string()});
    assert_eq!(world.condition(said).plan(), [Action::WakeAt(NOW.monotonic + Duration::from_secs(40))]);
}
