//! Changes to metadata: the subset of JSON Patch (draft 10) that the API takes.

use std::collections::HashMap;

use serde_json::{Map, Value};
use thiserror::Error;

use super::metadata::{Metadata, SHOWN_KEYS};

/// Operations, applied in order; all of them or none.
#[derive(Clone, Debug, PartialEq)]
pub struct MetadataPatch(pub Vec<Operation>);

/// One change of one key.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Sets the key, there or not.
    Add(String, Value),
    /// Sets the key, which must be there.
    Replace(String, Value),
    /// Removes the key, which must be there.
    Remove(String),
}

/// Why a patch does not fit the metadata it meets.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PatchConflict {
    /// `replace` of a key that is not there.
    #[error("Can't replace non-existent object {0}.")]
    Replace(String),
    /// `remove` of a key that is not there.
    #[error("Can't remove non-existent object {0}.")]
    Remove(String),
}

impl MetadataPatch {
    /// The keys after the patch. Keys that every queue shows count as there even when not set.
    pub fn apply(&self, metadata: &Metadata) -> Result<Map<String, Value>, PatchConflict> {
        let mut keys = Keys::default();
        for (key, value) in metadata.keys() {
            keys.set(key, value);
        }
        for operation in &self.0 {
            match operation {
                Operation::Add(key, value) => keys.set(key, value),
                Operation::Replace(key, value) => {
                    if !keys.places.contains_key(&**key) && !SHOWN_KEYS.contains(&key.as_str()) {
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
        Ok(keys.into_map())
    }
}

/// Keys in the order in which they were first set. Unlike a map's, a removal moves nothing, so that many cost little.
#[derive(Default)]
struct Keys<'a> {
    entries: Vec<Option<(&'a str, &'a Value)>>,
    places: HashMap<&'a str, usize>,
}

impl<'a> Keys<'a> {
    fn set(&mut self, key: &'a str, value: &'a Value) {
        let place = *self.places.entry(key).or_insert(self.entries.len());
        if place == self.entries.len() {
            self.entries.push(None);
        }
        self.entries[place] = Some((key, value));
    }

    /// Whether the key was there.
    fn remove(&mut self, key: &str) -> bool {
        let place = self.places.remove(key);
        place.is_some_and(|place| self.entries[place].take().is_some())
    }

    fn into_map(self) -> Map<String, Value> {
        self.entries.into_iter().flatten().map(|(key, value)| (key.to_owned(), value.clone())).collect()
    }
}
