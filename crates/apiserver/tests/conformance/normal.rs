//! What two servers cannot agree on is replaced by names: uids, times, versions, tokens.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use crate::script::Step;

/// What was seen so far in one run of the script.
#[derive(Default)]
pub(crate) struct Memory {
    captured: BTreeMap<String, String>,
    /// Each uid gets a number in the order of its appearance.
    uids: Vec<String>,
}

impl Memory {
    pub(crate) fn capture(&mut self, step: &Step, answer: &Value) {
        for (name, path) in &step.captures {
            let found = path.split('.').fold(answer, |value, key| match key.parse::<usize>() {
                Ok(index) => &value[index],
                Err(_) => &value[key],
            });
            let text = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
            self.captured.insert(name.clone(), text);
        }
    }

    pub(crate) fn fill(&self, text: &str) -> String {
        self.captured
            .iter()
            .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{{{name}}}}}"), value))
    }

    pub(crate) fn normalise(&mut self, mut value: Value) -> Value {
        let objects = std::iter::once(&value)
            .chain(std::iter::once(&value["object"]))
            .chain(value["items"].as_array().into_iter().flatten());
        let uids: Vec<String> =
            objects.filter_map(|object| object["metadata"]["uid"].as_str().map(str::to_owned)).collect();
        for uid in uids {
            if !self.uids.contains(&uid) {
                self.uids.push(uid);
            }
        }
        self.visit("", &mut value);
        value
    }

    fn visit(&mut self, key: &str, value: &mut Value) {
        match value {
            Value::Object(entries) => {
                // Ours tracks owners from the first apply on.
                if !entries.get("managedFields").is_some_and(has_applier) {
                    entries.remove("managedFields");
                }
                // Words are for people: of a refusal its code, reason and fields count, of a column its name.
                if key == "columnDefinitions" {
                    entries.remove("description");
                }
                if key == "causes" || entries.get("status").is_some_and(|status| status == "Failure") {
                    entries.remove("message");
                }
                for (key, entry) in entries.iter_mut() {
                    self.visit(key, entry);
                }
            }
            Value::Array(items) => {
                for item in items.iter_mut() {
                    self.visit(key, item);
                }
                // The real server judges metadata two to four times, depending on the kind, and tells each time.
                if key == "causes" {
                    items.dedup();
                }
            }
            Value::String(text) => {
                if matches!(key, "resourceVersion" | "continue") {
                    *text = format!("<{key}>");
                } else if text.parse::<Timestamp>().is_ok() {
                    *text = "<time>".into();
                } else {
                    *text = self.words(text);
                }
            }
            _ => {}
        }
    }

    /// Replaces uids inside of a text, and ages in table cells.
    fn words(&mut self, text: &str) -> String {
        let mut out = text.to_owned();
        for candidate in text.split(|c: char| !c.is_ascii_hexdigit() && c != '-').filter(|word| is_uid(word)) {
            let name = match self.uids.iter().position(|known| known == candidate) {
                Some(number) => format!("<uid {number}>"),
                // One that was only mentioned, in a refusal.
                None => "<uid>".to_owned(),
            };
            out = out.replace(candidate, &name);
        }
        let is_age = out
            .strip_suffix('s')
            .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit()));
        if is_age { "<age>".into() } else { out }
    }
}

fn is_uid(word: &str) -> bool {
    word.len() == 36 && word.bytes().enumerate().all(|(at, c)| (c == b'-') == matches!(at, 8 | 13 | 18 | 23))
}

fn has_applier(managed_fields: &Value) -> bool {
    managed_fields.as_array().into_iter().flatten().any(|entry| entry["operation"] == "Apply")
}
