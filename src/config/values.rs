//! How single options are read from the merged configuration.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer};

use super::bind::Bind;
use super::{cors, rules};
use crate::domain::{ProjectId, QueueId, WebOrigins};
use crate::storage::StoreUri;

pub(super) fn optional_bind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Bind>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(serde::de::Error::custom) }
}

pub(super) fn optional_project<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ProjectId>, D::Error> {
    String::deserialize(deserializer).map(|text| ProjectId::new(&text))
}

pub(super) fn web_origins<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<WebOrigins>, D::Error> {
    cors::origins(&toml::Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

pub(super) fn optional_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(Some(String::deserialize(deserializer)?).filter(|text| !text.is_empty()))
}

pub(super) fn optional_file<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
    Ok(optional_text(deserializer)?.map(PathBuf::from))
}

pub(super) fn queues<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<QueueId>, D::Error> {
    let mut queues = Vec::<String>::deserialize(deserializer)?
        .iter()
        .map(|text| rules::queue(text).ok_or_else(|| serde::de::Error::custom(format!("{text} is not a queue"))))
        .collect::<Result<Vec<_>, _>>()?;
    queues.sort_unstable();
    queues.dedup();
    Ok(queues)
}

pub(super) fn store<'de, D: Deserializer<'de>>(deserializer: D) -> Result<StoreUri, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}
