//! `spec.managedBy`: who runs this Job.

use std::fmt;

use crate::{Errors, formats, path::Path};

/// The value that means the cluster's own Job controller, exactly as if the field were not set.
pub const RESERVED: &str = "kubernetes.io/job-controller";

/// The value may not have more bytes than this.
pub const MAX_BYTES: usize = 63;

/// Who runs a Job.
///
/// ```
/// use job_api::managed_by::{ManagedBy, RESERVED};
///
/// assert_eq!(ManagedBy::parse(None)?, ManagedBy::Standard);
/// assert_eq!(ManagedBy::parse(Some(RESERVED))?, ManagedBy::Standard);
/// assert_eq!(ManagedBy::parse(Some("example.com/queue"))?, ManagedBy::Delegated("example.com/queue".to_owned()));
///
/// let errors = ManagedBy::parse(Some("queue")).unwrap_err();
/// assert_eq!(errors.to_string(), r#"spec.managedBy: Invalid value: "queue": must be a domain-prefixed path (such as "acme.io/foo")"#);
/// # Ok::<(), job_api::Errors>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ManagedBy {
    /// The cluster's own Job controller: the field is absent or [`RESERVED`].
    Standard,
    /// Another controller, by the name that it answers to. The cluster's own controller steps aside.
    Delegated(String),
}

impl ManagedBy {
    /// Reads the field of a Job that a user is about to send; refuses what the server would refuse.
    pub fn parse(value: Option<&str>) -> Result<Self, Errors> {
        value.map_or(Ok(()), |value| validate(value).into_result()).map(|()| Self::of(value))
    }

    /// Reads the field of a Job that a server has already accepted.
    pub fn of(value: Option<&str>) -> Self {
        match value {
            None | Some(RESERVED) => Self::Standard,
            Some(name) => Self::Delegated(name.to_owned()),
        }
    }

    /// True when the controller called `name` is to run the Job.
    pub fn is_delegated_to(&self, name: &str) -> bool {
        matches!(self, Self::Delegated(controller) if controller == name)
    }
}

impl fmt::Display for ManagedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Standard => f.write_str(RESERVED),
            Self::Delegated(name) => f.write_str(name),
        }
    }
}

/// What the server would say about this value of `spec.managedBy`. [`RESERVED`] is accepted.
pub fn validate(value: &str) -> Errors {
    let mut errors = Errors::new();
    validate_at(&Path::root("spec.managedBy"), value, &mut errors);
    errors
}

pub(crate) fn validate_at(field: &Path<'_>, value: &str, errors: &mut Errors) {
    validate_domain_prefixed_path(field, value, errors);
    if value.len() > MAX_BYTES {
        errors.too_long(field, MAX_BYTES);
    }
}

fn validate_domain_prefixed_path(field: &Path<'_>, value: &str, errors: &mut Errors) {
    if value.is_empty() {
        return errors.required(field, "");
    }
    match value.split_once('/') {
        Some((host, path)) if !host.is_empty() && !path.is_empty() => {
            errors.invalid_format(field, host, formats::dns_subdomain(host));
            if !path.bytes().all(is_path_byte) {
                errors.invalid_text(field, path, "the part after '/' must be made of RFC 3986 path characters");
            }
        }
        _ => errors.invalid_text(field, value, "must be a domain-prefixed path (such as \"acme.io/foo\")"),
    }
}

/// Percent signs are allowed, but what follows them is not decoded.
fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind::{self, Invalid, Required, TooLong};

    #[test]
    fn the_value_is_judged_as_the_server_judges_it() {
        let sixty_three = format!("a.b/{}", "c".repeat(59));
        let sixty_four = format!("a.b/{}", "c".repeat(60));
        let long_without_slash = "a".repeat(64);
        let long_host = format!("{}/x", "a".repeat(254));
        let table: &[(&str, &[ErrorKind])] = &[
            ("example.com/queue", &[]),
            (RESERVED, &[]),
            ("a/b", &[]),
            ("a.b/c/d//e/", &[]),
            ("a.b/%zz~!$&'()*+,;=:", &[]),
            (&sixty_three, &[]),
            ("", &[Required]),
            ("queue", &[Invalid]),
            ("/queue", &[Invalid]),
            ("example.com/", &[Invalid]),
            ("Example.com/queue", &[Invalid]),
            ("example.com/a b", &[Invalid]),
            ("example.com/a?b", &[Invalid]),
            ("example.com/ä", &[Invalid]),
            ("-a/@", &[Invalid, Invalid]),
            (&sixty_four, &[TooLong]),
            (&long_without_slash, &[Invalid, TooLong]),
            (&long_host, &[Invalid, TooLong]),
        ];
        for (value, expected) in table {
            let errors = validate(value);
            assert_eq!(errors.iter().map(|error| error.kind).collect::<Vec<_>>(), *expected, "{value:?}: {errors}");
            assert!(errors.iter().all(|error| error.field == "spec.managedBy"));
        }
    }

    #[test]
    fn absent_and_reserved_mean_the_same() {
        assert_eq!(ManagedBy::of(None), ManagedBy::of(Some(RESERVED)));
        assert!(ManagedBy::of(Some("a/b")).is_delegated_to("a/b"));
        assert!(!ManagedBy::Standard.is_delegated_to(RESERVED));
    }
}
