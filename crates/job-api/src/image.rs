//! Image references, as far as the default of `imagePullPolicy` depends on them.

const DEFAULT_DOMAIN: &str = "docker.io";
const PATH_MAX_BYTES: usize = 255;
const TAG_MAX_BYTES: usize = 128;

/// True when the reference is well formed and means the tag `latest`, by name or by leaving tag and digest out.
/// Only then does the server default the pull policy to `Always`; a malformed reference gets `IfNotPresent`.
pub(crate) fn means_latest(image: &str) -> bool {
    if image.len() == 64 && image.bytes().all(is_lower_hex) {
        return false;
    }
    let (domain, remainder) = split_domain(image);
    let (named, digest) = match remainder.split_once('@') {
        Some((named, digest)) => (named.to_owned(), Some(digest)),
        None => (remainder, None),
    };
    let (path, tag) = match named.rsplit_once('/').map_or(named.as_str(), |(_, last)| last).split_once(':') {
        Some((_, tag)) => (&named[..named.len() - tag.len() - 1], Some(tag)),
        None => (named.as_str(), None),
    };
    is_name(domain, path)
        && tag.is_none_or(is_tag)
        && digest.is_none_or(is_digest)
        && tag.map_or(digest.is_none(), |tag| tag == "latest")
}

/// The first part is a registry only if it looks like a host; `library/` stands before bare names of the default one.
fn split_domain(image: &str) -> (&str, String) {
    let (domain, path) = match image.split_once('/') {
        Some(("index.docker.io", path)) => (DEFAULT_DOMAIN, path),
        Some((host, path))
            if host == "localhost" || host.contains(['.', ':']) || host.chars().any(char::is_uppercase) =>
        {
            (host, path)
        }
        _ => (DEFAULT_DOMAIN, image),
    };
    let prefix = if domain == DEFAULT_DOMAIN && !path.contains('/') { "library/" } else { "" };
    (domain, format!("{prefix}{path}"))
}

fn is_name(domain: &str, path: &str) -> bool {
    let path_bytes = if is_host(domain) {
        path.len()
    } else if is_path_component(domain) {
        domain.len() + 1 + path.len()
    } else {
        return false;
    };
    path_bytes <= PATH_MAX_BYTES && path.split('/').all(is_path_component)
}

fn is_host(domain: &str) -> bool {
    let (host, port) = match domain.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) => {
            let is_address =
                !address.is_empty() && address.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':');
            return is_address && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port));
        }
        None => domain.split_once(':').map_or((domain, None), |(host, port)| (host, Some(port))),
    };
    port.is_none_or(is_port) && host.split('.').all(is_host_label)
}

fn is_port(port: &str) -> bool {
    !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_host_label(label: &str) -> bool {
    let is_edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = label.as_bytes();
    is_edge(bytes.first())
        && is_edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
}

/// Lower case letters and digits, separated by one dot, one or two underscores, or any number of dashes.
fn is_path_component(component: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = component.as_bytes();
    let is_edge = |byte: Option<&u8>| byte.is_some_and(|byte| is_word(*byte));
    is_edge(bytes.first())
        && is_edge(bytes.last())
        && bytes
            .split(|byte| is_word(*byte))
            .all(|separator| matches!(separator, b"" | b"." | b"_" | b"__") || separator.iter().all(|b| *b == b'-'))
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let bytes = tag.as_bytes();
    bytes.first().is_some_and(is_word)
        && bytes.len() <= TAG_MAX_BYTES
        && bytes.iter().all(|byte| is_word(byte) || b".-".contains(byte))
}

fn is_digest(digest: &str) -> bool {
    let hex_digits = match digest.split_once(':') {
        Some(("sha256", hex)) => (hex, 64),
        Some(("sha384", hex)) => (hex, 96),
        Some(("sha512", hex)) => (hex, 128),
        _ => return false,
    };
    hex_digits.0.len() == hex_digits.1 && hex_digits.0.bytes().all(is_lower_hex)
}

fn is_lower_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::means_latest;

    #[test]
    fn only_well_formed_references_to_latest_count() {
        let digest = format!("busybox@sha256:{}", "a".repeat(64));
        let both = format!("busybox:latest@sha256:{}", "a".repeat(64));
        let hex = "a".repeat(64);
        for (image, expected) in [
            ("busybox", true),
            ("busybox:latest", true),
            ("example.com:5000/team/app", true),
            ("localhost/app:latest", true),
            ("[::1]:5000/app", true),
            ("a__b/c-d.e", true),
            (&both, true),
            ("busybox:1.36", false),
            (&digest, false),
            (&hex, false),
            ("", false),
            ("Busybox", false),
            ("UPPER/app", true),
            ("busybox:", false),
            ("busybox:-x", false),
            ("a___b", false),
            ("a//b", false),
            (" busybox", false),
            ("busybox:latest@sha256:abc", false),
            ("example.com/", false),
        ] {
            assert_eq!(means_latest(image), expected, "{image:?}");
        }
    }
}
