//! What cases on fair queues say shortly: lots, how a queue is divided, and what its shards hold.

use std::sync::Arc;

use serde_json::{Value, json};
use sukkal::domain::{Claim, Lot, MessageId, NewClaim, NewMessage, QueueId, Shard, Tenant, Term};
use sukkal::storage::{Creation, Details, Holding, Listing, Page, Scope, Update};

use super::subject::{LONG_S, Subject, ids_of, message, metadata};

const OK: &str = "the store answers";
/// For claims whose end does not matter.
pub(super) const TTL_S: u32 = 600;

/// How many messages are available, delayed and claimed.
pub(super) type Counts = [u64; 3];

impl Subject {
    /// A new queue with this metadata.
    pub(super) async fn queue_of(&self, name: &str, keys: Value) -> QueueId {
        let queue = self.id(name);
        let creation = self.store().create_queue(&queue, &metadata(keys)).await;
        assert_eq!(creation, Ok(Creation::Created));
        queue
    }

    /// A new queue of so many shards.
    pub(super) async fn fair_queue(&self, name: &str, shards: u16) -> QueueId {
        self.queue_of(name, json!({ "_shards": shards })).await
    }

    /// Divides the queue into so many shards from now on; one is a plain queue.
    pub(super) async fn divide(&self, queue: &QueueId, shards: u16) {
        let seen = self.revision(queue).await;
        let update = self.store().update_queue(queue, seen, &metadata(json!({ "_shards": shards }))).await;
        assert_eq!(update, Ok(Update::Done));
    }

    /// Posts so many messages for a tenant who draws its shards by the queue as it is now.
    pub(super) async fn post_for(&self, queue: &QueueId, tenant: &str, count: usize) -> Vec<MessageId> {
        let queue_now = self.get(queue).await.expect("the queue exists");
        let lot = queue_now.metadata.sharding().map(|sharding| Arc::new(sharding.draw(&named(tenant))));
        let batch: Vec<_> =
            (0..count).map(|number| NewMessage { lot: lot.clone(), ..message(LONG_S, number) }).collect();
        self.post(queue, &batch).await
    }

    /// Posts one message for each of these shards, in this order.
    pub(super) async fn post_into(&self, queue: &QueueId, shards: &[u16]) -> Vec<MessageId> {
        let batch: Vec<_> = shards.iter().map(|shard| in_shard(*shard)).collect();
        self.post(queue, &batch).await
    }

    /// What a claim that prefers these shards takes, if anything.
    pub(super) async fn claim_from(&self, queue: &QueueId, prefer: &[u16], limit: usize) -> Option<Claim> {
        let prefer = prefer.iter().map(|number| shard(*number)).collect();
        self.claim_as(queue, NewClaim { limit, term: Term { ttl_s: TTL_S, grace_s: 60 }, prefer }).await
    }

    /// The ids of what a claim takes that prefers these shards.
    pub(super) async fn preferred_ids(&self, queue: &QueueId, prefer: &[u16], limit: usize) -> Vec<MessageId> {
        self.claim_from(queue, prefer, limit).await.map_or_else(Vec::new, |claim| ids_of(&claim.messages))
    }

    /// The ids of all that is free, in the order in which claims of so many messages give it out.
    pub(super) async fn drained(&self, queue: &QueueId, limit: usize) -> Vec<MessageId> {
        let mut drained = Vec::new();
        loop {
            let claimed = self.claimed_ids(queue, limit, TTL_S).await;
            if claimed.is_empty() {
                return drained;
            }
            drained.extend(claimed);
        }
    }

    /// The first of what is free, and what its list says of the queue.
    pub(super) async fn page(&self, queue: &QueueId) -> Page {
        let listing = Listing { after: None, limit: 1, not_from: None, scope: Scope::default() };
        self.store().list_messages(queue, &listing).await.expect(OK)
    }

    /// What the shards hold, which must be as much as there is.
    pub(super) async fn details(&self, queue: &QueueId) -> Details {
        let stats = self.store().get_stats(queue, true).await.expect(OK);
        let details = stats.details.expect("they were asked for");
        let parts = || details.shards.iter().map(|(_, holding)| holding).chain([&details.unsharded]);
        let total: u64 = parts().map(|part| part.available + part.delayed + part.claimed).sum();
        let claimed: u64 = parts().map(|part| part.claimed).sum();
        assert_eq!((total, claimed), (stats.total, stats.claimed), "{details:?}");
        assert!(parts().all(|part| part.oldest_age_s.is_some() == (part.available > 0)), "{details:?}");
        assert!(details.shards.is_sorted_by_key(|(shard, _)| shard.number()), "{details:?}");
        details
    }

    /// What each shard holds that holds anything, and what has none.
    pub(super) async fn holdings(&self, queue: &QueueId) -> (Vec<(u16, Counts)>, Counts) {
        let details = self.details(queue).await;
        (
            details.shards.iter().map(|(shard, holding)| (shard.number(), counts(holding))).collect(),
            counts(&details.unsharded),
        )
    }

    /// The shards that hold anything, with how many messages are free in each. Nothing else may be there.
    pub(super) async fn available(&self, queue: &QueueId) -> Vec<(u16, u64)> {
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

pub(super) fn shard(number: u16) -> Shard {
    Shard::new(number).expect("there is such a shard")
}

pub(super) fn named(tenant: &str) -> Tenant {
    Tenant::new(tenant).expect("the name is short")
}

/// A lot with these shards.
pub(super) fn lot(tenant: &str, shards: &[u16]) -> Arc<Lot> {
    let shards = shards.iter().map(|number| shard(*number)).collect();
    Arc::new(Lot { tenant: named(tenant), shards })
}

/// A message for that lot.
pub(super) fn for_lot(lot: &Arc<Lot>) -> NewMessage {
    NewMessage { lot: Some(Arc::clone(lot)), ..message(LONG_S, 0) }
}

/// A message that can be in that shard only. A tenant has one lot, so each shard has a tenant of its own.
pub(super) fn in_shard(shard: u16) -> NewMessage {
    for_lot(&lot(&format!("in {shard}"), &[shard]))
}

/// The same message, but later.
pub(super) fn later(message: NewMessage, delay_s: u32) -> NewMessage {
    NewMessage { delay_s, ..message }
}

pub(super) fn counts(holding: &Holding) -> Counts {
    [holding.available, holding.delayed, holding.claimed]
}

/// Those of the messages that stand at these places.
pub(super) fn pick(ids: &[MessageId], places: &[usize]) -> Vec<MessageId> {
    places.iter().map(|place| ids[*place]).collect()
}

/// Fails unless these are the same messages, in whatever order.
pub(super) fn assert_same(mut some: Vec<MessageId>, mut others: Vec<MessageId>) {
    some.sort_unstable();
    others.sort_unstable();
    assert_eq!(some, others);
}
