//! Why a real cluster did not do what was asked of it.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use jobferry_kubeio as kubeio;

use crate::Component;
use crate::credentials::CredentialsError;
use crate::real_cluster::READY_WITHIN;

/// What kept a cluster from doing what was asked of it.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// A file or process operation failed.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The directory holds something that is not ours.
    #[error("{0} is not empty and was not made by the test bed: name another directory")]
    ForeignDirectory(PathBuf),
    /// Another process runs a cluster there.
    #[error("a cluster is already running in {0}")]
    DirectoryInUse(PathBuf),
    /// Keys could not be made.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// A component ended by itself.
    #[error("{component} of cluster {cluster} ended ({status}); the end of {}:\n{tail}", log.display())]
    Ended {
        /// Which cluster.
        cluster: String,
        /// Which component.
        component: Component,
        /// How it ended.
        status: ExitStatus,
        /// Its log.
        log: PathBuf,
        /// The last lines of it.
        tail: String,
    },
    /// It did not come up in time.
    #[error("cluster {cluster} was not ready within {READY_WITHIN:?}, last answer: {answer}; the end of {}:\n{tail}", log.display())]
    NotReady {
        /// Which cluster.
        cluster: String,
        /// What the last probe said.
        answer: String,
        /// The log of the API server.
        log: PathBuf,
        /// The last lines of it.
        tail: String,
    },
    /// The component is not running.
    #[error("{component} of cluster {cluster} is not running: start it first")]
    NotRunning {
        /// Which cluster.
        cluster: String,
        /// Which component.
        component: Component,
    },
    /// No client could be made.
    #[error("making a client for cluster {cluster}: {reason}")]
    Client {
        /// Which cluster.
        cluster: String,
        /// Why not.
        reason: String,
    },
    /// The cluster refused a request of the test kit itself.
    #[error("cluster {cluster}: {source}")]
    Call {
        /// Which cluster.
        cluster: String,
        /// What it said.
        source: kubeio::CallError,
    },
}

/// Names what was being done when a file or process operation failed.
pub(crate) fn doing<T>(doing: impl Into<String>, result: io::Result<T>) -> Result<T, ClusterError> {
    result.map_err(|source| ClusterError::Io { doing: doing.into(), source })
}
