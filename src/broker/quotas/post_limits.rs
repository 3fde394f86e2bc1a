//! What a post may store: the limits of its queue, which the store applies in the same step as the
//! post, and those of its project, which the broker compares with the last measurement.

use super::checks::is_limited;
use crate::auth::Caller;
use crate::broker::{Broker, Error};
use sukkal_domain::{Body, NewMessage, ProjectId, QueueLimits, Quota, TraceContext};
use sukkal_storage::stored_bytes;

/// The limits of one post.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::broker) struct PostLimits {
    /// The limits of the queue. If the project is full, nothing fits.
    pub(in crate::broker) queue: QueueLimits,
    /// The quota of the project that the post would exceed, with its limit.
    full: Option<(Quota, u64)>,
}

impl PostLimits {
    /// Checks whether a queue that is about to be created may get these messages.
    pub(in crate::broker) fn check_new_queue(
        &self,
        messages: &[NewMessage],
        trace: Option<TraceContext>,
    ) -> Result<(), Error> {
        let bytes = stored_bytes(messages.iter().map(|message| &message.body), trace);
        if self.queue.messages.is_some_and(|max| messages.len() as u64 > max) {
            Err(self.exceeded(Quota::MessagesPerQueue))
        } else if self.queue.bytes.is_some_and(|max| bytes > max) {
            Err(self.exceeded(Quota::BytesPerQueue))
        } else {
            Ok(())
        }
    }

    /// Returns the error of a post that the store has refused because of this quota.
    pub(in crate::broker) fn exceeded(&self, quota: Quota) -> Error {
        let of_queue = if quota == Quota::BytesPerQueue { self.queue.bytes } else { self.queue.messages };
        let (quota, max) = self.full.unwrap_or((quota, of_queue.unwrap_or_default()));
        Error::QuotaExceeded { quota, max, advice: "delete messages" }
    }
}

impl Broker {
    /// Returns the limits of a post of these bodies. What the service itself posts is not limited.
    ///
    /// # Errors
    ///
    /// [`Error::QuotaExceeded`] if the project is full. If the post may be a repetition, the store
    /// decides, because a repetition stores nothing.
    pub(in crate::broker) async fn post_limits(
        &self,
        caller: &Caller,
        project: &ProjectId,
        bodies: impl ExactSizeIterator<Item = &Body>,
        trace: Option<TraceContext>,
        may_be_repetition: bool,
    ) -> Result<PostLimits, Error> {
        if !is_limited(caller) {
            return Ok(PostLimits::default());
        }
        let limit = |quota| self.quotas.limit(project, quota);
        let queue = QueueLimits { messages: limit(Quota::MessagesPerQueue), bytes: limit(Quota::BytesPerQueue) };
        let full = match (limit(Quota::Messages), limit(Quota::Bytes)) {
            (None, None) => None,
            maxima => self.full_quota(project, (bodies, trace), maxima).await,
        };
        match full {
            None => Ok(PostLimits { queue, full: None }),
            Some((quota, _)) => {
                let limits = PostLimits { queue: QueueLimits { messages: Some(0), bytes: None }, full };
                if may_be_repetition { Ok(limits) } else { Err(limits.exceeded(quota)) }
            }
        }
    }

    /// Returns the quota that the messages of the project and those of a post exceed, with its
    /// limit.
    async fn full_quota(
        &self,
        project: &ProjectId,
        (bodies, trace): (impl ExactSizeIterator<Item = &Body>, Option<TraceContext>),
        (messages_max, bytes_max): (Option<u64>, Option<u64>),
    ) -> Option<(Quota, u64)> {
        let usage = self.recent_usage(project).await.unwrap_or_default();
        let messages = usage.messages + bodies.len() as u64;
        let bytes = usage.bytes + stored_bytes(bodies, trace);
        let exceeded = |quota, used, max: Option<u64>| max.filter(|max| used > *max).map(|max| (quota, max));
        exceeded(Quota::Messages, messages, messages_max).or_else(|| exceeded(Quota::Bytes, bytes, bytes_max))
    }
}
