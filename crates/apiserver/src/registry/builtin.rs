//! The table of built-in resources.

use std::sync::Arc;

use super::{Resource, Strategy, Subresource};
use crate::schema::built_in;

/// One line of the table. `go_type` names the shape.
struct Line {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    go_type: &'static str,
    namespaced: bool,
    short: &'static [&'static str],
    categories: &'static [&'static str],
    strategy: Strategy,
    subresources: &'static [Subresource],
    selectable: &'static [&'static str],
}

const PLAIN: Line = Line {
    group: "",
    version: "v1",
    kind: "",
    plural: "",
    go_type: "",
    namespaced: true,
    short: &[],
    categories: &[],
    strategy: Strategy::Plain,
    subresources: &[],
    selectable: &[],
};

const RBAC: Line = Line { group: "rbac.authorization.k8s.io", ..PLAIN };

const EVENT_FIELDS: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];

const NEW_EVENT_FIELDS: &[&str] = &[
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "type",
];

const POD_FIELDS: &[&str] = &[
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
];

const LINES: &[Line] = &[
    Line {
        kind: "Namespace",
        plural: "namespaces",
        go_type: "core.v1.Namespace",
        namespaced: false,
        short: &["ns"],
        strategy: Strategy::Namespace,
        subresources: &[Subresource::Finalize, Subresource::Status],
        selectable: &["status.phase"],
        ..PLAIN
    },
    Line {
        kind: "Node",
        plural: "nodes",
        go_type: "core.v1.Node",
        namespaced: false,
        short: &["no"],
        subresources: &[Subresource::Status],
        selectable: &["spec.unschedulable"],
        ..PLAIN
    },
    Line {
        kind: "Pod",
        plural: "pods",
        go_type: "core.v1.Pod",
        short: &["po"],
        categories: &["all"],
        strategy: Strategy::Pod,
        subresources: &[Subresource::Binding, Subresource::Log, Subresource::Status],
        selectable: POD_FIELDS,
        ..PLAIN
    },
    Line {
        kind: "ConfigMap",
        plural: "configmaps",
        go_type: "core.v1.ConfigMap",
        short: &["cm"],
        strategy: Strategy::ConfigMap,
        ..PLAIN
    },
    Line {
        kind: "Secret",
        plural: "secrets",
        go_type: "core.v1.Secret",
        strategy: Strategy::Secret,
        selectable: &["type"],
        ..PLAIN
    },
    Line {
        kind: "ServiceAccount",
        plural: "serviceaccounts",
        go_type: "core.v1.ServiceAccount",
        short: &["sa"],
        ..PLAIN
    },
    Line {
        kind: "Event",
        plural: "events",
        go_type: "core.v1.Event",
        short: &["ev"],
        selectable: EVENT_FIELDS,
        ..PLAIN
    },
    Line {
        group: "batch",
        kind: "Job",
        plural: "jobs",
        go_type: "batch.v1.Job",
        categories: &["all"],
        strategy: Strategy::Job,
        subresources: &[Subresource::Status],
        selectable: &["status.successful"],
        ..PLAIN
    },
    Line {
        group: "batch",
        kind: "CronJob",
        plural: "cronjobs",
        go_type: "batch.v1.CronJob",
        short: &["cj"],
        categories: &["all"],
        strategy: Strategy::CronJob,
        subresources: &[Subresource::Status],
        ..PLAIN
    },
    Line {
        group: "events.k8s.io",
        kind: "Event",
        plural: "events",
        go_type: "events.v1.Event",
        short: &["ev"],
        strategy: Strategy::NewEvent,
        selectable: NEW_EVENT_FIELDS,
        ..PLAIN
    },
    Line { group: "coordination.k8s.io", kind: "Lease", plural: "leases", go_type: "coordination.v1.Lease", ..PLAIN },
    Line { kind: "Role", plural: "roles", go_type: "rbac.v1.Role", ..RBAC },
    Line { kind: "RoleBinding", plural: "rolebindings", go_type: "rbac.v1.RoleBinding", ..RBAC },
    Line { kind: "ClusterRole", plural: "clusterroles", go_type: "rbac.v1.ClusterRole", namespaced: false, ..RBAC },
    Line {
        kind: "ClusterRoleBinding",
        plural: "clusterrolebindings",
        go_type: "rbac.v1.ClusterRoleBinding",
        namespaced: false,
        ..RBAC
    },
    Line {
        group: "authorization.k8s.io",
        kind: "SelfSubjectAccessReview",
        plural: "selfsubjectaccessreviews",
        go_type: "authorization.v1.SelfSubjectAccessReview",
        namespaced: false,
        strategy: Strategy::AccessReview,
        ..PLAIN
    },
    Line {
        group: "apiextensions.k8s.io",
        kind: "CustomResourceDefinition",
        plural: "customresourcedefinitions",
        go_type: "apiextensions.v1.CustomResourceDefinition",
        namespaced: false,
        short: &["crd", "crds"],
        categories: &["api-extensions"],
        strategy: Strategy::Definition,
        subresources: &[Subresource::Status],
        ..PLAIN
    },
];

pub(super) fn resources() -> Vec<Arc<Resource>> {
    LINES.iter().map(|line| Arc::new(line.resource())).collect()
}

impl Line {
    fn resource(&self) -> Resource {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let table = match self.strategy {
            Strategy::NewEvent => "events".to_owned(),
            _ if self.group.is_empty() => self.plural.to_owned(),
            _ => format!("{}.{}", self.plural, self.group),
        };
        Resource {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            kind: self.kind.to_owned(),
            plural: self.plural.to_owned(),
            singular: self.kind.to_lowercase(),
            short_names: owned(self.short),
            categories: owned(self.categories),
            namespaced: self.namespaced,
            schema: built_in(self.go_type),
            strategy: self.strategy,
            subresources: self.subresources.to_vec(),
            table,
            selectable: owned(self.selectable),
            custom: None,
        }
    }
}
