//! Given this knowledge, expect exactly this plan.

mod custom;
mod leaving;
mod misfits;
mod policies;
mod refusals;
mod suspension;
mod waiting;

use std::collections::BTreeMap;

use super::*;
use crate::{
    action::MirrorRef,
    custom::KindRef,
    forward::Forwarded,
    halts::Halt,
    knowledge::{Absence, Activity, Gone, Memory, Sighting},
    placement::{Link, WorkerView},
    policy::{Policies, Policy},
    refusal::{Ground, Refusal},
    time::{
        CREATE_WINDOW, LOSS_NOTICED, Now, ORPHAN_PAUSE, QUARANTINE, RECORD_AGAIN, STATUS_INTERVAL, WAITING_INTERVAL,
    },
};
use job_api::{Rules, conditions};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use std::time::Duration;

const NOW: Now = Now { wall: Timestamp::constant(1_800_000_000, 0), monotonic: Duration::from_secs(1000) };

/// A world of one workload `train` in namespace `ml`, and the workers eu-1 and eu-2.
struct World {
    known: Knowledge,
    workers: BTreeMap<String, WorkerView>,
    policies: Policies,
    halted: Option<Halt>,
    leading_since: Duration,
    leads_alone: bool,
    may_delete_orphan: bool,
    now: Now,
    job: Value,
}

fn world() -> World {
    let live = |identity: &str| WorkerView { link: Link::Live { identity: identity.into() }, ..WorkerView::default() };
    let job = json!({
        "metadata": {"namespace": "ml", "name": "train", "uid": "u1", "resourceVersion": "50", "annotations": {}},
        "spec": {"managedBy": "jobferry.dev/dispatcher", "completions": 1, "parallelism": 1},
        "status": {"conditions": []},
    });
    let workers = [("eu-1".into(), live("id-1")), ("eu-2".into(), live("id-2"))].into();
    let (known, policies) = (Knowledge::default(), Policies::default());
    let leading_since = Duration::ZERO;
    World {
        known,
        workers,
        policies,
        halted: None,
        leading_since,
        leads_alone: true,
        may_delete_orphan: true,
        now: NOW,
        job,
    }
}

fn placement() -> Placement {
    Placement::new("eu-1".into(), "id-1".into(), 1, NOW.wall)
}

fn mirror(status: &Value) -> Mirror {
    serde_json::from_value(json!({
        "metadata": {"namespace": "ml", "name": "train", "uid": "m1", "resourceVersion": "5",
                     "annotations": {"jobferry.dev/origin-uid": "u1", "jobferry.dev/epoch": "1",
                                     "jobferry.dev/manager-resource-version": "42"}},
        "status": status,
    }))
    .unwrap()
}

fn running() -> Mirror {
    mirror(&json!({"active": 1, "ready": 1, "startTime": "2026-11-15T10:00:00Z"}))
}

fn complete() -> Mirror {
    let condition =
        |type_: &str| json!({"type": type_, "status": "True", "reason": "CompletionsReached", "message": "m"});
    mirror(&json!({
        "succeeded": 1, "startTime": "2026-11-15T10:00:00Z", "completionTime": "2026-11-15T10:01:00Z",
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    }))
}

impl World {
    fn job(mut self, pointer: &str, value: Value) -> Self {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        self.job.pointer_mut(parent).unwrap()[key] = value;
        self
    }

    fn placed(self, placement: &Placement) -> Self {
        let condition = serde_json::to_value(placement.condition().unwrap()).unwrap();
        self.condition(condition)
    }

    fn condition(mut self, condition: Value) -> Self {
        self.job["status"]["conditions"].as_array_mut().unwrap().push(condition);
        self
    }

    fn mirror_on(mut self, worker: &str, mirror: Mirror) -> Self {
        self.known.mirrors.insert(worker, Sighting::Present(mirror.into()));
        self
    }

    fn vanished_on(mut self, worker: &str, mirror: Mirror) -> Self {
        self.known.mirrors.insert(worker, Sighting::Vanished(mirror.into()));
        self
    }

    fn link(mut self, worker: &str, link: Link) -> Self {
        self.workers.get_mut(worker).unwrap().link = link;
        self
    }

    /// The default policy.
    fn policy(mut self, spec: Value) -> Self {
        let policy = Policy::read(&serde_json::from_value(spec).unwrap());
        self.policies.policies.insert("default".into(), policy);
        self
    }

