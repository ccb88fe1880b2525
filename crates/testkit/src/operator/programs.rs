//! What each operator needs to run outside of its cluster.
//!
//! In the texts `{directory}` is the operator's own one, `{certificates}` where its `tls.crt` and `tls.key` are; `{kubeconfig}`
//! leads to its cluster; `{webhook}`, `{health}` and `{spare}` are ports of its own on loopback.

/// An operator, and how it is run.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// What it is called, and its binary.
    pub(crate) name: &'static str,
    /// Where its custom resource definitions and ConfigMaps are among its manifests.
    pub(crate) manifests: &'static [&'static str],
    /// Other objects that it wants to find on its cluster.
    pub(crate) objects: &'static str,
    /// Its webhooks, if it serves any.
    pub(crate) webhooks: Option<Webhooks>,
    /// Files in its directory, by name.
    pub(crate) files: &'static [(&'static str, &'static str)],
    pub(crate) arguments: &'static [&'static str],
    pub(crate) environment: &'static [(&'static str, &'static str)],
    /// A port that it takes whatever it is told: a machine has room for one such operator at a time.
    pub(crate) fixed_port: Option<u16>,
    /// It is given a Ray dashboard at `{spare}`.
    pub(crate) ray_dashboard: bool,
}

/// The webhooks of an operator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Webhooks {
    /// Where their configurations are among its manifests.
    pub(crate) configurations: &'static str,
    /// For which resources it does not serve them.
    pub(crate) but: &'static [&'static str],
    /// It wants its definitions to say that it converts between their versions. Only those that are stored are installed, so
    /// that it is never asked to.
    pub(crate) converts: bool,
    /// A collection and an object for it. As long as the API server takes it (in a dry run), it does not know of the webhooks.
    pub(crate) probe: (&'static str, &'static str),
}

/// JobSet.
pub const JOBSET: Program = Program {
    name: "jobset",
    manifests: &["config/components/crd/bases"],
    objects: "",
    webhooks: Some(Webhooks {
        configurations: "config/components/webhook/manifests.yaml",
        but: &[],
        converts: false,
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
         webhook: {host: 127.0.0.1, port: {webhook}, certDir: '{certificates}'}\n",
    )],
    arguments: &["--config={directory}/configuration.yaml", "--kubeconfig={kubeconfig}"],
    environment: &[],
    fixed_port: None,
    ray_dashboard: false,
};

/// Kubeflow's Trainer. It wants JobSet beside it.
pub const TRAINER: Program = Program {
    name: "trainer",
    manifests: &["manifests/base/crds"],
    objects: "",
    webhooks: Some(Webhooks {
        configurations: "manifests/base/webhook/manifests.yaml",
        but: &[],
        converts: false,
        probe: (
            "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs",
            r#"{"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "probe"}, "spec": {}}"#,
        ),
    }),
    files: &[(
        "configuration.yaml",
        "apiVersion: config.trainer.kubeflow.org/v1alpha1\n\
         kind: Configuration\n\
         leaderElection: {leaderElect: false}\n\
         certManagement: {enable: false}\n\
         metrics: {bindAddress: '0'}\n\
         health: {healthProbeBindAddress: '127.0.0.1:{health}'}\n\
         webhook: {host: 127.0.0.1, port: {webhook}}\n",
    )],
    arguments: &["--config={directory}/configuration.yaml", "--kubeconfig={kubeconfig}"],
    environment: &[("TMPDIR", "{directory}")],
    fixed_port: None,
    ray_dashboard: false,
};

/// An older Trainer, which runs objects that were handed over all the same.
pub const TRAINER_2_2: Program = Program { name: "trainer-2.2", ..TRAINER };

/// Kubeflow's older operator, as it may run on a manager: it does not look at `managedBy` of a JAXJob.
pub const TRAINING_OPERATOR: Program = Program {
    name: "training-operator",
    manifests: &["manifests/base/crds"],
    // It keeps a certificate of its own there, which we do not use.
    objects: "apiVersion: v1\n\
              kind: Namespace\n\
              metadata: {name: kubeflow}\n\
              ---\n\
              apiVersion: v1\n\
              kind: Secret\n\
              metadata: {name: training-operator-webhook-cert, namespace: kubeflow}\n",
    webhooks: Some(Webhooks {
        configurations: "manifests/base/webhook/manifests.yaml",
        but: &["jaxjobs"],
        converts: false,
        probe: PYTORCH_PROBE,
    }),
    // Before it starts to work it looks whether there is a certificate here, whatever directory it reads.
    files: &[("/tmp/k8s-webhook-server/serving-certs/tls.crt", "")],
    arguments: &[
        "--kubeconfig={kubeconfig}",
        "--metrics-bind-address=0",
        "--health-probe-bind-address=127.0.0.1:{health}",
        "--webhook-server-port={webhook}",
        "--enable-scheme=pytorchjob",
        "--enable-scheme=tfjob",
        "--enable-scheme=xgboostjob",
        "--enable-scheme=paddlejob",
    ],
    environment: &[("TMPDIR", "{directory}")],
    fixed_port: None,
    ray_dashboard: false,
};

