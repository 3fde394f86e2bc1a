//! Anything in any order: random operations on one queue, against a list in memory that is right.
//!
//! Ttls end in 50 s, claims in 25, prolonged lives in 65, delays in 85, what is given back for later in 35, and
//! the clock moves by hundreds, so that a run's own seconds never decide.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use serde_json::json;
use sukkal::domain::{Body, ClaimId, Message, MessageId, Metadata, NewMessage, QueueId, Revision};
use sukkal::storage::{Creation, Listing, Posting, Scope, Update};

use super::model_claims::Leased;
use super::seed::seed;
use super::subject::{Subject, assert_ascending, body, client, ids_of, metadata};

const SEQUENCES: u32 = 120;
const OPERATIONS_MAX: usize = 50;
pub(super) const TICK_S: u32 = 100;
const LETTER_TTL_S: u32 = 1_000_000;
/// No run takes so long.
const RUN_S: i64 = 12;

pub(super) async fn any_sequence_of_operations_does_what_a_plain_list_does(subject: &Subject) {
    let config = Config {
        cases: SEQUENCES,
        rng_seed: RngSeed::Fixed(seed()),
        failure_persistence: None,
        max_shrink_iters: 500,
        ..Config::default()
    };
    let subject = subject.clone();
    let runtime = tokio::runtime::Handle::current();
    let verdict = tokio::task::spawn_blocking(move || {
        let run = |operations| {
            runtime.block_on(Run::new(&subject).all(operations));
            Ok(())
        };
        TestRunner::new(config).run(&vec(operation(), 1..OPERATIONS_MAX), run).map_err(|error| error.to_string())
    });
    if let Err(error) = verdict.await.expect("the runner does not panic") {
        panic!("{error}");
    }
}

/// Messages that were ever posted are named by an [`Index`] into all of them.
#[derive(Clone, Debug)]
enum Operation {
    Create(u8),
    Delete,
    Update(u8),
    UpdateStale,
    Post { client: u8, count: usize, ticks: u32, delay_ticks: Option<u32> },
    PostStale,
    List { after: Option<Index>, limit: usize, not_from: Option<u8> },
    Get(Vec<Index>),
    DeleteMessages(Vec<Index>),
    Count,
    Pop(usize),
    Stats,
    Claim { limit: usize, ticks: u32, grace_ticks: u32 },
    GetClaim(Index),
    Renew { claim: Index, ticks: u32, grace_ticks: u32 },
    Release(Index),
    Acknowledge { message: Index, claim: Option<Index> },
    DeleteClaimed { messages: Vec<Index>, claims: Vec<Index> },
    Return { claim: Index, message: Index, delay_ticks: Option<u32> },
    ListWithClaimed(usize),
    ListWithDelayed(usize),
    Tidy,
    Advance(u32),
    Rewind(u32),
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation as O;

