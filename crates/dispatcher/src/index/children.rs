//! What operators on the manager have created for objects there, by their owners. Most owners are not ours: they run on the
//! manager as they should. But an owner may be heard of after what it owns, so all are kept.

use std::{collections::BTreeMap, sync::Arc};

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
    name: String,
    uid: Uid,
    resource_version: String,
    #[serde(default)]
    owner_references: Vec<Owner>,
}

#[derive(Debug, Deserialize)]
struct Owner {
    uid: Uid,
}

impl Child {
    pub(crate) fn version(&self) -> &str {
        &self.metadata.resource_version
    }
}

/// Children by their owner's UID and their own: of which resource, and under which name.
#[derive(Debug, Default)]
pub(super) struct Owned(BTreeMap<(Uid, Uid), (Arc<Children>, String)>);

impl Owned {
    /// Something that belongs to this object, as people call it.
    pub(super) fn by(&self, owner: &str) -> Option<String> {
        let from = (owner.to_owned(), Uid::new());
        let (_, (of, name)) = self.0.range(from..).next().filter(|((uid, _), _)| uid == owner)?;
        Some(format!("{}/{name}", of.resource()))
    }

    /// Returns the owners that it was not known of.
    fn add(&mut self, of: &Arc<Children>, Meta { name, uid, owner_references, .. }: Meta) -> Vec<Uid> {
        let mut news = Vec::new();
        for Owner { uid: owner } in owner_references {
            if self.0.insert((owner.clone(), uid.clone()), (Arc::clone(of), name.clone())).is_none() {
                news.push(owner);
            }
        }
        news
    }

    fn remove(&mut self, Meta { uid, owner_references, .. }: Meta) {
        for Owner { uid: owner } in owner_references {
            self.0.remove(&(owner, uid.clone()));
        }
    }

    fn forget(&mut self, of: &Children) {
        self.0.retain(|_, (resource, _)| **resource != *of);
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
    pub(crate) fn delete_child(&self, child: Child) {
        self.lock().owned.remove(child.metadata);
    }

    /// Nobody watches this resource any more.
    pub(crate) fn forget_children(&self, of: &Children) {
        self.lock().owned.forget(of);
    }
}

impl State {
    /// Those of them that are workloads of ours of which nothing of the kind was known.
    fn of_us(&self, mut owners: Vec<Uid>) -> Vec<Uid> {
        let unaware = |uid: &Uid| self.workloads.get(uid).is_some_and(|known| known.memory.local_child.is_none());
        owners.retain(unaware);
        owners.sort_unstable();
        owners.dedup();
        owners
    }
}
