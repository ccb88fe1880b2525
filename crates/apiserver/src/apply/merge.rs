//! Merging a configuration into an object, and taking out what nobody wants any more.

use serde_json::{Map, Value};

use super::compare::{below, parts};
use super::field_set::{Element, FieldSet};
use crate::schema::Schema;

/// `live` with everything that `config` says.
pub(super) fn merge(schema: &Schema, live: &Value, config: &Value) -> Value {
    let (Some(mine), Some(wanted)) = (parts(schema, live), parts(schema, config)) else { return config.clone() };
    let any = Schema::any();
    let joined = |element: &Element, live: &Value, config: &Value| merge(below(schema, element, &any), live, config);
    if let (Value::Object(_), Value::Object(_)) = (live, config) {
        let mut entries: Map<String, Value> = live.as_object().cloned().unwrap_or_default();
        for (element, value) in wanted {
            if let Element::Field(name) = &element {
                let merged = match entries.get(name) {
                    Some(live) => joined(&element, live, value),
                    None => value.clone(),
                };
                entries.insert(name.clone(), merged);
            }
        }
        return Value::Object(entries);
    }
    // The configuration's order counts; what it does not name stays behind the element it followed.
    let mut items = Vec::new();
    let mut rest = mine.iter().peekable();
    for (element, value) in &wanted {
        let known = mine.iter().find(|(other, _)| other == element);
        if known.is_some() {
            while let Some((_, item)) = rest.next_if(|(other, _)| wanted.iter().all(|(named, _)| named != other)) {
                items.push((*item).clone());
            }
            rest.next_if(|(other, _)| other == element);
        }
        items.push(known.map_or_else(|| (*value).clone(), |(_, live)| joined(element, live, value)));
    }
    let left = rest.filter(|(other, _)| wanted.iter().all(|(named, _)| named != other));
    let tail: Vec<Value> = left.map(|(_, item)| (*item).clone()).collect();
    // Elements nobody named come before new ones at the end of the list.
    let new_at_end =
        wanted.iter().rev().take_while(|(element, _)| mine.iter().all(|(other, _)| other != element)).count();
    let at = items.len() - new_at_end;
    items.splice(at..at, tail);
    Value::Array(items)
}

/// Takes the fields of `gone` out of `value`. A part in which others `held` something stays, without what is gone.
pub(super) fn remove(schema: &Schema, value: &mut Value, gone: &FieldSet, held: &FieldSet) {
    let any = Schema::any();
    let nothing = FieldSet::default();
    for (element, inner) in &gone.children {
        let held = held.children.get(element).unwrap_or(&nothing);
        let schema = below(schema, element, &any);
        match (element, &mut *value) {
            (Element::Field(name), Value::Object(entries)) => {
                let Some(entry) = entries.get_mut(name) else { continue };
                remove(schema, entry, inner, held);
                let is_emptied =
                    entry.as_object().is_some_and(Map::is_empty) || entry.as_array().is_some_and(Vec::is_empty);
                let is_leaf = inner.member && inner.children.is_empty();
                if held.is_empty() && (is_leaf || is_emptied) {
                    entries.remove(name);
                }
            }
            (_, Value::Array(items)) => {
                let found = items.iter().position(|item| is_element(element, item));
                let Some(at) = found else { continue };
                if inner.member && held.is_empty() {
                    items.remove(at);
                } else {
                    remove(schema, &mut items[at], inner, held);
                }
            }
            _ => {}
        }
    }
}

fn is_element(element: &Element, item: &Value) -> bool {
    let spells = |value: &Value, text: &str| serde_json::from_str::<Value>(text).is_ok_and(|meant| meant == *value);
    match element {
        Element::Value(text) => spells(item, text),
        Element::Key(keys) => keys.iter().all(|(name, text)| match &item[name.as_str()] {
            Value::Null => name == "protocol" && text == "\"TCP\"",
            value => spells(value, text),
        }),
        Element::Field(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::built_in;

    #[test]
    fn lists_merge_by_key_and_sets_by_value() {
        let pod = |names: &[&str], finalizers: &[&str]| {
            let containers: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
            json!({"metadata": {"finalizers": finalizers}, "spec": {"containers": containers}})
        };
        let schema = built_in("core.v1.Pod");
        let cases: [(&[&str], &[&str], &[&str]); 4] = [
            (&["a", "b"], &["c"], &["a", "b", "c"]),
            (&["a", "b"], &["b", "a"], &["b", "a"]),
            (&["a", "x", "b"], &["b"], &["a", "x", "b"]),
            (&[], &["a"], &["a"]),
        ];
        for (live, config, expected) in cases {
            let merged = merge(&schema, &pod(live, live), &pod(config, config));
            assert_eq!(merged, pod(expected, expected), "{live:?} + {config:?}");
        }
    }
}
