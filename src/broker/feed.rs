//! Following a feed: returns its messages from a position on as they arrive.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::debug;

use super::access::Access;
use super::messages::{MessageQuery, Start};
use super::quotas::ConcurrencyUnit;
use super::range::page_limit;
use super::waiting::SharedQuery;
use super::{Action, Broker, Error};
use crate::auth::Caller;
use sukkal_domain::client::Poster;
use sukkal_domain::{Message, QueueId, Rank};
use sukkal_storage::Watch;
use sukkal_storage::watch::Receiver;

/// The pause between two attempts to read while the store is unavailable.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// A feed that is followed, with the reader's position in it.
pub struct Feed {
    broker: Broker,
    access: Access,
    /// The next query. Its position is that of the last message returned.
    query: SharedQuery,
    /// Where the feed begins; `None` once that is known as a position.
    start: Option<Start>,
    /// The poster whose messages are left out.
    not_from: Option<Poster>,
    subscription: Option<Subscription>,
    /// Whether the feed ends when its queue is deleted. Otherwise it goes on when the queue is
    /// created again.
    ends_with_queue: bool,
    is_at_end: bool,
    /// The position at which the last page began.
    previous: Option<Rank>,
    _unit: ConcurrencyUnit,
}

struct Subscription {
    /// Keeps the subscription alive.
    _watch: Watch,
    notifications: Receiver,
}

impl Broker {
    /// Follows the feed from the position that the query names. If that is the current time, it is
    /// the time when this function returns or, if the store is unavailable, the time when it is
    /// back.
    pub async fn follow(&self, caller: &Caller, queue: QueueId, query: &MessageQuery) -> Result<Feed, Error> {
        let access = self.store.authorize(caller, Action::FollowMessages, &queue)?;
        let limit = page_limit(query.limit, self.limits.max_messages_per_page)?;
        query.check_following()?;
        let start = query
            .start(&queue)?
            .ok_or_else(|| Error::Limit("the marker or Last-Event-ID is not a message id of this queue".to_owned()))?;
        let unit = self.streams.acquire(queue.project())?;
        let position = match start {
            Start::Now => position_of(access.clone(), queue.clone(), start).await.ok().flatten(),
            Start::Oldest | Start::After(_) => None,
        };
        let start = position.map_or(start, Start::After);
        Ok(Feed {
            broker: self.clone(),
            access: access.untraced(),
            query: SharedQuery { queue, after: None, limit, scope: query.scope },
            start: Some(start),
            not_from: caller.as_client().filter(|_| !query.echo).map(|client| client.id.poster()),
            subscription: None,
            ends_with_queue: false,
            is_at_end: false,
            previous: None,
            _unit: unit,
        })
    }
}

async fn position_of(access: Access, queue: QueueId, start: Start) -> Result<Option<Rank>, Error> {
    start.position(&access.admit().await?, &queue).await
}

/// Fails if the queue does not exist.
async fn check_exists(access: Access, queue: QueueId) -> Result<(), Error> {
    let found = access.admit().await?.get_queue(&queue).await?;
    found.map(drop).ok_or(Error::NoQueue(queue))
}

impl Feed {
    /// Returns the queue whose feed this is.
    #[must_use]
    pub fn queue(&self) -> &QueueId {
        &self.query.queue
    }

    /// Makes [`Self::next`] fail with [`Error::NoQueue`] when the queue is deleted.
    pub(super) fn end_with_queue(&mut self) {
        self.ends_with_queue = true;
    }

    /// Returns when the caller's credential expires, after which the caller may not read on; `None`
    /// if it does not expire.
    #[must_use]
    pub fn expiry(&self) -> Option<Instant> {
        self.access.expiry()
    }

    /// Makes the next call of [`Self::next`] return the messages of the last call again.
    pub fn unread(&mut self) {
        self.query.after = self.previous;
        self.is_at_end = false;
    }

    /// Returns the next messages, at least one, or `None` when the service stops. Waits for them
    /// without a time limit, also while the store is unavailable. If the caller drops the future,
    /// no message is skipped.
    pub async fn next(&mut self) -> Result<Option<Vec<Message>>, Error> {
        loop {
            if self.broker.waiting.closing.is_cancelled() {
                return Ok(None);
            }
            match self.try_next().await {
                Err(Error::Store(reason)) if reason.is_transient() => {
                    debug!(%reason, queue = %self.query.queue, "a followed feed waits for the store");
                    self.broker.waiting.closing.run_until_cancelled(sleep(RETRY_PAUSE)).await;
                }
                outcome => return outcome,
            }
        }
    }

    /// Returns the next messages once the store can be used. Each operation has a task of its own:
    /// otherwise, it would remain admitted while nobody waits for this future, and keep others from
    /// being admitted.
    async fn try_next(&mut self) -> Result<Option<Vec<Message>>, Error> {
        if let Some(start) = self.start {
            let position = position_of(self.access.clone(), self.query.queue.clone(), start);
            self.query.after = self.broker.run_to_completion(position).await?;
            self.start = None;
        }
        let subscription = match &mut self.subscription {
            Some(subscription) => subscription,
            none => {
                let watch = self.access.watch(&self.query.queue).await?;
                let notifications = watch.reader(self.query.scope.delayed);
                none.insert(Subscription { _watch: watch, notifications })
            }
        };
        loop {
            let closing = &self.broker.waiting.closing;
            if self.is_at_end && closing.run_until_cancelled(subscription.notifications.changed()).await.is_none() {
                return Ok(None);
            }
            self.is_at_end = false;
            self.previous = self.query.after;
            // A stream continues after the messages that it has returned, so it ignores older
            // positions.
            let _older = subscription.notifications.catch_up();
            let page = self.broker.shared_reads.read(&self.access, self.query.clone()).await?;
            let of_others = |message: &&Message| self.not_from.is_none_or(|poster| message.poster != poster);
            let messages: Vec<Message> = page.messages.iter().filter(of_others).cloned().collect();
            let count = messages.len();
            let messages = self.broker.encryption.decrypt_prefix(&self.query.queue, messages)?;
            if messages.len() < count {
                // The next message cannot be decrypted, so the next call returns its error.
                self.query.after = messages.last().map(|message| message.id.rank());
                return Ok(Some(messages));
            }
            self.query.after = page.messages.last().map(|message| message.id.rank()).or(self.query.after);
            self.is_at_end = page.is_last || page.messages.is_empty();
            if !messages.is_empty() {
                return Ok(Some(messages));
            }
            if self.ends_with_queue && self.is_at_end {
                let check = check_exists(self.access.clone(), self.query.queue.clone());
                self.broker.run_to_completion(check).await?;
            }
        }
    }
}
