//! Random sequences of operations on one queue, compared with a model in memory.
//!
//! Each kind of deadline has its own offset from a multiple of 100 s: messages expire at 50, claims
//! at 25, and extended messages at 65. Delays end at 85, and delays of returned messages at 35. The
//! clock moves by multiples of 100 s, so that the duration of the run never decides.

mod claims;
mod fairness;
mod operations;
mod redrive;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::json;
use sukkal::domain::{Body, ClaimId, Creation, Message, MessageId, Metadata, NewMessage, QueueId, Revision, Scope};
use sukkal::storage::{Listing, PostOutcome, UpdateOutcome};

use self::claims::ExpectedClaim;
use self::fairness::{Fairness, Kind, PoppedAndExpected};
use self::operations::{Batch, Operation, QueueSettings, operation, queue_settings};
use crate::conformance::cases::turn_model::UNSHARDED;
use crate::conformance::support::any::check_random_values;
use crate::conformance::support::subject::{Subject, assert_ascending, body, client, ids_of, metadata};

const SEQUENCES: u32 = 160;
const OPERATIONS_MAX: usize = 50;
pub(in crate::conformance) const TICK_S: u32 = 100;
const DEAD_LETTER_TTL_S: u32 = 1_000_000;
/// Upper bound of the duration of a run, in seconds.
pub(in crate::conformance) const RUN_S: i64 = 12;

pub(in crate::conformance) async fn any_sequence_of_operations_matches_the_model(subject: &Subject) {
    let subject = subject.clone();
    let kind = || prop_oneof![2 => Just(Kind::Plain), 3 => Just(Kind::Fair)];
    let sequences = move || (kind(), queue_settings(), vec(operation(), 1..OPERATIONS_MAX));

    check_random_values(SEQUENCES, sequences, async move |(kind, settings, operations)| {
        Run::new(&subject, kind).run(settings, operations).await;
    })
    .await;
}

/// A message that should be in the queue.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::conformance) struct ExpectedMessage {
    pub(in crate::conformance) id: MessageId,
    pub(in crate::conformance) client: u8,
    pub(in crate::conformance) ttl_s: u32,
    pub(in crate::conformance) body: Body,
    pub(in crate::conformance) expires_s: i64,
    /// Whether the message has been released, that is, was due at some time.
    pub(in crate::conformance) is_released: bool,
    pub(in crate::conformance) claim: Option<ClaimId>,
    /// The time until which the message is unavailable after it was returned with a delay, in
    /// seconds.
    pub(in crate::conformance) returned_until_s: Option<i64>,
    pub(in crate::conformance) claim_count: u32,
    pub(in crate::conformance) was_claimed: bool,
    /// The shard of the message, or `UNSHARDED` for the position of messages without one. `None` in
    /// a queue that is not fair.
    pub(in crate::conformance) shard: Option<u16>,
}

/// A queue under test, and its expected content.
pub(in crate::conformance) struct Run<'a> {
    pub(in crate::conformance) subject: &'a Subject,
    pub(in crate::conformance) queue: QueueId,
    pub(in crate::conformance) state: Option<(Metadata, Revision)>,
    pub(in crate::conformance) feed: Vec<ExpectedMessage>,
    all_ids: Vec<MessageId>,
    pub(in crate::conformance) claims: Vec<ExpectedClaim>,
    pub(in crate::conformance) all_claim_ids: Vec<ClaimId>,
    last_revision: Revision,
    started_us: u64,
    pub(in crate::conformance) now_s: i64,
    latest_s: i64,
    /// How far the queue's logical time is ahead of its clock while it has delayed messages, in
    /// microseconds.
    offset_us: u64,
    /// The largest value of that offset. A post may not know yet that no delayed message is left.
    offset_max_us: u64,
    /// The expected content of the dead-letter queue, in order.
    pub(in crate::conformance) moved: Vec<ExpectedMessage>,
    pub(in crate::conformance) kind: Kind,
    pub(in crate::conformance) fairness: Fairness,
    pub(in crate::conformance) popped: Vec<PoppedAndExpected>,
}

