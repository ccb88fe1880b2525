//! What a controller knows of one kind of objects: what the watch said, and what its own writes were answered.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use job_controller::{JobView, PodView};

/// An object with an identity, a version, and perhaps a group under which it is looked up.
pub(crate) trait Object {
    fn uid(&self) -> &str;
    fn resource_version(&self) -> &str;
    fn group(&self) -> Option<&str> {
        None
    }
}

/// Jobs that could select any pod are looked up by namespace.
impl Object for JobView {
    fn uid(&self) -> &str {
        &self.uid
    }
    fn resource_version(&self) -> &str {
        &self.resource_version
    }
    fn group(&self) -> Option<&str> {
        self.spec.manual_selector.then_some(self.namespace.as_str())
    }
}

/// Pods are looked up by the Job that controls them; those that nobody controls, by their namespace.
impl Object for PodView {
    fn uid(&self) -> &str {
        &self.uid
    }
    fn resource_version(&self) -> &str {
        &self.resource_version
    }
    fn group(&self) -> Option<&str> {
        match &self.owner {
            Some(owner) => Some(&owner.uid),
            None => (!self.controlled_by_other).then_some(self.namespace.as_str()),
        }
    }
}

/// Objects by UID. An own write is visible here as soon as it is answered, whatever the watch has reached.
///
/// Versions are compared as numbers, which Kubernetes guarantees since 1.35 and has always kept to: the answer of a write
/// counts if the watch has not yet come so far; an event that is older than what is known is dropped.
#[derive(Debug)]
pub(crate) struct Cache<T> {
    objects: BTreeMap<String, Arc<T>>,
    groups: BTreeMap<String, BTreeSet<String>>,
    /// Known to be gone from answers to own writes. Until the watch says so too, it may still tell older news of them.
    gone: BTreeSet<String>,
    /// The version that the watch has reached.
    reached: u64,
    listed: bool,
}

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), groups: BTreeMap::new(), gone: BTreeSet::new(), reached: 0, listed: false }
    }
}

impl<T: Object> Cache<T> {
    /// Whether the first list has come.
    pub(crate) fn is_listed(&self) -> bool {
        self.listed
    }

    pub(crate) fn get(&self, uid: &str) -> Option<Arc<T>> {
        self.objects.get(uid).cloned()
    }

