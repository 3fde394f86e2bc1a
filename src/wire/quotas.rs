//! Documents of quotas and of usage, and the body that sets quotas.

use serde_json::{Map, Value, json};

use super::Error;
use super::json;
use crate::broker::quotas::{QuotaSettings, Usage};
use sukkal_domain::quotas::QUOTA_MAX;
use sukkal_domain::{Quota, QuotaOverrides};

/// Parses `{"requests_per_second": 100, …}`. All fields are optional. An unknown field is an error,
/// because a project with a misspelled quota would have no limit.
pub fn parse(bytes: &[u8]) -> Result<QuotaOverrides, Error> {
    let fields = json::parse_object(bytes)?;
    let mut quotas = QuotaOverrides::default();
    for (name, value) in &fields {
        let Some(quota) = Quota::named(name) else {
            let accepted = Quota::ALL.map(Quota::name).join(", ");
            return Err(Error::Request(format!("the body has the field {name:?}; it accepts only {accepted}")));
        };
        let Some(limit) = value.as_u64().filter(|limit| *limit <= QUOTA_MAX) else {
            return Err(Error::Request(format!("{name} is {value}; it must be an integer from 0 to {QUOTA_MAX}")));
        };
        quotas[quota] = Some(limit);
    }
    Ok(quotas)
}

/// Returns the document of the quotas of a project.
#[must_use]
pub fn document(settings: &QuotaSettings) -> Value {
    let quotas: Map<String, Value> =
        settings.quotas.set().map(|(quota, limit)| (quota.name().to_owned(), json!(limit))).collect();
    json!({
        "project": settings.project.as_str(),
        "quotas": quotas,
        "limits": by_name(|quota| json!(settings.limits[quota])),
    })
}

/// Returns the document of what a project uses.
#[must_use]
pub fn usage_document(Usage { usage, limits }: &Usage) -> Value {
    json!({ "usage": by_name(|quota| json!(usage[quota])), "limits": by_name(|quota| json!(limits[quota])) })
}

fn by_name(value: impl Fn(Quota) -> Value) -> Value {
    Quota::ALL.into_iter().map(|quota| (quota.name().to_owned(), value(quota))).collect::<Map<_, _>>().into()
}
