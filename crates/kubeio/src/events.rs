//! Kubernetes Events: what happened to an object, for people who run `kubectl describe`.
//!
//! ```text
//!   tell() ──bounded channel──> ledger (again? too much?) ──budget──> POST or PATCH events
//! ```
//!
//! An Event is a courtesy. Telling one never waits and never fails: what does not fit is dropped and counted. What happens
//! again is counted on the Event that exists, and one object that has much to tell does not silence the others.

mod ledger;

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde_json::json;
use tokio::{sync::mpsc, time::Instant};

use crate::{
    CallError, Patch,
    call::{create, patch},
    events::ledger::{Bucket, Entry, Ledger},
};

/// Less than for a write that matters.
const DEADLINE: Duration = Duration::from_secs(5);
/// What may wait to be written: a burst of a thousand Jobs, in a few hundred kilobytes.
const WAITING: usize = 1024;
/// Writes at once after a quiet time, and one more each [`BUDGET_STEP`]: next to the hundreds of writes a second that
/// matter, Events must not be felt.
const BUDGET_BURST: u32 = 100;
const BUDGET_STEP: Duration = Duration::from_millis(100);
/// The API server refuses longer messages.
const MESSAGE_CHARACTERS: usize = 1024;

/// The object that an Event is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct About {
    /// For example `batch/v1`.
    pub api_version: Cow<'static, str>,
    /// For example `Job`.
    pub kind: Cow<'static, str>,
    /// Its namespace; empty for an object of the cluster, whose Events are kept in `default`.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID: `kubectl describe` shows Events of this one only.
    pub uid: String,
}

/// How much people should care.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Severity {
    /// As it should be.
    Normal,
    /// Somebody should look.
    Warning,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Happening {
    /// How much people should care.
    pub severity: Severity,
    /// One word in CamelCase, for machines.
    pub reason: Cow<'static, str>,
    /// A sentence, for people.
    pub message: String,
}

/// Takes what happened and writes it in its own time.
#[derive(Debug, Clone)]
pub struct Recorder {
    sender: mpsc::Sender<(About, Happening)>,
    dropped: Arc<AtomicU64>,
}

impl Recorder {
    /// A recorder that speaks as `component`, and the task that writes for it. The task ends with the last recorder.
    pub fn new(
        client: Client,
        component: &'static str,
        wall_clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (sender, receiver) = mpsc::channel(WAITING);
        let dropped = Arc::new(AtomicU64::new(0));
        (Self { sender, dropped }, write_all(client, component, wall_clock, receiver))
    }

    /// Tells what happened to an object. Never waits. When much is to be told, warnings go before the rest.
    pub fn tell(&self, about: About, happening: Happening) {
        let room = self.sender.capacity();
        let crowded = room < WAITING / 2 && happening.severity == Severity::Normal;
        if crowded || self.sender.try_send((about, happening)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many were dropped so far because there was no room.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

async fn write_all(
    client: Client,
    component: &'static str,
    wall_clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    mut receiver: mpsc::Receiver<(About, Happening)>,
) {
    let mut ledger = Ledger::default();
    let mut budget = Bucket::full(BUDGET_BURST, Instant::now());
    while let Some((about, happening)) = receiver.recv().await {
        let wall = wall_clock();
        let Some(entry) = ledger.enter(&about, &happening, wall, Instant::now()) else { continue };
        while !budget.take(BUDGET_BURST, BUDGET_STEP, Instant::now()) {
            tokio::time::sleep(BUDGET_STEP).await;
        }
        if let Err(error) = write(&client, component, &about, &happening, &entry, wall).await {
            tracing::debug!(name = about.name, reason = %happening.reason, %error, "an Event could not be written");
        }
    }
}

async fn write(
    client: &Client,
    component: &str,
    about: &About,
    happening: &Happening,
    entry: &Entry,
    wall: Timestamp,
) -> Result<(), CallError> {
    let namespace = if about.namespace.is_empty() { "default" } else { &about.namespace };
    let path = format!("/api/v1/namespaces/{namespace}/events");
    if entry.count > 1 {
        let body = json!({"count": entry.count, "lastTimestamp": seconds(wall)}).to_string().into_bytes();
        match patch(client, &format!("{path}/{}", entry.name), Patch::Merge, body, DEADLINE).await {
            // Servers forget Events after an hour: then it is a new one.
            Err(error) if error.is_not_found() => {}
            outcome => return outcome.map(drop),
        }
    }
    let About { api_version, kind, name, uid, .. } = about;
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": entry.name, "namespace": namespace},
        "involvedObject":
            {"apiVersion": api_version, "kind": kind, "namespace": about.namespace, "name": name, "uid": uid},
        "type": match happening.severity { Severity::Normal => "Normal", Severity::Warning => "Warning" },
        "reason": happening.reason,
        "message": happening.message.chars().take(MESSAGE_CHARACTERS).collect::<String>(),
        "source": {"component": component}, "reportingComponent": component, "reportingInstance": "",
        "firstTimestamp": seconds(wall), "lastTimestamp": seconds(wall), "count": entry.count,
    });
    create(client, &path, event.to_string().into_bytes(), DEADLINE).await.map(drop)
}

/// A time as API servers store it.
fn seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

#[cfg(test)]
mod tests;
