//! Waiting in Redis: what is told over the connection for news, and where a queue stands.

use std::time::Duration;

use async_trait::async_trait;

use super::RedisStore;
use super::reply::Reply;
use super::script::QUEUE_STATUS;
use crate::domain::{QueueId, Rank};
use crate::storage::watch::Source;
use crate::storage::{Error, Sight, Watch, WatchStore};

#[async_trait]
impl WatchStore for RedisStore {
    async fn watch(&self, queue: &QueueId) -> Result<Watch, Error> {
        self.subscriber.watchers().enter(self, queue).await
    }

    fn looked(&self, queue: &QueueId) {
        self.subscriber.watchers().looked(queue);
    }

    async fn sight(&self, queue: &QueueId) -> Result<Sight, Error> {
        let (_status, mut reply) = self.run_settled(&QUEUE_STATUS, queue, &[]).await?;
        let (now_us, last, free) = (reply.number()?, rank(&mut reply)?, reply.number()?);
        let next_due = match reply.number()? {
            0 => None,
            due_us => Some(Duration::from_micros(due_us.saturating_sub(now_us))),
        };
        Ok(Sight { now_us, last, free, next_due })
    }
}

impl RedisStore {
    /// Notifies the waiters of this process when all messages that were next have become dead letters: there may be others
    /// behind these.
    pub(super) fn notify_behind_dead_letters(&self, queue: &QueueId) {
        self.subscriber.watchers().tell_all(queue);
    }
}

fn rank(reply: &mut Reply) -> Result<Rank, Error> {
    let number = reply.number()?;
    Rank::new(number).ok_or_else(|| Error::Corrupt(format!("{number} is no rank")))
}

#[async_trait]
impl Source for RedisStore {
    async fn subscribe(&self, queue: &QueueId) -> Result<(), Error> {
        self.subscriber.subscribe(queue).await
    }

    async fn unsubscribe(&self, queue: &QueueId) {
        self.subscriber.unsubscribe(queue).await;
    }

    async fn see(&self, queue: &QueueId) -> Result<Sight, Error> {
        self.sight(queue).await
    }
}
