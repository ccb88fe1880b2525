//! Seeded choices: the same seed records the same questions.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde_json::Value;

pub(crate) struct Dice(ChaCha8Rng);

impl Dice {
    /// One stream of choices per question, so that a change to one question leaves the others as they are.
    pub(crate) fn new(seed: u64, question: u64) -> Self {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(question);
        Self(generator)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.0.next_u64() % bound.max(1) as u64).unwrap_or(0)
    }

    pub(crate) fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }

    /// One of several JSON values, written as one JSON array.
    pub(crate) fn json(&mut self, choices: &str) -> Value {
        match serde_json::from_str::<Vec<Value>>(choices) {
            Ok(mut choices) => {
                let index = self.below(choices.len());
                choices.swap_remove(index)
            }
            Err(error) => unreachable!("the table has a bad entry, {error}: {choices}"),
        }
    }
}

/// Puts a value at a JSON pointer and makes the objects on the way. `-` appends to a list.
/// `null` in our tables means "leave it out".
pub(crate) fn put(target: &mut Value, pointer: &str, value: Value) {
    let mut place = target;
    let mut steps = pointer.trim_start_matches('/').split('/').peekable();
    while let Some(step) = steps.next() {
        let step = step.replace("~1", "/");
        let is_last = steps.peek().is_none();
        if let Value::Array(list) = place {
            let index = step.parse().unwrap_or(list.len());
            if index >= list.len() {
                list.push(Value::Null);
            }
            let index = index.min(list.len() - 1);
            place = &mut list[index];
        } else {
            if !place.is_object() {
                *place = Value::Object(serde_json::Map::new());
            }
            let Value::Object(map) = place else { return };
            if is_last && value.is_null() {
                map.remove(&step);
                return;
            }
            let next_is_list = matches!(steps.peek().copied(), Some("0" | "1" | "-"));
            let empty = if next_is_list { Value::Array(Vec::new()) } else { Value::Null };
            let entry = map.entry(step).or_insert(empty);
            if next_is_list && !entry.is_array() {
                *entry = Value::Array(Vec::new());
            }
            place = entry;
        }
        if is_last {
            *place = value;
            return;
        }
    }
}
