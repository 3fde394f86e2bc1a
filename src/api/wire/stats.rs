//! The stats document.

use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::messages;
use crate::domain::{Message, QueueId};
use crate::storage::Stats;

/// What a queue holds. `oldest` and `newest` are there only if there is a message.
#[must_use]
pub fn document(queue: &QueueId, stats: &Stats) -> Value {
    let mut document = json!({ "claimed": stats.claimed, "free": stats.total - stats.claimed, "total": stats.total });
    for (place, message) in [("newest", &stats.newest), ("oldest", &stats.oldest)] {
        if let Some(message) = message {
            document[place] = entry(queue, message);
        }
    }
    json!({ "messages": document })
}

fn entry(queue: &QueueId, message: &Message) -> Value {
    json!({ "href": messages::href(queue, message.id).to_string(), "age": message.age_s, "created": timestamp(message.created_s) })
}

fn timestamp(unix_s: u64) -> String {
    let time = i64::try_from(unix_s).ok().and_then(|unix_s| OffsetDateTime::from_unix_timestamp(unix_s).ok());
    time.and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_default()
}
