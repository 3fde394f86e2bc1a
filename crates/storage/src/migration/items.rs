//! What a store consists of, in forms that do not depend on its kind.

use bytes::Bytes;

use crate::entry::Entry;
use crate::records::{Row, Table};
use crate::task_lease::TaskLease;
use sukkal_domain::{ClaimId, ClientId, Fence, QueueId, Sharding, SubscriptionId, TaskId, Tenant};

/// Some of the items of a queue, or of those that belong to no queue.
#[derive(Debug)]
pub struct Chunk {
    pub(crate) queue: Option<QueueId>,
    pub(crate) items: Vec<Item>,
    /// Whether no further chunk of this queue follows.
    pub(crate) is_last: bool,
}

/// A part of a store. Records have the forms that all drivers share. Times and ranks are in
/// microseconds since 1970.
#[derive(Debug)]
pub(crate) enum Item {
    Queue(Box<QueueParts>),
    Message {
        entry: Entry,
        set: MessageSet,
        shard: Option<u16>,
        record: Bytes,
    },
    /// A live claim with the entries of the messages that it still holds.
    Claim {
        id: ClaimId,
        ttl_s: u32,
        since_us: u64,
        end_us: u64,
        fence: Fence,
        client: ClientId,
        entries: Vec<Entry>,
    },
    Subscription {
        id: SubscriptionId,
        record: Bytes,
    },
    Progress {
        id: SubscriptionId,
        record: Bytes,
    },
    /// An attempt by the id of its subscription and its place.
    Attempt {
        name: Bytes,
        record: Bytes,
    },
    /// A retry by its name: see `delivery_record.rs`.
    Retry {
        name: Bytes,
        record: Bytes,
    },
    /// A task, with its lease if it is running.
    Task {
        id: TaskId,
        record: Bytes,
        lease: Option<TaskLease>,
    },
    /// The digest and the messages of a post with an idempotency key of this name.
    Outcome {
        name: Bytes,
        end_us: u64,
        digest_and_keys: Bytes,
    },
    /// The last rank or fence of a deleted queue.
    Tombstone {
        last: u64,
        end_us: u64,
    },
    /// A row of a table of records.
    Row {
        table: &'static Table,
        row: Row,
    },
}

/// The sets that each message is in one of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageSet {
    Ready,
    Delayed,
    InFlight,
}

/// A queue without what it contains.
#[derive(Debug)]
pub(crate) struct QueueParts {
    pub(crate) revision: u64,
    /// The record of its metadata.
    pub(crate) metadata: Bytes,
    /// The last visible rank.
    pub(crate) last: u64,
    pub(crate) fence: u64,
    pub(crate) is_paused: bool,
    pub(crate) totals: Totals,
    /// Sum of the sizes of all messages, if it is known.
    pub(crate) bytes: Option<u64>,
    /// The offset and the last value of logical time, if any message is delayed.
    pub(crate) logical_time: Option<(u64, u64)>,
    pub(crate) fairness: Option<Fairness>,
    /// The tenants that posted most recently, with weighted counts of their messages.
    pub(crate) tenants: Vec<(Tenant, u32)>,
    /// When the tenants are forgotten.
    pub(crate) tenants_end_us: u64,
    pub(crate) subscription_count: u64,
    /// The version of the subscriptions and the ended delivery lease, if there were any.
    pub(crate) deliveries: Option<(u64, TaskLease)>,
}

/// Totals of messages since the queue was created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Totals {
    pub(crate) posted: u64,
    pub(crate) claimed: u64,
    pub(crate) expired: u64,
    pub(crate) dead_lettered: u64,
}

/// The state of a queue that is fair, or that still has messages in shards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fairness {
    /// The shards of new messages; `None` if the metadata is not fair any more.
    pub(crate) sharding: Option<Sharding>,
    /// Messages up to this rank have no shard.
    pub(crate) boundary: u64,
    /// The position that was served last; `None` if the first one is next.
    pub(crate) served: Option<u16>,
    pub(crate) preferred_in_a_row: u16,
}
