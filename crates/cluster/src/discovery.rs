//! Which kinds of objects an API server holds.

use std::{fmt, sync::Arc, time::Duration};

use jobferry_kubeio::{self as kubeio, CallError};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroupList, APIResourceList};
use kube::Client;

const DEADLINE: Duration = Duration::from_secs(15);

/// A kind whose objects can be listed, watched and deleted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kind {
    /// `v1`, or group and version.
    pub(crate) api_version: String,
    /// The name in objects.
    pub(crate) name: String,
    /// The name in paths.
    pub(crate) plural: String,
    pub(crate) namespaced: bool,
}

impl Kind {
    fn base(&self) -> String {
        let root = if self.api_version.contains('/') { "apis" } else { "api" };
        format!("/{root}/{}", self.api_version)
    }

    /// The path of all objects.
    pub(crate) fn collection(&self) -> String {
        format!("{}/{}", self.base(), self.plural)
    }

    /// The path of the objects of one namespace.
    pub(crate) fn collection_in(&self, namespace: &str) -> String {
        format!("{}/namespaces/{namespace}/{}", self.base(), self.plural)
    }

    /// The path of one object.
    pub(crate) fn object(&self, namespace: &str, name: &str) -> String {
        let collection = if self.namespaced { self.collection_in(namespace) } else { self.collection() };
        format!("{collection}/{name}")
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.api_version, self.name)
    }
}

/// All kinds of the server, each in its preferred version. A group that cannot be read now is left out.
pub(crate) async fn kinds(client: &Client) -> Result<Vec<Arc<Kind>>, CallError> {
    let mut versions = vec!["v1".to_owned()];
    let groups: APIGroupList = kubeio::get(client, "/apis", DEADLINE).await?;
    versions.extend(groups.groups.into_iter().filter_map(|group| {
        let first = group.versions.into_iter().next().map(|version| version.group_version);
        group.preferred_version.map(|version| version.group_version).or(first)
    }));
    let mut kinds = Vec::new();
    for version in versions {
        let root = if version.contains('/') { "apis" } else { "api" };
        match kubeio::get::<APIResourceList>(client, &format!("/{root}/{version}"), DEADLINE).await {
            Ok(list) => kinds.extend(collectable(&version, list)),
            Err(error) => tracing::warn!(version, %error, "the kinds of an API group cannot be read"),
        }
    }
    kinds.sort();
    Ok(kinds)
}

fn collectable(version: &str, list: APIResourceList) -> impl Iterator<Item = Arc<Kind>> {
    let resources = list.resources.into_iter().filter(|resource| {
        let can = |verb: &str| resource.verbs.iter().any(|known| known == verb);
        !resource.name.contains('/') && can("list") && can("watch") && can("delete")
    });
    resources.map(move |resource| {
        Arc::new(Kind {
            api_version: version.to_owned(),
            name: resource.kind,
            plural: resource.name,
            namespaced: resource.namespaced,
        })
    })
}
