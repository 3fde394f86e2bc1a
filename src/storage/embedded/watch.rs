//! Waiting: the writer tells what has become free, once it is committed.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;

use super::{EmbeddedStore, Parts};
use crate::domain::{QueueId, Rank};
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
            let due = view.first_due(number, &state)?;
            let next_due = Some(due.lease.min(due.delay)).filter(|due_us| *due_us < u64::MAX);
            Ok(Sight {
                now_us,
                last: Rank::new(state.last).unwrap_or(Rank::MAX),
                free: state.total.saturating_sub(state.in_flight + state.delayed),
                next_due: next_due.map(|due_us| Duration::from_micros(due_us.saturating_sub(now_us))),
            })
        });
        let absent = || Sight { now_us: self.parts.clock.now_us(queue), ..Sight::default() };
        Ok(sight.await?.unwrap_or_else(absent))
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
