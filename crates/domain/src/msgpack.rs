//! Converts JSON to `MessagePack` and back, value by value, without building a tree.
//!
//! The output has the same bytes as that of `rmp_serde` and `serde_json` for a tree of the same
//! JSON.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::io;

use rmp::Marker;
use rmp::encode::{self, ValueWriteError};
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Error as _, Serialize, SerializeMap as _, SerializeSeq as _, Serializer};
use serde_json::de::Read;

/// Minimum absolute value of the float that the parser makes of an integer that does not fit into
/// 64 signed bits.
const OVERSIZED_MIN: f64 = 9_223_372_036_854_775_808.0;

/// Maximum nesting of arrays and objects, as in the JSON parser.
const DEPTH_MAX: usize = 128;

/// Maximum nesting of arrays and objects in a document that a client sends. A WebSocket adds one
/// level to what it returns, and most parsers read 127.
const SENT_DEPTH_MAX: usize = 126;

/// Maximum number of keys that are compared pair by pair, which is faster than sorting them.
const FEW_KEYS: usize = 16;

/// The `MessagePack` of a JSON text.
pub struct Converted {
    /// The text, in which of equal keys the last one remains.
    pub msgpack: Vec<u8>,
    /// The same with all of equal keys; `None` if no object has equal keys.
    pub with_equal_keys: Option<Vec<u8>>,
    /// Whether a number may have been an integer that does not fit into 64 signed bits.
    pub may_have_oversized_integers: bool,
}

/// Converts a JSON text, which must be one value. Of equal keys, the value of the last one remains,
/// in the position of the first one.
pub fn from_json(json: &[u8]) -> serde_json::Result<Converted> {
    let mut writer = Writer::with_capacity(json.len());
    match simdutf8::basic::from_utf8(json) {
        Ok(text) => writer.read(&mut serde_json::Deserializer::from_str(text))?,
        // The parser reports the position of the invalid bytes.
        Err(_) => writer.read(&mut serde_json::Deserializer::from_slice(json))?,
    }
    Ok(writer.converted())
}

/// Converts `MessagePack` that a client has sent to the form that the JSON of the same value would
/// have, under the same rules. Returns why the bytes are not accepted: they are not one value, are
/// nested too deeply, or have a value without a JSON form, such as binary data.
pub fn from_msgpack(msgpack: &[u8]) -> Result<Converted, String> {
    let mut writer = Writer { has_other_keys: Some(false), ..Writer::with_capacity(msgpack.len()) };
    let mut rest = msgpack;
    let mut parser = rmp_serde::Deserializer::new(&mut rest);
    parser.set_max_depth(DEPTH_MAX);
    writer.deserialize(&mut parser).map_err(|error| error.to_string())?;
    if !rest.is_empty() {
        return Err("another value follows the first one".to_owned());
    }
    if writer.may_have_oversized_integers {
        return Err("a number is too large or not finite".to_owned());
    }
    if writer.has_other_keys == Some(true) {
        return Err("a key is not a text".to_owned());
    }
    Ok(writer.converted())
}

/// Returns the `MessagePack` of the next value of a deserializer.
pub fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let mut writer = Writer::with_capacity(0);
    writer.deserialize(deserializer)?;
    Ok(writer.bytes)
}

/// Removes equal keys. This is slower than the rest, but objects with equal keys are rare.
fn without_equal_keys(msgpack: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(msgpack.len());
    write_keys_anew(&mut Reader::new(msgpack), &mut bytes, false).expect("it was just written");
    bytes
}

/// Appends a value that was converted from JSON, with the keys of each object in an order that does
/// not depend on how they were written.
pub fn write_sorted(msgpack: &[u8], bytes: &mut Vec<u8>) {
    write_keys_anew(&mut Reader::new(msgpack), bytes, true).expect("it was converted from JSON");
}

