//! Properties that hold for all values.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use job_api::{IndexSet, Rules, SpecView, conditions, managed_by, status};
use k8s_openapi::api::batch::v1::{JobCondition, JobStatus, UncountedTerminatedPods};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use proptest::collection::{btree_set, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const COMPLETIONS: u32 = 60;
const TYPES: [&str; 6] = ["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet", "Suspended", "example.com/Own"];

fn indexes() -> impl Strategy<Value = BTreeSet<u32>> {
    btree_set(0..COMPLETIONS, 0..40)
}

fn set(indexes: &BTreeSet<u32>) -> IndexSet {
    indexes.iter().copied().collect()
}

fn time() -> impl Strategy<Value = Option<Time>> {
    of((0..4_i64).prop_map(|hour| Time(Timestamp::from_second(hour * 3600).unwrap())))
}

fn condition() -> impl Strategy<Value = JobCondition> {
    (prop::sample::select(&TYPES), prop::sample::select(&["True", "False"])).prop_map(|(type_, status)| JobCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        ..JobCondition::default()
    })
}

prop_compose! {
    fn any_status()(
        counters in (of(0..3_i32), of(0..3_i32), of(0..3_i32), of(0..3_i32), of(0..2_i32)),
        (start_time, completion_time) in (time(), time()),
        completed in of(indexes()),
        failed in of(indexes()),
        uncounted in of(vec("[ab]?", 0..3)),
        conditions in of(vec(condition(), 0..4)),
    ) -> JobStatus {
        let (active, succeeded, failed_count, ready, terminating) = counters;
        JobStatus {
            active, succeeded, failed: failed_count, ready, terminating, start_time, completion_time,
            completed_indexes: completed.map(|indexes| set(&indexes).to_string()),
            failed_indexes: failed.map(|indexes| set(&indexes).to_string()),
            uncounted_terminated_pods: uncounted.map(|uids| UncountedTerminatedPods { failed: Some(uids), succeeded: None }),
            conditions,
        }
    }
}

prop_compose! {
    fn any_spec()(
        completions in of(0..70_i32),
        parallelism in of(0..70_i32),
        flags in (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()),
    ) -> SpecView {
        let (indexed, suspended, has_backoff_limit_per_index, has_success_policy) = flags;
        SpecView {
            completions,
            parallelism,
            indexed,
            suspended,
            has_backoff_limit_per_index,
            has_success_policy,
            ..SpecView::default()
        }
    }
}

fn any_rules() -> impl Strategy<Value = Rules> {
    (30..40_u32, of(0..12_u32)).prop_map(|(minor, patch)| Rules::for_server(1, minor, patch))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_is_formatted_is_read_back(indexes in indexes()) {
        let set = set(&indexes);
        prop_assert_eq!(IndexSet::parse(&set.to_string(), 60), Ok(set.clone()));
        prop_assert_eq!(set.len(), indexes.len() as u64);
    }

    #[test]
    fn sets_of_ranges_behave_like_sets_of_numbers(a in indexes(), b in indexes(), bound in 0..70_u32) {
        let (left, right) = (set(&a), set(&b));
        prop_assert_eq!(&left.iter().collect::<BTreeSet<_>>(), &a);
        prop_assert_eq!(left.union(&right), set(&(&a | &b)));
        prop_assert_eq!(left.subtract(&right), set(&(&a - &b)));
        prop_assert_eq!(left.intersect(&right), set(&(&a & &b)));
        prop_assert_eq!(left.clip(bound), a.iter().copied().filter(|index| *index < bound).collect());
        for index in 0..COMPLETIONS {
            prop_assert_eq!(left.contains(index), a.contains(&index));
        }
        let mut grown = left;
        for index in &b {
            grown.insert(*index);
        }
        prop_assert_eq!(grown, set(&(&a | &b)));
    }

    #[test]
    fn ranges_never_touch(a in indexes(), b in indexes()) {
        let union = set(&a).union(&set(&b));
        prop_assert!(union.ranges().windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
    }

    #[test]
    fn a_legal_status_stays_legal_when_it_is_written_again(
        spec in any_spec(), old in any_status(), new in any_status(), rules in any_rules(),
    ) {
        if status::validate(&spec, &old, &new, rules).is_empty() {
            prop_assert!(status::validate(&spec, &new, &new, rules).is_empty());
        }
    }

    #[test]
    fn nothing_is_taken_back_from_a_finished_job(
        spec in any_spec(), old in any_status(), new in any_status(), rules in any_rules(),
    ) {
        let finished = |status: &JobStatus| conditions::is_finished(status.conditions.as_deref().unwrap_or_default());
        if finished(&old) && status::validate(&spec, &old, &new, rules).is_empty() {
            prop_assert!(finished(&new));
        }
    }

    #[test]
    fn any_text_is_parsed_or_refused(text in ".{0,80}", completions in any::<i32>()) {
        if let Ok(set) = IndexSet::parse(&text, completions) {
            prop_assert!(set.iter().take(1000).all(|index| i64::from(index) < i64::from(completions)));
        }
        let _ = managed_by::validate(&text);
    }

    #[test]
    fn texts_made_of_digits_and_separators_too(text in "[0-9,+-]{0,12}") {
        if let Ok(set) = IndexSet::parse(&text, 1000) {
            prop_assert_eq!(IndexSet::parse(&set.to_string(), 1000), Ok(set));
        }
    }
}
