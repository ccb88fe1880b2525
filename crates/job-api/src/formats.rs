//! Text formats that the API server knows: DNS names, label keys and values, port and variable names.
//!
//! Each function returns the rules that a value breaks. The server reports one error per broken rule, so the number
//! matters: a 300 character name with a capital letter is two errors.

/// Longest DNS label, label value, and name part of a label key.
pub(crate) const LABEL_MAX_BYTES: usize = 63;
const SUBDOMAIN_MAX_BYTES: usize = 253;
const PORT_NAME_MAX_BYTES: usize = 15;

fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} bytes")
}

fn is_lower_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Non-empty, only bytes that pass `inner`, first and last pass `edge`.
fn is_framed(value: &str, edge: fn(u8) -> bool, inner: fn(u8) -> bool) -> bool {
    match value.as_bytes() {
        [] => false,
        [only] => edge(*only),
        [first, middle @ .., last] => edge(*first) && edge(*last) && middle.iter().all(|byte| inner(*byte)),
    }
}

fn has_label_shape(value: &str) -> bool {
    is_framed(value, is_lower_alphanumeric, |byte| is_lower_alphanumeric(byte) || byte == b'-')
}

fn has_subdomain_shape(value: &str) -> bool {
    value.split('.').all(has_label_shape)
}

fn has_label_key_shape(value: &str) -> bool {
    is_framed(value, |byte| byte.is_ascii_alphanumeric(), |byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

pub(crate) fn dns_label(value: &str) -> Vec<String> {
    let mut broken = Vec::new();
    if value.len() > LABEL_MAX_BYTES {
        broken.push(too_long(LABEL_MAX_BYTES));
    }
    if !has_label_shape(value) {
        broken.push(if has_subdomain_shape(value) {
            "must not contain dots".to_owned()
        } else {
            "must be a DNS label: lower case letters, digits and '-', with a letter or digit at both ends".to_owned()
        });
    }
    broken
}

/// Labels of a subdomain are not limited to 63 bytes here; only the whole is, to 253.
pub(crate) fn dns_subdomain(value: &str) -> Vec<String> {
    let mut broken = Vec::new();
    if value.len() > SUBDOMAIN_MAX_BYTES {
        broken.push(too_long(SUBDOMAIN_MAX_BYTES));
    }
    if !has_subdomain_shape(value) {
        broken.push("must be a DNS subdomain: DNS labels in lower case, joined by '.'".to_owned());
    }
    broken
}

/// A label key, also called a qualified name: `name` or `dns.subdomain/name`.
pub(crate) fn label_key(value: &str) -> Vec<String> {
    const SHAPE: &str = "must be letters, digits, '-', '_' and '.', with a letter or digit at both ends";
    let mut broken = Vec::new();
    let mut parts = value.split('/');
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => name,
        (Some(prefix), Some(name), None) => {
            if prefix.is_empty() {
                broken.push("prefix part must be non-empty".to_owned());
            } else {
                broken.extend(dns_subdomain(prefix).into_iter().map(|rule| format!("prefix part {rule}")));
            }
            name
        }
        _ => return vec![format!("name {SHAPE}, with at most one DNS subdomain prefix and '/' before it")],
    };
    if name.is_empty() {
        broken.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX_BYTES {
        broken.push(format!("name part {}", too_long(LABEL_MAX_BYTES)));
    }
    if !has_label_key_shape(name) {
        broken.push(format!("name part {SHAPE}"));
    }
    broken
}

pub(crate) fn label_value(value: &str) -> Vec<String> {
    let mut broken = Vec::new();
    if value.len() > LABEL_MAX_BYTES {
        broken.push(too_long(LABEL_MAX_BYTES));
    }
    if !value.is_empty() && !has_label_key_shape(value) {
        broken.push(
            "a label value must be empty or letters, digits, '-', '_' and '.', with a letter or digit at both ends"
                .to_owned(),
        );
    }
    broken
}

pub(crate) fn port_name(value: &str) -> Vec<String> {
    let bytes = value.as_bytes();
    let rules = [
        (bytes.len() > PORT_NAME_MAX_BYTES, too_long(PORT_NAME_MAX_BYTES)),
        (
            bytes.is_empty() || !bytes.iter().all(|byte| is_lower_alphanumeric(*byte) || *byte == b'-'),
            "must contain only lower case letters, digits and '-'".to_owned(),
        ),
        (!bytes.iter().any(u8::is_ascii_lowercase), "must contain at least one letter (a-z)".to_owned()),
        (value.contains("--"), "must not contain consecutive hyphens".to_owned()),
        (value.starts_with('-') || value.ends_with('-'), "must not begin or end with a hyphen".to_owned()),
    ];
    rules.into_iter().filter_map(|(is_broken, rule)| is_broken.then_some(rule)).collect()
}

pub(crate) fn port_number(value: i32) -> Vec<String> {
    if (1..=65535).contains(&value) { Vec::new() } else { vec!["must be between 1 and 65535, inclusive".to_owned()] }
}

/// Since 1.32 every printable ASCII character but `=` may be in the name of a variable.
pub(crate) fn variable_name(value: &str) -> Vec<String> {
    let is_fine = value.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=');
    if is_fine { Vec::new() } else { vec!["must consist only of printable ASCII characters other than '='".to_owned()] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_broken_rule_counts() {
        let long = "a".repeat(64);
        let longest = "a".repeat(254);
        for (format, value, broken) in [
            (dns_label as fn(&str) -> Vec<String>, "a-1", 0),
            (dns_label, "", 1),
            (dns_label, "-a", 1),
            (dns_label, "a.b", 1),
            (dns_label, &long, 1),
            (dns_label, "A", 1),
            (dns_subdomain, "a.b-c.d", 0),
            (dns_subdomain, &long, 0),
            (dns_subdomain, &longest, 1),
            (dns_subdomain, "a..b", 1),
            (dns_subdomain, "a.", 1),
            (label_key, "example.com/Name_1.x", 0),
            (label_key, "", 2),
            (label_key, "/x", 1),
            (label_key, "A.b/", 3),
            (label_key, "a/b/c", 1),
            (label_key, &long, 1),
            (label_value, "", 0),
            (label_value, "a.", 1),
            (label_value, &long, 1),
            (port_name, "http-1", 0),
            (port_name, "80", 1),
            (port_name, "-", 2),
            (port_name, "A--", 4),
            (port_name, "a123456789012345", 1),
            (variable_name, "MY VAR-1", 0),
            (variable_name, "A=B", 1),
            (variable_name, "ä", 1),
        ] {
            assert_eq!(format(value).len(), broken, "{value:?}: {:?}", format(value));
        }
    }
}
