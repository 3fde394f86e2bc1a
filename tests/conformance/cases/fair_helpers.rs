//! Helpers for cases on fair queues: assignments, sharding metadata, and the contents of shards.

use std::sync::Arc;

use serde_json::json;
use sukkal_domain::{
    Claim, Details, Holding, MessageId, NewClaim, NewMessage, QueueId, Shard, ShardAssignment, Tenant,
};
use sukkal_storage::{Listing, Page};

use crate::conformance::support::subject::{LONG_S, Subject, ids_of, message};
use support::calls::new_claim;

const OK: &str = "the store answers";
/// Ttl of claims whose expiry does not matter, in seconds.
pub(in crate::conformance) const TTL_S: u32 = 600;

/// Numbers of available, delayed and claimed messages.
pub(in crate::conformance) type Counts = [u64; 3];

impl Subject {
    /// Creates a queue with this number of shards.
    pub(in crate::conformance) async fn fair_queue(&self, name: &str, shards: u16) -> QueueId {
        self.queue_of(name, json!({ "_shards": shards })).await
    }

    /// Sets the number of shards of the queue; 1 makes it a plain queue.
    pub(in crate::conformance) async fn set_shards(&self, queue: &QueueId, shards: u16) {
        self.set_metadata(queue, json!({ "_shards": shards })).await;
    }

    /// Posts `count` messages of a tenant whose shards are assigned under the queue's current
    /// metadata.
    pub(in crate::conformance) async fn post_for(&self, queue: &QueueId, tenant: &str, count: usize) -> Vec<MessageId> {
        let queue_now = self.get(queue).await.expect("the queue exists");
        let assignment = queue_now.metadata.sharding().map(|sharding| Arc::new(sharding.assign(&named(tenant))));
        let batch: Vec<_> =
            (0..count).map(|number| NewMessage { assignment: assignment.clone(), ..message(LONG_S, number) }).collect();
        self.post(queue, &batch).await
    }

    /// Posts one message to each of these shards, in this order.
    pub(in crate::conformance) async fn post_into(&self, queue: &QueueId, shards: &[u16]) -> Vec<MessageId> {
        let batch: Vec<_> = shards.iter().map(|shard| in_shard(*shard)).collect();
        self.post(queue, &batch).await
    }

    /// Claims with a preference for these shards; returns `None` if no message is available.
    pub(in crate::conformance) async fn claim_from(
        &self,
        queue: &QueueId,
        prefer: &[u16],
        limit: usize,
    ) -> Option<Claim> {
        let preferred_shards = prefer.iter().map(|number| shard(*number)).collect();
        self.claim_as(queue, NewClaim { preferred_shards, ..new_claim(limit, TTL_S) }).await
    }

    /// Returns the ids of the messages taken by a claim that prefers these shards.
    pub(in crate::conformance) async fn preferred_ids(
        &self,
        queue: &QueueId,
        prefer: &[u16],
        limit: usize,
    ) -> Vec<MessageId> {
        self.claim_from(queue, prefer, limit).await.map_or_else(Vec::new, |claim| ids_of(&claim.messages))
    }

    /// Claims all available messages, `limit` at a time, and returns their ids in the order of
    /// delivery.
    pub(in crate::conformance) async fn claim_all(&self, queue: &QueueId, limit: usize) -> Vec<MessageId> {
        let mut claim_all = Vec::new();
        loop {
            let claimed = self.claimed_ids(queue, limit, TTL_S).await;
            if claimed.is_empty() {
                return claim_all;
            }
            claim_all.extend(claimed);
        }
    }

    /// Returns the first page of available messages, with the state of the queue that it reports.
    pub(in crate::conformance) async fn page(&self, queue: &QueueId) -> Page {
        let listing = Listing::first(1);
        self.store().list_messages(queue, &listing).await.expect(OK)
    }

    /// Returns the detailed stats, whose sum must equal the totals.
    pub(in crate::conformance) async fn details(&self, queue: &QueueId) -> Details {
        let stats = self.store().get_stats(queue, true).await.expect(OK);
        let details = stats.details.expect("it was requested");
        let parts = || details.shards.iter().map(|(_, holding)| holding).chain([&details.unsharded]);
        let total: u64 = parts().map(|part| part.available + part.delayed + part.claimed).sum();
        let claimed: u64 = parts().map(|part| part.claimed).sum();
        assert_eq!((total, claimed), (stats.total, stats.claimed), "{details:?}");
        assert!(parts().all(|part| part.oldest_age_s.is_some() == (part.available > 0)), "{details:?}");
        assert!(details.shards.is_sorted_by_key(|(shard, _)| shard.number()), "{details:?}");
        details
    }

    /// Returns the counts of each shard that has messages, and those of the messages without a
    /// shard.
    pub(in crate::conformance) async fn holdings(&self, queue: &QueueId) -> (Vec<(u16, Counts)>, Counts) {
        let details = self.details(queue).await;
        (
            details.shards.iter().map(|(shard, holding)| (shard.number(), counts(holding))).collect(),
            counts(&details.unsharded),
        )
    }

    /// Returns the shards that have messages, with the number of available ones. There must be no
    /// other messages.
    pub(in crate::conformance) async fn available(&self, queue: &QueueId) -> Vec<(u16, u64)> {
        let (shards, unsharded) = self.holdings(queue).await;
        assert_eq!(unsharded, [0; 3]);
        shards
            .into_iter()
            .map(|(shard, [available, delayed, claimed])| {
                assert_eq!((delayed, claimed), (0, 0), "in shard {shard}");
                (shard, available)
            })
            .collect()
    }
}

pub(in crate::conformance) fn shard(number: u16) -> Shard {
    Shard::new(number).expect("there is such a shard")
}

pub(in crate::conformance) fn named(tenant: &str) -> Tenant {
    Tenant::new(tenant).expect("the name is short")
}

/// Returns an assignment to these shards.
pub(in crate::conformance) fn assignment(tenant: &str, shards: &[u16]) -> Arc<ShardAssignment> {
    let shards = shards.iter().map(|number| shard(*number)).collect();
    Arc::new(ShardAssignment { tenant: named(tenant), shards })
}

/// Returns a message with that assignment.
pub(in crate::conformance) fn for_assignment(assignment: &Arc<ShardAssignment>) -> NewMessage {
    NewMessage { assignment: Some(Arc::clone(assignment)), ..message(LONG_S, 0) }
}

/// Returns a message that can be placed only in that shard. A tenant has one assignment, so each
/// shard has its own tenant.
pub(in crate::conformance) fn in_shard(shard: u16) -> NewMessage {
    for_assignment(&assignment(&format!("in {shard}"), &[shard]))
}

/// Returns the same message with a delay.
pub(in crate::conformance) fn later(message: NewMessage, delay_s: u32) -> NewMessage {
    NewMessage { delay_s, ..message }
}

pub(in crate::conformance) fn counts(holding: &Holding) -> Counts {
    [holding.available, holding.delayed, holding.claimed]
}

/// Returns the ids at these indexes.
pub(in crate::conformance) fn pick(ids: &[MessageId], places: &[usize]) -> Vec<MessageId> {
    places.iter().map(|place| ids[*place]).collect()
}

/// Asserts that both have the same messages, in any order.
pub(in crate::conformance) fn assert_same(mut some: Vec<MessageId>, mut others: Vec<MessageId>) {
    some.sort_unstable();
    others.sort_unstable();
    assert_eq!(some, others);
}
