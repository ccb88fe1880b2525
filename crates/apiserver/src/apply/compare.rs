//! Which fields an object has, and which differ between two states of it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::field_set::{Element, FieldSet};
use crate::schema::{ListKind, Schema, Shape};

/// The difference between two states.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
}

/// The parts of a value that can be owned one by one; `None`: only as a whole.
pub(super) fn parts<'a>(schema: &'a Schema, value: &'a Value) -> Option<Vec<(Element, &'a Value)>> {
    match (&schema.shape, value) {
        (Shape::Object(object), Value::Object(entries)) if !object.atomic => Some(fields(entries)),
        (Shape::Map { atomic: false, .. } | Shape::Any, Value::Object(entries)) => Some(fields(entries)),
        (Shape::List(list), Value::Array(items)) => match &list.kind {
            ListKind::Atomic => None,
            ListKind::Set => Some(items.iter().map(|item| (Element::Value(item.to_string()), item)).collect()),
            ListKind::Map(keys) => Some(items.iter().map(|item| (key(keys, item), item)).collect()),
        },
        _ => None,
    }
}

fn fields(entries: &serde_json::Map<String, Value>) -> Vec<(Element, &Value)> {
    entries.iter().map(|(name, value)| (Element::Field(name.clone()), value)).collect()
}

fn key(keys: &[String], item: &Value) -> Element {
    let keys = keys.iter().filter_map(|name| {
        // The one key that may be left out because it has a default.
        let value = match &item[name.as_str()] {
            Value::Null if name == "protocol" => "\"TCP\"".to_owned(),
            Value::Null => return None,
            value => value.to_string(),
        };
        Some((name.clone(), value))
    });
    Element::Key(keys.collect::<BTreeMap<_, _>>())
}

/// The shape of the part `element`.
pub(super) fn below<'a>(schema: &'a Schema, element: &Element, any: &'a Schema) -> &'a Schema {
    match (&schema.shape, element) {
        (Shape::List(list), _) => &list.item,
        (_, Element::Field(name)) => schema.child(name).map_or(any, |child| child),
        _ => any,
    }
}

/// The fields a configuration speaks about.
pub(super) fn field_set(schema: &Schema, value: &Value) -> FieldSet {
    let any = Schema::any();
    let mut set = FieldSet::default();
    match parts(schema, value) {
        Some(parts) if !parts.is_empty() => {
            for (element, part) in parts {
                let mut inner = field_set(below(schema, &element, &any), part);
                // An element of a list is something to own in itself.
                inner.member |= !matches!(element, Element::Field(_));
                *set.child(element) = inner;
            }
        }
        _ => set.member = true,
    }
    set
}

/// Compares two states field by field.
pub(super) fn compare(schema: &Schema, old: &Value, new: &Value) -> Comparison {
    let mut found = Comparison::default();
    visit(schema, Some(old), Some(new), &mut found);
    found
}

fn visit(schema: &Schema, old: Option<&Value>, new: Option<&Value>, found: &mut Comparison) {
    let (old_parts, new_parts) = (old.map(|old| parts(schema, old)), new.map(|new| parts(schema, new)));
    match (&old_parts, &new_parts) {
        (None, Some(_)) => found.added.member = true,
        (Some(_), None) => found.removed.member = true,
        (Some(Some(_)), Some(Some(_))) | (None, None) => {}
        _ if old != new => found.modified.member = true,
        _ => {}
    }
    // Something became whole or fell into parts: it changed as a whole.
    if matches!((&old_parts, &new_parts), (Some(None), Some(Some(_))) | (Some(Some(_)), Some(None))) {
        return;
    }
    let any = Schema::any();
    let collect =
        |parts: Option<Option<Vec<(Element, _)>>>| -> Vec<(Element, &Value)> { parts.flatten().unwrap_or_default() };
    let old_parts: BTreeMap<Element, &Value> = collect(old_parts).into_iter().collect();
    let new_parts: BTreeMap<Element, &Value> = collect(new_parts).into_iter().collect();
    for element in old_parts.keys().chain(new_parts.keys().filter(|element| !old_parts.contains_key(element))) {
        let mut inner = Comparison::default();
        let schema = below(schema, element, &any);
        visit(schema, old_parts.get(element).copied(), new_parts.get(element).copied(), &mut inner);
        for (set, part) in [
            (&mut found.added, inner.added),
            (&mut found.modified, inner.modified),
            (&mut found.removed, inner.removed),
        ] {
            if !part.is_empty() {
                set.children.insert(element.clone(), part);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::built_in;

    #[test]
    fn changes_are_found_field_by_field_and_element_by_element() {
        let job = |spec: Value, labels: Value| json!({"metadata": {"labels": labels}, "spec": spec});
        let old =
            job(json!({"suspend": true, "parallelism": 1, "selector": {"matchLabels": {"a": "b"}}}), json!({"x": "1"}));
        let new = job(json!({"suspend": false, "selector": {"matchLabels": {"a": "c"}}}), json!({"x": "1", "y": "2"}));
        let found = compare(&built_in("batch.v1.Job"), &old, &new);
        assert_eq!(found.added.paths(), [".metadata.labels.y"]);
        assert_eq!(found.removed.paths(), [".spec.parallelism"]);
        assert_eq!(found.modified.paths(), [".spec.selector", ".spec.suspend"], "a selector is one thing");
    }
}
