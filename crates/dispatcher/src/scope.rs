//! Which part of a worker we look at: all of it, or some namespaces, each by a watch of its own. A credential that is good
//! for some namespaces only cannot list the others.

use futures::{
    StreamExt,
    stream::{self, BoxStream, SelectAll},
};
use jobferry_api::Worker;
use jobferry_kubeio::{self as kubeio, Collection, Event};
use kube::Client;
use serde::de::DeserializeOwned;

/// What one watch covers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    Cluster,
    Namespace(String),
}

impl Scope {
    /// All that is to be watched of a worker.
    pub(crate) fn all_of(worker: &Worker) -> Vec<Self> {
        match &worker.spec.namespaces {
            None => vec![Self::Cluster],
            Some(namespaces) => namespaces.iter().cloned().map(Self::Namespace).collect(),
        }
    }

    /// The namespace, if it is only one.
    pub(crate) fn namespace(&self) -> Option<&str> {
        match self {
            Self::Cluster => None,
            Self::Namespace(name) => Some(name),
        }
    }

    fn path(&self, group: &str, plural: &str) -> String {
        match self {
            Self::Cluster => format!("{group}/{plural}"),
            Self::Namespace(name) => format!("{group}/namespaces/{name}/{plural}"),
        }
    }
}

/// Watches a collection in all scopes at once. `collection` is given its path.
pub(crate) fn watch<T: DeserializeOwned + Send + 'static>(
    client: &Client,
    scopes: &[Scope],
    (group, plural): (&str, &str),
    collection: impl Fn(String) -> Collection<T>,
) -> SelectAll<BoxStream<'static, (Scope, Event<T>)>> {
    stream::select_all(scopes.iter().cloned().map(|scope| {
        let events = kubeio::watch(client.clone(), collection(scope.path(group, plural)));
        events.map(move |event| (scope.clone(), event)).boxed()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_worker_is_watched_as_a_whole_or_namespace_by_namespace() {
        let paths = |namespaces: serde_json::Value| -> Vec<String> {
            let worker = json!({
                "apiVersion": "jobferry.dev/v1alpha1", "kind": "Worker", "metadata": {"name": "eu-1"},
                "spec": {"kubeconfigSecret": "eu-1", "namespaces": namespaces},
            });
            let scopes = Scope::all_of(&serde_json::from_value(worker).unwrap());
            scopes.iter().map(|scope| scope.path("/apis/batch/v1", "jobs")).collect()
        };
        assert_eq!(paths(json!(null)), ["/apis/batch/v1/jobs"]);
        let expected = ["/apis/batch/v1/namespaces/ml/jobs", "/apis/batch/v1/namespaces/web/jobs"];
        assert_eq!(paths(json!(["ml", "web"])), expected);
    }
}
