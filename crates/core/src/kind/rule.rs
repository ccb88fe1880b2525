//! Questions to an object, and fields that are meant only of some objects.

use job_api::conditions::whole_seconds;
use jobferry_api as api;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::{Path, check::Checked};

/// A question to an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    path: Path,
    expected: Expected,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Expected {
    /// One of the values there is one of these.
    Is(Vec<String>),
    /// None of the values there is.
    IsNot(Vec<String>),
    /// There is a value, or there is none.
    Exists(bool),
}

impl Test {
    pub(super) fn read(checked: &mut Checked, field: &str, test: &api::Test) -> Option<Self> {
        let path = checked.path(&format!("{field}.path"), &test.path);
        let expected = match (&test.is, &test.is_not, test.exists) {
            (Some(values), None, None) => Expected::Is(values.clone()),
            (None, Some(values), None) => Expected::IsNot(values.clone()),
            (None, None, Some(exists)) => Expected::Exists(exists),
            _ => {
                checked.wrong(field, "a test asks exactly one of is, isNot and exists");
                return None;
            }
        };
        Some(Self { path: path?, expected })
    }

    /// Where it looks.
    pub const fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a status for which it holds, as far as one can tell how. A condition gets the reason and the time.
    pub(super) fn make_true(&self, object: &mut Value, reason: &str, message: &str, now: Timestamp) {
        if self.holds(object) {
            return;
        }
        let wanted = match &self.expected {
            Expected::Is(values) => values.first().map(String::as_str),
            // A condition without its status would not be one.
            Expected::IsNot(values) if self.path.beside_in_item("status").as_ref() == Some(&self.path) => {
                ["False", "Unknown", "True"].into_iter().find(|status| values.iter().all(|value| value != status))
            }
            Expected::IsNot(_) | Expected::Exists(false) => return self.path.remove(object),
            Expected::Exists(true) => None,
        };
        let Some(value) = wanted else { return };
        self.path.make(object, value.into());
        for (field, text) in
            [("reason", reason), ("message", message), ("lastTransitionTime", &whole_seconds(now).to_string())]
        {
            // What is tested stays as it was made.
            if let Some(path) = self.path.beside_in_item(field).filter(|path| *path != self.path) {
                path.make(object, text.into());
            }
        }
    }

    /// Whether it holds for this object.
    pub fn holds(&self, object: &Value) -> bool {
        let found = self.path.find(object);
        let among = |values: &[String]| found.iter().any(|(_, value)| values.iter().any(|text| says(value, text)));
        match &self.expected {
            Expected::Is(values) => among(values),
            Expected::IsNot(values) => !among(values),
            Expected::Exists(exists) => *exists != found.is_empty(),
        }
    }
}

/// Rules are texts; a field may be a boolean or a number.
fn says(value: &Value, text: &str) -> bool {
    match value {
        Value::String(value) => value == text,
        Value::Bool(value) => text == if *value { "true" } else { "false" },
        Value::Number(value) => text.parse().is_ok_and(|wanted: serde_json::Number| wanted == *value),
        _ => false,
    }
}

impl std::fmt::Display for Test {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.expected {
            Expected::Is(values) => write!(f, "{} is {}", self.path, values.join(" or ")),
            Expected::IsNot(values) => write!(f, "{} is not {}", self.path, values.join(" or ")),
            Expected::Exists(true) => write!(f, "{} is set", self.path),
            Expected::Exists(false) => write!(f, "{} is not set", self.path),
        }
    }
}

/// A field that is meant only of objects for which all tests hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Where it is.
    pub path: Path,
    /// Which objects are meant.
    pub when: Vec<Test>,
}

impl Field {
    pub(super) fn read(checked: &mut Checked, field: &str, rule: &api::Field) -> Option<Self> {
        let path = checked.path(&format!("{field}.path"), &rule.path);
        let when = tests(checked, &format!("{field}.when"), &rule.when);
        Some(Self { path: path?, when })
    }

    /// Whether it is meant of this object.
    pub fn applies(&self, object: &Value) -> bool {
        self.when.iter().all(|test| test.holds(object))
    }
}

impl std::fmt::Display for Field {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.path)?;
        if self.when.is_empty() {
            return Ok(());
        }
        write!(f, " (when {})", all(&self.when))
    }
}

/// Tests in words.
pub fn all(tests: &[Test]) -> String {
    tests.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}

pub(super) fn tests(checked: &mut Checked, field: &str, list: &[api::Test]) -> Vec<Test> {
    let read = |(index, test)| Test::read(checked, &format!("{field}[{index}]"), test);
    list.iter().enumerate().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn test(rule: Value) -> Test {
        let mut checked = Checked::default();
        Test::read(&mut checked, "t", &serde_json::from_value(rule).unwrap()).unwrap()
    }

    #[test]
    fn a_test_looks_at_every_value_of_its_path() {
        let object = json!({
            "spec": {"suspend": true, "size": 3, "empty": null},
            "status": {"conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "False"}]},
        });
        for (rule, holds) in [
            (json!({"path": "spec.suspend", "is": ["true"]}), true),
            (json!({"path": "spec.size", "is": ["2", "3"]}), true),
            (json!({"path": "spec.size", "isNot": ["3"]}), false),
            (json!({"path": "spec.absent", "is": ["x"]}), false),
            (json!({"path": "spec.absent", "isNot": ["x"]}), true),
            (json!({"path": "spec.absent", "exists": false}), true),
            (json!({"path": "spec.empty", "exists": true}), false),
            (json!({"path": "status.conditions[type=A].status", "is": ["True"]}), true),
            (json!({"path": "status.conditions[type=B].status", "is": ["True"]}), false),
            (json!({"path": "status.conditions[*].status", "is": ["False"]}), true),
            (json!({"path": "status.conditions", "is": ["x"]}), false),
        ] {
            assert_eq!(test(rule.clone()).holds(&object), holds, "{rule}");
        }
    }

    #[test]
    fn a_test_that_asks_nothing_or_twice_is_wrong() {
        for rule in [json!({"path": "spec.a"}), json!({"path": "spec.a", "is": ["x"], "exists": true})] {
            let mut checked = Checked::default();
            assert_eq!(Test::read(&mut checked, "when[0]", &serde_json::from_value(rule).unwrap()), None);
            assert_eq!(checked.problems()[0].to_string(), "when[0]: a test asks exactly one of is, isNot and exists");
        }
    }
}
