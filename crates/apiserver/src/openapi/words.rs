//! What `kubectl explain` says about built-in kinds, in our own words. Custom resources bring theirs along.

use std::collections::HashMap;
use std::sync::LazyLock;

/// A line names a type and describes it; the indented lines below do so with its fields.
const TEXT: &str = include_str!("../../schema/descriptions.txt");

static WORDS: LazyLock<HashMap<(&str, &str), &str>> = LazyLock::new(|| {
    let mut words = HashMap::new();
    let mut owner = "";
    for line in TEXT.lines() {
        let (name, text) = line.trim_start().split_once(' ').unwrap_or_default();
        if line.starts_with(' ') {
            words.insert((owner, name), text);
        } else {
            owner = name;
            words.insert((owner, ""), text);
        }
    }
    words
});

/// What a type is.
pub(super) fn of_type(go_name: &str) -> Option<&'static str> {
    of_field(go_name, "")
}

/// What a field of it means.
pub(super) fn of_field(go_name: &str, field: &str) -> Option<&'static str> {
    WORDS.get(&(go_name, field)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Shape, built_in};

    #[test]
    fn every_description_belongs_to_something() {
        for (owner, field) in WORDS.keys().filter(|(_, field)| !field.is_empty()) {
            assert!(built_in(owner).field(field).is_some(), "{owner} has no {field}");
        }
    }

    #[test]
    fn every_field_of_a_job_is_described() {
        for owner in ["batch.v1.JobSpec", "batch.v1.JobStatus", "batch.v1.JobCondition"] {
            let Shape::Object(object) = &built_in(owner).shape else { panic!("{owner}") };
            for field in object.fields.keys() {
                assert!(of_field(owner, field).is_some(), "{owner}.{field}");
            }
        }
    }
}
