//! Paths into an object, as a kind's rules name its fields.
//!
//! ```text
//! spec.runPolicy.suspend                     one field
//! spec.tasks[*].replicas                     of every item of a list, by its place
//! spec.workerGroupSpecs[groupName=*].replicas   of every item, told apart by a field of its own
//! status.conditions[type=Complete].status    of the items whose field says so
//! spec.pytorchReplicaSpecs.*.template        of every value of a map
//! metadata.labels["a.b/c"]                   a key with dots; ["a.b/*"] is every key that begins so
//! ```

use std::{fmt, str::FromStr};

use serde_json::{Map, Value, json};

/// Where something is in an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(Vec<Step>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// A field, or a key of a map.
    Key(String),
    /// Every key that begins so.
    Keys(String),
    /// Every item of a list.
    Items,
    /// One item, by its place.
    Item(usize),
    /// Every item of a list that has this field, told apart by it.
    ItemsBy(String),
    /// The items whose field says this.
    Where(String, String),
}

/// A path that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{path}`: {why}")]
pub struct PathError {
    path: String,
    why: &'static str,
}

impl FromStr for Path {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let wrong = |why| PathError { path: text.to_owned(), why };
        let mut steps = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (step, after) = if let Some(inside) = rest.strip_prefix("[\"") {
                let (key, after) = inside.split_once("\"]").ok_or_else(|| wrong("a key in brackets ends with \"]"))?;
                (named(key), after)
            } else if let Some(inside) = rest.strip_prefix('[') {
                let (inside, after) = inside.split_once(']').ok_or_else(|| wrong("a bracket is not closed"))?;
                (item(inside).ok_or_else(|| wrong("a bracket holds *, field=value, field=* or \"key\""))?, after)
            } else {
                let key = if steps.is_empty() { Some(rest) } else { rest.strip_prefix('.') };
                let key = key.ok_or_else(|| wrong("a dot is missing"))?;
                let (key, after) = key.split_at(key.find(['.', '[']).unwrap_or(key.len()));
                let simple = key.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
                match key {
                    "" => return Err(wrong("a name is missing")),
                    "*" => (Step::Keys(String::new()), after),
                    _ if simple => (Step::Key(key.to_owned()), after),
                    _ => return Err(wrong("a name has letters, digits, _ and - only; write others as [\"name\"]")),
                }
            };
            steps.push(step);
            rest = after;
        }
        match steps.first() {
            Some(Step::Key(root)) if ["metadata", "spec", "status"].contains(&root.as_str()) => Ok(Self(steps)),
            _ => Err(wrong("it begins with metadata, spec or status")),
        }
    }
}

fn named(key: &str) -> Step {
    key.strip_suffix('*').map_or_else(|| Step::Key(key.to_owned()), |prefix| Step::Keys(prefix.to_owned()))
}

fn item(inside: &str) -> Option<Step> {
    if inside == "*" {
        return Some(Step::Items);
    }
    if let Ok(place) = inside.parse() {
        return Some(Step::Item(place));
    }
    let (field, value) = inside.split_once('=').filter(|(field, value)| !field.is_empty() && !value.is_empty())?;
    Some(match value {
        "*" => Step::ItemsBy(field.to_owned()),
        _ => Step::Where(field.to_owned(), value.to_owned()),
    })
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, step) in self.0.iter().enumerate() {
            let dot = if place == 0 { "" } else { "." };
            match step {
                Step::Key(key) if key.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)) => {
                    write!(f, "{dot}{key}")?;
                }
                Step::Key(key) => write!(f, "[\"{key}\"]")?,
                Step::Keys(prefix) if prefix.is_empty() => write!(f, "{dot}*")?,
                Step::Keys(prefix) => write!(f, "[\"{prefix}*\"]")?,
                Step::Items => f.write_str("[*]")?,
                Step::Item(place) => write!(f, "[{place}]")?,
                Step::ItemsBy(field) => write!(f, "[{field}=*]")?,
                Step::Where(field, value) => write!(f, "[{field}={value}]")?,
            }
        }
        Ok(())
    }
}

impl Path {
    /// Whether it leads to one place only, whatever the object.
    pub fn is_single(&self) -> bool {
        !self.0.iter().any(|step| matches!(step, Step::Keys(_) | Step::Items | Step::ItemsBy(_)))
    }

    /// Where that is which holds it.
    pub fn parent(&self) -> Option<Self> {
        let (_, parents) = self.0.split_last()?;
        Some(Self(parents.to_vec()))
    }

    /// Whether everything that `other` leads to is this or inside of it.
    pub fn covers(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }

    /// Whether it begins with these fields.
    pub fn is_under(&self, fields: &[&str]) -> bool {
        let same = |(step, field): (&Step, &&str)| matches!(step, Step::Key(key) if key == field);
        self.0.len() > fields.len() && self.0.iter().zip(fields).all(same)
    }

