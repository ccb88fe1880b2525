//! What the index makes of events, answers, and their order.

mod children;
mod kinds;

use super::*;
use jobferry_core::{
    claim::Misfit,
    knowledge::{Absence, Gone},
    placement::{CREATE_SLOTS, Link},
    record::{Placement, Record},
    refusal::{Ground, Refusal},
    time::{LOSS_NOTICED, Now, ORPHAN_BATCH, QUARANTINE},
    workload::Mirror,
};
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

const NOW: Now = Now { wall: Timestamp::constant(1_800_000_000, 0), monotonic: Duration::from_secs(500) };

fn workload(uid: &str, version: u32) -> Workload {
    serde_json::from_value(json!({
        "metadata": {"namespace": "ml", "name": uid, "uid": uid, "resourceVersion": version.to_string()},
        "spec": {"managedBy": "jobferry.dev/dispatcher"},
    }))
    .unwrap()
}

fn placed(uid: &str, version: u32, worker: &str) -> Workload {
    let placement = Placement::new(worker.into(), format!("id-{worker}"), 1, NOW.wall);
    Workload { record: Record::Placed(placement), ..workload(uid, version) }
}

fn mirror(uid: &str, own_uid: &str, version: u32) -> Mirror {
    serde_json::from_value(json!({
        "metadata": {"namespace": "ml", "name": uid, "uid": own_uid, "resourceVersion": version.to_string(),
                     "annotations": {"jobferry.dev/origin-uid": uid, "jobferry.dev/epoch": "1"}},
    }))
    .unwrap()
}

/// An index that has seen the manager's (empty) list and these live workers.
fn index(workers: &[&str]) -> Index {
    let index = Index::default();
    index.reset_workloads(&KindRef::Job, Vec::new());
    index.reset_policies(BTreeMap::new());
    index.reset_namespaces(BTreeMap::new());
    for name in workers {
        go_live(&index, name);
    }
    index.know_all_workers();
    index
}

fn go_live(index: &Index, name: &str) -> Vec<Uid> {
    index.add_worker(name, &format!("worker-{name}"), None);
    index.change_worker(name, |worker| worker.link = Link::Live { identity: format!("id-{name}") })
}

fn plan_of(index: &Index, uid: &str) -> Planned {
    let (rules, since) = (Rules::newest(), Duration::ZERO);
    index.plan(uid, Term { rules, since, alone: true, notice_loss_after: LOSS_NOTICED }, NOW)
}

fn sighting(index: &Index, uid: &str, worker: &str) -> Option<Sighting> {
    index.lock().workloads.get(uid)?.mirrors.get(worker).cloned()
}

#[test]
fn the_end_of_a_mirror_that_never_counted_is_not_that_of_the_mirror() {
    let index = index(&["eu-1"]);
    index.apply_workload(placed("u1", 5, "eu-1"));
    index.apply_mirror("eu-1", mirror("u1", "m1", 11));
    index.discard("u1", "eu-1", "m1", &Misfit::Dropped("successPolicy".into()));
    index.delete_mirror("eu-1", mirror("u1", "m1", 12));
    assert_eq!(sighting(&index, "u1", "eu-1"), None);
}

#[test]
fn a_namespace_has_work_for_as_long_as_a_workload_is_in_it() {
    let index = index(&["eu-1"]);
    assert!(!index.has_work_in("ml"));
    for version in [5, 6] {
        index.apply_workload(placed("u1", version, "eu-1"));
        index.apply_workload(workload("u2", version));
    }
    index.apply_mirror("eu-1", mirror("u1", "m1", 11));
    for (gone, left) in [("u1", true), ("u1", true), ("u2", false)] {
        index.delete_workload(gone);
        assert_eq!(index.has_work_in("ml"), left, "without {gone}");
    }
    index.reset_workloads(&KindRef::Job, vec![workload("u3", 9).into()]);
    assert!(index.has_work_in("ml"));
    index.reset_workloads(&KindRef::Job, Vec::new());
    assert!(!index.has_work_in("ml"));
}

#[test]
fn what_a_worker_runs_of_workloads_that_are_gone_is_left_over() {
    let index = index(&["eu-1"]);
    index.apply_workload(placed("u1", 5, "eu-1"));
    index.apply_mirror("eu-1", mirror("u1", "m1", 11));
    assert!(!index.has_leftovers_on("eu-1"), "it is what the workload runs");
    index.delete_workload("u1");
    assert!(index.has_leftovers_on("eu-1"));
    index.delete_mirror("eu-1", mirror("u1", "m1", 12));
    assert!(!index.has_leftovers_on("eu-1"));
}

