//! Sets of field paths, as `managedFields` spells them (`FieldsV1`).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Element {
    Field(String),
    /// An element of a list map, by its keys as JSON texts.
    Key(BTreeMap<String, String>),
    /// An element of a set, as a JSON text.
    Value(String),
}

/// A set of paths: a tree whose nodes know whether they are in the set themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FieldSet {
    pub(super) member: bool,
    pub(super) children: BTreeMap<Element, Self>,
}

impl FieldSet {
    pub(super) fn is_empty(&self) -> bool {
        !self.member && self.children.values().all(Self::is_empty)
    }

    pub(super) fn child(&mut self, element: Element) -> &mut Self {
        self.children.entry(element).or_default()
    }

    /// Whether there is this field of the object in it, and nothing else.
    pub(super) fn is_only(&self, field: &str) -> bool {
        let is_it = |element: &Element| matches!(element, Element::Field(name) if name == field);
        !self.children.is_empty() && self.children.keys().all(is_it)
    }

    /// Only this field of the object, and what is in it.
    pub(super) fn only(mut self, field: &str) -> Self {
        self.children.retain(|element, _| matches!(element, Element::Field(name) if name == field));
        self
    }

    pub(super) fn union(&self, other: &Self) -> Self {
        self.combine(other, |a, b| a || b)
    }

    pub(super) fn difference(&self, other: &Self) -> Self {
        self.combine(other, |a, b| a && !b)
    }

    pub(super) fn intersection(&self, other: &Self) -> Self {
        self.combine(other, |a, b| a && b)
    }

    fn combine(&self, other: &Self, rule: fn(bool, bool) -> bool) -> Self {
        let nothing = Self::default();
        let mut result = Self { member: rule(self.member, other.member), children: BTreeMap::new() };
        for element in self.children.keys().chain(other.children.keys()) {
            if result.children.contains_key(element) {
                continue;
            }
            let (mine, theirs) = (self.children.get(element), other.children.get(element));
            let combined = mine.unwrap_or(&nothing).combine(theirs.unwrap_or(&nothing), rule);
            if !combined.is_empty() {
                result.children.insert(element.clone(), combined);
            }
        }
        result
    }

    /// Takes a field and everything below it out of the set.
    pub(super) fn forget(&mut self, path: &[&str]) {
        let [first, rest @ ..] = path else { return };
        let element = Element::Field((*first).to_owned());
        if rest.is_empty() {
            self.children.remove(&element);
        } else if let Some(child) = self.children.get_mut(&element) {
            child.forget(rest);
            if child.is_empty() {
                self.children.remove(&element);
            }
        }
    }

    /// Takes a field out of the set, but nothing below it.
    pub(super) fn forget_member(&mut self, path: &[&str]) {
        let node = path.iter().try_fold(self, |node, name| node.children.get_mut(&Element::Field((*name).to_owned())));
        if let Some(node) = node {
            node.member = false;
        }
    }

    /// Every path of the set, as conflicts are told: `.spec.containers[name="a"].image`.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect("", &mut paths);
        paths
    }

    fn collect(&self, prefix: &str, paths: &mut Vec<String>) {
        if self.member && !prefix.is_empty() {
            paths.push(prefix.to_owned());
        }
        for (element, child) in &self.children {
            let step = match element {
                Element::Field(name) => format!(".{name}"),
                Element::Value(value) => format!("[={value}]"),
                Element::Key(keys) => {
                    let keys: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={value}")).collect();
                    format!("[{}]", keys.join(","))
                }
            };
            child.collect(&format!("{prefix}{step}"), paths);
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let mut entries = Map::new();
        if self.member && !self.children.is_empty() {
            entries.insert(".".into(), Value::Object(Map::new()));
        }
        for (element, child) in &self.children {
            entries.insert(element.to_text(), child.to_json());
        }
        Value::Object(entries)
    }

    /// Unreadable parts are left out: a set from a client is not worth an error.
    pub(super) fn from_json(value: &Value) -> Self {
        let Some(entries) = value.as_object() else { return Self::default() };
        let mut set = Self { member: entries.is_empty() || entries.contains_key("."), children: BTreeMap::new() };
        for (text, below) in entries.iter().filter(|(text, _)| *text != ".") {
            if let Some(element) = Element::from_text(text) {
                set.children.insert(element, Self::from_json(below));
            }
        }
        set
    }
}

impl Element {
    fn to_text(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Value(value) => format!("v:{value}"),
            Self::Key(keys) => {
                let keys: Vec<String> = keys.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
                format!("k:{{{}}}", keys.join(","))
            }
        }
    }

    fn from_text(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        match kind {
            "f" => Some(Self::Field(rest.to_owned())),
            "v" => Some(Self::Value(rest.to_owned())),
            "k" => {
                let keys: Map<String, Value> = serde_json::from_str(rest).ok()?;
                Some(Self::Key(keys.into_iter().map(|(name, value)| (name, value.to_string())).collect()))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sets_are_read_written_and_combined() {
        let text = json!({"f:spec": {"f:a": {}, "f:list": {"k:{\"name\":\"x\"}": {".": {}, "f:image": {}}}},
            "f:metadata": {"f:finalizers": {"v:\"a/b\"": {}}}});
        let set = FieldSet::from_json(&text);
        assert_eq!(set.to_json(), text);
        let part = FieldSet::from_json(&json!({"f:spec": {"f:a": {}}}));
        assert_eq!(set.intersection(&part), part);
        assert_eq!(set.difference(&part).union(&part), set);
        assert!(part.difference(&set).is_empty());
        assert_eq!(
            set.paths(),
            [".metadata.finalizers[=\"a/b\"]", ".spec.a", ".spec.list[name=\"x\"]", ".spec.list[name=\"x\"].image"]
        );
    }
}