    fn labelled(mut self, worker: &str, key: &str, value: &str) -> Self {
        self.workers.get_mut(worker).unwrap().labels.insert(key.into(), value.into());
        self
    }

    fn remembering(mut self, memory: Memory) -> Self {
        self.known.memory = memory;
        self
    }

    fn acknowledged(self, ago: Duration) -> Self {
        let at = NOW.monotonic.checked_sub(ago).unwrap();
        self.remembering(Memory { acknowledged: Some((1, at)), ..Memory::default() })
    }

    fn at(mut self, monotonic: Duration) -> Self {
        self.now.monotonic = monotonic;
        self
    }

    fn without_workload(mut self) -> Self {
        self.job = Value::Null;
        self
    }

    fn plan(mut self) -> Vec<Action> {
        if !self.job.is_null() {
            self.known.workload = Some(serde_json::from_value(self.job).unwrap());
        }
        let around = Surroundings {
            workers: &self.workers,
            policies: &self.policies,
            halted: self.halted.as_ref(),
            rules: Rules::newest(),
            leading_since: self.leading_since,
            leads_alone: self.leads_alone,
            notice_loss_after: LOSS_NOTICED,
            may_delete_orphan: self.may_delete_orphan,
            now: self.now,
        };
        plan(&self.known, around)
    }
}

fn delete_on(worker: &str) -> Action {
    Action::DeleteMirror { worker: worker.into(), mirror: the_mirror(), pods: Pods::Later }
}

fn delete_pods_first_on(worker: &str) -> Action {
    Action::DeleteMirror { worker: worker.into(), mirror: the_mirror(), pods: Pods::First }
}

fn the_mirror() -> MirrorRef {
    MirrorRef {
        kind: KindRef::Job,
        namespace: "ml".into(),
        name: "train".into(),
        uid: "m1".into(),
        resource_version: "5".into(),
    }
}

/// Worker eu-1 said this, so long ago.
fn refusal(why: &str, ago: Duration) -> BTreeMap<String, Refusal> {
    let at = NOW.monotonic.checked_sub(ago).unwrap();
    let refusal = Refusal { epoch: 1, ground: Ground::Quota, why: why.into(), at, times: 1 };
    BTreeMap::from([("eu-1".into(), refusal)])
}

fn refused_edit(why: &str) -> Refusal {
    Refusal::after(None, 1, Ground::Quota, why.into(), NOW.monotonic)
}

/// Nothing was there when the placement of that epoch had no mirror.
fn absent(epoch: u32) -> Absence {
    Absence::proved_for(&Placement::new(String::new(), String::new(), epoch, NOW.wall))
}

fn prove_absent() -> Action {
    Action::ProveAbsent { worker: "eu-1".into(), epoch: 1 }
}

const AWAY: Link = Link::Away { since: Timestamp::UNIX_EPOCH, noticed: NOW.monotonic };

#[test]
fn a_new_workload_is_recorded_before_anything_is_created() {
    let plan = world().job("/spec/completions", json!(2)).plan();
    let [Action::RecordPlacement(placement)] = plan.as_slice() else { panic!("{plan:?}") };
    assert_eq!((placement.epoch, placement.mirror.as_ref()), (1, None));
}

#[test]
fn the_least_loaded_worker_that_is_live_and_open_is_chosen() {
    let mut world = world();
    world.workers.get_mut("eu-1").unwrap().unfinished = 3;
    world.workers.get_mut("eu-2").unwrap().unfinished = 2;
    let plan = world.plan();
    assert!(
        matches!(&plan[..], [Action::RecordPlacement(p)] if p.worker == "eu-2" && p.identity == "id-2"),
        "{plan:?}"
    );
}

#[test]
fn jobs_of_others_are_not_touched() {
    for value in
        [json!(null), json!("kubernetes.io/job-controller"), json!("jobferry.dev/local"), json!("example.com/other")]
    {
        assert_eq!(world().job("/spec/managedBy", value.clone()).plan(), [], "{value}");
    }
}

#[test]
fn a_workload_that_fits_nowhere_says_why_and_does_not_repeat_itself() {
    let narrowed = || world().job("/metadata/annotations", json!({"jobferry.dev/workers": "us-1"}));
    let plan = narrowed().plan();
    let [Action::Tell(told)] = plan.as_slice() else { panic!("{plan:?}") };
    assert_eq!(told.message, "of 2 workers none fits: 2 not among the named workers");
    let said = json!({"type": "jobferry.dev/Placed", "status": "False", "reason": "NoWorkerFits", "message": told.message,
                      "lastTransitionTime": "2020-01-01T00:00:00Z"});
    assert_eq!(narrowed().condition(said).plan(), []);
}

