//! The store under test: one driver, a project that no other test uses, and the clocks of its
//! queues.
//!
//! The helpers shorten frequent calls, and fail the case if the store returns an error. They use
//! only the storage traits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use sukkal_domain::{
    Body, ClaimId, ClientId, ClientIdRule, Creation, Message, MessageId, Metadata, NewMessage, Origin, ProjectId,
    Queue, QueueId, QueueKind, QueueName, Rank, Revision, Stats, Summary, TraceContext,
};
use sukkal_storage::{
    Destinations, Driver, Error, Listing, NameRange, Page, Popped, Post, PostOutcome, QueueListing, UpdateOutcome,
};
use support::calls::plain_post;
use support::waiting::until;
use uuid::Uuid;

/// Ttl of messages whose expiry does not matter, in seconds.
pub(in crate::conformance) const LONG_S: u32 = 86_400;
const PAGE: usize = 100;
const OK: &str = "the store answers";

/// A driver, and the functions that tests need in addition to its traits.
#[async_trait]
pub(in crate::conformance) trait TestBackend: Send + Sync {
    fn store(&self) -> &dyn Driver;

    /// Returns the stores that maintain their own queues: the driver, and its pools.
    fn maintained(&self) -> Vec<&dyn Driver> {
        vec![self.store()]
    }

    /// Sets how far the store's clock is ahead of the real one for this queue, in microseconds.
    async fn set_clock(&self, queue: &QueueId, offset_us: i64);

    /// Makes the store one of several.
    fn set_destinations(&self, destinations: Weak<dyn Destinations>);

    /// Returns whether other tests use the store too.
    fn is_shared(&self) -> bool;

    /// Returns whether the store is connected.
    async fn is_ready(&self) -> bool {
        self.store().ping().await.is_ok()
    }
}

/// A driver under test. Clones share the driver, the project and the clocks.
#[derive(Clone)]
pub(in crate::conformance) struct Subject {
    backend: Arc<dyn TestBackend>,
    project: ProjectId,
    clocks_us: Arc<Mutex<HashMap<QueueId, i64>>>,
}

impl Subject {
    pub(in crate::conformance) fn new(backend: impl TestBackend + 'static) -> Self {
        Self { backend: Arc::new(backend), project: fresh_project(), clocks_us: Arc::default() }
    }

    /// Returns the same driver with another project.
    pub(in crate::conformance) fn with_project(self, project: &ProjectId) -> Self {
        Self { project: project.clone(), ..self }
    }

    pub(in crate::conformance) fn store(&self) -> &dyn Driver {
        self.backend.store()
    }

    /// Makes the store one of several.
    pub(in crate::conformance) fn set_destinations(&self, destinations: Weak<dyn Destinations>) {
        self.backend.set_destinations(destinations);
    }

    /// Waits until the store is connected. On a busy machine, that takes longer than an operation
    /// waits.
    pub(in crate::conformance) async fn wait_until_ready(&self) {
        until("the store is connected", async || self.backend.is_ready().await).await;
    }

    /// Returns whether other tests use the store too.
    pub(in crate::conformance) fn is_shared(&self) -> bool {
        self.backend.is_shared()
    }

    /// Returns the project of this case.
    pub(in crate::conformance) fn project(&self) -> &ProjectId {
        &self.project
    }

    /// Returns the id of a queue in the project of this case.
    pub(in crate::conformance) fn id(&self, name: &str) -> QueueId {
        queue_id(&self.project, name)
    }

    /// Creates a queue without metadata.
    pub(in crate::conformance) async fn queue(&self, name: &str) -> QueueId {
        let queue = self.id(name);
        self.create(&queue).await;
        queue
    }

    /// Creates a queue with this metadata, which must not exist.
    pub(in crate::conformance) async fn queue_of(&self, name: &str, keys: Value) -> QueueId {
        let queue = self.id(name);
        let creation = self.store().create_queue(&queue, &metadata(keys)).await;
        assert_eq!(creation, Ok(Creation::Created), "{queue}");
        queue
    }

    /// Replaces the metadata of a queue.
    pub(in crate::conformance) async fn set_metadata(&self, queue: &QueueId, keys: Value) {
        let revision = self.revision(queue).await;
        let update = self.store().update_queue(queue, revision, &metadata(keys)).await;
        assert_eq!(update, Ok(UpdateOutcome::Done), "{queue}");
    }

