//! Carrying out single actions. What comes of each goes into the index; an `Err` means: plan again, after a while.

mod discard;
mod edit;
mod manager;
mod mirror;

use std::sync::Arc;

use bytes::Bytes;
use jobferry_core::{
    action::Action,
    custom::KindRef,
    record::Placement,
    refusal::{Failures, Ground, is_unavailable},
    time::WRITE_DEADLINE,
    workload::{Mirror, Workload},
};
use jobferry_kubeio::{self as kubeio, CallError, Horizon};
use kube::Client;
use serde::de::DeserializeOwned;

use crate::{Shared, events, link::Connection};

/// The action did not come to its end.
pub(crate) enum Unfinished {
    /// Things are not as the plan thought, or the answer was no.
    Again,
    /// There was no answer.
    Unanswered,
    /// The worker was not even asked.
    Unasked,
    /// Another cluster answers in the worker's place: whoever keeps the connection must look at it again.
    Stranger,
}

/// Carries out an action of the manager's lane.
pub(crate) async fn on_manager(
    shared: &Arc<Shared>,
    uid: &str,
    workload: Option<&Workload>,
    action: Action,
) -> Result<(), Unfinished> {
    let news = workload.and_then(|workload| Some((workload, events::news(workload, &action)?)));
    match (action, workload) {
        (Action::RecordPlacement(placement), Some(workload)) => {
            manager::record_placement(shared, workload, &placement).await
        }
        (Action::WriteStatus { status, placement }, Some(workload)) => {
            manager::write_status(shared, workload, &status, placement.as_ref()).await
        }
        (Action::WriteCustomStatus { status }, Some(workload)) => {
            manager::write_custom_status(shared, workload, &status).await
        }
        (Action::Tell(told), Some(workload)) => manager::tell(shared, workload, &told).await,
        (Action::DeleteWorkload, Some(workload)) => manager::delete(shared, workload).await,
        (Action::ReadAgain, Some(workload)) => manager::read_again(shared, workload).await,
        (Action::Alarm(alarm), _) => {
            tracing::error!(uid, %alarm);
            shared.metrics().alarm(&alarm);
            Ok(())
        }
        (Action::ProveGone { namespace, name }, _) => manager::prove_gone(shared, uid, &namespace, &name).await,
        _ => Ok(()),
    }?;
    if let Some((workload, happening)) = news {
        shared.recorder.tell(events::about(workload), happening);
    }
    Ok(())
}

/// The worker that an action is carried out on.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    client: &'a Client,
    horizon: &'a Horizon,
    name: &'a str,
    /// How many lists of it had come by then: an answer that a list overtakes may be the past.
    lists: u64,
}

impl<'a> Asked<'a> {
    pub(crate) fn now(shared: &Shared, connection: &'a Connection, name: &'a str, uid: &str) -> Self {
        let Connection { client, horizon, .. } = connection;
        Self { client, horizon, name, lists: shared.index.lists_of(name, uid) }
    }
}

/// Carries out an action of a worker's lane.
pub(crate) async fn on_worker(
    shared: &Arc<Shared>,
    asked: Asked<'_>,
    uid: &str,
    workload: Option<&Workload>,
    action: Action,
) -> Result<(), Unfinished> {
    match (action, workload) {
        (Action::CreateMirror(placement), Some(workload)) => mirror::create(shared, asked, workload, &placement).await,
        (Action::ProveAbsent { .. }, Some(workload)) => mirror::prove_absent(shared, asked, workload).await,
        (Action::LookForStray { .. }, Some(workload)) => mirror::look_for_stray(shared, asked, workload).await,
        (Action::ForwardEdit { mirror, digest, .. }, Some(workload)) => {
            edit::forward(shared, asked, workload, &mirror, digest).await
        }
        (Action::DeleteMirror { mirror, pods, .. }, workload) => {
            mirror::delete(shared, asked, uid, &mirror, pods).await?;
            if workload.is_none() {
                shared.metrics().orphan_deleted(asked.name);
            }
            Ok(())
        }
        (Action::DiscardMirror { placement, mirror, misfit }, Some(workload)) => {
            discard::discard(shared, asked, workload, &placement, &mirror, misfit).await
        }
        _ => Ok(()),
    }
}

/// Why a worker refuses, in its words, if the refusal is about the object.
fn ground_of(error: &CallError) -> Option<(Ground, String)> {
    let refusal = error.refusal()?;
    let ground = Ground::of(refusal.code, &refusal.reason, &refusal.message)?;
    Some((ground, refusal.message.clone()))
}

/// One object, whole, fresh from the store.
async fn read_raw(client: &Client, path: &str) -> Result<Bytes, CallError> {
    let request = http::Request::get(path).body(kube::client::Body::empty());
    let request = request.map_err(|error| CallError::Transport(error.to_string()))?;
    kubeio::call(client, request, WRITE_DEADLINE).await
}

/// A workload, as the manager sent it.
fn decode_workload(shared: &Shared, kind: &KindRef, answer: &[u8]) -> Result<Box<Workload>, Unfinished> {
    let workload = kind.decode_workload(answer, shared.clock.now().wall);
    workload.map(|workload| shared.seen(workload.into())).map_err(|error| log("read an answer", "", &error))
}

/// A mirror, as a worker sent it.
fn decode_mirror(shared: &Shared, asked: Asked<'_>, kind: &KindRef, answer: &[u8]) -> Result<Mirror, Unfinished> {
    let mirror = kind.decode_mirror(answer, shared.clock.now().wall);
    let mirror = mirror.map_err(|error| log("read an answer", "", &error))?;
    asked.horizon.show(&mirror.resource_version);
    Ok(mirror)
}

fn decode<T: DeserializeOwned>(answer: &[u8]) -> Result<T, Unfinished> {
    serde_json::from_slice(answer).map_err(|error| log("read an answer", "", &error))
}

fn log(what: &'static str, uid: &str, error: &dyn std::fmt::Display) -> Unfinished {
    tracing::warn!(uid, %error, "could not {what}; trying again");
    Unfinished::Again
}

/// The same for a request to a worker: whether there was an answer is what its breaker goes by.
fn failed(what: &'static str, uid: &str, error: &CallError) -> Unfinished {
    log(what, uid, error);
    if goes_unanswered(error) { Unfinished::Unanswered } else { Unfinished::Again }
}

/// Whether the worker's server fails at the mirror of this placement over and over again, and how: it answers so, or does not
/// answer in time though it answers other things in between (a webhook that hangs). Somebody must be told then.
fn failing(shared: &Arc<Shared>, uid: &str, placement: &Placement, error: &CallError) -> Option<String> {
    let why = match error {
        CallError::Refused(refusal) if Ground::is_failure(refusal.code) => refusal.message.clone(),
        CallError::Deadline(_) => error.to_string(),
        _ => return None,
    };
    let mut refused = false;
    shared.index.remember(uid, |memory| {
        let failures = Failures::after(memory.failures, placement.epoch);
        memory.failures = Some(failures);
        refused = failures.are_refusal();
    });
    refused.then_some(why)
}

/// Whether the worker did not answer, or only that it cannot.
pub(crate) fn goes_unanswered(error: &CallError) -> bool {
    match error {
        CallError::Deadline(_) | CallError::Transport(_) => true,
        CallError::Refused(refusal) => is_unavailable(refusal.code),
        CallError::Unreadable(_) => false,
    }
}

fn name_of(workload: &Workload) -> String {
    format!("{}/{}", workload.namespace, workload.name)
}
