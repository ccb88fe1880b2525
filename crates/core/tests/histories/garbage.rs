//! Mirrors that say anything at all: what a broken, foreign or hostile worker could write.

use job_api::conditions;
use jobferry_core::{
    project::{fail, project},
    record::Carried,
};
use k8s_openapi::{
    api::batch::v1::{JobCondition, JobStatus},
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::Timestamp,
};
use proptest::{collection::vec, option, prelude::*, sample::select};
use serde_json::{Value, json};

use crate::{
    deterministic,
    story::{SERVERS, rules, spec},
    support::server::Server,
};

fn now() -> Timestamp {
    "2026-11-15T12:00:00.5Z".parse().unwrap()
}

fn time() -> impl Strategy<Value = Time> {
    (-100_000i64..100_000, 0..1_000_000_000)
        .prop_map(|(seconds, nanos)| Time(Timestamp::new(now().as_second() + seconds, nanos).unwrap()))
}

fn condition() -> impl Strategy<Value = JobCondition> {
    let types = ["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet", "Suspended", "Other"];
    let word = || option::of(select(vec!["", "BackoffLimitExceeded", "JobSuspended"]));
    (select(types.to_vec()), select(vec!["True", "False", "Unknown", ""]), word(), word(), option::of(time())).prop_map(
        |(type_, status, reason, message, at)| JobCondition {
            type_: type_.into(),
            status: status.into(),
            reason: reason.map(Into::into),
            message: message.map(Into::into),
            last_probe_time: None,
            last_transition_time: at,
        },
    )
}

fn mirror() -> impl Strategy<Value = JobStatus> {
    let count = || option::of(select(vec![i32::MIN, -1, 0, 1, 2, 5, i32::MAX]));
    let indexes =
        || option::of(select(vec!["", "0", "0-2,4", "1,2,3", "7", "3-1", "a", "0-4294967296", "0-2147483646"]));
    let counts = (count(), count(), count(), count(), count());
    (counts, indexes(), indexes(), option::of(time()), option::of(time()), vec(condition(), 0..4)).prop_map(
        |((active, ready, terminating, succeeded, failed), completed, failed_indexes, start, end, conditions)| {
            JobStatus {
                active,
                ready,
                terminating,
                succeeded,
                failed,
                completed_indexes: completed.map(Into::into),
                failed_indexes: failed_indexes.map(Into::into),
                start_time: start,
                completion_time: end,
                conditions: Some(conditions),
                uncounted_terminated_pods: None,
            }
        },
    )
}

fn suspend() -> impl Strategy<Value = Value> {
    select(vec![json!(null), json!(false), json!(true)])
}

#[test]
fn whatever_a_worker_says_the_status_stays_legal_and_settles_after_one_write() {
    let looks = vec((mirror(), suspend(), 0..3i32), 1..12);
    deterministic(4000)
        .run(&(spec(), select(SERVERS.to_vec()), looks), |(spec, server, looks)| {
            let rules = rules(server);
            let mut manager = Server::new(&spec, &json!({}), rules);
            for (mirror, suspend, failed) in looks {
                manager.edit(|job| job["spec"]["suspend"] = suspend);
                let read = manager.workload().clone();
                let carried = Carried { failed };
                let next = project(&read.spec, &read.status, &mirror, carried, rules, now()).unwrap();
                if let Some(next) = &next {
                    prop_assert_eq!(manager.write(&read, next), Ok(()));
                }
                let after = manager.workload();
                let again = project(&after.spec, &after.status, &mirror, carried, rules, now()).unwrap();
                prop_assert_eq!(again, None, "written twice");
                let ended = conditions::is_finished(mirror.conditions.as_deref().unwrap_or_default());
                prop_assert_eq!(after.is_finished(), ended || read.is_finished());
                if let Some(failed) = fail(&after.status, "WorkerLost", "", now()) {
                    let read = after.clone();
                    prop_assert_eq!(manager.clone().write(&read, &failed), Ok(()));
                }
            }
            Ok(())
        })
        .unwrap();
}