    /// Every place in `object` that it leads to, with the value there. Null is nothing.
    pub fn find<'a>(&self, object: &'a Value) -> Vec<(Self, &'a Value)> {
        let mut found = Vec::new();
        walk(&self.0, object, &mut Vec::new(), &mut found);
        found
    }

    /// The first value that it leads to.
    pub fn first<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        self.find(object).into_iter().next().map(|(_, value)| value)
    }

    /// Takes off whatever it leads to. A list that loses its last item goes too, and what held nothing else: definitions
    /// often want at least one item.
    pub fn remove(&self, object: &mut Value) {
        remove(&self.0, object);
    }

    /// Puts a value where it leads to, and makes what is missing on the way. False: there is no such item in a list, or
    /// something else is in the way.
    pub fn set(&self, object: &mut Value, value: Value) -> bool {
        self.put(object, value, false)
    }

    /// The same, and an item of a list that is missing is made too.
    pub(super) fn make(&self, object: &mut Value, value: Value) -> bool {
        self.put(object, value, true)
    }

    /// Another field of the item of a list that this is a field of.
    pub(super) fn beside_in_item(&self, field: &str) -> Option<Self> {
        let mut path = self.parent()?;
        matches!(path.0.last()?, Step::Where(..)).then(|| {
            path.0.push(Step::Key(field.to_owned()));
            path
        })
    }

    fn put(&self, object: &mut Value, value: Value, make_items: bool) -> bool {
        let mut place = object;
        for step in &self.0 {
            let next = match step {
                Step::Key(key) => {
                    if place.is_null() {
                        *place = Value::Object(Map::new());
                    }
                    place.as_object_mut().map(|map| map.entry(key.clone()).or_insert(Value::Null))
                }
                Step::Item(index) => place.get_mut(index),
                Step::Where(field, wanted) => {
                    let is_it = |item: &Value| item.get(field).and_then(Value::as_str) == Some(wanted);
                    if make_items && place.is_null() {
                        *place = Value::Array(Vec::new());
                    }
                    place.as_array_mut().and_then(|items| {
                        if make_items && !items.iter().any(is_it) {
                            items.push(json!({ field: wanted }));
                        }
                        items.iter_mut().find(|item| is_it(item))
                    })
                }
                Step::Keys(_) | Step::Items | Step::ItemsBy(_) => None,
            };
            let Some(next) = next else { return false };
            place = next;
        }
        *place = value;
        true
    }
}

fn walk<'a>(steps: &[Step], at: &'a Value, place: &mut Vec<Step>, found: &mut Vec<(Path, &'a Value)>) {
    if at.is_null() {
        return;
    }
    let Some((step, rest)) = steps.split_first() else {
        found.push((Path(place.clone()), at));
        return;
    };
    for (exact, inner) in children(step, at) {
        place.push(exact);
        walk(rest, inner, place, found);
        place.pop();
    }
}

/// The values that one step leads to, each with the step that leads only there.
fn children<'a>(step: &Step, at: &'a Value) -> Vec<(Step, &'a Value)> {
    let items = || at.as_array().into_iter().flatten();
    match step {
        Step::Key(key) => at.get(key).map(|inner| (step.clone(), inner)).into_iter().collect(),
        Step::Keys(prefix) => {
            let entries = at.as_object().into_iter().flatten().filter(|(key, _)| key.starts_with(prefix));
            entries.map(|(key, inner)| (Step::Key(key.clone()), inner)).collect()
        }
        Step::Items => items().enumerate().map(|(index, inner)| (Step::Item(index), inner)).collect(),
        Step::Item(index) => at.get(index).map(|inner| (step.clone(), inner)).into_iter().collect(),
        Step::ItemsBy(field) => items()
            .filter_map(|item| Some((Step::Where(field.clone(), item.get(field)?.as_str()?.to_owned()), item)))
            .collect(),
        Step::Where(field, wanted) => items()
            .filter(|item| item.get(field).and_then(Value::as_str) == Some(wanted))
            .map(|inner| (step.clone(), inner))
            .collect(),
    }
}

