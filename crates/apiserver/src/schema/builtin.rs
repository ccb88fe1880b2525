//! Reads the generated table of built-in types.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use super::{Field, ListKind, ListShape, ObjectShape, Presence, Scalar, Schema, Shape};

static TABLE: &str = include_str!("../../schema/kubernetes-1.35.schema");

/// Behind the name of a type, or alone among its lines: it is owned as a whole.
const ATOMIC: &str = "atomic";

static TYPES: LazyLock<HashMap<&'static str, Arc<Schema>>> = LazyLock::new(|| {
    let mut reader = Reader { lines: declarations(TABLE), types: HashMap::new() };
    let names: Vec<&'static str> = reader.lines.keys().copied().collect();
    for name in names {
        reader.named(name);
    }
    reader.types
});

/// The shape of a built-in type by its Go name (`batch.v1.Job`). Unknown names are kept as they come.
pub(crate) fn built_in(name: &str) -> Arc<Schema> {
    TYPES.get(name).cloned().unwrap_or_else(|| Arc::new(Schema::any()))
}

fn declarations(table: &'static str) -> HashMap<&'static str, Vec<&'static str>> {
    let mut all: HashMap<&str, Vec<&str>> = HashMap::new();
    let mut current = "";
    for line in table.lines() {
        if let Some(declared) = line.strip_prefix("type ") {
            let (name, flag) = declared.split_once(' ').unwrap_or((declared, ""));
            current = name;
            let lines = all.entry(name).or_default();
            if flag == ATOMIC {
                lines.push(ATOMIC);
            }
        } else {
            all.entry(current).or_default().push(line.trim());
        }
    }
    all
}

struct Reader {
    lines: HashMap<&'static str, Vec<&'static str>>,
    types: HashMap<&'static str, Arc<Schema>>,
}

impl Reader {
    /// Types do not refer to themselves, directly or through others: recursive ones are `raw` in the table.
    fn named(&mut self, name: &'static str) -> Arc<Schema> {
        if let Some(known) = self.types.get(name) {
            return Arc::clone(known);
        }
        let lines = self.lines.get(name).cloned().unwrap_or_default();
        let atomic = lines.contains(&ATOMIC);
        let fields = lines.into_iter().filter_map(|line| self.field(line)).collect();
        let object = ObjectShape { name: name.to_owned(), fields, preserve_unknown: false, atomic };
        let schema = Arc::new(Schema::of(Shape::Object(object)));
        self.types.insert(name, Arc::clone(&schema));
        schema
    }

    fn field(&mut self, line: &'static str) -> Option<(String, Field)> {
        let mut words = line.split(' ');
        let (name, notation, number) = (words.next()?, words.next()?, words.next()?);
        let flags = Flags::parse(words);
        let pointer = notation.starts_with('*');
        let mut schema = self.schema(notation.trim_start_matches('*'), &flags);
        if flags.has("list=atomic")
            && let Shape::Object(object) = &schema.shape
        {
            let object = ObjectShape { atomic: true, ..object.clone() };
            schema = Arc::new(Schema::of(Shape::Object(object)));
        }
        let always = flags.has("keep") || matches!(schema.shape, Shape::Object(_)) || is_time(&schema);
        let presence = match (pointer, always && !flags.has("omitzero")) {
            (true, _) => Presence::AsGiven,
            (false, true) => Presence::Always,
            (false, false) => Presence::OmitZero,
        };
        let protobuf = number.parse().unwrap_or(0);
        let field = Field { schema, presence, required: flags.has("required"), protobuf };
        Some((name.to_owned(), field))
    }

