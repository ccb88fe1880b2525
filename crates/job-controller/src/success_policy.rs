//! Whether the indexes that succeeded suffice.

use job_api::IndexSet;
use k8s_openapi::api::batch::v1::SuccessPolicy;

/// The position of the first rule that is met: all of its indexes succeeded, or as many of them as it asks for.
pub(crate) fn met(policy: &SuccessPolicy, completed: &IndexSet) -> Option<usize> {
    if completed.is_empty() {
        return None;
    }
    policy.rules.iter().position(|rule| {
        let enough = |found: u64| rule.succeeded_count.and_then(|n| u64::try_from(n).ok()).is_some_and(|n| found >= n);
        match &rule.succeeded_indexes {
            None => enough(completed.len()),
            Some(text) => {
                let wanted = IndexSet::parse(text, i32::MAX).unwrap_or_default();
                let found = wanted.intersect(completed).len();
                !wanted.is_empty() && (found == wanted.len() || enough(found))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::batch::v1::SuccessPolicyRule;

    use super::*;

    #[test]
    fn a_rule_is_met_by_all_of_its_indexes_or_by_enough_of_them() {
        let rule = |indexes: Option<&str>, count: Option<i32>| SuccessPolicyRule {
            succeeded_indexes: indexes.map(str::to_owned),
            succeeded_count: count,
        };
        for (rules, completed, expected) in [
            (vec![rule(Some("0"), None)], "0", Some(0)),
            (vec![rule(Some("0"), None)], "1-5", None),
            (vec![rule(Some("0-3"), Some(2))], "1,3", Some(0)),
            (vec![rule(Some("0-3"), Some(2))], "3-9", None),
            (vec![rule(None, Some(3))], "1,4,7", Some(0)),
            (vec![rule(None, Some(3))], "1,4", None),
            (vec![rule(Some("9"), None), rule(None, Some(1))], "0", Some(1)),
            (vec![rule(None, Some(0))], "", None),
        ] {
            let completed = IndexSet::parse(completed, 10).unwrap();
            assert_eq!(
                met(&SuccessPolicy { rules: rules.clone() }, &completed),
                expected,
                "{rules:?} with {completed}"
            );
        }
    }
}
