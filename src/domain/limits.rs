//! Limits and defaults that operators set. `[transport]` in `config/default.toml` explains each of
//! them.

use serde::Deserialize;

/// Minimum time to live of a message, in seconds.
pub const MESSAGE_TTL_S_MIN: u32 = 60;

/// Minimum time to live of a claim, and minimum grace, in seconds.
pub const CLAIM_TERM_S_MIN: u32 = 60;
/// Page size if the request has no limit.
const PAGE_DEFAULT: u32 = 10;

/// Limits and defaults. Sizes are in bytes, times in seconds. The names are those of Zaqar's
/// options.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Time to live of a message that is posted without one to a queue without a default.
    pub default_message_ttl: u32,
    /// Delay shown for a queue that sets none.
    pub default_message_delay: u32,
    /// Maximum time to live of a message.
    pub max_message_ttl: u32,
    /// Maximum delay of a message.
    pub max_message_delay: u32,
    /// Time to live of a claim that is requested without one.
    pub default_claim_ttl: u32,
    /// Grace of a claim that is requested without one.
    pub default_claim_grace: u32,
    /// Maximum time to live of a claim.
    pub max_claim_ttl: u32,
    /// Maximum grace of a claim.
    pub max_claim_grace: u32,
    /// Maximum size of the body of a request that posts messages.
    pub max_messages_post_size: u64,
    /// Maximum number of messages in one request that posts messages.
    pub max_messages_per_post: u32,
    /// Time for which the result of a request with an idempotency key is kept.
    pub idempotency_key_ttl: u32,
    /// Maximum size of the body of a request that sets metadata.
    pub max_queue_metadata: u64,
    /// Time to live of a subscription that is created without one.
    pub default_subscription_ttl: u32,
    /// Maximum number of subscriptions in a page.
    pub max_subscriptions_per_page: u32,
    /// Whether the bulk deletion of messages requires the ids of their claims.
    pub message_delete_with_claim_id: bool,
    /// Maximum number of queues in a page.
    pub max_queues_per_page: u32,
    /// Maximum time that a request may wait for messages.
    pub max_wait: u32,
    /// Maximum number of requests of one project that wait for messages at the same time.
    pub max_waits_per_project: u32,
    /// Maximum number of event streams of one project at the same time.
    pub max_streams_per_project: u32,
    /// Maximum number of redrives of one project that run at the same time.
    pub max_redrives_per_project: u32,
    /// Maximum time that a request may wait for admission to the store.
    pub max_queueing: u32,
    /// Maximum time that a post waits until its durability is reached.
    pub max_durability_wait: u32,
    /// Maximum number of messages that one request may claim or pop.
    pub max_messages_per_claim_or_pop: u32,
    /// Maximum number of tokens.
    pub max_tokens: u32,
    /// Maximum number of tokens of one project.
    pub max_tokens_per_project: u32,
    /// Maximum number of messages in a page, and of message ids in a request.
    pub max_messages_per_page: u32,
}

impl Limits {
    /// Returns the number of queues in a page if the request has no limit.
    #[must_use]
    pub fn queues_per_page(&self) -> u32 {
        PAGE_DEFAULT.min(self.max_queues_per_page)
    }

    /// Returns the maximum number of messages in a claim if the request has no limit.
    #[must_use]
    pub fn messages_per_claim(&self) -> u32 {
        PAGE_DEFAULT.min(self.max_messages_per_claim_or_pop)
    }

    /// Returns the number of subscriptions in a page if the request has no limit.
    #[must_use]
    pub fn subscriptions_per_page(&self) -> u32 {
        PAGE_DEFAULT.min(self.max_subscriptions_per_page)
    }

    /// Returns the number of messages in a page if the request has no limit.
    #[must_use]
    pub fn messages_per_page(&self) -> u32 {
        PAGE_DEFAULT.min(self.max_messages_per_page)
    }
}
