//! Limits and defaults that operators set: the first options of `[transport]`.

use serde::Deserialize;

use crate::options::rule::YEAR_S;
use crate::options::{Rule, options};

/// Minimum time to live of a message, in seconds.
pub const MESSAGE_TTL_S_MIN: u32 = 60;
/// Minimum time to live of a subscription, in seconds.
pub const SUBSCRIPTION_TTL_S_MIN: u64 = 60;
/// Minimum time to live of a claim, and minimum grace, in seconds.
pub const CLAIM_TERM_S_MIN: u32 = 60;
/// Page size if the request has no limit.
const PAGE_DEFAULT: u32 = 10;

const MESSAGE_TTL: Rule = Rule::Integer(MESSAGE_TTL_S_MIN as u64, YEAR_S, "seconds");
const CLAIM_TERM: Rule = Rule::Integer(CLAIM_TERM_S_MIN as u64, YEAR_S, "seconds");
const SUBSCRIPTION_TTL: Rule = Rule::Integer(SUBSCRIPTION_TTL_S_MIN, YEAR_S, "seconds");
/// The size of a request body. One script stores all of it.
const BYTES: Rule = Rule::Integer(1, 4 << 20, "bytes");

options! {
    /// Limits and defaults. Sizes are in bytes, times in seconds. The names are those of Zaqar's
    /// options.
    #[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
    pub struct Limits {
        /// Time to live (TTL) of a message that is posted without a TTL to a queue without a
        /// default TTL, in seconds. Accepted: 60 to 31622400, and at most max_message_ttl. The
        /// default is 3600.
        pub default_message_ttl: u32 = 3600 in MESSAGE_TTL,
        /// Maximum TTL of a message, in seconds. Accepted: 60 to 31622400. The default is 1209600
        /// (14 days).
        pub max_message_ttl: u32 = 1_209_600 in MESSAGE_TTL;

        /// Delay that the metadata of a queue shows if the queue has no `_default_message_delay`,
        /// in seconds. The option is for compatibility with Zaqar and does not delay messages.
        /// Accepted: 0 to 31622400, and at most max_message_delay. The default is 0.
        pub default_message_delay: u32 = 0 in Rule::DELAY,
        /// Maximum of the `_default_message_delay` of a queue and of the `delay` of a message, in
        /// seconds. 2592000 seconds are 30 days. Delayed messages occupy the store until they are
        /// due. Accepted: 0 to
        /// 31622400. The default is 900.
        pub max_message_delay: u32 = 900 in Rule::DELAY;

        /// Duration of a claim that is created or renewed without a `ttl`, in seconds. Accepted: 60
        /// to 31622400, and at most max_claim_ttl. The default is 300.
        pub default_claim_ttl: u32 = 300 in CLAIM_TERM,
        /// Grace period of a claim that is created or renewed without a `grace`, in seconds. A
        /// message that would expire before its claim outlives the claim by this time. Accepted: 60
        /// to 31622400, and at most max_claim_grace. The default is 60.
        pub default_claim_grace: u32 = 60 in CLAIM_TERM,
        /// Maximum duration of a claim, in seconds. It is also the maximum delay of a message that
        /// is returned from a claim. Accepted: 60 to 31622400. The default is 43200 (12 hours).
        pub max_claim_ttl: u32 = 43_200 in CLAIM_TERM,
        /// Maximum grace period of a claim, in seconds. Accepted: 60 to 31622400. The default is
        /// 43200.
        pub max_claim_grace: u32 = 43_200 in CLAIM_TERM;

        /// Requires claims for bulk deletion. If true, DELETE .../messages?ids= also needs the
        /// parameter `claim_ids` with the claims of these messages. If false, `claim_ids` has no
        /// effect. Accepted: true or false. The default is false.
        pub message_delete_with_claim_id: bool = false in Rule::Boolean;

        /// Maximum number of queues in a page. Accepted: 1 to 1000. The default is 20.
        pub max_queues_per_page: u32 = 20 in Rule::PAGE,
        /// Maximum number of messages in a page, and of message ids in a request. Accepted: 1 to
        /// 1000. The default is 20.
        pub max_messages_per_page: u32 = 20 in Rule::PAGE;

        /// TTL of a subscription that is created without a `ttl`, in seconds. Accepted: 60 to
        /// 31622400. The default is 3600.
        pub default_subscription_ttl: u32 = 3600 in SUBSCRIPTION_TTL,
        /// Maximum number of subscriptions in a page. Accepted: 1 to 1000. The default is 20.
        pub max_subscriptions_per_page: u32 = 20 in Rule::PAGE;

        /// Maximum number of messages in a claim or pop. Accepted: 1 to 1000. The default is 20.
        pub max_messages_per_claim_or_pop: u32 = 20 in Rule::PAGE;

        /// Maximum of the parameter `wait` of a request that waits for messages (long polling), in
        /// seconds. Accepted: 0 to 3600. The default is 30. A proxy must allow requests of this
        /// duration.
        pub max_wait: u32 = 30 in Rule::Integer(0, 3600, "seconds");

        /// Maximum number of requests of one project that wait for messages in this process. A
        /// further request gets 429. Accepted: 1 to 1000000. The default is 7000. Each waiting
        /// request and each event stream uses a connection or an HTTP/2 stream, so the sum of this
        /// option and the next should be less than max_connections.
        pub max_waits_per_project: u32 = 7000 in Rule::CONNECTIONS,
        /// Maximum number of event streams of one project in this process. A further one gets 429.
        /// Accepted: 1 to 1000000. The default is 7000.
        pub max_streams_per_project: u32 = 7000 in Rule::CONNECTIONS,
        /// Maximum number of redrives of one project that run in this process. A further one gets
        /// 429. Accepted: 1 to 1000000. The default is 100.
        pub max_redrives_per_project: u32 = 100 in Rule::CONNECTIONS;

        /// Maximum number of tokens that the store keeps. A further one gets 409. Accepted: 1 to
        /// 1000000. The default is 10000.
        pub max_tokens: u32 = 10_000 in Rule::Integer(1, 1_000_000, ""),
        /// Maximum number of tokens of one project. A further one gets 409. Tokens for all projects
        /// do not count. Accepted: 1 to 1000000. The default is 1000.
        pub max_tokens_per_project: u32 = 1000 in Rule::Integer(1, 1_000_000, "");

        /// Maximum time that a request waits until the store can process it, in seconds. Sukkal
        /// sends a limited number of operations to the store at the same time. The other requests
        /// wait in the process, and projects take turns. A request that would have to wait longer
        /// is refused early with
        /// 503. Accepted: 1 to 60. The default is 5.
        pub max_queueing: u32 = 5 in Rule::Integer(1, 60, "seconds"),
        /// Maximum time that a POST of messages waits until its `Durability` is reached, in
        /// seconds. After that, the response is 503, and the messages may exist. Redis syncs to
        /// disk once a second with `appendfsync everysec`, so allow 2 seconds. Accepted: 1 to 60.
        /// The default is 2.
        pub max_durability_wait: u32 = 2 in Rule::Integer(1, 60, "seconds");

        /// Interval between heartbeats of an event stream without messages, in seconds. Choose a
        /// value below the timeout of proxies, which close idle connections. Accepted: 1 to 3600.
        /// The default is 15.
        pub stream_heartbeat: u32 = 15 in Rule::Integer(1, 3600, "seconds");

        /// Maximum size of a request body with queue metadata, in bytes. It also applies to
        /// requests that purge or share a queue. Accepted: 1 to 4194304 (4 MiB). The default is
        /// 65536.
        pub max_queue_metadata: u64 = 65_536 in BYTES,
        /// Maximum size of a request body that posts messages, in bytes. The
        /// `_max_messages_post_size` of a queue may be a lower limit. Accepted: 1 to 4194304 (4
        /// MiB). The default is 262144.
        pub max_messages_post_size: u64 = 262_144 in BYTES;

        /// Maximum number of messages in a request that posts messages. The store processes such a
        /// request in one step, for which other requests wait. A lower value therefore reduces the
        /// maximum latency of other requests. Accepted: 1 to 1000. The default is 1000.
        pub max_messages_per_post: u32 = 1000 in Rule::Integer(1, 1000, "");

        /// Time for which an Idempotency-Key is remembered, in seconds. During this time, a
        /// repeated POST of messages with the same key gets the first response again. Accepted: 1
        /// to 31622400. The default is 600.
        pub idempotency_key_ttl: u32 = 600 in Rule::DURATION;
    }
}

/// Returns the number of entries in a page if the request has no limit.
#[must_use]
pub fn page_default(max: u32) -> u32 {
    PAGE_DEFAULT.min(max)
}
