//! What a case works on: one driver, a project that nobody else uses, and the clocks of its queues.
//!
//! The helpers say the usual thing shortly, and fail the case when the store fails. They know the
//! traits only.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use sukkal::domain::{
    Body, ClientId, ClientIdRule, Message, MessageId, Metadata, NewMessage, ProjectId, Queue, QueueId, QueueName, Rank,
    Revision,
};
use sukkal::storage::{Creation, Driver, Error, Listing, Popped, Post, Posting, QueueListing, Scope, Stats};
use uuid::Uuid;

/// The life of messages whose end does not matter.
pub(super) const LONG_S: u32 = 86_400;
const PAGE: usize = 100;
const OK: &str = "the store answers";

/// A driver and what a test needs beside its traits.
#[async_trait]
pub(super) trait Stage: Send + Sync {
    fn store(&self) -> &dyn Driver;

    /// Sets how far the store's clock, as the queue sees it, is ahead of the real one.
    async fn set_clock(&self, queue: &QueueId, offset_us: i64);

    /// Whether other tests use the store too.
    fn is_shared(&self) -> bool;
}

/// A driver under test. Clones are the same subject.
#[derive(Clone)]
pub(super) struct Subject {
    stage: Arc<dyn Stage>,
    project: ProjectId,
    clocks_us: Arc<Mutex<HashMap<QueueId, i64>>>,
}

impl Subject {
    pub(super) fn new(stage: impl Stage + 'static) -> Self {
        Self { stage: Arc::new(stage), project: fresh_project(), clocks_us: Arc::default() }
    }

    pub(super) fn store(&self) -> &dyn Driver {
        self.stage.store()
    }

    /// The project of this case alone.
    pub(super) fn project(&self) -> &ProjectId {
        &self.project
    }

    /// The id of a queue in the case's project.
    pub(super) fn id(&self, name: &str) -> QueueId {
        queue_id(&self.project, name)
    }

    /// A new queue without metadata.
    pub(super) async fn queue(&self, name: &str) -> QueueId {
        let queue = self.id(name);
        self.create(&queue).await;
        queue
    }

    /// Creates a queue that must not exist.
    pub(super) async fn create(&self, queue: &QueueId) {
        let creation = self.store().create_queue(queue, &Metadata::default()).await;
        assert_eq!(creation, Ok(Creation::Created), "{queue}");
    }

    pub(super) async fn get(&self, queue: &QueueId) -> Option<Queue> {
        self.store().get_queue(queue).await.expect(OK)
    }

    pub(super) async fn revision(&self, queue: &QueueId) -> Revision {
        self.get(queue).await.expect("the queue exists").revision
    }

    pub(super) async fn delete(&self, queue: &QueueId) {
        self.store().delete_queue(queue).await.expect(OK);
    }

    /// The queues that one call lists of a project that has not so many.
    pub(super) async fn queues(&self, examined_max: usize) -> Vec<(QueueName, Queue)> {
        let listing = QueueListing { after: None, name_part: None, examined_max };
        let page = self.store().list_queues(&self.project, &listing).await.expect(OK);
        assert_eq!(page.reached, None, "there are more than {examined_max} queues");
        page.queues
    }

    /// The first names that follow, from as many calls as it takes.
    pub(super) async fn names(&self, project: &ProjectId, after: Option<&str>, limit: usize) -> Vec<String> {
        let (mut names, mut after) = (Vec::new(), after.map(str::to_owned));
        while names.len() < limit {
            let examined_max = limit - names.len();
            let listing = QueueListing { after: after.as_deref(), name_part: None, examined_max };
            let page = self.store().list_queues(project, &listing).await.expect(OK);
            names.extend(page.queues.into_iter().map(|(name, _)| name.to_string()));
            match page.reached {
                Some(reached) => after = Some(reached),
                None => break,
            }
        }
        names
    }

