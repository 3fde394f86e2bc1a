//! A feed that is followed: its messages as they come, from a position on, for as long as somebody reads.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use tracing::debug;

use super::looks::Place;
use super::messages::{MessageQuery, Start};
use super::{Broker, Error};
use crate::auth::Caller;
use crate::domain::client::Poster;
use crate::domain::{Message, MessageId, QueueId};
use crate::storage::{self, Page, Watch};

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
}

struct News {
    watch: Watch,
    told: watch::Receiver<u64>,
}

impl Broker {
    /// Follows the feed from where the query wants it. Asks the store for nothing yet.
    pub fn follow(&self, caller: &Caller, queue: QueueId, query: &MessageQuery) -> Result<Feed, Error> {
        let limit = self.admit_page(query.limit)?;
        let start = query.start(&queue)?.ok_or_else(|| {
            Error::Limit("the position to start from is the id of no message of this queue".to_owned())
        })?;
        Ok(Feed {
            broker: self.clone(),
            place: Place { queue, after: None, limit, scope: query.scope },
            start: Some(start),
            not_from: (!query.echo).then(|| caller.client.poster()),
            news: None,
            is_at_end: false,
        })
    }
}

impl Feed {
    /// The queue whose feed it is.
    #[must_use]
    pub fn queue(&self) -> &QueueId {
        &self.place.queue
    }

    /// The next messages, at least one; `None` when the service stops. Waits for them however long, also for a store
    /// that is away. If it is given up half-way, nothing is skipped.
    pub async fn next(&mut self) -> Result<Option<Vec<Message>>, Error> {
        loop {
            if self.broker.closing.is_cancelled() {
                return Ok(None);
            }
            match self.try_next().await {
                Err(Error::Store(storage::Error::Unavailable(reason))) => {
                    debug!(reason, queue = %self.place.queue, "a followed feed waits for the store");
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
            self.place.after = self.broker.position(&self.place.queue, start).await?;
            self.start = None;
        }
        let news = match &mut self.news {
            Some(news) => news,
            none => {
                let watch = self.broker.store.watch(&self.place.queue).await?;
                let told = watch.reader(self.place.scope.delayed);
                none.insert(News { watch, told })
            }
        };
        loop {
            if self.is_at_end {
                tokio::select! {
                    _changed = news.told.changed() => {}
                    () = self.broker.closing.cancelled() => return Ok(None),
                }
            }
            self.is_at_end = false;
            news.told.mark_unchanged();
            let page = self.broker.look_together(self.place.clone()).await?;
            let Some(last) = page.messages.last().map(|message| message.id) else {
                self.is_at_end = true;
                news.watch.looked();
                continue;
            };
            let of_others = |message: &&Message| self.not_from.is_none_or(|poster| message.poster != poster);
            let messages: Vec<Message> = page.messages.iter().filter(of_others).cloned().collect();
            if messages.is_empty() {
                self.place.after = Some(last.rank());
                continue;
            }
            let wanted = messages.len();
            let shown =
                self.broker.sealing.open_page(&self.place.queue, Page { messages, delays: page.delays })?.messages;
            // A message that cannot be opened ends what is shown, and is the next one.
            let is_whole = shown.len() == wanted;
            let reached = if is_whole { Some(last) } else { shown.last().map(|message| message.id) };
            self.place.after = reached.map(MessageId::rank);
            return Ok(Some(shown));
        }
    }
}
