//! `jobferry dispatcher`: the control loop, against a management cluster.

use std::{io::IsTerminal as _, process::ExitCode, sync::Arc};

use anyhow::Context as _;
use jobferry_api::{DISPATCHER_LEASE, SYSTEM_NAMESPACE, managed_by};
use jobferry_core::kind::Table;
use jobferry_dispatcher::{KubeconfigSecrets, Lease, Options, RunError, Vitals};
use k8s_openapi::jiff::Timestamp;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use crate::{delegation, install, own_name, target::Target};

/// Nobody but this machine, unless somebody asks for more.
const METRICS_ADDRESS: &str = "127.0.0.1:9187";

/// What a controller logs by default. What kube's client says of a failed request is told by whoever sent it.
pub(crate) const LOGGED: &str = "info,kube_client=off";

/// Flags of `jobferry dispatcher`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// First create or update CRDs, namespace, ServiceAccount and its rights
    #[arg(long)]
    install: bool,
    /// Jobs with this `spec.managedBy` are ours, and Workers with it; run one dispatcher a value. With another one than the
    /// default: Jobs only, no other kinds
    #[arg(long, value_name = "NAME", default_value = managed_by::DISPATCHER)]
    managed_by: String,
    /// Work without leader election; for a single dispatcher only
    #[arg(long)]
    no_lease: bool,
    /// Where /metrics, /livez and /readyz are served; empty: nowhere [default: 127.0.0.1:9187, if it is free]
    #[arg(long, value_name = "ADDRESS")]
    metrics_address: Option<String>,
    /// Log as JSON lines
    #[arg(long)]
    log_json: bool,
}

/// Runs until Ctrl-C or SIGTERM.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    log_to_stderr(args.log_json, LOGGED);
    own_name::check_dispatcher(&args.managed_by)?;
    let manager = args.target.client().await?;
    delegation::check_version(&manager).await?;
    if args.install {
        install::install_with_rights(&manager).await?;
    }
    let shutdown = CancellationToken::new();
    tokio::spawn(stop_on_signal(shutdown.clone()));
    let vitals = Arc::<Vitals>::default();
    serve_metrics(args.metrics_address.as_deref(), Arc::clone(&vitals), shutdown.clone()).await?;
    let secrets = KubeconfigSecrets::new(manager.clone(), SYSTEM_NAMESPACE);
    let options = Options {
        lease: (!args.no_lease).then(|| lease(&args.managed_by)),
        canary: Some(SYSTEM_NAMESPACE.into()),
        kinds: Some(Table::built_in()?),
        managed_by: args.managed_by,
        vitals,
        ..Options::new(Arc::new(secrets), Arc::new(wall_clock), u64::from(std::process::id()))
    };
    let ended = jobferry_dispatcher::run(manager, options, shutdown).await;
    ended.map_err(|error| match error {
        RunError::Manager { what, source } => {
            anyhow::Error::new(source).context(format!("cannot read the {what} of the management cluster"))
        }
        RunError::Broken => error.into(),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// An address that was asked for must be free; without the default one the work goes on.
async fn serve_metrics(address: Option<&str>, vitals: Arc<Vitals>, shutdown: CancellationToken) -> anyhow::Result<()> {
    if address == Some("") {
        return Ok(());
    }
    let listener = match (TcpListener::bind(address.unwrap_or(METRICS_ADDRESS)).await, address) {
        (Ok(listener), _) => listener,
        (Err(error), Some(address)) => return Err(error).with_context(|| format!("--metrics-address {address}")),
        (Err(error), None) => {
            tracing::warn!(address = METRICS_ADDRESS, %error, "metrics are not served; see --metrics-address");
            return Ok(());
        }
    };
    tracing::info!(address = %listener.local_addr()?, "metrics are served");
    tokio::spawn(jobferry_kubeio::metrics::serve(listener, vitals, shutdown));
    Ok(())
}

/// The lease of the dispatcher that works for this value of managedBy.
pub(crate) fn lease(managed_by: &str) -> Lease {
    Lease { namespace: SYSTEM_NAMESPACE.into(), name: lease_name(managed_by), identity: identity() }
}

/// What it is called.
pub(crate) fn lease_name(managed_by: &str) -> String {
    match managed_by {
        managed_by::DISPATCHER => DISPATCHER_LEASE.to_owned(),
        other => own_name::lease("dispatcher", other),
    }
}

/// Unique to this process: in a pod the host name is the pod's.
pub(crate) fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}_{:016x}", host.trim(), crate::fleet::random_seed())
}

/// The one place where this program reads the wall clock.
#[allow(clippy::disallowed_methods, reason = "the rim of the program: everything further in gets it as a value")]
pub(crate) fn wall_clock() -> Timestamp {
    Timestamp::now()
}

/// Cancels `shutdown` on Ctrl-C or SIGTERM.
pub(crate) async fn stop_on_signal(shutdown: CancellationToken) {
    use tokio::signal::unix::{SignalKind, signal};
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut signal) => drop(signal.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = terminated => {}
    }
    shutdown.cancel();
}

/// Logs go to stderr; JOBFERRY_LOG says which, in the usual notation.
pub(crate) fn log_to_stderr(json: bool, default: &str) {
    let filter = EnvFilter::try_from_env("JOBFERRY_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let builder = builder.with_ansi(std::io::stderr().is_terminal());
    if json { builder.json().init() } else { builder.init() }
}
