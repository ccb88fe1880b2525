//! One real Kubernetes control plane on loopback, and everything that can go wrong with it.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jobferry_kubeio as kubeio;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::cluster_error::{ClusterError, doing};
use crate::control_plane::{Audit, Layout};
use crate::credentials::Credentials;
use crate::{AuditLog, Component, ProcessGroup, Testbed, User};

/// A cluster is up in about 3 s on an idle machine; a loaded one with two cores has been seen to need 20.
pub(crate) const READY_WITHIN: Duration = Duration::from_secs(90);
/// kube-apiserver drains its requests before it ends; what is still there after this time is killed.
const STOP_WITHIN: Duration = Duration::from_secs(15);
/// Between two looks at something that changes within tens of milliseconds.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A probe that a frozen server swallows must not hold up the next one for long.
const PROBE_WITHIN: Duration = Duration::from_secs(2);
/// How much of a component's log an error shows.
const LOG_TAIL_LINES: usize = 15;

/// Marks a directory as ours to empty, and is locked while a cluster runs in it.
const MARKER: &str = ".jobferry-testbed";

/// A running control plane: etcd, kube-apiserver and kube-controller-manager. Its processes end with it, and also when
/// the process that holds it is killed.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use jobferry_testkit::{Component, RealCluster, Testbed, User};
///
/// let cluster = RealCluster::start_scratch(&Testbed::from_environment()?, "eu-1").await?;
/// let client = cluster.client(User::Admin).await?;
/// cluster.freeze(Component::ApiServer)?; // connections stay open, nobody answers
/// cluster.thaw(Component::ApiServer)?;
/// cluster.wipe().await?; // an empty cluster behind the same address
/// # Ok(()) }
/// ```
pub struct RealCluster {
    name: String,
    testbed: Testbed,
    layout: Layout,
    credentials: Credentials,
    running: Mutex<BTreeMap<Component, Child>>,
    group: ProcessGroup,
    _claim: Claim,
}

impl RealCluster {
    /// Starts a cluster that keeps its files and logs in `directory`. An earlier cluster's files there are removed.
    pub async fn start(testbed: &Testbed, name: &str, directory: &Path) -> Result<Self, ClusterError> {
        Self::start_in(testbed, name, directory, false, Audit::On).await
    }

    /// Starts a cluster whose files vanish with it.
    pub async fn start_scratch(testbed: &Testbed, name: &str) -> Result<Self, ClusterError> {
        Self::start_vanishing(testbed, name, Audit::On).await
    }

    /// The same without an audit log, which takes time from every request: for what is measured beside another system.
    pub async fn start_unaudited(testbed: &Testbed, name: &str) -> Result<Self, ClusterError> {
        Self::start_vanishing(testbed, name, Audit::Off).await
    }

    async fn start_vanishing(testbed: &Testbed, name: &str, audit: Audit) -> Result<Self, ClusterError> {
        let scratch = tempfile::Builder::new().prefix(&format!("jobferry-{name}-")).tempdir();
        let directory = doing("making a scratch directory", scratch)?.keep();
        Self::start_in(testbed, name, &directory, true, audit).await
    }

    async fn start_in(
        testbed: &Testbed,
        name: &str,
        directory: &Path,
        scratch: bool,
        audit: Audit,
    ) -> Result<Self, ClusterError> {
        let claimed = claim(directory)?;
        let directory = doing("finding the way to the directory", directory.canonicalize())?;
        let group = doing("starting the guard process", ProcessGroup::new(scratch.then_some(directory.as_path())))?;
        let layout = doing("reserving ports", Layout::new(directory, audit))?;
        let credentials = Credentials::generate()?;
        let in_directory = layout.directory().display();
        doing(format!("writing files in {in_directory}"), layout.write_files(name, &credentials))?;
        let running = Mutex::default();
        let (name, testbed) = (name.to_owned(), testbed.clone());
        let cluster = Self { name, testbed, layout, credentials, running, group, _claim: claimed };
        cluster.launch_all().await?;
        Ok(cluster)
    }

    /// The name that was given to [`RealCluster::start`].
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The directory with the logs of all components and the kubeconfigs.
    pub fn directory(&self) -> &Path {
        self.layout.directory()
    }

