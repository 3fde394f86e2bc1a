//! Counts the messages and reads the dead letters while all other actors wait.

use std::sync::Arc;
use std::time::Duration;

use sukkal_domain::{Message, QueueId, Rank};
use sukkal_storage::Listing;
use tokio::time::{sleep, timeout};

use super::actors::{Role, TestContext};
use super::history::{Count, DeadLetter, Reading, Span};
use support::random::Random;
use support::test_bed::TestBed;

const CLAIMS_PER_COUNT: u64 = 150;
const PAGE: usize = 500;
/// How often in a row a busy machine may be too slow.
const TRIES_MAX: usize = 10;
/// Longest time until dead letters arrive. The janitor runs every second.
const ARRIVAL_MAX: Duration = Duration::from_secs(30);
const ARRIVAL_POLL: Duration = Duration::from_millis(5);

/// The dead-letter queue, and the dead letters on the way to it.
#[derive(Clone)]
pub(super) struct DeadLetters {
    pub(super) store: TestBed,
    pub(super) queue: QueueId,
    /// Returns the number of dead letters in the outbox.
    pub(super) under_way: Arc<dyn Fn() -> i64 + Send + Sync>,
}

pub(super) struct Auditor {
    context: TestContext,
    random: Random,
    dead_letters: DeadLetters,
    read_up_to: Option<Rank>,
    pub(super) counts: Vec<Count>,
    pub(super) readings: Vec<Reading>,
}

impl Auditor {
    pub(super) fn new(context: TestContext, dead_letters: DeadLetters) -> Self {
        let random = context.random(Role::Auditor, 0);
        Self { context, random, dead_letters, read_up_to: None, counts: Vec::new(), readings: Vec::new() }
    }

    /// Counts at intervals until the test is over.
    pub(super) async fn audit(mut self) -> Self {
        let coordinator = self.context.coordinator.clone();
        let mut due = CLAIMS_PER_COUNT;
        while coordinator.wait_until(|progress| progress.claims >= due).await {
            self.count().await;
            due = coordinator.progress().borrow().claims + CLAIMS_PER_COUNT;
        }
        self
    }

    /// Counts after the last operation, when no server is killed any more.
    pub(super) async fn last_count(&mut self) {
        let before = self.counts.len();
        for _ in 0..TRIES_MAX {
            self.count().await;
            if self.counts.len() > before {
                return;
            }
        }
        panic!("no server answers");
    }

    async fn count(&mut self) {
        let (coordinator, calm) = (self.context.coordinator.clone(), self.context.calm.clone());
        let _calm = calm.read().await;
        let _quiet = coordinator.quiet().await;
        self.read().await;
        let invoked = coordinator.now();
        let outcome = self.context.wire.count(&mut self.random, &self.context.wire.queue).await;
        let (span, numbers) = coordinator.record(invoked, outcome);
        let outcome = self.context.wire.count(&mut self.random, self.dead_letters.queue.name().as_str()).await;
        let (Span { ended, .. }, dead_letters) = coordinator.record(invoked, outcome);
        if let (Some([total, claimed, free]), Some(dead_letters)) = (numbers, dead_letters) {
            let span = Span { ended, ..span };
            self.counts.push(Count { span, total, claimed, free, dead_letters });
            coordinator.update(|progress| progress.outstanding = total.cast_signed());
        }
    }

    /// Reads the new dead letters, once all have arrived.
    async fn read(&mut self) {
        let arrived = timeout(ARRIVAL_MAX, async {
            while (self.dead_letters.under_way)() > 0 {
                sleep(ARRIVAL_POLL).await;
            }
        });
        arrived.await.expect("all dead letters arrive");

        let invoked = self.context.coordinator.now();
        let mut dead_letters = Vec::new();
        loop {
            let listing = Listing { after: self.read_up_to, ..Listing::first(PAGE) };
            let page = self.page(&listing).await;
            let Some(last) = page.last() else { break };
            self.read_up_to = Some(last.id.rank());
            dead_letters.extend(page.iter().map(|message| {
                let origin = message.origin.as_ref().expect("a dead letter has an origin");
                let tag = rmp_serde::from_slice(message.body.as_msgpack()).expect("the body is one of this test");
                let source_id = origin.id.to_string().parse().expect("it is a UUID");
                DeadLetter { tag, ttl_s: message.ttl_s, source_id, claim_count: origin.claim_count }
            }));
        }
        self.readings.push(Reading { span: Span { invoked, ended: self.context.coordinator.now() }, dead_letters });
    }

    async fn page(&self, listing: &Listing) -> Vec<Message> {
        for _ in 0..TRIES_MAX {
            if let Ok(page) = self.dead_letters.store.store().list_messages(&self.dead_letters.queue, listing).await {
                return page.messages;
            }
        }
        panic!("the store does not respond");
    }
}