    /// Moves the clock of a queue forward.
    pub(super) async fn advance(&self, queue: &QueueId, by: Duration) {
        self.move_clock(queue, micros(by)).await;
    }

    /// Moves the clock of a queue back, as a clock that is corrected does.
    pub(super) async fn rewind(&self, queue: &QueueId, by: Duration) {
        self.move_clock(queue, -micros(by)).await;
    }

    /// Sets how far the clock of a queue is ahead of the real one.
    pub(super) async fn turn_clock(&self, queue: &QueueId, ahead: Duration) {
        let before_us = self.clocks_us.lock().unwrap_or_else(PoisonError::into_inner).get(queue).copied().unwrap_or(0);
        self.move_clock(queue, micros(ahead) - before_us).await;
    }

    async fn move_clock(&self, queue: &QueueId, by_us: i64) {
        let offset_us = {
            let mut clocks = self.clocks_us.lock().unwrap_or_else(PoisonError::into_inner);
            let offset_us = clocks.entry(queue.clone()).or_default();
            *offset_us += by_us;
            *offset_us
        };
        self.stage.set_clock(queue, offset_us).await;
    }

    /// Posts in one request, to the queue as it is.
    pub(super) async fn post(&self, queue: &QueueId, messages: &[NewMessage]) -> Vec<MessageId> {
        self.post_as(&client(0), queue, messages).await
    }

    pub(super) async fn post_as(&self, client: &ClientId, queue: &QueueId, messages: &[NewMessage]) -> Vec<MessageId> {
        let seen = self.revision(queue).await;
        match self.try_post(queue, seen, client, messages).await {
            Ok(Posting::Posted(ids)) => ids,
            other => panic!("not posted to {queue}: {other:?}"),
        }
    }

    /// Posts to the queue as it was at that revision.
    pub(super) async fn try_post(
        &self,
        queue: &QueueId,
        seen: Revision,
        client: &ClientId,
        messages: &[NewMessage],
    ) -> Result<Posting, Error> {
        self.store().post_messages(queue, &Post { seen, client, messages, once: None }).await
    }

    /// Up to `limit` messages behind the marker.
    pub(super) async fn list(&self, queue: &QueueId, after: Option<MessageId>, limit: usize) -> Vec<Message> {
        self.list_for(queue, after, limit, None).await
    }

    pub(super) async fn list_for(
        &self,
        queue: &QueueId,
        after: Option<MessageId>,
        limit: usize,
        not_from: Option<ClientId>,
    ) -> Vec<Message> {
        let listing = Listing { after: after.map(MessageId::rank), limit, not_from, scope: Scope::default() };
        let page = self.store().list_messages(queue, &listing).await.expect(OK).messages;
        assert!(page.len() <= limit, "{} messages on a page of {limit}", page.len());
        page
    }

    /// The ids of the feed behind the marker, read page by page to its end.
    pub(super) async fn feed_after(&self, queue: &QueueId, after: Option<MessageId>) -> Vec<MessageId> {
        self.pages(queue, after, PAGE, None).await
    }

    /// The ids of the whole feed.
    pub(super) async fn feed(&self, queue: &QueueId) -> Vec<MessageId> {
        self.feed_after(queue, None).await
    }

    pub(super) async fn pages(
        &self,
        queue: &QueueId,
        mut after: Option<MessageId>,
        limit: usize,
        not_from: Option<ClientId>,
    ) -> Vec<MessageId> {
        let mut feed = Vec::new();
        loop {
            let page = self.list_for(queue, after, limit, not_from.clone()).await;
            let Some(last) = page.last() else {
                return feed;
            };
            after = Some(last.id);
            feed.extend(ids_of(&page));
        }
    }

    pub(super) async fn get_messages(&self, queue: &QueueId, ids: &[MessageId]) -> Vec<Message> {
        self.store().get_messages(queue, ids).await.expect(OK)
    }