    /// The URL of the API server. It stays the same over restarts and [`RealCluster::wipe`].
    pub fn server(&self) -> String {
        self.layout.server()
    }

    /// The URL of the store: a test may write there what no API server would accept.
    pub fn etcd_url(&self) -> String {
        self.layout.etcd_url()
    }

    /// A kubeconfig that holds everything in itself.
    pub fn kubeconfig(&self, user: User) -> String {
        self.credentials.kubeconfig(&self.name, &self.server(), user)
    }

    /// The same as a file, readable by its owner only.
    pub fn kubeconfig_path(&self, user: User) -> PathBuf {
        self.layout.kubeconfig(user)
    }

    /// The binaries that this cluster was started from.
    pub const fn testbed(&self) -> &Testbed {
        &self.testbed
    }

    /// What the API server wrote down about its clients.
    pub fn audit(&self) -> AuditLog {
        AuditLog::new(self.layout.audit_log())
    }

    /// A client that belongs to the current tokio runtime and never repeats a request by itself.
    pub async fn client(&self, user: User) -> Result<kube::Client, ClusterError> {
        kube::Client::try_from(self.config(user).await?).map_err(|error| self.no_client(&error))
    }

    /// What [`RealCluster::client`] is made from.
    pub async fn config(&self, user: User) -> Result<Config, ClusterError> {
        let kubeconfig = Kubeconfig::from_yaml(&self.kubeconfig(user)).map_err(|error| self.no_client(&error))?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let mut config = config.map_err(|error| self.no_client(&error))?;
        config.default_retry = false;
        config.proxy_url = None;
        config.connect_timeout = Some(PROBE_WITHIN);
        Ok(config)
    }

    /// Creates a namespace and waits until pods can be created in it (they are refused before its default
    /// ServiceAccount exists).
    pub async fn create_namespace(&self, name: &str) -> Result<(), ClusterError> {
        let client = self.client(User::Admin).await?;
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        kubeio::create(&client, "/api/v1/namespaces", body.to_string().into_bytes(), READY_WITHIN)
            .await
            .map_err(|source| ClusterError::Call { cluster: self.name.clone(), source })?;
        self.wait_for(&client, &default_service_account(name)).await
    }

    /// The process of a component, if it is running.
    pub fn process(&self, component: Component) -> Option<u32> {
        self.running().get(&component).map(Child::id)
    }

    /// Starts a component that is not running and waits until it serves.
    pub async fn launch(&self, component: Component) -> Result<(), ClusterError> {
        self.spawn(component)?;
        match component {
            Component::Etcd | Component::ApiServer if self.is_running(Component::ApiServer) => {
                self.wait_for(&self.client(User::Admin).await?, "/readyz").await
            }
            Component::ControllerManager if self.is_running(Component::ApiServer) => self.wait_for_controllers().await,
            _ => Ok(()),
        }
    }

    /// Ends a component in an orderly way.
    pub async fn stop(&self, component: Component) -> Result<(), ClusterError> {
        let mut child = self.remove(component)?;
        self.signal(component, &child, Signal::CONT)?; // a frozen process would not see the next one
        self.signal(component, &child, Signal::TERM)?;
        let deadline = Instant::now() + STOP_WITHIN;
        while Instant::now() < deadline {
            if doing(format!("waiting for {component}"), child.try_wait())?.is_some() {
                return Ok(());
            }
            sleep(LOOK_EVERY).await;
        }
        self.end_at_once(component, &mut child)
    }

    /// Ends a component like a power cut.
    pub fn kill(&self, component: Component) -> Result<(), ClusterError> {
        let mut child = self.remove(component)?;
        self.end_at_once(component, &mut child)
    }

    /// [`RealCluster::stop`], then [`RealCluster::launch`].
    pub async fn restart(&self, component: Component) -> Result<(), ClusterError> {
        self.stop(component).await?;
        self.launch(component).await
    }

    /// Freezes a component: its connections stay open and nobody answers.
    pub fn freeze(&self, component: Component) -> Result<(), ClusterError> {
        self.signal_running(component, Signal::STOP)
    }