/// Writes the next value without equal keys, and with sorted ones if `sorts`. Each byte is read
/// once, and is copied at most once for each level, which the parser limits.
fn write_keys_anew(reader: &mut Reader<'_>, bytes: &mut Vec<u8>, sorts: bool) -> Option<()> {
    let all = reader.0;
    match reader.token()? {
        Token::Array(length) => {
            written(encode::write_array_len(bytes, length));
            (0..length).try_for_each(|_| write_keys_anew(reader, bytes, sorts))
        }
        Token::Object(length) => {
            let start = bytes.len();
            written(encode::write_map_len(bytes, length));
            // Where the last entry of each key is, in the order of the first ones.
            let (mut entries, mut indexes) = (Vec::new(), HashMap::new());
            for _ in 0..length {
                let (from, Token::Text(key)) = (bytes.len(), reader.token()?) else { return None };
                written(encode::write_str_len(bytes, u32::try_from(key.len()).ok()?));
                bytes.extend_from_slice(key);
                write_keys_anew(reader, bytes, sorts)?;
                let index = *indexes.entry(key).or_insert(entries.len());
                if index == entries.len() {
                    entries.push(from..bytes.len());
                }
                entries[index] = from..bytes.len();
            }
            let distinct = u32::try_from(entries.len()).ok()?;
            if sorts {
                entries.sort_unstable_by(|a, b| bytes[a.clone()].cmp(&bytes[b.clone()]));
            }
            if sorts || distinct < length {
                let mut object = Vec::with_capacity(bytes.len() - start);
                written(encode::write_map_len(&mut object, distinct));
                for entry in entries {
                    object.extend_from_slice(&bytes[entry]);
                }
                bytes.truncate(start);
                bytes.append(&mut object);
            }
            Some(())
        }
        _ => {
            bytes.extend_from_slice(&all[..all.len() - reader.0.len()]);
            Some(())
        }
    }
}

/// Writes `MessagePack` while a JSON parser visits the values.
struct Writer {
    bytes: Vec<u8>,
    /// Number of arrays and objects that have not ended.
    depth: usize,
    /// Start and end in `bytes` of the keys of all objects that have not ended.
    keys: Vec<(usize, usize)>,
    has_equal_keys: bool,
    may_have_oversized_integers: bool,
    /// Whether a key is not a text, which is possible in `MessagePack`; `None` for JSON.
    has_other_keys: Option<bool>,
}

impl Writer {
    fn with_capacity(bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
            depth: 0,
            keys: Vec::with_capacity(FEW_KEYS),
            has_equal_keys: false,
            may_have_oversized_integers: false,
            has_other_keys: None,
        }
    }

    fn converted(self) -> Converted {
        let Self { bytes, has_equal_keys, may_have_oversized_integers, .. } = self;
        let (msgpack, with_equal_keys) =
            if has_equal_keys { (without_equal_keys(&bytes), Some(bytes)) } else { (bytes, None) };
        Converted { msgpack, with_equal_keys, may_have_oversized_integers }
    }

    /// Reads one value and checks that nothing follows it.
    fn read<'de>(&mut self, parser: &mut serde_json::Deserializer<impl Read<'de>>) -> serde_json::Result<()> {
        self.deserialize(&mut *parser)?;
        parser.end()
    }

    /// Begins an array or object and returns the position of its head. Its length is unknown until
    /// it ends; one byte is reserved, which is enough for most.
    fn begin<E: de::Error>(&mut self) -> Result<usize, E> {
        self.depth += 1;
        if self.depth > SENT_DEPTH_MAX {
            return Err(E::custom(format_args!("more than {SENT_DEPTH_MAX} levels of arrays and objects")));
        }
        self.bytes.push(0);
        Ok(self.bytes.len() - 1)
    }

    /// Writes the length of the array or object that began at `head`. A long length moves the bytes
    /// after it. A byte is moved at most once per nesting level, which the parser limits.
    fn end(&mut self, head: usize, length: usize, short: fn(u8) -> Marker, long: WriteLength) {
        self.depth -= 1;
        if let Ok(length @ ..16) = u8::try_from(length) {
            self.bytes[head] = short(length).to_u8();
            return;
        }
        let mut long_head = Vec::with_capacity(5);
        let length = u32::try_from(length).expect("a request body has fewer values");
        written(long(&mut long_head, length));
        self.bytes.splice(head..=head, long_head);
    }

    /// Ends an object: records whether two of its keys, which follow the first `outer` keys, are
    /// equal, and removes them.
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

