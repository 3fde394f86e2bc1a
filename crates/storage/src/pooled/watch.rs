//! Waiting for messages of queues in pools.
//!
//! All stores of the process notify the same waiters. A watched queue is subscribed to in the
//! management store, which notifies of a new location, and in its pool.

use std::sync::Arc;

use async_trait::async_trait;
use tracing::debug;

use super::PooledStore;
use super::locations::Subscription;
use super::search::at;
use super::weak::WeakStore;
use crate::watch::Watchers;
use crate::watchers::NotificationSource;
use crate::{Error, QueueStatus, Watch, WatchStore};
use sukkal_domain::{PoolName, QueueId};

#[async_trait]
impl WatchStore for PooledStore {
    async fn watch(&self, queue: &QueueId) -> Result<Watch, Error> {
        self.watchers().join(&WeakStore(Arc::downgrade(&self.0)), queue).await
    }

    fn query_finished(&self, queue: &QueueId) {
        self.watchers().query_finished(queue);
    }

    fn watchers(&self) -> &Watchers {
        self.0.management.watchers()
    }

    async fn queue_status(&self, queue: &QueueId) -> Result<QueueStatus, Error> {
        at!(self, queue, store => async {
            // All messages that a queue will have are after its creation, whatever clock its pool
            // has.
            if self.is_empty_store(&*store) { Ok(QueueStatus::default()) } else { store.queue_status(queue).await }
        })
    }
}

impl PooledStore {
    /// Subscribes to a queue whose location has been read, if it is watched and was subscribed to
    /// in another pool. Then notifies all its waiters, because notifications may have been lost. If
    /// this fails, the next operation on the queue tries again.
    pub(super) async fn follow_location(&self, queue: &QueueId, pool: Option<&PoolName>) {
        let before = self.0.subscribed.lock().get(queue).cloned();
        if before.is_none_or(|before| before == Subscription::At(pool.cloned())) {
            return;
        }
        match self.subscribe_at(queue, pool).await {
            Ok(()) => self.watchers().notify_all(queue),
            Err(error) => {
                debug!(%queue, %error, "cannot subscribe to a queue at its new location");
                self.0.locations.remove(queue);
            }
        }
    }

    /// Subscribes to the watched queues of a pool again, which was opened again: their waiters look
    /// for messages now, and so find the queues at their locations.
    pub(super) fn follow_reopened_pool(&self, pool: &PoolName) {
        let mut queues = Vec::new();
        for (queue, subscription) in self.0.subscribed.lock().iter_mut().filter(|(_, at)| at.pool() == Some(pool)) {
            *subscription = Subscription::Ended;
            queues.push(queue.clone());
        }
        for queue in queues {
            self.watchers().notify_all(&queue);
        }
    }

    async fn subscribe_at(&self, queue: &QueueId, pool: Option<&PoolName>) -> Result<(), Error> {
        if let Some(pool) = pool {
            self.pool(pool)?.redis.subscribe_to(queue).await?;
        }
        let before = self.0.subscribed.lock().insert(queue.clone(), Subscription::At(pool.cloned()));
        if let Some(old) = before.as_ref().and_then(Subscription::pool).filter(|old| Some(*old) != pool)
            && let Ok(old) = self.pool(old)
        {
            old.redis.unsubscribe_from(queue).await;
        }
        Ok(())
    }
}

#[async_trait]
impl NotificationSource for WeakStore {
    async fn subscribe(&self, queue: &QueueId) -> Result<(), Error> {
        let store = self.upgrade()?;
        // Comes first, so that a change of the location after it was read is noticed.
        store.0.management.subscribe_to(queue).await?;
        let location = store.0.management.find_location(queue).await?;
        store.subscribe_at(queue, location.and_then(|location| location.pool).as_ref()).await
    }

    async fn unsubscribe(&self, queue: &QueueId) {
        let Ok(store) = self.upgrade() else { return };
        let subscription = store.0.subscribed.lock().remove(queue);
        store.0.management.unsubscribe_from(queue).await;
        if let Some(Ok(pool)) = subscription.as_ref().and_then(Subscription::pool).map(|pool| store.pool(pool)) {
            pool.redis.unsubscribe_from(queue).await;
        }
    }

    async fn apply_due_changes(&self, queue: &QueueId) -> Result<QueueStatus, Error> {
        self.upgrade()?.queue_status(queue).await
    }
}