/// As it is remembered when a list does not have it.
fn unlisted(mirror: Mirror) -> Mirror {
    Mirror { resource_version: String::new(), ..mirror }
}

#[test]
fn a_new_list_does_not_make_an_orphan_younger() {
    let index = index(&["eu-1"]);
    index.apply_workload(placed("u1", 5, "eu-1"));
    index.apply_mirror("eu-1", mirror("u1", "m1", 11));
    index.delete_workload("u1");
    plan_of(&index, "u1");
    let memory = || index.lock().workloads["u1"].memory.clone();
    let before = memory();
    assert!(before.owner_seen && before.placement_seen.is_some());
    index.reset_mirrors("eu-1", &KindRef::Job, None, vec![mirror("u1", "m1", 11).into()]);
    assert_eq!(memory(), before, "its finished mirror would stay for ever: every list would begin the wait anew");
}

#[test]
fn the_list_of_one_namespace_says_nothing_of_the_others() {
    let index = index(&["eu-1"]);
    index.apply_workload(placed("u1", 5, "eu-1"));
    index.apply_mirror("eu-1", mirror("u1", "m1", 11));
    assert_eq!(index.reset_mirrors("eu-1", &KindRef::Job, Some("web"), Vec::new()), Vec::<Uid>::new());
    assert_eq!(sighting(&index, "u1", "eu-1"), Some(Sighting::Present(mirror("u1", "m1", 11).into())));
    assert_eq!(index.reset_mirrors("eu-1", &KindRef::Job, Some("ml"), Vec::new()), ["u1".to_owned()]);
    assert_eq!(sighting(&index, "u1", "eu-1"), Some(Sighting::Vanished(unlisted(mirror("u1", "m1", 11)).into())));
}

#[test]
fn an_answer_that_the_watch_has_overtaken_changes_nothing() {
    let index = index(&["eu-1"]);
    index.apply_workload(placed("u1", 5, "eu-1"));
    index.apply_mirror("eu-1", mirror("u1", "m1", 11));
    index.apply_mirror("eu-1", mirror("u1", "m1", 10));
    assert_eq!(sighting(&index, "u1", "eu-1"), Some(Sighting::Present(mirror("u1", "m1", 11).into())));
    index.delete_mirror("eu-1", mirror("u1", "m1", 12));
    index.apply_mirror("eu-1", mirror("u1", "m1", 11));
    assert_eq!(sighting(&index, "u1", "eu-1"), Some(Sighting::Vanished(mirror("u1", "m1", 12).into())));
    index.apply_mirror("eu-1", mirror("u1", "m2", 13));
    index.delete_mirror("eu-1", mirror("u1", "m1", 14));
    assert_eq!(
        sighting(&index, "u1", "eu-1"),
        Some(Sighting::Present(mirror("u1", "m2", 13).into())),
        "another mirror's end"
    );
    index.reset_mirrors("eu-1", &KindRef::Job, None, vec![mirror("u1", "m2", 3).into()]);
    assert_eq!(
        sighting(&index, "u1", "eu-1"),
        Some(Sighting::Present(mirror("u1", "m2", 3).into())),
        "a list is the truth"
    );
}

#[test]
fn what_is_seen_after_a_list_that_lacked_it_counts_though_the_workers_versions_went_back() {
    let index = index(&["eu-1"]);
    index.apply_workload(placed("u1", 5, "eu-1"));
    index.apply_mirror("eu-1", mirror("u1", "m1", 20));
    index.reset_mirrors("eu-1", &KindRef::Job, None, Vec::new());
    let asked = index.lists_of("eu-1", "u1");
    index.hear_of_mirror("eu-1", mirror("u1", "m1", 11), asked);
    assert_eq!(sighting(&index, "u1", "eu-1"), Some(Sighting::Present(mirror("u1", "m1", 11).into())));
}

