//! Kinds beside Jobs: a worker has shown its mirrors of one kind, and not yet those of another.

use std::sync::Arc;

use super::*;
use jobferry_core::{custom::read_workload, kind::Table, placement::KindLink};

fn job_sets() -> KindRef {
    let table = Table::built_in().unwrap();
    let [(_, kind)] = table.called("JobSet")[..] else { panic!("no JobSets") };
    KindRef::Custom(Arc::new(kind.clone()))
}

fn job_set(kind: &KindRef, uid: &str) -> Workload {
    let KindRef::Custom(kind) = kind else { panic!("a Job") };
    let object = json!({
        "metadata": {"namespace": "ml", "name": uid, "uid": uid, "resourceVersion": "1"},
        "spec": {"managedBy": "jobferry.dev/dispatcher", "replicatedJobs": []},
    });
    read_workload(kind, &object, NOW.wall).unwrap()
}

fn show(index: &Index, worker: &str, kind: &KindRef, link: KindLink) -> Vec<Uid> {
    index.change_worker(worker, |view| drop(view.kinds.insert(kind.name(), link)))
}

/// Two live workers, a Job and a JobSet that want to be placed.
fn index_of_both(kind: &KindRef) -> Index {
    let index = index(&["eu-1", "us-1"]);
    index.apply_workload(workload("job", 1));
    index.begin_first_look(kind);
    index.reset_workloads(kind, vec![job_set(kind, "set").into()]);
    index
}

fn is_placed(index: &Index, uid: &str) -> bool {
    matches!(plan_of(index, uid).actions[..], [Action::RecordPlacement(_)])
}

#[test]
fn nothing_of_a_kind_is_placed_before_the_workers_were_asked_for_it_once() {
    let kind = job_sets();
    let index = index_of_both(&kind);
    show(&index, "eu-1", &kind, KindLink::Listed);
    assert!(is_placed(&index, "job"), "Jobs were asked for");
    assert!(!is_placed(&index, "set"), "us-1 may have its mirror, and tell of a restore");
    for answer in [KindLink::Listed, KindLink::Unlisted, KindLink::Missing { why: "none".into() }] {
        let index = index_of_both(&kind);
        show(&index, "eu-1", &kind, KindLink::Listed);
        plan_of(&index, "set");
        let woken = show(&index, "us-1", &kind, answer.clone());
        assert!(woken.contains(&"set".to_owned()), "{answer:?}: {woken:?}");
        assert!(is_placed(&index, "set"), "{answer:?}");
        // A later connection asks anew, and nobody waits for that.
        index.change_worker("us-1", |worker| worker.kinds.clear());
        assert!(is_placed(&index, "set"), "{answer:?}");
    }
    plan_of(&index, "set");
    assert!(index.end_first_look(&kind).contains(&"set".to_owned()), "nor is one waited for that does not answer");
    assert!(is_placed(&index, "set"));
}

#[test]
fn after_a_restore_a_worker_counts_as_seen_kind_by_kind() {
    let kind = job_sets();
    let index = index_of_both(&kind);
    show(&index, "eu-1", &kind, KindLink::Listed);
    index.end_first_look(&kind);
    index.find_restored("ml/train".into());
    assert!(is_placed(&index, "job"), "every worker has shown its Jobs");
    let halted = |words: &str| {
        let plan = plan_of(&index, "set").actions;
        let told = matches!(&plan[..], [Action::Tell(told)] if told.message.ends_with(words));
        assert!(told && index.survey().halted, "{plan:?}");
    };
    halted("and us-1 has not shown its mirrors of this kind");
    show(&index, "us-1", &kind, KindLink::Forbidden { why: "does not let us watch this kind".into() });
    halted("and us-1 does not let us watch this kind");
    assert!(show(&index, "us-1", &kind, KindLink::Missing { why: "none".into() }).contains(&"set".to_owned()));
    assert!(is_placed(&index, "set") && !index.survey().halted);
    index.change_worker("us-1", |worker| worker.kinds.clear());
    assert!(is_placed(&index, "set"), "it was seen");
}