/// True: what is left of `at` is empty because of a list that lost its last item.
fn remove(steps: &[Step], at: &mut Value) -> bool {
    let Some((step, rest)) = steps.split_first() else { return false };
    let mut emptied = false;
    match (step, &mut *at) {
        (Step::Key(_) | Step::Keys(_), Value::Object(map)) => {
            let matches = |key: &String| match step {
                Step::Key(wanted) => key == wanted,
                Step::Keys(prefix) => key.starts_with(prefix),
                _ => false,
            };
            map.retain(|key, inner| {
                if !matches(key) {
                    return true;
                }
                let hollow = remove(rest, inner);
                emptied |= hollow;
                !(rest.is_empty() || hollow)
            });
        }
        (step, Value::Array(list)) => {
            let mut index = 0;
            list.retain_mut(|item| {
                let matches = match step {
                    Step::Items => true,
                    Step::Item(wanted) => index == *wanted,
                    Step::ItemsBy(field) => item.get(field).is_some(),
                    Step::Where(field, wanted) => item.get(field).and_then(Value::as_str) == Some(wanted),
                    Step::Key(_) | Step::Keys(_) => false,
                };
                index += 1;
                if !matches {
                    return true;
                }
                let gone = rest.is_empty() || remove(rest, item);
                emptied |= gone;
                !gone
            });
        }
        _ => {}
    }
    let is_empty = match at {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    };
    emptied && is_empty
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Path {
        text.parse().unwrap()
    }

    fn ray() -> Value {
        json!({
            "metadata": {"labels": {"a.b/c": "1", "a.b/d": "2", "e": "3"}},
            "spec": {
                "groups": [{"name": "cpu", "replicas": 2}, {"name": "tpu", "replicas": null}, {"replicas": 7}],
                "roles": {"Master": {"n": 1}, "Worker": {"n": 2}},
                "deletion": {"rules": [{"policy": "DeleteSelf"}]},
            },
        })
    }

    #[test]
    fn a_path_is_written_as_it_is_read() {
        for text in [
            "spec.a.b-c",
            "spec.a[*].b",
            "spec.a[0]",
            "spec.a[name=*].b",
            "status.conditions[type=Complete].status",
            "spec.a.*.b",
            "metadata.labels[\"a.b/c\"]",
            "metadata.labels[\"a.b/*\"]",
        ] {
            assert_eq!(path(text).to_string(), text);
        }
    }

    #[test]
    fn a_wrong_path_says_what_is_wrong() {
        for (text, why) in [
            ("", "it begins with metadata, spec or status"),
            ("a.b", "it begins with metadata, spec or status"),
            ("spec..a", "a name is missing"),
            ("spec.", "a name is missing"),
            ("spec.a[", "a bracket is not closed"),
            ("spec.a[b]", "a bracket holds *, field=value, field=* or \"key\""),
            ("spec.a[=b]", "a bracket holds *, field=value, field=* or \"key\""),
            ("spec.a[*]b", "a dot is missing"),
            ("metadata.labels[\"a", "a key in brackets ends with \"]"),
            ("spec.a/b", "a name has letters, digits, _ and - only; write others as [\"name\"]"),
        ] {
            assert_eq!(text.parse::<Path>().unwrap_err().to_string(), format!("`{text}`: {why}"));
        }
    }

    #[test]
    fn a_path_finds_every_place_that_has_a_value() {
        let found = |text| -> Vec<(String, Value)> {
            path(text).find(&ray()).into_iter().map(|(place, value)| (place.to_string(), value.clone())).collect()
        };
        assert_eq!(found("spec.groups[name=*].replicas"), [("spec.groups[name=cpu].replicas".to_owned(), json!(2))]);
        assert_eq!(
            found("spec.groups[*].replicas"),
            [("spec.groups[0].replicas".to_owned(), json!(2)), ("spec.groups[2].replicas".to_owned(), json!(7))]
        );
        assert_eq!(
            found("spec.roles.*.n"),
            [("spec.roles.Master.n".to_owned(), json!(1)), ("spec.roles.Worker.n".to_owned(), json!(2))]
        );
        assert_eq!(found("metadata.labels[\"a.b/*\"]").len(), 2);
        assert_eq!(found("spec.nothing.here"), []);
    }

    #[test]
    fn what_is_removed_leaves_its_neighbours() {
        let removed = |text| {
            let mut object = ray();
            path(text).remove(&mut object);
            object
        };
        assert_eq!(removed("metadata.labels[\"a.b/*\"]")["metadata"]["labels"], json!({"e": "3"}));
        let groups = removed("spec.groups[*].replicas")["spec"]["groups"].clone();
        assert_eq!(groups, json!([{"name": "cpu"}, {"name": "tpu"}, {}]));
        assert_eq!(removed("spec.groups[name=cpu]")["spec"]["groups"].as_array().unwrap().len(), 2);
        assert_eq!(removed("spec.nothing.here"), ray());
    }

    #[test]
    fn a_list_that_loses_its_last_item_goes_with_what_held_only_it() {
        let mut object = ray();
        path("spec.deletion.rules[policy=DeleteSelf]").remove(&mut object);
        assert_eq!(object["spec"].get("deletion"), None);
        let mut object = ray();
        object["spec"]["deletion"]["other"] = json!(1);
        path("spec.deletion.rules[policy=DeleteSelf]").remove(&mut object);
        assert_eq!(object["spec"]["deletion"], json!({"other": 1}));
        let mut object = ray();
        path("spec.roles.Master.n").remove(&mut object);
        assert_eq!(object["spec"]["roles"]["Master"], json!({}), "a field that goes does not take its holder along");
    }

    #[test]
    fn a_value_is_put_where_its_place_is_and_nowhere_else() {
        let mut object = ray();
        assert!(path("spec.groups[name=tpu].replicas").set(&mut object, json!(4)));
        assert!(path("spec.new.deep").set(&mut object, json!(true)));
        assert_eq!(object["spec"]["groups"][1]["replicas"], 4);
        assert_eq!(object["spec"]["new"], json!({"deep": true}));
        for text in ["spec.groups[name=gpu].replicas", "spec.groups[9]", "spec.groups.name", "spec.groups[*]"] {
            assert!(!path(text).set(&mut object, json!(4)), "{text}");
        }
    }
}
