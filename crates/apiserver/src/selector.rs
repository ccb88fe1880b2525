//! Label and field selectors: parsing what a query says, and judging objects by it.

use std::collections::BTreeMap;

/// Labels as an object carries them.
pub(crate) type Labels = BTreeMap<String, String>;

/// A conjunction of label requirements. The empty selector matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
    Greater(String, i64),
    Less(String, i64),
}

impl LabelSelector {
    /// Parses kubectl's notation: `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut requirements = Vec::new();
        for part in split_outside_parentheses(text) {
            let part = part.trim();
            if !part.is_empty() {
                requirements.push(requirement(part)?);
            } else if !text.trim().is_empty() {
                return Err(format!("unable to parse requirement: found '', expected: identifier in {text:?}"));
            }
        }
        Ok(Self(requirements))
    }

    pub(crate) fn matches(&self, labels: &Labels) -> bool {
        self.0.iter().all(|requirement| requirement.holds(labels))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Requirement {
    fn holds(&self, labels: &Labels) -> bool {
        let number = |key: &String| labels.get(key).and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            Self::NotIn(key, values) => labels.get(key).is_none_or(|value| !values.contains(value)),
            Self::Exists(key) => labels.contains_key(key),
            Self::Absent(key) => !labels.contains_key(key),
            Self::Greater(key, limit) => number(key).is_some_and(|value| value > *limit),
            Self::Less(key, limit) => number(key).is_some_and(|value| value < *limit),
        }
    }
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_u32, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn requirement(part: &str) -> Result<Requirement, String> {
    if let Some(key) = part.strip_prefix('!') {
        return Ok(Requirement::Absent(label_key(key)?));
    }
    for (operator, negated) in [("!=", true), ("==", false), ("=", false)] {
        if let Some((key, value)) = part.split_once(operator) {
            let (key, values) = (label_key(key)?, vec![label_value(value)?]);
            return Ok(if negated { Requirement::NotIn(key, values) } else { Requirement::In(key, values) });
        }
    }
    for operator in ['>', '<'] {
        if let Some((key, value)) = part.split_once(operator) {
            let limit = value.trim().parse().map_err(|_| {
                format!(
                    "values[0][{}]: Invalid value: {:?}: for 'Gt', 'Lt' operators, the value must be an integer",
                    key.trim(),
                    value.trim()
                )
            })?;
            let key = label_key(key)?;
            return Ok(if operator == '>' { Requirement::Greater(key, limit) } else { Requirement::Less(key, limit) });
        }
    }
    let mut words = part.splitn(2, char::is_whitespace);
    let (key, rest) = (words.next().unwrap_or_default(), words.next().unwrap_or_default().trim());
    if rest.is_empty() {
        return Ok(Requirement::Exists(label_key(key)?));
    }
    let (negated, list) = match (rest.strip_prefix("in"), rest.strip_prefix("notin")) {
        (_, Some(list)) => (true, list),
        (Some(list), None) => (false, list),
        _ => {
            return Err(format!("unable to parse requirement: found {rest:?}, expected: in, notin, =, ==, !=, gt, lt"));
        }
    };
    let list = list.trim();
    let inner = list
        .strip_prefix('(')
        .and_then(|list| list.strip_suffix(')'))
        .ok_or_else(|| format!("unable to parse requirement: found {list:?}, expected: '('"))?;
    let values = inner.split(',').map(label_value).collect::<Result<_, _>>()?;
    let key = label_key(key)?;
    Ok(if negated { Requirement::NotIn(key, values) } else { Requirement::In(key, values) })
}

fn label_key(key: &str) -> Result<String, String> {
    let key = key.trim();
    match crate::names::qualified_name(key) {
        Ok(()) => Ok(key.to_owned()),
        Err(why) => Err(format!("unable to parse requirement: <nil>: Invalid value: {key:?}: {why}")),
    }
}

fn label_value(value: &str) -> Result<String, String> {
    let value = value.trim();
    match crate::names::label_value(value) {
        Ok(()) => Ok(value.to_owned()),
        Err(why) => Err(format!("unable to parse requirement: values[0]: Invalid value: {value:?}: {why}")),
    }
}

/// A conjunction of `field=value` and `field!=value`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector(Vec<FieldTerm>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct FieldTerm {
    field: String,
    value: String,
    equal: bool,
}

impl FieldSelector {
    /// `known` says whether the resource may be selected by a field.
    pub(crate) fn parse(text: &str, known: impl Fn(&str) -> bool) -> Result<Self, String> {
        let mut terms = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (field, value, equal) = part
                .split_once("!=")
                .map(|(field, value)| (field, value, false))
                .or_else(|| part.split_once("==").map(|(field, value)| (field, value, true)))
                .or_else(|| part.split_once('=').map(|(field, value)| (field, value, true)))
                .ok_or_else(|| format!("invalid selector: '{part}'; can't understand '{part}'"))?;
            if !known(field) {
                return Err(format!("field label not supported: {field}"));
            }
            terms.push(FieldTerm { field: field.to_owned(), value: value.to_owned(), equal });
        }
        Ok(Self(terms))
    }

    /// `value_of` reads a field of the object at hand; absent reads as the empty string.
    pub(crate) fn matches(&self, value_of: impl Fn(&str) -> String) -> bool {
        self.0.iter().all(|term| (value_of(&term.field) == term.value) == term.equal)
    }

    /// The one name this selects, which lets a list skip everything else.
    pub(crate) fn exact_name(&self) -> Option<&str> {
        self.0.iter().find(|term| term.equal && term.field == "metadata.name").map(|term| term.value.as_str())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_selectors_judge_as_kubectl_users_expect() {
        let labels: Labels =
            [("app", "web"), ("tier", "front"), ("n", "5")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        let cases = [
            ("", true),
            ("app=web", true),
            ("app==web,tier=front", true),
            ("app!=web", false),
            ("missing!=x", true),
            ("app in (api, web)", true),
            ("app notin (api,web)", false),
            ("missing notin (a)", true),
            ("app", true),
            ("!app", false),
            ("!missing", true),
            ("n>4", true),
            ("n<5", false),
        ];
        for (text, expected) in cases {
            assert_eq!(LabelSelector::parse(text).unwrap().matches(&labels), expected, "{text}");
        }
    }

    #[test]
    fn malformed_selectors_are_refused() {
        for text in ["a b c", "app in web", "=x", "a=b,,c", "a/b/c=d", "app in (a", "n>x", "a=$$"] {
            assert!(LabelSelector::parse(text).is_err(), "{text}");
        }
        assert!(FieldSelector::parse("spec.colour=red", |_| false).is_err());
        assert!(FieldSelector::parse("metadata.name", |_| true).is_err());
    }
}
