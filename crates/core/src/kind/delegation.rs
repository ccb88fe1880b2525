//! Whether an object is ours to dispatch.

use jobferry_api::{self as api, labels, managed_by};
use serde_json::Value;

use super::Kind;

/// By this label Kueue takes an object for its own.
const QUEUE_NAME: &str = "kueue.x-k8s.io/queue-name";

/// Whose an object on the manager is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delegation {
    /// Somebody else's.
    Elsewhere,
    /// Handed to the dispatcher.
    Ours,
    /// Handed to the dispatcher by a value of managedBy that is Kueue's too, and it names this queue of Kueue's: whose it is
    /// depends on whose queue that is.
    Queued(String),
    /// Handed to the dispatcher, but it must not be dispatched; the user is told why.
    Refused(String),
}

/// Why a workload is not dispatched that a MultiKueue on the manager may take.
pub fn in_queue(queue: &str) -> String {
    format!(
        "it is in Kueue's queue {queue}: take off the label {QUEUE_NAME} or {}, or let its DispatchPolicy say \
         kueueQueues: Workers if that is a queue of the workers'",
        labels::DISPATCH
    )
}

/// An object that must exist on the worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// What kind of object.
    pub what: String,
    /// Its name.
    pub name: String,
}

impl Kind {
    /// Whose this object is.
    pub fn delegation(&self, object: &Value) -> Delegation {
        let labelled = label(object, labels::DISPATCH) == Some("true");
        let (delegated, shared) = match &self.managed_by {
            None => (labelled, false),
            Some(managed_by) => match managed_by.path.first(object).and_then(Value::as_str) {
                Some(value) if value == managed_by.dispatcher => (true, false),
                // A real MultiKueue on the same manager uses this value too: the label tells us apart, and what stands in
                // one of its queues is its own.
                Some(managed_by::MULTIKUEUE) if managed_by.admits == api::Admits::MultiKueue => (labelled, true),
                _ => (false, false),
            },
        };
        if !delegated {
            return Delegation::Elsewhere;
        }
        if let Some((_, why)) = self.refuse.iter().find(|(when, _)| when.iter().all(|test| test.holds(object))) {
            return Delegation::Refused(why.clone());
        }
        match label(object, QUEUE_NAME).filter(|_| shared) {
            Some(queue) => Delegation::Queued(queue.to_owned()),
            None => Delegation::Ours,
        }
    }

    /// To whom this mirror was given, if not to the kind's own operator: nobody there would run it.
    pub(crate) fn foreign_controller<'a>(&self, mirror: &'a Value) -> Option<&'a str> {
        let managed_by = self.managed_by.as_ref()?;
        let name = managed_by.path.first(mirror)?.as_str()?;
        (managed_by.operator.as_deref() != Some(name)).then_some(name)
    }

    /// What must exist on a worker before it can run this object.
    pub fn requirements(&self, object: &Value) -> Vec<Requirement> {
        let named = |(what, path): &(String, super::Path)| {
            let found = path.find(object).into_iter().filter_map(|(_, name)| name.as_str());
            found.map(|name| Requirement { what: what.clone(), name: name.to_owned() }).collect::<Vec<_>>()
        };
        self.requires.iter().flat_map(named).collect()
    }

    /// The rules by which objects are refused, in words.
    pub fn refusals(&self) -> Vec<String> {
        self.refuse.iter().map(|(when, why)| format!("{}: {why}", super::all(when))).collect()
    }

    /// What objects of this kind may need on a worker, in words.
    pub fn requirement_rules(&self) -> Vec<String> {
        self.requires.iter().map(|(what, path)| format!("the {what} that {path} names")).collect()
    }

    /// What a user does to hand an object of this kind to the dispatcher.
    pub fn how_to_delegate(&self) -> String {
        let label = format!("label {}=true", labels::DISPATCH);
        match &self.managed_by {
            None => label,
            Some(it) if it.admits == api::Admits::MultiKueue => {
                format!("{}={} and {label}", it.path, managed_by::MULTIKUEUE)
            }
            Some(it) => format!("{}={}", it.path, it.dispatcher),
        }
    }
}

fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("labels")?.get(key)?.as_str()
}
