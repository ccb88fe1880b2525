//! Who belongs to whom, and what follows from it. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::Deserialize;

use crate::discovery::Kind;

/// Set by a deletion with Foreground propagation: the object waits for its dependents.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Set by a deletion with Orphan propagation: the object waits until its dependents have let go of it.
pub(crate) const ORPHAN: &str = "orphan";

/// The part of an object that matters here.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Seen {
    pub(crate) metadata: Meta,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Meta {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    deletion_timestamp: Option<String>,
    finalizers: Vec<String>,
    owner_references: Vec<Owner>,
}

/// A reference to an owner.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Owner {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// The owner, deleted in the foreground, waits for this dependent.
    #[serde(default)]
    pub(crate) block_owner_deletion: bool,
}

/// An object in the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) kind: Arc<Kind>,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) owners: Vec<Owner>,
    deleting: bool,
    waits_for_dependents: bool,
    waits_for_orphaning: bool,
}

impl Item {
    pub(crate) fn new(kind: Arc<Kind>, seen: Seen) -> Self {
        let meta = seen.metadata;
        let deleting = meta.deletion_timestamp.is_some();
        let holds = |name: &str| deleting && meta.finalizers.iter().any(|finalizer| finalizer == name);
        Self {
            waits_for_dependents: holds(FOREGROUND),
            waits_for_orphaning: holds(ORPHAN),
            kind,
            namespace: meta.namespace,
            name: meta.name,
            uid: meta.uid,
            owners: meta.owner_references,
            deleting,
        }
    }
}

/// What is to be done about an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Nothing,
    /// None of its owners is known: if each is proved gone, it goes too.
    Unowned,
    /// Its owner is being deleted in the foreground and waits for it.
    GoFirst,
    /// Its dependents are gone: the finalizer goes.
    FinishForeground,
    /// These dependents must let go of it, then the finalizer goes.
    Orphan(Vec<Item>),
}

/// All objects by UID, and their dependents.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    items: BTreeMap<String, Item>,
    dependents: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    pub(crate) fn get(&self, uid: &str) -> Option<&Item> {
        self.items.get(uid)
    }

    /// UIDs of the objects of one kind.
    pub(crate) fn of_kind(&self, kind: &Kind) -> Vec<String> {
        self.items.values().filter(|item| *item.kind == *kind).map(|item| item.uid.clone()).collect()
    }

    /// Takes in an object; returns who has to be looked at.
    pub(crate) fn put(&mut self, item: Item) -> Vec<String> {
        self.unlink(&item.uid);
        for owner in &item.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(item.uid.clone());
        }
        let mut touched = vec![item.uid.clone()];
        if item.deleting {
            touched.extend(self.dependents_of(&item.uid));
            touched.extend(item.owners.iter().map(|owner| owner.uid.clone()));
        }
        self.items.insert(item.uid.clone(), item);
        touched
    }

    /// Forgets an object; returns who has to be looked at.
    pub(crate) fn remove(&mut self, uid: &str) -> Vec<String> {
        let owners = self.items.get(uid).map(|item| item.owners.clone()).unwrap_or_default();
        self.unlink(uid);
        self.items.remove(uid);
        owners.into_iter().map(|owner| owner.uid).chain(self.dependents_of(uid)).collect()
    }

    fn unlink(&mut self, uid: &str) {
        let owners = self.items.get(uid).map(|item| item.owners.clone()).unwrap_or_default();
        for owner in owners {
            if let Some(dependents) = self.dependents.get_mut(&owner.uid) {
                dependents.remove(uid);
                if dependents.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
    }

    fn dependents_of(&self, uid: &str) -> Vec<String> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    /// What is to be done about the object with this UID.
    pub(crate) fn judge(&self, uid: &str) -> Verdict {
        let Some(item) = self.items.get(uid) else { return Verdict::Nothing };
        let dependents = || self.dependents.get(uid).into_iter().flatten().filter_map(|uid| self.items.get(uid));
        if item.waits_for_orphaning {
            return Verdict::Orphan(dependents().cloned().collect());
        }
        if item.waits_for_dependents {
            let blocks = |dependent: &Item| dependent.owners.iter().any(|o| o.uid == uid && o.block_owner_deletion);
            return if dependents().any(blocks) { Verdict::Nothing } else { Verdict::FinishForeground };
        }
        if item.deleting || item.owners.is_empty() {
            return Verdict::Nothing;
        }
        let known = item.owners.iter().filter_map(|owner| self.items.get(&owner.uid));
        let (mut some, mut all_wait) = (false, true);
        for owner in known {
            some = true;
            all_wait &= owner.waits_for_dependents;
        }
        match (some, all_wait) {
            (false, _) => Verdict::Unowned,
            (true, true) => Verdict::GoFirst,
            (true, false) => Verdict::Nothing,
        }
    }

    /// Whether anything depends on it.
    pub(crate) fn has_dependents(&self, uid: &str) -> bool {
        self.dependents.contains_key(uid)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn item(uid: &str, owners: &[&str], finalizer: Option<&str>) -> Item {
        let owners: Vec<_> = (owners.iter())
            .map(|uid| json!({"apiVersion": "v1", "kind": "K", "name": uid, "uid": uid, "blockOwnerDeletion": true}))
            .collect();
        let mut meta = json!({"name": uid, "uid": uid, "ownerReferences": owners});
        if let Some(finalizer) = finalizer {
            meta["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            meta["finalizers"] = json!([finalizer]);
        }
        let kind =
            Kind { api_version: "v1".to_owned(), name: "K".to_owned(), plural: "ks".to_owned(), namespaced: false };
        Item::new(Arc::new(kind), serde_json::from_value(json!({"metadata": meta})).unwrap())
    }

    #[test]
    fn a_dependent_goes_when_its_last_owner_has_gone() {
        let mut graph = Graph::default();
        for owner in ["a", "b"] {
            graph.put(item(owner, &[], None));
        }
        graph.put(item("child", &["a", "b"], None));
        assert_eq!(graph.remove("a"), ["child"]);
        assert_eq!(graph.judge("child"), Verdict::Nothing);
        graph.remove("b");
        assert_eq!(graph.judge("child"), Verdict::Unowned);
    }

    #[test]
    fn an_owner_in_the_foreground_waits_for_its_dependents() {
        let mut graph = Graph::default();
        graph.put(item("child", &["owner"], None));
        let touched = graph.put(item("owner", &[], Some(FOREGROUND)));
        assert_eq!(touched, ["owner", "child"]);
        assert_eq!((graph.judge("owner"), graph.judge("child")), (Verdict::Nothing, Verdict::GoFirst));
        assert_eq!(graph.remove("child"), ["owner"]);
        assert_eq!(graph.judge("owner"), Verdict::FinishForeground);
    }

    #[test]
    fn orphaned_dependents_let_go_of_their_owner() {
        let mut graph = Graph::default();
        let child = item("child", &["owner"], None);
        graph.put(child.clone());
        graph.put(item("owner", &[], Some(ORPHAN)));
        assert_eq!(graph.judge("owner"), Verdict::Orphan(vec![child]));
        assert_eq!(graph.judge("child"), Verdict::Nothing);
    }
}
