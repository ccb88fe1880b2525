//! The objects, one monotonic resourceVersion over all of them, and enough history to resume watches.
//!
//! ```text
//!   write --> table (current objects) --> history (ring of changes) --> watchers pull from their cursor
//!                  |                                                    (too slow: fell out of the ring, cut off)
//!                  +--> journal, if durable: nothing is answered or shown to watchers before it is on disk
//! ```
//!
//! Objects are kept as the bytes that every reader gets, beside the little that selectors look at: parsed JSON costs
//! about eight times the memory.

mod bell;
mod history;
mod journal;

use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use bytes::Bytes;
use serde::Serializer as _;
use serde_json::Value;
use tokio::sync::watch;

use bell::Bell;
pub(crate) use bell::Listener;
use history::History;
pub(crate) use history::{Change, ChangeKind, Changes};
use journal::Entry;
pub use journal::StoreError;
pub(crate) use journal::{Journal, Kept};

use crate::selector::Labels;

/// What most objects fit into.
const TYPICAL_BYTES: usize = 2048;

/// Where an object lives inside of its table. Cluster-scoped objects have an empty namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// An object as it was committed. Never changed afterwards.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) key: Key,
    pub(crate) uid: String,
    pub(crate) version: u64,
    pub(crate) labels: Labels,
    /// Values of the resource's selectable fields, in the order of the definition.
    pub(crate) fields: Vec<String>,
    pub(crate) json: Bytes,
}

impl Stored {
    /// The object as a JSON tree, to be read or changed.
    pub(crate) fn value(&self) -> Value {
        serde_json::from_slice(&self.json).unwrap_or_default()
    }
}

/// What is to be committed; the store stamps the resourceVersion.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) object: Value,
    pub(crate) fields: Vec<String>,
}

/// The condition of a write did not hold: the object is there already, gone, or changed since it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lost;

/// A version that history does not reach back to. Holds the oldest one it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expired(pub(crate) u64);

/// A consistent read of a table.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) objects: Vec<Arc<Stored>>,
    pub(crate) version: u64,
}

/// The beginning of a table.
#[derive(Debug)]
pub(crate) struct FirstPage {
    pub(crate) objects: Vec<Arc<Stored>>,
    pub(crate) version: u64,
    /// How many objects there are after the last of them; nobody asked whether they are wanted.
    pub(crate) left: usize,
}

/// A state of the whole store. Objects are shared with it, not copied.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    version: u64,
    tables: HashMap<String, BTreeMap<Key, Arc<Stored>>>,
}

pub(crate) struct Store {
    state: Mutex<State>,
    progress: watch::Sender<Progress>,
    /// Where changes go to become durable; `None`: they live in memory only.
    journal: Option<mpsc::Sender<Entry>>,
    /// The thread that writes the journal.
    writer: Mutex<Option<JoinHandle<()>>>,
    history_length: usize,
}

/// How far the journal is.
#[derive(Debug, Clone, Copy)]
struct Progress {
    /// Highest version that may be shown.
    visible: u64,
    /// The disk refused a write. What is not visible by now never will be.
    failed: bool,
}

/// The journal has failed: the change is not on disk, and nobody was told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotDurable;

struct State {
    version: u64,
    /// The version this process started from: what happened before is not in the histories.
    origin: u64,
    tables: HashMap<String, Table>,
}

struct Table {
    objects: BTreeMap<Key, Arc<Stored>>,
    history: History,
    /// Carries the visible version whenever this table has something new; dropped with the table.
    wake: Bell,
}

impl Store {
    /// An empty store in memory. `history_length` changes a table can be replayed.
    pub(crate) fn in_memory(history_length: usize) -> Arc<Self> {
        Arc::new(Self::new(0, None, history_length))
    }

    /// A store over a journal: whatever becomes visible from here on is on disk. What the journal kept has to be put
    /// back with [`Store::restore`].
    pub(crate) fn durable(journal: Journal, version: u64, history_length: usize) -> Arc<Self> {
        let (sender, entries) = mpsc::channel();
        let store = Arc::new(Self::new(version, Some(sender), history_length));
        let weak = Arc::downgrade(&store);
        let writer = std::thread::spawn(move || journal.run(&entries, &weak));
        *store.writer.lock().unwrap_or_else(PoisonError::into_inner) = Some(writer);
        store
    }

    fn new(version: u64, journal: Option<mpsc::Sender<Entry>>, history_length: usize) -> Self {
        Self {
            state: Mutex::new(State { version, origin: version, tables: HashMap::new() }),
            progress: watch::Sender::new(Progress { visible: version, failed: false }),
            journal,
            writer: Mutex::default(),
            history_length,
        }
    }

