//! The administrator's way to a worker cluster: the flags that `join` and `leave` share.

use std::path::PathBuf;

use crate::target::Target;

/// Who may prepare a worker cluster.
#[derive(clap::Args)]
pub(super) struct Admin {
    /// Kubeconfig of an administrator of the worker cluster; nothing of the administrator is kept
    #[arg(long, value_name = "FILE")]
    worker_kubeconfig: Option<PathBuf>,
    /// Context of that kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME", requires = "worker_kubeconfig")]
    worker_context: Option<String>,
}

impl Admin {
    /// The worker cluster, as the administrator sees it.
    pub(super) fn target(&self) -> Option<Target> {
        let kubeconfig = self.worker_kubeconfig.clone()?;
        Some(Target { kubeconfig: Some(kubeconfig), context: self.worker_context.clone() })
    }

    pub(super) fn is_named(&self) -> bool {
        self.worker_kubeconfig.is_some()
    }
}

impl std::fmt::Display for Admin {
    /// The flags as they were given, for a command that is to be run next.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(path) = &self.worker_kubeconfig {
            write!(f, " --worker-kubeconfig {}", path.display())?;
        }
        self.worker_context.as_ref().map_or(Ok(()), |context| write!(f, " --worker-context {context}"))
    }
}
