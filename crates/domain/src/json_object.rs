//! A JSON object that clients have sent and the service keeps, such as metadata. It is kept as
//! bytes, because a tree takes up to a hundred times the memory of its text.

use std::fmt;

use bytes::Bytes;
use rmp::encode::{write_map_len, write_str};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use thiserror::Error;

use super::comparison;
use super::msgpack::{self, Reader, Token};

/// Maximum number of values in an object, at all levels.
pub const VALUES_MAX: u64 = 1_000;
/// Maximum number of levels of arrays and objects.
pub const LEVELS_MAX: usize = 32;

/// The `MessagePack` of an object without keys.
const EMPTY: &[u8] = &[0x80];

/// A JSON object, as `MessagePack` that was converted from JSON. Its keys are distinct and have an
/// order.
///
/// The bytes have at most about twice the size of the JSON.
#[derive(Clone, PartialEq, Eq)]
pub struct JsonObject(Bytes);

/// An object has more values or levels than the service accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TooComplex {
    /// It has too many values.
    #[error("{0} values at all levels; at most {VALUES_MAX} are allowed, so write inner arrays and objects as texts")]
    Values(u64),
    /// It is nested too deeply.
    #[error("{0} levels; at most {LEVELS_MAX} are allowed, so write inner arrays and objects as texts")]
    Levels(usize),
}

impl JsonObject {
    /// Returns the object with these bytes, or `None` if they are not one object that has a JSON
    /// form.
    #[must_use]
    pub fn from_msgpack(bytes: Bytes) -> Option<Self> {
        let is_object = matches!(Reader::new(&bytes).token(), Some(Token::Object(_)));
        (is_object && msgpack::is_json(&bytes)).then_some(Self(bytes))
    }

    /// Returns an object with these keys and values, which are `MessagePack`. The keys must be
    /// distinct.
    #[must_use]
    pub fn from_entries(entries: &[(&str, &[u8])]) -> Self {
        if entries.is_empty() {
            return Self::default();
        }
        let mut bytes =
            Vec::with_capacity(5 + entries.iter().map(|(key, value)| 5 + key.len() + value.len()).sum::<usize>());
        let length = u32::try_from(entries.len()).expect("a request has fewer keys");
        write_map_len(&mut bytes, length).expect("a vector can be written to");
        for (key, value) in entries {
            write_str(&mut bytes, key).expect("a vector can be written to");
            bytes.extend_from_slice(value);
        }
        Self(bytes.into())
    }

    /// Returns the `MessagePack`.
    #[must_use]
    pub fn as_msgpack(&self) -> &Bytes {
        &self.0
    }

    /// Returns the keys and the `MessagePack` of their values, in their order.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let mut reader = Reader::new(&self.0);
        let length = match reader.token() {
            Some(Token::Object(length)) => length,
            _ => 0,
        };
        (0..length)
            .map_while(move |_| reader.entry())
            .filter_map(|(key, value)| Some((str::from_utf8(key).ok()?, value)))
    }

    /// Returns the `MessagePack` of the value of a key.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&[u8]> {
        self.entries().find(|(found, _)| *found == key).map(|(_, value)| value)
    }

    /// Returns the value of a key, if it is a text.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        match Reader::new(self.value(key)?).token()? {
            Token::Text(text) => str::from_utf8(text).ok(),
            _ => None,
        }
    }

    /// Returns the object with this text under a key.
    #[must_use]
    pub fn with_text(&self, key: &str, text: &str) -> Self {
        let text = rmp_serde::to_vec(text).expect("a text has a MessagePack form");
        let others = self.entries().filter(|(other, _)| *other != key);
        Self::from_entries(&others.chain([(key, text.as_slice())]).collect::<Vec<_>>())
    }

    /// Returns the value of a key as a tree.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Value> {
        rmp_serde::from_slice(self.value(key)?).ok()
    }

    /// Returns the value of a key, if it is an object. The result has a buffer of its own.
    #[must_use]
    pub fn object(&self, key: &str) -> Option<Self> {
        Self::from_msgpack(Bytes::copy_from_slice(self.value(key)?))
    }

    /// Returns whether the object has no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries().next().is_none()
    }

    /// Returns whether both objects have the same keys with equal values, in any order.
    #[must_use]
    pub fn has_same_entries(&self, other: &Self) -> bool {
        self.is_part_of(&other.0) && other.is_part_of(&self.0)
    }

    /// Returns whether a value, as `MessagePack` that was converted from JSON, is an object that
    /// has all keys of this one with equal values.
    #[must_use]
    pub fn is_part_of(&self, value: &[u8]) -> bool {
        comparison::has_entries(value, &self.0)
    }

    /// Succeeds if the object has at most [`VALUES_MAX`] values and [`LEVELS_MAX`] levels.
    pub fn check(&self) -> Result<(), TooComplex> {
        match msgpack::extent(&self.0) {
            (values, _) if values > VALUES_MAX => Err(TooComplex::Values(values)),
            (_, levels) if levels > LEVELS_MAX => Err(TooComplex::Levels(levels)),
            _ => Ok(()),
        }
    }
}

