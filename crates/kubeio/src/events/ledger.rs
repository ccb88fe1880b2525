//! What was told already, and how much may still be told.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

use super::{About, Happening};

/// The same again is counted at once and written at most this often.
const REPEAT_EVERY: Duration = Duration::from_secs(60);
/// Different Events of one object at once, and one more each [`OBJECT_STEP`]: enough for the life of a Job, too little for
/// one that goes round in circles.
const OBJECT_BURST: u32 = 20;
const OBJECT_STEP: Duration = Duration::from_secs(60);
/// Entries of one generation. Two are kept, so that what is needed is remembered and what is not is forgotten.
const GENERATION: usize = 4096;

/// An Event to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// The name of the Event object.
    pub(super) name: String,
    /// How often it happened; more than once: the Event exists.
    pub(super) count: u32,
}

#[derive(Debug, Clone)]
struct Told {
    entry: Entry,
    written: Instant,
}

/// Remembers what was told.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    told: Generations<Told>,
    objects: Generations<Bucket>,
}

impl Ledger {
    /// What to write, if anything.
    pub(super) fn enter(
        &mut self,
        about: &About,
        happening: &Happening,
        wall: Timestamp,
        now: Instant,
    ) -> Option<Entry> {
        let key = digest(&(about, happening));
        if let Some(told) = self.told.get(key) {
            told.entry.count = told.entry.count.saturating_add(1);
            if now.duration_since(told.written) < REPEAT_EVERY {
                return None;
            }
            told.written = now;
            return Some(told.entry.clone());
        }
        let object = digest(about);
        let allowed = match self.objects.get(object) {
            Some(bucket) => bucket.take(OBJECT_BURST, OBJECT_STEP, now),
            None => self.objects.insert(object, Bucket::full(OBJECT_BURST, now)).take(OBJECT_BURST, OBJECT_STEP, now),
        };
        if !allowed {
            return None;
        }
        // Unique without randomness, so that a simulated run can be repeated.
        let name = about.name.chars().take(200).collect::<String>();
        let entry = Entry { name: format!("{name}.{:016x}", digest(&(key, wall.as_nanosecond()))), count: 1 };
        self.told.insert(key, Told { entry: entry.clone(), written: now });
        Some(entry)
    }
}

fn digest(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A map that forgets what was not asked for in a long time.
#[derive(Debug)]
struct Generations<V> {
    young: HashMap<u64, V>,
    old: HashMap<u64, V>,
}

impl<V> Default for Generations<V> {
    fn default() -> Self {
        Self { young: HashMap::new(), old: HashMap::new() }
    }
}

impl<V> Generations<V> {
    fn get(&mut self, key: u64) -> Option<&mut V> {
        if let Some(value) = self.old.remove(&key) {
            return Some(self.insert(key, value));
        }
        self.young.get_mut(&key)
    }

    fn insert(&mut self, key: u64, value: V) -> &mut V {
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.entry(key).insert_entry(value).into_mut()
    }
}

/// A number of things that may be done at once, refilled over time.
#[derive(Debug, Clone)]
pub(super) struct Bucket {
    left: u32,
    refilled: Instant,
}

impl Bucket {
    pub(super) fn full(burst: u32, now: Instant) -> Self {
        Self { left: burst, refilled: now }
    }

    /// Takes one, if there is one. One comes back each `step`, up to `burst`.
    pub(super) fn take(&mut self, burst: u32, step: Duration, now: Instant) -> bool {
        let steps = now.duration_since(self.refilled).as_millis() / step.as_millis().max(1);
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(steps).min(burst);
        // A full bucket starts to wait when something is taken, not before.
        self.refilled = if self.left == burst { now } else { self.refilled + step * steps };
        let taken = self.left > 0;
        self.left -= u32::from(taken);
        taken
    }
}
