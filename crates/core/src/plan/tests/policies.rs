//! What policies change in a plan: where workloads may go, when a lost worker's are given up, how long mirrors stay.

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

/// Away since so long by the record, and since so long as this process itself noticed.
fn away(recorded: Duration, noticed: Duration) -> Link {
    let since = NOW.wall.checked_sub(recorded).unwrap();
    Link::Away { since, noticed: NOW.monotonic.checked_sub(noticed).unwrap() }
}

fn placed_on(plan: &[Action]) -> &str {
    let [Action::RecordPlacement(placement)] = plan else { panic!("{plan:?}") };
    &placement.worker
}

fn told(plan: &[Action]) -> (&str, &str) {
    let [Action::Tell(told)] = plan else { panic!("{plan:?}") };
    (&told.reason, &told.message)
}

/// Why the plan fails the workload.
fn failed(plan: &[Action]) -> &str {
    let [Action::WriteStatus { status, .. }] = plan else { panic!("{plan:?}") };
    let condition = conditions::find(status.conditions.as_deref().unwrap(), "Failed").unwrap();
    condition.reason.as_deref().unwrap()
}

#[test]
fn a_policy_narrows_and_prefers() {
    let two_regions = || world().labelled("eu-1", "region", "eu").labelled("eu-2", "region", "us");
    for (region, chosen) in [("eu", "eu-1"), ("us", "eu-2")] {
        let only = two_regions().policy(json!({"workers": {"matchLabels": {"region": region}}}));
        assert_eq!(placed_on(&only.plan()), chosen);
        let mut preferred =
            two_regions().policy(json!({"prefer": [{"workers": {"matchLabels": {"region": region}}, "weight": 1}]}));
        preferred.workers.get_mut(chosen).unwrap().unfinished = 100;
        assert_eq!(placed_on(&preferred.plan()), chosen, "a preference counts before load");
    }
    let nowhere = two_regions().policy(json!({"workers": {"matchLabels": {"region": "asia"}}}));
    assert_eq!(told(&nowhere.plan()), ("NoWorkerFits", "of 2 workers none fits: 2 not in its policy"));
}

#[test]
fn a_workload_without_a_usable_policy_waits_and_says_which() {
    let named = world().job("/metadata/labels", json!({"jobferry.dev/policy": "gpu"}));
    assert_eq!(told(&named.plan()), ("NoPolicy", "DispatchPolicy gpu does not exist"));
}

#[test]
fn nothing_is_placed_while_dispatching_is_halted() {
    let halted = |halt| World { halted: Some(halt), ..world() }.plan();
    let plan = halted(Halt::Because("somebody acts on delegated Jobs".into()));
    assert_eq!(told(&plan), ("Halted", "somebody acts on delegated Jobs"));
    assert_eq!(halted(Halt::Undecided), [], "it will be known in a moment");
}

#[test]
fn a_workload_that_the_built_in_controller_acts_on_is_not_dispatched() {
    let acted_on = json!([{"manager": "kube-controller-manager", "subresource": "status", "fieldsV1": {}}]);
    let plan = world().job("/metadata/managedFields", acted_on).plan();
    assert_eq!(plan, [Action::Alarm(Alarm::ActedOn(Activity::Status("kube-controller-manager".into())))]);
    let written = |at: &str| {
        let writer =
            json!([{"manager": "kube-controller-manager", "subresource": "status", "time": at, "fieldsV1": {}}]);
        let copied = world().job("/metadata/creationTimestamp", json!("2026-11-15T10:00:00Z"));
        copied.job("/metadata/managedFields", writer).plan()
    };
    assert_eq!(written("2026-11-15T10:00:00Z"), plan);
    // Of the Job that it was copied from.
    placed_on(&written("2026-11-15T09:59:59Z"));
    let users_tool = json!([{"manager": "kube-controller-manager"}, {"manager": "jobferry", "subresource": "status"}]);
    placed_on(&world().job("/metadata/managedFields", users_tool).plan());
}

#[test]
fn a_worker_that_would_drop_a_field_of_the_spec_is_not_chosen() {
    let mut old = world().job("/spec/successPolicy", json!({"rules": []}));
    old.workers.get_mut("eu-1").unwrap().minor = Some(30);
    old.workers.get_mut("eu-2").unwrap().minor = Some(31);
    assert_eq!(placed_on(&old.plan()), "eu-2");
}

#[test]
fn a_lost_worker_fails_its_workloads_only_if_the_policy_says_so() {
    let lost =
        || world().placed(&placement()).mirror_on("eu-1", mirror(&json!({}))).link("eu-1", away(20 * MINUTE, MINUTE));
    assert_eq!(lost().plan(), [], "by default it is waited for");
    assert_eq!(lost().policy(json!({"onWorkerLost": {"action": "Wait"}})).plan(), []);
    let fails = json!({"onWorkerLost": {"action": "Fail", "after": "15m"}});
    assert_eq!(failed(&lost().policy(fails).plan()), "WorkerLost");
}

