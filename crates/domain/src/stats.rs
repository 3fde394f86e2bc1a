//! The number of messages in a queue, in total and for each shard, and the totals of its past.

use super::{Message, Shard, Tenant};

/// The messages of a queue at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Whether the queue exists. Otherwise it is empty.
    pub exists: bool,
    /// Number of messages.
    pub total: u64,
    /// Number of messages that are claimed or returned with a delay.
    pub claimed: u64,
    /// The first message of the feed.
    pub oldest: Option<Message>,
    /// The last message of the feed.
    pub newest: Option<Message>,
    /// Numbers for each shard, if the request asked for them.
    pub details: Option<Details>,
}

/// The messages in each shard of a queue at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details {
    /// The shards that have messages, by number.
    pub shards: Vec<(Shard, Holding)>,
    /// Messages without a shard: all messages of a queue that was never fair.
    pub unsharded: Holding,
    /// The tenants that posted most recently, each with its share of all posted messages, the
    /// busiest first. The shares are estimates: that of a tenant that posts little may include
    /// messages of other tenants.
    pub tenants: Vec<(Tenant, f64)>,
}

/// Number of messages in a part of a queue, by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    /// Number of messages that can be claimed now.
    pub available: u64,
    /// Number of messages whose delay has not ended.
    pub delayed: u64,
    /// Number of messages that are claimed, or returned with a delay that has not ended.
    pub claimed: u64,
    /// Time since the oldest available message became available, in whole seconds.
    pub oldest_age_s: Option<u64>,
}

/// A queue in short, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The messages of the queue.
    pub messages: Holding,
    /// Whether the queue is paused, so that claims and pops get no messages.
    pub is_paused: bool,
    /// Totals since the queue was created.
    pub totals: Totals,
}

/// Numbers of messages since a queue was created. They never fall while the queue exists.
///
/// Every message that was posted is in the queue, or was deleted, has expired or was dead-lettered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Messages that were posted, dead letters that have arrived, and popped messages that were
    /// restored because they did not reach their client.
    pub posted: u64,
    /// Messages that claims have taken; a message counts once for each claim.
    pub claimed: u64,
    /// Messages that were deleted, popped, purged or moved away by a redrive.
    pub deleted: u64,
    /// Messages that have expired.
    pub expired: u64,
    /// Messages that have left for the dead-letter queue.
    pub dead_lettered: u64,
}

impl Holding {
    /// Returns the number of messages in any state.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.available + self.delayed + self.claimed
    }
}

impl Totals {
    /// Returns these totals with `deleted`, which is not counted when it happens: every message
    /// that is not among the `present` ones of the queue, and ended in no other way, was deleted.
    #[must_use]
    pub fn with_deleted(self, present: u64) -> Self {
        let others = self.expired + self.dead_lettered + present;
        Self { deleted: self.posted.saturating_sub(others), ..self }
    }
}

impl Details {
    /// Converts the number of posts of each tenant into shares of their sum, the busiest tenant
    /// first.
    #[must_use]
    pub fn shares(mut counts: Vec<(Tenant, f64)>) -> Vec<(Tenant, f64)> {
        let all: f64 = counts.iter().map(|(_, count)| count).sum();
        counts.sort_by(|(a, of_a), (b, of_b)| of_b.total_cmp(of_a).then_with(|| a.cmp(b)));
        counts.into_iter().map(|(tenant, count)| (tenant, count / all)).collect()
    }
}
