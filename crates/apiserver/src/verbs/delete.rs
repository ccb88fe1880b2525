//! delete and deletecollection: at once, after finalizers, or after a pod's grace.

use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::render::in_version;
use super::update::is_free_to_go;
use crate::error::{ApiError, Cause};
use crate::http::{Reply, media_type, parse, protobuf};
use crate::metadata;
use crate::registry::{Resource, Strategy};
use crate::schema::{built_in, seconds};
use crate::selection::{Selection, draft};
use crate::server::{Call, Inner};
use crate::store::{Key, Stored};
use crate::strategy::pod;

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// How often a delete is tried again when others write in between.
const ATTEMPTS: usize = 16;

/// What the garbage collector is to do with dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// `DeleteOptions`, from the body or the query.
#[derive(Debug, Default)]
struct Options {
    grace_seconds: Option<i64>,
    propagation: Option<Propagation>,
    uid: Option<String>,
    version: Option<String>,
    dry_run: bool,
}

/// What a delete came to.
enum Outcome {
    Gone(Value),
    /// Marked; finalizers or a grace period hold it.
    Waiting(Value),
}

impl Inner {
    pub(super) fn delete(&self, call: &Call) -> Result<Reply, ApiError> {
        let options = Options::read(call)?;
        let warnings = warnings(&call.resource, &options);
        let outcome = self.delete_object(&call.resource, &call.key(), &options)?;
        let renderer = self.renderer(call)?;
        let body = match outcome {
            Outcome::Waiting(object) => renderer.value(&object),
            Outcome::Gone(object) if returns_deleted(&call.resource) => renderer.value(&object),
            Outcome::Gone(object) => success(&call.resource, &object),
        };
        Ok(Reply::value(&body).with_warnings(warnings))
    }

    pub(super) fn delete_collection(&self, call: &Call) -> Result<Reply, ApiError> {
        let options = Options::read(call)?;
        let query = call.query.list(&call.resource)?;
        let selection = Selection::new(&call.resource, call.namespace.as_deref(), &query);
        let listing = self
            .store
            .list(&call.resource.table, call.namespace.as_deref(), None)
            .map_err(|_| ApiError::internal("the present is always readable"))?;
        let mut items = Vec::new();
        for stored in listing.objects.iter().filter(|stored| selection.matches(stored)) {
            match self.delete_object(&call.resource, &stored.key, &options) {
                Ok(Outcome::Gone(object) | Outcome::Waiting(object)) => items.push(untyped(&call.resource, object)),
                // Somebody else was faster: it is gone, as wanted.
                Err(error) if error.code == 404 => {}
                Err(error) => return Err(error),
            }
        }
        let list = json!({"kind": call.resource.list_kind(), "apiVersion": call.resource.api_version(),
            "metadata": {"resourceVersion": self.store.version().to_string()}, "items": items});
        Ok(Reply::value(&list).with_warnings(warnings(&call.resource, &options)))
    }

    fn delete_object(&self, resource: &Arc<Resource>, key: &Key, options: &Options) -> Result<Outcome, ApiError> {
        for _ in 0..ATTEMPTS {
            let stored =
                self.store.get(&resource.table, key).ok_or_else(|| ApiError::not_found(resource, &key.name))?;
            options.check(resource, &stored)?;
            let old = in_version(resource, stored.value());
            let marked = mark(resource, &old, options, self.now());
            let gone = is_free_to_go(resource, &marked);
            if options.dry_run || (!gone && marked == old) {
                return Ok(if gone { Outcome::Gone(marked) } else { Outcome::Waiting(marked) });
            }
            let result = if gone {
                // A pod's last state tells that it was deleted; other kinds end as they were.
                let last = if resource.strategy == Strategy::Pod { marked } else { old };
                self.store.delete(&resource.table, draft(resource, last), stored.version)
            } else {
                self.store.replace(&resource.table, draft(resource, marked), stored.version)
            };
            if let Ok(written) = result {
                self.after_write(resource, key);
                let object = in_version(resource, written.value());
                return Ok(if gone { Outcome::Gone(object) } else { Outcome::Waiting(object) });
            }
        }
        Err(ApiError::modified(resource, &key.name))
    }

    /// Removes an object without asking anyone: for what disappears together with its definition.
    pub(crate) fn remove_silently(&self, resource: &Resource, key: &Key) {
        while let Some(stored) = self.store.get(&resource.table, key) {
            if self
                .store
                .delete(&resource.table, draft(resource, in_version(resource, stored.value())), stored.version)
                .is_ok()
            {
                return;
            }
        }
    }
}

