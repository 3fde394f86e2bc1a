//! Options of a broker for unit tests.

use sukkal_domain::{AddressRules, Limits, PushConfig};

pub(super) fn limits() -> Limits {
    Limits {
        default_message_ttl: 60,
        default_message_delay: 0,
        max_message_ttl: 60,
        max_message_delay: 0,
        default_claim_ttl: 60,
        default_claim_grace: 60,
        max_claim_ttl: 60,
        max_claim_grace: 60,
        max_messages_post_size: 1,
        max_messages_per_post: 1,
        idempotency_key_ttl: 1,
        stream_heartbeat: 1,
        max_queue_metadata: 1,
        default_subscription_ttl: 60,
        max_subscriptions_per_page: 1,
        message_delete_with_claim_id: false,
        max_queues_per_page: 10,
        max_wait: 0,
        max_queueing: 1,
        max_durability_wait: 1,
        max_waits_per_project: 1,
        max_streams_per_project: 1,
        max_redrives_per_project: 1,
        max_messages_per_claim_or_pop: 1,
        max_tokens: 10,
        max_tokens_per_project: 1,
        max_messages_per_page: 1,
    }
}

pub(super) fn push_config() -> PushConfig {
    PushConfig {
        max_subscriptions_per_queue: 1,
        require_confirmation: false,
        addresses: AddressRules::new(Vec::new(), Vec::new(), Vec::new()),
        max_connections: 1,
        max_connections_per_host: 1,
        disable_after_s: 60,
    }
}
