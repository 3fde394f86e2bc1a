//! Reading messages: pages of the feed, and messages by their ids.

use std::collections::HashMap;

use tokio::time::Instant;

use crate::auth::Caller;
use crate::broker::access::{Access, AdmittedStore};
use crate::broker::range::{check_ids, page_limit};
use crate::broker::{Action, Broker, Error};
use sukkal_domain::{Message, MessageId, Order, QueueId, Rank, Scope, Warning};
use sukkal_storage::{Listing, Page};

/// A query for messages of a feed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageQuery {
    /// Only messages that follow the one with this id in the order of the query. That message need
    /// not exist any more.
    pub marker: Option<String>,
    /// Only messages that are posted from this time on.
    pub since: Option<Since>,
    /// Number of seconds to wait for a message if there is none.
    pub wait_s: Option<i64>,
    /// Whether the query returns at once, even if it asks to wait.
    pub is_immediate: bool,
    /// Maximum number of messages; `None` for the service's default.
    pub limit: Option<i64>,
    /// Whether the caller's own messages are listed too.
    pub echo: bool,
    /// Which messages are listed besides the available ones.
    pub scope: Scope,
    /// The order of the messages.
    pub order: Order,
    /// Whether the messages have their states.
    pub with_states: bool,
}

/// A time at which reading starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// The time of the query, by the store's clock.
    Now,
    /// The first position that is not before this time, in microseconds since 1970.
    Time(u64),
}

/// The position at which reading starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::broker) enum Start {
    Oldest,
    After(Rank),
    Now,
}

/// A page of a feed with its position.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listed {
    /// The page.
    pub page: Page,
    /// The position of the page's end; `None` if that is before the oldest message.
    pub position: Option<Rank>,
    /// The warnings about the query; usually empty.
    pub warnings: Vec<Warning>,
}

impl Start {
    /// Returns the position after which reading starts; `None` to start at the oldest message.
    pub(in crate::broker) async fn position(
        self,
        store: &AdmittedStore,
        queue: &QueueId,
    ) -> Result<Option<Rank>, Error> {
        Ok(match self {
            Self::Oldest => None,
            Self::After(rank) => Some(rank),
            Self::Now => Some(store.queue_status(queue).await?.position()),
        })
    }
}

impl MessageQuery {
    /// Returns where reading starts; `None` if the marker cannot be a message id of this queue.
    pub(in crate::broker) fn start(&self, queue: &QueueId) -> Result<Option<Start>, Error> {
        match (&self.marker, self.since) {
            (Some(_), Some(_)) => {
                Err(Error::Limit("\"marker\" and \"since\" cannot be combined; give one of them".to_owned()))
            }
            (Some(marker), None) => Ok(MessageId::parse(marker, queue).map(|id| Start::After(id.rank()))),
            (None, Some(Since::Now)) => Ok(Some(Start::Now)),
            (None, Some(Since::Time(0)) | None) => Ok(Some(Start::Oldest)),
            (None, Some(Since::Time(time_us))) => Ok(Some(Start::After(Rank::new(time_us - 1).unwrap_or(Rank::MAX)))),
        }
    }
}

impl MessageQuery {
    /// Checks that a list with the newest messages first does not depend on later messages.
    fn check_order(&self, is_waiting: bool) -> Result<(), Error> {
        let other = match self.order {
            Order::NewestFirst if is_waiting => "wait",
            Order::NewestFirst if self.since.is_some() => "since",
            Order::OldestFirst | Order::NewestFirst => return Ok(()),
        };
        Err(Error::Limit(format!("\"order=desc\" and \"{other}\" cannot be combined; give one of them")))
    }

    /// Checks that the query can be that of a reader who follows the feed.
    pub(in crate::broker) fn check_following(&self) -> Result<(), Error> {
        let (refused, reason) = if self.order == Order::NewestFirst {
            ("order=desc", "which has the messages in the order in which they arrive")
        } else if self.with_states {
            ("include_state", "because states change after their messages were sent")
        } else {
            return Ok(());
        };
        Err(Error::Limit(format!("\"{refused}\" is not possible in an event stream, {reason}")))
    }
}

