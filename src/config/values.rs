//! How options of several kinds are checked and read.

use std::path::PathBuf;

use hyper::Uri;
use serde::{Deserialize, Deserializer};
use toml::Value;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use sukkal_domain::options::Rule;
use sukkal_domain::options::rule::parse_list;
use sukkal_domain::{MONITORED_QUEUES_MAX, MonitoredQueues};
use sukkal_storage::StoreUri;

/// The URI of a store, which may contain a password.
pub(super) const STORE: Rule = Rule::Other {
    parse: |text| text.into(),
    check: |value| {
        let text = value.as_str().ok_or("it must be the URI of a store")?;
        text.parse::<StoreUri>().map(drop).map_err(|error| error.to_string())
    },
    is_shown: false,
};
/// The HTTP URL of a collector, or an empty text.
pub(super) const OPTIONAL_HTTP_URL: Rule = Rule::Text(
    |text| text.is_empty() || is_http_url(text),
    "the URL of a server without TLS, such as \"http://127.0.0.1:4318\", or empty",
);
/// A list of queues, each as `PROJECT/QUEUE` or `PROJECT/*`.
pub(super) const QUEUES: Rule = Rule::Other {
    parse: parse_list,
    check: |value| {
        let is_queue = |value: &Value| value.as_str().is_some_and(|text| text.parse::<MonitoredQueues>().is_ok());
        let is_accepted = |queues: &Vec<Value>| queues.len() <= MONITORED_QUEUES_MAX && queues.iter().all(is_queue);
        let expected = || {
            format!(
                "it must be a list of at most {MONITORED_QUEUES_MAX} queues, each as \"PROJECT/QUEUE\" or \"PROJECT/*\""
            )
        };
        value.as_array().filter(|queues| is_accepted(queues)).map(drop).ok_or_else(expected)
    },
    is_shown: true,
};
/// Filter directives of `tracing`.
pub(super) const FILTER: Rule = Rule::Text(
    |text| !text.is_empty() && EnvFilter::try_new(text).is_ok() && text.split(',').all(has_level),
    "error, warn, info, debug or trace, or a list with levels for modules",
);

pub(super) fn optional_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(Some(String::deserialize(deserializer)?).filter(|text| !text.is_empty()))
}

pub(super) fn optional_file<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
    Ok(optional_text(deserializer)?.map(PathBuf::from))
}

pub(super) fn queues<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<MonitoredQueues>, D::Error> {
    let mut queues = Vec::<String>::deserialize(deserializer)?
        .iter()
        .map(|text| text.parse().map_err(|()| serde::de::Error::custom(format!("{text} is not a queue"))))
        .collect::<Result<Vec<_>, _>>()?;
    queues.sort_unstable();
    queues.dedup();
    Ok(queues)
}

pub(super) fn store<'de, D: Deserializer<'de>>(deserializer: D) -> Result<StoreUri, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

/// Returns whether a directive of a filter names a level. A misspelled level would be the name of a
/// module.
fn has_level(directive: &str) -> bool {
    directive.contains('=') || directive.trim().parse::<LevelFilter>().is_ok()
}

/// Returns whether a text is the URL of a server that is reached without TLS and without a
/// password.
fn is_http_url(text: &str) -> bool {
    let is_plain = |url: &Uri| url.scheme_str() == Some("http") && url.query().is_none();
    text.parse::<Uri>().is_ok_and(|url| is_plain(&url) && !text.contains('@'))
}
