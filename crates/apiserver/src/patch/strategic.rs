//! Strategic merge patch: like a merge patch, but lists whose elements have a key merge by it.
//!
//! Directives: `$patch: delete|replace|merge` on objects and list elements, `$deleteFromPrimitiveList/f`,
//! `$setElementOrder/f` and `$retainKeys`.

use serde_json::{Map, Value};

use crate::schema::{ListShape, Schema, Shape};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ELEMENT_ORDER: &str = "$setElementOrder/";
const DELETE_PRIMITIVES: &str = "$deleteFromPrimitiveList/";

/// Merges `patch` into `target`, which has the shape `schema`. The error says what is wrong with the patch.
pub(crate) fn merge(schema: &Schema, target: &mut Value, patch: &Value) -> Result<(), String> {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return Ok(());
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(entries) = target else { return Ok(()) };
    match changes.get(PATCH).map(|directive| directive.as_str().unwrap_or_default()) {
        None | Some("merge") => {}
        Some("delete") => {
            entries.clear();
            return Ok(());
        }
        Some("replace") => {
            *entries = without_directives(changes);
            return Ok(());
        }
        Some(other) => return Err(format!("Unknown patch type: {other}")),
    }
    if let Some(keep) = changes.get(RETAIN_KEYS) {
        let keep = keep.as_array().ok_or("$retainKeys is not a list")?;
        entries.retain(|key, _| keep.iter().any(|kept| kept.as_str() == Some(key)));
    }
    for (key, change) in changes {
        if let Some(field) = key.strip_prefix(DELETE_PRIMITIVES) {
            delete_primitives(entries, field, change)?;
        } else if !key.starts_with('$') {
            merge_field(schema, entries, key, change)?;
        }
    }
    for (key, order) in changes {
        if let Some(field) = key.strip_prefix(ELEMENT_ORDER) {
            reorder(schema, entries, field, order)?;
        }
    }
    Ok(())
}