impl Broker {
    /// Returns a page of the feed. It is empty only if the query matches no message, and none that
    /// matches arrives while the caller waits.
    pub async fn list_messages(&self, caller: &Caller, queue: &QueueId, query: &MessageQuery) -> Result<Listed, Error> {
        let access = self.store.authorize(caller, Action::ListMessages, queue)?;
        let limit = page_limit(query.limit, self.limits.max_messages_per_page)?;
        let wait = self.waiting.check_duration(query.wait_s)?;
        query.check_order(!wait.is_zero())?;
        // No message is after a marker that cannot be an id of this queue.
        let Some(start) = query.start(queue)? else {
            let warnings = vec![Warning::InvalidMarker(queue.name().kind())];
            return Ok(Listed { warnings, ..Listed::default() });
        };
        let store = access.admit().await?;
        let after = start.position(&store, queue).await?;
        let own = caller.as_client().map(|client| client.id.clone());
        let &MessageQuery { order, scope, with_states, .. } = query;
        let listing = Listing { after, order, limit, not_from: own.filter(|_| !query.echo), scope, with_states };
        let page = if wait.is_zero() || query.is_immediate {
            let page = store.list_messages(queue, &listing).await?;
            drop(store);
            page
        } else {
            drop(store);
            self.waiting.read_until(&access, queue, &listing, Instant::now() + wait).await?
        };
        let page = self.encryption.decrypt_page(queue, page)?;
        let position = page.messages.last().map(|message| message.id.rank()).or(after);
        Ok(Listed { page, position, warnings: Vec::new() })
    }

    /// Returns the message with this id, with its state if that is asked for.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] if it does not exist.
    pub async fn get_message(
        &self,
        caller: &Caller,
        queue: &QueueId,
        id: &str,
        with_state: bool,
    ) -> Result<Message, Error> {
        let access = self.store.authorize(caller, Action::GetMessage, queue)?;
        let ids: Vec<MessageId> = MessageId::parse(id, queue).into_iter().collect();
        let found = self.find_messages(&access, queue, &ids, with_state).await?;
        found.into_iter().next().ok_or_else(|| no_message(queue, &[id.to_owned()]))
    }

    /// Returns the messages with these ids, in their order and as often as they are named, with
    /// their states if these are asked for. Ids of messages that do not exist are skipped.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] if none of the messages exists.
    pub async fn get_messages(
        &self,
        caller: &Caller,
        queue: &QueueId,
        ids: &[String],
        with_states: bool,
    ) -> Result<Vec<Message>, Error> {
        let access = self.store.authorize(caller, Action::GetMessages, queue)?;
        let wanted = self.parse_ids(queue, ids)?;
        let mut unique = wanted.clone();
        unique.sort_unstable();
        unique.dedup();
        let found = self.find_messages(&access, queue, &unique, with_states).await?;
        let found: HashMap<MessageId, Message> = found.into_iter().map(|message| (message.id, message)).collect();
        if found.is_empty() {
            return Err(no_message(queue, ids));
        }
        Ok(wanted.iter().filter_map(|id| found.get(id).cloned()).collect())
    }

    async fn find_messages(
        &self,
        access: &Access,
        queue: &QueueId,
        ids: &[MessageId],
        with_states: bool,
    ) -> Result<Vec<Message>, Error> {
        let store = access.admit().await?;
        if ids.is_empty() {
            store.ping().await?;
            return Ok(Vec::new());
        }
        let found = store.get_messages(queue, ids, with_states).await?;
        drop(store);
        self.encryption.decrypt_all(queue, found)
    }

    /// Returns those of the ids that can be ids of this queue. The others cannot name a message.
    pub(in crate::broker) fn parse_ids(&self, queue: &QueueId, ids: &[String]) -> Result<Vec<MessageId>, Error> {
        check_ids(ids, self.limits.max_messages_per_page)?;
        Ok(ids.iter().filter_map(|id| MessageId::parse(id, queue)).collect())
    }
}

fn no_message(queue: &QueueId, ids: &[String]) -> Error {
    let (noun, name, project) = (queue.name().kind().noun(), queue.name(), queue.project());
    Error::NotFound(format!(
        "No messages with IDs: ['{}'] found in the {noun} {name} for project {project}.",
        ids.join("', '")
    ))
}
