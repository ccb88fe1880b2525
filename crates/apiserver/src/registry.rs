//! Which resources this server offers. Handlers are written once and ask the definition what differs.

mod builtin;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::crd::Custom;
use crate::schema::Schema;

/// One resource of one group and version.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    pub(crate) schema: Arc<Schema>,
    pub(crate) strategy: Strategy,
    pub(crate) subresources: Vec<Subresource>,
    /// Where its objects live in the store: versions of a resource, and both groups of events, share a table.
    pub(crate) table: String,
    /// Fields a field selector may name, beyond `metadata.name` and `metadata.namespace`.
    pub(crate) selectable: Vec<String>,
    /// Present for resources that a CustomResourceDefinition made.
    pub(crate) custom: Option<Custom>,
}

/// The rules of a kind that are not a matter of shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strategy {
    Plain,
    Namespace,
    Pod,
    Job,
    CronJob,
    ConfigMap,
    Secret,
    /// `events.k8s.io`: stored as core events.
    NewEvent,
    Definition,
    Custom,
    /// Answered on create, never stored.
    AccessReview,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subresource {
    Status,
    Binding,
    Finalize,
    Log,
}

impl Subresource {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Binding => "binding",
            Self::Finalize => "finalize",
            Self::Log => "log",
        }
    }

    pub(crate) fn verbs(self) -> &'static [&'static str] {
        match self {
            Self::Status => &["get", "patch", "update"],
            Self::Binding => &["create"],
            Self::Finalize => &["update"],
            Self::Log => &["get"],
        }
    }
}

const ALL_VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

impl Resource {
    /// `batch/v1`, or `v1` for the core group.
    pub(crate) fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    /// `jobs.batch`, or `pods` for the core group.
    pub(crate) fn group_resource(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    pub(crate) fn list_kind(&self) -> String {
        self.custom.as_ref().map_or_else(|| format!("{}List", self.kind), |custom| custom.list_kind.clone())
    }

    pub(crate) fn verbs(&self) -> &'static [&'static str] {
        match self.strategy {
            Strategy::AccessReview => &["create"],
            // Deleting all namespaces at once is not offered by Kubernetes either.
            Strategy::Custom => &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"],
            Strategy::Namespace => &["create", "delete", "get", "list", "patch", "update", "watch"],
            _ => ALL_VERBS,
        }
    }

    pub(crate) fn subresource(&self, name: &str) -> Option<Subresource> {
        self.subresources.iter().copied().find(|sub| sub.name() == name)
    }

    pub(crate) fn has_status(&self) -> bool {
        self.subresources.contains(&Subresource::Status)
    }

    /// Custom resources have no Go type: patches of list elements by key are not defined for them.
    pub(crate) fn is_custom(&self) -> bool {
        self.custom.is_some()
    }
}

pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// The offered resources: built-in ones, fixed; custom ones, which come and go with their definitions.
#[derive(Debug)]
pub(crate) struct Registry {
    built_in: Vec<Arc<Resource>>,
    custom: RwLock<BTreeMap<String, Vec<Arc<Resource>>>>,
}

impl Registry {
    pub(crate) fn built_in() -> Self {
        Self { built_in: builtin::resources(), custom: RwLock::default() }
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        let is_it = |resource: &&Arc<Resource>| {
            resource.plural == plural && resource.group == group && resource.version == version
        };
        let custom = self.custom.read().unwrap_or_else(PoisonError::into_inner);
        self.built_in.iter().chain(custom.values().flatten()).find(is_it).cloned()
    }

    /// Every served resource, built-in first, then custom by definition name.
    pub(crate) fn all(&self) -> Vec<Arc<Resource>> {
        let custom = self.custom.read().unwrap_or_else(PoisonError::into_inner);
        self.built_in.iter().chain(custom.values().flatten()).cloned().collect()
    }

    /// Replaces what the definition `name` (`workers.jobferry.dev`) offers; an empty list withdraws it.
    pub(crate) fn define(&self, name: &str, resources: Vec<Arc<Resource>>) {
        let mut custom = self.custom.write().unwrap_or_else(PoisonError::into_inner);
        if resources.is_empty() {
            custom.remove(name);
        } else {
            custom.insert(name.to_owned(), resources);
        }
    }

    /// Withdraws all custom resources.
    pub(crate) fn clear(&self) {
        self.custom.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(crate) fn serves_group(&self, group: &str) -> bool {
        self.all().iter().any(|resource| resource.group == group)
    }
}
