//! Waiting for messages: the writer thread notifies waiters after each commit.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;

use crate::embedded::store::{EmbeddedStore, StoreParts};
use crate::watch::Watchers;
use crate::watchers::NotificationSource;
use crate::{Error, QueueStatus, Watch, WatchStore};
use sukkal_domain::{QueueId, Rank};

#[async_trait]
impl WatchStore for EmbeddedStore {
    async fn watch(&self, queue: &QueueId) -> Result<Watch, Error> {
        self.parts.watchers.join(&WeakStore(Arc::downgrade(&self.parts)), queue).await
    }

    fn query_finished(&self, queue: &QueueId) {
        self.parts.watchers.query_finished(queue);
    }

    fn watchers(&self) -> &Watchers {
        &self.parts.watchers
    }

    async fn queue_status(&self, queue: &QueueId) -> Result<QueueStatus, Error> {
        let status = self.read_up_to_date(queue, |view, row, state, now_us| {
            let due = view.first_due(row.number, state)?;
            let next_due = Some(due.lease.min(due.delay)).filter(|due_us| *due_us < u64::MAX);
            Ok(QueueStatus {
                now_us,
                last: Rank::new(state.last).unwrap_or(Rank::MAX),
                available: state.total.saturating_sub(state.in_flight + state.delayed),
                next_due: next_due.map(|due_us| Duration::from_micros(due_us.saturating_sub(now_us))),
                subscription_purge: 0,
            })
        });
        let absent = || QueueStatus { now_us: self.parts.clock.now_us(queue), ..QueueStatus::default() };
        Ok(status.await?.unwrap_or_else(absent))
    }
}

/// A reference to the store for its expiry timers, which do not keep it open.
#[derive(Clone)]
struct WeakStore(Weak<StoreParts>);

#[async_trait]
impl NotificationSource for WeakStore {
    async fn subscribe(&self, _queue: &QueueId) -> Result<(), Error> {
        Ok(())
    }

    async fn unsubscribe(&self, _queue: &QueueId) {}

    async fn apply_due_changes(&self, queue: &QueueId) -> Result<QueueStatus, Error> {
        let parts = self.0.upgrade().ok_or_else(|| Error::Unavailable("the store is closed".to_owned()))?;
        EmbeddedStore { parts }.queue_status(queue).await
    }
}
