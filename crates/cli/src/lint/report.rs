//! Findings as values, and as text for people or JSON for programs.

use std::fmt::Write;

use serde::Serialize;
use serde_json::Value;

/// An error or a warning.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Finding {
    /// The kind of error as the server calls it, or the name of our warning.
    #[serde(rename = "type")]
    pub(super) code: String,
    pub(super) field: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<u64>,
    pub(super) message: String,
}

/// A value that the server fills in.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Filled {
    pub(super) field: String,
    pub(super) value: Value,
}

/// A document that could be judged.
#[derive(Debug, Serialize)]
pub(super) struct Judged {
    pub(super) source: String,
    pub(super) document: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<u64>,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) errors: Vec<Finding>,
    pub(super) warnings: Vec<Finding>,
    pub(super) defaults: Vec<Filled>,
}

/// Something that could not be judged at all.
#[derive(Debug, Serialize)]
pub(super) struct Unreadable {
    pub(super) source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) document: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) field: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<u64>,
    #[serde(rename = "message")]
    pub(super) why: String,
}

/// Everything about one run.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    pub(super) documents: Vec<Judged>,
    pub(super) unreadable: Vec<Unreadable>,
}

impl Report {
    pub(super) fn errors(&self) -> usize {
        self.documents.iter().map(|document| document.errors.len()).sum()
    }

    pub(super) fn warnings(&self) -> usize {
        self.documents.iter().map(|document| document.warnings.len()).sum()
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    pub(super) fn to_text(&self) -> String {
        let mut text = String::new();
        for document in &self.documents {
            document.write(&mut text);
        }
        text
    }
}

impl Judged {
    pub(super) fn to_text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) {
        let Self { source, document, kind, name, .. } = self;
        let verdict = if self.errors.is_empty() { "accepted" } else { "refused" };
        let _ = writeln!(text, "{source}, document {document}{}: {kind} {name} {verdict}", at(self.line));
        for (word, findings) in [("error", &self.errors), ("warning", &self.warnings)] {
            for Finding { code, field, line, message } in findings {
                let _ = writeln!(text, "  {word:<8} {field}{}: {message} [{code}]", at(*line));
            }
        }
        for Filled { field, value } in &self.defaults {
            let _ = writeln!(text, "  default  {field}: {value}");
        }
    }
}

impl Unreadable {
    pub(super) fn to_text(&self) -> String {
        let mut text = self.source.clone();
        if let Some(document) = self.document {
            let _ = write!(text, ", document {document}");
        }
        text.push_str(&at(self.line));
        if let Some(field) = &self.field {
            let _ = write!(text, ", field {field}");
        }
        let _ = write!(text, ": {}", self.why);
        text
    }
}

fn at(line: Option<u64>) -> String {
    line.map(|line| format!(" (line {line})")).unwrap_or_default()
}