#[test]
fn an_answer_that_a_list_has_overtaken_does_not_bring_back_what_is_gone() {
    let index = index(&["eu-1"]);
    index.apply_workload(placed("u1", 5, "eu-1"));
    let asked = index.lists_of("eu-1", "u1");
    let Record::Placed(at) = placed("u1", 5, "eu-1").record else { panic!("it is placed") };
    index.prove_absent("u1", &at, None, false);
    index.reset_mirrors("eu-1", &KindRef::Job, None, Vec::new());
    index.hear_of_mirror("eu-1", mirror("u1", "m1", 11), asked);
    assert_eq!(
        sighting(&index, "u1", "eu-1"),
        Some(Sighting::Vanished(unlisted(mirror("u1", "m1", 11)).into())),
        "no watch tells its end"
    );
    let plan = plan_of(&index, "u1").actions;
    assert!(matches!(plan[..], [Action::ProveAbsent { .. }]), "it may have run, the proof is from before: {plan:?}");
    let asked_anew = index.lists_of("eu-1", "u1");
    index.hear_of_mirror("eu-1", mirror("u1", "m1", 11), asked_anew);
    assert_eq!(sighting(&index, "u1", "eu-1"), Some(Sighting::Present(mirror("u1", "m1", 11).into())));
    index.reset_mirrors("eu-1", &KindRef::Job, None, vec![mirror("u1", "m1", 11).into()]);
    index.hear_of_mirror("eu-1", mirror("u1", "m1", 12), asked_anew);
    assert_eq!(
        sighting(&index, "u1", "eu-1"),
        Some(Sighting::Present(mirror("u1", "m1", 12).into())),
        "the list has it"
    );
}

#[test]
fn after_a_conflict_a_fresh_read_counts_even_if_versions_went_back() {
    let index = index(&["eu-1"]);
    index.apply_workload(placed("u1", 1, "eu-1"));
    index.apply_mirror("eu-1", mirror("u1", "m1", 100));
    assert_eq!(index.apply_mirror("eu-1", mirror("u1", "m1", 60)), Vec::<Uid>::new());
    assert!(!index.correct_mirror("eu-1", mirror("u1", "m1", 60), "100", 0).is_empty());
    let versions = |seen: Option<Sighting>| match seen {
        Some(Sighting::Present(mirror)) => mirror.resource_version,
        other => panic!("{other:?}"),
    };
    assert_eq!(versions(sighting(&index, "u1", "eu-1")), "60");
    index.apply_mirror("eu-1", mirror("u1", "m1", 70));
    assert!(
        index.correct_mirror("eu-1", mirror("u1", "m1", 65), "60", 0).is_empty(),
        "something newer was seen meanwhile"
    );
}

#[test]
fn a_copy_of_a_mirror_under_another_name_is_no_mirror() {
    let index = index(&["eu-1"]);
    index.apply_workload(placed("u1", 1, "eu-1"));
    let copy = Mirror { name: "debug".into(), ..mirror("u1", "m2", 7) };
    assert_eq!(index.apply_mirror("eu-1", copy.clone()), Vec::<Uid>::new());
    index.apply_mirror("eu-1", mirror("u1", "m1", 5));
    assert_eq!(index.delete_mirror("eu-1", copy), Vec::<Uid>::new());
    assert!(matches!(sighting(&index, "u1", "eu-1"), Some(Sighting::Present(seen)) if seen.uid == "m1"));
}

#[test]
fn a_deleted_workload_is_not_brought_back_by_a_late_answer() {
    let index = index(&["eu-1"]);
    index.apply_workload(workload("u1", 5));
    index.delete_workload("u1");
    assert_eq!(index.apply_workload(workload("u1", 6)), Vec::<Uid>::new());
    assert!(plan_of(&index, "u1").actions.is_empty());
}

#[test]
fn nothing_is_planned_before_all_of_the_managers_lists_were_seen() {
    let index = Index::default();
    go_live(&index, "eu-1");
    index.apply_mirror("eu-1", mirror("u1", "m1", 1));
    index.reset_policies(BTreeMap::new());
    assert!(plan_of(&index, "u1").actions.is_empty(), "its owner may be on the list that has not come yet");
    assert_eq!(index.reset_workloads(&KindRef::Job, Vec::new()), ["u1"]);
    assert!(plan_of(&index, "u1").actions.is_empty(), "its namespace may name a policy");
    assert_eq!(index.reset_namespaces(BTreeMap::new()), ["u1"]);
    assert!(plan_of(&index, "u1").actions.is_empty(), "more workers may be registered");
    assert_eq!(index.know_all_workers(), ["u1"]);
    assert!(matches!(plan_of(&index, "u1").actions[..], [Action::ProveGone { .. }]));
}

#[test]
fn what_is_placed_on_a_worker_is_planned_again_when_it_comes_back() {
    let index = index(&["eu-1"]);
    index.apply_workload(placed("u1", 5, "eu-1"));
    index.change_worker("eu-1", |worker| worker.link = Link::Away { since: NOW.wall, noticed: NOW.monotonic });
    assert!(plan_of(&index, "u1").actions.is_empty());
    assert_eq!(go_live(&index, "eu-1"), ["u1"]);
}