    /// Lets a frozen component go on as if nothing had happened.
    pub fn thaw(&self, component: Component) -> Result<(), ClusterError> {
        self.signal_running(component, Signal::CONT)
    }

    /// Replaces the cluster by an empty one behind the same address and with the same credentials, as when somebody
    /// rebuilds a cluster. Its identity (the UID of kube-system) changes. A watch that resumes from a resourceVersion of
    /// the old one is silent, for a while at least: start a new [`crate::PodRunner`].
    pub async fn wipe(&self) -> Result<(), ClusterError> {
        for component in Component::ALL {
            if self.is_running(component) {
                self.kill(component)?;
            }
        }
        let data = self.layout.etcd_data();
        doing(format!("removing {}", data.display()), fs::remove_dir_all(&data))?;
        self.launch_all().await
    }

    async fn launch_all(&self) -> Result<(), ClusterError> {
        self.spawn(Component::Etcd)?;
        self.spawn(Component::ApiServer)?;
        let client = self.client(User::Admin).await?;
        self.wait_for(&client, "/readyz").await?;
        self.launch(Component::ControllerManager).await?;
        self.wait_for(&client, &default_service_account("default")).await
    }

    /// kube-controller-manager gives up when it finds no healthy API server in its first 10 seconds. One whose
    /// controllers have started stays, whatever happens to the server later.
    async fn wait_for_controllers(&self) -> Result<(), ClusterError> {
        let mut config = self.config(User::Admin).await?;
        config.cluster_url = self.layout.controller_server().parse().map_err(|error| self.no_client(&error))?;
        let client = kube::Client::try_from(config).map_err(|error| self.no_client(&error))?;
        // Each controller adds a line of its own once it exists.
        self.wait_until(&client, "/healthz?verbose", |answer| answer.contains("job-controller ok")).await
    }

    fn spawn(&self, component: Component) -> Result<(), ClusterError> {
        if self.is_running(component) {
            return Ok(());
        }
        let log = self.layout.log(component);
        let open = OpenOptions::new().create(true).append(true).open(&log);
        let log = doing(format!("opening {}", log.display()), open)?;
        let mut command = self.layout.command(&self.testbed, component);
        command.stdout(doing("opening a log twice", log.try_clone())?).stderr(log);
        let child = doing(format!("starting {component}"), self.group.spawn(&mut command))?;
        self.running().insert(component, child);
        Ok(())
    }

    /// Waits until a server answers this path with success, or a component has ended.
    async fn wait_for(&self, client: &kube::Client, path: &str) -> Result<(), ClusterError> {
        self.wait_until(client, path, |_| true).await
    }

    /// The same, for an answer that also `holds` what is wanted.
    async fn wait_until(
        &self,
        client: &kube::Client,
        path: &str,
        holds: impl Fn(&str) -> bool,
    ) -> Result<(), ClusterError> {
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            let request = http::Request::get(path).body(kube::client::Body::empty());
            let request = request.map_err(|error| self.no_client(&error))?;
            let answer = match kubeio::call(client, request, PROBE_WITHIN).await {
                Ok(body) if holds(&String::from_utf8_lossy(&body)) => return Ok(()),
                Ok(body) => String::from_utf8_lossy(&body).into_owned(),
                Err(error) => error.to_string(),
            };
            self.check_running()?;
            if Instant::now() > deadline {
                let log = self.layout.log(Component::ApiServer);
                let (cluster, tail) = (self.name.clone(), tail(&log));
                return Err(ClusterError::NotReady { cluster, answer, log, tail });
            }
            sleep(LOOK_EVERY).await;
        }
    }

    fn no_client(&self, reason: &dyn std::error::Error) -> ClusterError {
        ClusterError::Client { cluster: self.name.clone(), reason: reason.to_string() }
    }

    fn check_running(&self) -> Result<(), ClusterError> {
        for (component, child) in self.running().iter_mut() {
            if let Some(status) = doing(format!("looking after {component}"), child.try_wait())? {
                let log = self.layout.log(*component);
                let (cluster, tail) = (self.name.clone(), tail(&log));
                return Err(ClusterError::Ended { cluster, component: *component, status, log, tail });
            }
        }
        Ok(())
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<Component, Child>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_running(&self, component: Component) -> bool {
        self.running().contains_key(&component)
    }

    fn remove(&self, component: Component) -> Result<Child, ClusterError> {
        let child = self.running().remove(&component);
        child.ok_or_else(|| ClusterError::NotRunning { cluster: self.name.clone(), component })
    }

    fn signal_running(&self, component: Component, signal: Signal) -> Result<(), ClusterError> {
        match self.running().get(&component) {
            Some(child) => self.signal(component, child, signal),
            None => Err(ClusterError::NotRunning { cluster: self.name.clone(), component }),
        }
    }

    fn signal(&self, component: Component, child: &Child, signal: Signal) -> Result<(), ClusterError> {
        let sent = kill_process(Pid::from_child(child), signal).map_err(io::Error::from);
        doing(format!("sending a signal to {component} of cluster {}", self.name), sent)
    }

    fn end_at_once(&self, component: Component, child: &mut Child) -> Result<(), ClusterError> {
        doing(format!("killing {component} of cluster {}", self.name), child.kill())?;
        doing(format!("waiting for {component}"), child.wait()).map(drop)
    }
}

