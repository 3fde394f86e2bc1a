//! A feed that is followed: its messages as they come, from a position on, for as long as somebody reads.

use std::time::Duration;

use tokio::time::sleep;
use tracing::debug;

use super::looks::Place;
use super::messages::{MessageQuery, Start};
use super::shares::Share;
use super::{Broker, Error};
use crate::auth::Caller;
use crate::domain::client::Poster;
use crate::domain::{Message, QueueId, Rank};
use crate::storage::Watch;
use crate::storage::watch::Receiver;

/// How long a feed rests when the store is away.
const REST: Duration = Duration::from_millis(500);

/// A feed and how far it was read.
pub struct Feed {
    broker: Broker,
    place: Place,
    /// Where it begins; nothing once that is known as a position.
    start: Option<Start>,
    not_from: Option<Poster>,
    news: Option<News>,
    is_at_end: bool,
    /// Where the page began that was read last.
    previous: Option<Rank>,
    _share: Share,
}

struct News {
    /// Keeps the place among those who are told.
    _watch: Watch,
    told: Receiver,
}

impl Broker {
    /// Follows the feed from where the query wants it. Where that is now, it is when this returns; with a store that is
    /// away, when that is back.
    pub async fn follow(&self, caller: &Caller, queue: QueueId, query: &MessageQuery) -> Result<Feed, Error> {
        let limit = self.admit_page(query.limit)?;
        let start = query
            .start(&queue)?
            .ok_or_else(|| Error::Limit("the marker or Last-Event-ID is not a message id of this queue".to_owned()))?;
        let share = self.streams.take(queue.project())?;
        let position = match start {
            Start::Now => self.position_of(&queue, start).await.ok().flatten(),
            Start::Oldest | Start::Behind(_) => None,
        };
        let start = position.map_or(start, Start::Behind);
        Ok(Feed {
            broker: self.clone(),
            place: Place { queue, after: None, limit, scope: query.scope },
            start: Some(start),
            not_from: (!query.echo).then(|| caller.client.poster()),
            news: None,
            is_at_end: false,
            previous: None,
            _share: share,
        })
    }
}

impl Broker {
    async fn position_of(&self, queue: &QueueId, start: Start) -> Result<Option<Rank>, Error> {
        start.position(&self.admitted(queue).await?, queue).await
    }
}

impl Feed {
    /// The queue whose feed it is.
    #[must_use]
    pub fn queue(&self) -> &QueueId {
        &self.place.queue
    }

    /// Has the messages read again that [`Self::next`] has returned last.
    pub fn unread(&mut self) {
        self.place.after = self.previous;
        self.is_at_end = false;
    }

    /// The next messages, at least one; `None` when the service stops. Waits for them however long, also for a store
    /// that is away. If it is given up half-way, nothing is skipped.
    pub async fn next(&mut self) -> Result<Option<Vec<Message>>, Error> {
        loop {
            if self.broker.closing.is_cancelled() {
                return Ok(None);
            }
            match self.try_next().await {
                Err(Error::Store(reason)) if reason.is_passing() => {
                    debug!(%reason, queue = %self.place.queue, "a followed feed waits for the store");
                    tokio::select! {
                        () = sleep(REST) => {}
                        () = self.broker.closing.cancelled() => {}
                    }
                }
                outcome => return outcome,
            }
        }
    }

    async fn try_next(&mut self) -> Result<Option<Vec<Message>>, Error> {
        if let Some(start) = self.start {
            self.place.after = self.broker.position_of(&self.place.queue, start).await?;
            self.start = None;
        }
        let news = match &mut self.news {
            Some(news) => news,
            none => {
                let watch = self.broker.store.watch(&self.place.queue).await?;
                let told = watch.reader(self.place.scope.delayed);
                none.insert(News { _watch: watch, told })
            }
        };
        loop {
            if self.is_at_end {
                tokio::select! {
                    () = news.told.changed() => {}
                    () = self.broker.closing.cancelled() => return Ok(None),
                }
            }
            self.is_at_end = false;
            self.previous = self.place.after;
            // A stream goes on behind what it has read, so older positions are none of its.
            let _older = news.told.catch_up();
            let page = self.broker.look_together(self.place.clone()).await?;
            let of_others = |message: &&Message| self.not_from.is_none_or(|poster| message.poster != poster);
            let messages: Vec<Message> = page.messages.iter().filter(of_others).cloned().collect();
            let wanted = messages.len();
            let messages = self.broker.sealing.open_some(&self.place.queue, messages)?;
            if messages.len() < wanted {
                // One that cannot be opened is the next one.
                self.place.after = messages.last().map(|message| message.id.rank());
                return Ok(Some(messages));
            }
            self.place.after = page.messages.last().map(|message| message.id.rank()).or(self.place.after);
            self.is_at_end = page.is_last || page.messages.is_empty();
            if !messages.is_empty() {
                return Ok(Some(messages));
            }
        }
    }
}
