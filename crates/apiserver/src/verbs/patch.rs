//! patch: a change described by the client, made to whatever is stored.

use serde_json::Value;

use super::update::{Origin, addressed};
use crate::apply;
use crate::error::{ApiError, Cause};
use crate::http::{
    Decoded, FieldValidation, Reply, WriteOptions, decode_configuration, media_type, parse_json, settle,
};
use crate::metadata;
use crate::patch::{self, strategic};
use crate::server::{Call, Inner};

/// What is told to clients that send something else.
const ACCEPTED: &str = "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml";

impl Inner {
    pub(super) fn patch(&self, call: &Call) -> Result<Reply, ApiError> {
        let options = call.query.write_options("PatchOptions", call.user_agent())?;
        if media_type(&call.parts.headers) == "application/apply-patch+yaml" {
            return self.apply(call, &options);
        }
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

impl Inner {
    /// Server-side apply: creates the object, or merges the configuration into it.
    fn apply(&self, call: &Call, options: &WriteOptions) -> Result<Reply, ApiError> {
        if !call.query.names_manager() {
            let cause = Cause::required("fieldManager", "is required for apply patch");
            return Err(ApiError::invalid_options("PatchOptions", &cause));
        }
        let Decoded { object: mut config, mut warnings } =
            decode_configuration(&call.resource, &call.body, options.field_validation)?;
        if metadata::text(&config, "name").is_empty() {
            metadata::set(&mut config, "name", call.key().name.into());
        }
        let config = addressed(call, config)?;
        let is_new = self.store.get(&call.resource.table, &call.key()).is_none();
        if is_new && call.subresource.is_none() {
            let first = apply::create(&self.writer(call, options), config);
            let whole = settle(&call.resource, first, &[], FieldValidation::Ignore)?.object;
            let namespace = call.namespace.as_deref();
            let written = self.create_object(&call.resource, namespace, whole, options, &mut warnings)?;
            let reply = self.written(call, &written)?;
            return Ok(reply.with_code(http::StatusCode::CREATED).with_warnings(warnings));
        }
        let version = metadata::text(&config, "resourceVersion").to_owned();
        let written = self.rewrite(call, options, Origin::Apply, &|old| {
            let mut new = apply::apply(&self.writer(call, options), old, &config, options.force)?;
            metadata::set(&mut new, "resourceVersion", version.clone().into());
            Ok(settle(&call.resource, new, &[], FieldValidation::Ignore)?.object)
        })?;
        self.written(call, &written).map(|reply| reply.with_warnings(warnings))
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
        // What does not fit the type any more is the fault of the patch.
        let decoded = settle(&call.resource, new, &[], options.field_validation)
            .map_err(|error| ApiError::invalid_patch(&error.message))?;
        Ok((decoded.object, decoded.warnings))
    }
}