#[test]
fn the_loss_clock_needs_both_the_recorded_time_and_a_minute_of_our_own() {
    let plan = |recorded, noticed| {
        let lost = world().placed(&placement()).link("eu-1", away(recorded, noticed));
        lost.policy(json!({"onWorkerLost": {"action": "Fail", "after": "15m"}})).plan()
    };
    let wake = |after| [Action::WakeAt(NOW.monotonic + after)];
    assert_eq!(plan(60 * MINUTE, Duration::ZERO), wake(MINUTE), "a restart of ours must not fire an old clock");
    assert_eq!(plan(5 * MINUTE, 5 * MINUTE), wake(10 * MINUTE));
    assert_eq!(failed(&plan(15 * MINUTE, MINUTE)), "WorkerLost");
}

#[test]
fn when_most_workers_look_lost_the_fault_is_taken_to_be_ours() {
    let lost = |others: [Link; 2]| {
        let mut lost = world().placed(&placement()).link("eu-1", away(60 * MINUTE, 2 * MINUTE));
        for (name, link) in ["us-1", "us-2"].into_iter().zip(others) {
            lost.workers.insert(name.into(), WorkerView { link, ..WorkerView::default() });
        }
        lost.policy(json!({"onWorkerLost": {"action": "Fail", "after": "15m"}})).plan()
    };
    let live = || Link::Live { identity: "id-3".into() };
    let gone = || away(60 * MINUTE, 2 * MINUTE);
    assert_eq!(lost([gone(), gone()]), []);
    assert_eq!(failed(&lost([live(), gone()])), "WorkerLost", "half of four is not more than half");
    assert_eq!(failed(&lost([live(), live()])), "WorkerLost");
}

#[test]
fn refused_credentials_are_not_a_loss() {
    let unfit = world().placed(&placement()).link("eu-1", Link::Unfit { why: "401".into() });
    assert_eq!(unfit.policy(json!({"onWorkerLost": {"action": "Fail", "after": "1s"}})).plan(), []);
}

#[test]
fn a_worker_that_cannot_be_used_is_told_of_after_a_minute() {
    let unfit = |ago: Duration| {
        let since = NOW.monotonic.checked_sub(ago);
        let world = world().placed(&placement()).remembering(Memory { worker_unusable: since, ..Memory::default() });
        world.link("eu-1", Link::Unfit { why: "its credentials are refused".into() }).plan()
    };
    assert_eq!(unfit(Duration::ZERO), [Action::WakeAt(NOW.monotonic + MINUTE)]);
    let message = "on worker eu-1, which cannot be used (its credentials are refused); it is waited for";
    assert_eq!(told(&unfit(MINUTE)), ("WorkerMissing", message));

    let memory = Memory { worker_unusable: NOW.monotonic.checked_sub(MINUTE), ..Memory::default() };
    let mut followed =
        world().placed(&placement().copying(&running())).remembering(memory).mirror_on("eu-1", running());
    let shown = followed.job["status"]["conditions"].take();
    followed.job["status"] = json!({"active": 1, "ready": 1, "startTime": "2026-11-15T10:00:00Z", "conditions": shown});
    let followed = followed.link("eu-1", Link::Unfit { why: "its credentials are refused".into() });
    assert_eq!(told(&followed.plan()), ("WorkerMissing", message), "whether or not its mirror is known");

    let refused = json!({"type": "jobferry.dev/Placed", "status": "False", "reason": "Refused", "message": "quota"});
    let mut twin = world().placed(&placement()).condition(refused).link("eu-1", Link::Unfit { why: "401".into() });
    twin = twin.remembering(Memory { worker_unusable: NOW.monotonic.checked_sub(MINUTE), ..Memory::default() });
    twin.leads_alone = false;
    assert_eq!(twin.plan(), [], "another dispatcher can use it");
}