fn without_directives(changes: &Map<String, Value>) -> Map<String, Value> {
    changes.iter().filter(|(key, _)| !key.starts_with('$')).map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn merge_field(schema: &Schema, entries: &mut Map<String, Value>, key: &str, change: &Value) -> Result<(), String> {
    if change.is_null() {
        entries.remove(key);
        return Ok(());
    }
    let any = Schema::any();
    let child = schema.child(key).map_or(&any, |child| child);
    let target = entries.entry(key.to_owned()).or_insert(Value::Null);
    match (&child.shape, change) {
        (Shape::List(list), Value::Array(changes)) if list.patch_merge => merge_list(list, target, changes),
        (_, Value::Object(_)) => merge(child, target, change),
        _ => {
            *target = change.clone();
            Ok(())
        }
    }
}

fn merge_list(list: &ListShape, target: &mut Value, changes: &[Value]) -> Result<(), String> {
    if !target.is_array() {
        *target = Value::Array(Vec::new());
    }
    let Value::Array(items) = target else { return Ok(()) };
    let before = items.clone();
    let Some(key) = &list.merge_key else {
        for change in changes {
            if !items.contains(change) {
                items.push(change.clone());
            }
        }
        arrange(items, changes, &before, None);
        return Ok(());
    };
    if changes.iter().any(|change| change[PATCH] == "replace") {
        items.clear();
    }
    for change in changes.iter().filter(|change| change[PATCH] != "replace") {
        let wanted = &change[key.as_str()];
        if wanted.is_null() {
            return Err(format!("map: {change} does not contain declared merge key: {key}"));
        }
        let position = items.iter().position(|item| item[key.as_str()] == *wanted);
        match (change[PATCH].as_str(), position) {
            (Some("delete"), Some(at)) => drop(items.remove(at)),
            (Some("delete"), None) => {}
            (_, Some(at)) => merge(&list.item, &mut items[at], change)?,
            (_, None) => {
                let mut fresh = Value::Object(Map::new());
                merge(&list.item, &mut fresh, change)?;
                items.push(fresh);
            }
        }
    }
    arrange(items, changes, &before, Some(key));
    Ok(())
}

fn delete_primitives(entries: &mut Map<String, Value>, field: &str, gone: &Value) -> Result<(), String> {
    let gone = gone.as_array().ok_or_else(|| format!("{DELETE_PRIMITIVES}{field} is not a list"))?;
    if let Some(Value::Array(items)) = entries.get_mut(field) {
        items.retain(|item| !gone.contains(item));
    }
    Ok(())
}

fn reorder(schema: &Schema, entries: &mut Map<String, Value>, field: &str, order: &Value) -> Result<(), String> {
    let order = order.as_array().ok_or_else(|| format!("{ELEMENT_ORDER}{field} is not a list"))?;
    let key = match schema.child(field).map(|child| &child.shape) {
        Some(Shape::List(list)) => list.merge_key.clone(),
        _ => None,
    };
    if let Some(Value::Array(items)) = entries.get_mut(field) {
        let before = items.clone();
        arrange(items, order, &before, key.as_deref());
    }
    Ok(())
}

/// Brings the elements that `wanted` names into its order. The others keep theirs; where one of each kind meets, the
/// order they had `before` decides, and a new one goes first.
fn arrange(items: &mut Vec<Value>, wanted: &[Value], before: &[Value], key: Option<&str>) {
    let same = |a: &Value, b: &Value| match key {
        Some(key) => a[key] == b[key],
        None => a == b,
    };
    let place = |list: &[Value], item: &Value| list.iter().position(|other| same(other, item));
    let (mut named, others): (Vec<Value>, Vec<Value>) = items.drain(..).partition(|item| place(wanted, item).is_some());
    named.sort_by_key(|item| place(wanted, item));
    let mut named = named.into_iter().peekable();
    for other in others {
        while let Some(item) = named.next_if(|item| match (place(before, &other), place(before, item)) {
            (Some(other), Some(item)) => item < other,
            _ => true,
        }) {
            items.push(item);
        }
        items.push(other);
    }
    items.extend(named);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::built_in;

    fn patched(mut target: Value, patch: &Value) -> Value {
        merge(&built_in("batch.v1.Job"), &mut target, patch).unwrap();
        target
    }

    #[test]
    fn conditions_merge_by_type() {
        let job = json!({"status": {"active": 1, "conditions": [
            {"type": "Suspended", "status": "True"}, {"type": "jobferry.dev/Placed", "status": "False", "reason": "Wait"}]}});
        let patch = json!({"status": {"conditions": [
            {"type": "jobferry.dev/Placed", "status": "True"}, {"type": "Complete", "status": "True"}]}});
        assert_eq!(
            patched(job, &patch),
            json!({"status": {"active": 1, "conditions": [
                {"type": "Suspended", "status": "True"},
                {"type": "jobferry.dev/Placed", "status": "True", "reason": "Wait"},
                {"type": "Complete", "status": "True"}]}})
        );
    }

    #[test]
    fn directives_delete_replace_order_and_retain() {
        let pod = |containers: Value| json!({"spec": {"template": {"spec": {"containers": containers}}}});
        let job = pod(json!([{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]));
        let cases = [
            (json!([{"name": "a", "$patch": "delete"}]), json!([{"name": "b", "image": "2"}])),
            (json!([{"name": "c"}, {"$patch": "replace"}]), json!([{"name": "c"}])),
            (json!([{"name": "b", "image": "3"}]), json!([{"name": "a", "image": "1"}, {"name": "b", "image": "3"}])),
        ];
        for (change, expected) in cases {
            assert_eq!(patched(job.clone(), &pod(change.clone())), pod(expected), "{change}");
        }
        let order = json!({"spec": {"template": {"spec": {
            "$setElementOrder/containers": [{"name": "c"}, {"name": "b"}, {"name": "a"}],
            "containers": [{"name": "c"}]}}}});
        let names = |job: &Value| -> Vec<String> {
            let list = job["spec"]["template"]["spec"]["containers"].as_array().unwrap();
            list.iter().map(|container| container["name"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(&patched(job, &order)), ["c", "b", "a"]);
        let finalizers = json!({"metadata": {"finalizers": ["x/a", "x/b"]}});
        let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/a"], "finalizers": ["x/c"]}});
        assert_eq!(patched(finalizers, &patch), json!({"metadata": {"finalizers": ["x/c", "x/b"]}}));
        let retain = json!({"spec": {"$retainKeys": ["suspend"], "suspend": true}});
        assert_eq!(patched(json!({"spec": {"parallelism": 2}}), &retain), json!({"spec": {"suspend": true}}));
    }

    #[test]
    fn an_element_without_its_key_is_refused() {
        let patch = json!({"status": {"conditions": [{"status": "True"}]}});
        assert!(merge(&built_in("batch.v1.Job"), &mut json!({}), &patch).is_err());
    }
}
