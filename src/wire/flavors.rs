//! Documents of flavors, and the bodies that create and change them.

use serde_json::{Map, Value, json};

use super::Error;
use super::json::{self, unknown_fields};
use super::pools::{missing, refuse_unknown, wrong};
use crate::broker::flavors::FlavorPools;
use sukkal_domain::{PoolName, WithWarnings};

/// The path of all flavors.
pub const PATH: &str = "/v2/flavors";

/// What every pool can do, in the words of Zaqar.
const CAPABILITIES: [&str; 4] = ["FIFO", "CLAIMS", "AOD", "HIGH_THROUGHPUT"];
const POOL_LIST: &str = "pool_list";
const CAPABILITIES_FIELD: &str = "capabilities";

/// Parses the body that creates a flavor: `{"pool_list": […]}`. Capabilities are accepted without
/// an effect. An unknown field is an error.
pub fn parse_new(bytes: &[u8]) -> Result<Vec<String>, Error> {
    let fields = json::parse_object(bytes)?;
    refuse_unknown(&fields, &[POOL_LIST, CAPABILITIES_FIELD])?;
    if fields.get(CAPABILITIES_FIELD).is_some_and(|value| !value.is_object()) {
        return Err(wrong(CAPABILITIES_FIELD, "object"));
    }
    let pools = pool_list(&fields)?;
    pools.ok_or_else(|| missing(POOL_LIST))
}

/// Parses the body that replaces the pools of a flavor. Other fields have no effect but a warning.
pub fn parse_change(bytes: &[u8]) -> Result<WithWarnings<Vec<String>>, Error> {
    let fields = json::parse_object(bytes)?;
    let pools = pool_list(&fields)?;
    let value = pools.ok_or_else(|| Error::Body("`pool_list` needs to be specified".to_owned()))?;
    Ok(WithWarnings { value, warnings: unknown_fields(&fields, &[POOL_LIST], &[]) })
}

/// Returns the document of a flavor.
#[must_use]
pub fn document(flavor: &FlavorPools) -> Value {
    json!({
        "name": flavor.name.as_str(),
        CAPABILITIES_FIELD: CAPABILITIES,
        POOL_LIST: names(&flavor.pools),
        "href": path(flavor.name.as_str()),
    })
}

/// Returns the document of a flavor in a list, which has no empty list of pools. With details, it
/// has the capabilities.
#[must_use]
pub fn listed_document(flavor: &FlavorPools, is_detailed: bool) -> Value {
    let mut document = json!({ "name": flavor.name.as_str(), "href": path(flavor.name.as_str()) });
    if !flavor.pools.is_empty() {
        document[POOL_LIST] = json!(names(&flavor.pools));
    }
    if is_detailed {
        document[CAPABILITIES_FIELD] = json!(CAPABILITIES);
    }
    document
}

/// Returns the path of a flavor.
#[must_use]
pub fn path(name: &str) -> String {
    format!("{PATH}/{name}")
}

fn names(pools: &[PoolName]) -> Vec<&str> {
    pools.iter().map(PoolName::as_str).collect()
}

fn pool_list(fields: &Map<String, Value>) -> Result<Option<Vec<String>>, Error> {
    let Some(list) = fields.get(POOL_LIST) else { return Ok(None) };
    list.as_array().ok_or_else(|| wrong(POOL_LIST, "array"))?;
    json::texts(list).map(Some).ok_or_else(|| Error::Body(format!("\"{POOL_LIST}\" must have the names of pools")))
}
