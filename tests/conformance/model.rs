//! Anything in any order: random operations on one queue, against a list in memory that is right.
//!
//! Ttls end in 50 s, claims in 25, prolonged lives in 65, delays in 85, what is given back for later in 35, and
//! the clock moves by hundreds, so that a run's own seconds never decide.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::json;
use sukkal::domain::{Body, ClaimId, Message, MessageId, Metadata, NewMessage, QueueId, Revision};
use sukkal::storage::{Creation, Listing, Posting, Scope, Update};

use super::any::holds_for_any;
use super::model_claims::Leased;
use super::model_fair::{Fairness, Kind, PoppedAndKept};
use super::model_operations::{Batch, Look, Operation, look, operation};
use super::rotation::UNSHARDED;
use super::subject::{Subject, assert_ascending, body, client, ids_of, metadata};

const SEQUENCES: u32 = 160;
const OPERATIONS_MAX: usize = 50;
pub(super) const TICK_S: u32 = 100;
const LETTER_TTL_S: u32 = 1_000_000;
/// No run takes so long.
pub(super) const RUN_S: i64 = 12;

pub(super) async fn any_sequence_of_operations_does_what_a_plain_list_does(subject: &Subject) {
    let subject = subject.clone();
    let kind = || prop_oneof![2 => Just(Kind::Plain), 3 => Just(Kind::Fair)];
    let sequences = move || (kind(), look(), vec(operation(), 1..OPERATIONS_MAX));

    holds_for_any(SEQUENCES, sequences, async move |(kind, look, operations)| {
        Run::new(&subject, kind).all(look, operations).await;
    })
    .await;
}

/// A message that should be there.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kept {
    pub(super) id: MessageId,
    pub(super) client: u8,
    pub(super) ttl_s: u32,
    pub(super) body: Body,
    pub(super) ends_s: i64,
    /// Whether it was due once.
    pub(super) let_in: bool,
    pub(super) claim: Option<ClaimId>,
    /// Until when it is kept from everybody, having been given back for later.
    pub(super) back_s: Option<i64>,
    pub(super) claim_count: u32,
    pub(super) was_claimed: bool,
    /// Its shard, or the place of what has none; nothing where it stands in no shard's turn.
    pub(super) shard: Option<u16>,
}

/// A queue under test, and what should be in it.
pub(super) struct Run<'a> {
    pub(super) subject: &'a Subject,
    pub(super) queue: QueueId,
    pub(super) state: Option<(Metadata, Revision)>,
    pub(super) feed: Vec<Kept>,
    ever: Vec<MessageId>,
    pub(super) claims: Vec<Leased>,
    pub(super) ever_claimed: Vec<ClaimId>,
    last_revision: Revision,
    started_us: u64,
    pub(super) now_s: i64,
    latest_s: i64,
    /// How far the queue's logical time is ahead of its clock, while anything is delayed.
    offset_us: u64,
    /// The most that it ever was. A post need not know yet that nothing is delayed any more.
    most_offset_us: u64,
    /// What should be in the queue's dead letter queue, in this order.
    pub(super) dead: Vec<Kept>,
    pub(super) kind: Kind,
    pub(super) fairness: Fairness,
    pub(super) popped: Vec<PoppedAndKept>,
}