    let picks = || vec(any::<Index>(), 0..30);
    let listing = (any::<Option<Index>>(), 1_usize..80, proptest::option::of(0_u8..3));
    prop_oneof![
        2 => any::<u8>().prop_map(O::Create),
        1 => Just(O::Delete),
        2 => any::<u8>().prop_map(O::Update),
        1 => Just(O::UpdateStale),
        8 => (0_u8..3, 1_usize..70, 0_u32..4, proptest::option::of(0_u32..3))
            .prop_map(|(client, count, ticks, delay_ticks)| O::Post { client, count, ticks, delay_ticks }),
        1 => Just(O::PostStale),
        8 => listing.prop_map(|(after, limit, not_from)| O::List { after, limit, not_from }),
        3 => picks().prop_map(O::Get),
        4 => picks().prop_map(O::DeleteMessages),
        2 => Just(O::Count),
        2 => (1_usize..30).prop_map(O::Pop),
        2 => Just(O::Stats),
        6 => (1_usize..40, 0_u32..4, 0_u32..3)
            .prop_map(|(limit, ticks, grace_ticks)| O::Claim { limit, ticks, grace_ticks }),
        3 => any::<Index>().prop_map(O::GetClaim),
        2 => (any::<Index>(), 0_u32..4, 0_u32..3)
            .prop_map(|(claim, ticks, grace_ticks)| O::Renew { claim, ticks, grace_ticks }),
        2 => any::<Index>().prop_map(O::Release),
        4 => (any::<Index>(), any::<Option<Index>>())
            .prop_map(|(message, claim)| O::Acknowledge { message, claim }),
        2 => (picks(), vec(any::<Index>(), 0..4))
            .prop_map(|(messages, claims)| O::DeleteClaimed { messages, claims }),
        3 => (any::<Index>(), any::<Index>(), proptest::option::of(0_u32..3))
            .prop_map(|(claim, message, delay_ticks)| O::Return { claim, message, delay_ticks }),
        3 => (1_usize..80).prop_map(O::ListWithClaimed),
        2 => (1_usize..80).prop_map(O::ListWithDelayed),
        1 => Just(O::Tidy),
        3 => (1_u32..4).prop_map(O::Advance),
        1 => (1_u32..4).prop_map(O::Rewind),
    ]
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kept {
    pub(super) id: MessageId,
    client: u8,
    pub(super) ttl_s: u32,
    pub(super) body: Body,
    pub(super) ends_s: i64,
    /// Whether it was due once.
    pub(super) let_in: bool,
    pub(super) claim: Option<ClaimId>,
    /// Until when it is kept from everybody, having been given back for later.
    pub(super) back_s: Option<i64>,
    pub(super) claim_count: u32,
}

/// A queue under test, and what should be in it.
pub(super) struct Run<'a> {
    pub(super) subject: &'a Subject,
    pub(super) queue: QueueId,
    state: Option<(Metadata, Revision)>,
    pub(super) feed: Vec<Kept>,
    ever: Vec<MessageId>,
    pub(super) claims: Vec<Leased>,
    pub(super) ever_claimed: Vec<ClaimId>,
    last_revision: Revision,
    started_us: u64,
    pub(super) now_s: i64,
    latest_s: i64,
    /// What should be in the queue's dead letter queue, in this order.
    pub(super) dead: Vec<Kept>,
}

impl<'a> Run<'a> {
    fn new(subject: &'a Subject) -> Self {
        let queue = subject.id(&uuid::Uuid::new_v4().to_string());
        let (feed, ever, claims, ever_claimed, dead) = Default::default();
        let real = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
        Self {
            subject,
            queue,
            state: None,
            feed,
            ever,
            claims,
            ever_claimed,
            last_revision: Revision(0),
            started_us: u64::try_from(real.as_micros()).expect("it fits"),
            now_s: 0,
            latest_s: 0,
            dead,
        }
    }

    async fn all(mut self, operations: Vec<Operation>) {
        self.create(1).await;
        for operation in operations {
            self.step(operation).await;
            self.end_claims();
            self.let_in();
            let now_s = self.now_s;
            self.feed.retain(|kept| kept.ends_s > now_s);
        }
        self.look_at_feed().await;
        self.look_at_letters().await;
        self.subject.delete(&self.queue).await;
    }

