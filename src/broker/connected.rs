//! The subscriptions of the WebSocket connections of this process. They end with their connections,
//! and no store knows them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Error;
use sukkal_base::memory_budget::{BudgetExceeded, MemoryBudget, MemoryShare};
use sukkal_domain::{JsonObject, QueueId, Revision, Subscription, SubscriptionId, SubscriptionSettings};

/// Maximum size in bytes of the options of all subscriptions. They count twice, because they are
/// kept as requests show them and as they are applied.
const OPTIONS_BYTES_MAX: usize = 32 << 20;

/// The subscriptions of all connections of this process.
#[derive(Clone)]
pub(super) struct ConnectedSubscriptions {
    all: Arc<Mutex<HashMap<QueueId, OfQueue>>>,
    options: MemoryBudget,
}

type OfQueue = BTreeMap<SubscriptionId, Registration>;

/// A subscription of a connection, as other requests see it.
pub(super) struct Registration {
    pub(super) connection: Uuid,
    pub(super) ttl_s: u64,
    pub(super) created: Instant,
    pub(super) options: JsonObject,
    pub(super) deleted: CancellationToken,
}

impl Default for ConnectedSubscriptions {
    fn default() -> Self {
        Self { all: Arc::default(), options: MemoryBudget::new(OPTIONS_BYTES_MAX) }
    }
}

impl ConnectedSubscriptions {
    /// Returns the subscriptions of the queue after `after`, in the order of their ids.
    pub(super) fn list(&self, queue: &QueueId, after: Option<SubscriptionId>, limit: usize) -> Vec<Subscription> {
        let all = self.all.lock();
        let Some(of_queue) = all.get(queue) else { return Vec::new() };
        let is_after = |id: &SubscriptionId| after.is_none_or(|after| *id > after);
        let chosen = of_queue.iter().filter(|(id, _)| is_after(id)).take(limit);
        chosen.map(|(id, registration)| registration.subscription(*id)).collect()
    }

    pub(super) fn get(&self, queue: &QueueId, id: SubscriptionId) -> Option<Subscription> {
        Some(self.all.lock().get(queue)?.get(&id)?.subscription(id))
    }

    /// Ends a subscription. Returns whether it existed.
    pub(super) fn delete(&self, queue: &QueueId, id: SubscriptionId) -> bool {
        let mut all = self.all.lock();
        let Some(of_queue) = all.get_mut(queue) else { return false };
        let removed = of_queue.remove(&id);
        if of_queue.is_empty() {
            all.remove(queue);
        }
        removed.is_some_and(|removed| {
            removed.deleted.cancel();
            true
        })
    }

    /// Takes the memory for the options of a subscription of the queue.
    pub(super) fn memory_for(&self, queue: &QueueId, options: &JsonObject) -> Result<MemoryShare, Error> {
        let (memory, bytes) = (self.options.share(queue.project()), options.as_msgpack().len());
        match memory.take(2 * bytes) {
            Ok(()) => Ok(memory),
            Err(BudgetExceeded) => Err(Error::Limit(format!(
                "the options have {bytes} bytes, but those of other subscriptions over WebSockets use the memory; send smaller \
                 options, or end other subscriptions"
            ))),
        }
    }

    /// Adds a subscription, unless the connection has one of the queue, or the queue has `max`.
    pub(super) fn add(&self, queue: &QueueId, id: SubscriptionId, new: Registration, max: u64) -> Result<(), Error> {
        let mut all = self.all.lock();
        let count = all.get(queue).map_or(0, BTreeMap::len);
        if all.get(queue).is_some_and(|known| known.values().any(|known| known.connection == new.connection)) {
            return Err(Error::subscriber_taken());
        }
        if count as u64 >= max {
            return Err(Error::Limit(format!(
                "the queue {} has {max} subscriptions of connections to this process, which is the maximum",
                queue.name()
            )));
        }
        all.entry(queue.clone()).or_default().insert(id, new);
        Ok(())
    }
}

impl Registration {
    fn subscription(&self, id: SubscriptionId) -> Subscription {
        Subscription {
            id,
            revision: Revision(0),
            ttl_s: self.ttl_s,
            age_s: self.created.elapsed().as_secs(),
            settings: SubscriptionSettings::new(format!("websocket:{}", self.connection), self.options.clone()),
        }
    }
}
