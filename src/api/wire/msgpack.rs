//! JSON to `MessagePack` and back, value by value, without a tree in between.
//!
//! What comes out is to the byte what `rmp_serde` and `serde_json` make of a tree of the same JSON.

use std::cell::Cell;
use std::fmt;
use std::io;

use rmp::Marker;
use rmp::encode::{self, ValueWriteError};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Error as _, Serialize, SerializeMap as _, SerializeSeq as _, Serializer};
use serde_json::Value;

/// The least float that a JSON integer beyond 64 signed bits can have been taken for, but for its sign.
const OVERSIZED: f64 = 9_223_372_036_854_775_808.0;

/// Up to how many keys are compared each with each, which is quicker than to sort them.
const FEW_KEYS: usize = 16;

/// What JSON text says, as `MessagePack`.
pub(super) struct Converted {
    pub(super) msgpack: Vec<u8>,
    /// Whether one of its numbers may have been an integer beyond 64 signed bits.
    pub(super) may_have_oversized_integers: bool,
}

/// Converts JSON text, which must be one value. Of equal keys the last value is left, in the place of the first.
pub(super) fn from_json(json: &[u8]) -> serde_json::Result<Converted> {
    let mut writer = Writer::with_capacity(json.len());
    let mut parser = serde_json::Deserializer::from_slice(json);
    writer.deserialize(&mut parser)?;
    parser.end()?;
    let Writer { mut bytes, has_equal_keys, may_have_oversized_integers, .. } = writer;
    if has_equal_keys {
        bytes = without_equal_keys(&bytes);
    }
    Ok(Converted { msgpack: bytes, may_have_oversized_integers })
}

/// Objects with a key twice are rare, so they may take the way over a tree.
fn without_equal_keys(msgpack: &[u8]) -> Vec<u8> {
    let tree: Value = rmp_serde::from_slice(msgpack).expect("it was just written");
    rmp_serde::to_vec(&tree).expect("a tree always has a MessagePack form")
}

/// Writes `MessagePack` as a parser of JSON meets its values.
struct Writer {
    bytes: Vec<u8>,
    /// Where the keys of the objects that are not over yet begin and end in `bytes`.
    keys: Vec<(usize, usize)>,
    has_equal_keys: bool,
    may_have_oversized_integers: bool,
}

impl Writer {
    fn with_capacity(bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
            keys: Vec::with_capacity(FEW_KEYS),
            has_equal_keys: false,
            may_have_oversized_integers: false,
        }
    }

    /// Begins an array or object, whose length is known only at its end. Most are short: they need one byte.
    fn begin(&mut self) -> usize {
        self.bytes.push(0);
        self.bytes.len() - 1
    }

    /// Puts the length of what began at `head` there. A long one moves what is behind, at most as often as values
    /// nest, which the parser bounds.
    fn end(&mut self, head: usize, length: usize, short: fn(u8) -> Marker, long: WriteLength) {
        if let Ok(length @ ..16) = u8::try_from(length) {
            self.bytes[head] = short(length).to_u8();
            return;
        }
        let mut long_head = Vec::with_capacity(5);
        let length = u32::try_from(length).expect("a request has fewer values than that");
        written(long(&mut long_head, length));
        self.bytes.splice(head..=head, long_head);
    }

    /// Notes whether two of the keys behind the first `outer` are equal, and forgets those.
    fn end_keys(&mut self, outer: usize) {
        let text = |&(start, end): &(usize, usize)| &self.bytes[start..end];
        let keys = &mut self.keys[outer..];
        self.has_equal_keys |= if keys.len() <= FEW_KEYS {
            (1..keys.len()).any(|at| keys[..at].iter().any(|earlier| text(earlier) == text(&keys[at])))
        } else {
            keys.sort_unstable_by(|a, b| text(a).cmp(text(b)));
            keys.windows(2).any(|pair| text(&pair[0]) == text(&pair[1]))
        };
        self.keys.truncate(outer);
    }
}

type WriteLength = fn(&mut Vec<u8>, u32) -> Result<Marker, ValueWriteError<io::Error>>;

fn written<T, E: fmt::Debug>(result: Result<T, E>) {
    result.expect("a vector can be written to");
}

impl<'de> DeserializeSeed<'de> for &mut Writer {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Writer {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        written(encode::write_nil(&mut self.bytes));
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        written(encode::write_bool(&mut self.bytes, value));
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.may_have_oversized_integers |= i64::try_from(value).is_err();
        written(encode::write_uint(&mut self.bytes, value));
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        written(encode::write_sint(&mut self.bytes, value));
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.may_have_oversized_integers |= value.abs() >= OVERSIZED;
        written(encode::write_f64(&mut self.bytes, value));
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        written(encode::write_str(&mut self.bytes, value));
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<(), A::Error> {
        let head = self.begin();
        let mut length = 0;
        while array.next_element_seed(&mut *self)?.is_some() {
            length += 1;
        }
        self.end(head, length, Marker::FixArray, encode::write_array_len);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        let head = self.begin();
        let outer = self.keys.len();
        let mut key = self.bytes.len();
        while object.next_key_seed(&mut *self)?.is_some() {
            self.keys.push((key, self.bytes.len()));
            object.next_value_seed(&mut *self)?;
            key = self.bytes.len();
        }
        let length = self.keys.len() - outer;
        self.end_keys(outer);
        self.end(head, length, Marker::FixMap, encode::write_map_len);
        Ok(())
    }
}

/// What stands next in `MessagePack` that came from JSON. Of arrays and objects that is their length: their elements,
/// or keys and values in turn, follow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'a> {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(&'a [u8]),
    Array(u32),
    Object(u32),
}

