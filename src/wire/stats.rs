//! The statistics documents of a queue.

use serde_json::{Value, json};

use super::messages;
use super::timestamp::timestamp;
use sukkal_domain::{Details, Holding, Message, QueueId, Shard, Stats, Summary, Tenant};

/// Returns the number of messages of a queue. `oldest` and `newest` are present only if the queue
/// has messages.
#[must_use]
pub fn document(queue: &QueueId, stats: &Stats) -> Value {
    let mut document = json!({ "claimed": stats.claimed, "free": stats.total - stats.claimed, "total": stats.total });
    for (key, message) in [("newest", &stats.newest), ("oldest", &stats.oldest)] {
        if let Some(message) = message {
            document[key] = message_entry(queue, message);
        }
    }
    let mut document = json!({ "messages": document });
    if let Some(details) = &stats.details {
        add_details(&mut document, details);
    }
    document
}

/// Returns the same without the details, with the ids of messages instead of their paths.
#[must_use]
pub fn document_with_ids(stats: &Stats) -> Value {
    let mut document = json!({ "claimed": stats.claimed, "free": stats.total - stats.claimed, "total": stats.total });
    for (key, message) in [("newest", &stats.newest), ("oldest", &stats.oldest)] {
        if let Some(Message { id, age_s, created_s, .. }) = message {
            document[key] = json!({ "id": id.to_string(), "age": age_s, "created": timestamp(*created_s) });
        }
    }
    json!({ "messages": document })
}

/// Returns the statistics of a queue in a list of queues.
#[must_use]
pub fn summary_document(summary: &Summary) -> Value {
    let (messages, totals) = (&summary.messages, &summary.totals);
    json!({
        "available": messages.available,
        "claimed": messages.claimed,
        "delayed": messages.delayed,
        "oldest_age": messages.oldest_age_s,
        "paused": summary.is_paused,
        "totals": {
            "posted": totals.posted,
            "claimed": totals.claimed,
            "deleted": totals.deleted,
            "expired": totals.expired,
            "dead_lettered": totals.dead_lettered,
        },
    })
}

/// Adds the non-empty shards, the messages without a shard, and the tenants that post most.
fn add_details(document: &mut Value, details: &Details) {
    let shard = |(shard, holding): &(Shard, Holding)| {
        let mut entry = json!({ "shard": shard.number() });
        add_holding(&mut entry, holding);
        entry
    };
    let tenant = |(tenant, share): &(Tenant, f64)| json!({ "tenant": tenant.as_str(), "share": share });
    document["shards"] = details.shards.iter().map(shard).collect();
    document["unsharded"] = json!({});
    add_holding(&mut document["unsharded"], &details.unsharded);
    document["tenants"] = details.tenants.iter().map(tenant).collect();
}

fn add_holding(entry: &mut Value, holding: &Holding) {
    entry["available"] = json!(holding.available);
    entry["delayed"] = json!(holding.delayed);
    entry["claimed"] = json!(holding.claimed);
    entry["oldest_age"] = json!(holding.oldest_age_s);
}

fn message_entry(queue: &QueueId, message: &Message) -> Value {
    json!({ "href": messages::href(queue, message.id, None), "age": message.age_s, "created": timestamp(message.created_s) })
}
