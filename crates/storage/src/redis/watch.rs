//! Waiting for messages in Redis: subscriptions to notifications, and the status of a queue.

use std::time::Duration;

use async_trait::async_trait;

use super::RedisStore;
use super::reply::Reply;
use super::script::QUEUE_STATUS;
use crate::watch::Watchers;
use crate::watchers::NotificationSource;
use crate::{Error, QueueStatus, Watch, WatchStore};
use sukkal_domain::{QueueId, Rank};

#[async_trait]
impl WatchStore for RedisStore {
    async fn watch(&self, queue: &QueueId) -> Result<Watch, Error> {
        self.watchers().join(self, queue).await
    }

    fn query_finished(&self, queue: &QueueId) {
        self.watchers().query_finished(queue);
    }

    fn watchers(&self) -> &Watchers {
        self.subscriber.watchers()
    }

    async fn subscribe_to(&self, queue: &QueueId) -> Result<(), Error> {
        self.subscriber.subscribe(queue).await
    }

    async fn unsubscribe_from(&self, queue: &QueueId) {
        self.subscriber.unsubscribe(queue).await;
    }

    async fn queue_status(&self, queue: &QueueId) -> Result<QueueStatus, Error> {
        let (_status, mut reply) = self.run_applying_due(&QUEUE_STATUS, queue, &[]).await?;
        let (now_us, last, available) = (reply.number()?, rank(&mut reply)?, reply.number()?);
        let next_due = match reply.number()? {
            0 => None,
            due_us => Some(Duration::from_micros(due_us.saturating_sub(now_us))),
        };
        Ok(QueueStatus { now_us, last, available, next_due, subscription_purge: reply.number()? })
    }
}

fn rank(reply: &mut Reply) -> Result<Rank, Error> {
    let number = reply.number()?;
    Rank::new(number).ok_or_else(|| Error::Corrupt(format!("{number} is not a rank")))
}

#[async_trait]
impl NotificationSource for RedisStore {
    async fn subscribe(&self, queue: &QueueId) -> Result<(), Error> {
        self.subscriber.subscribe(queue).await
    }

    async fn unsubscribe(&self, queue: &QueueId) {
        self.subscriber.unsubscribe(queue).await;
    }

    async fn apply_due_changes(&self, queue: &QueueId) -> Result<QueueStatus, Error> {
        self.queue_status(queue).await
    }
}