impl Drop for RealCluster {
    fn drop(&mut self) {
        for (_, mut child) in std::mem::take(&mut *self.running()) {
            // Reaps them; the group's guard makes sure of the rest.
            let _ = child.kill().and_then(|()| child.wait());
        }
    }
}

/// A directory that is ours. The lock is given back by name: a process that is being started at that moment has inherited
/// the file, and closing ours alone would leave it locked.
struct Claim(File);

impl Drop for Claim {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// Takes possession of a directory: it is made, or found empty, or was ours before and is emptied.
fn claim(directory: &Path) -> Result<Claim, ClusterError> {
    let at = || directory.display();
    doing(format!("creating {}", at()), fs::create_dir_all(directory))?;
    let marker = directory.join(MARKER);
    let entries = || doing(format!("reading {}", at()), fs::read_dir(directory));
    if !marker.exists() && entries()?.next().is_some() {
        return Err(ClusterError::ForeignDirectory(directory.to_owned()));
    }
    let lock = doing(format!("creating {}", marker.display()), File::create(&marker))?;
    if lock.try_lock().is_err() {
        return Err(ClusterError::DirectoryInUse(directory.to_owned()));
    }
    for entry in entries()? {
        let path = doing(format!("reading {}", at()), entry)?.path();
        if path != marker {
            let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            doing(format!("removing {}", path.display()), removed)?;
        }
    }
    Ok(Claim(lock))
}

fn default_service_account(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/serviceaccounts/default")
}

/// The last lines of a log.
pub(crate) fn tail(log: &Path) -> String {
    let text = fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_with_somebody_elses_files_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("thesis.tex"), "years of work").unwrap();
        assert!(matches!(claim(directory.path()), Err(ClusterError::ForeignDirectory(_))));
        assert!(directory.path().join("thesis.tex").exists());
    }

    #[test]
    fn our_own_directory_is_emptied_but_not_while_it_is_in_use() {
        let directory = tempfile::tempdir().unwrap();
        let claimed = claim(directory.path()).unwrap();
        fs::write(directory.path().join("old.log"), "old").unwrap();
        assert!(matches!(claim(directory.path()), Err(ClusterError::DirectoryInUse(_))));
        drop(claimed);
        claim(directory.path()).unwrap();
        assert!(!directory.path().join("old.log").exists());
    }

    #[tokio::test]
    async fn a_component_that_ends_at_start_shows_the_end_of_its_log() {
        let binaries = tempfile::tempdir().unwrap();
        for component in Component::ALL {
            let script = binaries.path().join(component.binary());
            fs::write(&script, "#!/bin/sh\necho line one\necho the disk is full >&2\nexit 3\n").unwrap();
            fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        }
        let testbed = Testbed::at(binaries.path()).unwrap();
        let failure = RealCluster::start_scratch(&testbed, "broken").await.err().unwrap().to_string();
        assert!(failure.contains("of cluster broken ended (exit status: 3)"), "{failure}");
        assert!(failure.ends_with("line one\nthe disk is full"), "{failure}");
    }
}