    /// Creates a queue that must not exist.
    pub(in crate::conformance) async fn create(&self, queue: &QueueId) {
        let creation = self.store().create_queue(queue, &Metadata::default()).await;
        assert_eq!(creation, Ok(Creation::Created), "{queue}");
    }

    pub(in crate::conformance) async fn get(&self, queue: &QueueId) -> Option<Queue> {
        self.store().get_queue(queue).await.expect(OK)
    }

    pub(in crate::conformance) async fn revision(&self, queue: &QueueId) -> Revision {
        self.get(queue).await.expect("the queue exists").revision
    }

    pub(in crate::conformance) async fn delete(&self, queue: &QueueId) {
        self.store().delete_queue(queue).await.expect(OK);
    }

    /// Lists all queues of the project with one call. There must be fewer than `examined_max`.
    pub(in crate::conformance) async fn queues(&self, examined_max: usize) -> Vec<(QueueName, Queue)> {
        let names = NameRange::of_kind(QueueKind::Queue, None, None);
        let listing = QueueListing { names, examined_max, needs_metadata: true, ..QueueListing::default() };
        let page = self.store().list_queues(&self.project, &listing).await.expect(OK);
        assert_eq!(page.reached, None, "there are more than {examined_max} queues");
        page.queues
    }

    /// Returns the first `limit` names after `after`, with as many calls as necessary.
    pub(in crate::conformance) async fn names(
        &self,
        project: &ProjectId,
        after: Option<&str>,
        limit: usize,
    ) -> Vec<String> {
        let (mut names, mut after) = (Vec::new(), after.map(str::to_owned));
        while names.len() < limit {
            let examined_max = limit - names.len();
            let range = NameRange::of_kind(QueueKind::Queue, after.as_deref(), None);
            let listing = QueueListing { names: range, examined_max, needs_metadata: true, ..QueueListing::default() };
            let page = self.store().list_queues(project, &listing).await.expect(OK);
            names.extend(page.queues.into_iter().map(|(name, _)| name.to_string()));
            match page.reached {
                Some(reached) => after = Some(reached.to_string()),
                None => break,
            }
        }
        names
    }

    /// Moves the clock of a queue forward.
    pub(in crate::conformance) async fn advance(&self, queue: &QueueId, by: Duration) {
        self.move_clock(queue, micros(by)).await;
    }

    /// Moves the clock of a queue back, as a correction of the clock does.
    pub(in crate::conformance) async fn rewind(&self, queue: &QueueId, by: Duration) {
        self.move_clock(queue, -micros(by)).await;
    }

    /// Sets how far the clock of a queue is ahead of the real one.
    pub(in crate::conformance) async fn set_clock_ahead(&self, queue: &QueueId, ahead: Duration) {
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
        self.backend.set_clock(queue, offset_us).await;
    }

    /// Posts in one request, with the current revision of the queue.
    pub(in crate::conformance) async fn post(&self, queue: &QueueId, messages: &[NewMessage]) -> Vec<MessageId> {
        self.post_as(&client(0), queue, messages).await
    }

    pub(in crate::conformance) async fn post_as(
        &self,
        client: &ClientId,
        queue: &QueueId,
        messages: &[NewMessage],
    ) -> Vec<MessageId> {
        let revision = self.revision(queue).await;
        match self.try_post(queue, revision, client, messages).await {
            Ok(PostOutcome::Posted(ids)) => ids,
            other => panic!("not posted to {queue}: {other:?}"),
        }
    }

    /// Posts with the given last known revision of the queue.
    pub(in crate::conformance) async fn try_post(
        &self,
        queue: &QueueId,
        last_known_revision: Revision,
        client: &ClientId,
        messages: &[NewMessage],
    ) -> Result<PostOutcome, Error> {
        self.store().post_messages(queue, &plain_post(last_known_revision, client, messages)).await
    }

    /// Posts a dead letter with this origin and this creation time, in seconds.
    pub(in crate::conformance) async fn post_dead_letter(
        &self,
        queue: &QueueId,
        letter: NewMessage,
        origin: &(Origin, u64),
        trace: Option<TraceContext>,
    ) {
        let (by, letters) = (client(0), [letter]);
        let plain = plain_post(self.revision(queue).await, &by, &letters);
        let post = Post { trace, origin: Some(origin), ..plain };
        let outcome = self.store().post_messages(queue, &post).await;
        assert!(matches!(outcome, Ok(PostOutcome::Posted(_))), "{outcome:?}");
    }

