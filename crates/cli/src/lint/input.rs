//! Reading manifests: many documents, YAML or JSON, within bounds.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::located::Located;
use super::report::Unreadable;

/// A hundred of the largest objects that a server stores are not larger than this.
const INPUT_MAX_BYTES: u64 = 16 * 1024 * 1024;
/// A Job is nested about ten levels deep.
const DEPTH_MAX: usize = 64;
/// What aliases of a document may grow to.
const ALIAS_EVENTS_MAX: usize = 100_000;
const NODES_MAX: usize = 250_000;

/// One object to be judged, and where it comes from.
pub(super) struct Document {
    pub(super) source: String,
    /// Counted from 1; items of a `List` count one by one.
    pub(super) number: usize,
    pub(super) content: Located,
}

/// Reads a file, or standard input for `-`. What can be read is returned beside the first thing that cannot.
pub(super) fn read(path: &Path) -> (Vec<Document>, Option<Unreadable>) {
    let source = if path.as_os_str() == "-" { "standard input".to_owned() } else { path.display().to_string() };
    let unreadable = |why: String| Unreadable { source: source.clone(), document: None, field: None, line: None, why };
    match read_text(path).map(|text| parse(&source, &text)) {
        Ok((documents, None)) if documents.is_empty() => {
            (documents, Some(unreadable("there is no document in it".to_owned())))
        }
        Ok(outcome) => outcome,
        Err(error) => (Vec::new(), Some(unreadable(error.to_string()))),
    }
}

fn read_text(path: &Path) -> io::Result<String> {
    let reader: Box<dyn Read> =
        if path.as_os_str() == "-" { Box::new(io::stdin().lock()) } else { Box::new(File::open(path)?) };
    let mut bytes = Vec::new();
    reader.take(INPUT_MAX_BYTES + 1).read_to_end(&mut bytes)?;
    let broken = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    if bytes.len() as u64 > INPUT_MAX_BYTES {
        return Err(broken(format!("more than {} MiB: split the file", INPUT_MAX_BYTES / 1024 / 1024)));
    }
    String::from_utf8(bytes).map_err(|error| {
        broken(format!("neither YAML nor JSON: byte {} is not UTF-8", error.utf8_error().valid_up_to() + 1))
    })
}

fn parse(source: &str, text: &str) -> (Vec<Document>, Option<Unreadable>) {
    let is_json = text.trim_start().starts_with('{');
    match parse_yaml(source, text) {
        // Several JSON objects in a row are no YAML.
        (_, Some(_)) if is_json => parse_json(source, text),
        outcome => outcome,
    }
}

fn parse_yaml(source: &str, text: &str) -> (Vec<Document>, Option<Unreadable>) {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: DEPTH_MAX, max_nodes: NODES_MAX },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: ALIAS_EVENTS_MAX },
        with_snippet: false,
    };
    let mut documents = Documents::new(source);
    let mut reader = text.as_bytes();
    for parsed in serde_saphyr::read_with_options::<_, Located>(&mut reader, options) {
        match parsed {
            Ok(content) => documents.push(content),
            Err(error) => {
                let line = error.location().map(|location| location.line()).filter(|line| *line > 0);
                return documents.broken(line, error.to_string());
            }
        }
    }
    (documents.list, None)
}

fn parse_json(source: &str, text: &str) -> (Vec<Document>, Option<Unreadable>) {
    let mut documents = Documents::new(source);
    for parsed in serde_json::Deserializer::from_str(text).into_iter() {
        match parsed {
            Ok(value) => documents.push(Located::without_lines(value)),
            Err(error) => return documents.broken(Some(error.line() as u64), error.to_string()),
        }
    }
    (documents.list, None)
}

struct Documents<'a> {
    source: &'a str,
    list: Vec<Document>,
}

impl<'a> Documents<'a> {
    fn new(source: &'a str) -> Self {
        Self { source, list: Vec::new() }
    }

    fn push(&mut self, content: Located) {
        let is_list = content.text("apiVersion") == Some("v1") && content.text("kind") == Some("List");
        let contents = if is_list { content.take_list("items") } else { vec![content] };
        for content in contents {
            let number = self.list.len() + 1;
            self.list.push(Document { source: self.source.to_owned(), number, content });
        }
    }

    fn broken(self, line: Option<u64>, why: String) -> (Vec<Document>, Option<Unreadable>) {
        let document = Some(self.list.len() + 1);
        let unreadable = Unreadable { source: self.source.to_owned(), document, field: None, line, why };
        (self.list, Some(unreadable))
    }
}
