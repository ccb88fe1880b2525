//! What differs from run to run, replaced by what it is.

/// The letters of Kubernetes' generated names.
const GENERATED: &str = "bcdfghjklmnpqrstvwxz2456789";

/// Replaces ages, times, UIDs, ports, processes and generated names.
pub(crate) fn settle(text: &str) -> String {
    text.split_inclusive('\n').map(settle_line).collect()
}

/// Columns are as wide as what they hold.
pub(crate) fn squeeze(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn settle_line(line: &str) -> String {
    let mut settled = String::new();
    let mut before = String::new();
    for piece in line.split_inclusive([' ', '\n', '"', ',', ';', '(', ')', '/', '=', '\'']) {
        let word = piece.trim_end_matches([' ', '\n', '"', ',', ';', '(', ')', '/', '=', ':', '\'']);
        let shown = if before == "process" && is_number(word) { "<pid>".to_owned() } else { settle_word(word) };
        settled.push_str(&shown);
        settled.push_str(&piece[word.len()..]);
        if !word.is_empty() {
            word.clone_into(&mut before);
        }
    }
    settled
}

fn settle_word(word: &str) -> String {
    if is_age(word) {
        return "<age>".to_owned();
    }
    if is_uid(word) {
        return "<uid>".to_owned();
    }
    if word.len() >= 20 && word.ends_with('Z') && word.as_bytes()[10] == b'T' && word.starts_with("20") {
        return "<time>".to_owned();
    }
    if let Some((host, port)) = word.rsplit_once(':')
        && ["127.0.0.1", "localhost"].contains(&host)
        && is_number(port)
    {
        return format!("{host}:<port>");
    }
    if let Some((_, mark)) = word.rsplit_once('_')
        && mark.len() == 16
        && mark.bytes().all(|byte| byte.is_ascii_hexdigit())
    {
        return "<holder>".to_owned();
    }
    if word.starts_with("jobferry-up-") {
        return "jobferry-up-<x>".to_owned();
    }
    // What `worker join` makes is named after the management cluster.
    if let Some(id) = word.strip_prefix("jobferry-").and_then(|rest| rest.get(..8))
        && id.bytes().all(|byte| byte.is_ascii_hexdigit())
    {
        return word.replace(id, "<id>");
    }
    match word.rsplit_once('-') {
        Some((name, end)) if end.len() == 5 && end.chars().all(|c| GENERATED.contains(c)) => format!("{name}-<x>"),
        _ => word.to_owned(),
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_age(word: &str) -> bool {
    word.strip_suffix(['s', 'm', 'h', 'd']).is_some_and(is_number)
}

fn is_uid(word: &str) -> bool {
    let parts: Vec<&str> = word.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    lengths == [8, 4, 4, 4, 12] && parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
