//! The subscriptions of a connection. Each follows the feed of its queue from its own position, and
//! reads the next page when the connection has written the last one.

use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde_json::json;

use crate::api::stream::next_within_budget;
use crate::broker::feed::Feed;
use crate::broker::subscriptions::{ConnectedSubscription, EndReason};
use crate::wire::Error;
use crate::wire::frame::Kind;
use crate::wire::notification;
use sukkal_base::memory_budget::{MemoryBudget, MemoryShare};
use sukkal_domain::Message;

/// Maximum size in bytes of the notifications that are held for a client without a share of the
/// memory budget.
const FREE_BYTES: usize = 64 << 10;

/// Why a subscription ends whose ttl is over.
const EXPIRED: &str =
    "The ttl of the subscription is over. Create it again, with \"since\" if no message may be missed.";

/// Why a subscription ends whose queue has lost all subscriptions.
const PURGED: &str =
    "All subscriptions of the queue were purged. Create the subscription again to receive its messages.";

/// The subscriptions of a connection.
pub(super) struct Notifications {
    waiting: FuturesUnordered<Pin<Box<dyn Future<Output = Option<Part>> + Send>>>,
    budget: MemoryBudget,
    are_binary: Arc<AtomicBool>,
}

/// Notifications of one subscription.
pub(super) struct Part {
    /// Their documents.
    pub(super) documents: Vec<Vec<u8>>,
    /// The subscription; `None` if it has ended.
    pub(super) subscribed: Option<(ConnectedSubscription, MemoryShare)>,
}

impl Notifications {
    /// Creates an empty set. `are_binary` says how the next notifications are written.
    pub(super) fn new(budget: MemoryBudget, are_binary: Arc<AtomicBool>) -> Self {
        Self { waiting: FuturesUnordered::new(), budget, are_binary }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Ends all subscriptions.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    pub(super) fn add(&mut self, subscribed: ConnectedSubscription) {
        let share = self.budget.share(subscribed.feed.queue().project());
        self.resume(Some((subscribed, share)));
    }

    /// Continues a subscription whose last notifications have been written.
    pub(super) fn resume(&mut self, subscribed: Option<(ConnectedSubscription, MemoryShare)>) {
        if let Some((subscribed, share)) = subscribed {
            self.waiting.push(Box::pin(next_part(subscribed, share, self.are_binary.clone())));
        }
    }

    /// Waits for the next notifications. A call that is not awaited to its end loses none.
    pub(super) async fn next(&mut self) -> Part {
        loop {
            match self.waiting.next().await {
                Some(Some(part)) => return part,
                Some(None) => {}
                None => pending().await,
            }
        }
    }
}

/// Returns the next notifications of a subscription; `None` if it has ended.
async fn next_part(
    mut subscribed: ConnectedSubscription,
    share: MemoryShare,
    are_binary: Arc<AtomicBool>,
) -> Option<Part> {
    share.release();
    let ConnectedSubscription { feed, options, end } = &mut subscribed;
    let (queue, id) = (feed.queue().name().clone(), end.id());
    let kind = || if are_binary.load(Ordering::Relaxed) { Kind::Binary } else { Kind::Text };
    let convert = |feed: &Feed, messages: &[Message]| {
        let wanted = messages.iter().filter(|message| notification::is_wanted(options, message));
        let document = |message| kind().write(&notification::document(feed.queue().name(), id, message, options));
        let documents: Vec<Vec<u8>> = wanted.map(document).collect::<Result<_, Error>>()?;
        let bytes = documents.iter().map(Vec::len).sum();
        Ok((documents, bytes))
    };
    let failure = |error: &str, description: &str| {
        let document = json!({
            "Message_Type": "SubscriptionFailure",
            "queue_name": queue.plain(),
            "subscription_id": id.to_string(),
            "error": error,
            "exception": description,
        });
        Part { documents: kind().write(&document).into_iter().collect(), subscribed: None }
    };
    let next = tokio::select! {
        biased;
        // Whoever deletes a subscription knows that it has ended.
        reason = end.reached() => return match reason {
            EndReason::Expired => Some(failure("Subscription expired", EXPIRED)),
            EndReason::Purged => Some(failure("Subscription purged", PURGED)),
            EndReason::Deleted => None,
        },
        next = next_within_budget(feed, &share, FREE_BYTES, convert) => next,
    };
    match next {
        // The service stops, and the connection closes.
        Ok(None) => pending().await,
        Ok(Some(documents)) => Some(Part { documents, subscribed: Some((subscribed, share)) }),
        Err(error) => {
            let (title, description) = error.title_and_description();
            Some(failure(title, &description))
        }
    }
}
