//! Fair queues in the model: the placement of messages, the order of delivery, and the detailed
//! stats.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::sample::Index;
use sukkal_domain::{Metadata, NewMessage, Rank, ShardAssignment};
use sukkal_storage::Popped;

use super::{ExpectedMessage, RUN_S, Run, TICK_S};
use crate::conformance::cases::fair_helpers::{Counts, counts, named};
use crate::conformance::cases::turn_model::{TurnModel, UNSHARDED};

/// Whether the queue of a sequence can become fair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::conformance) enum Kind {
    Plain,
    Fair,
}

/// The state of a fair queue in addition to the shards of its messages.
#[derive(Clone, Debug, Default)]
pub(in crate::conformance) struct Fairness {
    pub(in crate::conformance) turn: TurnModel,
    /// The highest rank that was ever available.
    pub(in crate::conformance) last: Rank,
    /// The highest rank when the queue became fair. Messages up to it never have a shard.
    boundary: Rank,
    tenants: BTreeMap<String, u32>,
    last_post_s: i64,
}

/// Popped messages that may be restored, as returned by the store and as expected.
pub(in crate::conformance) type PoppedAndExpected = (Vec<Popped>, Vec<ExpectedMessage>);

/// The two parts of a tick, in seconds. Expiries happen in the first part and due times in the
/// second.
const TICK_PARTS_S: [u32; 2] = [70, TICK_S - 70];
const REMEMBERED_S: i64 = 3_600;

