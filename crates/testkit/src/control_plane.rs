//! The command lines of a control plane: what each component needs to run alone on loopback.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Testbed;
use crate::credentials::{Credentials, User, write_private};
use crate::ports::Port;

/// A process of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// The store.
    Etcd,
    /// kube-apiserver.
    ApiServer,
    /// kube-controller-manager: Jobs, CronJobs, garbage collection, namespaces, quotas.
    ControllerManager,
}

impl Component {
    pub(crate) const ALL: [Self; 3] = [Self::Etcd, Self::ApiServer, Self::ControllerManager];

    /// The name of its binary.
    pub const fn binary(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.binary())
    }
}

/// The controllers that a Job's life needs. The node life cycle is left out: our nodes send no heartbeats.
const CONTROLLERS: &str = "job-controller,cronjob-controller,garbage-collector-controller,namespace-controller,\
     serviceaccount-controller,serviceaccount-token-controller,ttl-after-finished-controller,\
     pod-garbage-collector-controller,resourcequota-controller,clusterrole-aggregation-controller";

/// Requests of the dispatcher and of users without rights are all written down; of the others only what changes
/// something, since their informers would drown the rest.
const AUDIT_POLICY: &str = r#"apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: ["system:apiserver"]
- level: None
  users: ["admin", "pod-runner", "system:kube-controller-manager"]
  verbs: ["get", "list", "watch"]
- level: Metadata
"#;

/// Where one cluster keeps its files and listens.
#[derive(Debug)]
pub(crate) struct Layout {
    directory: PathBuf,
    etcd_port: Port,
    etcd_peer_port: Port,
    api_port: Port,
    controller_port: Port,
    audit: Audit,
}

/// Whether an API server writes its audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audit {
    /// A test counts requests.
    On,
    /// A benchmark measures a server that is not slowed down.
    Off,
}

impl Layout {
    pub(crate) fn new(directory: PathBuf, audit: Audit) -> io::Result<Self> {
        let (etcd_port, etcd_peer_port) = (Port::reserve()?, Port::reserve()?);
        let (api_port, controller_port) = (Port::reserve()?, Port::reserve()?);
        Ok(Self { directory, etcd_port, etcd_peer_port, api_port, controller_port, audit })
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn server(&self) -> String {
        format!("https://127.0.0.1:{}", self.api_port.number())
    }

    /// Where kube-controller-manager tells of its health.
    pub(crate) fn controller_server(&self) -> String {
        format!("https://127.0.0.1:{}", self.controller_port.number())
    }

    pub(crate) fn etcd_data(&self) -> PathBuf {
        self.directory.join("etcd-data")
    }

    pub(crate) fn audit_log(&self) -> PathBuf {
        self.directory.join("audit.log")
    }

    pub(crate) fn log(&self, component: Component) -> PathBuf {
        self.directory.join(format!("{component}.log"))
    }

    pub(crate) fn kubeconfig(&self, user: User) -> PathBuf {
        match user {
            User::Admin => self.directory.join("kubeconfig"),
            other => self.directory.join(format!("kubeconfig-{}", other.name().trim_start_matches("system:"))),
        }
    }

    /// Writes every file that the components read.
    pub(crate) fn write_files(&self, name: &str, credentials: &Credentials) -> io::Result<()> {
        let write = |file: &str, text: &str| write_private(&self.directory.join(file), text);
        write("ca.crt", &credentials.ca_certificate)?;
        write("serving.crt", &credentials.serving_certificate)?;
        write("serving.key", &credentials.serving_key)?;
        write("service-account.key", &credentials.service_account_key)?;
        write("service-account.pub", &credentials.service_account_public_key)?;
        write("tokens.csv", &credentials.token_file())?;
        write("audit-policy.yaml", AUDIT_POLICY)?;
        for user in User::ALL {
            write_private(&self.kubeconfig(user), &credentials.kubeconfig(name, &self.server(), user))?;
        }
        Ok(())
    }

    pub(crate) fn command(&self, testbed: &Testbed, component: Component) -> Command {
        let mut command = Command::new(testbed.binary(component.binary()));
        command.current_dir(&self.directory).args(match component {
            Component::Etcd => self.etcd(),
            Component::ApiServer => self.api_server(),
            Component::ControllerManager => self.controller_manager(),
        });
        command
    }

    fn file(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    pub(crate) fn etcd_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.etcd_port.number())
    }

    fn etcd(&self) -> Vec<String> {
        let client = self.etcd_url();
        let peer = format!("http://127.0.0.1:{}", self.etcd_peer_port.number());
        vec![
            format!("--data-dir={}", self.etcd_data().display()),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
            // A test that loses its machine has lost its cluster anyway.
            "--unsafe-no-fsync".into(),
            "--log-level=warn".into(),
            "--quota-backend-bytes=8589934592".into(),
            "--auto-compaction-mode=periodic".into(),
            "--auto-compaction-retention=5m".into(),
        ]
    }

    fn api_server(&self) -> Vec<String> {
        let mut flags = vec![
            format!("--etcd-servers={}", self.etcd_url()),
            "--bind-address=127.0.0.1".into(),
            "--advertise-address=127.0.0.1".into(),
            format!("--secure-port={}", self.api_port.number()),
            format!("--cert-dir={}", self.file("certificates")),
            format!("--tls-cert-file={}", self.file("serving.crt")),
            format!("--tls-private-key-file={}", self.file("serving.key")),
            "--service-cluster-ip-range=10.0.0.0/24".into(),
            "--endpoint-reconciler-type=none".into(),
            "--service-account-issuer=https://kubernetes.default.svc".into(),
            format!("--service-account-key-file={}", self.file("service-account.pub")),
            format!("--service-account-signing-key-file={}", self.file("service-account.key")),
            format!("--token-auth-file={}", self.file("tokens.csv")),
            "--anonymous-auth=false".into(),
            "--authorization-mode=RBAC".into(),
            "--allow-privileged=true".into(),
            "--profiling=false".into(),
        ];
        if self.audit == Audit::On {
            flags.extend([
                format!("--audit-policy-file={}", self.file("audit-policy.yaml")),
                format!("--audit-log-path={}", self.audit_log().display()),
                // Written before the answer goes out: a test that has its answer also finds it in the log.
                "--audit-log-mode=blocking".into(),
                // In megabytes. Never rotate: readers remember offsets.
                "--audit-log-maxsize=1000000".into(),
            ]);
        }
        flags
    }

    fn controller_manager(&self) -> Vec<String> {
        vec![
            format!("--kubeconfig={}", self.kubeconfig(User::ControllerManager).display()),
            "--leader-elect=false".into(),
            "--bind-address=127.0.0.1".into(),
            format!("--secure-port={}", self.controller_port.number()),
            format!("--tls-cert-file={}", self.file("serving.crt")),
            format!("--tls-private-key-file={}", self.file("serving.key")),
            format!("--service-account-private-key-file={}", self.file("service-account.key")),
            format!("--root-ca-file={}", self.file("ca.crt")),
            "--kube-api-qps=5000".into(),
            "--kube-api-burst=5000".into(),
            "--concurrent-job-syncs=10".into(),
            "--profiling=false".into(),
            format!("--controllers={CONTROLLERS}"),
        ]
    }
}
