//! Arguments that several commands have.

use serde_json::Value;

/// Parses the name of a queue or an id, which becomes a segment of a path.
pub(super) fn segment(text: &str) -> Result<String, String> {
    // As a segment of a URL, they mean the parent or the path itself, however they are encoded.
    if matches!(text, "" | "." | "..") {
        Err("it must not be empty, \".\" or \"..\"".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

/// Parses a piece of metadata. A value that is not JSON is a string.
pub(super) fn key_and_value(text: &str) -> Result<(String, Value), String> {
    let (key, value) = text.split_once('=').ok_or("it must be KEY=VALUE, for example team=billing")?;
    Ok((key.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| Value::from(value))))
}