impl Options {
    fn read(call: &Call) -> Result<Self, ApiError> {
        let body = match media_type(&call.parts.headers) {
            _ if call.body.is_empty() => Value::Null,
            "application/vnd.kubernetes.protobuf" => protobuf(&built_in("meta.v1.DeleteOptions"), &call.body)?,
            media => parse(media, &call.body)?.0,
        };
        let text = |key: &str| body[key].as_str().or_else(|| call.query.get(key)).filter(|text| !text.is_empty());
        let mut propagation = match text("propagationPolicy") {
            None => None,
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                let allowed = ["\"Foreground\"", "\"Background\"", "\"Orphan\"", "\"nil\""].map(str::to_owned);
                let cause = Cause::not_supported("propagationPolicy", &other.into(), &allowed);
                return Err(ApiError::invalid_options("DeleteOptions", &cause));
            }
        };
        // The older way to say it.
        match body["orphanDependents"].as_bool().or_else(|| call.query.flag("orphanDependents")) {
            Some(true) if propagation.is_none() => propagation = Some(Propagation::Orphan),
            Some(false) if propagation.is_none() => propagation = Some(Propagation::Background),
            _ => {}
        }
        let dry_run = call.query.get("dryRun") == Some("All") || body["dryRun"] == json!(["All"]);
        let grace_seconds = match body["gracePeriodSeconds"].as_i64() {
            Some(seconds) => Some(seconds),
            None => call.query.number("gracePeriodSeconds")?,
        };
        let precondition = |key: &str| body["preconditions"][key].as_str().map(str::to_owned);
        Ok(Self {
            grace_seconds,
            propagation,
            uid: precondition("uid"),
            version: precondition("resourceVersion"),
            dry_run,
        })
    }

    fn check(&self, resource: &Resource, stored: &Stored) -> Result<(), ApiError> {
        if let Some(uid) = self.uid.as_ref().filter(|uid| **uid != stored.uid) {
            let why = format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
                stored.uid
            );
            return Err(ApiError::conflict(resource, &stored.key.name, &why).told_about(&resource.kind));
        }
        if let Some(version) = self.version.as_ref().filter(|version| **version != stored.version.to_string()) {
            let why = format!(
                "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The object might have been modified",
                stored.version
            );
            return Err(ApiError::conflict(resource, &stored.key.name, &why).told_about(&resource.kind));
        }
        Ok(())
    }
}

/// Items of a typed list do not repeat their type.
fn untyped(resource: &Resource, mut object: Value) -> Value {
    if let Some(entries) = object.as_object_mut().filter(|_| !resource.is_custom()) {
        entries.remove("kind");
        entries.remove("apiVersion");
    }
    object
}

/// The object as it is while its deletion is under way.
fn mark(resource: &Resource, old: &Value, options: &Options, now: Timestamp) -> Value {
    let mut object = old.clone();
    metadata::set_finalizers(&mut object, &finalizers(resource, old, options.propagation));
    let grace = match resource.strategy {
        Strategy::Pod => pod::grace_seconds(old, options.grace_seconds),
        _ => 0,
    };
    let under_way =
        metadata::is_deleting(old).then(|| old["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0));
    // A second delete can only make it shorter.
    if under_way.is_some_and(|before| grace >= before) {
        return object;
    }
    let ends = now.checked_add(SignedDuration::from_secs(grace)).unwrap_or(now);
    metadata::set(&mut object, "deletionTimestamp", seconds(ends).into());
    if resource.strategy != Strategy::Namespace {
        metadata::set(&mut object, "deletionGracePeriodSeconds", grace.into());
    }
    if under_way.is_none() && !old["metadata"]["generation"].is_null() {
        metadata::bump_generation(&mut object);
    }
    if resource.strategy == Strategy::Namespace {
        object["status"]["phase"] = "Terminating".into();
    }
    object
}

/// Foreground and orphan deletion are finalizers that the garbage collector removes when it has done its part.
fn finalizers(resource: &Resource, old: &Value, asked: Option<Propagation>) -> Vec<String> {
    let mut finalizers = metadata::finalizers(old);
    let chosen = asked.or_else(|| {
        let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
        match () {
            () if has(ORPHAN) => Some(Propagation::Orphan),
            () if has(FOREGROUND) => Some(Propagation::Foreground),
            // batch/v1 is older than the collector: its Jobs leave their pods behind unless told otherwise.
            () if resource.strategy == Strategy::Job => Some(Propagation::Orphan),
            () => None,
        }
    });
    finalizers.retain(|finalizer| finalizer != ORPHAN && finalizer != FOREGROUND);
    match chosen {
        Some(Propagation::Orphan) => finalizers.push(ORPHAN.into()),
        Some(Propagation::Foreground) => finalizers.push(FOREGROUND.into()),
        Some(Propagation::Background) | None => {}
    }
    finalizers
}

fn warnings(resource: &Resource, options: &Options) -> Vec<String> {
    if resource.strategy == Strategy::Job && options.propagation.is_none() {
        return vec!["child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning".into()];
    }
    Vec::new()
}

/// Kinds whose delete is answered with the object instead of a Status.
fn returns_deleted(resource: &Resource) -> bool {
    resource.group.is_empty() && matches!(resource.plural.as_str(), "pods" | "serviceaccounts")
}

fn success(resource: &Resource, object: &Value) -> Value {
    let mut details =
        json!({"name": object["metadata"]["name"], "kind": resource.plural, "uid": object["metadata"]["uid"]});
    if !resource.group.is_empty() {
        details["group"] = resource.group.clone().into();
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