impl<'a> Run<'a> {
    fn new(subject: &'a Subject, kind: Kind) -> Self {
        let queue = subject.id(&uuid::Uuid::new_v4().to_string());
        let (feed, all_ids, claims, all_claim_ids, moved) = Default::default();
        let real = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
        Self {
            subject,
            queue,
            state: None,
            feed,
            all_ids,
            claims,
            all_claim_ids,
            last_revision: Revision(0),
            started_us: u64::try_from(real.as_micros()).expect("it fits"),
            now_s: 0,
            latest_s: 0,
            offset_us: 0,
            offset_max_us: 0,
            moved,
            kind,
            fairness: Fairness::default(),
            popped: Vec::new(),
        }
    }

    async fn run(mut self, settings: QueueSettings, operations: Vec<Operation>) {
        self.create(settings).await;
        for operation in operations {
            self.step(operation).await;
            self.apply_due_changes();
        }
        self.check_details().await;
        self.check_feed().await;
        self.check_dead_letters().await;
        self.subject.delete(&self.queue).await;
    }

    /// Applies expiries and due times up to the current time.
    pub(in crate::conformance) fn apply_due_changes(&mut self) {
        self.expire_claims();
        let now_s = self.now_s;
        self.feed.retain(|message| message.expires_s > now_s);
        self.release_due();
    }

    /// Messages that were popped before a purge are not restored.
    async fn purge(&mut self) {
        self.subject.store().purge_messages(&self.queue).await.expect("the store answers");
        (self.feed, self.claims, self.popped) = (Vec::new(), Vec::new(), Vec::new());
    }

    async fn step(&mut self, operation: Operation) {
        match operation {
            Operation::Create(settings) => self.create(settings).await,
            Operation::Delete => {
                self.subject.delete(&self.queue).await;
                (self.state, self.feed, self.claims) = (None, Vec::new(), Vec::new());
                (self.fairness, self.popped) = (Fairness::default(), Vec::new());
            }
            Operation::Purge => self.purge().await,
            Operation::Update(settings) => self.update(settings).await,
            Operation::UpdateStale => {
                let stale = Revision(self.last_revision.0 - 1);
                let update = self.subject.store().update_queue(&self.queue, stale, &Metadata::default()).await;
                assert_eq!(update, Ok(UpdateOutcome::Stale));
                self.check_queue().await;
            }
            Operation::Post(batch) => self.post(batch).await,
            Operation::PostStale => {
                let stale = Revision(self.last_revision.0 - 1);
                let batch = crate::conformance::support::subject::messages(60, 2);
                let posting = self.subject.try_post(&self.queue, stale, &client(0), &batch).await;
                assert!(matches!(posting, Ok(PostOutcome::Stale(_))), "{posting:?}");
            }
            Operation::List { after, limit, not_from } => self.list(after, limit, not_from).await,
            Operation::Get(picks) => self.get(&picks).await,
            Operation::DeleteMessages(picks) => {
                let ids = self.picked_ids(&picks);
                self.subject.delete_messages(&self.queue, &ids).await;
                self.feed.retain(|message| !ids.contains(&message.id));
            }
            Operation::Count => assert_eq!(self.subject.count(&self.queue).await, self.feed.len()),
            Operation::Pop(limit) => drop(self.pop(limit).await),
            Operation::PopForRestore(limit) => {
                let popped = self.pop(limit).await;
                self.popped.push(popped);
            }
            Operation::Restore(pick) => self.restore(pick).await,
            Operation::Stats => self.check_stats().await,
            Operation::Claim { limit, ticks, grace_ticks, prefer } => {
                self.claim(limit, ticks, grace_ticks, &prefer).await;
            }
            Operation::GetClaim(claim) => self.check_claim(claim).await,
            Operation::Renew { claim, ticks, grace_ticks } => self.renew(claim, ticks, grace_ticks).await,
            Operation::Release(claim) => self.release(claim).await,
            Operation::DeleteWithClaim { message, claim } => {
                if let Some(id) = self.picked_ids(&[message]).first() {
                    self.delete_with_claim(*id, claim).await;
                }
            }
            Operation::DeleteClaimed { messages, claims } => {
                self.delete_claimed(&self.picked_ids(&messages), &claims).await;
            }
            Operation::Return { claim, message, delay_ticks } => {
                if let Some(id) = self.picked_ids(&[message]).first() {
                    self.return_message(claim, *id, delay_ticks).await;
                }
            }
            Operation::Redrive(limit) => self.redrive(limit).await,
            Operation::ListWithClaimed(limit) => {
                let listed = self.subject.feed_with_claimed(&self.queue, limit, None).await;
                assert_eq!(listed, ids_where(&self.feed, |message| message.is_released));
            }
            Operation::ListWithDelayed(limit) => {
                let scope = Scope { claimed: false, delayed: true };
                let listing = Listing { scope, ..Listing::first(limit) };
                let page = self.subject.store().list_messages(&self.queue, &listing).await.expect("the store answers");
                let delays = self.delays();
                let expected =
                    ids_where(&self.feed, |message| !message.is_in_flight() && (message.is_released || delays));
                assert_eq!(ids_of(&page.messages), expected[..limit.min(expected.len())]);
                assert_eq!(page.is_fair, self.is_fair());
            }
            Operation::Maintain => self.subject.run_maintenance().await,
            Operation::Advance(ticks) => {
                for part_s in self.clock_steps(ticks) {
                    self.subject.advance(&self.queue, Duration::from_secs(part_s.into())).await;
                    self.now_s += i64::from(part_s);
                    self.latest_s = self.latest_s.max(self.now_s);
                    self.apply_due_changes_if_fair().await;
                }
            }
            Operation::Rewind(ticks) => {
                // A message whose expiry no operation has seen could come back when the clock steps
                // back, so look now.
                self.subject.count(&self.queue).await;
                self.note_logical_time().await;
                self.subject.rewind(&self.queue, Duration::from_secs((ticks * TICK_S).into())).await;
                self.now_s -= i64::from(ticks * TICK_S);
                if self.has_delayed() {
                    // The queue must observe the step now, because its logical time does not
                    // include a step that it has not observed.
                    self.subject.count(&self.queue).await;
                    self.offset_us += u64::from(ticks * TICK_S) * 1_000_000;
                }
            }
        }
    }