    pub(crate) fn group(&self, group: &str) -> impl Iterator<Item = Arc<T>> {
        self.groups.get(group).into_iter().flatten().filter_map(|uid| self.get(uid))
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<T>> {
        self.objects.values()
    }

    /// A list of this version: what it does not name is gone, and returned. Except for own writes that neither the list nor
    /// the watch before it can have shown. A server that was restored from a backup has gone back: what is known of its
    /// lost future does not count.
    pub(crate) fn reset(&mut self, objects: Vec<T>, at: u64) -> Vec<Arc<T>> {
        let (shown, went_back) = (self.reached.max(at), at < self.reached);
        (self.reached, self.listed) = (at, true);
        let named: BTreeSet<String> = objects.iter().map(|object| object.uid().to_owned()).collect();
        self.gone.retain(|uid| named.contains(uid) && !went_back);
        let is_shown = |object: &&Arc<T>| version(object.as_ref()) <= shown;
        let known: Vec<Arc<T>> = self.objects.values().filter(is_shown).cloned().collect();
        for object in &known {
            self.take(object.uid());
        }
        for object in objects {
            self.put(object);
        }
        known.into_iter().filter(|object| !named.contains(object.uid())).collect()
    }

    /// An event of the watch. Returns whether it told anything new.
    pub(crate) fn apply(&mut self, object: T) -> bool {
        self.reached = self.reached.max(version(&object));
        self.put(object)
    }

    /// An event of the watch: the object is gone.
    pub(crate) fn delete(&mut self, object: &T) {
        self.reached = self.reached.max(version(object));
        self.gone.remove(object.uid());
        self.take(object.uid());
    }

    /// The answer of an own write.
    pub(crate) fn learn(&mut self, object: T) {
        if version(&object) > self.reached {
            self.put(object);
        }
    }

    /// The answer of an own write says that there is no such object (any more).
    pub(crate) fn remove(&mut self, uid: &str) {
        if self.objects.contains_key(uid) {
            self.gone.insert(uid.to_owned());
        }
        self.take(uid);
    }

    fn take(&mut self, uid: &str) {
        if let Some(object) = self.objects.remove(uid)
            && let Some(group) = object.group()
            && let Some(members) = self.groups.get_mut(group)
        {
            members.remove(uid);
            if members.is_empty() {
                self.groups.remove(group);
            }
        }
    }

    fn put(&mut self, object: T) -> bool {
        let uid = object.uid().to_owned();
        let older = self.objects.get(&uid).is_some_and(|known| version(known.as_ref()) >= version(&object));
        if older || self.gone.contains(&uid) {
            return false;
        }
        self.take(&uid);
        if let Some(group) = object.group() {
            self.groups.entry(group.to_owned()).or_default().insert(uid.clone());
        }
        self.objects.insert(uid, Arc::new(object));
        true
    }
}

fn version(object: &impl Object) -> u64 {
    object.resource_version().parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Thing(&'static str, &'static str);

    impl Object for Thing {
        fn uid(&self) -> &str {
            self.0
        }
        fn resource_version(&self) -> &str {
            self.1
        }
    }

    fn versions(cache: &Cache<Thing>) -> Vec<(&str, &str)> {
        cache.all().map(|thing| (thing.0, thing.1)).collect()
    }

    #[test]
    fn an_own_write_is_not_undone_by_an_older_event() {
        let mut cache = Cache::default();
        cache.reset(vec![Thing("a", "1")], 1);
        cache.learn(Thing("a", "5"));
        assert!(!cache.apply(Thing("a", "3")));
        assert_eq!(versions(&cache), [("a", "5")]);
        assert!(cache.apply(Thing("a", "6")));
        assert_eq!(versions(&cache), [("a", "6")]);
    }

    #[test]
    fn an_object_that_was_deleted_meanwhile_does_not_come_back_with_a_late_answer() {
        let mut cache = Cache::default();
        cache.reset(vec![], 1);
        cache.apply(Thing("a", "2"));
        cache.delete(&Thing("a", "3"));
        cache.learn(Thing("a", "2"));
        assert_eq!(versions(&cache), []);
    }

    #[test]
    fn older_news_do_not_bring_back_what_an_own_write_removed() {
        let mut cache = Cache::default();
        cache.reset(vec![Thing("a", "1")], 1);
        cache.remove("a");
        assert!(!cache.apply(Thing("a", "2")));
        assert_eq!(versions(&cache), []);
        cache.delete(&Thing("a", "3"));
        assert!(cache.gone.is_empty(), "the watch has come to its end too");
    }

    #[test]
    fn a_list_removes_what_it_does_not_name_but_not_newer_own_writes() {
        let mut cache = Cache::default();
        cache.reset(vec![Thing("a", "1"), Thing("b", "2")], 2);
        cache.learn(Thing("c", "9"));
        let lost = cache.reset(vec![Thing("b", "2"), Thing("d", "7")], 8);
        assert_eq!(lost, [Arc::new(Thing("a", "1"))]);
        assert_eq!(versions(&cache), [("b", "2"), ("c", "9"), ("d", "7")]);
        assert_eq!(cache.reset(vec![Thing("b", "2")], 9).len(), 2, "the list is as new as what was written");
    }

    #[test]
    fn a_list_of_a_restored_server_counts_whatever_was_known_of_its_future() {
        let mut cache = Cache::default();
        cache.reset(vec![Thing("a", "5"), Thing("b", "6")], 6);
        cache.apply(Thing("a", "99"));
        cache.remove("b");
        cache.reset(vec![Thing("a", "50"), Thing("b", "6")], 60);
        assert_eq!(versions(&cache), [("a", "50"), ("b", "6")]);
        cache.learn(Thing("a", "61"));
        assert_eq!(versions(&cache), [("a", "61"), ("b", "6")]);
    }

    #[test]
    fn the_last_object_that_changed_is_gone_as_well_if_a_list_does_not_name_it() {
        let mut cache = Cache::default();
        cache.reset(vec![Thing("a", "1")], 1);
        cache.apply(Thing("b", "5"));
        cache.reset(vec![Thing("a", "1")], 6);
        assert_eq!(versions(&cache), [("a", "1")]);
    }
}