    /// Those of the ids that are found.
    pub(super) async fn found(&self, queue: &QueueId, ids: &[MessageId]) -> Vec<MessageId> {
        ids_of(&self.get_messages(queue, ids).await)
    }

    pub(super) async fn delete_messages(&self, queue: &QueueId, ids: &[MessageId]) {
        self.store().delete_messages(queue, ids).await.expect(OK);
    }

    pub(super) async fn count(&self, queue: &QueueId) -> usize {
        usize::try_from(self.stats(queue).await.total).expect("a count fits")
    }

    pub(super) async fn pop(&self, queue: &QueueId, limit: usize) -> Vec<Message> {
        let popped = Popped::messages(self.store().pop_messages(queue, limit).await.expect(OK));
        assert!(popped.len() <= limit, "{} messages for a pop of {limit}", popped.len());
        popped
    }

    pub(super) async fn stats(&self, queue: &QueueId) -> Stats {
        self.store().get_stats(queue, false).await.expect(OK)
    }

    pub(super) async fn count_queues(&self) -> usize {
        let count = self.store().count_queues(&self.project).await.expect(OK);
        usize::try_from(count).expect("a count fits")
    }

    /// Fails if the store is not what it should be. One that others use may just be damaged by their tests.
    pub(super) async fn assert_whole(&self) {
        if !self.stage.is_shared() {
            assert_eq!(self.store().check().await.expect(OK).findings, [""; 0]);
        }
    }

    /// Walks all queues of the project once.
    pub(super) async fn tidy_project(&self) {
        // No name is before this one.
        let mut reached = self.id("-");
        while let Some(next) = self.store().tidy(Some(&reached)).await.expect(OK) {
            if next.project() != &self.project {
                break;
            }
            assert!(next > reached, "{next} does not follow {reached}");
            reached = next;
        }
    }
}

/// A project that nobody else uses.
pub(super) fn fresh_project() -> ProjectId {
    ProjectId::new(&format!("p-{}", Uuid::new_v4().simple())).expect("it is not empty")
}

pub(super) fn queue_id(project: &ProjectId, name: &str) -> QueueId {
    let name = name.parse().expect("the name is legal");
    QueueId::new(project.clone(), name).expect("the project is short")
}

/// One of many clients.
pub(super) fn client(number: u128) -> ClientId {
    ClientIdRule::Uuid.parse(&Uuid::from_u128(number).to_string()).expect("it is a UUID")
}

pub(super) fn metadata(keys: Value) -> Metadata {
    match keys {
        Value::Object(keys) => Metadata::from_store(keys),
        other => panic!("metadata is an object: {other}"),
    }
}

pub(super) fn body(value: &Value) -> Body {
    Body::from_msgpack(rmp_serde::to_vec(value).expect("JSON always has a MessagePack form").into())
}

/// A message that says its number.
pub(super) fn message(ttl_s: u32, number: usize) -> NewMessage {
    NewMessage { ttl_s, delay_s: 0, body: body(&json!(number)), lot: None }
}

/// So many messages that say their numbers, from 0.
pub(super) fn messages(ttl_s: u32, count: usize) -> Vec<NewMessage> {
    (0..count).map(|number| message(ttl_s, number)).collect()
}

pub(super) fn ids_of(messages: &[Message]) -> Vec<MessageId> {
    messages.iter().map(|message| message.id).collect()
}

pub(super) fn bodies_of(messages: &[Message]) -> Vec<Body> {
    messages.iter().map(|message| message.body.clone()).collect()
}

pub(super) fn ranks_of(ids: &[MessageId]) -> Vec<u64> {
    ids.iter().copied().map(MessageId::rank).map(Rank::micros).collect()
}

/// Fails unless each id follows the one before.
pub(super) fn assert_ascending(ids: &[MessageId]) {
    for pair in ids.windows(2) {
        assert!(pair[0] < pair[1] && pair[0].rank() < pair[1].rank(), "{} does not follow {}", pair[1], pair[0]);
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).expect("tests do not go so far")
}
