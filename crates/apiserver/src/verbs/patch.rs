//! patch: a change described by the client, made to whatever is stored.

use serde_json::Value;

use super::update::{Origin, addressed};
use crate::error::ApiError;
use crate::http::{FieldValidation, Reply, WriteOptions, media_type, parse_json, settle};
use crate::metadata;
use crate::patch::{self, strategic};
use crate::server::{Call, Inner};

/// What is told to clients that send something else.
const ACCEPTED: &str =
    "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json";

impl Inner {
    pub(super) fn patch(&self, call: &Call) -> Result<Reply, ApiError> {
        let options = call.query.write_options("PatchOptions")?;
        let change = Change::read(call)?;
        let warnings = std::cell::RefCell::new(Vec::new());
        let written = self.rewrite(call, &options, Origin::Patch, &|old| {
            let (new, told) = change.apply(call, old, &options)?;
            *warnings.borrow_mut() = told;
            Ok(new)
        })?;
        self.written(call, &written).map(|reply| reply.with_warnings(warnings.take()))
    }
}

/// A patch that was read, not yet applied.
enum Change {
    Json(json_patch::Patch),
    Merge(Value),
    Strategic(Value),
}

impl Change {
    fn read(call: &Call) -> Result<Self, ApiError> {
        let unreadable =
            |error: &dyn std::fmt::Display| ApiError::bad_request(format!("error decoding patch: {error}"));
        let tree = || {
            let (tree, _) = parse_json(&call.body).map_err(|error| unreadable(&error))?;
            if tree.is_object() { Ok(tree) } else { Err(unreadable(&"a patch of this type is a JSON object")) }
        };
        match media_type(&call.parts.headers) {
            "application/json-patch+json" => {
                serde_json::from_slice(&call.body).map(Self::Json).map_err(|error| unreadable(&error))
            }
            "application/merge-patch+json" => tree().map(Self::Merge),
            // Merge keys come from Go types, and custom resources have none.
            "application/strategic-merge-patch+json" if !call.resource.is_custom() => tree().map(Self::Strategic),
            "application/strategic-merge-patch+json" => Err(ApiError::unsupported_media_type(ACCEPTED)),
            _ => Err(ApiError::unsupported_patch_type(ACCEPTED)),
        }
    }

    /// The patched object in normal form, and warnings about it.
    fn apply(&self, call: &Call, old: &Value, options: &WriteOptions) -> Result<(Value, Vec<String>), ApiError> {
        let mut new = old.clone();
        match self {
            Self::Json(operations) => json_patch::patch(&mut new, operations).map_err(|error| {
                ApiError::unprocessable(format!(
                    "the server rejected our request due to an error in our request: {error}"
                ))
            })?,
            Self::Merge(tree) => patch::merge(&mut new, tree),
            Self::Strategic(tree) => {
                strategic::merge(&call.resource.schema, &mut new, tree).map_err(ApiError::bad_request)?;
            }
        }
        // The stored version is in `old` and thus in `new`: only one that the patch itself brought is a lock.
        if metadata::text(&new, "resourceVersion") == metadata::text(old, "resourceVersion") {
            metadata::remove(&mut new, "resourceVersion");
        }
        if new["kind"] != old["kind"] || new["apiVersion"] != old["apiVersion"] {
            return Err(ApiError::bad_request("a patch cannot change kind or apiVersion of an object"));
        }
        let new = addressed(call, new)?;
        let decoded = settle(&call.resource, new, &[], options.field_validation).map_err(|error| {
            let is_strictness =
                options.field_validation == FieldValidation::Strict && error.message.contains("strict decoding error");
            if is_strictness { ApiError::invalid_patch(&error.message) } else { error }
        })?;
        Ok((decoded.object, decoded.warnings))
    }
}