#[test]
fn a_suspended_workload_is_not_placed_and_looks_as_the_built_in_controller_shows_it() {
    let plan = world().job("/spec/suspend", json!(true)).plan();
    let [Action::WriteStatus { status, placement: None }] = plan.as_slice() else { panic!("{plan:?}") };
    let conditions = status.conditions.as_deref().unwrap();
    assert_eq!(conditions::find(conditions, "Suspended").unwrap().reason.as_deref(), Some("JobSuspended"));
    let shown = serde_json::to_value(&conditions[0]).unwrap();
    assert_eq!(world().job("/spec/suspend", json!(true)).condition(shown).plan(), []);
}

#[test]
fn the_mirror_is_created_only_soon_after_its_placement_was_acknowledged() {
    let placed = || world().placed(&placement());
    assert_eq!(placed().acknowledged(Duration::from_secs(1)).plan(), [Action::CreateMirror(placement())]);
    assert_eq!(placed().acknowledged(CREATE_WINDOW).plan(), [prove_absent()]);
}

#[test]
fn after_a_restart_nothing_is_created_before_absence_is_proved_and_the_placement_recorded_again() {
    let placed = || world().placed(&placement());
    assert_eq!(placed().plan(), [prove_absent()]);
    let proved = Memory { absent: Some(absent(1)), ..Memory::default() };
    assert_eq!(placed().remembering(proved).plan(), [Action::RecordPlacement(placement())]);
}

#[test]
fn a_move_waits_for_the_quarantine_and_for_absence_before_it_goes_on() {
    let intent = placement().leaving(2, NOW.wall);
    let moving = |seen_ago: Duration, absent| {
        let seen = NOW.monotonic.checked_sub(seen_ago).unwrap();
        let refusals = refusal("quota", seen_ago);
        let memory =
            Memory { placement_seen: Some((2, intent.since.clone(), seen)), absent, refusals, ..Memory::default() };
        world().placed(&intent).remembering(memory)
    };
    let second = Duration::from_secs(1);
    let waiting = moving(second, Some(absent(2))).plan();
    assert_eq!(waiting, [Action::WakeAt(NOW.monotonic.checked_sub(second).unwrap() + QUARANTINE)]);
    let unproved = moving(QUARANTINE, None);
    assert_eq!(unproved.plan(), [Action::ProveAbsent { worker: "eu-1".into(), epoch: 2 }]);
    let plan = moving(QUARANTINE, Some(absent(2))).plan();
    let [Action::RecordPlacement(next)] = plan.as_slice() else { panic!("{plan:?}") };
    assert_eq!((next.worker.as_str(), next.epoch, next.moving, next.carried.failed), ("eu-2", 2, false, 2));
    assert_eq!(moving(QUARANTINE, None).link("eu-1", AWAY).plan(), [], "an unreachable worker proves nothing");
    let proved = moving(QUARANTINE, Some(absent(2))).link("eu-1", AWAY).plan();
    assert!(matches!(proved[..], [Action::RecordPlacement(_)]), "what is proved needs it no more: {proved:?}");
    let nobody = moving(QUARANTINE, Some(absent(2))).link("eu-2", AWAY).plan();
    let [Action::RecordPlacement(again)] = nobody.as_slice() else { panic!("{nobody:?}") };
    assert_eq!((again.worker.as_str(), again.epoch), ("eu-1", 2), "the first one is asked again");
    let left_over = moving(QUARANTINE, None).mirror_on("eu-1", running()).plan();
    assert_eq!(left_over, [delete_pods_first_on("eu-1")]);
}