    async fn create(&mut self, settings: QueueSettings) {
        let keys = self.keys(settings, false);
        let creation = self.subject.store().create_queue(&self.queue, &keys).await;
        if self.state.is_none() {
            assert_eq!(creation, Ok(Creation::Created));
            self.check_new_state(keys).await;
        } else {
            assert_eq!(creation, Ok(Creation::Existed));
            self.check_queue().await;
        }
    }

    /// Returns how often messages are delivered before they become dead letters, if they do.
    pub(in crate::conformance) fn claim_count_max(&self) -> Option<u32> {
        let (keys, _) = self.state.as_ref()?;
        keys.dead_letters().map(|dead_letter_queue| dead_letter_queue.claim_count_max)
    }

    fn delays(&self) -> bool {
        self.state.as_ref().is_some_and(|(keys, _)| keys.default_message_delay_s().is_some())
    }

    /// Returns the metadata for these settings, which include the maximum claim count.
    fn keys(&self, QueueSettings { color, shards, own }: QueueSettings, updated: bool) -> Metadata {
        let is_fair = self.kind == Kind::Fair;
        let claim_count_max = Some(color % 4).filter(|count| *count < 3);
        metadata(json!({
            "color": color,
            "updated": updated,
            "_default_message_delay": color % 2,
            "_max_claim_count": claim_count_max,
            "_dead_letter_queue": self.dead_letter_queue().name().as_str(),
            // The clock of the dead-letter queue is not moved.
            "_dead_letter_queue_messages_ttl": DEAD_LETTER_TTL_S,
            "_shards": is_fair.then_some(shards),
            "_shards_per_tenant": own.filter(|_| is_fair),
        }))
    }

    async fn update(&mut self, settings: QueueSettings) {
        let keys = self.keys(settings, true);
        let seen = self.state.as_ref().map_or(self.last_revision, |(_, revision)| *revision);
        let update = self.subject.store().update_queue(&self.queue, seen, &keys).await;
        if self.state.is_some() {
            assert_eq!(update, Ok(UpdateOutcome::Done));
            self.set_shards(&keys);
            self.check_new_state(keys).await;
        } else {
            assert_eq!(update, Ok(UpdateOutcome::Stale));
        }
    }

