//! A fingerprint of JSON that is read for nothing else: nothing of it is kept, or put in order first.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

use crate::fingerprint::fingerprint;

/// Does not depend on the order of keys. Null, an empty list and an empty object are [`Print::NOTHING`], and an entry that says
/// nothing is as good as none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Print(u64);

impl Print {
    pub(super) const NOTHING: Self = Self(0);

    /// Of a list with these items.
    pub(super) fn of_list(items: impl IntoIterator<Item = Self>) -> Self {
        let bytes = |item: Self| item.0.to_le_bytes();
        let mut items = items.into_iter().peekable();
        if items.peek().is_none() { Self::NOTHING } else { Self(fingerprint(items.flat_map(bytes))) }
    }

    /// Of several lists, of which each has its place.
    pub(super) fn of_lists(lists: impl IntoIterator<Item = Self>) -> Self {
        let entry = |(place, list): (usize, Self)| Self::of_entry(fingerprint(place.to_le_bytes()), list);
        Self(lists.into_iter().enumerate().map(entry).fold(0, u64::wrapping_add))
    }

    /// What an entry adds to that of its object.
    fn of_entry(key: u64, value: Self) -> u64 {
        if value == Self::NOTHING {
            0
        } else {
            fingerprint(key.to_le_bytes().into_iter().chain([b':']).chain(value.0.to_le_bytes()))
        }
    }
}

impl fmt::Display for Print {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl<'de> Deserialize<'de> for Print {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader(|_| true))
    }
}

/// That of an object's entries with such keys.
pub(super) fn entries<'de, D: Deserializer<'de>>(deserializer: D, counts: fn(&str) -> bool) -> Result<Print, D::Error> {
    deserializer.deserialize_map(Reader(counts))
}

/// Reads a value; of an object, the entries whose keys count.
struct Reader(fn(&str) -> bool);

impl<'de> Visitor<'de> for Reader {
    type Value = Print;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Print, E> {
        Ok(Print::NOTHING)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Print, E> {
        Ok(Print(fingerprint([u8::from(value)])))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Print, E> {
        Ok(Print(fingerprint(value.to_le_bytes())))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Print, E> {
        Ok(Print(fingerprint(value.to_le_bytes())))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Print, E> {
        Ok(Print(fingerprint(value.to_le_bytes())))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Print, E> {
        Ok(Print(fingerprint(value.bytes())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Print, A::Error> {
        let mut items = Vec::with_capacity(list.size_hint().unwrap_or_default().min(16));
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Print::of_list(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Print, A::Error> {
        let mut sum = 0_u64;
        while let Some(key) = object.next_key_seed(Key(self.0))? {
            match key {
                Some(key) => sum = sum.wrapping_add(Print::of_entry(key, object.next_value()?)),
                None => drop(object.next_value::<IgnoredAny>()?),
            }
        }
        Ok(Print(sum))
    }
}

/// Reads a key; `None` if it does not count.
struct Key(fn(&str) -> bool);

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Option<u64>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key {
    type Value = Option<u64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        Ok((self.0)(key).then(|| fingerprint(key.bytes())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(json: &str) -> Print {
        let read: Print = serde_json::from_str(json).unwrap();
        let value: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(read, Print::deserialize(&value).unwrap(), "from text and from a value: {json}");
        read
    }

    #[test]
    fn the_order_of_keys_does_not_count_and_that_of_items_does() {
        assert_eq!(
            print(r#"{"a": "1", "b": {"c": [1, -2.5, true]}}"#),
            print(r#"{"b": {"c": [1, -2.5, true]}, "a": "1"}"#)
        );
        assert_ne!(print(r#"["a", "b"]"#), print(r#"["b", "a"]"#));
    }

    #[test]
    fn whatever_is_said_otherwise_is_something_else() {
        let said = [r#"{"a": "1"}"#, r#"{"a": "2"}"#, r#"{"b": "1"}"#, r#"{"a": 1}"#, r#"["a", "1"]"#, r#""a""#, "-1"];
        for (at, one) in said.iter().enumerate() {
            assert!(said[at + 1..].iter().all(|other| print(one) != print(other)), "{one}");
        }
        assert_ne!(print(r#"{"a": "1", "b": "2"}"#), print(r#"{"a": "2", "b": "1"}"#));
    }

    #[test]
    fn to_say_nothing_is_the_same_in_all_words() {
        for nothing in ["null", "[]", "{}", r#"{"requests": {}}"#] {
            assert_eq!(print(nothing), Print::NOTHING, "{nothing}");
        }
        assert_ne!(print(r#"{"label": ""}"#), Print::NOTHING, "a label without a value is there");
    }
}
