//! A YAML or JSON document that remembers where its values stand.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;

/// A value and the line on which it starts; 0 where the parser does not say.
#[derive(Debug)]
pub(super) struct Located {
    pub(super) line: u64,
    node: Node,
}

#[derive(Debug)]
enum Node {
    Scalar(Value),
    List(Vec<Located>),
    Map(Vec<(String, Located)>),
}

impl Located {
    /// A value from a parser that tells no lines.
    pub(super) fn without_lines(value: Value) -> Self {
        let node = match value {
            Value::Array(list) => Node::List(list.into_iter().map(Self::without_lines).collect()),
            Value::Object(map) => {
                Node::Map(map.into_iter().map(|(key, value)| (key, Self::without_lines(value))).collect())
            }
            scalar => Node::Scalar(scalar),
        };
        Self { line: 0, node }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        match &self.node {
            Node::Map(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        match &self.get(key)?.node {
            Node::Scalar(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// Takes the entries of a list out of a map.
    pub(super) fn take_list(self, key: &str) -> Vec<Self> {
        let Node::Map(entries) = self.node else { return Vec::new() };
        match entries.into_iter().find(|(name, _)| name == key).map(|(_, value)| value.node) {
            Some(Node::List(list)) => list,
            _ => Vec::new(),
        }
    }

    pub(super) fn to_value(&self) -> Value {
        match &self.node {
            Node::Scalar(scalar) => scalar.clone(),
            Node::List(list) => Value::Array(list.iter().map(Self::to_value).collect()),
            Node::Map(entries) => {
                Value::Object(entries.iter().map(|(key, value)| (key.clone(), value.to_value())).collect::<Map<_, _>>())
            }
        }
    }

    /// The line of a field such as `spec.template.spec.containers[0].name`, or of the nearest thing around it that is
    /// there. `None` where lines are unknown.
    pub(super) fn line_of(&self, field: &str) -> Option<u64> {
        let mut place = self;
        for step in steps(field) {
            let next = match &place.node {
                Node::Map(_) => place.get(step),
                Node::List(list) => step.parse::<usize>().ok().and_then(|index| list.get(index)),
                Node::Scalar(_) => None,
            };
            let Some(next) = next else { break };
            place = next;
        }
        (place.line > 0).then_some(place.line)
    }
}

/// Field names, indexes and keys of a path. Keys in brackets may have dots.
fn steps(field: &str) -> impl Iterator<Item = &str> {
    let mut rest = field;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches('.');
        let (step, after) = match rest.strip_prefix('[') {
            Some(bracketed) => bracketed.split_once(']')?,
            None if rest.is_empty() => return None,
            None => rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len())),
        };
        rest = after;
        Some(step)
    })
}

impl<'de> Deserialize<'de> for Located {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Node>::deserialize(deserializer)?;
        Ok(Self { line: spanned.referenced.line(), node: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Scalar(Number::from_f64(value).map_or(Value::Null, Value::Number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = access.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Node::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_has_the_line_of_the_nearest_thing_that_is_there() {
        let text = "spec:\n  list:\n  - name: a\n  - name: b\n    labels:\n      a.b/c: x\n";
        let document: Located = serde_saphyr::from_str(text).unwrap();
        for (field, line) in [
            ("spec.list[0].name", 3),
            ("spec.list[1].labels[a.b/c]", 6),
            ("spec.list[1].missing", 4),
            ("spec.list[7]", 3),
            ("nothing.at.all", 1),
        ] {
            assert_eq!(document.line_of(field), Some(line), "{field}");
        }
    }
}
