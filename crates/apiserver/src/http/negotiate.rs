//! What the client wants to get: plain objects, metadata only, or rows of a table.

use http::HeaderMap;
use http::header::ACCEPT;

use crate::error::ApiError;

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Object,
    /// `PartialObjectMetadata`
    Metadata,
    Table(IncludeObject),
}

/// How much of the object comes along with a table row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    None,
    Metadata,
    Object,
}

/// One alternative of an Accept header.
struct Clause<'a> {
    media: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl Clause<'_> {
    fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    fn is_json(&self) -> bool {
        matches!(self.media, "application/json" | "application/*" | "*/*")
    }
}

fn clauses(accept: &str) -> impl Iterator<Item = Clause<'_>> {
    accept.split(',').map(|clause| {
        let mut parts = clause.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        Clause { media, parameters: parts.filter_map(|part| part.split_once('=')).collect() }
    })
}

fn accept(headers: &HeaderMap) -> &str {
    headers.get(ACCEPT).and_then(|value| value.to_str().ok()).filter(|text| !text.is_empty()).unwrap_or("*/*")
}

/// The first alternative that this server can give.
pub(crate) fn negotiate(headers: &HeaderMap, include: Option<&str>) -> Result<Form, ApiError> {
    for clause in clauses(accept(headers)) {
        if !clause.is_json() {
            continue;
        }
        let version = clause.parameter("v").unwrap_or("v1");
        match clause.parameter("as") {
            None => return Ok(Form::Object),
            Some("Table") if version == "v1" => {
                return Ok(Form::Table(match include {
                    Some("None") => IncludeObject::None,
                    Some("Object") => IncludeObject::Object,
                    _ => IncludeObject::Metadata,
                }));
            }
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") if version == "v1" => {
                return Ok(Form::Metadata);
            }
            Some(_) => {}
        }
    }
    Err(ApiError::not_acceptable("application/json"))
}

/// Whether discovery may be answered with the aggregated document, and in which of its versions.
pub(crate) fn wants_aggregated_discovery(headers: &HeaderMap) -> Option<&'static str> {
    for clause in clauses(accept(headers)) {
        if clause.is_json() {
            match (clause.parameter("as"), clause.parameter("v")) {
                (Some("APIGroupDiscoveryList"), Some("v2")) => return Some("v2"),
                (Some("APIGroupDiscoveryList"), Some("v2beta1")) => return Some("v2beta1"),
                (None, _) => return None,
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_alternative_we_can_give_is_taken() {
        let table = Form::Table(IncludeObject::Metadata);
        let cases = [
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Ok(table)),
            (
                "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json;as=Table;v=v1;g=meta.k8s.io",
                Ok(table),
            ),
            ("application/vnd.kubernetes.protobuf,application/json", Ok(Form::Object)),
            ("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", Ok(Form::Metadata)),
            ("*/*", Ok(Form::Object)),
            ("application/vnd.kubernetes.protobuf", Err(406)),
            ("text/html", Err(406)),
        ];
        for (accept, expected) in cases {
            let headers = [(ACCEPT, accept.parse().unwrap())].into_iter().collect();
            assert_eq!(negotiate(&headers, None).map_err(|error| error.code), expected, "{accept}");
        }
    }
}