#[test]
fn a_free_slot_goes_to_a_workload_that_waits_for_exactly_that_worker() {
    let index = index(&["eu-1"]);
    for number in 0..CREATE_SLOTS {
        index.apply_workload(placed(&format!("full-{number}"), 1, "eu-1"));
    }
    for waiting in ["waits", "came-later"] {
        index.apply_workload(workload(waiting, 1));
    }
    let narrowing = jobferry_core::workload::Narrowing { workers: Some("us-1".into()), selector: None };
    index.apply_workload(Workload { narrowing, ..workload("nowhere", 1) });
    for waiting in ["nowhere", "waits", "came-later"] {
        assert!(!matches!(plan_of(&index, waiting).actions[..], [Action::RecordPlacement(_)]));
    }
    assert_eq!(index.offer_free_slots(), [] as [Uid; 0]);
    index.apply_mirror("eu-1", mirror("full-0", "m", 2));
    assert_eq!(index.offer_free_slots(), ["waits"], "neither the one that cannot go there nor one that came later");
    assert!(matches!(plan_of(&index, "waits").actions[..], [Action::RecordPlacement(_)]));
}

#[test]
fn a_refused_create_gives_its_slot_back() {
    let index = index(&["eu-1"]);
    index.apply_workload(placed("u1", 1, "eu-1"));
    assert_eq!(index.worker("eu-1").unwrap().unacknowledged, 1);
    let (ground, why) = (Ground::Quota, "quota".into());
    let refusal = Refusal { epoch: 1, ground, why, at: NOW.monotonic, times: 1 };
    index.remember("u1", |memory| drop(memory.refusals.insert("eu-1".into(), refusal)));
    let view = index.worker("eu-1").unwrap();
    assert_eq!((view.unacknowledged, view.unfinished), (0, 1));
}

#[test]
fn an_identity_belongs_to_one_worker_even_while_it_is_away() {
    let index = index(&["eu-1", "eu-2"]);
    assert_eq!(index.claim_identity("eu-1", "id"), Ok(()));
    index.change_worker("eu-1", |worker| worker.link = Link::Away { since: NOW.wall, noticed: NOW.monotonic });
    assert_eq!(index.claim_identity("eu-2", "id"), Err("eu-1".into()));
    index.remove_worker("eu-1");
    assert_eq!(index.claim_identity("eu-2", "id"), Ok(()));
}

#[test]
fn workers_whose_secrets_were_mixed_up_do_not_keep_each_other_out_afterwards() {
    let index = index(&["eu-1", "eu-2"]);
    assert_eq!(index.claim_identity("eu-1", "second"), Ok(()));
    assert_eq!(index.claim_identity("eu-2", "first"), Ok(()));
    assert_eq!(index.claim_identity("eu-1", "first"), Err("eu-2".into()));
    assert_eq!(index.claim_identity("eu-2", "second"), Ok(()));
    assert_eq!(index.claim_identity("eu-1", "first"), Ok(()));
}

#[test]
fn the_worker_that_is_recorded_to_be_a_cluster_keeps_it_from_one_that_connects_first() {
    let index = Index::default();
    index.add_worker("eu-1", "a", Some("id"));
    index.add_worker("eu-2", "b", None);
    assert_eq!(index.claim_identity("eu-2", "id"), Err("eu-1".into()));
    assert_eq!(index.claim_identity("eu-1", "id"), Ok(()));
}

#[test]
fn an_answer_that_nothing_is_there_says_nothing_about_a_mirror_that_was_seen_meanwhile() {
    let index = index(&["eu-1"]);
    index.apply_workload(placed("u1", 5, "eu-1"));
    let at = Placement::new("eu-1".into(), "id-eu-1".into(), 1, NOW.wall);
    let absent = |index: &Index| index.lock().workloads["u1"].memory.absent.clone();

    let before = index.last_seen("u1", "eu-1");
    index.apply_mirror("eu-1", mirror("u1", "m1", 11));
    index.prove_absent("u1", &at, before.as_deref(), false);
    assert_eq!(absent(&index), None);

    let before = index.last_seen("u1", "eu-1");
    index.prove_absent("u1", &at, before.as_deref(), false);
    assert_eq!(absent(&index), Some(Absence::proved_for(&at)));
    assert_eq!(sighting(&index, "u1", "eu-1"), Some(Sighting::Vanished(mirror("u1", "m1", 11).into())));
}

