//! Deliveries: how far the notifications of a subscription have come.

use serde::{Deserialize, Serialize};

use super::{DeliveryOptions, Message, MessageId, Rank, Subscription};

/// Number of the last attempts that are kept for each subscription.
pub const ATTEMPTS_KEPT: usize = 20;

/// How far a subscription has come in the feed of its queue.
///
/// A message at or before `position` is done, unless it is in `in_flight` or has a retry. Only the
/// process that holds the delivery lease of the queue writes this.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Messages at or before this position were read, or cannot appear any more.
    pub position: Rank,
    /// The highest position so far. It differs from `position` after a request to go back.
    pub counted_to: Rank,
    /// Number of messages that were read since `feed_total` was noted.
    pub read: u64,
    /// Number of messages that had ever been visible in the feed when all of them had been read.
    pub feed_total: u64,
    /// Number of messages that were gone before their first attempt.
    pub missed: u64,
    /// Number of messages that were delivered.
    pub delivered: u64,
    /// Number of messages whose retries were used up.
    pub given_up: u64,
    /// Number of attempts.
    pub attempts: u64,
    /// The time since which every attempt has failed, in microseconds since 1970; 0 if the last one
    /// has succeeded.
    pub failing_since_us: u64,
    /// Number of the owner's last request that was carried out.
    pub last_request: u64,
    /// The time when the first retry is due, in microseconds since 1970; 0 if there is none.
    pub next_retry_us: u64,
    /// Number of messages that have a retry, and the size of their stored bodies in bytes.
    pub retries: u32,
    /// See `retries`.
    pub retry_bytes: u64,
    /// The time until which the subscriber has asked to send nothing, in microseconds since 1970; 0
    /// if it has not.
    pub hold_until_us: u64,
    /// The messages whose first attempt has begun and has no known outcome.
    pub in_flight: Vec<MessageId>,
}

impl Progress {
    /// Returns the number of messages that wait for their first attempt, are in flight or have a
    /// retry. `feed_total` is the number of messages that were ever visible in the feed.
    ///
    /// Messages before `counted_to` that are to be read again are not included. Those that were
    /// gone before they were read are included until all others have been read.
    #[must_use]
    pub fn pending(&self, feed_total: u64) -> u64 {
        let unread = feed_total.saturating_sub(self.feed_total).saturating_sub(self.read);
        unread + self.in_flight.len() as u64 + u64::from(self.retries)
    }

    /// Returns the time until which the subscriber has asked to send nothing, if it is after this
    /// one.
    #[must_use]
    pub fn held_until_us(&self, now_us: u64) -> Option<u64> {
        Some(self.hold_until_us).filter(|until_us| *until_us > now_us)
    }
}

/// A subscription, and how far its deliveries have come.
#[derive(Clone, Debug, PartialEq)]
pub struct SubscriptionStatus {
    /// The subscription.
    pub subscription: Subscription,
    /// Its progress.
    pub progress: Progress,
    /// Number of its messages that [`Progress::pending`] counts. It does not depend on whether the
    /// subscription is paused.
    pub pending: u64,
    /// The time until which the subscriber has asked to send nothing, in microseconds since 1970,
    /// if it is in the future.
    pub held_until_us: Option<u64>,
    /// Until when attempts of a process that has lost the delivery lease may still run, in
    /// microseconds since 1970; 0 if none can.
    pub lost_until_us: u64,
    /// Whether nothing is sent because the subscriber has not confirmed the subscription. Stores do
    /// not know whether it must, and return false.
    pub awaits_confirmation: bool,
}

impl SubscriptionStatus {
    /// Creates the status that a store knows, in a queue whose feed has this total. No lost process
    /// is known.
    #[must_use]
    pub fn new(subscription: Subscription, progress: Progress, feed_total: u64, now_us: u64) -> Self {
        Self {
            pending: progress.pending(feed_total),
            held_until_us: progress.held_until_us(now_us),
            subscription,
            progress,
            lost_until_us: 0,
            awaits_confirmation: false,
        }
    }

    /// Returns the time until which an ordered subscription waits for attempts of a lost process,
    /// in microseconds since 1970, if it waits.
    #[must_use]
    pub fn waits_until_us(&self) -> Option<u64> {
        let options = &self.subscription.settings.options;
        let until_us = Some(self.lost_until_us).filter(|until_us| *until_us > 0)?;
        DeliveryOptions::parse(options).is_ok_and(|options| options.ordered).then_some(until_us)
    }
}

/// A message that is to be delivered again, with the message itself, which may be gone from its
/// queue. The body stays sealed if the queue seals its bodies.
#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    /// Number of attempts so far.
    pub attempts: u32,
    /// When the next attempt is due, in microseconds since 1970.
    pub due_us: u64,
    /// The message.
    pub message: Message,
}

impl Retry {
    /// Returns the size of the message's body, in bytes.
    #[must_use]
    pub fn body_bytes(&self) -> u64 {
        self.message.body.as_msgpack().len() as u64
    }
}

/// An attempt to notify a subscriber of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Id of the message, as a number.
    pub message: u128,
    /// 1 for the first attempt of the message.
    pub number: u32,
    /// When it began, in seconds since 1970.
    pub at_s: u64,
    /// Status of the response, if there was one.
    pub status: Option<u16>,
    /// Time until its outcome, in milliseconds.
    pub duration_ms: u64,
    /// Why it has failed.
    pub error: Option<String>,
    /// The first bytes of the response as text.
    pub response: String,
}
