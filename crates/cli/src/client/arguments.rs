//! Arguments that several commands have.

use serde_json::{Map, Value};

use super::error::Error;

/// Parses the name of a queue or an id, which becomes a segment of a path.
pub(super) fn segment(text: &str) -> Result<String, String> {
    // As a segment of a URL, they mean the parent or the path itself, however they are encoded.
    if matches!(text, "" | "." | "..") {
        Err("it must not be empty, \".\" or \"..\"".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

/// Parses a maximum number of items.
pub(super) fn limit(text: &str) -> Result<u64, String> {
    text.parse().ok().filter(|limit| *limit > 0).ok_or_else(|| "it must be an integer of at least 1".to_owned())
}

/// Returns a document with those of the fields that have a value.
pub(super) fn document<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    Value::Object(fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
}

/// Returns an object with these entries, whose keys must be different.
pub(super) fn object(entries: &[(String, Value)]) -> Result<Map<String, Value>, Error> {
    let mut object = Map::new();
    for (key, value) in entries {
        if object.insert(key.clone(), value.clone()).is_some() {
            return Err(Error::Usage(format!("{key} is set twice; set it once")));
        }
    }
    Ok(object)
}

/// Parses a piece of metadata. A value that is not JSON is a string.
pub(super) fn key_and_value(text: &str) -> Result<(String, Value), String> {
    let (key, value) = text.split_once('=').ok_or("it must be KEY=VALUE, for example team=billing")?;
    Ok((key.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| Value::from(value))))
}
