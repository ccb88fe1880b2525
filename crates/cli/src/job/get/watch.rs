//! `jobferry get -w`: a table that goes on with every change.

use std::{collections::BTreeMap, pin::pin, process::ExitCode};

use futures::StreamExt;
use jobferry_kubeio::{self as kubeio, Collection, Event};
use kube::Client;
use serde_json::Value;
use tokio::time::Instant;

use super::{Asked, Output, Shown};
use crate::{
    dispatcher::wall_clock,
    job::{Outage, Phase},
    table::Columns,
};

/// What was shown last, by namespace and name.
#[derive(Default)]
struct Screen {
    columns: Columns,
    shown: BTreeMap<(String, String), Shown>,
}

fn version_of(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default()
}

pub(super) async fn run(asked: &Asked, client: Client) -> anyhow::Result<ExitCode> {
    let mut events = pin!(kubeio::watch(client, Collection::new(asked.path(), version_of)));
    let mut screen = Screen::default();
    let mut is_first = true;
    let mut outage = Outage::of("the cluster");
    while let Some(event) = events.next().await {
        match event {
            Event::Reset(objects) => {
                let workloads = asked.wanted(objects)?;
                let missing = asked.missing(&workloads).map(str::to_owned);
                screen.reset(asked, workloads)?;
                if let Some(missing) = missing.filter(|_| is_first) {
                    return Err(asked.not_found(&missing));
                }
                is_first = false;
            }
            Event::Applied(object) if asked.wants(&object) => {
                screen.show(asked, vec![Shown::of(&asked.kind, object)?])?;
            }
            Event::Deleted(object) if asked.wants(&object) => screen.delete(asked, object)?,
            Event::Interrupted(error) if is_first => return Err(asked.cannot_list(error)),
            Event::Interrupted(error) => {
                outage.begin(error, Instant::now()).map_err(|error| asked.cannot_list(error))?;
                continue;
            }
            _ => {}
        }
        outage.end();
        if !asked.names.is_empty() && screen.shown.is_empty() {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl Screen {
    /// After an interruption only what changed meanwhile is news.
    fn reset(&mut self, asked: &Asked, workloads: Vec<Shown>) -> anyhow::Result<()> {
        let there: Vec<_> = workloads.iter().map(key).collect();
        let gone: Vec<_> = self.shown.keys().filter(|key| !there.contains(key)).cloned().collect();
        for key in gone {
            if let Some(shown) = self.shown.remove(&key) {
                self.print_gone(asked, shown)?;
            }
        }
        self.show(asked, workloads)
    }

    /// Prints what people have not seen yet.
    fn show(&mut self, asked: &Asked, workloads: Vec<Shown>) -> anyhow::Result<()> {
        let is_news = |shown: &Shown| self.shown.get(&key(shown)).is_none_or(|before| before.view != shown.view);
        let news: Vec<Shown> = workloads.into_iter().filter(is_news).collect();
        self.print(asked, &news)?;
        self.shown.extend(news.into_iter().map(|shown| (key(&shown), shown)));
        Ok(())
    }

    fn delete(&mut self, asked: &Asked, object: Value) -> anyhow::Result<()> {
        let gone = Shown::of(&asked.kind, object)?;
        self.shown.remove(&key(&gone));
        self.print_gone(asked, gone)
    }

    fn print_gone(&mut self, asked: &Asked, mut gone: Shown) -> anyhow::Result<()> {
        (gone.view.phase, gone.view.why) = (Phase::Deleted, String::new());
        self.print(asked, &[gone])
    }

    fn print(&mut self, asked: &Asked, workloads: &[Shown]) -> anyhow::Result<()> {
        match asked.output {
            _ if workloads.is_empty() => {}
            Output::Table | Output::Wide => print!("{}", self.columns.go_on(&asked.table(workloads, wall_clock()))),
            _ => print!("{}", asked.text(workloads)?),
        }
        Ok(())
    }
}

fn key(shown: &Shown) -> (String, String) {
    (shown.view.namespace.clone(), shown.view.name.clone())
}
