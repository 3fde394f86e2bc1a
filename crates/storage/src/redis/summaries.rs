//! Summaries of several queues, each by one script.

use futures::stream::{self, StreamExt, TryStreamExt};

use super::RedisStore;
use super::keys::QueueKeys;
use super::messages::read_holding;
use super::reply;
use super::script::QUEUE_SUMMARY;
use crate::{Error, complete_summaries};
use sukkal_domain::{QueueId, Summary, Totals};

/// Maximum number of scripts in flight for one call. The queues of a call are in different slots,
/// so one script cannot read several of them.
const SCRIPTS_IN_FLIGHT_MAX: usize = 16;

impl RedisStore {
    /// Summarizes all queues first, and then those again to which due changes must be applied.
    pub(super) async fn summaries(&self, queues: &[QueueId]) -> Result<Vec<Summary>, Error> {
        let scripts: Vec<_> = queues.iter().map(|queue| self.summary(queue)).collect();
        let all: Vec<Option<Summary>> = stream::iter(scripts).buffered(SCRIPTS_IN_FLIGHT_MAX).try_collect().await?;
        let apply_step = |queue: QueueId| async move {
            self.connection.apply_due_step(&QueueKeys::of(&queue)).await?;
            self.summary(&queue).await
        };
        complete_summaries(queues, all, apply_step).await
    }

    /// Returns the summary of a queue, or `None` if due changes must be applied first.
    async fn summary(&self, queue: &QueueId) -> Result<Option<Summary>, Error> {
        let mut reply = self.connection.run(&QUEUE_SUMMARY, &QueueKeys::of(queue), &[]).await?;
        match reply.text()?.as_str() {
            "due" => Ok(None),
            "summary" => {
                let now_us = reply.number()?;
                let messages = read_holding(&mut reply, now_us)?;
                let is_paused = reply.number()? == 1;
                let totals = Totals {
                    posted: reply.number()?,
                    claimed: reply.number()?,
                    expired: reply.number()?,
                    dead_lettered: reply.number()?,
                    deleted: 0,
                };
                Ok(Some(Summary { messages, is_paused, totals: totals.with_deleted(messages.total()) }))
            }
            kind => Err(reply::unknown_kind(QUEUE_SUMMARY.name, kind)),
        }
    }
}
