//! What a store consists of, in forms that do not depend on its kind.

use bytes::Bytes;

use crate::domain::{ClaimId, ClientId, Fence, ProjectId, QueueId, Sharding, SubscriptionId, TaskId, Tenant};
use crate::storage::entry::Entry;
use crate::storage::records::{Row, Table};
use crate::storage::task_lease::TaskLease;

/// Some of the items of a queue, or of those that belong to no queue.
#[derive(Debug)]
pub struct Chunk {
    pub(in crate::storage) queue: Option<QueueId>,
    pub(in crate::storage) items: Vec<Item>,
    /// Whether no further chunk of this queue follows.
    pub(in crate::storage) is_last: bool,
}

/// A part of a store. Records have the forms that all drivers share. Times and ranks are in
/// microseconds since 1970.
#[derive(Debug)]
pub(in crate::storage) enum Item {
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
    /// A row of a table with indexes.
    Row {
        table: &'static Table,
        row: Row,
    },
    /// The quotas of a project, or the version of their list.
    Quotas {
        project: Option<ProjectId>,
        value: Bytes,
    },
}

/// The sets that each message is in one of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::storage) enum MessageSet {
    Ready,
    Delayed,
    InFlight,
}

/// A queue without what it contains.
#[derive(Debug)]
pub(in crate::storage) struct QueueParts {
    pub(in crate::storage) revision: u64,
    /// The record of its metadata.
    pub(in crate::storage) metadata: Bytes,
    /// The last visible rank.
    pub(in crate::storage) last: u64,
    pub(in crate::storage) fence: u64,
    pub(in crate::storage) is_paused: bool,
    pub(in crate::storage) totals: Totals,
    /// Sum of the sizes of all messages, if it is known.
    pub(in crate::storage) bytes: Option<u64>,
    /// The offset and the last value of logical time, if any message is delayed.
    pub(in crate::storage) logical_time: Option<(u64, u64)>,
    pub(in crate::storage) fairness: Option<Fairness>,
    /// The tenants that posted most recently, with weighted counts of their messages.
    pub(in crate::storage) tenants: Vec<(Tenant, u32)>,
    /// When the tenants are forgotten.
    pub(in crate::storage) tenants_end_us: u64,
    pub(in crate::storage) subscription_count: u64,
    /// The version of the subscriptions and the ended delivery lease, if there were any.
    pub(in crate::storage) deliveries: Option<(u64, TaskLease)>,
}

/// Totals of messages since the queue was created.
#[derive(Clone, Copy, Debug)]
pub(in crate::storage) struct Totals {
    pub(in crate::storage) posted: u64,
    pub(in crate::storage) claimed: u64,
    pub(in crate::storage) expired: u64,
    pub(in crate::storage) dead_lettered: u64,
}

/// The state of a queue that is fair, or that still has messages in shards.
#[derive(Clone, Copy, Debug)]
pub(in crate::storage) struct Fairness {
    /// The shards of new messages; `None` if the metadata is not fair any more.
    pub(in crate::storage) sharding: Option<Sharding>,
    /// Messages up to this rank have no shard.
    pub(in crate::storage) boundary: u64,
    /// The position that was served last; `None` if the first one is next.
    pub(in crate::storage) served: Option<u16>,
    pub(in crate::storage) preferred_in_a_row: u16,
}
