//! Labels of Workers, as people give them: checked before anything is asked of a cluster.

use std::{collections::BTreeMap, str::FromStr};

use serde_json::Value;

/// What a name part or a value may be at most.
const MAX_CHARACTERS: usize = 63;

/// `KEY=VALUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Label {
    key: String,
    value: String,
}

impl Label {
    /// Labels as they stand in an object.
    pub(crate) fn object(labels: &[Self]) -> Value {
        labels.iter().map(|label| (label.key.clone(), Value::from(label.value.as_str()))).collect()
    }
}

impl FromStr for Label {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
        let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
        check(&key, &value)?;
        Ok(Self { key, value })
    }
}

/// The labels of a file.
pub(crate) fn check_all(labels: &BTreeMap<String, String>) -> Result<(), String> {
    labels.iter().try_for_each(|(key, value)| check(key, value))
}

fn check(key: &str, value: &str) -> Result<(), String> {
    let (prefix, name) = key.rsplit_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    if !is_word(name) || !prefix.is_none_or(is_domain) {
        return Err(format!("`{key}` cannot be the key of a label; write for example region or example.com/region"));
    }
    if !value.is_empty() && !is_word(value) {
        return Err(format!("`{value}` cannot be the value of a label: at most 63 letters, digits, `-`, `_` and `.`"));
    }
    Ok(())
}

fn is_word(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    text.len() <= MAX_CHARACTERS && edge(text.chars().next()) && edge(text.chars().last()) && text.chars().all(inner)
}

fn is_domain(text: &str) -> bool {
    text.split('.').all(|part| is_word(part) && !part.contains(|c: char| c == '_' || c.is_ascii_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_what_an_api_server_takes() {
        for (text, good) in [
            ("region=eu", true),
            ("example.com/gpu=A100_80.1", true),
            ("spot=", true),
            ("region", false),
            ("=eu", false),
            ("a b=eu", false),
            ("region=e u", false),
            ("region=-eu", false),
            ("Example.com/region=eu", false),
            ("/region=eu", false),
        ] {
            assert_eq!(text.parse::<Label>().is_ok(), good, "{text}");
        }
        assert!(format!("region={}", "a".repeat(64)).parse::<Label>().is_err());
    }
}
