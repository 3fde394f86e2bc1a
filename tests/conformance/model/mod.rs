//! Random sequences of operations on one queue, compared with a model in memory.
//!
//! Each kind of deadline has its own offset from a multiple of 100 s: messages expire at 50, claims
//! at 25, and extended messages at 65. Delays end at 85, and delays of returned messages at 35. The
//! clock moves by multiples of 100 s, so that the duration of the run never decides.

mod claims;
mod fairness;
mod messages;
mod operations;
mod peeking;
mod queue;
mod redrive;
mod time;
mod totals;

use std::time::{SystemTime, UNIX_EPOCH};

use proptest::collection::vec;
use proptest::prelude::*;
use sukkal_domain::{Body, ClaimId, Fence, Message, MessageId, Metadata, QueueId, Revision, Scope, Totals};
use sukkal_storage::{Listing, PostOutcome, UpdateOutcome};

use self::claims::ExpectedClaim;
use self::fairness::{Fairness, Kind, PoppedAndExpected};
use self::operations::{Batch, Operation, QueueSettings, operation, queue_settings};
use crate::conformance::support::any::check_random_values;
use crate::conformance::support::subject::{self, Subject, client, ids_of};

const SEQUENCES: u32 = 160;
const OPERATIONS_MAX: usize = 50;
pub(in crate::conformance) const TICK_S: u32 = 100;
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

/// A message that was delayed before the queue became fair, and is due when it becomes plain.
pub(in crate::conformance) async fn a_queue_that_becomes_plain_with_due_changes_matches_the_model(subject: &Subject) {
    let settings = |shards| QueueSettings { color: 0, shards, own: None };
    let post = |count, ticks, delay_ticks| Operation::Post(Batch { client: 0, tenants: 1, count, ticks, delay_ticks });
    let operations = vec![
        post(2, 3, Some(0)),
        Operation::Update(settings(2)),
        post(1, 0, None),
        Operation::Advance(1),
        Operation::Update(settings(1)),
    ];

    Run::new(subject, Kind::Fair).run(settings(1), operations).await;
}

/// A message that is delayed while others are posted, and then the clock steps back.
pub(in crate::conformance) async fn a_clock_that_steps_back_after_a_post_matches_the_model(subject: &Subject) {
    let settings = QueueSettings { color: 0, shards: 1, own: None };
    let delayed = Batch { client: 0, tenants: 1, count: 2, ticks: 1, delay_ticks: Some(1) };
    // The model posts a message before each step.
    let operations = vec![Operation::Post(delayed), Operation::Advance(1), Operation::Rewind(1), Operation::Advance(1)];

    Run::new(subject, Kind::Fair).run(settings, operations).await;
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
    /// When it was first claimed, in seconds of the queue's clock.
    pub(in crate::conformance) first_claimed_s: Option<i64>,
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
    pub(in crate::conformance) last_fence: Option<Fence>,
    pub(in crate::conformance) is_paused: bool,
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
    /// Where pops are final; others have been completed.
    pub(in crate::conformance) popped: Vec<PoppedAndExpected>,
    /// The expected totals of the queue.
    pub(in crate::conformance) totals: Totals,
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
            last_fence: None,
            is_paused: false,
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
            totals: Totals::default(),
        }
    }

    async fn run(mut self, settings: QueueSettings, operations: Vec<Operation>) {
        self.create(settings).await;
        for operation in operations {
            self.step(operation).await;
            self.apply_due_changes();
        }
        self.check_details().await;
        self.check_summary().await;
        self.check_feed().await;
        self.check_dead_letters().await;
        self.subject.delete(&self.queue).await;
    }

    /// Applies expiries and due times up to the current time.
    pub(in crate::conformance) fn apply_due_changes(&mut self) {
        self.expire_claims();
        let now_s = self.now_s;
        self.totals.expired += self.remove(|message| message.expires_s <= now_s);
        self.release_due();
        self.end_emptied_claims();
    }

    /// Pauses the queue, which creates it if it does not exist.
    async fn pause(&mut self) {
        self.subject.pause(&self.queue).await;
        self.is_paused = true;
        if self.state.is_none() {
            self.check_new_state(Metadata::default()).await;
        } else {
            self.check_queue().await;
        }
    }

    async fn step(&mut self, operation: Operation) {
        match operation {
            Operation::Create(settings) => self.create(settings).await,
            Operation::Delete => {
                self.subject.delete(&self.queue).await;
                (self.state, self.feed, self.claims) = (None, Vec::new(), Vec::new());
                (self.fairness, self.popped, self.is_paused) = (Fairness::default(), Vec::new(), false);
                self.totals = Totals::default();
            }
            Operation::Purge => self.purge().await,
            Operation::Pause => self.pause().await,
            Operation::Resume => {
                self.subject.resume(&self.queue).await;
                self.is_paused = false;
            }
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
                let batch = subject::messages(60, 2);
                let posting = self.subject.try_post(&self.queue, stale, &client(0), &batch).await;
                assert!(matches!(posting, Ok(PostOutcome::Stale(_))), "{posting:?}");
            }
            Operation::List { after, limit, not_from } => self.list(after, limit, not_from).await,
            Operation::Get(picks) => self.get(&picks).await,
            Operation::DeleteMessages(picks) => {
                let ids = self.picked_ids(&picks);
                self.subject.delete_messages(&self.queue, &ids).await;
                self.delete(|message| ids.contains(&message.id));
            }
            Operation::Count => assert_eq!(self.subject.count(&self.queue).await, self.feed.len()),
            Operation::Pop(limit) => drop(self.pop(limit).await),
            Operation::PopForRestore(limit) => {
                let popped = self.pop(limit).await;
                if popped.0.iter().all(|one| one.is_final) {
                    self.popped.push(popped);
                }
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
            Operation::Peek(peek) => self.peek(peek).await,
            Operation::Maintain => self.subject.run_maintenance().await,
            Operation::Advance(ticks) => self.advance(ticks).await,
            Operation::Rewind(ticks) => self.rewind(ticks).await,
        }
    }

    /// Compares the stats and the detailed stats with the model.
    async fn check_stats(&mut self) {
        self.check_details().await;
        self.check_summary().await;
        let stats = self.subject.stats(&self.queue).await;
        let outermost = (stats.oldest.map(|message| message.id), stats.newest.map(|message| message.id));
        assert_eq!(stats.total, self.feed.len() as u64);
        assert_eq!(stats.claimed, self.claimed().len() as u64);
        assert_eq!(
            outermost,
            (self.feed.first().map(|message| message.id), self.feed.last().map(|message| message.id))
        );
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