    /// Waits until everything up to `version` may be shown: at once in memory, after the disk has it otherwise.
    pub(crate) async fn visible(&self, version: u64) -> Result<(), NotDurable> {
        if self.progress.borrow().visible >= version {
            return Ok(());
        }
        let mut progress = self.progress.subscribe();
        let reached = progress.wait_for(|progress| progress.visible >= version || progress.failed).await;
        match reached {
            Ok(progress) if progress.visible >= version => Ok(()),
            _ => Err(NotDurable),
        }
    }

    /// Everything up to `version` is on disk: show it.
    fn publish(&self, version: u64) {
        let state = self.lock();
        let before = self.progress.send_replace(Progress { visible: version, failed: false }).visible;
        for table in state.tables.values().filter(|table| table.history.last_version() > before) {
            table.wake.ring(version);
        }
    }

    /// The disk refuses writes: whoever waits for one is told.
    fn fail(&self) {
        self.progress.send_modify(|progress| progress.failed = true);
    }

    /// Puts back an object that the journal kept: no new version, no history.
    pub(crate) fn restore(&self, table: &str, kept: Kept, fields: Vec<String>) {
        let stored = index(kept.key.clone(), &kept.object, kept.version, fields, kept.json);
        self.lock().table(table, self.history_length).objects.insert(kept.key, Arc::new(stored));
    }

    /// A write that panicked left either the old or the new object behind: both are sound states to go on from.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last committed version.
    pub(crate) fn version(&self) -> u64 {
        self.lock().version
    }

    pub(crate) fn get(&self, table: &str, key: &Key) -> Option<Arc<Stored>> {
        self.lock().tables.get(table)?.objects.get(key).cloned()
    }

    /// All objects of a table, or of one namespace of it, now or as they were at version `at`.
    pub(crate) fn list(&self, table: &str, namespace: Option<&str>, at: Option<u64>) -> Result<Listing, Expired> {
        let mut state = self.lock();
        let now = state.version;
        let Some(table) = state.tables.get_mut(table) else {
            return Ok(Listing { objects: Vec::new(), version: at.unwrap_or(now) });
        };
        let current: Vec<Arc<Stored>> = table.within(namespace).cloned().collect();
        match at {
            None => Ok(Listing { objects: current, version: now }),
            Some(at) => {
                let mut past = table.history.rewind(current, at)?;
                past.retain(|stored| namespace.is_none_or(|namespace| stored.key.namespace == namespace));
                Ok(Listing { objects: past, version: at })
            }
        }
    }

    /// The first objects of a table, or of one namespace of it, that are wanted; at most `limit`. What it costs does not grow
    /// with the table: clients ask for one object to learn the version.
    pub(crate) fn first(
        &self,
        table: &str,
        namespace: Option<&str>,
        limit: usize,
        wanted: impl Fn(&Stored) -> bool,
    ) -> FirstPage {
        let state = self.lock();
        let mut page = FirstPage { objects: Vec::new(), version: state.version, left: 0 };
        let Some(table) = state.tables.get(table) else { return page };
        for (passed, stored) in table.within(namespace).enumerate().filter(|(_, stored)| wanted(stored)) {
            if page.objects.len() == limit {
                let all = namespace.map_or(table.objects.len(), |_| table.within(namespace).count());
                page.left = all - passed;
                break;
            }
            page.objects.push(Arc::clone(stored));
        }
        page
    }

