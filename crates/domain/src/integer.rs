//! The rule for integers in JSON documents.

use serde_json::Value;

/// Returns the value as an integer, or `None` if it is not one.
///
/// A boolean counts as 0 or 1, as in Python, in which the API was first written. A float is never
/// an integer, even without a fraction.
#[must_use]
pub fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Bool(flag) => Some(i64::from(*flag)),
        value => value.as_i64(),
    }
}
