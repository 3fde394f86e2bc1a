//! Reads parts of `openapi.yaml`.

use serde_json::Value;

/// Returns the text under a key, or an empty text.
pub(super) fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

/// Returns what a reference of the contract refers to, or the value itself if it is none.
pub(super) fn resolved<'v>(contract: &'v Value, value: &'v Value) -> &'v Value {
    let target = value["$ref"].as_str().and_then(|target| target.strip_prefix('#'));
    target.and_then(|pointer| contract.pointer(pointer)).unwrap_or(value)
}