/// Returns whether a value that begins with this byte is a text.
fn is_text(marker: u8) -> bool {
    matches!(Marker::from_u8(marker), Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32)
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
        // A float of MessagePack is not a converted integer.
        self.may_have_oversized_integers |=
            if self.has_other_keys.is_some() { !value.is_finite() } else { value.abs() >= OVERSIZED_MIN };
        written(encode::write_f64(&mut self.bytes, value));
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        written(encode::write_str(&mut self.bytes, value));
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<(), A::Error> {
        let head = self.begin()?;
        let mut length = 0;
        while array.next_element_seed(&mut *self)?.is_some() {
            length += 1;
        }
        self.end(head, length, Marker::FixArray, encode::write_array_len);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        let head = self.begin()?;
        let outer = self.keys.len();
        let mut key = self.bytes.len();
        while object.next_key_seed(&mut *self)?.is_some() {
            if let Some(has_other_keys) = &mut self.has_other_keys {
                *has_other_keys |= !is_text(self.bytes[key]);
            }
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

/// The next item of `MessagePack` that was converted from JSON. An array or object is given by its
/// length, and its elements, or keys and values alternately, follow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Token<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer of 0 or more.
    Unsigned(u64),
    /// A negative integer.
    Signed(i64),
    /// Another number.
    Float(f64),
    /// A text in UTF-8.
    Text(&'a [u8]),
    /// An array with this number of elements.
    Array(u32),
    /// An object with this number of keys.
    Object(u32),
}

/// Reads `MessagePack` that was converted from JSON, token by token. Its functions return `None` if
/// the bytes are something else or end early.
#[derive(Clone, Copy)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Begins with the first token.
    #[must_use]
    pub fn new(msgpack: &'a [u8]) -> Self {
        Self(msgpack)
    }

    /// Returns the next token.
    pub fn token(&mut self) -> Option<Token<'a>> {
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
            // JSON has no equivalent of the other types.
            _ => return None,
        })
    }

    /// Returns the bytes of the next value, including its elements.
    pub fn value(&mut self) -> Option<&'a [u8]> {
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

    /// Advances past the next value. Returns `None` unless it has a JSON form: its texts are UTF-8,
    /// its keys are texts, and it has at most this number of levels.
    fn skip_json(&mut self, levels: usize) -> Option<()> {
        let is_utf8 = |text| simdutf8::basic::from_utf8(text).is_ok();
        match self.token()? {
            Token::Text(text) => is_utf8(text).then_some(()),
            Token::Array(length) => {
                let inner = levels.checked_sub(1)?;
                (0..length).try_for_each(|_| self.skip_json(inner))
            }
            Token::Object(length) => {
                let inner = levels.checked_sub(1)?;
                (0..length).try_for_each(|_| match self.token()? {
                    Token::Text(key) if is_utf8(key) => self.skip_json(inner),
                    _ => None,
                })
            }
            _ => Some(()),
        }
    }

    /// Advances to the value of a key in the object of `length` keys whose keys come next. Returns
    /// whether the object has the key.
    pub fn seek(&mut self, key: &[u8], length: u32) -> bool {
        for _ in 0..length {
            match self.token() {
                Some(Token::Text(found)) if found == key => return true,
                _ => self.value(),
            };
        }
        false
    }

    /// Returns the keys and values of the object of `length` keys whose keys come next.
    pub fn entries(&mut self, length: u32) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        (0..length).map_while(|_| self.entry())
    }

    /// Returns the next key and its value.
    pub fn entry(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        match self.token()? {
            Token::Text(key) => Some((key, self.value()?)),
            _ => None,
        }
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    fn text(&mut self, length: u32) -> Option<&'a [u8]> {
        let (text, rest) = self.0.split_at_checked(length as usize)?;
        self.0 = rest;
        Some(text)
    }
}

/// Returns whether the bytes are one value that every reader of JSON can read.
#[must_use]
pub fn is_json(msgpack: &[u8]) -> bool {
    let mut reader = Reader::new(msgpack);
    reader.skip_json(DEPTH_MAX).is_some() && reader.0.is_empty()
}

/// Returns the number of values in the arrays and objects of a value, at all levels, and the number
/// of levels.
#[must_use]
pub fn extent(msgpack: &[u8]) -> (u64, usize) {
    let (mut reader, mut values, mut levels) = (Reader::new(msgpack), 0, 0);
    // Number of keys and values that follow of each array and object that has not ended.
    let mut open: Vec<u64> = Vec::new();
    while let Some(token) = reader.token() {
        if let Some(left) = open.last_mut() {
            *left -= 1;
        }
        let (length, tokens_per_value) = match token {
            Token::Array(length) => (u64::from(length), 1),
            Token::Object(length) => (u64::from(length), 2),
            _ => (0, 0),
        };
        if tokens_per_value > 0 {
            values += length;
            open.push(length * tokens_per_value);
            levels = levels.max(open.len());
        }
        while open.last() == Some(&0) {
            open.pop();
        }
    }
    (values, levels)
}

/// Serializes `MessagePack` that was converted from JSON to another format, such as JSON. Fails for
/// other `MessagePack`.
pub fn serialize<S: Serializer>(msgpack: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    Remaining(Cell::new(Reader(msgpack))).serialize(serializer)
}

/// The remaining values. Serializing this serializes the next one.
struct Remaining<'a>(Cell<Reader<'a>>);

impl Serialize for Remaining<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut reader = self.0.get();
        let token = reader.token().ok_or_else(|| S::Error::custom("the MessagePack was not converted from JSON"))?;
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