const PYTORCH_PROBE: (&str, &str) = (
    "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs",
    r#"{"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "probe"}, "spec": {"pytorchReplicaSpecs": {}}}"#,
);

/// The same with everything that it can do, as it may run on a worker.
pub const TRAINING_OPERATOR_WITH_JAX: Program = Program {
    webhooks: Some(Webhooks {
        configurations: "manifests/base/webhook/manifests.yaml",
        but: &[],
        converts: false,
        probe: PYTORCH_PROBE,
    }),
    arguments: &[
        "--kubeconfig={kubeconfig}",
        "--metrics-bind-address=0",
        "--health-probe-bind-address=127.0.0.1:{health}",
        "--webhook-server-port={webhook}",
    ],
    ..TRAINING_OPERATOR
};

/// `AppWrapper`, without its webhooks: they are always at the same port.
pub const APPWRAPPER: Program = Program {
    name: "appwrapper",
    manifests: &["config/crd/bases"],
    // Times are in nanoseconds.
    objects: "apiVersion: v1\n\
              kind: Namespace\n\
              metadata: {name: appwrapper-system}\n\
              ---\n\
              apiVersion: v1\n\
              kind: ConfigMap\n\
              metadata: {name: appwrapper-operator-config, namespace: appwrapper-system}\n\
              data:\n  \
                config.yaml: |\n    \
                  webhooksEnabled: false\n    \
                  appwrapper: {faultTolerance: {retryLimit: 0, failureGracePeriod: 0}}\n    \
                  controllerManager: {metrics: {bindAddress: '0'}, health: {bindAddress: '127.0.0.1:{health}'}}\n",
    webhooks: None,
    files: &[],
    arguments: &["--kubeconfig={kubeconfig}"],
    environment: &[("NAMESPACE", "appwrapper-system")],
    fixed_port: None,
    ray_dashboard: false,
};

/// Kubeflow's operator for MPI.
pub const MPI_OPERATOR: Program = Program {
    name: "mpi-operator",
    manifests: &["manifests/base/kubeflow.org_mpijobs.yaml"],
    objects: "",
    webhooks: None,
    files: &[],
    arguments: &["-kubeConfig={kubeconfig}", "-lock-namespace=default"],
    environment: &[],
    fixed_port: Some(8080),
    ray_dashboard: false,
};

/// Tekton's controller, without its webhooks.
pub const TEKTON: Program = Program {
    name: "tekton",
    manifests: &[
        "config/300-crds",
        "config/config-defaults.yaml",
        "config/config-events.yaml",
        "config/config-feature-flags.yaml",
        "config/config-leader-election-controller.yaml",
        "config/config-logging.yaml",
        "config/config-observability.yaml",
        "config/config-registry-cert.yaml",
        "config/config-spire.yaml",
        "config/config-tracing.yaml",
        "config/config-wait-exponential-backoff.yaml",
    ],
    objects: "apiVersion: v1\n\
              kind: Namespace\n\
              metadata: {name: tekton-pipelines}\n",
    webhooks: None,
    files: &[],
    // Nobody pulls these images.
    arguments: &[
        "-kubeconfig={kubeconfig}",
        "-disable-ha",
        "-entrypoint-image=example.dev/entrypoint",
        "-nop-image=example.dev/nop",
        "-shell-image=example.dev/shell",
        "-shell-image-win=example.dev/shell-win",
        "-sidecarlogresults-image=example.dev/results",
        "-workingdirinit-image=example.dev/workingdir",
    ],
    environment: &[
        ("SYSTEM_NAMESPACE", "tekton-pipelines"),
        ("CONFIG_FEATURE_FLAGS_NAME", "feature-flags"),
        ("CONFIG_LEADERELECTION_NAME", "config-leader-election-controller"),
        ("METRICS_DOMAIN", "tekton.dev/pipeline"),
        ("KUBERNETES_MIN_VERSION", "v1.28.0"),
        ("PROBES_PORT", "{health}"),
        ("METRICS_PROMETHEUS_PORT", "{spare}"),
        ("PROFILING_PORT", "{webhook}"),
    ],
    fixed_port: Some(8080),
    ray_dashboard: false,
};

/// The operator of Ray.
pub const KUBERAY: Program = Program {
    name: "kuberay",
    manifests: &["config/crd/bases"],
    objects: "",
    webhooks: None,
    files: &[],
    arguments: &[
        "--kubeconfig={kubeconfig}",
        "--enable-leader-election=false",
        "--metrics-addr=0",
        "--health-probe-bind-address=127.0.0.1:{health}",
    ],
    environment: &[("HTTP_PROXY", "http://127.0.0.1:{spare}")],
    fixed_port: None,
    ray_dashboard: true,
};