    /// Checks that the queue has this metadata, at a revision higher than all before.
    async fn check_new_state(&mut self, keys: Metadata) {
        let queue = self.subject.get(&self.queue).await.expect("it exists");
        assert_eq!(queue.metadata, keys);
        assert!(queue.revision > self.last_revision);
        self.last_revision = queue.revision;
        self.state = Some((keys, queue.revision));
    }

    /// Compares the stats and the detailed stats with the model.
    async fn check_stats(&mut self) {
        self.check_details().await;
        let stats = self.subject.stats(&self.queue).await;
        let ends = (stats.oldest.map(|message| message.id), stats.newest.map(|message| message.id));
        assert_eq!(stats.total, self.feed.len() as u64);
        assert_eq!(stats.claimed, self.claimed().len() as u64);
        assert_eq!(ends, (self.feed.first().map(|message| message.id), self.feed.last().map(|message| message.id)));
    }

    async fn check_queue(&self) {
        let queue = self.subject.get(&self.queue).await.map(|queue| (queue.metadata, queue.revision));
        assert_eq!(queue, self.state);
    }

    /// Posts messages. If there is a delay, two of three messages have it.
    async fn post(&mut self, batch: Batch) {
        let Batch { client: by, tenants, count, ticks, delay_ticks } = batch;
        let ttl_s = TICK_S * ticks + TICK_S / 2;
        let delay_s = delay_ticks.map_or(0, |ticks| TICK_S * ticks + 85);
        let first = self.all_ids.len();
        let batch: Vec<_> = (first..first + count)
            .map(|number| {
                let delay_s = if number % 3 == 0 { 0 } else { delay_s };
                NewMessage {
                    ttl_s,
                    delay_s,
                    body: body(&json!({"n": number})),
                    assignment: self.assignment_of(number % tenants),
                }
            })
            .collect();
        let seen = self.last_revision;
        let posting = self.subject.try_post(&self.queue, seen, &client(by.into()), &batch).await;
        if self.state.is_none() {
            assert_eq!(posting, Ok(PostOutcome::Stale(None)));
            return;
        }
        let Ok(PostOutcome::Posted(ids)) = posting else { panic!("not posted: {posting:?}") };
        assert_eq!(ids.len(), count);
        let shards = self.assign_shards(&batch);
        let expires_s = self.now_s + i64::from(ttl_s);
        let last =
            self.feed.iter().rfind(|message| message.is_released).map_or(0, |message| message.id.rank().micros());
        for ((id, message), shard) in ids.iter().zip(batch).zip(shards) {
            let rank = id.rank().micros();
            let logical_us = self.clock_us(self.now_s + RUN_S) + self.offset_us;
            let most_us = self.clock_us(self.now_s + RUN_S) + self.offset_max_us.max(self.offset_us);
            let most_us = most_us.max(self.all_ids.iter().map(|id| id.rank().micros()).max().unwrap_or(0) + 1_000_000);
            let (earliest, latest) =
                (self.clock_us(self.now_s), self.clock_us(self.latest_s + RUN_S).max(last + 1_000_000).max(most_us));
            let hidden_us = u64::from(message.delay_s) * 1_000_000;
            if message.delay_s > 0 && rank - hidden_us > logical_us {
                // Ranks are ahead of the clock, and logical time has been raised to them.
                self.offset_us = rank - hidden_us - self.clock_us(self.now_s);
            }
            assert!((earliest + hidden_us..latest + hidden_us).contains(&rank), "{rank} does not match the delay");
            assert!(rank > last, "a reader may have passed {rank} already");
            let is_released = message.delay_s == 0;
            let (claim, returned_until_s, claim_count, was_claimed) = Default::default();
            self.feed.push(ExpectedMessage {
                id: *id,
                client: by,
                ttl_s,
                body: message.body,
                expires_s,
                is_released,
                claim,
                returned_until_s,
                claim_count,
                was_claimed,
                shard,
            });
        }
        self.feed.sort_by_key(|message| message.id.rank());
        for delayed in [false, true] {
            let is_delayed =
                |id: &&MessageId| self.feed.iter().any(|message| message.id == **id && message.is_released != delayed);
            assert_ascending(&ids.iter().filter(is_delayed).copied().collect::<Vec<_>>());
        }
        self.all_ids.extend(ids);
    }