    /// Everything as it is now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let state = self.lock();
        let tables = state.tables.iter().map(|(name, table)| (name.clone(), table.objects.clone())).collect();
        Snapshot { version: state.version, tables }
    }

    /// Goes back to an earlier state, version included, as a cluster does whose backup was played back. What happened
    /// since is forgotten and all watches end. `false`: only a store in memory can do that.
    pub(crate) fn turn_back(&self, snapshot: &Snapshot) -> bool {
        if self.journal.is_some() {
            return false;
        }
        let mut state = self.lock();
        // Watches end table by table, in a fixed order, so that a simulated run can be repeated.
        drop(std::mem::take(&mut state.tables).into_iter().collect::<BTreeMap<_, _>>());
        *state = State { version: snapshot.version, origin: snapshot.version, tables: HashMap::new() };
        for (name, objects) in &snapshot.tables {
            state.table(name, self.history_length).objects.clone_from(objects);
        }
        self.progress.send_replace(Progress { visible: snapshot.version, failed: false });
        true
    }

    /// Adds an object that must not exist yet.
    pub(crate) fn create(&self, table: &str, draft: Draft) -> Result<Arc<Stored>, Lost> {
        self.commit(table, draft, None, ChangeKind::Created)
    }

    /// Replaces the object if it is still at version `expected`.
    pub(crate) fn replace(&self, table: &str, draft: Draft, expected: u64) -> Result<Arc<Stored>, Lost> {
        self.commit(table, draft, Some(expected), ChangeKind::Updated)
    }

    /// Removes the object if it is still at version `expected`; `last` is its final state.
    pub(crate) fn delete(&self, table: &str, last: Draft, expected: u64) -> Result<Arc<Stored>, Lost> {
        self.commit(table, last, Some(expected), ChangeKind::Deleted)
    }

    fn commit(&self, name: &str, draft: Draft, expected: Option<u64>, kind: ChangeKind) -> Result<Arc<Stored>, Lost> {
        let key = key_of(&draft.object);
        let mut state = self.lock();
        let version = state.version + 1;
        let table = state.table(name, self.history_length);
        let previous = table.objects.get(&key).cloned();
        if previous.as_ref().map(|stored| stored.version) != expected {
            return Err(Lost);
        }
        let stored = Arc::new(stamp(key, draft, version));
        if kind == ChangeKind::Deleted {
            table.objects.remove(&stored.key);
        } else {
            table.objects.insert(stored.key.clone(), Arc::clone(&stored));
        }
        let change = Change { kind, object: Arc::clone(&stored), previous };
        table.history.push(change);
        match &self.journal {
            None => {
                table.wake.ring(version);
                self.progress.send_replace(Progress { visible: version, failed: false });
            }
            // A journal that is gone has failed, and whoever waits for this version is told so.
            Some(journal) => drop(journal.send(Entry::of(name, kind, &stored))),
        }
        state.version = version;
        Ok(stored)
    }

    /// Visible changes of a table after `cursor`, at most `limit`.
    pub(crate) fn changes(&self, table: &str, cursor: u64, limit: usize) -> Result<Changes, Expired> {
        let state = self.lock();
        let visible = self.progress.borrow().visible;
        match state.tables.get(table) {
            Some(table) => table.history.after(cursor, visible, limit),
            None => Ok(Changes { list: Vec::new(), reached: visible.max(cursor) }),
        }
    }

    /// Tells when a table has something new; the sender goes away when the table is dropped.
    pub(crate) fn subscribe(&self, table: &str) -> Listener {
        self.lock().table(table, self.history_length).wake.listen()
    }

    /// Forgets a table and ends its watches. Its objects must have been deleted before.
    pub(crate) fn drop_table(&self, table: &str) {
        self.lock().tables.remove(table);
    }

    /// Number of objects by table, for metrics.
    pub(crate) fn sizes(&self) -> BTreeMap<String, usize> {
        self.lock().tables.iter().map(|(name, table)| (name.clone(), table.objects.len())).collect()
    }
}

/// Everything is on disk and the file is closed when the store is gone: another may open it.
impl Drop for Store {
    fn drop(&mut self) {
        // Without a sender the thread writes what it has and ends.
        self.journal = None;
        let writer = self.writer.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // The thread itself may be the last to let go of the store.
        if let Some(writer) = writer.filter(|writer| writer.thread().id() != std::thread::current().id())
            && writer.join().is_err()
        {
            tracing::error!("the writer of the store panicked");
        }
    }
}

impl Table {
    /// Its objects, or those of one namespace.
    fn within(&self, namespace: Option<&str>) -> impl Iterator<Item = &Arc<Stored>> {
        let from = Key { namespace: namespace.unwrap_or_default().to_owned(), name: String::new() };
        let inside = move |(key, _): &(&Key, _)| namespace.is_none_or(|namespace| key.namespace == namespace);
        self.objects.range(from..).take_while(inside).map(|(_, stored)| stored)
    }
}

impl State {
    fn table(&mut self, name: &str, history_length: usize) -> &mut Table {
        let (version, origin) = (self.version, self.origin);
        self.tables.entry(name.to_owned()).or_insert_with(|| Table {
            objects: BTreeMap::new(),
            history: History::new(history_length, origin),
            wake: Bell::new(version),
        })
    }
}

/// Where an object belongs, by its own metadata.
pub(crate) fn key_of(object: &Value) -> Key {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    Key { namespace: text("namespace"), name: text("name") }
}

