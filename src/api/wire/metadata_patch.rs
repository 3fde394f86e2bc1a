//! The body of a queue PATCH: a JSON Patch (draft 10) whose paths are `/metadata/KEY`.

use serde_json::{Map, Value};

use super::json;
use crate::api::Error;
use crate::domain::MetadataPatch;
use crate::domain::patch::Operation;

/// The one media type that a PATCH may have.
pub const MEDIA_TYPE: &str = "application/openstack-messaging-v2.0-json-patch";

/// Reads a patch.
pub fn parse(bytes: &[u8]) -> Result<MetadataPatch, Error> {
    let Value::Array(operations) = json::parse(bytes)? else {
        return Err(invalid("The body must be an array of operations."));
    };
    operations.iter().map(parse_operation).collect::<Result<_, _>>().map(MetadataPatch)
}

fn parse_operation(operation: &Value) -> Result<Operation, Error> {
    let Value::Object(operation) = operation else {
        return Err(invalid("Each operation must be an object."));
    };
    let kind = operation.get("op").and_then(Value::as_str).unwrap_or_default();
    if !["add", "replace", "remove"].contains(&kind) {
        return Err(invalid("\"op\" must be one of add, remove, replace."));
    }
    let (parent, key) = parse_path(operation)?;
    if kind == "remove" {
        return Ok(Operation::Remove(key));
    }
    if !parent.eq_ignore_ascii_case("metadata") {
        return Err(invalid("\"path\" must be /metadata/KEY."));
    }
    let value = operation.get("value").ok_or_else(|| invalid("\"value\" is missing."))?.clone();
    Ok(match kind {
        "add" => Operation::Add(key, value),
        _ => Operation::Replace(key, value),
    })
}

/// The two segments of an operation's JSON pointer.
fn parse_path(operation: &Map<String, Value>) -> Result<(String, String), Error> {
    let Some(Value::String(path)) = operation.get("path") else {
        return Err(invalid("\"path\" must be a string."));
    };
    let pointer = path.strip_prefix('/').ok_or_else(|| invalid("\"path\" must begin with a slash."))?;
    let segments: Vec<String> = pointer.split('/').map(parse_segment).collect::<Result<_, _>>()?;
    match <[String; 2]>::try_from(segments) {
        Ok([parent, key]) if !parent.is_empty() && !key.is_empty() => Ok((parent, key)),
        _ => Err(invalid("\"path\" must be /metadata/KEY.")),
    }
}

fn parse_segment(segment: &str) -> Result<String, Error> {
    let escaped = |rest: &str| rest.starts_with(['0', '1']);
    if !segment.split('~').skip(1).all(escaped) {
        return Err(invalid("\"path\" has a ~ that is neither ~0 nor ~1."));
    }
    Ok(segment.trim().replace("~1", "/").replace("~0", "~"))
}

fn invalid(what: &str) -> Error {
    Error::Body(what.to_owned())
}
