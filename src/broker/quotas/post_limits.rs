//! What a post may store: the limits of its queue, which the store applies in the same step as the
//! post, and those of its project, which the broker compares with the last measurement.

use crate::broker::Broker;
use crate::broker::Error;
use crate::broker::messages::PostRequest;
use crate::domain::{ProjectId, QueueLimits, Quota};

/// The limits of one post.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::broker) struct PostLimits {
    /// The limits of the queue. If the project is full, nothing fits.
    pub(in crate::broker) queue: QueueLimits,
    /// The quota of the project that the post would exceed, with its limit.
    full: Option<(Quota, u64)>,
}

impl PostLimits {
    /// Checks whether a queue that is about to be created may get this number of messages.
    pub(in crate::broker) fn check_new_queue(&self, count: usize) -> Result<(), Error> {
        match self.queue.messages {
            Some(max) if count as u64 > max => Err(self.exceeded(Quota::MessagesPerQueue)),
            _ => Ok(()),
        }
    }

    /// Returns the error of a post that the store has refused because of this quota.
    pub(in crate::broker) fn exceeded(&self, quota: Quota) -> Error {
        let (quota, max) = self.full.unwrap_or((quota, self.queue.messages.unwrap_or_default()));
        Error::QuotaExceeded { quota, max, advice: "delete messages" }
    }
}

impl Broker {
    /// Returns the limits of a post.
    ///
    /// # Errors
    ///
    /// [`Error::QuotaExceeded`] if the project is full. A post with an idempotency key may repeat
    /// one that was stored, so the store is asked.
    pub(in crate::broker) async fn post_limits(
        &self,
        project: &ProjectId,
        request: &PostRequest,
    ) -> Result<PostLimits, Error> {
        let messages = self.quotas.limit(project, Quota::MessagesPerQueue);
        let limits = PostLimits { queue: QueueLimits { messages }, full: None };
        let Some(max) = self.quotas.limit(project, Quota::Messages) else {
            return Ok(limits);
        };
        let stored = self.recent_usage(project).await.map_or(0, |usage| usage.messages);
        if stored + request.drafts.len() as u64 <= max {
            return Ok(limits);
        }
        let limits = PostLimits { queue: QueueLimits { messages: Some(0) }, full: Some((Quota::Messages, max)) };
        if request.idempotency.is_some() { Ok(limits) } else { Err(limits.exceeded(Quota::Messages)) }
    }
}
