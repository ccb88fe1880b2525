//! From an HTTP request to a verb on a resource, and back: paths, query parameters, media types, bodies.

mod body;
mod compress;
mod negotiate;
mod query;
mod respond;
mod route;

pub(crate) use body::{Decoded, decode, decode_configuration, media_type, parse, parse_json, protobuf, settle};
pub(crate) use compress::accepts_gzip;
pub(crate) use negotiate::{Form, IncludeObject, negotiate, wants_aggregated_discovery};
pub(crate) use query::{FieldValidation, ListQuery, Query, VersionMatch, WriteOptions};
pub(crate) use respond::Reply;
pub use respond::ResponseBody;
pub(crate) use route::{ResourcePath, Target, route};
