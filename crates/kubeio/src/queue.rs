//! The work queue: a key is handed out once at a time, however often it was added, and no source of keys holds up another.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use crate::Backoff;

/// Where a key comes from. Sources take turns, so that ten thousand keys of one do not hold up the single key of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Source(u64);

impl Source {
    /// The source of this name.
    pub fn named(name: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// How soon a key should be handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Urgency {
    /// When its turn comes.
    #[default]
    Normal,
    /// Before those that are only [`Urgency::Normal`]; but of so many turns one is theirs, so that nothing waits for ever.
    Urgent,
}

/// Of so many turns one goes to a key that is not urgent.
const TURNS: u32 = 16;

/// A queue of keys. Clones share the same queue.
///
/// A key that is added while it waits stays where it is; one that is added while it is worked on is handed out again
/// after [`Queue::done`]. Keys added with a delay are handed out when it is over, or earlier if added again without.
#[derive(Debug)]
pub struct Queue<K> {
    shared: Arc<Shared<K>>,
}

#[derive(Debug)]
struct Shared<K> {
    state: Mutex<State<K>>,
    changed: Notify,
    first_retry: Duration,
    last_retry: Duration,
}

#[derive(Debug)]
struct State<K> {
    /// Keys that may not wait behind `ready`.
    urgent: Turns<K>,
    ready: Turns<K>,
    /// Whose turn it is: the last one of [`TURNS`] is not the urgent keys'.
    turn: u32,
    /// Keys to hand out: those in `urgent` or `ready` (what is not here was handed out already), or worked on and added
    /// again; with where and how they were added.
    waiting: HashMap<K, Place>,
    /// Keys that are worked on, with the place that they had.
    working: HashMap<K, Place>,
    /// Those among them that wait because of a reminder alone.
    reminded: HashSet<K>,
    /// Delayed keys by due time; the number keeps two keys of one instant apart and in order.
    delayed: BTreeMap<(Instant, u64), K>,
    due: HashMap<K, Due>,
    failures: HashMap<K, Backoff>,
    sequence: u64,
}

/// In which line a key stands, and whose turn it takes there.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    source: Source,
    urgency: Urgency,
}

impl Place {
    /// The better one of the two.
    fn or(self, other: Self) -> Self {
        if self.urgency == Urgency::Urgent { self } else { other }
    }
}

/// A key that waits for its time.
#[derive(Debug, Clone, Copy)]
struct Due {
    slot: (Instant, u64),
    /// What it gets when the time has come.
    place: Place,
}

/// Keys that wait, by source. Sources take turns; the keys of one keep their order.
#[derive(Debug)]
struct Turns<K> {
    order: VecDeque<Source>,
    keys: HashMap<Source, VecDeque<K>>,
}

impl<K> Default for Turns<K> {
    fn default() -> Self {
        Self { order: VecDeque::new(), keys: HashMap::new() }
    }
}

impl<K> Turns<K> {
    fn push(&mut self, source: Source, key: K) {
        let keys = self.keys.entry(source).or_default();
        if keys.is_empty() {
            self.order.push_back(source);
        }
        keys.push_back(key);
    }

