//! The limits and defaults that operators set: `[limits]` in `config/default.toml` explains each.

use serde::Deserialize;

/// The shortest life of a message, in seconds.
pub const MESSAGE_TTL_S_MIN: u32 = 60;

/// The shortest life of a claim, and the shortest grace, in seconds.
pub const CLAIM_TERM_S_MIN: u32 = 60;
/// The length of a page for which the caller names none.
const PAGE_DEFAULT: u32 = 10;

/// Limits and defaults; sizes in bytes, times in seconds. The names are Zaqar's.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// The life of a message that is posted without a ttl to a queue without a default.
    pub default_message_ttl: u32,
    /// The delay shown for a queue that sets none.
    pub default_message_delay: u32,
    /// The longest life of a message.
    pub max_message_ttl: u32,
    /// The longest delay of a message.
    pub max_message_delay: u32,
    /// The life of a claim that names none.
    pub default_claim_ttl: u32,
    /// The grace of a claim that names none.
    pub default_claim_grace: u32,
    /// The longest life of a claim.
    pub max_claim_ttl: u32,
    /// The longest grace of a claim.
    pub max_claim_grace: u32,
    /// The largest body of a request that posts messages.
    pub max_messages_post_size: u64,
    /// Maximum number of messages in one request that posts messages.
    pub max_messages_per_post: u32,
    /// How long the answer to a request with an idempotency key is kept.
    pub idempotency_key_ttl: u32,
    /// The largest body of a request that sets metadata.
    pub max_queue_metadata: u64,
    /// Whether bulk deletion takes the claims that the messages are under.
    pub message_delete_with_claim_id: bool,
    /// The longest page of queues.
    pub max_queues_per_page: u32,
    /// The longest that a request may wait for messages.
    pub max_wait: u32,
    /// Maximum number of requests of one project that wait for messages at the same time.
    pub max_waits_per_project: u32,
    /// Maximum number of event streams of one project at the same time.
    pub max_streams_per_project: u32,
    /// The longest that a request may wait until the store can serve it.
    pub max_queueing: u32,
    /// The most messages that one request takes out of a queue.
    pub max_messages_per_claim_or_pop: u32,
    /// The longest page of messages, and the most ids in one request.
    pub max_messages_per_page: u32,
}

impl Limits {
    /// The length of a page of queues for which the caller names none.
    #[must_use]
    pub fn queues_per_page(&self) -> u32 {
        PAGE_DEFAULT.min(self.max_queues_per_page)
    }

    /// How many messages a claim takes for which the caller names no number.
    #[must_use]
    pub fn messages_per_claim(&self) -> u32 {
        PAGE_DEFAULT.min(self.max_messages_per_claim_or_pop)
    }

    /// The length of a page of messages for which the caller names none.
    #[must_use]
    pub fn messages_per_page(&self) -> u32 {
        PAGE_DEFAULT.min(self.max_messages_per_page)
    }
}
