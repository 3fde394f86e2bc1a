//! What counts as an integer in a document.

use serde_json::Value;

/// The integer that a value counts as, if any.
///
/// Python, which the API was first written in, takes a boolean for 0 or 1. A float is no integer, whole or not.
#[must_use]
pub fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Bool(flag) => Some(i64::from(*flag)),
        value => value.as_i64(),
    }
}
