//! `jobferry up`, `status` and `down`: a fleet without Kubernetes, kept running; kubectl works against every cluster.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio_util::sync::CancellationToken;

use crate::{
    dispatcher::{log_to_stderr, stop_on_signal},
    fleet::{
        Fleet, FleetPlan,
        home::{Home, write_privately},
    },
    target::Target,
    worker,
};

/// How many workers a fleet has that nobody described.
const DEFAULT_WORKERS: u16 = 2;
/// Pods get 30 seconds to end by default; a fleet that takes longer than this to stop hangs.
const DOWN_WITHIN: Duration = Duration::from_secs(60);

/// Flags of `jobferry up`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many workers [default: as many as before, or 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    workers: Option<u16>,
    /// A file that names the workers, with labels and capacity
    #[arg(long, value_name = "FILE", conflicts_with = "workers")]
    config: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
    /// Keep nothing: the fleet and all its Jobs are gone when it stops
    #[arg(long, conflicts_with = "dir")]
    ephemeral: bool,
}

/// Where a fleet lives.
#[derive(clap::Args)]
pub(crate) struct Place {
    /// The fleet's directory: kubeconfig, state, files and logs of pods [default: ~/.local/share/jobferry]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Place {
    fn home(&self) -> anyhow::Result<Home> {
        Ok(Home::at(self.dir.clone().map_or_else(Home::default_directory, Ok)?))
    }

    /// As it was given, for a command that is to be run next.
    fn flag(&self) -> String {
        self.dir.as_ref().map(|dir| format!(" --dir {}", dir.display())).unwrap_or_default()
    }

    /// The fleet that is meant: of the directory that was named, else the user's own, else the only ephemeral one.
    fn running(&self) -> anyhow::Result<Option<(Home, i32)>> {
        let home = self.home()?;
        if let Some(process) = home.holder() {
            return Ok(Some((home, process)));
        }
        let mut passing = if self.dir.is_none() { Home::ephemeral() } else { Vec::new() };
        if passing.len() > 1 {
            let directories: Vec<_> = passing.iter().map(|home| home.directory().display().to_string()).collect();
            bail!("several ephemeral fleets run; name one with --dir: {}", directories.join(", "));
        }
        Ok(passing.pop().and_then(|home| home.holder().map(|process| (home, process))))
    }
}

/// Runs until Ctrl-C, SIGTERM or `jobferry down`.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    log_to_stderr(false, "warn");
    let passing = if args.ephemeral { Some(Home::make_ephemeral()?) } else { None };
    let home = match &passing {
        Some(directory) => Home::at(directory.path().to_owned()),
        None => args.place.home()?,
    };
    let _held = home.hold()?;
    let plan = plan(&args, &home)?;
    let shutdown = CancellationToken::new();
    tokio::spawn(stop_on_signal(shutdown.clone()));
    let fleet = tokio::select! {
        fleet = Fleet::start(&home, &plan, !args.ephemeral) => fleet?,
        () = shutdown.cancelled() => return Ok(ExitCode::SUCCESS),
    };
    home.store_plan(&plan)?;
    write_privately(&home.kubeconfig(), fleet.kubeconfig()?.as_bytes())?;
    let program = std::env::args().next().unwrap_or_else(|| "jobferry".into());
    println!("export KUBECONFIG={}", home.kubeconfig().canonicalize()?.display());
    println!("{program} submit -f examples/hello.yaml && {program} logs -f hello");
    println!("kubectl get workers && kubectl get jobs -w -L jobferry.dev/worker");
    println!("ready: a manager and {}; Ctrl-C stops them", counted(plan.workers.len(), "worker"));
    shutdown.cancelled().await;
    eprintln!("stopping ...");
    fleet.stop().await;
    Ok(ExitCode::SUCCESS)
}

/// The fleet that is wanted. One that was here before may grow, but not shrink: its workers may be running Jobs.
fn plan(args: &Args, home: &Home) -> anyhow::Result<FleetPlan> {
    let before = home.stored_plan()?;
    let wanted = match (&args.config, args.workers, &before) {
        (Some(path), _, _) => FleetPlan::read(path)?,
        (None, Some(workers), _) => FleetPlan::numbered(workers),
        (None, None, Some(before)) => before.clone(),
        (None, None, None) => FleetPlan::numbered(DEFAULT_WORKERS),
    };
    if let Some(missing) = before.as_ref().and_then(|before| wanted.lacks(before)) {
        bail!(
            "the fleet in {} has a worker {missing}, which is not wanted any more; name it again, or another --dir",
            home.directory().display()
        );
    }
    Ok(wanted)
}

/// The kubeconfig of a fleet of this user that runs now, for whoever looks for a cluster.
pub(crate) fn running_kubeconfig() -> Option<PathBuf> {
    let (home, _) = Place { dir: None }.running().ok()??;
    Some(home.kubeconfig())
}

/// Says how the fleet of a directory is. Exit code 1: it does not run.
pub(crate) async fn status(place: Place) -> anyhow::Result<ExitCode> {
    let Some((home, process)) = place.running()? else {
        println!("not running");
        eprintln!("start it with `jobferry up{}`", place.flag());
        return Ok(ExitCode::FAILURE);
    };
    println!("running as process {process}");
    eprintln!("export KUBECONFIG={}", home.kubeconfig().display());
    let target = Target { kubeconfig: Some(home.kubeconfig()), ..Target::default() };
    worker::show(target).await?;
    Ok(ExitCode::SUCCESS)
}

/// Stops the fleet of a directory and waits for its end.
pub(crate) async fn down(place: Place) -> anyhow::Result<ExitCode> {
    let Some((home, process)) = place.running()? else {
        println!("not running");
        return Ok(ExitCode::SUCCESS);
    };
    let pid = Pid::from_raw(process).context("the lock file names no process")?;
    kill_process(pid, Signal::TERM).with_context(|| format!("cannot stop process {process}"))?;
    let stopped = async {
        while home.holder().is_some() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let in_time = tokio::time::timeout(DOWN_WITHIN, stopped).await;
    in_time.with_context(|| format!("process {process} does not end; look at it, then stop it by `kill -9`"))?;
    println!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// `1 worker`, `2 workers`.
pub(crate) fn counted(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}
