//! Who counts the messages and reads the dead letters while everybody else waits.

use std::sync::Arc;
use std::time::Duration;

use sukkal::domain::{Message, QueueId, Rank};
use sukkal::storage::{Listing, Scope};
use tokio::time::{sleep, timeout};

use super::actors::{Role, Scene};
use super::history::{Count, Letter, Reading, Span};
use super::wire::QUEUE;
use crate::support::chronicle::choices::Choices;
use crate::support::ground::Ground;

const CLAIMS_PER_COUNT: u64 = 150;
const PAGE: usize = 500;
/// How often a busy machine may be too slow in a row.
const TRIES_MAX: usize = 10;
/// The janitor comes by each second.
const ARRIVAL_MAX: Duration = Duration::from_secs(30);
const ARRIVAL_POLL: Duration = Duration::from_millis(5);

/// Where dead letters leave from and arrive.
#[derive(Clone)]
pub(super) struct Letters {
    pub(super) store: Ground,
    pub(super) queue: QueueId,
    /// How many are under way.
    pub(super) under_way: Arc<dyn Fn() -> i64 + Send + Sync>,
}

pub(super) struct Auditor {
    scene: Scene,
    choices: Choices,
    letters: Letters,
    read_up_to: Option<Rank>,
    pub(super) counts: Vec<Count>,
    pub(super) readings: Vec<Reading>,
}

impl Auditor {
    pub(super) fn new(scene: Scene, letters: Letters) -> Self {
        let choices = scene.choices(Role::Auditor, 0);
        Self { scene, choices, letters, read_up_to: None, counts: Vec::new(), readings: Vec::new() }
    }

    /// Counts now and then until all is over.
    pub(super) async fn audit(mut self) -> Self {
        let board = self.scene.board.clone();
        let mut due = CLAIMS_PER_COUNT;
        while board.wait_until(|news| news.claims >= due).await {
            self.count().await;
            due = board.news().borrow().claims + CLAIMS_PER_COUNT;
        }
        self
    }

    /// Counts once all is done, when no server is killed any more.
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
        let board = self.scene.board.clone();
        let _quiet = board.quiet().await;
        self.read().await;
        let invoked = board.now();
        let outcome = self.scene.wire.count(&mut self.choices, QUEUE).await;
        let (span, numbers) = board.record(invoked, outcome);
        let outcome = self.scene.wire.count(&mut self.choices, self.letters.queue.name().as_str()).await;
        let (Span { ended, .. }, letters) = board.record(invoked, outcome);
        if let (Some([total, claimed, free]), Some(letters)) = (numbers, letters) {
            let span = Span { ended, ..span };
            self.counts.push(Count { span, total, claimed, free, letters });
            board.tell(|news| news.outstanding = total.cast_signed());
        }
    }

    /// Reads the dead letters that are new, once all have arrived.
    async fn read(&mut self) {
        let arrived = timeout(ARRIVAL_MAX, async {
            while (self.letters.under_way)() > 0 {
                sleep(ARRIVAL_POLL).await;
            }
        });
        arrived.await.expect("all dead letters arrive");

        let invoked = self.scene.board.now();
        let mut letters = Vec::new();
        loop {
            let listing = Listing { after: self.read_up_to, limit: PAGE, not_from: None, scope: Scope::default() };
            let page = self.page(&listing).await;
            let Some(last) = page.last() else { break };
            self.read_up_to = Some(last.id.rank());
            letters.extend(page.iter().map(|message| {
                let origin = message.origin.as_ref().expect("a dead letter says where it comes from");
                let tag = rmp_serde::from_slice(message.body.as_msgpack()).expect("the body is ours");
                let source_id = origin.id.to_string().parse().expect("it is a UUID");
                Letter { tag, ttl_s: message.ttl_s, source_id, claim_count: origin.claim_count }
            }));
        }
        self.readings.push(Reading { span: Span { invoked, ended: self.scene.board.now() }, letters });
    }

    async fn page(&self, listing: &Listing) -> Vec<Message> {
        for _ in 0..TRIES_MAX {
            if let Ok(page) = self.letters.store.store().list_messages(&self.letters.queue, listing).await {
                return page.messages;
            }
        }
        panic!("the store does not answer");
    }
}