#[test]
fn an_edit_is_forwarded_once_and_a_refused_one_is_told() {
    let edited = || world().placed(&placement()).job("/spec/parallelism", json!(5));
    let with_mark = |forwarded| Mirror { forwarded, ..mirror(&json!({})) };
    let digest = Forwarded::of(&edited().job).digest();
    let forward = Action::ForwardEdit { worker: "eu-1".into(), mirror: the_mirror(), digest };
    let forward_again = forward.clone();
    assert_eq!(edited().mirror_on("eu-1", with_mark(Some(1))).plan(), [forward]);
    assert_eq!(edited().mirror_on("eu-1", with_mark(Some(digest))).plan(), []);
    assert_eq!(edited().mirror_on("eu-1", with_mark(None)).plan(), [], "the mark was taken off: nothing is known");
    let refused = || Memory { edit_refused: Some(Box::new((digest, refused_edit("too many")))), ..Memory::default() };
    let plan = edited().mirror_on("eu-1", with_mark(Some(1))).remembering(refused()).plan();
    let [Action::Tell(told), Action::WakeAt(ask_again)] = &plan[..] else { panic!("{plan:?}") };
    assert!(told.message.ends_with("edit: too many"), "{told:?}");
    let later = edited().mirror_on("eu-1", with_mark(Some(1))).remembering(refused()).at(*ask_again);
    assert_eq!(later.plan(), [forward_again], "whoever refused may have changed his mind");
    let ended = Mirror { forwarded: Some(1), ..complete() };
    let plan = edited().mirror_on("eu-1", ended).plan();
    assert!(matches!(plan[..], [Action::WriteStatus { .. }]), "nothing is forwarded after the end: {plan:?}");
}

#[test]
fn an_unreachable_worker_is_waited_for() {
    assert_eq!(world().placed(&placement()).link("eu-1", AWAY).plan(), []);
    let other_cluster = Link::Live { identity: "id-of-another-cluster".into() };
    assert_eq!(
        world().placed(&placement().with_mirror("m1")).link("eu-1", other_cluster).plan(),
        [],
        "the same name is not the same cluster"
    );
}

#[test]
fn a_mirror_that_vanished_is_proved_absent_and_then_fails_the_workload() {
    let vanished = || world().placed(&placement()).vanished_on("eu-1", running());
    assert_eq!(vanished().plan(), [prove_absent()]);
    let plan = vanished().remembering(Memory { absent: Some(absent(1)), ..Memory::default() }).plan();
    let [Action::WriteStatus { status, .. }] = plan.as_slice() else { panic!("{plan:?}") };
    let failed = conditions::find(status.conditions.as_deref().unwrap(), "Failed").unwrap();
    assert_eq!(failed.reason.as_deref(), Some("MirrorDeleted"));
}

#[test]
fn a_proof_of_absence_from_before_the_mirror_was_recorded_says_nothing() {
    let recorded = placement().with_mirror("m1");
    let proved_before = Memory { absent: Some(absent(1)), ..Memory::default() };
    assert_eq!(world().placed(&recorded).remembering(proved_before).plan(), [prove_absent()]);
    let proved_since = Memory { absent: Some(Absence::proved_for(&recorded)), ..Memory::default() };
    let plan = world().placed(&recorded).remembering(proved_since).plan();
    assert!(matches!(plan[..], [Action::WriteStatus { .. }]), "{plan:?}");
}

#[test]
fn a_mirror_that_finished_and_vanished_before_we_looked_still_counts() {
    let plan = world().placed(&placement()).vanished_on("eu-1", complete()).plan();
    assert!(matches!(&plan[..], [Action::WriteStatus { status, .. }] if status.completion_time.is_some()), "{plan:?}");
}

#[test]
fn the_first_status_goes_out_at_once_with_the_mirrors_uid_and_progress_is_gathered() {
    let plan = world().placed(&placement()).mirror_on("eu-1", running()).plan();
    let [Action::WriteStatus { status, placement: Some(record) }] = plan.as_slice() else { panic!("{plan:?}") };
    assert_eq!((status.active, record.mirror.as_deref()), (Some(1), Some("m1")));

    let just_written = Memory { status_written: Some(NOW.monotonic), ..Memory::default() };
    let running = world().placed(&placement()).mirror_on("eu-1", running()).remembering(just_written.clone());
    assert_eq!(running.plan(), [Action::WakeAt(NOW.monotonic + STATUS_INTERVAL)]);
    let ended = world().placed(&placement()).mirror_on("eu-1", complete()).remembering(just_written);
    assert!(matches!(ended.plan()[..], [Action::WriteStatus { .. }]), "an end does not wait");
}

#[test]
fn successes_that_an_elastic_job_gave_up_are_told_at_once() {
    let elastic = json!({"managedBy": "jobferry.dev/dispatcher", "completionMode": "Indexed", "completions": 2, "parallelism": 2});
    let status = json!({"active": 2, "succeeded": 3, "completedIndexes": "2-4", "startTime": "2026-11-15T10:00:00Z"});
    let world = world().job("/spec", elastic).job("/status", status.clone()).job("/status/conditions", json!([]));
    let just_written = Memory { status_written: Some(NOW.monotonic), ..Memory::default() };
    let plan = world.placed(&placement()).mirror_on("eu-1", mirror(&status)).remembering(just_written).plan();
    assert!(matches!(&plan[..], [Action::WriteStatus { status, .. }] if status.succeeded.is_none()), "{plan:?}");
}

