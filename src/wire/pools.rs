//! Documents of pools, and the bodies that create and change them, and that move queues to them.

use serde_json::{Map, Value, json};

use super::Error;
use super::json::{self, unknown_fields};
use crate::broker::pools::PoolChange;
use sukkal_domain::{FlavorName, POOL_OPTIONS_BYTES_MAX, Pool, PoolName, WithWarnings};

/// The path of all pools.
pub const PATH: &str = "/v2/pools";
/// Maximum size in bytes of a body about a pool or a flavor.
pub const BODY_BYTES_MAX: u64 = 16_384;

const FIELDS: [&str; 4] = ["weight", "uri", "flavor", "options"];
const POOL: &str = "pool";

/// Parses the body that creates a pool: `{"weight": …, "uri": …}`, and optionally `flavor` and
/// `options`. An unknown field is an error.
pub fn parse_new(bytes: &[u8]) -> Result<PoolChange, Error> {
    let fields = json::parse_object(bytes)?;
    refuse_unknown(&fields, &FIELDS)?;
    if let Some(field) = ["weight", "uri"].into_iter().find(|field| !fields.contains_key(*field)) {
        return Err(missing(field));
    }
    read(&fields)
}

/// Parses the body that changes a pool, which has one of the same fields at least. Others have no
/// effect but a warning.
pub fn parse_change(bytes: &[u8]) -> Result<WithWarnings<PoolChange>, Error> {
    let fields = json::parse_object(bytes)?;
    if !FIELDS.iter().any(|field| fields.contains_key(*field)) {
        return Err(Error::Body("One of `uri`, `weight`, `flavor`, or `options` needs to be specified".to_owned()));
    }
    Ok(WithWarnings { value: read(&fields)?, warnings: unknown_fields(&fields, &FIELDS, &[]) })
}

/// Parses the body that moves a queue: `{"pool": …}`. An unknown field is an error.
pub fn parse_move(bytes: &[u8]) -> Result<PoolName, Error> {
    let fields = json::parse_object(bytes)?;
    refuse_unknown(&fields, &[POOL])?;
    let pool = fields.get(POOL).ok_or_else(|| missing(POOL))?;
    let pool = pool.as_str().ok_or_else(|| wrong(POOL, "string"))?;
    pool.parse().map_err(|error| Error::Body(format!("{error}")))
}

/// Returns the document of a pool. With details, it has the options.
#[must_use]
pub fn document(pool: &Pool, is_detailed: bool) -> Value {
    let mut document = json!({
        "name": pool.name.as_str(),
        "uri": pool.uri.to_string(),
        "weight": pool.weight,
        "flavor": pool.flavor.as_ref().map(FlavorName::as_str),
    });
    if is_detailed {
        document["options"] = pool.options.clone().into();
    }
    document["href"] = path(pool.name.as_str()).into();
    document
}

/// Returns the path of a pool.
#[must_use]
pub fn path(name: &str) -> String {
    format!("{PATH}/{name}")
}

/// Refuses fields with other names than these.
pub(super) fn refuse_unknown(fields: &Map<String, Value>, accepted: &[&str]) -> Result<(), Error> {
    match fields.keys().find(|field| !accepted.contains(&field.as_str())) {
        None => Ok(()),
        Some(field) => {
            Err(Error::Body(format!("the body has the field {field:?}; it accepts only {}", accepted.join(", "))))
        }
    }
}

fn read(fields: &Map<String, Value>) -> Result<PoolChange, Error> {
    let text =
        |field: &'static str| fields.get(field).map(|value| value.as_str().ok_or_else(|| wrong(field, "string")));
    let weight = |value: &Value| {
        let weight = value.as_u64().and_then(|weight| u32::try_from(weight).ok());
        weight.ok_or_else(|| Error::Body(format!("weight is {value}; it must be an integer from 0 to {}", u32::MAX)))
    };
    let invalid = |error: &dyn ToString| Error::Body(error.to_string());
    let flavor = |text: &str| match text {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|error| invalid(&error)),
    };
    Ok(PoolChange {
        uri: text("uri").transpose()?.map(|text| text.parse().map_err(|error| invalid(&error))).transpose()?,
        weight: fields.get("weight").map(weight).transpose()?,
        flavor: text("flavor").transpose()?.map(flavor).transpose()?,
        options: match fields.get("options") {
            None => None,
            Some(Value::Object(options)) => Some(check_size(options)?.clone()),
            Some(_) => return Err(wrong("options", "object")),
        },
    })
}

pub(super) fn missing(field: &str) -> Error {
    Error::Body(format!("Missing \"{field}\" field."))
}

fn check_size(options: &Map<String, Value>) -> Result<&Map<String, Value>, Error> {
    match serde_json::to_string(options).map_or(0, |text| text.len()) {
        bytes if bytes > POOL_OPTIONS_BYTES_MAX => {
            Err(Error::Body(format!("options has {bytes} bytes; it must have at most {POOL_OPTIONS_BYTES_MAX}")))
        }
        _ => Ok(options),
    }
}

pub(super) fn wrong(field: &str, expected: &str) -> Error {
    Error::Body(format!("The value of the \"{field}\" field must be a {expected}."))
}
