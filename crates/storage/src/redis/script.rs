//! The Lua functions that run in Redis. Each file in `scripts` is the body of one of them.

use super::keys::KeyName;

/// One Lua function: an atomic step.
pub(super) struct Script {
    /// Name of the file without its extension, or another one if functions share a file.
    pub(super) name: &'static str,
    /// What the function does to data.
    pub(super) access: Access,
    /// The keys that it gets for a queue, in this order.
    pub(super) keys: &'static [KeyName],
    /// Its file.
    pub(super) body: &'static str,
}

/// What a function does to data. Redis refuses to call a function that may write if its memory is
/// full, unless the function is known to need little, or if it has too few replicas.
#[derive(Clone, Copy)]
pub(super) enum Access {
    /// Changes nothing.
    Reads,
    /// May run when the memory of Redis is full, so that workers can empty it.
    Frees,
    Writes,
}

impl Access {
    /// Returns the flags with which Redis registers the function.
    pub(super) fn flags(self) -> &'static str {
        match self {
            Self::Reads => "'no-writes'",
            Self::Frees => "'allow-oom'",
            Self::Writes => "",
        }
    }
}

/// The scripts that a store runs on queues that do not exist, even if it requires queues to exist:
/// those that create or delete a queue, and those of maintenance and notifications. A post reports
/// itself that a queue does not exist, and so do messages that arrive from another queue.
const FOR_ANY_QUEUE: [&str; 6] =
    ["dead_letter_post", "message_post", "queue_apply_due", "queue_create", "queue_delete", "queue_notify"];

impl Script {
    /// Returns whether the function can be called for queues that must exist.
    pub(super) fn can_require_queue(&self) -> bool {
        self.keys.first() == Some(&KeyName::Queue) && !FOR_ANY_QUEUE.contains(&self.name)
    }
}

macro_rules! lua {
    ($name:literal as $file:literal) => {
        lua!($file)
    };
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/", $name, ".lua"))
    };
}
pub(super) use lua;

macro_rules! scripts {
    ($($constant:ident = $access:ident $name:literal $(as $file:literal)? [$($key:ident)*];)*) => {
        $(pub(super) static $constant: Script = Script {
            name: $name,
            access: Access::$access,
            keys: &[$(KeyName::$key),*],
            body: lua!($name $(as $file)?),
        };)*

        /// All functions.
        pub(super) static SCRIPTS: &[&Script] = &[$(&$constant),*];
    };
}

