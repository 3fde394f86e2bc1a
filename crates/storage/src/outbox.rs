//! Forwards messages from the outbox of their queue: dead letters to their dead-letter queue, and
//! messages of a redrive to their new queue.
//!
//! The two queues may be in different stores, or in different slots of a cluster. So a message is
//! delivered first and then removed from the outbox. Any process may repeat either step at any
//! time: messages are numbered, and the receiving queue stores the last number that it received.
//!
//! Messages of a redrive return if their new queue was deleted. A delayed return must not follow a
//! delivery, nor a delayed delivery a return. So these messages go only to the queue with the epoch
//! that it had when they left, and return only when that queue is gone: see `MovedMessageStore`.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::time::timeout;
use tracing::warn;

use super::error::Error;
use super::moved_messages::{Arrival, Destinations, MovedBatch, OutgoingMessage};
use sukkal_domain::QueueId;

/// Maximum number of messages that are listed at a time.
pub(super) const LISTED_PER_STEP: usize = 20;
/// Maximum number of steps in one call.
const STEPS_MAX: usize = 100;
/// Maximum number of deliveries of a batch, each of which follows a deletion of its queue.
const ATTEMPTS_MAX: usize = 32;
/// Maximum time that a claim waits for its dead letters to be forwarded. Forwarding continues after
/// it.
const FORWARDING_WAIT_MAX: Duration = Duration::from_millis(250);

/// The outboxes of a store.
#[async_trait]
pub(super) trait Outboxes: Send + Sync {
    /// Returns the queues to which messages can move.
    fn destinations(&self) -> Result<Arc<dyn Destinations>, Error>;

    /// Returns the forwarders that run in this process.
    fn forwarders(&self) -> &Forwarders;

    /// Returns the oldest messages in the outbox of a queue: at most [`LISTED_PER_STEP`], and fewer
    /// if they are large.
    async fn list_outbox(&self, source: &QueueId) -> Result<Vec<OutgoingMessage>, Error>;

    /// Removes the messages that were listed, if they are still there. Returns how many others are
    /// left; a store may stop to count at one.
    async fn drop_delivered(&self, source: &QueueId, delivered: &[OutgoingMessage]) -> Result<u64, Error>;

    /// Returns the messages of a redrive to their old positions in the source, because the queue
    /// with the epoch of the batch is gone. If the source was deleted, drops them.
    async fn return_redriven(&self, batch: &MovedBatch) -> Result<(), Error>;
}

/// Forwards the messages of an outbox in order. Returns how many are left, as
/// [`Outboxes::drop_delivered`] does.
pub(super) async fn forward(outboxes: &impl Outboxes, source: &QueueId) -> Result<u64, Error> {
    let destinations = outboxes.destinations()?;
    let mut left = 0;
    for _ in 0..STEPS_MAX {
        let outgoing = outboxes.list_outbox(source).await?;
        if outgoing.is_empty() {
            return Ok(0);
        }
        for alike in outgoing.chunk_by(OutgoingMessage::goes_with) {
            let batch = MovedBatch::of_outgoing(source, alike)?;
            if deliver(&*destinations, &batch).await? == Arrival::NoQueue {
                outboxes.return_redriven(&batch).await?;
            }
        }
        left = outboxes.drop_delivered(source, &outgoing).await?;
        if left == 0 {
            break;
        }
    }
    Ok(left)
}

/// Delivers a batch. Creates its queue for dead letters, but not for messages of a redrive.
async fn deliver(destinations: &dyn Destinations, batch: &MovedBatch) -> Result<Arrival, Error> {
    for _ in 0..ATTEMPTS_MAX {
        match destinations.deliver(batch).await? {
            Arrival::NoQueue if batch.epoch.is_none() => destinations.create(&batch.target).await?,
            arrival => return Ok(arrival),
        }
    }
    Err(Error::Unavailable(format!(
        "cannot deliver dead letters to queue {}: it was deleted during each of {ATTEMPTS_MAX} attempts",
        batch.target
    )))
}

/// Forwards the messages of an outbox in a task, and waits a short time for it. A failure does not
/// fail the caller: the janitor tries again.
pub(super) async fn start_forwarding(outboxes: &(impl Outboxes + Clone + 'static), source: &QueueId) {
    let Some(forwarder) = outboxes.forwarders().start(source) else {
        return;
    };
    let outboxes = outboxes.clone();
    let forwarding = tokio::spawn(async move { forward(&outboxes, &forwarder.source).await });
    match timeout(FORWARDING_WAIT_MAX, forwarding).await {
        Ok(Ok(Ok(_left))) => {}
        Ok(Ok(Err(error))) => warn!(queue = %source, %error, "cannot forward dead letters"),
        Ok(Err(_)) | Err(_) => {
            warn!(queue = %source, "forwarding dead letters takes long and continues in the background");
        }
    }
}

/// The queues whose outboxes this process is forwarding. Each has its own task, because the
/// receiving queue may be unreachable for a long time.
#[derive(Clone, Default)]
pub(super) struct Forwarders(Arc<Mutex<HashSet<QueueId>>>);

/// Permission to forward from one queue, until it is dropped.
struct Forwarder {
    forwarders: Forwarders,
    source: QueueId,
}

impl Forwarders {
    /// Returns a forwarder, unless there is one for this queue already.
    fn start(&self, source: &QueueId) -> Option<Forwarder> {
        let is_first = self.0.lock().insert(source.clone());
        is_first.then(|| Forwarder { forwarders: self.clone(), source: source.clone() })
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.forwarders.0.lock().remove(&self.source);
    }
}
