//! The way to a worker, as the dispatcher will go it: server and CA from the admin's kubeconfig, and nothing of the admin.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use base64::{Engine, prelude::BASE64_STANDARD};
use kube::config::Kubeconfig;
use serde_json::{Value, json};

use crate::target::{Target, why_unusable};

/// Where a worker's API server is, and how it proves who it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) server: String,
    certificate_authority_data: String,
    tls_server_name: Option<String>,
}

impl Way {
    /// From a context of a kubeconfig; `server` is dialled instead of the address in it.
    pub(super) fn read(admin: &Target, server: Option<&str>) -> anyhow::Result<Self> {
        let path = admin.kubeconfig.as_deref().unwrap_or(Path::new(""));
        let place = path.display();
        let read = Kubeconfig::read_from(path);
        let kubeconfig = read.map_err(|error| anyhow!("--worker-kubeconfig {place}: {}", why_unusable(&error)))?;
        Self::of(&kubeconfig, admin.context.as_deref(), server).with_context(|| format!("--worker-kubeconfig {place}"))
    }

    fn of(kubeconfig: &Kubeconfig, context: Option<&str>, server: Option<&str>) -> anyhow::Result<Self> {
        let wanted = context.or(kubeconfig.current_context.as_deref());
        let wanted = wanted.context("it has no current context; name one with --worker-context")?;
        let found = kubeconfig.contexts.iter().find(|entry| entry.name == wanted);
        let found = found.and_then(|entry| entry.context.as_ref());
        let found = found.with_context(|| {
            let there: Vec<&str> = kubeconfig.contexts.iter().map(|context| context.name.as_str()).collect();
            format!("it has no context {wanted}; choose with --worker-context among: {}", there.join(", "))
        })?;
        let cluster = kubeconfig.clusters.iter().find(|entry| entry.name == found.cluster);
        let cluster = cluster.and_then(|entry| entry.cluster.as_ref());
        let cluster = cluster.with_context(|| format!("the cluster of context {wanted} is missing"))?;
        let certificate_authority_data = match (&cluster.certificate_authority_data, &cluster.certificate_authority) {
            (Some(data), _) => data.clone(),
            (None, Some(path)) => BASE64_STANDARD.encode(std::fs::read(PathBuf::from(path)).context(path.clone())?),
            (None, None) => bail!(
                "its cluster has no certificate-authority-data, and the dispatcher trusts no other CA: add it \
                 (ConfigMap kube-root-ca.crt of any namespace holds it)"
            ),
        };
        let server = server.map(str::to_owned).or_else(|| cluster.server.clone());
        Ok(Self {
            server: server.context("its cluster has no server; give --server")?,
            certificate_authority_data,
            tls_server_name: cluster.tls_server_name.clone(),
        })
    }

    /// Whether only this machine can go it.
    pub(super) fn is_loopback(&self) -> bool {
        let host = self.server.trim_start_matches("https://");
        ["127.", "localhost", "[::1]"].iter().any(|loopback| host.starts_with(loopback))
    }

    /// The kubeconfig that goes into the Secret.
    pub(super) fn kubeconfig(&self, token: &str) -> Value {
        let mut cluster = json!({"server": self.server, "certificate-authority-data": self.certificate_authority_data});
        if let Some(name) = &self.tls_server_name {
            cluster["tls-server-name"] = name.as_str().into();
        }
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "worker",
            "clusters": [{"name": "worker", "cluster": cluster}],
            "users": [{"name": "worker", "user": {"token": token}}],
            "contexts": [{"name": "worker", "context": {"cluster": "worker", "user": "worker"}}],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubeconfig(cluster: &Value) -> Kubeconfig {
        let document = json!({
            "current-context": "a",
            "contexts": [{"name": "a", "context": {"cluster": "c", "user": "root"}}],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "root", "user": {"token": "the-admins", "exec": {"command": "sh"}}}],
        });
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn nothing_of_the_admin_goes_into_the_secret() {
        let admins = kubeconfig(&json!({
            "server": "https://eu-1:6443", "certificate-authority-data": "Q0E=", "tls-server-name": "kubernetes",
            "proxy-url": "http://corporate",
        }));
        let document = Way::of(&admins, None, None).unwrap().kubeconfig("ours");
        jobferry_core::kubeconfig::read(&document).unwrap();
        let text = document.to_string();
        for (part, there) in [("ours", true), ("kubernetes", true), ("the-admins", false), ("exec", false)] {
            assert_eq!(text.contains(part), there, "{part} in {text}");
        }
        assert!(!text.contains("corporate"), "{text}");
    }

    #[test]
    fn another_server_is_dialled_when_the_dispatcher_lives_elsewhere() {
        let admins = kubeconfig(&json!({"server": "https://127.0.0.1:6443", "certificate-authority-data": "Q0E="}));
        assert!(Way::of(&admins, None, None).unwrap().is_loopback());
        let way = Way::of(&admins, None, Some("https://eu-1:6443")).unwrap();
        assert_eq!((way.server.as_str(), way.is_loopback()), ("https://eu-1:6443", false));
    }

    #[test]
    fn a_cluster_without_a_ca_or_a_context_is_refused() {
        let bare = kubeconfig(&json!({"server": "https://eu-1:6443"}));
        let refusal = |context| Way::of(&bare, context, None).unwrap_err().to_string();
        assert!(refusal(None).contains("certificate-authority-data"));
        assert!(refusal(Some("b")).contains("no context b"));
    }
}