    fn schema(&mut self, notation: &'static str, flags: &Flags) -> Arc<Schema> {
        if let Some(item) = notation.strip_prefix("[]") {
            let item = self.schema(item.trim_start_matches('*'), &Flags::default());
            return Arc::new(Schema::of(Shape::List(ListShape {
                item,
                kind: flags.list.clone(),
                merge_key: flags.merge_key.clone(),
                patch_merge: flags.patch_merge,
            })));
        }
        if let Some(value) = notation.strip_prefix("map:") {
            let value = self.schema(value, &Flags::default());
            return Arc::new(Schema::of(Shape::Map { value, atomic: flags.has("list=atomic") }));
        }
        match scalar(notation) {
            Some(scalar) => Arc::new(Schema::of(Shape::Scalar(scalar))),
            None if notation == "raw" => Arc::new(Schema::any()),
            None => self.named(notation),
        }
    }
}

fn is_time(schema: &Schema) -> bool {
    matches!(schema.shape, Shape::Scalar(Scalar::Time | Scalar::MicroTime))
}

fn scalar(notation: &str) -> Option<Scalar> {
    Some(match notation {
        "string" => Scalar::String,
        "bool" => Scalar::Bool,
        "int32" => Scalar::Int32,
        "int64" => Scalar::Int64,
        "float64" => Scalar::Number,
        "bytes" => Scalar::Bytes,
        "time" => Scalar::Time,
        "microtime" => Scalar::MicroTime,
        "quantity" => Scalar::Quantity,
        "intstr" => Scalar::IntOrString,
        _ => return None,
    })
}

/// The words behind name, type and number of a line.
#[derive(Default)]
struct Flags {
    words: Vec<&'static str>,
    list: ListKind,
    merge_key: Option<String>,
    patch_merge: bool,
}

impl Flags {
    fn parse(words: impl Iterator<Item = &'static str>) -> Self {
        let mut flags = Self::default();
        for word in words {
            match word.split_once('=') {
                Some(("list", "set")) => flags.list = ListKind::Set,
                Some(("keys", keys)) => flags.list = ListKind::Map(keys.split(',').map(str::to_owned).collect()),
                Some(("merge", key)) => flags.merge_key = Some(key.to_owned()),
                Some(("patch", how)) => flags.patch_merge = how.split(',').any(|word| word == "merge"),
                _ => flags.words.push(word),
            }
        }
        flags
    }

    fn has(&self, word: &str) -> bool {
        self.words.contains(&word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(of: &str, path: &[&str]) -> ListShape {
        let mut schema = built_in(of);
        for key in path {
            schema = Arc::clone(schema.child(key).unwrap_or_else(|| panic!("{of} has no {path:?}")));
        }
        match &schema.shape {
            Shape::List(list) => list.clone(),
            other => panic!("{path:?} is {other:?}"),
        }
    }

    #[test]
    fn lists_know_how_they_merge() {
        let conditions = list("batch.v1.Job", &["status", "conditions"]);
        assert_eq!((conditions.kind, conditions.merge_key.as_deref()), (ListKind::Atomic, Some("type")));
        let containers = list("core.v1.Pod", &["spec", "containers"]);
        assert_eq!(containers.kind, ListKind::Map(vec!["name".into()]));
        assert_eq!(containers.merge_key.as_deref(), Some("name"));
        let finalizers = list("core.v1.Pod", &["metadata", "finalizers"]);
        assert!(finalizers.patch_merge && finalizers.merge_key.is_none());
    }

    #[test]
    fn presence_follows_the_go_types() {
        let cases = [
            ("batch.v1.JobSpec", "parallelism", Presence::AsGiven),
            ("batch.v1.JobStatus", "active", Presence::OmitZero),
            ("batch.v1.JobSpec", "template", Presence::Always),
            ("core.v1.Container", "resources", Presence::Always),
            ("batch.v1.JobCondition", "lastProbeTime", Presence::Always),
            ("meta.v1.ObjectMeta", "creationTimestamp", Presence::OmitZero),
        ];
        for (of, field, expected) in cases {
            assert_eq!(built_in(of).field(field).unwrap().presence, expected, "{of}.{field}");
        }
    }
}