impl Default for JsonObject {
    fn default() -> Self {
        Self(Bytes::from_static(EMPTY))
    }
}

impl From<&Map<String, Value>> for JsonObject {
    fn from(keys: &Map<String, Value>) -> Self {
        let bytes = rmp_serde::to_vec(keys).expect("JSON always has a MessagePack form");
        // A vector that has grown has room for twice as many bytes.
        Self(bytes.into_boxed_slice().into())
    }
}

impl<'de> Deserialize<'de> for JsonObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_msgpack(msgpack::read(deserializer)?.into()).ok_or_else(|| D::Error::custom("it is not an object"))
    }
}

impl Serialize for JsonObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        msgpack::serialize(&self.0, serializer)
    }
}

impl fmt::Debug for JsonObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(keys: &Value) -> JsonObject {
        keys.as_object().unwrap().into()
    }

    #[test]
    fn the_values_of_all_levels_are_counted() {
        let many =
            |count: u64| object(&json!({ "a": vec![json!([0]); usize::try_from(count).unwrap()], "b": {"c": 1} }));

        assert_eq!(object(&json!({})).check(), Ok(()));
        // "a" and "b" are values too, and "c".
        assert_eq!(many(498).check(), Ok(()));
        assert_eq!(many(499).check(), Err(TooComplex::Values(1_001)));
    }

    #[test]
    fn the_levels_are_counted() {
        let nested = |levels: usize| {
            let inner = (2..levels).fold(json!([]), |value, _| json!([value]));
            object(&json!({ "before": [[]], "a": inner, "after": [[]] }))
        };

        assert_eq!(nested(LEVELS_MAX).check(), Ok(()));
        assert_eq!(nested(LEVELS_MAX + 1).check(), Err(TooComplex::Levels(33)));
    }

    #[test]
    fn bytes_that_are_not_one_object_are_refused() {
        let deep = [&b"\x81\xa1a"[..], &[0x91; 127], b"\x90"].concat();
        for bytes in [
            &b""[..],
            b"\x90",
            b"\x81\xa1a",
            b"\x80\x80",
            b"\xc7\x00\x01",
            b"\x81\x01\x01",
            b"\x81\xa1\xff\x01",
            b"\x81\xa1a\xa1\xff",
            &deep,
        ] {
            assert_eq!(JsonObject::from_msgpack(bytes.to_vec().into()), None, "{bytes:?}");
        }
        let deepest = [&b"\x81\xa1a"[..], &[0x91; 126], b"\x90"].concat();
        assert!(JsonObject::from_msgpack(deepest.into()).is_some());
        let known = object(&json!({ "a": 1, "é": [true] }));
        assert_eq!(JsonObject::from_msgpack(known.as_msgpack().clone()), Some(known.clone()));
        assert_eq!((known.get("é"), known.get("b")), (Some(json!([true])), None));
        assert_eq!(format!("{known:?}"), r#"{"a":1,"é":[true]}"#);
    }
}
