//! Waiting: the writer tells what has become free, once it is committed.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;

use super::keys::{Part, Table};
use super::view::View;
use super::{EmbeddedStore, Parts};
use crate::domain::{QueueId, Rank};
use crate::storage::key::rank_of;
use crate::storage::watch::Source;
use crate::storage::{Error, Sight, Watch, WatchStore};

#[async_trait]
impl WatchStore for EmbeddedStore {
    async fn watch(&self, queue: &QueueId) -> Result<Watch, Error> {
        self.parts.watchers.enter(&Known(Arc::downgrade(&self.parts)), queue).await
    }

    fn looked(&self, queue: &QueueId) {
        self.parts.watchers.looked(queue);
    }

    async fn sight(&self, queue: &QueueId) -> Result<Sight, Error> {
        let sight = self.read_settled(queue, |view, number, now_us| {
            let state = view.stored_state(number)?;
            let next_due = view.next_due_us(number)?;
            Ok(Sight {
                now_us,
                last: Rank::new(state.last).unwrap_or(Rank::MAX),
                free: state.total.saturating_sub(state.held + state.delayed),
                next_due: next_due.map(|due_us| Duration::from_micros(due_us.saturating_sub(now_us))),
            })
        });
        let absent = || Sight { now_us: self.parts.clock.now_us(queue), ..Sight::default() };
        Ok(sight.await?.unwrap_or_else(absent))
    }
}

impl<T: Table> View<T> {
    /// When the next delay or lease ends, in microseconds since 1970.
    fn next_due_us(&self, number: u64) -> Result<Option<u64>, Error> {
        let next_lease = self.until(number, Part::Lease, u64::MAX - 1, 1)?.first().map(|(end_us, _)| *end_us);
        let next_delay = self.places(number, Part::Delayed, 0)?.next().transpose()?.map(|place| rank_of(&place.key));
        Ok(next_lease.into_iter().chain(next_delay).min())
    }
}

/// The store as its keepers know it, whom it does not outlive.
#[derive(Clone)]
struct Known(Weak<Parts>);

#[async_trait]
impl Source for Known {
    async fn subscribe(&self, _queue: &QueueId) -> Result<(), Error> {
        Ok(())
    }

    async fn unsubscribe(&self, _queue: &QueueId) {}

    async fn see(&self, queue: &QueueId) -> Result<Sight, Error> {
        let parts = self.0.upgrade().ok_or_else(|| Error::Unavailable("the store is closed".to_owned()))?;
        EmbeddedStore { parts }.sight(queue).await
    }
}
