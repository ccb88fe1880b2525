//! create.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Map, Value};

use super::review;
use crate::error::{ApiError, Cause};
use crate::http::{Decoded, Reply, WriteOptions, decode, media_type};
use crate::metadata;
use crate::registry::{Resource, Strategy};
use crate::schema::seconds;
use crate::selection::draft;
use crate::server::{Call, Inner};
use crate::store::{Key, Stored};
use crate::strategy;

/// A generated name that is taken is drawn again this often, as upstream.
const NAME_ATTEMPTS: usize = 8;

/// The result of a write: stored, or only thought through in a dry run.
pub(crate) enum Written {
    Stored(Arc<Stored>),
    Dry(Value),
}

impl Inner {
    pub(super) fn create(&self, call: &Call) -> Result<Reply, ApiError> {
        let renderer = self.renderer(call)?;
        let options = call.query.write_options("CreateOptions", call.user_agent())?;
        let Decoded { mut object, mut warnings } =
            decode(&call.resource, media_type(&call.parts.headers), &call.body, options.field_validation)?;
        if call.resource.strategy == Strategy::AccessReview {
            return Ok(review::review(object));
        }
        // Owners of fields are what the server found out, not what a client says.
        metadata::remove(&mut object, "managedFields");
        let written = self.create_object(&call.resource, call.namespace.as_deref(), object, &options, &mut warnings)?;
        let reply = match written {
            Written::Stored(stored) => renderer.reply(&stored),
            Written::Dry(object) => Reply::value(&renderer.value(&object)),
        };
        Ok(reply.with_code(StatusCode::CREATED).with_warnings(warnings))
    }

    /// Brings a new object to life: identity, defaults, rules, and into the store.
    pub(crate) fn create_object(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        mut object: Value,
        options: &WriteOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Written, ApiError> {
        self.place(resource, namespace, &mut object)?;
        let generates = metadata::text(&object, "name").is_empty();
        let attempts = if generates { NAME_ATTEMPTS } else { 1 };
        for attempt in 1..=attempts {
            // Only a generated name can be drawn again: the last attempt needs no copy.
            let mut fresh = if attempt < attempts { object.clone() } else { object.take() };
            self.identify(resource, &mut fresh)?;
            let name = metadata::text(&fresh, "name").to_owned();
            let causes = strategy::create(resource, &mut fresh, warnings);
            if !causes.is_empty() {
                return Err(ApiError::invalid(resource, &name, &causes));
            }
            let key = Key { namespace: metadata::text(&fresh, "namespace").to_owned(), name };
            if options.dry_run {
                return match self.store.get(&resource.table, &key) {
                    Some(_) => Err(ApiError::already_exists(resource, &key.name)),
                    None => Ok(Written::Dry(fresh)),
                };
            }
            match self.store.create(&resource.table, draft(resource, fresh)) {
                Ok(stored) => {
                    self.after_write(resource, &stored.key);
                    return Ok(Written::Stored(stored));
                }
                Err(_) if attempt < attempts => {}
                Err(_) => return Err(ApiError::already_exists(resource, &key.name)),
            }
        }
        Err(ApiError::internal("no name was found"))
    }

    /// Namespace of the path and of the object must agree, and the namespace must be alive.
    fn place(&self, resource: &Resource, namespace: Option<&str>, object: &mut Value) -> Result<(), ApiError> {
        let given = metadata::text(object, "namespace").to_owned();
        let Some(namespace) = namespace else {
            if resource.namespaced {
                return Err(ApiError::method_not_allowed());
            }
            metadata::remove(object, "namespace");
            return Ok(());
        };
        if !given.is_empty() && given != namespace {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        metadata::set(object, "namespace", namespace.into());
        self.check_namespace(resource, namespace, metadata::text(object, "name"))
    }

    fn check_namespace(&self, resource: &Resource, namespace: &str, name: &str) -> Result<(), ApiError> {
        let key = Key { namespace: String::new(), name: namespace.to_owned() };
        let Some(stored) = self.store.get("namespaces", &key) else {
            let namespaces = self.registry.find("", "v1", "namespaces").ok_or_else(ApiError::no_such_page)?;
            return Err(ApiError::not_found(&namespaces, namespace));
        };
        if stored.value()["status"]["phase"] != "Terminating" {
            return Ok(());
        }
        let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut error = ApiError::forbidden(resource, name, &why);
        if let Some(details) = &mut error.details {
            let cause = Cause {
                reason: "NamespaceTerminating".into(),
                message: format!("namespace {namespace} is being terminated"),
                field: "metadata.namespace".into(),
            };
            details["causes"] =
                serde_json::json!([{"reason": cause.reason, "message": cause.message, "field": cause.field}]);
        }
        Err(error)
    }

    /// What only the server may say about a new object: uid, time of creation, a generated name.
    fn identify(&self, resource: &Resource, object: &mut Value) -> Result<(), ApiError> {
        if !metadata::text(object, "resourceVersion").is_empty() {
            return Err(ApiError::bad_request("resourceVersion should not be set on objects to be created"));
        }
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation", "resourceVersion"] {
            metadata::remove(object, field);
        }
        metadata::set(object, "uid", self.identities.uid().into());
        metadata::set(object, "creationTimestamp", seconds(self.now()).into());
        let prefix = metadata::text(object, "generateName").to_owned();
        if metadata::text(object, "name").is_empty() && !prefix.is_empty() {
            // 63 characters for the longest names there are, five of them for the suffix.
            let kept: String = prefix.chars().take(58).collect();
            metadata::set(object, "name", format!("{kept}{}", self.identities.suffix()).into());
        }
        if resource.is_custom() && !object["status"].is_null() && resource.has_status() {
            object.as_object_mut().map(|entries: &mut Map<String, Value>| entries.remove("status"));
        }
        Ok(())
    }

    /// The namespaces every cluster starts with.
    pub(crate) fn create_first_namespaces(&self) {
        let Some(namespaces) = self.registry.find("", "v1", "namespaces") else { return };
        let options = WriteOptions::internal();
        for name in ["default", "kube-system"] {
            let object = serde_json::json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}});
            if self.create_object(&namespaces, None, object, &options, &mut Vec::new()).is_err() {
                tracing::error!(namespace = name, "cannot create the first namespaces");
            }
        }
    }
}