    async fn step(&mut self, operation: Operation) {
        match operation {
            Operation::Create(colour) => self.create(colour).await,
            Operation::Delete => {
                self.subject.delete(&self.queue).await;
                (self.state, self.feed, self.claims) = (None, Vec::new(), Vec::new());
            }
            Operation::Update(colour) => self.update(colour).await,
            Operation::UpdateStale => {
                let stale = Revision(self.last_revision.0 - 1);
                let update = self.subject.store().update_queue(&self.queue, stale, &Metadata::default()).await;
                assert_eq!(update, Ok(Update::Stale));
                self.look_at_queue().await;
            }
            Operation::Post { client, count, ticks, delay_ticks } => self.post(client, count, ticks, delay_ticks).await,
            Operation::PostStale => {
                let stale = Revision(self.last_revision.0 - 1);
                let batch = super::subject::messages(60, 2);
                let posting = self.subject.try_post(&self.queue, stale, &client(0), &batch).await;
                assert!(matches!(posting, Ok(Posting::Stale(_))), "{posting:?}");
            }
            Operation::List { after, limit, not_from } => self.list(after, limit, not_from).await,
            Operation::Get(picks) => self.get(&picks).await,
            Operation::DeleteMessages(picks) => {
                let ids = self.picked(&picks);
                self.subject.delete_messages(&self.queue, &ids).await;
                self.feed.retain(|kept| !ids.contains(&kept.id));
            }
            Operation::Count => assert_eq!(self.subject.count(&self.queue).await, self.feed.len()),
            Operation::Pop(limit) => {
                let popped = self.subject.pop(&self.queue, limit).await;
                let expected = self.give_out(limit);
                assert_eq!(counted(&popped), expected);
                let popped = ids_of(&popped);
                self.feed.retain(|kept| !popped.contains(&kept.id));
            }
            Operation::Stats => {
                let stats = self.subject.stats(&self.queue).await;
                let ends = (stats.oldest.map(|message| message.id), stats.newest.map(|message| message.id));
                assert_eq!(stats.total, self.feed.len() as u64);
                assert_eq!(stats.claimed, self.claimed().len() as u64);
                assert_eq!(ends, (self.feed.first().map(|kept| kept.id), self.feed.last().map(|kept| kept.id)));
            }
            Operation::Claim { limit, ticks, grace_ticks } => self.claim(limit, ticks, grace_ticks).await,
            Operation::GetClaim(claim) => self.look_at_claim(claim).await,
            Operation::Renew { claim, ticks, grace_ticks } => self.renew(claim, ticks, grace_ticks).await,
            Operation::Release(claim) => self.release(claim).await,
            Operation::Acknowledge { message, claim } => {
                if let Some(id) = self.picked(&[message]).first() {
                    self.acknowledge(*id, claim).await;
                }
            }
            Operation::DeleteClaimed { messages, claims } => {
                self.delete_claimed(&self.picked(&messages), &claims).await;
            }
            Operation::Return { claim, message, delay_ticks } => {
                if let Some(id) = self.picked(&[message]).first() {
                    self.give_back(claim, *id, delay_ticks).await;
                }
            }
            Operation::ListWithClaimed(limit) => {
                let listed = self.subject.feed_with_claimed(&self.queue, limit, None).await;
                assert_eq!(listed, ids_where(&self.feed, |kept| kept.let_in));
            }
            Operation::ListWithDelayed(limit) => {
                let scope = Scope { claimed: false, delayed: true };
                let listing = Listing { after: None, limit, not_from: None, scope };
                let page = self.subject.store().list_messages(&self.queue, &listing).await.expect("the store answers");
                let delays = self.delays();
                let expected = ids_where(&self.feed, |kept| !kept.is_held() && (kept.let_in || delays));
                assert_eq!(ids_of(&page.messages), expected[..limit.min(expected.len())]);
            }
            Operation::Tidy => self.subject.tidy_project().await,
            Operation::Advance(ticks) => {
                self.subject.advance(&self.queue, ticks_s(ticks)).await;
                self.now_s += i64::from(ticks * TICK_S);
                self.latest_s = self.latest_s.max(self.now_s);
            }
            Operation::Rewind(ticks) => {
                // What has ended unseen might be back; what has been seen to end is not.
                self.subject.count(&self.queue).await;
                self.subject.rewind(&self.queue, ticks_s(ticks)).await;
                self.now_s -= i64::from(ticks * TICK_S);
            }
        }
    }