    /// Returns the lowest possible time of the queue's clock after the run has moved it by
    /// `offset_s`, in microseconds.
    pub(in crate::conformance) fn clock_us(&self, offset_s: i64) -> u64 {
        self.started_us.checked_add_signed(offset_s * 1_000_000).expect("it is after 1970")
    }

    /// Releases the delayed messages that are due.
    fn release_due(&mut self) {
        let now_us = self.clock_us(self.now_s) + self.offset_us;
        // Messages with lower ranks than a visible message were due before it.
        let last = self.feed.iter().rposition(|message| message.is_released || message.id.rank().micros() <= now_us);
        let is_fair = self.is_fair();
        for message in self.feed.iter_mut().take(last.map_or(0, |last| last + 1)) {
            if !message.is_released && is_fair {
                message.shard = message.shard.or(Some(UNSHARDED));
            }
            message.is_released = true;
            self.fairness.last = self.fairness.last.max(message.id.rank());
        }
        self.offset_max_us = self.offset_max_us.max(self.offset_us);
        if !self.has_delayed() {
            self.offset_us = 0;
        }
    }

    fn has_delayed(&self) -> bool {
        self.feed.iter().any(|message| !message.is_released)
    }

    /// Updates the queue, which records its logical time: it is not behind the clock before the
    /// clock steps back.
    async fn note_logical_time(&mut self) {
        if self.state.is_some() && self.has_delayed() {
            let ids = self.subject.post(&self.queue, &crate::conformance::support::subject::messages(60, 1)).await;
            self.subject.delete_messages(&self.queue, &ids).await;
            self.fairness.last = self.fairness.last.max(ids[0].rank());
        }
    }

    async fn list(&self, after: Option<Index>, limit: usize, not_from: Option<u8>) {
        let after = after.filter(|_| !self.all_ids.is_empty()).map(|index| *index.get(&self.all_ids));
        let expected: Vec<_> = self
            .feed
            .iter()
            .filter(|message| after.is_none_or(|after| message.id.rank() > after.rank()))
            .filter(|message| Some(message.client) != not_from && message.is_released && !message.is_in_flight())
            .map(|message| (message.id, message.ttl_s, message.body.clone()))
            .collect();

        let page = self.subject.list_for(&self.queue, after, limit, not_from.map(|by| client(by.into()))).await;

        let page: Vec<_> = page.into_iter().map(|message| (message.id, message.ttl_s, message.body)).collect();
        assert!(!page.is_empty() || expected.is_empty(), "an empty page before the end of the feed");
        assert_eq!(page, expected[..page.len().min(expected.len())]);
    }

    async fn get(&self, picks: &[Index]) {
        let ids = self.picked_ids(picks);
        let expected: Vec<_> =
            ids.iter().copied().filter(|id| self.feed.iter().any(|message| message.id == *id)).collect();

        assert_eq!(self.subject.found(&self.queue, &ids).await, expected);
    }

    /// Returns the ids of the selected messages, each once.
    fn picked_ids(&self, picks: &[Index]) -> Vec<MessageId> {
        let mut ids = Vec::new();
        for pick in picks.iter().filter(|_| !self.all_ids.is_empty()) {
            let id = *pick.get(&self.all_ids);
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        ids
    }
}

impl ExpectedMessage {
    /// Returns whether the message is claimed, or was returned with a delay that has not ended.
    pub(in crate::conformance) fn is_in_flight(&self) -> bool {
        self.claim.is_some() || self.returned_until_s.is_some()
    }
}

pub(in crate::conformance) fn ids_where(
    feed: &[ExpectedMessage],
    is_so: impl Fn(&ExpectedMessage) -> bool,
) -> Vec<MessageId> {
    feed.iter().filter(|message| is_so(message)).map(|message| message.id).collect()
}

/// Returns the id and the claim count of each message.
pub(in crate::conformance) fn counted(messages: &[Message]) -> Vec<(MessageId, u32)> {
    messages.iter().map(|message| (message.id, message.claim_count)).collect()
}