fn stamp(key: Key, draft: Draft, version: u64) -> Stored {
    let Draft { mut object, fields } = draft;
    object["metadata"]["resourceVersion"] = version.to_string().into();
    let json = encode(&object);
    index(key, &object, version, fields, json)
}

fn index(key: Key, object: &Value, version: u64, fields: Vec<String>, json: Bytes) -> Stored {
    let metadata = &object["metadata"];
    let labels = metadata["labels"].as_object().map(|labels| {
        labels.iter().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
    });
    Stored {
        uid: metadata["uid"].as_str().unwrap_or_default().to_owned(),
        version,
        labels: labels.unwrap_or_default(),
        fields,
        json,
        key,
    }
}

/// The object as JSON with its type in front, so that a list can cut it off.
pub(crate) fn encode(object: &Value) -> Bytes {
    let entries = || object.as_object().into_iter().flatten();
    let is_type = |key: &str| key == "apiVersion" || key == "kind";
    let ordered = entries().filter(|(key, _)| is_type(key)).chain(entries().filter(|(key, _)| !is_type(key)));
    let mut json = Vec::with_capacity(TYPICAL_BYTES);
    // Neither memory nor a JSON tree can refuse to be written.
    drop(serde_json::Serializer::new(&mut json).collect_map(ordered));
    // Objects stay: no room is kept that nobody will use.
    Bytes::from(json.into_boxed_slice())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn draft(name: &str, colour: &str) -> Draft {
        let object = json!({"metadata": {"namespace": "a", "name": name, "uid": "u", "labels": {"colour": colour}}});
        Draft { object, fields: Vec::new() }
    }

    fn names(listing: &Listing) -> Vec<(&str, &str)> {
        listing.objects.iter().map(|o| (o.key.name.as_str(), o.labels["colour"].as_str())).collect()
    }

    #[test]
    fn a_write_whose_condition_does_not_hold_changes_nothing() {
        let store = Store::in_memory(16);
        let first = store.create("t", draft("x", "red")).unwrap();
        assert_eq!(store.create("t", draft("x", "blue")).unwrap_err(), Lost);
        assert_eq!(store.replace("t", draft("x", "blue"), first.version + 1).unwrap_err(), Lost);
        assert_eq!(store.delete("t", draft("y", "blue"), 1).unwrap_err(), Lost);
        assert_eq!(store.version(), first.version);
        assert_eq!(first.value()["metadata"]["resourceVersion"], "1");
    }

    #[test]
    fn a_first_page_tells_how_much_is_left() {
        let store = Store::in_memory(16);
        for (name, colour) in [("u", "red"), ("v", "blue"), ("x", "red"), ("y", "blue")] {
            store.create("t", draft(name, colour)).unwrap();
        }
        let page = |limit, colour: &str| {
            let page =
                store.first("t", Some("a"), limit, |stored| colour.is_empty() || stored.labels["colour"] == colour);
            assert_eq!(page.version, 4);
            (page.objects.iter().map(|stored| stored.key.name.clone()).collect::<Vec<_>>().concat(), page.left)
        };
        assert_eq!((page(1, ""), page(3, ""), page(4, "")), (("u".into(), 3), ("uvx".into(), 1), ("uvxy".into(), 0)));
        assert_eq!((page(1, "red"), page(2, "red")), (("u".into(), 2), ("ux".into(), 0)));
        assert_eq!(store.first("t", None, 1, |_| true).left, 3);
        assert_eq!(store.first("t", Some("b"), 1, |_| true).left, 0);
    }

    #[test]
    fn the_past_is_readable_as_long_as_history_reaches() {
        let store = Store::in_memory(3);
        let x = store.create("t", draft("x", "red")).unwrap();
        store.create("t", draft("y", "red")).unwrap();
        let x = store.replace("t", draft("x", "blue"), x.version).unwrap();
        store.delete("t", draft("x", "blue"), x.version).unwrap();
        let at = |version| store.list("t", Some("a"), Some(version));
        assert_eq!(names(&at(4).unwrap()), [("y", "red")]);
        assert_eq!(names(&at(3).unwrap()), [("x", "blue"), ("y", "red")]);
        assert_eq!(names(&at(2).unwrap()), [("x", "red"), ("y", "red")]);
        assert_eq!(names(&at(1).unwrap()), [("x", "red")]);
        assert_eq!(at(0).unwrap_err(), Expired(1), "the fourth change pushed the first out of the ring");
        assert!(store.list("t", Some("b"), None).unwrap().objects.is_empty());
    }
}
