//! What the API server says when it refuses an object, as values.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause, StatusDetails};

use crate::path::Path;

/// Why a value was refused. The names are those of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorKind {
    /// A value must be given.
    Required,
    /// The value is malformed, out of bounds, or may not change.
    Invalid,
    /// The value must be unique and is not.
    Duplicate,
    /// The value names something that does not exist in the same object.
    NotFound,
    /// The value is not one of the known ones.
    NotSupported,
    /// The value would be fine elsewhere, but not here.
    Forbidden,
    /// Too many bytes.
    TooLong,
    /// Too many items.
    TooMany,
}

impl ErrorKind {
    /// The short name, e.g. `Invalid`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Required => "Required",
            Self::Invalid => "Invalid",
            Self::Duplicate => "Duplicate",
            Self::NotFound => "NotFound",
            Self::NotSupported => "NotSupported",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "TooLong",
            Self::TooMany => "TooMany",
        }
    }

    /// The value of `details.causes[].reason` on the wire, e.g. `FieldValueInvalid`.
    pub fn cause_reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotFound => "FieldValueNotFound",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
        }
    }

    /// How the server opens the message of such an error.
    fn opening(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid => "Invalid value",
            Self::Duplicate => "Duplicate value",
            Self::NotFound => "Not found",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One reason why an object is refused: what kind of fault, on which field, and words for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The kind of fault.
    pub kind: ErrorKind,
    /// The path of the field as the server writes it, e.g. `spec.template.spec.containers[0].name`.
    pub field: String,
    /// The refused value, where it is short enough to be worth printing.
    pub value: Option<String>,
    /// What is wrong, for people.
    pub detail: String,
}

