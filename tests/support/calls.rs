//! Arguments of store methods, as most tests need them.

use sukkal_domain::{ClientId, NewClaim, NewMessage, QueueLimits, Revision, Term};
use sukkal_storage::Post;

/// Returns a post of messages, and of nothing else.
pub fn plain_post<'a>(last_known_revision: Revision, client: &'a ClientId, messages: &'a [NewMessage]) -> Post<'a> {
    Post {
        last_known_revision,
        client,
        messages,
        trace: None,
        origin: None,
        limits: QueueLimits::default(),
        idempotency: None,
        durability: None,
    }
}

/// Returns a claim of the client `worker` that prefers no shard, with a grace of 60 s.
pub fn new_claim(limit: usize, ttl_s: u32) -> NewClaim {
    let client = ClientId::from_store("worker");
    NewClaim { limit, term: Term { ttl_s, grace_s: 60 }, preferred_shards: Vec::new(), client }
}
