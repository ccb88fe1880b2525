//! The part of JSONPath that printer columns use: fields, quoted fields, list positions, and filters on equality.

use serde_json::Value;

/// A parsed path. One that cannot be read finds nothing.
#[derive(Debug, PartialEq)]
pub(super) struct Path(Option<Vec<Step>>);

#[derive(Debug, PartialEq)]
enum Step {
    Field(String),
    Index(usize),
    All,
    /// `[?(@.field=="value")]`
    Where {
        field: Vec<String>,
        value: String,
    },
}

impl Path {
    pub(super) fn parse(text: &str) -> Self {
        Self(steps(text))
    }

    /// The first value the path leads to.
    pub(super) fn find<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        let mut found = vec![object];
        for step in self.0.as_ref()? {
            found = found.into_iter().flat_map(|value| step.follow(value)).collect();
        }
        found.into_iter().find(|value| !value.is_null())
    }
}

impl Step {
    fn follow<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::Index(index) => value.get(index).into_iter().collect(),
            Self::All => value.as_array().into_iter().flatten().collect(),
            Self::Where { field, value: wanted } => {
                let holds =
                    |item: &&Value| field.iter().fold(*item, |value, key| &value[key.as_str()]) == wanted.as_str();
                value.as_array().into_iter().flatten().filter(holds).collect()
            }
        }
    }
}

fn steps(text: &str) -> Option<Vec<Step>> {
    let mut rest = text.trim().trim_start_matches('{').trim_end_matches('}').trim_start_matches('$');
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let end = closing(after)?;
            steps.push(bracket(&after[..end])?);
            rest = &after[end + 1..];
        } else {
            let after = rest.strip_prefix('.').unwrap_or(rest);
            let (name, remainder) = field(after);
            if name.is_empty() {
                return None;
            }
            steps.push(if name == "*" { Step::All } else { Step::Field(name) });
            rest = remainder;
        }
    }
    Some(steps)
}

/// The position of the bracket that closes one already opened, quotes respected.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, ']') => return Some(at),
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
    }
    None
}

/// A field name; `\.` is a dot inside of it.
fn field(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, escaped)| escaped)),
            '.' | '[' => return (name, &text[at..]),
            _ => name.push(c),
        }
    }
    (name, "")
}

fn bracket(inside: &str) -> Option<Step> {
    if inside == "*" {
        return Some(Step::All);
    }
    if let Some(name) = unquote(inside) {
        return Some(Step::Field(name));
    }
    if let Some(condition) = inside.strip_prefix("?(@.").and_then(|text| text.strip_suffix(')')) {
        let (field, value) = condition.split_once("==")?;
        let field = field.trim().split('.').map(str::to_owned).collect();
        return Some(Step::Where { field, value: unquote(value.trim())? });
    }
    inside.parse().ok().map(Step::Index)
}

fn unquote(text: &str) -> Option<String> {
    ['\'', '"'].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_of_printer_columns_find_their_values() {
        let object = json!({
            "spec": {"a": 1, "list": [{"n": "x"}, {"n": "y"}]},
            "metadata": {"labels": {"a.b/c": "dotted"}},
            "status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Connected", "status": "True"}]}
        });
        let cases = [
            (".spec.a", Some(json!(1))),
            ("{.spec.a}", Some(json!(1))),
            (".spec.list[1].n", Some(json!("y"))),
            (".spec.list[*].n", Some(json!("x"))),
            (r#".status.conditions[?(@.type=="Connected")].status"#, Some(json!("True"))),
            (".status.conditions[?(@.type=='Gone')].status", None),
            (r".metadata.labels.a\.b/c", Some(json!("dotted"))),
            (".metadata.labels['a.b/c']", Some(json!("dotted"))),
            (".spec.missing", None),
            (".spec[", None),
            ("..", None),
        ];
        for (path, expected) in cases {
            assert_eq!(Path::parse(path).find(&object).cloned(), expected, "{path}");
        }
    }
}