/// Reads `MessagePack` that came from JSON, token by token. `None` where it did not, or ends early.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(msgpack: &'a [u8]) -> Self {
        Self(msgpack)
    }

    pub(super) fn token(&mut self) -> Option<Token<'a>> {
        let [marker] = self.take()?;
        Some(match Marker::from_u8(marker) {
            Marker::Null => Token::Null,
            Marker::False => Token::Bool(false),
            Marker::True => Token::Bool(true),
            Marker::FixPos(value) => Token::Unsigned(value.into()),
            Marker::U8 => Token::Unsigned(u8::from_be_bytes(self.take()?).into()),
            Marker::U16 => Token::Unsigned(u16::from_be_bytes(self.take()?).into()),
            Marker::U32 => Token::Unsigned(u32::from_be_bytes(self.take()?).into()),
            Marker::U64 => Token::Unsigned(u64::from_be_bytes(self.take()?)),
            Marker::FixNeg(value) => Token::Signed(value.into()),
            Marker::I8 => Token::Signed(i8::from_be_bytes(self.take()?).into()),
            Marker::I16 => Token::Signed(i16::from_be_bytes(self.take()?).into()),
            Marker::I32 => Token::Signed(i32::from_be_bytes(self.take()?).into()),
            Marker::I64 => Token::Signed(i64::from_be_bytes(self.take()?)),
            Marker::F64 => Token::Float(f64::from_be_bytes(self.take()?)),
            Marker::FixStr(length) => Token::Text(self.text(length.into())?),
            Marker::Str8 => {
                let length = u8::from_be_bytes(self.take()?);
                Token::Text(self.text(length.into())?)
            }
            Marker::Str16 => {
                let length = u16::from_be_bytes(self.take()?);
                Token::Text(self.text(length.into())?)
            }
            Marker::Str32 => {
                let length = u32::from_be_bytes(self.take()?);
                Token::Text(self.text(length)?)
            }
            Marker::FixArray(length) => Token::Array(length.into()),
            Marker::Array16 => Token::Array(u16::from_be_bytes(self.take()?).into()),
            Marker::Array32 => Token::Array(u32::from_be_bytes(self.take()?)),
            Marker::FixMap(length) => Token::Object(length.into()),
            Marker::Map16 => Token::Object(u16::from_be_bytes(self.take()?).into()),
            Marker::Map32 => Token::Object(u32::from_be_bytes(self.take()?)),
            // Of all others JSON has nothing.
            _ => return None,
        })
    }

    /// The bytes of one whole value.
    pub(super) fn value(&mut self) -> Option<&'a [u8]> {
        let all = self.0;
        let mut tokens = 1_u64;
        while tokens > 0 {
            tokens -= 1;
            tokens += match self.token()? {
                Token::Array(length) => length.into(),
                Token::Object(length) => 2 * u64::from(length),
                _ => 0,
            };
        }
        Some(&all[..all.len() - self.0.len()])
    }

    /// Goes to the value of a key in an object of so many keys that begins here. Whether there is one.
    pub(super) fn seek(&mut self, key: &[u8], length: u32) -> bool {
        for _ in 0..length {
            match self.token() {
                Some(Token::Text(found)) if found == key => return true,
                _ => self.value(),
            };
        }
        false
    }

    /// The keys and values of an object of so many keys that begins here.
    pub(super) fn entries(&mut self, length: u32) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        (0..length).map_while(|_| match self.token()? {
            Token::Text(key) => Some((key, self.value()?)),
            _ => None,
        })
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn text(&mut self, length: u32) -> Option<&'a [u8]> {
        let (text, rest) = self.0.split_at_checked(length as usize)?;
        self.0 = rest;
        Some(text)
    }
}

/// Shows `MessagePack` that came from JSON in another format, such as JSON. An error where it did not.
pub(super) fn serialize<S: Serializer>(msgpack: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    Rest(Cell::new(Reader(msgpack))).serialize(serializer)
}

/// Values that are yet to be shown. To serialize is to show the next.
struct Rest<'a>(Cell<Reader<'a>>);

impl Serialize for Rest<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut reader = self.0.get();
        let token = reader.token().ok_or_else(|| S::Error::custom("it did not come from JSON"))?;
        self.0.set(reader);
        match token {
            Token::Null => serializer.serialize_unit(),
            Token::Bool(value) => serializer.serialize_bool(value),
            Token::Unsigned(value) => serializer.serialize_u64(value),
            Token::Signed(value) => serializer.serialize_i64(value),
            Token::Float(value) => serializer.serialize_f64(value),
            Token::Text(text) => serializer.serialize_str(simdutf8::basic::from_utf8(text).map_err(S::Error::custom)?),
            Token::Array(length) => {
                let mut array = serializer.serialize_seq(Some(length as usize))?;
                for _ in 0..length {
                    array.serialize_element(self)?;
                }
                array.end()
            }
            Token::Object(length) => {
                let mut object = serializer.serialize_map(Some(length as usize))?;
                for _ in 0..length {
                    object.serialize_entry(self, self)?;
                }
                object.end()
            }
        }
    }
}
