//! Changes to metadata: the subset of JSON Patch (draft 10) that the API takes.

use serde_json::Value;
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
    pub fn apply(&self, metadata: &Metadata) -> Result<serde_json::Map<String, Value>, PatchConflict> {
        let mut keys = metadata.keys().clone();
        for operation in &self.0 {
            match operation {
                Operation::Add(key, value) => {
                    keys.insert(key.clone(), value.clone());
                }
                Operation::Replace(key, value) => {
                    if !keys.contains_key(key) && !SHOWN_KEYS.contains(&key.as_str()) {
                        return Err(PatchConflict::Replace(key.clone()));
                    }
                    keys.insert(key.clone(), value.clone());
                }
                Operation::Remove(key) => {
                    if keys.shift_remove(key).is_none() && !SHOWN_KEYS.contains(&key.as_str()) {
                        return Err(PatchConflict::Remove(key.clone()));
                    }
                }
            }
        }
        Ok(keys)
    }
}