#[test]
fn a_dispatcher_whose_watch_is_slow_does_not_copy_what_another_one_has_overtaken() {
    let mut ahead = placement().with_mirror("m1");
    ahead.copied = Some(6);
    assert_eq!(world().placed(&ahead).mirror_on("eu-1", running()).plan(), []);
    let ended = world().placed(&ahead).mirror_on("eu-1", complete()).plan();
    assert!(matches!(ended[..], [Action::WriteStatus { .. }]), "an end counts even on a restored worker: {ended:?}");
}

#[test]
fn a_status_that_the_manager_refused_is_not_sent_again_as_it_was() {
    let refused = Memory { status_refused: Some("50".into()), ..Memory::default() };
    let world = || world().placed(&placement()).mirror_on("eu-1", running());
    assert_eq!(world().remembering(refused.clone()).plan(), []);
    let changed = world().job("/metadata/resourceVersion", json!("11")).remembering(refused).plan();
    assert!(matches!(changed[..], [Action::WriteStatus { .. }]), "{changed:?}");
}

#[test]
fn a_mirror_just_created_costs_no_write() {
    assert_eq!(world().placed(&placement()).mirror_on("eu-1", mirror(&json!({}))).plan(), []);
}

#[test]
fn a_stale_mirror_is_deleted_before_anything_is_created_and_a_newer_one_is_taken_over() {
    let second = || Placement::new("eu-2".into(), "id-2".into(), 2, NOW.wall);
    let plan = world().placed(&second()).mirror_on("eu-1", running()).plan();
    assert_eq!(plan, [delete_pods_first_on("eu-1")]);
    let newer = || Mirror { epoch: Some(3), ..running() };
    for worker in ["eu-1", "eu-2"] {
        // If the record that we see is old, this write conflicts; if not, the manager was restored.
        let plan = world().placed(&second()).mirror_on(worker, newer()).plan();
        let [Action::RecordPlacement(taken)] = plan.as_slice() else { panic!("{plan:?}") };
        assert_eq!((taken.worker.as_str(), taken.epoch, taken.mirror.as_deref()), (worker, 3, Some("m1")));
    }
    let away = world().placed(&second()).mirror_on("eu-1", newer()).link("eu-1", AWAY);
    assert_eq!(away.plan(), [], "what it has become there is not known");
}

#[test]
fn a_missing_record_is_recovered_from_the_mirror_and_never_placed_anew() {
    let plan = world().mirror_on("eu-2", running()).plan();
    assert!(
        matches!(&plan[..], [Action::RecordPlacement(p)] if p.worker == "eu-2" && p.mirror.as_deref() == Some("m1")),
        "{plan:?}"
    );
    assert_eq!(world().mirror_on("eu-2", running()).link("eu-2", AWAY).plan(), []);
}

#[test]
fn a_mirror_whose_mark_was_damaged_is_known_by_its_uid_and_never_deleted_for_it() {
    let damaged = || Mirror { epoch: None, ..running() };
    let plan = world().placed(&placement().with_mirror("m1")).mirror_on("eu-1", damaged()).plan();
    assert!(matches!(plan[..], [Action::WriteStatus { .. }]), "{plan:?}");
    let second = Placement::new("eu-1".into(), "id-1".into(), 2, NOW.wall);
    let adopted = Action::RecordPlacement(second.with_mirror("m1"));
    assert_eq!(world().placed(&second).mirror_on("eu-1", damaged()).plan(), [adopted]);
}

#[test]
fn a_stale_mirror_that_finished_after_all_ends_the_workload_instead_of_running_it_again() {
    let intent = placement().leaving(0, NOW.wall);
    let plan = world().placed(&intent).mirror_on("eu-1", complete()).plan();
    assert!(matches!(&plan[..], [Action::WriteStatus { status, .. }] if status.succeeded == Some(1)), "{plan:?}");
    let elsewhere = Placement::new("eu-2".into(), "id-2".into(), 2, NOW.wall);
    let plan = world().placed(&elsewhere).mirror_on("eu-1", complete()).plan();
    assert!(matches!(plan[..], [Action::WriteStatus { .. }]), "{plan:?}");
}

