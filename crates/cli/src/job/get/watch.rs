//! `jobferry get -w`: a table that goes on with every change.

use std::{collections::BTreeMap, pin::pin, process::ExitCode};

use anyhow::Context as _;
use futures::StreamExt;
use jobferry_kubeio::{self as kubeio, Event};
use k8s_openapi::api::batch::v1::Job;
use kube::Client;
use tokio::time::Instant;

use super::{Args, Output, Shown};
use crate::{
    dispatcher::wall_clock,
    job::{Outage, Phase, collection, not_found},
    table::Columns,
};

/// What was shown last, by namespace and name.
#[derive(Default)]
struct Screen {
    columns: Columns,
    shown: BTreeMap<(String, String), Shown>,
}

pub(super) async fn run(args: &Args, client: Client, path: String, namespace: &str) -> anyhow::Result<ExitCode> {
    let mut events = pin!(kubeio::watch(client, collection(path)));
    let mut screen = Screen::default();
    let mut is_first = true;
    let mut outage = Outage::of("the cluster");
    while let Some(event) = events.next().await {
        match event {
            Event::Reset(jobs) => {
                let jobs: Vec<Shown> = jobs.into_iter().filter(|job| args.wants(job)).map(Shown::of).collect();
                let missing = args.missing(&jobs).map(str::to_owned);
                screen.reset(args, jobs)?;
                if let Some(missing) = missing.filter(|_| is_first) {
                    return Err(not_found(&missing, namespace));
                }
                is_first = false;
            }
            Event::Applied(job) if args.wants(&job) => screen.show(args, vec![Shown::of(job)])?,
            Event::Deleted(job) if args.wants(&job) => screen.delete(args, job)?,
            Event::Interrupted(error) if is_first => return Err(error).context(args.cannot_list(namespace)),
            Event::Interrupted(error) => {
                outage.begin(error, Instant::now()).with_context(|| args.cannot_list(namespace))?;
                continue;
            }
            _ => {}
        }
        outage.end();
        if !args.names.is_empty() && screen.shown.is_empty() {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl Screen {
    /// After an interruption only what changed meanwhile is news.
    fn reset(&mut self, args: &Args, jobs: Vec<Shown>) -> anyhow::Result<()> {
        let there: Vec<_> = jobs.iter().map(key).collect();
        let gone: Vec<_> = self.shown.keys().filter(|key| !there.contains(key)).cloned().collect();
        for key in gone {
            if let Some(shown) = self.shown.remove(&key) {
                self.print_gone(args, shown)?;
            }
        }
        self.show(args, jobs)
    }

    /// Prints what people have not seen yet.
    fn show(&mut self, args: &Args, jobs: Vec<Shown>) -> anyhow::Result<()> {
        let is_news = |shown: &Shown| self.shown.get(&key(shown)).is_none_or(|before| before.view != shown.view);
        let news: Vec<Shown> = jobs.into_iter().filter(is_news).collect();
        self.print(args, &news)?;
        self.shown.extend(news.into_iter().map(|shown| (key(&shown), shown)));
        Ok(())
    }

    fn delete(&mut self, args: &Args, job: Job) -> anyhow::Result<()> {
        let gone = Shown::of(job);
        self.shown.remove(&key(&gone));
        self.print_gone(args, gone)
    }

    fn print_gone(&mut self, args: &Args, mut gone: Shown) -> anyhow::Result<()> {
        (gone.view.phase, gone.view.why) = (Phase::Deleted, String::new());
        self.print(args, &[gone])
    }

    fn print(&mut self, args: &Args, jobs: &[Shown]) -> anyhow::Result<()> {
        match args.output {
            _ if jobs.is_empty() => {}
            Output::Table | Output::Wide => print!("{}", self.columns.go_on(&args.table(jobs, wall_clock()))),
            _ => print!("{}", args.text(jobs)?),
        }
        Ok(())
    }
}

fn key(shown: &Shown) -> (String, String) {
    (shown.view.namespace.clone(), shown.view.name.clone())
}
