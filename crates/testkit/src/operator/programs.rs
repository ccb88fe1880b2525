//! What each operator needs to run outside of its cluster.
//!
//! In the texts `{directory}` is the operator's own one, where `tls.crt` and `tls.key` are; `{kubeconfig}` leads to its cluster;
//! `{webhook}` and `{health}` are ports of its own on loopback.

/// An operator, and how it is run.
#[derive(Debug)]
pub struct Program {
    /// What it is called, and its binary.
    pub(crate) name: &'static str,
    /// Where its custom resource definitions are among its manifests.
    pub(crate) definitions: &'static str,
    /// Its webhooks, if it serves any.
    pub(crate) webhooks: Option<Webhooks>,
    /// Files in its directory, by name.
    pub(crate) files: &'static [(&'static str, &'static str)],
    pub(crate) arguments: &'static [&'static str],
    pub(crate) environment: &'static [(&'static str, &'static str)],
}

/// The webhooks of an operator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Webhooks {
    /// Where their configurations are among its manifests.
    pub(crate) configurations: &'static str,
    /// A collection and an object for it. As long as the API server takes it (in a dry run), it does not know of the webhooks.
    pub(crate) probe: (&'static str, &'static str),
}

/// JobSet.
pub const JOBSET: Program = Program {
    name: "jobset",
    definitions: "config/components/crd/bases",
    webhooks: Some(Webhooks {
        configurations: "config/components/webhook/manifests.yaml",
        probe: (
            "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets",
            r#"{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "probe"}, "spec": {}}"#,
        ),
    }),
    files: &[(
        "configuration.yaml",
        "apiVersion: config.jobset.x-k8s.io/v1alpha1\n\
         kind: Configuration\n\
         leaderElection: {leaderElect: false}\n\
         internalCertManagement: {enable: false}\n\
         metrics: {bindAddress: '0'}\n\
         health: {healthProbeBindAddress: '127.0.0.1:{health}'}\n\
         webhook: {host: 127.0.0.1, port: {webhook}, certDir: '{directory}'}\n",
    )],
    arguments: &["--config={directory}/configuration.yaml", "--kubeconfig={kubeconfig}"],
    environment: &[],
};