    async fn create(&mut self, colour: u8) {
        let keys = self.keys(colour, false);
        let creation = self.subject.store().create_queue(&self.queue, &keys).await;
        if self.state.is_none() {
            assert_eq!(creation, Ok(Creation::Created));
            self.expect_new(keys).await;
        } else {
            assert_eq!(creation, Ok(Creation::Existed));
            self.look_at_queue().await;
        }
    }

    /// Metadata of that colour, which says how often messages are given out too.
    /// How often messages are given out before they become dead letters, if they do.
    pub(super) fn claim_count_max(&self) -> Option<u32> {
        let (keys, _) = self.state.as_ref()?;
        keys.dead_letters().map(|letters| letters.claim_count_max)
    }

    fn delays(&self) -> bool {
        self.state.as_ref().is_some_and(|(keys, _)| keys.default_message_delay_s().is_some())
    }

    fn keys(&self, colour: u8, updated: bool) -> Metadata {
        let claim_count_max = Some(colour % 4).filter(|count| *count < 3);
        metadata(json!({
            "colour": colour,
            "updated": updated,
            "_default_message_delay": colour % 2,
            "_max_claim_count": claim_count_max,
            "_dead_letter_queue": self.letters().name().as_str(),
            // Its clock is not moved.
            "_dead_letter_queue_messages_ttl": LETTER_TTL_S,
        }))
    }

    async fn update(&mut self, colour: u8) {
        let keys = self.keys(colour, true);
        let seen = self.state.as_ref().map_or(self.last_revision, |(_, revision)| *revision);
        let update = self.subject.store().update_queue(&self.queue, seen, &keys).await;
        if self.state.is_some() {
            assert_eq!(update, Ok(Update::Done));
            self.expect_new(keys).await;
        } else {
            assert_eq!(update, Ok(Update::Stale));
        }
    }

    /// Expects the metadata, at a revision higher than any before.
    async fn expect_new(&mut self, keys: Metadata) {
        let queue = self.subject.get(&self.queue).await.expect("it exists");
        assert_eq!(queue.metadata, keys);
        assert!(queue.revision > self.last_revision);
        self.last_revision = queue.revision;
        self.state = Some((keys, queue.revision));
    }

    async fn look_at_queue(&self) {
        let queue = self.subject.get(&self.queue).await.map(|queue| (queue.metadata, queue.revision));
        assert_eq!(queue, self.state);
    }

    /// Posts messages, of which two in three are delayed if any is.
    async fn post(&mut self, by: u8, count: usize, ticks: u32, delay_ticks: Option<u32>) {
        let ttl_s = TICK_S * ticks + TICK_S / 2;
        let delay_s = delay_ticks.map_or(0, |ticks| TICK_S * ticks + 85);
        let first = self.ever.len();
        let batch: Vec<_> = (first..first + count)
            .map(|number| {
                let delay_s = if number % 3 == 0 { 0 } else { delay_s };
                NewMessage { ttl_s, delay_s, body: body(&json!({"n": number})), lot: None }
            })
            .collect();
        let seen = self.last_revision;
        let posting = self.subject.try_post(&self.queue, seen, &client(by.into()), &batch).await;
        if self.state.is_none() {
            assert_eq!(posting, Ok(Posting::Stale(None)));
            return;
        }
        let Ok(Posting::Posted(ids)) = posting else { panic!("not posted: {posting:?}") };
        assert_eq!(ids.len(), count);
        let ends_s = self.now_s + i64::from(ttl_s);
        let last = self.feed.iter().rfind(|kept| kept.let_in).map_or(0, |kept| kept.id.rank().micros());
        for (id, message) in ids.iter().zip(batch) {
            let rank = id.rank().micros();
            let (earliest, latest) =
                (self.clock_us(self.now_s), self.clock_us(self.latest_s + RUN_S).max(last + 1_000_000));
            let hidden_us = u64::from(message.delay_s) * 1_000_000;
            assert!((earliest + hidden_us..latest + hidden_us).contains(&rank), "{rank} is not the place of its delay");
            assert!(rank > last, "{rank} may have been passed");
            let let_in = message.delay_s == 0;
            let (claim, back_s, claim_count) = Default::default();
            let kept =
                Kept { id: *id, client: by, ttl_s, body: message.body, ends_s, let_in, claim, back_s, claim_count };
            self.feed.push(kept);
        }
        self.feed.sort_by_key(|kept| kept.id.rank());
        for delayed in [false, true] {
            let is_delayed = |id: &&MessageId| self.feed.iter().any(|kept| kept.id == **id && kept.let_in != delayed);
            assert_ascending(&ids.iter().filter(is_delayed).copied().collect::<Vec<_>>());
        }
        self.ever.extend(ids);
    }