#[test]
fn mirrors_whose_workload_was_never_seen_are_deleted_in_batches() {
    let index = index(&["eu-1"]);
    let deletes = |index: &Index| {
        let all = (0..ORPHAN_BATCH + 20).map(|number| format!("u{number}"));
        let plans = all.map(|uid| plan_of(index, &uid).actions);
        plans.filter(|actions| matches!(actions[..], [Action::DeleteMirror { .. }])).count()
    };
    for number in 0..ORPHAN_BATCH + 20 {
        let uid = format!("u{number}");
        let orphan = Mirror { manager_version: Some(1), ..mirror(&uid, &format!("m{number}"), 1) };
        index.apply_mirror("eu-1", orphan);
        index.remember(&uid, |memory| memory.gone = Some(Gone { version: 7, at: Duration::ZERO }));
    }
    assert_eq!(deletes(&index), ORPHAN_BATCH);
    assert_eq!(deletes(&index), ORPHAN_BATCH, "the same ones, planned again");
}

#[test]
fn a_create_of_unknown_outcome_outlives_its_workload_that_was_deleted_before_its_mirror_was_seen() {
    let gone = |doubt| {
        let index = index(&["eu-1"]);
        index.apply_workload(placed("u1", 1, "eu-1"));
        index.remember("u1", |memory| memory.in_doubt = doubt);
        index.delete_workload("u1");
        assert!(index.lock().workloads.is_empty());
        let complete = json!({"conditions": [{"type": "Complete", "status": "True"}]});
        let ended = Mirror { status: serde_json::from_value(complete).unwrap(), ..mirror("u1", "m1", 2) };
        index.apply_mirror("eu-1", ended);
        let proof = Gone { version: 7, at: NOW.monotonic };
        index.remember("u1", |memory| (memory.gone, memory.owner_seen) = (Some(proof), true));
        plan_of(&index, "u1").actions
    };
    assert!(matches!(gone(None)[..], [Action::DeleteMirror { .. }]));
    assert_eq!(gone(Some(NOW.monotonic)), [Action::WakeAt(NOW.monotonic + QUARANTINE)], "its name is a guard");
}

#[test]
fn a_worker_that_is_gone_is_not_brought_back_by_its_last_words() {
    let index = index(&["eu-1"]);
    index.remove_worker("eu-1");
    assert_eq!(index.change_worker("eu-1", |worker| worker.link = Link::Connecting), [] as [Uid; 0]);
    assert_eq!(index.worker("eu-1"), None);
}

#[test]
fn what_one_worker_refuses_is_looked_at_again_when_another_one_opens() {
    let index = index(&["eu-1", "us-1"]);
    index.apply_workload(placed("u1", 1, "eu-1"));
    let refusal = Refusal { epoch: 1, ground: Ground::Quota, why: "full".into(), at: NOW.monotonic, times: 1 };
    index.remember("u1", |memory| drop(memory.refusals.insert("eu-1".into(), refusal)));
    assert_eq!(index.change_worker("us-1", |worker| worker.cordoned = true), ["u1"]);
    assert_eq!(index.change_worker("us-1", |worker| worker.cordoned = true), [] as [Uid; 0], "no news");
}

#[test]
fn after_a_restore_nothing_is_placed_before_every_worker_was_seen() {
    let index = index(&["eu-1"]);
    index.add_worker("us-1", "c", None);
    index.apply_workload(workload("u1", 1));
    index.note_manager_version(40);
    assert_eq!(index.manager_version(), 40);
    index.find_restored("ml/train".into());
    let plan = plan_of(&index, "u1").actions;
    assert!(matches!(&plan[..], [Action::Tell(told)] if told.message.contains("us-1")), "{plan:?}");
    assert!(index.survey().halted);
    assert_eq!(go_live(&index, "us-1"), ["u1"]);
    assert!(matches!(plan_of(&index, "u1").actions[..], [Action::RecordPlacement(_)]));
}

#[test]
fn a_worker_that_is_registered_anew_is_another_one_of_the_same_name() {
    let index = index(&[]);
    let registered = || index.standings()["eu-1"].uid.clone();
    index.add_worker("eu-1", "first", None);
    index.add_worker("eu-1", "first", None);
    assert_eq!(registered(), "first");
    index.remove_worker("eu-1");
    index.add_worker("eu-1", "second", None);
    assert_eq!(registered(), "second");
}