    fn pop(&mut self) -> Option<K> {
        let source = self.order.pop_front()?;
        let keys = self.keys.get_mut(&source)?;
        let key = keys.pop_front();
        if keys.is_empty() {
            self.keys.remove(&source);
        } else {
            self.order.push_back(source);
        }
        key
    }
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<K: Clone + Eq + Hash> Queue<K> {
    /// An empty queue whose retries wait from `first_retry` up to `last_retry`.
    pub fn new(first_retry: Duration, last_retry: Duration) -> Self {
        let state = State {
            urgent: Turns::default(),
            ready: Turns::default(),
            turn: 0,
            waiting: HashMap::new(),
            working: HashMap::new(),
            reminded: HashSet::new(),
            delayed: BTreeMap::new(),
            due: HashMap::new(),
            failures: HashMap::new(),
            sequence: 0,
        };
        Self { shared: Arc::new(Shared { state: Mutex::new(state), changed: Notify::new(), first_retry, last_retry }) }
    }

    /// Hands the key out as soon as a worker is free.
    pub fn add(&self, key: K) {
        self.add_from(Source::default(), Urgency::Normal, key);
    }

    /// Hands the key out when it is the turn of its source, urgent ones first.
    pub fn add_from(&self, source: Source, urgency: Urgency, key: K) {
        let mut state = self.lock();
        state.reminded.remove(&key);
        state.make_ready(key, Place { source, urgency });
        drop(state);
        self.shared.changed.notify_one();
    }

    /// Hands the key out when it is the turn of its source, unless it waits for its time already: a reminder does not cut a
    /// back-off short. When that is over, the key is as urgent as the reminder.
    pub fn remind(&self, source: Source, urgency: Urgency, key: K) {
        let place = Place { source, urgency };
        let mut state = self.lock();
        if state.working.contains_key(&key) && !state.waiting.contains_key(&key) {
            state.reminded.insert(key.clone());
        }
        if let Some(due) = state.due.get_mut(&key) {
            due.place = due.place.or(place);
            return;
        }
        state.make_ready(key, place);
        drop(state);
        self.shared.changed.notify_one();
    }

    /// Hands the key out after `delay`, unless it is due earlier already.
    pub fn add_after(&self, key: K, delay: Duration) {
        if delay.is_zero() {
            return self.add(key);
        }
        self.lock().make_due(key, Instant::now() + delay, Place::default());
        self.shared.changed.notify_one();
    }

    /// Hands the key out after a delay that grows with each call until [`Queue::forget`]. What was urgent still is.
    pub fn retry(&self, key: K) {
        let mut state = self.lock();
        state.sequence += 1;
        let seed = state.sequence;
        let (first, last) = (self.shared.first_retry, self.shared.last_retry);
        let reminder = if state.reminded.remove(&key) { state.waiting.remove(&key) } else { None };
        let delay = state.failures.entry(key.clone()).or_insert_with(|| Backoff::new(first, last, seed)).next_delay();
        let place = state.working.get(&key).copied().unwrap_or_default().or(reminder.unwrap_or_default());
        state.make_due(key, Instant::now() + delay, place);
        drop(state);
        self.shared.changed.notify_one();
    }

    /// The key's work went well: its next failure starts with the first delay again.
    pub fn forget(&self, key: &K) {
        self.lock().failures.remove(key);
    }

    /// The next key. It is not handed out again before [`Queue::done`].
    pub async fn next(&self) -> K {
        loop {
            let next_due = {
                let mut state = self.lock();
                state.release_due(Instant::now());
                if let Some(key) = state.take() {
                    if !state.waiting.is_empty() {
                        self.shared.changed.notify_one();
                    }
                    return key;
                }
                state.delayed.first_key_value().map(|((due, _), _)| *due)
            };
            match next_due {
                Some(due) => {
                    tokio::select! { biased;
                        () = self.shared.changed.notified() => {}
                        () = tokio::time::sleep_until(due) => {}
                    }
                }
                None => self.shared.changed.notified().await,
            }
        }
    }

    /// The work on the key is over.
    pub fn done(&self, key: &K) {
        let mut state = self.lock();
        state.working.remove(key);
        state.reminded.remove(key);
        if let Some(Place { source, urgency }) = state.waiting.get(key).copied() {
            state.line(urgency).push(source, key.clone());
            drop(state);
            self.shared.changed.notify_one();
        }
    }

    /// How many keys wait to be handed out now (not counting delayed ones).
    pub fn len(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Whether no key waits to be handed out now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        // No code of ours panics while it holds the lock; if it did, the state would still be consistent.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash> State<K> {
    fn take(&mut self) -> Option<K> {
        while let Some(key) = self.pop() {
            // Worked on: `done` puts it back. Not waiting: it was handed out by the other line.
            if !self.working.contains_key(&key)
                && let Some(place) = self.waiting.remove(&key)
            {
                self.working.insert(key.clone(), place);
                self.turn = (self.turn + 1) % TURNS;
                return Some(key);
            }
        }
        None
    }

    fn pop(&mut self) -> Option<K> {
        let Self { urgent, ready, turn, .. } = self;
        let (first, second) = if *turn + 1 == TURNS { (ready, urgent) } else { (urgent, ready) };
        first.pop().or_else(|| second.pop())
    }

    const fn line(&mut self, urgency: Urgency) -> &mut Turns<K> {
        match urgency {
            Urgency::Normal => &mut self.ready,
            Urgency::Urgent => &mut self.urgent,
        }
    }

    fn make_ready(&mut self, key: K, place: Place) {
        let delayed = self.due.remove(&key);
        if let Some(due) = &delayed {
            self.delayed.remove(&due.slot);
        }
        let place = delayed.map_or(place, |due| due.place.or(place));
        let in_line = match self.waiting.get(&key) {
            None => false,
            Some(before) => before.urgency == place.urgency || place.urgency == Urgency::Normal,
        };
        if in_line {
            return;
        }
        self.waiting.insert(key.clone(), place);
        if !self.working.contains_key(&key) {
            self.line(place.urgency).push(place.source, key);
        }
    }

    fn make_due(&mut self, key: K, at: Instant, place: Place) {
        if self.waiting.contains_key(&key) {
            return;
        }
        self.sequence += 1;
        let slot = (at, self.sequence);
        let due = match self.due.get(&key) {
            None => Due { slot, place },
            Some(before) => Due { slot: before.slot.min(slot), place: before.place.or(place) },
        };
        if let Some(before) = self.due.insert(key.clone(), due) {
            self.delayed.remove(&before.slot);
        }
        self.delayed.insert(due.slot, key);
    }

    fn release_due(&mut self, now: Instant) {
        while let Some(entry) = self.delayed.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let key = entry.remove();
            self.make_ready(key, Place::default());
        }
    }
}

#[cfg(test)]
mod tests;