#[test]
fn a_workload_that_lost_its_record_is_not_placed_while_a_worker_is_out_of_sight() {
    let traces = || world().job("/metadata/labels", json!({"jobferry.dev/worker": "eu-1"}));
    let said =
        json!({"type": "jobferry.dev/Placed", "status": "True", "reason": "Placed", "message": "on worker eu-1"});
    assert_left_alone(&world().condition(said).link("eu-1", AWAY).plan(), "until every worker was seen");
    let ran = world().job("/status/startTime", json!("2026-11-15T10:00:00Z"));
    assert_left_alone(&ran.plan(), "is gone");
    let going = Mirror { deleting: true, ..running() };
    let plan = traces().mirror_on("eu-1", going).plan();
    assert!(
        matches!(&plan[..], [Action::RecordPlacement(p)] if p.worker == "eu-1"),
        "its pods may still run: {plan:?}"
    );
}

#[test]
fn a_label_that_came_with_a_copied_manifest_makes_it_wait_for_that_worker_only_and_says_so() {
    let copied = || world().job("/metadata/labels", json!({"jobferry.dev/worker": "eu-1"}));
    assert!(matches!(copied().plan()[..], [Action::RecordPlacement(_)]));
    let elsewhere = copied().link("eu-2", AWAY).plan();
    assert!(matches!(&elsewhere[..], [Action::RecordPlacement(p)] if p.worker == "eu-1"), "{elsewhere:?}");

    let plan = copied().link("eu-1", AWAY).plan();
    let [Action::Tell(told)] = plan.as_slice() else { panic!("a label is no alarm: {plan:?}") };
    assert!(told.message.contains("eu-1") && told.message.ends_with("remove it"), "{told:?}");
    assert!(!told.holds, "it would be a trace that is harder to get rid of than the label");
    let asked = |waiting_since| {
        copied().link("eu-1", Link::Connecting).remembering(Memory { waiting_since, ..Memory::default() }).plan()
    };
    assert_eq!(asked(None), [Action::WakeAt(NOW.monotonic + WAITING_INTERVAL)], "it will be known in a moment");
    let in_vain = asked(NOW.monotonic.checked_sub(WAITING_INTERVAL));
    assert!(matches!(in_vain[..], [Action::Tell(_)]), "{in_vain:?}");
    let held_back = copied().link("eu-1", AWAY).job("/spec/suspend", json!(true)).plan();
    assert!(matches!(held_back[..], [Action::WriteStatus { .. }]), "it goes nowhere anyway: {held_back:?}");
}

#[test]
fn once_the_mirror_is_there_nobody_says_any_more_that_it_was_refused() {
    let said = json!({"type": "jobferry.dev/Placed", "status": "False", "reason": "Refused", "message": "quota"});
    let plan = world().placed(&placement()).condition(said).mirror_on("eu-1", mirror(&json!({}))).plan();
    assert!(matches!(&plan[..], [Action::Tell(told)] if told.holds), "{plan:?}");
}

/// People are told, and nothing that they are told takes the last trace of a placement away.
fn assert_left_alone(plan: &[Action], what: &str) {
    let [Action::Alarm(Alarm::UnreadableRecord), Action::Tell(told)] = plan else { panic!("{plan:?}") };
    assert!(told.holds && told.message.contains(what), "{told:?}");
}

#[test]
fn two_dispatchers_that_see_different_things_contradict_each_other_once_a_minute_at_most() {
    let said = |at: &str| {
        let said = json!({"type": "jobferry.dev/Placed", "status": "False", "reason": "Refused", "message": "quota",
                          "lastTransitionTime": at});
        world().placed(&placement()).condition(said).mirror_on("eu-1", mirror(&json!({}))).plan()
    };
    let just_now = said(&NOW.wall.to_string());
    assert!(matches!(just_now[..], [Action::WakeAt(_)]), "{just_now:?}");
    let long_ago = said("2020-01-01T00:00:00Z");
    assert!(matches!(&long_ago[..], [Action::Tell(told)] if told.holds), "{long_ago:?}");
}

#[test]
fn pods_without_a_mirror_prove_that_there_was_one() {
    let memory = Memory { absent: Some(absent(1)), evidence: Some(1), ..Memory::default() };
    let plan = world().placed(&placement()).remembering(memory).plan();
    let [Action::WriteStatus { status, .. }] = plan.as_slice() else { panic!("{plan:?}") };
    assert!(conditions::is_true(status.conditions.as_deref().unwrap(), "Failed"));
}
