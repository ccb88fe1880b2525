//! `jobferry wait`: until Jobs have ended, with an exit code that tells how.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use futures::StreamExt;
use jobferry_api::Span;
use jobferry_kubeio::{self as kubeio, Event};
use k8s_openapi::api::batch::v1::Job;
use kube::Client;
use tokio::time::Instant;

use super::{Outage, Phase, Scope, View, collection, job_name, not_found, path_of};
use crate::dispatcher::wall_clock;

/// At least one Job failed.
pub(super) const FAILED: u8 = 100;
/// At least one Job did not end in time.
const NOT_FINISHED: u8 = 101;

/// Flags of `jobferry wait`.
#[derive(clap::Args)]
#[command(after_help = "Exit codes: 0 all complete, 100 one failed, 101 not finished in time, 1 an error.")]
pub(crate) struct Args {
    #[command(flatten)]
    scope: Scope,
    /// Names of Jobs
    #[arg(value_name = "JOB", required = true, value_parser = job_name)]
    names: Vec<String>,
    /// How long to wait, for example 90s or 1h30m [default: for ever]
    #[arg(long, value_name = "TIME")]
    timeout: Option<Span>,
}

/// Waits.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (client, namespace) = args.scope.connect().await?;
    until_ended(client, &namespace, args.names.into_iter().collect(), args.timeout.map(|span| span.0)).await
}

/// Follows the Jobs to their ends and says on stderr how far they are. A management cluster that restarts is waited for.
pub(super) async fn until_ended(
    client: Client,
    namespace: &str,
    names: BTreeSet<String>,
    timeout: Option<Duration>,
) -> anyhow::Result<ExitCode> {
    let mut wait =
        Wait { namespace, names, ends: BTreeMap::new(), shown: BTreeMap::new(), outage: Outage::of("the cluster") };
    let followed = wait.follow(client);
    let outcome = match timeout {
        None => Ok(followed.await),
        Some(limit) => tokio::time::timeout(limit, followed).await,
    };
    let Ok(outcome) = outcome else {
        let open: Vec<_> = wait.names.iter().filter(|name| !wait.ends.contains_key(*name)).cloned().collect();
        eprintln!("not finished in time: {}; `jobferry explain` says why a Job waits", open.join(", "));
        return Ok(ExitCode::from(NOT_FINISHED));
    };
    outcome?;
    let failed = wait.ends.values().any(|phase| *phase == Phase::Failed);
    Ok(if failed { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

struct Wait<'a> {
    namespace: &'a str,
    names: BTreeSet<String>,
    ends: BTreeMap<String, Phase>,
    shown: BTreeMap<String, String>,
    outage: Outage,
}

impl Wait<'_> {
    async fn follow(&mut self, client: Client) -> anyhow::Result<()> {
        let mut events = pin!(kubeio::watch(client, collection(path_of(self.namespace))));
        while self.ends.len() < self.names.len() {
            let Some(event) = events.next().await else { break };
            self.notice(event)?;
        }
        Ok(())
    }

    fn notice(&mut self, event: Event<Job>) -> anyhow::Result<()> {
        match event {
            Event::Interrupted(error) => {
                let what = || format!("jobs in namespace {} cannot be watched", self.namespace);
                return self.outage.begin(error, Instant::now()).with_context(what);
            }
            Event::Reset(jobs) => {
                let there: BTreeSet<_> = jobs.iter().filter_map(|job| job.metadata.name.as_deref()).collect();
                let mut open = self.names.iter().filter(|name| !self.ends.contains_key(*name));
                if let Some(missing) = open.find(|name| !there.contains(name.as_str())) {
                    ensure!(!self.shown.contains_key(missing), "job {missing} was deleted before it ended");
                    return Err(not_found(missing, self.namespace));
                }
                for job in &jobs {
                    self.see(job);
                }
            }
            Event::Applied(job) => self.see(&job),
            Event::Deleted(job) => {
                let name = job.metadata.name.unwrap_or_default();
                if self.names.contains(&name) && !self.ends.contains_key(&name) {
                    bail!("job {name} was deleted before it ended");
                }
            }
            Event::Resumed => {}
        }
        self.outage.end();
        Ok(())
    }

    fn see(&mut self, job: &Job) {
        let view = View::of(job, wall_clock());
        if !self.names.contains(&view.name) || self.ends.contains_key(&view.name) {
            return;
        }
        let place = view.place.as_ref().map(|place| format!(" on {place}")).unwrap_or_default();
        let why = if view.why.is_empty() { String::new() } else { format!(" ({})", view.why) };
        let line = format!("{}: {:?}{place}{}{why}", view.name, view.phase, view.done());
        if self.shown.get(&view.name) != Some(&line) {
            eprintln!("{line}");
            self.shown.insert(view.name.clone(), line);
        }
        if view.phase.is_end() {
            println!("job/{} {}", view.name, if view.phase == Phase::Complete { "complete" } else { "failed" });
            self.ends.insert(view.name, view.phase);
        }
    }
}
