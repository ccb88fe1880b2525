//! The verbs, written once for all resources.

mod bind;
mod create;
mod delete;
mod list;
mod patch;
mod render;
mod review;
mod update;
mod watch;

use std::sync::Arc;

use http::Method;

use crate::error::ApiError;
use crate::http::Reply;
use crate::registry::Subresource;
use crate::server::{Call, Inner};
use crate::store::{Key, NotDurable};

impl Inner {
    /// Does what a request to a resource asks for, and waits until the answer may be shown.
    pub(crate) async fn perform(self: &Arc<Self>, call: &Call) -> Result<Reply, ApiError> {
        let result = self.dispatch_verb(call).await;
        // Whatever this request read or wrote is not newer than this. A refusal may tell of it, too.
        match self.store.visible(self.store.version()).await {
            Ok(()) => result,
            Err(NotDurable) => {
                Err(ApiError::internal("the store cannot write to its disk: nothing was changed for good"))
            }
        }
    }

    async fn dispatch_verb(self: &Arc<Self>, call: &Call) -> Result<Reply, ApiError> {
        let method = &call.parts.method;
        let is_read = method == Method::GET || method == Method::HEAD;
        let verb = match (&call.name, call.subresource) {
            (None, _) if is_read => "list",
            (None, _) if method == Method::POST => "create",
            (None, _) if method == Method::DELETE => "deletecollection",
            (Some(_), _) if is_read => "get",
            (Some(_), _) if method == Method::PUT => "update",
            (Some(_), _) if method == Method::PATCH => "patch",
            (Some(_), Some(_)) if method == Method::POST => "create",
            (Some(_), None) if method == Method::DELETE => "delete",
            _ => return Err(ApiError::method_not_allowed()),
        };
        let offered = call.subresource.map_or_else(|| call.resource.verbs(), Subresource::verbs);
        if !offered.contains(&verb) {
            return Err(ApiError::method_not_allowed());
        }
        match (verb, call.subresource) {
            ("get", Some(Subresource::Log)) => self.pod_log(call).await,
            ("create", Some(Subresource::Binding)) => self.bind(call),
            ("list", _) => self.list_or_watch(call),
            ("get", _) => self.get(call),
            ("create", _) => self.create(call),
            ("update", _) => self.update(call),
            ("patch", _) => self.patch(call),
            ("delete", _) => self.delete(call),
            ("deletecollection", _) => self.delete_collection(call),
            _ => Err(ApiError::method_not_allowed()),
        }
    }
}

impl Call {
    /// The key of the object in the path; the name is empty for collections.
    pub(crate) fn key(&self) -> Key {
        Key { namespace: self.namespace.clone().unwrap_or_default(), name: self.name.clone().unwrap_or_default() }
    }
}
