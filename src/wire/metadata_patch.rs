//! The body of a queue PATCH: the subset of JSON Patch (draft 10) that changes one metadata key per
//! operation.
//!
//! Operations apply in order, all of them or none. Their paths are `/metadata/KEY`.

use std::collections::HashMap;

use bytes::Bytes;
use thiserror::Error;

use super::json;
use crate::wire;
use sukkal_domain::json_object::{TooComplex, VALUES_MAX};
use sukkal_domain::metadata::SHOWN_KEYS;
use sukkal_domain::msgpack::{Reader, Token, extent};
use sukkal_domain::warning::{NameKind, UnknownNames};
use sukkal_domain::{JsonObject, Metadata, WithWarnings};

/// The media types that a PATCH request may have: that of Zaqar, and that of RFC 6902.
pub const MEDIA_TYPES: [&str; 2] = ["application/openstack-messaging-v2.0-json-patch", "application/json-patch+json"];

/// The fields of an operation.
pub const OPERATION_FIELDS: [&str; 3] = ["op", "path", "value"];

/// A list of changes to a queue's metadata.
#[derive(Clone, Debug, PartialEq)]
pub struct MetadataPatch(Vec<Operation>);

/// A change of one metadata key.
#[derive(Clone, Debug, PartialEq)]
enum Operation {
    /// Sets the key to this `MessagePack`, whether it exists or not.
    Add(String, Bytes),
    /// Sets the key to this `MessagePack`. The key must exist.
    Replace(String, Bytes),
    /// Removes the key, which must exist.
    Remove(String),
}

/// Why a patch cannot be applied to the metadata of a queue.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PatchConflict {
    /// `replace` names a key that does not exist.
    #[error("Can't replace non-existent object {0}.")]
    Replace(String),
    /// `remove` names a key that does not exist.
    #[error("Can't remove non-existent object {0}.")]
    Remove(String),
}

impl MetadataPatch {
    /// Reads a patch from the body of a request.
    pub fn parse(body: &[u8]) -> Result<WithWarnings<Self>, wire::Error> {
        let msgpack = Bytes::from(json::parse_to_msgpack(body)?);
        let mut reader = Reader::new(&msgpack);
        let Some(Token::Array(length)) = reader.token() else {
            return Err(invalid("The body must be an array of operations."));
        };
        let mut unknown = UnknownNames::new(NameKind::OperationField, &OPERATION_FIELDS);
        let operations = (0..length)
            .map_while(|_| reader.value())
            .map(|operation| parse_operation(&msgpack, operation, &mut unknown))
            .collect::<Result<_, _>>()?;
        Ok(WithWarnings { value: Self(operations), warnings: unknown.into_warnings() })
    }

    /// Returns the metadata keys after the patch. Keys that every queue shows exist even if they
    /// are not set.
    pub fn apply(&self, metadata: &Metadata) -> Result<JsonObject, PatchConflict> {
        let mut keys = Keys::default();
        for (key, value) in metadata.keys().entries() {
            keys.set(key, value);
        }
        for operation in &self.0 {
            match operation {
                Operation::Add(key, value) => keys.set(key, value),
                Operation::Replace(key, value) => {
                    if !keys.indexes.contains_key(&**key) && !SHOWN_KEYS.contains(&key.as_str()) {
                        return Err(PatchConflict::Replace(key.clone()));
                    }
                    keys.set(key, value);
                }
                Operation::Remove(key) => {
                    if !keys.remove(key) && !SHOWN_KEYS.contains(&key.as_str()) {
                        return Err(PatchConflict::Remove(key.clone()));
                    }
                }
            }
        }
        Ok(keys.into_object())
    }
}

/// Keys in the order in which they were first set. Unlike in a map with an order, removing a key
/// moves no other key, so a patch that removes many keys is cheap.
#[derive(Default)]
struct Keys<'a> {
    entries: Vec<Option<(&'a str, &'a [u8])>>,
    indexes: HashMap<&'a str, usize>,
}

impl<'a> Keys<'a> {
    fn set(&mut self, key: &'a str, value: &'a [u8]) {
        let index = *self.indexes.entry(key).or_insert(self.entries.len());
        if index == self.entries.len() {
            self.entries.push(None);
        }
        self.entries[index] = Some((key, value));
    }

    /// Removes a key and returns whether it existed.
    fn remove(&mut self, key: &str) -> bool {
        let index = self.indexes.remove(key);
        index.is_some_and(|index| self.entries[index].take().is_some())
    }

    fn into_object(self) -> JsonObject {
        JsonObject::from_entries(&self.entries.into_iter().flatten().collect::<Vec<_>>())
    }
}

/// Parses an operation, which is a part of the `MessagePack`.
fn parse_operation(msgpack: &Bytes, operation: &[u8], unknown: &mut UnknownNames) -> Result<Operation, wire::Error> {
    let Some(operation) = JsonObject::from_msgpack(msgpack.slice_ref(operation)) else {
        return Err(invalid("Each operation must be an object."));
    };
    operation.entries().for_each(|(name, _)| unknown.check(name));
    let kind = operation.text("op").unwrap_or_default();
    if !["add", "replace", "remove"].contains(&kind) {
        return Err(invalid("\"op\" must be one of add, remove, replace."));
    }
    let (parent, key) = parse_path(&operation)?;
    if kind == "remove" {
        return Ok(Operation::Remove(key));
    }
    if !parent.eq_ignore_ascii_case("metadata") {
        return Err(invalid("\"path\" must be /metadata/KEY."));
    }
    let value = operation.value("value").ok_or_else(|| invalid("\"value\" is missing."))?;
    if extent(value).0 > VALUES_MAX {
        return Err(wire::Error::PatchedMetadata(TooComplex::Values(extent(value).0).into()));
    }
    let value = msgpack.slice_ref(value);
    Ok(match kind {
        "add" => Operation::Add(key, value),
        _ => Operation::Replace(key, value),
    })
}

/// Returns the two segments of the JSON pointer of an operation.
fn parse_path(operation: &JsonObject) -> Result<(String, String), wire::Error> {
    let path = operation.text("path").ok_or_else(|| invalid("\"path\" must be a string."))?;
    let pointer = path.strip_prefix('/').ok_or_else(|| invalid("\"path\" must begin with a slash."))?;
    let segments: Vec<String> = pointer.split('/').map(parse_segment).collect::<Result<_, _>>()?;
    match <[String; 2]>::try_from(segments) {
        Ok([parent, key]) if !parent.is_empty() && !key.is_empty() => Ok((parent, key)),
        _ => Err(invalid("\"path\" must be /metadata/KEY.")),
    }
}

fn parse_segment(segment: &str) -> Result<String, wire::Error> {
    let escaped = |rest: &str| rest.starts_with(['0', '1']);
    if !segment.split('~').skip(1).all(escaped) {
        return Err(invalid("\"path\" contains a ~ that is not part of ~0 or ~1."));
    }
    Ok(segment.trim().replace("~1", "/").replace("~0", "~"))
}

fn invalid(reason: &str) -> wire::Error {
    wire::Error::Body(reason.to_owned())
}