    /// Returns up to `limit` messages after the marker.
    pub(in crate::conformance) async fn list(
        &self,
        queue: &QueueId,
        after: Option<MessageId>,
        limit: usize,
    ) -> Vec<Message> {
        self.list_for(queue, after, limit, None).await
    }

    pub(in crate::conformance) async fn list_for(
        &self,
        queue: &QueueId,
        after: Option<MessageId>,
        limit: usize,
        not_from: Option<ClientId>,
    ) -> Vec<Message> {
        let listing = Listing { after: after.map(MessageId::rank), not_from, ..Listing::first(limit) };
        self.page_of(queue, &listing).await.messages
    }

    /// Returns the page that a listing selects.
    pub(in crate::conformance) async fn page_of(&self, queue: &QueueId, listing: &Listing) -> Page {
        let page = self.store().list_messages(queue, listing).await.expect(OK);
        let (count, limit) = (page.messages.len(), listing.limit);
        assert!(count <= limit, "{count} messages on a page of {limit}");
        page
    }

    /// Returns the ids of the feed after the marker, read page by page.
    pub(in crate::conformance) async fn feed_after(&self, queue: &QueueId, after: Option<MessageId>) -> Vec<MessageId> {
        self.pages(queue, after, PAGE, None).await
    }

    /// Returns the ids of the whole feed.
    pub(in crate::conformance) async fn feed(&self, queue: &QueueId) -> Vec<MessageId> {
        self.feed_after(queue, None).await
    }

    pub(in crate::conformance) async fn pages(
        &self,
        queue: &QueueId,
        after: Option<MessageId>,
        limit: usize,
        not_from: Option<ClientId>,
    ) -> Vec<MessageId> {
        let listing = Listing { after: after.map(MessageId::rank), not_from, ..Listing::first(limit) };
        self.pages_from(queue, listing).await
    }

    /// Returns the ids of all pages from this one on.
    pub(in crate::conformance) async fn pages_from(&self, queue: &QueueId, mut listing: Listing) -> Vec<MessageId> {
        let mut feed = Vec::new();
        loop {
            let page = self.page_of(queue, &listing).await.messages;
            let Some(last) = page.last() else {
                return feed;
            };
            listing.after = Some(last.id.rank());
            feed.extend(ids_of(&page));
        }
    }

    pub(in crate::conformance) async fn get_messages(&self, queue: &QueueId, ids: &[MessageId]) -> Vec<Message> {
        self.store().get_messages(queue, ids, false).await.expect(OK)
    }

    /// Returns those of the ids that are found.
    pub(in crate::conformance) async fn found(&self, queue: &QueueId, ids: &[MessageId]) -> Vec<MessageId> {
        ids_of(&self.get_messages(queue, ids).await)
    }

    pub(in crate::conformance) async fn delete_messages(&self, queue: &QueueId, ids: &[MessageId]) {
        self.store().delete_messages(queue, ids).await.expect(OK);
    }

    pub(in crate::conformance) async fn count(&self, queue: &QueueId) -> usize {
        usize::try_from(self.stats(queue).await.total).expect("a count fits")
    }

    pub(in crate::conformance) async fn pop(&self, queue: &QueueId, limit: usize) -> Vec<Message> {
        let (pop, popped) = self.begin_pop(queue, limit).await;
        self.store().complete_pop(queue, pop).await.expect(OK);
        let popped = Popped::messages(popped);
        assert!(popped.len() <= limit, "{} messages for a pop of {limit}", popped.len());
        popped
    }

    pub(in crate::conformance) async fn pause(&self, queue: &QueueId) {
        self.store().pause_queue(queue).await.expect(OK);
    }

    pub(in crate::conformance) async fn resume(&self, queue: &QueueId) {
        self.store().resume_queue(queue).await.expect(OK);
    }

    /// Begins a pop, which may take nothing. Returns its id, and the messages with the data to
    /// restore them.
    pub(in crate::conformance) async fn begin_pop(&self, queue: &QueueId, limit: usize) -> (ClaimId, Vec<Popped>) {
        let pop = ClaimId::random();
        let popped = self.store().pop_messages(queue, pop, limit).await.expect(OK).messages().unwrap_or_default();
        (pop, popped)
    }

    /// The same without the id, for messages that are restored.
    pub(in crate::conformance) async fn popped(&self, queue: &QueueId, limit: usize) -> Vec<Popped> {
        self.begin_pop(queue, limit).await.1
    }

    pub(in crate::conformance) async fn stats(&self, queue: &QueueId) -> Stats {
        self.store().get_stats(queue, false).await.expect(OK)
    }