scripts! {
    CLAIM_CREATE = Frees "claim_create"
        [Queue Messages Ready InFlight Delayed Expirations Leases Claims ClaimIds Outbox Shards Due];
    CLAIM_GET = Reads "claim_get" [Queue InFlight Claims];
    CLAIM_LIST = Reads "claim_list" [Queue InFlight Claims ClaimIds];
    CLAIM_RELEASE = Frees "claim_release" [Queue Ready InFlight Expirations Leases Claims ClaimIds Shards Due];
    CLAIM_RENEW = Frees "claim_renew" [Queue InFlight Leases Claims Due];
    CLAIM_RETURN = Frees "claim_return" [Queue Ready InFlight Leases Claims ClaimIds Shards Due];
    DEAD_LETTER_DROP = Frees "dead_letter_drop" [Outbox];
    DEAD_LETTER_LIST = Reads "dead_letter_list" [Outbox];
    DEAD_LETTER_POST = Writes "dead_letter_post" [Queue Messages Ready Delayed Expirations Shards Received Moving
        Due];
    DELIVERY_LEASE = Frees "delivery_lease" [Queue Delayed SubscriptionEnds Deliveries Due];
    DELIVERY_LEASE_END = Frees "delivery_lease_end" [Queue SubscriptionEnds Deliveries Due];
    DELIVERY_RETRIES = Reads "delivery_retries" [Queue SubscriptionEnds Retries RetryTimes];
    DELIVERY_SAVE = Frees "delivery_save" [Queue Delayed SubscriptionEnds Deliveries Retries RetryTimes];
    MESSAGE_DELETE = Frees "message_delete"
        [Queue Messages Ready InFlight Delayed Expirations Leases Claims ClaimIds Shards Due];
    MESSAGE_DELETE_MANY = Frees "message_delete_many"
        [Queue Messages Ready InFlight Delayed Expirations Leases Claims ClaimIds Shards Due];
    MESSAGE_GET = Reads "message_get" [Queue Ready InFlight Delayed];
    MESSAGE_LIST = Reads "message_list" [Queue Ready InFlight Delayed Shards];
    MESSAGE_PEEK = Reads "message_peek" [Queue Ready InFlight Delayed Leases Claims];
    MESSAGE_POP = Frees "message_pop" [Queue Messages Ready InFlight Delayed Expirations Leases Claims Outbox Shards Due];
    MESSAGE_POST = Writes "message_post"
        [Queue Messages Ready Delayed Expirations Shards Tenants Idempotency IdempotencyExpirations Due];
    MESSAGE_RESTORE = Frees "message_restore"
        [Queue Ready InFlight Expirations Leases Claims ClaimIds Shards Due];
    MOVE_STATE = Reads "move_state" [Queue Moving];
    MOVE_WRITE = Writes "move_write" [Moving];
    MOVE_BEGIN = Writes "move_begin" [Queue Outbox Tombstone Due Moving];
    MOVE_FREEZE = Writes "move_freeze" [Queue Outbox Tombstone Due Moving];
    MOVE_RENEW = Writes "move_renew" [Queue Outbox Tombstone Due Moving];
    MOVE_COMPLETE = Writes "move_complete" [Queue Outbox Tombstone Due Moving];
    MOVE_END = Writes "move_end" [Queue Outbox Tombstone Due Moving];
    MOVE_DISCARD = Writes "move_discard" [Queue Outbox Tombstone Due Moving];
    MIGRATION_WRITE = Writes "migration_write" [];
    POP_COMPLETE = Frees "pop_complete" [Queue Messages Ready InFlight Delayed Expirations Leases Claims Shards Due];
    QUEUE_CHECK = Reads "queue_check" [Queue Messages Ready InFlight Delayed Expirations Leases Claims Shards];
    QUEUE_CHECK_BYTES = Writes "queue_check_bytes" [Queue Messages Ready Delayed InFlight];
    QUEUE_CHECK_CLAIMS = Reads "queue_check_claims" [Queue Messages InFlight Leases Claims ClaimIds Shards Tasks TaskLeases];
    QUEUE_CHECK_SUBSCRIPTIONS = Reads "queue_check_subscriptions"
        [Queue Subscriptions Subscribers SubscriptionIds SubscriptionEnds Deliveries Retries RetryTimes];
    QUEUE_CREATE = Writes "queue_create" [Queue Shards Tombstone Moving];
    QUEUE_DELETE = Frees "queue_delete"
        [Queue Messages Ready InFlight Delayed Expirations Leases Claims ClaimIds Outbox Received Shards Tenants Tasks
            TaskLeases Subscriptions Subscribers SubscriptionIds SubscriptionEnds Deliveries Retries RetryTimes Idempotency
            IdempotencyExpirations Tombstone Moving Due];
    QUEUE_GET_STATS = Reads "queue_get_stats" [Queue Messages Ready InFlight Delayed];
    QUEUE_PAUSE = Writes "queue_pause" [Queue];
    QUEUE_PURGE = Frees "queue_purge" [Queue Messages Ready InFlight Delayed Expirations Leases Claims ClaimIds Shards];
    RECORD_DELETE = Frees "record_delete" as "record_write" [];
    RECORD_READ = Reads "record_read" [];
    RECORD_WRITE = Writes "record_write" [];
    REDRIVE_LIST = Writes "redrive_list" [Queue Ready Outbox Tasks TaskLeases];
    REDRIVE_MOVE = Frees "redrive_move"
        [Queue Messages Ready InFlight Delayed Expirations Outbox Shards Tasks TaskLeases Due];
    REDRIVE_RETURN = Writes "redrive_return" [Queue Messages Ready Expirations Outbox Shards Tasks Due];
    QUEUE_NOTIFY = Writes "queue_notify" [Queue];
    LOCATION_REPLACE = Writes "location_replace" [];
    REGISTER = Writes "register" [];
    JANITOR_LEASE = Frees "janitor_lease" [];
    SEALED_LIST = Reads "sealed_list" [Queue Messages Ready InFlight Delayed Retries RetryTimes];
    SEALED_REPLACE = Writes "sealed_replace" [Queue Messages Outbox Retries];
    QUEUE_APPLY_DUE = Frees "queue_apply_due"
        [Queue Messages Ready InFlight Delayed Expirations Leases Claims ClaimIds Outbox Shards TaskLeases
            Subscriptions Subscribers SubscriptionIds SubscriptionEnds Deliveries Retries RetryTimes Idempotency
            IdempotencyExpirations Due];
    QUEUE_RESUME = Frees "queue_resume" [Queue Ready];
    QUEUE_SHARDS = Reads "queue_shards" [Queue Ready InFlight Delayed Shards Tenants];
    QUEUE_STATUS = Reads "queue_status" [Queue Ready Delayed Leases];
    QUEUE_SUMMARY = Reads "queue_summary" [Queue Ready InFlight Delayed];
    QUEUE_UPDATE = Writes "queue_update" [Queue Shards];
    SUBSCRIPTION_ATTEMPTS = Reads "subscription_attempts" [Queue SubscriptionEnds Deliveries];
    SUBSCRIPTION_DELETE = Frees "subscription_delete"
        [Queue Subscriptions Subscribers SubscriptionIds SubscriptionEnds Deliveries Retries RetryTimes Due];
    SUBSCRIPTION_DELETE_ALL = Frees "subscription_delete_all"
        [Queue Subscriptions Subscribers SubscriptionIds SubscriptionEnds Deliveries Retries RetryTimes Due];
    SUBSCRIPTION_LIST = Reads "subscription_list" [Queue Delayed Subscriptions SubscriptionIds SubscriptionEnds Deliveries];
    SUBSCRIPTION_WRITE = Writes "subscription_write"
        [Queue Delayed Subscriptions Subscribers SubscriptionIds SubscriptionEnds Deliveries Due];
    TASK_CREATE = Writes "task_create" [Queue Messages Delayed Tasks TaskLeases Due];
    TASK_FINISH = Frees "task_finish" [Queue Tasks TaskLeases];
    TASK_LEASE = Frees "task_lease" [Queue TaskLeases];
}
