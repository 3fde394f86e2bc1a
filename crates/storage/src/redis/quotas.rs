//! Measures what queues in Redis use.

use async_trait::async_trait;
use tokio::try_join;
use tracing::debug;

use super::RedisStore;
use super::keys::{KeyName, QueueKeys};
use super::reply::parse_number;
use crate::quotas::sum_usages;
use crate::{Error, MeasuredQueues, NameRange, QueueUsage, QuotaStore};
use sukkal_domain::{ProjectId, QueueId, QueueName};

#[async_trait]
impl QuotaStore for RedisStore {
    async fn measure_queues(
        &self,
        project: &ProjectId,
        after: Option<&QueueName>,
        examined_max: usize,
    ) -> Result<MeasuredQueues, Error> {
        let names = self.registered_names(project, &NameRange::after(after), examined_max).await?;
        let reached = names.last().cloned().filter(|_| names.len() == examined_max);
        let queues = names.into_iter().filter_map(|name| QueueId::new(project.clone(), name).ok());
        let queues: Vec<QueueId> = queues.collect();
        let measurements: Vec<_> = queues.iter().map(|queue| self.measure_queue(queue)).collect();
        Ok(MeasuredQueues { usage: sum_usages(measurements).await?, reached })
    }

    async fn measure_queue(&self, queue: &QueueId) -> Result<QueueUsage, Error> {
        let keys = QueueKeys::of(queue);
        let (queue_key, messages_key) = (keys.queue(), keys.key(KeyName::Messages));
        let fields = self.connection.command("HMGET", &queue_key, &["v", "n", "b"]);
        match try_join!(fields, self.connection.command("HLEN", &messages_key, &[])) {
            Ok((mut fields, mut length)) => {
                if fields.text_or_nil()?.is_none() && self.connection.requires_queues {
                    return Err(Error::NoQueue);
                }
                let subscriptions = fields.text_or_nil()?.map_or(Ok(0), |count| parse_number(&count))?;
                let bytes = fields.text_or_nil()?.map_or(Ok(0), |bytes| parse_number(&bytes))?;
                let messages = length.number()?;
                Ok(QueueUsage { messages, messages_max: messages, bytes, bytes_max: bytes, subscriptions })
            }
            // One queue that cannot be read must not keep its project from being measured.
            Err(Error::Corrupt(reason)) => {
                debug!(%queue, reason, "a queue that cannot be read counts as empty");
                Ok(QueueUsage::default())
            }
            Err(error) => Err(error),
        }
    }
}
