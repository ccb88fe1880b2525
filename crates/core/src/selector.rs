//! Label selectors, in kubectl's notation (`region=eu,gpu!=none,tier in (a,b),spot,!old`) and as objects.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// A parsed selector. All requirements must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Missing(String),
}

/// Why a selector cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{part}` is not a requirement; write `key=value`, `key!=value`, `key in (a,b)`, `key notin (a,b)`, `key` or `!key`"
)]
pub struct SelectorError {
    part: String,
}

impl Selector {
    /// Parses kubectl's notation. The empty text selects everything.
    ///
    /// ```
    /// # use jobferry_core::selector::Selector;
    /// let selector = Selector::parse("region=eu, price in (low,mid)")?;
    /// assert!(selector.matches(&[("region".into(), "eu".into()), ("price".into(), "low".into())].into()));
    /// # Ok::<(), jobferry_core::selector::SelectorError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        split_outside_parentheses(text)
            .into_iter()
            .map(|part| requirement(part.trim()))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Reads the form that objects use.
    pub fn from_labels(selector: &LabelSelector) -> Result<Self, SelectorError> {
        let equal = selector.match_labels.iter().flatten();
        let mut all: Vec<_> = equal.map(|(key, value)| Requirement::In(key.clone(), vec![value.clone()])).collect();
        for expression in selector.match_expressions.iter().flatten() {
            let (key, values) = (expression.key.clone(), expression.values.clone().unwrap_or_default());
            all.push(match expression.operator.as_str() {
                "In" => Requirement::In(key, values),
                "NotIn" => Requirement::NotIn(key, values),
                "Exists" => Requirement::Exists(key),
                "DoesNotExist" => Requirement::Missing(key),
                other => return Err(SelectorError { part: format!("{key} {other}") }),
            });
        }
        Ok(Self(all))
    }

    /// Whether these labels satisfy every requirement.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|requirement| match requirement {
            Requirement::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            Requirement::NotIn(key, values) => labels.get(key).is_none_or(|value| !values.contains(value)),
            Requirement::Exists(key) => labels.contains_key(key),
            Requirement::Missing(key) => !labels.contains_key(key),
        })
    }
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut depth) = (0, 0_u32);
    for (at, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !(parts.is_empty() && text[start..].trim().is_empty()) {
        parts.push(&text[start..]);
    }
    parts
}

fn requirement(part: &str) -> Result<Requirement, SelectorError> {
    let error = || SelectorError { part: part.to_owned() };
    let key = |text: &str| {
        let text = text.trim();
        let legal = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
        legal.then(|| text.to_owned()).ok_or_else(error)
    };
    let value = |text: &str| {
        let text = text.trim();
        let legal = text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        legal.then(|| text.to_owned()).ok_or_else(error)
    };
    let set = |text: &str| -> Result<Vec<String>, SelectorError> {
        let inner = text.trim().strip_prefix('(').and_then(|t| t.strip_suffix(')')).ok_or_else(error)?;
        inner.split(',').map(value).collect()
    };
    if let Some((left, right)) = part.split_once(" notin ") {
        return Ok(Requirement::NotIn(key(left)?, set(right)?));
    }
    if let Some((left, right)) = part.split_once(" in ") {
        return Ok(Requirement::In(key(left)?, set(right)?));
    }
    if let Some((left, right)) = part.split_once("!=") {
        return Ok(Requirement::NotIn(key(left)?, vec![value(right)?]));
    }
    if let Some((left, right)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Ok(Requirement::In(key(left)?, vec![value(right)?]));
    }
    match part.strip_prefix('!') {
        Some(rest) => Ok(Requirement::Missing(key(rest)?)),
        None => Ok(Requirement::Exists(key(part)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operator_selects_what_kubectl_would() {
        let labels: BTreeMap<String, String> = [("region".into(), "eu".into()), ("gpu".into(), "a100".into())].into();
        for (text, selected) in [
            ("", true),
            ("region=eu", true),
            ("region==eu", true),
            ("region=us", false),
            ("region!=us", true),
            ("price!=low", true),
            ("region in (us, eu)", true),
            ("region in (us)", false),
            ("gpu notin (a100,h100)", false),
            ("price notin (low)", true),
            ("gpu", true),
            ("price", false),
            ("!price", true),
            ("!gpu", false),
            ("region=eu,gpu in (a100,h100),!price", true),
            ("region=eu,price", false),
        ] {
            assert_eq!(Selector::parse(text).unwrap().matches(&labels), selected, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_an_error_that_names_the_part() {
        for text in ["region=eu,", "=eu", "region in eu", "region in (eu", "a b", "a=b=c", "!"] {
            assert!(Selector::parse(text).is_err(), "{text}");
        }
        let message = Selector::parse("region=eu,gpu in a100").unwrap_err().to_string();
        assert!(message.starts_with("`gpu in a100` is not a requirement"), "{message}");
    }
}