    /// Returns the summary of a queue.
    pub(in crate::conformance) async fn summary(&self, queue: &QueueId) -> Summary {
        self.store().summarize_queues(std::slice::from_ref(queue)).await.expect(OK).remove(0)
    }

    pub(in crate::conformance) async fn count_queues(&self) -> usize {
        let count = self.store().count_queues(&self.project, Some(QueueKind::Queue)).await.expect(OK);
        usize::try_from(count).expect("a count fits")
    }

    /// Asserts that an integrity check finds nothing. Skips shared stores, because other tests may
    /// be damaging them.
    pub(in crate::conformance) async fn assert_consistent(&self) {
        if !self.is_shared() {
            assert_eq!(self.store().check().await.expect(OK).findings, [""; 0]);
        }
    }

    /// Runs one maintenance round over all queues of the project.
    pub(in crate::conformance) async fn run_maintenance(&self) {
        if self.is_shared() {
            // The step that ends the round maintains the next queue of each store. It is this one,
            // not one of another test, whose dead letters would arrive in the pools of this test. A
            // store that is full belongs to one test, so its refusal does no harm.
            let end = ProjectId::new(&format!("{}-end", self.project)).expect("it is short");
            let end = QueueId::new(end, "end".parse().expect("the name is valid")).expect("it is short");
            for store in self.backend.maintained() {
                let created = store.create_queue(&end, &metadata(json!({}))).await;
                assert!(matches!(created, Ok(_) | Err(Error::MemoryFull(_))), "{created:?}");
            }
        }
        // No name sorts before this one.
        let mut reached = self.id("-");
        while let Some(next) = self.store().maintain_step(Some(&reached)).await.expect(OK) {
            if next.project() != &self.project {
                break;
            }
            assert!(next > reached, "{next} does not follow {reached}");
            reached = next;
        }
    }
}

/// Returns a project that no other test uses.
pub(in crate::conformance) fn fresh_project() -> ProjectId {
    ProjectId::new(&format!("p-{}", Uuid::new_v4().simple())).expect("it is not empty")
}

pub(in crate::conformance) fn queue_id(project: &ProjectId, name: &str) -> QueueId {
    let name = name.parse().expect("the name is legal");
    QueueId::new(project.clone(), name).expect("the project is short")
}

/// Returns the id of a client.
pub(in crate::conformance) fn client(number: u128) -> ClientId {
    ClientIdRule::Uuid.parse(&Uuid::from_u128(number).to_string()).expect("it is a UUID")
}

pub(in crate::conformance) fn metadata(keys: Value) -> Metadata {
    match keys {
        Value::Object(keys) => Metadata::from_store((&keys).into()),
        other => panic!("metadata is an object: {other}"),
    }
}

pub(in crate::conformance) fn body(value: &Value) -> Body {
    Body::from_msgpack(rmp_serde::to_vec(value).expect("JSON always has a MessagePack form").into())
}

/// Returns a message whose body is its number.
pub(in crate::conformance) fn message(ttl_s: u32, number: usize) -> NewMessage {
    NewMessage { ttl_s, delay_s: 0, body: body(&json!(number)), assignment: None }
}

/// Returns messages whose bodies are their numbers, from 0.
pub(in crate::conformance) fn messages(ttl_s: u32, count: usize) -> Vec<NewMessage> {
    (0..count).map(|number| message(ttl_s, number)).collect()
}

pub(in crate::conformance) fn ids_of(messages: &[Message]) -> Vec<MessageId> {
    messages.iter().map(|message| message.id).collect()
}

/// Returns messages that can be compared with the same messages of another time.
pub(in crate::conformance) fn without_ages(messages: Vec<Message>) -> Vec<Message> {
    messages.into_iter().map(|message| Message { age_s: 0, ..message }).collect()
}

pub(in crate::conformance) fn bodies_of(messages: &[Message]) -> Vec<Body> {
    messages.iter().map(|message| message.body.clone()).collect()
}

pub(in crate::conformance) fn ranks_of(ids: &[MessageId]) -> Vec<u64> {
    ids.iter().copied().map(MessageId::rank).map(Rank::micros).collect()
}

/// Asserts that each id follows the one before.
pub(in crate::conformance) fn assert_ascending(ids: &[MessageId]) {
    for pair in ids.windows(2) {
        assert!(pair[0] < pair[1] && pair[0].rank() < pair[1].rank(), "{} does not follow {}", pair[1], pair[0]);
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).expect("the offset fits")
}