    /// What the queue's clock says, at the least, when the run has moved it so far.
    fn clock_us(&self, offset_s: i64) -> u64 {
        self.started_us.checked_add_signed(offset_s * 1_000_000).expect("it is after 1970")
    }

    /// Lets in what is due.
    fn let_in(&mut self) {
        let now_us = self.clock_us(self.now_s);
        for kept in self.feed.iter_mut().filter(|kept| kept.id.rank().micros() <= now_us) {
            kept.let_in = true;
        }
        // What stands before something visible was due before it.
        let last = self.feed.iter().rposition(|kept| kept.let_in);
        for kept in self.feed.iter_mut().take(last.unwrap_or(0)) {
            kept.let_in = true;
        }
    }

    async fn list(&self, after: Option<Index>, limit: usize, not_from: Option<u8>) {
        let after = after.filter(|_| !self.ever.is_empty()).map(|index| *index.get(&self.ever));
        let expected: Vec<_> = self
            .feed
            .iter()
            .filter(|kept| after.is_none_or(|after| kept.id.rank() > after.rank()))
            .filter(|kept| Some(kept.client) != not_from && kept.let_in && !kept.is_held())
            .map(|kept| (kept.id, kept.ttl_s, kept.body.clone()))
            .collect();

        let page = self.subject.list_for(&self.queue, after, limit, not_from.map(|by| client(by.into()))).await;

        let page: Vec<_> = page.into_iter().map(|message| (message.id, message.ttl_s, message.body)).collect();
        assert!(!page.is_empty() || expected.is_empty(), "an empty page before the end");
        assert_eq!(page, expected[..page.len().min(expected.len())]);
    }

    async fn get(&self, picks: &[Index]) {
        let ids = self.picked(picks);
        let expected: Vec<_> = ids.iter().copied().filter(|id| self.feed.iter().any(|kept| kept.id == *id)).collect();

        assert_eq!(self.subject.found(&self.queue, &ids).await, expected);
    }

    /// The messages that are meant, each once.
    fn picked(&self, picks: &[Index]) -> Vec<MessageId> {
        let mut ids = Vec::new();
        for pick in picks.iter().filter(|_| !self.ever.is_empty()) {
            let id = *pick.get(&self.ever);
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        ids
    }
}

impl Kept {
    /// Whether it is under a claim, or kept from everybody for a while.
    pub(super) fn is_held(&self) -> bool {
        self.claim.is_some() || self.back_s.is_some()
    }
}

pub(super) fn ids_where(feed: &[Kept], is_so: impl Fn(&Kept) -> bool) -> Vec<MessageId> {
    feed.iter().filter(|kept| is_so(kept)).map(|kept| kept.id).collect()
}

/// Which messages these are, and how often each was claimed.
pub(super) fn counted(messages: &[Message]) -> Vec<(MessageId, u32)> {
    messages.iter().map(|message| (message.id, message.claim_count)).collect()
}

fn ticks_s(ticks: u32) -> Duration {
    Duration::from_secs(u64::from(ticks * TICK_S))
}
