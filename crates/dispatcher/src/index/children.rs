//! What operators on the manager have created for objects there, by their owners. Most owners are not ours: they run on the
//! manager as they should. But an owner may be heard of after what it owns, so all are kept.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use jobferry_core::kind::Children;
use serde::Deserialize;

use super::{Index, State, Uid};

/// An object that may belong to another one, as far as its metadata tells.
#[derive(Debug, Deserialize)]
pub(crate) struct Child {
    metadata: Meta,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    #[serde(default)]
    namespace: String,
    name: String,
    uid: Uid,
    resource_version: String,
    #[serde(default)]
    owner_references: Vec<Owner>,
}

#[derive(Debug, Deserialize)]
struct Owner {
    uid: Uid,
    /// Others only want to go together.
    #[serde(default)]
    controller: bool,
}

impl Child {
    pub(crate) fn version(&self) -> &str {
        &self.metadata.resource_version
    }
}

/// Children by their owner's UID.
#[derive(Debug, Default)]
pub(super) struct Owned(HashMap<Uid, BTreeMap<Key, Place>>);

/// A child: of which resource, and its own UID.
type Key = (Arc<Children>, Uid);
/// In which namespace, and under which name.
type Place = (String, String);

impl Owned {
    /// Something that belongs to this object, as people call it. An owner in another namespace is none: whoever may create
    /// something there could stop what runs here.
    fn by(&self, owner: &str, namespace: &str) -> Option<String> {
        let ((of, _), (_, name)) = self.0.get(owner)?.iter().find(|(_, (within, _))| within == namespace)?;
        Some(format!("{}/{name}", of.resource()))
    }

    /// Returns the owners that it was not known of.
    fn add(&mut self, of: &Arc<Children>, Meta { namespace, name, uid, owner_references, .. }: Meta) -> Vec<Uid> {
        let mut news = Vec::new();
        for Owner { uid: owner, .. } in owner_references.into_iter().filter(|owner| owner.controller) {
            let key = (Arc::clone(of), uid.clone());
            let owned = self.0.entry(owner.clone()).or_default();
            if owned.insert(key, (namespace.clone(), name.clone())).is_none() {
                news.push(owner);
            }
        }
        news
    }

    fn remove(&mut self, of: &Arc<Children>, Meta { uid, owner_references, .. }: Meta) {
        let child = (Arc::clone(of), uid);
        for Owner { uid: owner, .. } in owner_references {
            if let Some(owned) = self.0.get_mut(&owner) {
                owned.remove(&child);
                if owned.is_empty() {
                    self.0.remove(&owner);
                }
            }
        }
    }

    fn forget(&mut self, of: &Children) {
        self.0.retain(|_, owned| {
            owned.retain(|(resource, _), _| **resource != *of);
            !owned.is_empty()
        });
    }
}

impl Index {
    /// The manager's whole list of one resource. Returns the workloads to plan.
    pub(crate) fn reset_children(&self, of: &Arc<Children>, children: Vec<Child>) -> Vec<Uid> {
        let mut state = self.lock();
        state.owned.forget(of);
        let owners = children.into_iter().flat_map(|child| state.owned.add(of, child.metadata)).collect();
        state.of_us(owners)
    }

    /// A child was created or changed. Returns the workloads to plan.
    pub(crate) fn apply_child(&self, of: &Arc<Children>, child: Child) -> Vec<Uid> {
        let mut state = self.lock();
        let owners = state.owned.add(of, child.metadata);
        state.of_us(owners)
    }

    /// A child is gone. That it was there is remembered of workloads that were planned since.
    pub(crate) fn delete_child(&self, of: &Arc<Children>, child: Child) {
        self.lock().owned.remove(of, child.metadata);
    }

    /// Nobody watches this resource any more.
    pub(crate) fn forget_children(&self, of: &Children) {
        self.lock().owned.forget(of);
    }
}

impl State {
    /// Remembers of a workload what was created for it on the manager. To be called before planning.
    pub(super) fn notice_child(&mut self, uid: &str) {
        let Some(known) = self.workloads.get(uid).filter(|known| known.memory.local_child.is_none()) else { return };
        let child = known.workload.as_ref().and_then(|workload| self.owned.by(uid, &workload.namespace));
        if child.is_some() {
            self.change(uid, |known| known.memory.local_child = child);
        }
    }

    /// Those of them that are workloads of ours of which nothing of the kind was known.
    fn of_us(&self, mut owners: Vec<Uid>) -> Vec<Uid> {
        let unaware = |uid: &Uid| self.workloads.get(uid).is_some_and(|known| known.memory.local_child.is_none());
        owners.retain(unaware);
        owners.sort_unstable();
        owners.dedup();
        owners
    }
}