impl<'a> Run<'a> {
    fn new(subject: &'a Subject, kind: Kind) -> Self {
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
            offset_us: 0,
            most_offset_us: 0,
            dead,
            kind,
            fairness: Fairness::default(),
            popped: Vec::new(),
        }
    }

    async fn all(mut self, look: Look, operations: Vec<Operation>) {
        self.create(look).await;
        for operation in operations {
            self.step(operation).await;
            self.settle();
        }
        self.look_at_details().await;
        self.look_at_feed().await;
        self.look_at_letters().await;
        self.subject.delete(&self.queue).await;
    }

    /// Lets what is over by now be over.
    pub(super) fn settle(&mut self) {
        self.end_claims();
        let now_s = self.now_s;
        self.feed.retain(|kept| kept.ends_s > now_s);
        self.let_in();
    }

    /// What was popped before is restored no more.
    async fn purge(&mut self) {
        self.subject.store().purge_messages(&self.queue).await.expect("the store answers");
        (self.feed, self.claims, self.popped) = (Vec::new(), Vec::new(), Vec::new());
    }

    async fn step(&mut self, operation: Operation) {
        match operation {
            Operation::Create(look) => self.create(look).await,
            Operation::Delete => {
                self.subject.delete(&self.queue).await;
                (self.state, self.feed, self.claims) = (None, Vec::new(), Vec::new());
                (self.fairness, self.popped) = (Fairness::default(), Vec::new());
            }
            Operation::Purge => self.purge().await,
            Operation::Update(look) => self.update(look).await,
            Operation::UpdateStale => {
                let stale = Revision(self.last_revision.0 - 1);
                let update = self.subject.store().update_queue(&self.queue, stale, &Metadata::default()).await;
                assert_eq!(update, Ok(Update::Stale));
                self.look_at_queue().await;
            }
            Operation::Post(batch) => self.post(batch).await,
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
            Operation::Pop(limit) => drop(self.pop(limit).await),
            Operation::PopAndKeep(limit) => {
                let popped = self.pop(limit).await;
                self.popped.push(popped);
            }
            Operation::Restore(pick) => self.restore(pick).await,
            Operation::Stats => {
                self.look_at_details().await;
                let stats = self.subject.stats(&self.queue).await;
                let ends = (stats.oldest.map(|message| message.id), stats.newest.map(|message| message.id));
                assert_eq!(stats.total, self.feed.len() as u64);
                assert_eq!(stats.claimed, self.claimed().len() as u64);
                assert_eq!(ends, (self.feed.first().map(|kept| kept.id), self.feed.last().map(|kept| kept.id)));
            }
            Operation::Claim { limit, ticks, grace_ticks, prefer } => {
                self.claim(limit, ticks, grace_ticks, &prefer).await;
            }
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
                assert_eq!(page.is_fair, self.is_fair());
            }
            Operation::Tidy => self.subject.tidy_project().await,
            Operation::Advance(ticks) => {
                for part_s in self.parts_of(ticks) {
                    self.subject.advance(&self.queue, Duration::from_secs(part_s.into())).await;
                    self.now_s += i64::from(part_s);
                    self.latest_s = self.latest_s.max(self.now_s);
                    self.settle_where_it_matters().await;
                }
            }
            Operation::Rewind(ticks) => {
                // What has ended unseen might be back; what has been seen to end is not.
                self.subject.count(&self.queue).await;
                self.note_logical_time().await;
                self.subject.rewind(&self.queue, Duration::from_secs((ticks * TICK_S).into())).await;
                self.now_s -= i64::from(ticks * TICK_S);
                if self.has_delayed() {
                    // The queue sees the step now. What it does not see passes without its logical time.
                    self.subject.count(&self.queue).await;
                    self.offset_us += u64::from(ticks * TICK_S) * 1_000_000;
                }
            }
        }
    }

    async fn create(&mut self, look: Look) {
        let keys = self.keys(look, false);
        let creation = self.subject.store().create_queue(&self.queue, &keys).await;
        if self.state.is_none() {
            assert_eq!(creation, Ok(Creation::Created));
            self.expect_new(keys).await;
        } else {
            assert_eq!(creation, Ok(Creation::Existed));
            self.look_at_queue().await;
        }
    }

    /// How often messages are given out before they become dead letters, if they do.
    pub(super) fn claim_count_max(&self) -> Option<u32> {
        let (keys, _) = self.state.as_ref()?;
        keys.dead_letters().map(|letters| letters.claim_count_max)
    }

    fn delays(&self) -> bool {
        self.state.as_ref().is_some_and(|(keys, _)| keys.default_message_delay_s().is_some())
    }

    /// Metadata of that look, which says how often messages are given out too.
    fn keys(&self, Look { colour, shards, own }: Look, updated: bool) -> Metadata {
        let is_fair = self.kind == Kind::Fair;
        let claim_count_max = Some(colour % 4).filter(|count| *count < 3);
        metadata(json!({
            "colour": colour,
            "updated": updated,
            "_default_message_delay": colour % 2,
            "_max_claim_count": claim_count_max,
            "_dead_letter_queue": self.letters().name().as_str(),
            // Its clock is not moved.
            "_dead_letter_queue_messages_ttl": LETTER_TTL_S,
            "_shards": is_fair.then_some(shards),
            "_shards_per_tenant": own.filter(|_| is_fair),
        }))
    }

    async fn update(&mut self, look: Look) {
        let keys = self.keys(look, true);
        let seen = self.state.as_ref().map_or(self.last_revision, |(_, revision)| *revision);
        let update = self.subject.store().update_queue(&self.queue, seen, &keys).await;
        if self.state.is_some() {
            assert_eq!(update, Ok(Update::Done));
            self.divide(&keys);
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
    async fn post(&mut self, batch: Batch) {
        let Batch { client: by, tenants, count, ticks, delay_ticks } = batch;
        let ttl_s = TICK_S * ticks + TICK_S / 2;
        let delay_s = delay_ticks.map_or(0, |ticks| TICK_S * ticks + 85);
        let first = self.ever.len();
        let batch: Vec<_> = (first..first + count)
            .map(|number| {
                let delay_s = if number % 3 == 0 { 0 } else { delay_s };
                NewMessage { ttl_s, delay_s, body: body(&json!({"n": number})), lot: self.lot_of(number % tenants) }
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
        let shards = self.place(&batch);
        let ends_s = self.now_s + i64::from(ttl_s);
        let last = self.feed.iter().rfind(|kept| kept.let_in).map_or(0, |kept| kept.id.rank().micros());
        for ((id, message), shard) in ids.iter().zip(batch).zip(shards) {
            let rank = id.rank().micros();
            let logical_us = self.clock_us(self.now_s + RUN_S) + self.offset_us;
            let most_us = self.clock_us(self.now_s + RUN_S) + self.most_offset_us.max(self.offset_us);
            let most_us = most_us.max(self.ever.iter().map(|id| id.rank().micros()).max().unwrap_or(0) + 1_000_000);
            let (earliest, latest) =
                (self.clock_us(self.now_s), self.clock_us(self.latest_s + RUN_S).max(last + 1_000_000).max(most_us));
            let hidden_us = u64::from(message.delay_s) * 1_000_000;
            if message.delay_s > 0 && rank - hidden_us > logical_us {
                // Ranks are ahead of the clock, and logical time has been raised to them.
                self.offset_us = rank - hidden_us - self.clock_us(self.now_s);
            }
            assert!((earliest + hidden_us..latest + hidden_us).contains(&rank), "{rank} is not the place of its delay");
            assert!(rank > last, "{rank} may have been passed");
            let let_in = message.delay_s == 0;
            let (claim, back_s, claim_count, was_claimed) = Default::default();
            self.feed.push(Kept {
                id: *id,
                client: by,
                ttl_s,
                body: message.body,
                ends_s,
                let_in,
                claim,
                back_s,
                claim_count,
                was_claimed,
                shard,
            });
        }
        self.feed.sort_by_key(|kept| kept.id.rank());
        for delayed in [false, true] {
            let is_delayed = |id: &&MessageId| self.feed.iter().any(|kept| kept.id == **id && kept.let_in != delayed);
            assert_ascending(&ids.iter().filter(is_delayed).copied().collect::<Vec<_>>());
        }
        self.ever.extend(ids);
    }

    /// What the queue's clock says, at the least, when the run has moved it so far.
    pub(super) fn clock_us(&self, offset_s: i64) -> u64 {
        self.started_us.checked_add_signed(offset_s * 1_000_000).expect("it is after 1970")
    }

    /// Lets in what is due.
    fn let_in(&mut self) {
        let now_us = self.clock_us(self.now_s) + self.offset_us;
        // What stands before something visible was due before it.
        let last = self.feed.iter().rposition(|kept| kept.let_in || kept.id.rank().micros() <= now_us);
        let is_fair = self.is_fair();
        for kept in self.feed.iter_mut().take(last.map_or(0, |last| last + 1)) {
            if !kept.let_in && is_fair {
                kept.shard = kept.shard.or(Some(UNSHARDED));
            }
            kept.let_in = true;
            self.fairness.last = self.fairness.last.max(kept.id.rank());
        }
        self.most_offset_us = self.most_offset_us.max(self.offset_us);
        if !self.has_delayed() {
            self.offset_us = 0;
        }
    }

    fn has_delayed(&self) -> bool {
        self.feed.iter().any(|kept| !kept.let_in)
    }

    /// Changes the queue, with which it notes its logical time: that is not behind the clock before it steps back.
    async fn note_logical_time(&mut self) {
        if self.state.is_some() && self.has_delayed() {
            let ids = self.subject.post(&self.queue, &super::subject::messages(60, 1)).await;
            self.subject.delete_messages(&self.queue, &ids).await;
            self.fairness.last = self.fairness.last.max(ids[0].rank());
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
