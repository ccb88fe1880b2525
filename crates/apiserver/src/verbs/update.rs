//! update: the common path of PUT, of every kind of PATCH and of subresources.

use std::sync::Arc;

use serde_json::Value;

use super::create::Written;
use super::render::in_version;
use crate::apply::{self, Writer};
use crate::error::ApiError;
use crate::http::{Decoded, Reply, WriteOptions, decode, media_type};
use crate::metadata;
use crate::registry::{Resource, Strategy, Subresource};
use crate::selection::draft;
use crate::server::{Call, Inner};
use crate::store::Stored;
use crate::strategy::{self, Part};

/// How often a write without a resourceVersion of its own is tried again when others write in between.
const ATTEMPTS: usize = 16;

/// Where a new state comes from; it decides which rules of upstream apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Put,
    Patch,
    Apply,
}

impl Part {
    fn of(subresource: Option<Subresource>) -> Self {
        match subresource {
            Some(Subresource::Status) => Self::Status,
            Some(Subresource::Finalize) => Self::Finalize,
            _ => Self::Main,
        }
    }
}

impl Inner {
    pub(super) fn update(&self, call: &Call) -> Result<Reply, ApiError> {
        let options = call.query.write_options("UpdateOptions", call.user_agent())?;
        let Decoded { object, mut warnings } =
            decode(&call.resource, media_type(&call.parts.headers), &call.body, options.field_validation)?;
        let object = addressed(call, object)?;
        if let Some(reply) = self.create_by_put(call, &object, &options, &mut warnings)? {
            return Ok(reply.with_warnings(warnings));
        }
        let written = self.rewrite(call, &options, Origin::Put, &|_| Ok(object.clone()))?;
        self.written(call, &written).map(|reply| reply.with_warnings(warnings))
    }

    /// Who is writing, for the ownership of fields.
    pub(super) fn writer<'a>(&self, call: &'a Call, options: &'a WriteOptions) -> Writer<'a> {
        Writer {
            resource: &call.resource,
            part: Part::of(call.subresource),
            manager: &options.manager,
            now: self.now(),
        }
    }

    /// A few kinds come into being by a PUT to a name that is free.
    fn create_by_put(
        &self,
        call: &Call,
        object: &Value,
        options: &WriteOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Reply>, ApiError> {
        let allowed = matches!(
            call.resource.plural.as_str(),
            "leases" | "events" | "roles" | "rolebindings" | "clusterroles" | "clusterrolebindings"
        );
        if !allowed || call.subresource.is_some() || self.store.get(&call.resource.table, &call.key()).is_some() {
            return Ok(None);
        }
        if !metadata::text(object, "resourceVersion").is_empty() {
            return Err(ApiError::not_found(&call.resource, &call.key().name));
        }
        let written =
            self.create_object(&call.resource, call.namespace.as_deref(), object.clone(), options, warnings)?;
        self.written(call, &written).map(|reply| Some(reply.with_code(http::StatusCode::CREATED)))
    }

    pub(super) fn written(&self, call: &Call, written: &Written) -> Result<Reply, ApiError> {
        let renderer = self.renderer(call)?;
        Ok(match written {
            Written::Stored(stored) => renderer.reply(stored),
            Written::Dry(object) => Reply::value(&renderer.value(object)),
        })
    }

    /// Replaces the object in the path by what `change` makes of it, under all rules, until nobody interferes.
    pub(super) fn rewrite(
        &self,
        call: &Call,
        options: &WriteOptions,
        origin: Origin,
        change: &dyn Fn(&Value) -> Result<Value, ApiError>,
    ) -> Result<Written, ApiError> {
        let resource = &call.resource;
        let part = Part::of(call.subresource);
        for _ in 0..ATTEMPTS {
            let stored = self.stored(call)?;
            let old = in_version(resource, stored.value());
            let mut new = change(&old)?;
            check_preconditions(resource, &new, &stored, origin)?;
            let locked = !metadata::text(&new, "resourceVersion").is_empty() && origin == Origin::Put;
            metadata::set(&mut new, "resourceVersion", stored.version.to_string().into());
            settle(resource, part, &mut new, &old)?;
            if origin != Origin::Apply {
                apply::track(&self.writer(call, options), &mut new, &old);
            }
            if new == old {
                return Ok(Written::Stored(stored));
            }
            if options.dry_run {
                return Ok(Written::Dry(new));
            }
            let goes_away = metadata::is_deleting(&new) && is_free_to_go(resource, &new);
            let result = if goes_away {
                self.store.delete(&resource.table, draft(resource, new), stored.version)
            } else {
                self.store.replace(&resource.table, draft(resource, new), stored.version)
            };
            match result {
                Ok(written) => {
                    self.after_write(resource, &written.key);
                    return Ok(Written::Stored(written));
                }
                Err(_) if locked => break,
                Err(_) => {}
            }
        }
        Err(ApiError::modified(resource, &call.key().name))
    }
}

/// Nothing holds an object that is being deleted any more.
pub(super) fn is_free_to_go(resource: &Resource, object: &Value) -> bool {
    let held_by_namespace_controller = resource.strategy == Strategy::Namespace
        && object["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
    let grace = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    metadata::finalizers(object).is_empty() && !held_by_namespace_controller && grace == 0
}

/// Applies defaults and rules to a new state.
fn settle(resource: &Arc<Resource>, part: Part, new: &mut Value, old: &Value) -> Result<(), ApiError> {
    metadata::carry_over(new, old);
    let causes = strategy::update(resource, part, new, old);
    if causes.is_empty() { Ok(()) } else { Err(ApiError::invalid(resource, metadata::text(old, "name"), &causes)) }
}

/// The new state must be of the object in the path; a namespace left out is the path's.
pub(super) fn addressed(call: &Call, mut object: Value) -> Result<Value, ApiError> {
    let key = call.key();
    let name = metadata::text(&object, "name");
    if name.is_empty() {
        return Err(ApiError::bad_request("the name of the object must be specified"));
    }
    if name != key.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            key.name
        )));
    }
    if call.resource.namespaced {
        let namespace = metadata::text(&object, "namespace");
        if !namespace.is_empty() && namespace != key.namespace {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        metadata::set(&mut object, "namespace", key.namespace.into());
    }
    Ok(object)
}

/// A resourceVersion in the new state is a lock, checked before anything else; so is a uid, for a PUT.
fn check_preconditions(resource: &Resource, new: &Value, stored: &Stored, origin: Origin) -> Result<(), ApiError> {
    let name = &stored.key.name;
    let uid = metadata::text(new, "uid");
    if origin == Origin::Put && !uid.is_empty() && uid != stored.uid {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", stored.uid);
        return Err(ApiError::conflict(resource, name, &why));
    }
    let version = metadata::text(new, "resourceVersion");
    if version.is_empty() || version == "0" {
        // These have always been written with a lock.
        let insists =
            resource.is_custom() || matches!(resource.plural.as_str(), "leases" | "customresourcedefinitions");
        return if insists && origin == Origin::Put {
            let cause =
                crate::error::Cause::invalid("metadata.resourceVersion", &0.into(), "must be specified for an update");
            Err(ApiError::invalid(resource, name, &[cause]).told_about(&resource.plural))
        } else {
            Ok(())
        };
    }
    match version.parse::<u64>() {
        Ok(version) if version == stored.version => Ok(()),
        Ok(_) => Err(ApiError::modified(resource, name)),
        Err(_) => {
            let cause = crate::error::Cause::invalid("metadata.resourceVersion", &version.into(), "must be an integer");
            Err(ApiError::invalid(resource, name, &[cause]))
        }
    }
}