impl Run<'_> {
    /// Returns whether the queue is fair, by its metadata or because it still has sharded messages.
    pub(in crate::conformance) fn is_fair(&self) -> bool {
        self.is_divided() || self.feed.iter().any(|message| message.shard.is_some())
    }

    fn is_divided(&self) -> bool {
        self.state.as_ref().is_some_and(|(keys, _)| keys.sharding().is_some())
    }

    /// Applies the sharding of the new metadata.
    pub(in crate::conformance) fn set_shards(&mut self, keys: &Metadata) {
        if keys.sharding().is_some() && !self.is_fair() {
            self.fairness.boundary = self.fairness.last;
            self.fairness.turn = TurnModel::default();
        }
    }

    /// Returns the clock steps for this number of ticks. They are smaller while an expiry might
    /// make the queue plain before a message is due.
    pub(in crate::conformance) fn clock_steps(&self, ticks: u32) -> Vec<u32> {
        let may_become_plain = self.is_fair() && !self.is_divided();
        if may_become_plain { TICK_PARTS_S.repeat(ticks as usize) } else { vec![ticks * TICK_S] }
    }

    pub(in crate::conformance) async fn apply_due_changes_if_fair(&mut self) {
        if self.is_fair() && !self.is_divided() {
            self.subject.count(&self.queue).await;
        }
        self.apply_due_changes();
    }

    /// Returns the assignment of a tenant, if the queue is sharded.
    pub(in crate::conformance) fn assignment_of(&self, tenant: usize) -> Option<Arc<ShardAssignment>> {
        let (keys, _) = self.state.as_ref()?;
        keys.sharding().map(|sharding| Arc::new(sharding.assign(&named(&format!("tenant {tenant}")))))
    }

    /// Returns the shard of each message of a post.
    pub(in crate::conformance) fn assign_shards(&mut self, batch: &[NewMessage]) -> Vec<Option<u16>> {
        if !self.is_fair() {
            return vec![None; batch.len()];
        }
        let mut lengths: BTreeMap<u16, usize> = BTreeMap::new();
        for message in self.feed.iter().filter(|message| !message.is_in_flight()) {
            *lengths.entry(message.shard.unwrap_or(UNSHARDED)).or_default() += 1;
        }
        let mut delays: Vec<u32> = Vec::new();
        for message in batch {
            if !delays.contains(&message.delay_s) {
                delays.push(message.delay_s);
            }
        }
        let mut order: Vec<usize> = (0..batch.len()).collect();
        order.sort_by_key(|position| delays.iter().position(|delay| *delay == batch[*position].delay_s));
        let mut shards = vec![None; batch.len()];
        for position in order {
            let choice = batch[position].assignment.as_ref().map_or(0, |assignment| {
                let numbers = assignment.shards.iter().map(|shard| shard.number());
                numbers
                    .min_by_key(|shard| lengths.get(shard).copied().unwrap_or(0))
                    .expect("an assignment is not empty")
            });
            *lengths.entry(choice).or_default() += 1;
            shards[position] = Some(choice);
        }
        self.count_tenants(batch);
        shards
    }

    fn count_tenants(&mut self, batch: &[NewMessage]) {
        self.forget_tenants();
        for assignment in batch.iter().filter_map(|message| message.assignment.as_ref()) {
            *self.fairness.tenants.entry(assignment.tenant.to_string()).or_default() += 1;
            self.fairness.last_post_s = self.now_s;
        }
    }

    fn forget_tenants(&mut self) {
        if self.now_s - self.fairness.last_post_s >= REMEMBERED_S {
            self.fairness.tenants.clear();
        }
    }

    pub(in crate::conformance) async fn pop(&mut self, limit: usize) -> PoppedAndExpected {
        let (pop, popped) = self.subject.begin_pop(&self.queue, limit).await;
        self.subject.store().complete_pop(&self.queue, pop).await.expect("the store answers");

        let expected = self.deliver(limit, &[]);
        let counted: Vec<_> = popped.iter().map(|popped| (popped.message.id, popped.message.claim_count)).collect();
        assert_eq!(counted, expected.iter().map(|message| (message.id, message.claim_count)).collect::<Vec<_>>());
        let reported: Vec<_> = popped.iter().map(|popped| popped.pickup_delay.is_some()).collect();
        assert_eq!(reported, expected.iter().map(|message| !message.was_claimed).collect::<Vec<_>>());
        let waited: Vec<_> = popped.iter().filter_map(|popped| popped.pickup_delay).collect();
        self.check_pick_up_delays(&expected, &waited);
        self.delete(|message| expected.contains(message));
        (popped, expected)
    }

    /// Compares the pick-up delays of messages that are delivered for the first time.
    pub(in crate::conformance) fn check_pick_up_delays(&self, given: &[ExpectedMessage], waited: &[Duration]) {
        let new: Vec<_> = given.iter().filter(|message| !message.was_claimed).collect();
        assert_eq!(waited.len(), new.len());
        for (message, waited) in new.iter().zip(waited) {
            let (least, most) = self.since(message.id.rank());
            assert!((least..=most).contains(waited), "waited for {waited:?} instead of {least:?} to {most:?}");
        }
    }

    /// Returns the smallest and the largest time that can have passed since the rank was assigned.
    pub(in crate::conformance) fn since(&self, rank: Rank) -> (Duration, Duration) {
        let at = |offset_s| Duration::from_micros(self.clock_us(offset_s).saturating_sub(rank.micros()));
        (at(self.now_s), at(self.now_s + RUN_S))
    }

    /// Restores some of the popped messages.
    pub(in crate::conformance) async fn restore(&mut self, pick: Index) {
        if self.popped.is_empty() {
            return;
        }
        let (popped, messages) = self.popped.remove(pick.index(self.popped.len()));

        self.subject.store().restore_messages(&self.queue, &popped).await.expect("the store answers");

        self.totals.posted += messages.len() as u64;
        let (is_fair, boundary) = (self.is_fair(), self.fairness.boundary);
        for message in messages {
            let may_have_one = is_fair && message.id.rank() > boundary;
            self.feed.push(ExpectedMessage { shard: message.shard.filter(|_| may_have_one), ..message });
        }
        self.feed.sort_by_key(|message| message.id.rank());
    }

    /// Compares the detailed stats with the model.
    pub(in crate::conformance) async fn check_details(&mut self) {
        let details = self.subject.details(&self.queue).await;

        let is_fair = self.is_fair();
        let mut shards: BTreeMap<u16, Counts> = BTreeMap::new();
        for message in &self.feed {
            let position = message.shard.filter(|_| is_fair).unwrap_or(UNSHARDED);
            let which = if message.is_in_flight() { 2 } else { usize::from(!message.is_released) };
            shards.entry(position).or_default()[which] += 1;
        }
        let unsharded = shards.remove(&UNSHARDED).unwrap_or_default();
        let reported: Vec<_> =
            details.shards.iter().map(|(shard, holding)| (shard.number(), counts(holding))).collect();
        assert_eq!((reported, counts(&details.unsharded)), (shards.into_iter().collect(), unsharded));
        let ages = details.shards.iter().map(|(shard, holding)| (shard.number(), holding.oldest_age_s));
        for (position, age_s) in ages.chain([(UNSHARDED, details.unsharded.oldest_age_s)]) {
            let is_there = |message: &&ExpectedMessage| {
                message.shard.unwrap_or(UNSHARDED) == position && message.is_released && !message.is_in_flight()
            };
            let expected = self.feed.iter().find(is_there).map(|message| self.since(message.id.rank()));
            assert_eq!(age_s.is_some(), expected.is_some());
            if let (Some(age_s), Some((least, most))) = (age_s, expected) {
                assert!((least.as_secs()..=most.as_secs()).contains(&age_s), "{age_s} s old, of at least {least:?}");
            }
        }
        self.forget_tenants();
        let sum: u32 = self.fairness.tenants.values().sum();
        let mut expected: Vec<_> = self.fairness.tenants.iter().filter(|_| is_fair).collect();
        expected.sort_by_key(|(name, count)| (u32::MAX - **count, (*name).clone()));
        let reported: Vec<_> = details.tenants.iter().map(|(tenant, _)| tenant.to_string()).collect();
        assert_eq!(reported, expected.iter().map(|(name, _)| (*name).clone()).collect::<Vec<_>>());
        for ((_, share), (name, count)) in details.tenants.iter().zip(expected) {
            let expected = f64::from(*count) / f64::from(sum);
            assert!((share - expected).abs() < 1e-9, "{name} has a share of {share} instead of {expected}");
        }
    }
}
