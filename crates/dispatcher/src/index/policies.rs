//! What is known of policies, and of the namespaces that choose among them.

use std::collections::BTreeMap;

use jobferry_core::knowledge::Knowledge;

use super::{Index, Labels, List, ReadPolicy, Uid};

impl Index {
    /// All policies. Everything may be concerned.
    pub(crate) fn reset_policies(&self, policies: BTreeMap<String, ReadPolicy>) -> Vec<Uid> {
        let mut state = self.lock();
        state.listed.add(List::Policies);
        state.policies.policies = policies;
        state.everything()
    }

    /// A policy was written, or is gone. Everything may be concerned.
    pub(crate) fn change_policy(&self, name: &str, policy: Option<ReadPolicy>) -> Vec<Uid> {
        let mut state = self.lock();
        if replace(&mut state.policies.policies, name, policy) { state.everything() } else { Vec::new() }
    }

    /// The labels of all namespaces.
    pub(crate) fn reset_namespaces(&self, namespaces: BTreeMap<String, Labels>) -> Vec<Uid> {
        let mut state = self.lock();
        state.listed.add(List::Namespaces);
        state.policies.namespaces = namespaces;
        state.everything()
    }

    /// A namespace was written, or is gone.
    pub(crate) fn change_namespace(&self, name: &str, labels: Option<Labels>) -> Vec<Uid> {
        let mut state = self.lock();
        if !replace(&mut state.policies.namespaces, name, labels) {
            return Vec::new();
        }
        let inside = |known: &Knowledge| known.workload.as_ref().is_some_and(|workload| workload.namespace == name);
        let mut touched: Vec<Uid> =
            state.workloads.iter().filter(|(_, known)| inside(known)).map(|(uid, _)| uid.clone()).collect();
        touched.sort_unstable();
        touched
    }
}

/// Sets or removes an entry; whether that changed anything.
fn replace<T: PartialEq>(map: &mut BTreeMap<String, T>, key: &str, value: Option<T>) -> bool {
    if map.get(key) == value.as_ref() {
        return false;
    }
    match value {
        Some(value) => drop(map.insert(key.to_owned(), value)),
        None => drop(map.remove(key)),
    }
    true
}