#[test]
fn a_worker_that_was_removed_or_replaced_counts_as_lost_from_when_it_was_missed() {
    let fails = || json!({"onWorkerLost": {"action": "Fail", "after": "15m"}});
    let missed = |ago: Duration| Memory {
        worker_missing: NOW.monotonic.checked_sub(ago),
        no_stray_in: Some("id-9".into()),
        ..Memory::default()
    };
    let replaced = || world().placed(&placement()).link("eu-1", Link::Live { identity: "id-9".into() }).policy(fails());
    let wake_after = |time: Duration| Action::WakeAt(NOW.monotonic + time);
    let plan = replaced().remembering(missed(MINUTE / 2)).plan();
    assert_eq!(plan, [wake_after(MINUTE / 2), wake_after(14 * MINUTE + MINUTE / 2)]);
    let message = "on worker eu-1, behind whose name there is another cluster now; it is waited for";
    let waits = replaced().policy(json!({})).remembering(missed(15 * MINUTE)).plan();
    assert_eq!(told(&waits), ("WorkerMissing", message));
    assert_eq!(failed(&replaced().remembering(missed(15 * MINUTE)).plan()), "WorkerLost", "the last word");
    let removed = |ago| {
        let mut removed = world().placed(&placement()).remembering(missed(ago));
        removed.workers.remove("eu-1");
        removed.plan()
    };
    assert_eq!(removed(Duration::ZERO), [Action::WakeAt(NOW.monotonic + MINUTE)], "a short absence is no news");
    assert_eq!(told(&removed(MINUTE)).0, "WorkerMissing");
}

#[test]
fn the_cluster_that_took_a_workers_place_is_searched_for_what_a_create_may_have_made_there() {
    let replaced = |at: &Placement| world().placed(at).link("eu-1", Link::Live { identity: "id-9".into() });
    let look = [Action::LookForStray { worker: "eu-1".into() }];
    assert_eq!(replaced(&placement()).plan(), look);
    let searched = |identity: &str| Memory { no_stray_in: Some(identity.into()), ..Memory::default() };
    assert_eq!(replaced(&placement()).remembering(searched("id-9")).plan(), []);
    assert_eq!(replaced(&placement()).remembering(searched("id-8")).plan(), look, "that was yet another one");
    assert_eq!(replaced(&placement().with_mirror("m1")).plan(), [], "it was created in the cluster before");
    let landed = NOW.monotonic + QUARANTINE;
    let under_way = Memory { in_doubt: Some(NOW.monotonic), ..Memory::default() };
    assert_eq!(replaced(&placement()).remembering(under_way).plan(), [Action::WakeAt(landed)], "it may still land");
}

#[test]
fn a_mirror_in_the_cluster_that_took_its_workers_place_is_recorded_there() {
    let replaced = || world().placed(&placement()).link("eu-1", Link::Live { identity: "id-9".into() });
    let plan = replaced().mirror_on("eu-1", running()).plan();
    let there = [Action::RecordPlacement(placement().in_cluster("id-9").with_mirror("m1"))];
    assert_eq!(plan, there);
    assert_eq!(replaced().mirror_on("eu-1", Mirror { epoch: None, ..running() }).plan(), there, "without its mark");
    let named = |leads_alone| {
        let mut world = world().placed(&placement().with_mirror("m1")).mirror_on("eu-1", running());
        world.leads_alone = leads_alone;
        world.link("eu-1", Link::Live { identity: "id-9".into() }).plan()
    };
    assert_eq!(named(true), there, "its create was answered before anybody noticed");
    assert!(!named(false).contains(&there[0]), "another dispatcher may not have noticed yet: they would take turns");
}

#[test]
fn the_end_of_the_very_same_mirror_counts_whichever_worker_shows_it() {
    let seen = |uid: &str| {
        let ended = Mirror { uid: uid.into(), ..complete() };
        let world = world().placed(&placement().with_mirror("m1")).mirror_on("eu-1", running());
        world.mirror_on("eu-2", ended).link("eu-1", Link::Unfit { why: "registered twice".into() }).plan()
    };
    let writes_end = |plan: &[Action]| match plan {
        [Action::WriteStatus { status, .. }, ..] => {
            conditions::find(status.conditions.as_deref().unwrap(), "Complete").is_some()
        }
        _ => false,
    };
    assert!(writes_end(&seen("m1")), "{:?}", seen("m1"));
    assert!(!writes_end(&seen("m2")), "{:?}", seen("m2"));
}

#[test]
fn nothing_is_given_up_before_the_cluster_in_its_workers_place_was_searched() {
    let missed = |no_stray_in: Option<&str>| {
        let worker_missing = NOW.monotonic.checked_sub(15 * MINUTE);
        let memory = Memory { worker_missing, no_stray_in: no_stray_in.map(Into::into), ..Memory::default() };
        let replaced = world().placed(&placement()).link("eu-1", Link::Live { identity: "id-9".into() });
        let fails = json!({"onWorkerLost": {"action": "Fail", "after": "15m"}});
        replaced.policy(fails).remembering(memory).plan()
    };
    assert!(missed(None).contains(&Action::LookForStray { worker: "eu-1".into() }));
    assert!(!missed(None).iter().any(|action| matches!(action, Action::WriteStatus { .. })));
    assert_eq!(failed(&missed(Some("id-9"))), "WorkerLost");
}