impl FieldError {
    /// The message without the field, as it stands in `details.causes[].message`.
    pub fn body(&self) -> String {
        let mut text = self.kind.opening().to_owned();
        for part in [self.value.as_deref().unwrap_or_default(), &self.detail] {
            if !part.is_empty() {
                text.push_str(": ");
                text.push_str(part);
            }
        }
        text
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

impl std::error::Error for FieldError {}

/// Everything that is wrong with an object, in the order in which the server finds it. Empty means accepted.
///
/// The server runs some checks more than once, so the same error can appear more than once here too: a client that
/// compares causes sees exactly what it would see from the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Errors(Vec<FieldError>);

impl Errors {
    /// No complaint so far.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// True when the object is accepted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many errors there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The errors in the server's order.
    pub fn iter(&self) -> std::slice::Iter<'_, FieldError> {
        self.0.iter()
    }

    /// `Ok` when there is no error; for `?`.
    pub fn into_result(self) -> Result<(), Self> {
        if self.is_empty() { Ok(()) } else { Err(self) }
    }

    /// The answer of the API server: `422 Unprocessable Entity` with one cause per error.
    ///
    /// ```
    /// use job_api::{Errors, ErrorKind, SpecView, Rules, status};
    /// use k8s_openapi::api::batch::v1::{JobSpec, JobStatus};
    ///
    /// let new = JobStatus { active: Some(-1), ..JobStatus::default() };
    /// let errors = status::validate(&SpecView::of(&JobSpec::default()), &JobStatus::default(), &new, Rules::newest());
    /// let answer = errors.to_status("Job", "train");
    /// assert_eq!(answer.code, Some(422));
    /// assert_eq!(
    ///     answer.message.as_deref(),
    ///     Some("Job.batch \"train\" is invalid: status.active: Invalid value: -1: must be greater than or equal to 0"),
    /// );
    /// ```
    pub fn to_status(&self, kind: &str, name: &str) -> Status {
        let causes = self
            .iter()
            .map(|error| StatusCause {
                field: Some(error.field.clone()),
                message: Some(error.body()),
                reason: Some(error.kind.cause_reason().to_owned()),
            })
            .collect();
        Status {
            code: Some(422),
            details: Some(StatusDetails {
                causes: Some(causes),
                group: Some("batch".to_owned()),
                kind: Some(kind.to_owned()),
                name: Some(name.to_owned()),
                ..StatusDetails::default()
            }),
            message: Some(format!("{kind}.batch \"{name}\" is invalid: {self}")),
            reason: Some("Invalid".to_owned()),
            status: Some("Failure".to_owned()),
            ..Status::default()
        }
    }

    /// Without errors that say what an earlier one said already: newer servers report each once.
    pub(crate) fn without_repetitions(self) -> Self {
        let mut kept: Vec<FieldError> = Vec::with_capacity(self.0.len());
        for error in self.0 {
            if !kept.contains(&error) {
                kept.push(error);
            }
        }
        Self(kept)
    }

    pub(crate) fn push(&mut self, kind: ErrorKind, field: &Path<'_>, value: Option<String>, detail: impl Into<String>) {
        self.0.push(FieldError { kind, field: field.to_string(), value, detail: detail.into() });
    }

    pub(crate) fn required(&mut self, field: &Path<'_>, detail: impl Into<String>) {
        self.push(ErrorKind::Required, field, None, detail);
    }

    pub(crate) fn forbidden(&mut self, field: &Path<'_>, detail: impl Into<String>) {
        self.push(ErrorKind::Forbidden, field, None, detail);
    }

    /// An invalid value that is too large, or too dull, to be printed.
    pub(crate) fn invalid(&mut self, field: &Path<'_>, detail: impl Into<String>) {
        self.push(ErrorKind::Invalid, field, None, detail);
    }

    pub(crate) fn invalid_number(&mut self, field: &Path<'_>, value: impl Into<i64>, detail: impl Into<String>) {
        self.push(ErrorKind::Invalid, field, Some(value.into().to_string()), detail);
    }

    pub(crate) fn invalid_text(&mut self, field: &Path<'_>, value: &str, detail: impl Into<String>) {
        self.push(ErrorKind::Invalid, field, Some(quoted(value)), detail);
    }

    /// One `Invalid` per broken rule of a text format.
    pub(crate) fn invalid_format(&mut self, field: &Path<'_>, value: &str, violations: Vec<String>) {
        for violation in violations {
            self.invalid_text(field, value, violation);
        }
    }

    pub(crate) fn duplicate(&mut self, field: &Path<'_>, value: &str) {
        self.push(ErrorKind::Duplicate, field, Some(quoted(value)), "");
    }

    pub(crate) fn not_found(&mut self, field: &Path<'_>, value: &str) {
        self.push(ErrorKind::NotFound, field, Some(quoted(value)), "");
    }

    pub(crate) fn not_supported(&mut self, field: &Path<'_>, value: &str, supported: &[&str]) {
        let supported: Vec<String> = supported.iter().map(|value| quoted(value)).collect();
        let detail = format!("supported values: {}", supported.join(", "));
        self.push(ErrorKind::NotSupported, field, Some(quoted(value)), detail);
    }

    pub(crate) fn too_long(&mut self, field: &Path<'_>, limit_bytes: usize) {
        self.push(ErrorKind::TooLong, field, None, format!("may not be more than {limit_bytes} bytes"));
    }

    pub(crate) fn too_many(&mut self, field: &Path<'_>, count: usize, limit: usize) {
        self.push(ErrorKind::TooMany, field, Some(count.to_string()), format!("must have at most {limit} items"));
    }

    pub(crate) fn non_negative(&mut self, field: &Path<'_>, value: impl Into<i64>) {
        let value = value.into();
        if value < 0 {
            self.invalid_number(field, value, "must be greater than or equal to 0");
        }
    }
}

/// Longer values are cut: an index string can have megabytes, and nobody reads them in an error.
const PRINTED_VALUE_MAX_CHARS: usize = 256;

fn quoted(value: &str) -> String {
    match value.char_indices().nth(PRINTED_VALUE_MAX_CHARS) {
        Some((end, _)) => format!("{:?}...", &value[..end]),
        None => format!("{value:?}"),
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines: Vec<String> = Vec::new();
        for error in self {
            let line = error.to_string();
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        match lines.as_slice() {
            [only] => f.write_str(only),
            lines => write!(f, "[{}]", lines.join(", ")),
        }
    }
}

impl std::error::Error for Errors {}

impl<'a> IntoIterator for &'a Errors {
    type Item = &'a FieldError;
    type IntoIter = std::slice::Iter<'a, FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl IntoIterator for Errors {
    type Item = FieldError;
    type IntoIter = std::vec::IntoIter<FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
