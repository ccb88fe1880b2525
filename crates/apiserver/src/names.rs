//! The name formats of Kubernetes. An error is the sentence the API server answers.

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// An RFC 1123 label: what namespaces are called.
pub(crate) fn dns_label(name: &str) -> Result<(), String> {
    if name.len() > 63 {
        return Err("must be no more than 63 characters".into());
    }
    if is_dns_label(name) { Ok(()) } else { Err(LABEL.into()) }
}

/// An RFC 1123 subdomain: what most objects are called.
pub(crate) fn dns_subdomain(name: &str) -> Result<(), String> {
    if name.len() > 253 {
        return Err("must be no more than 253 characters".into());
    }
    if name.split('.').all(is_dns_label) { Ok(()) } else { Err(SUBDOMAIN.into()) }
}

/// A name that may be a path segment: what RBAC objects are called.
pub(crate) fn path_segment(name: &str) -> Result<(), String> {
    if name == "." || name == ".." {
        return Err(format!("may not be '{name}'"));
    }
    match ['/', '%'].iter().find(|c| name.contains(**c)) {
        Some(c) => Err(format!("may not contain '{c}'")),
        None => Ok(()),
    }
}

/// `prefix/name` or `name`: keys of labels and annotations, finalizers.
pub(crate) fn qualified_name(text: &str) -> Result<(), String> {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    if let Some(prefix) = prefix {
        if prefix.is_empty() {
            return Err("prefix part must be non-empty".into());
        }
        dns_subdomain(prefix).map_err(|why| format!("prefix part {why}"))?;
    }
    if name.is_empty() {
        return Err("name part must be non-empty".into());
    }
    if name.len() > 63 {
        return Err("name part must be no more than 63 characters".into());
    }
    if is_word(name) { Ok(()) } else { Err(QUALIFIED.into()) }
}

/// What may stand behind a label key.
pub(crate) fn label_value(text: &str) -> Result<(), String> {
    if text.len() > 63 {
        return Err("must be no more than 63 characters".into());
    }
    if text.is_empty() || is_word(text) { Ok(()) } else { Err(LABEL_VALUE.into()) }
}

fn is_dns_label(text: &str) -> bool {
    let edge = |c: Option<u8>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let bytes = text.as_bytes();
    edge(bytes.first().copied())
        && edge(bytes.last().copied())
        && bytes.iter().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == b'-')
}

fn is_word(text: &str) -> bool {
    let edge = |c: Option<u8>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let bytes = text.as_bytes();
    edge(bytes.first().copied())
        && edge(bytes.last().copied())
        && bytes.iter().all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_by_their_format() {
        for good in ["a", "a-b", "a.b", "1", "a.b-c.d"] {
            assert!(dns_subdomain(good).is_ok(), "{good}");
        }
        for bad in ["", "A", "-a", "a-", "a..b", "a_b", "a/b"] {
            assert!(dns_subdomain(bad).is_err(), "{bad}");
        }
        assert!(dns_label("a.b").is_err());
        for good in ["app", "example.com/App_1", "x.y"] {
            assert!(qualified_name(good).is_ok(), "{good}");
        }
        for bad in ["", "/a", "a/", "a/b/c", "Ex.com/a", "-a", "a b"] {
            assert!(qualified_name(bad).is_err(), "{bad}");
        }
        assert!(label_value("").is_ok() && label_value("x_y").is_ok() && label_value("x y").is_err());
        assert!(path_segment("system:node").is_ok() && path_segment("a/b").is_err() && path_segment("..").is_err());
    }
}