#[test]
fn whether_a_worker_is_missing_is_told_once_a_minute_at_most() {
    let said = |reason: &str, ago: Duration| {
        let at = NOW.wall.checked_sub(ago).unwrap().to_string();
        let told = json!({"type": "jobferry.dev/Placed", "status": "True", "reason": reason, "message": "so",
                          "lastProbeTime": at, "lastTransitionTime": at});
        world().placed(&placement()).condition(told)
    };
    let missing = |ago| {
        let missed = NOW.monotonic.checked_sub(10 * MINUTE);
        let mut world = said("Placed", ago).remembering(Memory { worker_missing: missed, ..Memory::default() });
        world.workers.remove("eu-1");
        world.plan()
    };
    // A dispatcher to which the worker is back.
    let back = |ago| {
        let recorded = placement().copying(&running());
        let mut world = said("WorkerMissing", ago).mirror_on("eu-1", running());
        world.job["status"]["conditions"][0] = serde_json::to_value(recorded.condition().unwrap()).unwrap();
        let world = ["active", "ready", "startTime"].into_iter().fold(world, |world, field| {
            let status = json!({"active": 1, "ready": 1, "startTime": "2026-11-15T10:00:00Z"});
            world.job(&format!("/status/{field}"), status[field].clone())
        });
        world.plan()
    };
    let rest = [Action::WakeAt(NOW.monotonic + MINUTE / 2)];
    assert_eq!((missing(MINUTE / 2), back(MINUTE / 2)), (rest.to_vec(), rest.to_vec()));
    assert_eq!((told(&missing(MINUTE)).0, told(&back(MINUTE)).0), ("WorkerMissing", "Placed"));
}

#[test]
fn a_lost_worker_past_the_jobs_own_deadline_means_that_it_was_exceeded() {
    let start = NOW.wall.checked_sub(10 * MINUTE).unwrap().to_string();
    let lost = |deadline: u64| {
        let lost = world().placed(&placement()).link("eu-1", away(2 * MINUTE, 2 * MINUTE));
        lost.job("/status/startTime", json!(start)).job("/spec/activeDeadlineSeconds", json!(deadline)).plan()
    };
    assert_eq!(lost(660), [Action::WakeAt(NOW.monotonic + MINUTE)]);
    assert_eq!(failed(&lost(600)), "DeadlineExceeded");
}

#[test]
fn once_a_direction_was_copied_the_loss_ends_the_job_in_it() {
    let lost = world().placed(&placement()).link("eu-1", away(60 * MINUTE, 2 * MINUTE));
    let met = json!({"type": "SuccessCriteriaMet", "status": "True", "reason": "CompletionsReached"});
    let plan = lost.condition(met).policy(json!({"onWorkerLost": {"action": "Fail", "after": "15m"}})).plan();
    let [Action::WriteStatus { status, .. }] = plan.as_slice() else { panic!("{plan:?}") };
    assert!(conditions::is_true(status.conditions.as_deref().unwrap(), "Complete"));
}

#[test]
fn a_finished_mirror_stays_for_as_long_as_the_policy_keeps_it() {
    let finished = |ago: Duration, memory: Memory| {
        let ended = NOW.wall.checked_sub(ago).unwrap().to_string();
        let world = world().placed(&placement()).mirror_on("eu-1", complete()).remembering(memory);
        let world = world.condition(json!({"type": "Complete", "status": "True", "lastTransitionTime": ended}));
        world.policy(json!({"keepFinished": "1h"})).plan()
    };
    assert_eq!(finished(59 * MINUTE, Memory::default()), [Action::WakeAt(NOW.monotonic + MINUTE)]);
    assert_eq!(finished(60 * MINUTE, Memory::default()), [delete_on("eu-1")]);
    let in_doubt = Memory { in_doubt: Some(NOW.monotonic), ..Memory::default() };
    assert_eq!(finished(60 * MINUTE, in_doubt), [Action::WakeAt(NOW.monotonic + QUARANTINE)]);
}

#[test]
fn a_lost_workers_workload_is_not_given_up_while_a_create_of_it_may_be_under_way() {
    let since = NOW.wall.checked_sub(10 * MINUTE).unwrap();
    let noticed = NOW.monotonic.checked_sub(10 * MINUTE).unwrap();
    let lost = |seen_ago: Duration| {
        let seen = NOW.monotonic.checked_sub(seen_ago).unwrap();
        let memory = Memory { placement_seen: Some((1, placement().since, seen)), ..Memory::default() };
        let away = Link::Away { since, noticed };
        let world = world().policy(json!({"onWorkerLost": {"action": "Fail", "after": "5m"}})).placed(&placement());
        world.link("eu-1", away).remembering(memory).plan()
    };
    assert_eq!(lost(MINUTE), [Action::WakeAt(NOW.monotonic.checked_sub(MINUTE).unwrap() + QUARANTINE)]);
    assert!(matches!(lost(QUARANTINE)[..], [Action::WriteStatus { .. }]));
}
