//! The model's shards: where each message should stand, what is given out next, and what is told of both.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::sample::Index;
use sukkal::domain::{Lot, Metadata, NewMessage, Rank};
use sukkal::storage::Popped;

use super::fairness::{Counts, counts, named};
use super::model::{Kept, RUN_S, Run, TICK_S};
use super::rotation::{Rotation, UNSHARDED};

/// Whether the queue of a sequence may become fair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    Fair,
}

/// What a queue remembers of being fair, beside the shards of its messages.
#[derive(Clone, Debug, Default)]
pub(super) struct Fairness {
    pub(super) rotation: Rotation,
    /// The last rank that was ever visible.
    pub(super) last: Rank,
    /// What was visible when the queue became fair, which never has a shard.
    boundary: Rank,
    tenants: BTreeMap<String, u32>,
    last_post_s: i64,
}

/// Messages that were popped, and may be restored.
pub(super) type PoppedAndKept = (Vec<Popped>, Vec<Kept>);

/// The parts of a tick: what ends in it does so in the first, and what is due in it is so in the second.
const PARTS_S: [u32; 2] = [70, TICK_S - 70];
const REMEMBERED_S: i64 = 3_600;

impl Run<'_> {
    /// Whether the queue is fair, by its metadata or for what is left of when it was.
    pub(super) fn is_fair(&self) -> bool {
        self.is_divided() || self.feed.iter().any(|kept| kept.shard.is_some())
    }

    fn is_divided(&self) -> bool {
        self.state.as_ref().is_some_and(|(keys, _)| keys.sharding().is_some())
    }

    /// Lets the queue be divided as its new metadata says.
    pub(super) fn divide(&mut self, keys: &Metadata) {
        if keys.sharding().is_some() && !self.is_fair() {
            self.fairness.boundary = self.fairness.last;
            self.fairness.rotation = Rotation::default();
        }
    }

    /// The steps of the clock in which so many ticks pass: smaller ones while something that ends might make the
    /// queue a plain one before something is due.
    pub(super) fn parts_of(&self, ticks: u32) -> Vec<u32> {
        let may_become_plain = self.is_fair() && !self.is_divided();
        if may_become_plain { PARTS_S.repeat(ticks as usize) } else { vec![ticks * TICK_S] }
    }

    pub(super) async fn settle_where_it_matters(&mut self) {
        if self.is_fair() && !self.is_divided() {
            self.subject.count(&self.queue).await;
        }
        self.settle();
    }

    /// What one of the tenants draws, if the queue is divided.
    pub(super) fn lot_of(&self, tenant: usize) -> Option<Arc<Lot>> {
        let (keys, _) = self.state.as_ref()?;
        keys.sharding().map(|sharding| Arc::new(sharding.draw(&named(&format!("tenant {tenant}")))))
    }

    /// The shards into which a post puts its messages.
    pub(super) fn place(&mut self, batch: &[NewMessage]) -> Vec<Option<u16>> {
        if !self.is_fair() {
            return vec![None; batch.len()];
        }
        let mut lengths: BTreeMap<u16, usize> = BTreeMap::new();
        for kept in self.feed.iter().filter(|kept| !kept.is_held()) {
            *lengths.entry(kept.shard.unwrap_or(UNSHARDED)).or_default() += 1;
        }
        let mut delays: Vec<u32> = Vec::new();
        for message in batch {
            if !delays.contains(&message.delay_s) {
                delays.push(message.delay_s);
            }
        }
        let mut order: Vec<usize> = (0..batch.len()).collect();
        order.sort_by_key(|place| delays.iter().position(|delay| *delay == batch[*place].delay_s));
        let mut shards = vec![None; batch.len()];
        for place in order {
            let choice = batch[place].lot.as_ref().map_or(0, |lot| {
                let numbers = lot.shards.iter().map(|shard| shard.number());
                numbers.min_by_key(|shard| lengths.get(shard).copied().unwrap_or(0)).expect("a lot is not empty")
            });
            *lengths.entry(choice).or_default() += 1;
            shards[place] = Some(choice);
        }
        self.count_tenants(batch);
        shards
    }

    fn count_tenants(&mut self, batch: &[NewMessage]) {
        self.forget_tenants();
        for lot in batch.iter().filter_map(|message| message.lot.as_ref()) {
            *self.fairness.tenants.entry(lot.tenant.to_string()).or_default() += 1;
            self.fairness.last_post_s = self.now_s;
        }
    }

    fn forget_tenants(&mut self) {
        if self.now_s - self.fairness.last_post_s >= REMEMBERED_S {
            self.fairness.tenants.clear();
        }
    }

    pub(super) async fn pop(&mut self, limit: usize) -> PoppedAndKept {
        let popped = self.subject.store().pop_messages(&self.queue, limit).await.expect("the store answers");

        let expected = self.give_out(limit, &[]);
        let counted: Vec<_> = popped.iter().map(|popped| (popped.message.id, popped.message.claim_count)).collect();
        assert_eq!(counted, expected.iter().map(|kept| (kept.id, kept.claim_count)).collect::<Vec<_>>());
        let told: Vec<_> = popped.iter().map(|popped| popped.waited.is_some()).collect();
        assert_eq!(told, expected.iter().map(|kept| !kept.was_claimed).collect::<Vec<_>>());
        let waited: Vec<_> = popped.iter().filter_map(|popped| popped.waited).collect();
        self.look_at_waited(&expected, &waited);
        self.feed.retain(|kept| !expected.contains(kept));
        (popped, expected)
    }

    /// Expects how long those of the messages have waited that nobody had before.
    pub(super) fn look_at_waited(&self, given: &[Kept], waited: &[Duration]) {
        let new: Vec<_> = given.iter().filter(|kept| !kept.was_claimed).collect();
        assert_eq!(waited.len(), new.len());
        for (kept, waited) in new.iter().zip(waited) {
            let (least, most) = self.since(kept.id.rank());
            assert!((least..=most).contains(waited), "waited for {waited:?} instead of {least:?} to {most:?}");
        }
    }

    /// How long ago that was: at least and at most.
    fn since(&self, rank: Rank) -> (Duration, Duration) {
        let at = |offset_s| Duration::from_micros(self.clock_us(offset_s).saturating_sub(rank.micros()));
        (at(self.now_s), at(self.now_s + RUN_S))
    }

    /// Puts back some of what was popped.
    pub(super) async fn restore(&mut self, pick: Index) {
        if self.popped.is_empty() {
            return;
        }
        let (popped, kept) = self.popped.remove(pick.index(self.popped.len()));

        self.subject.store().restore_messages(&self.queue, &popped).await.expect("the store answers");

        let (is_fair, boundary) = (self.is_fair(), self.fairness.boundary);
        for kept in kept {
            let may_have_one = is_fair && kept.id.rank() > boundary;
            self.feed.push(Kept { shard: kept.shard.filter(|_| may_have_one), ..kept });
        }
        self.feed.sort_by_key(|kept| kept.id.rank());
    }

    /// Expects what detailed stats tell.
    pub(super) async fn look_at_details(&mut self) {
        let details = self.subject.details(&self.queue).await;

        let is_fair = self.is_fair();
        let mut shards: BTreeMap<u16, Counts> = BTreeMap::new();
        for kept in &self.feed {
            let place = kept.shard.filter(|_| is_fair).unwrap_or(UNSHARDED);
            let which = if kept.is_held() { 2 } else { usize::from(!kept.let_in) };
            shards.entry(place).or_default()[which] += 1;
        }
        let unsharded = shards.remove(&UNSHARDED).unwrap_or_default();
        let told: Vec<_> = details.shards.iter().map(|(shard, holding)| (shard.number(), counts(holding))).collect();
        assert_eq!((told, counts(&details.unsharded)), (shards.into_iter().collect(), unsharded));
        let ages = details.shards.iter().map(|(shard, holding)| (shard.number(), holding.oldest_age_s));
        for (place, age_s) in ages.chain([(UNSHARDED, details.unsharded.oldest_age_s)]) {
            let is_there = |kept: &&Kept| kept.shard.unwrap_or(UNSHARDED) == place && kept.let_in && !kept.is_held();
            let expected = self.feed.iter().find(is_there).map(|kept| self.since(kept.id.rank()));
            assert_eq!(age_s.is_some(), expected.is_some());
            if let (Some(age_s), Some((least, most))) = (age_s, expected) {
                assert!((least.as_secs()..=most.as_secs()).contains(&age_s), "{age_s} s old, of at least {least:?}");
            }
        }
        self.forget_tenants();
        let sum: u32 = self.fairness.tenants.values().sum();
        let mut expected: Vec<_> = self.fairness.tenants.iter().filter(|_| is_fair).collect();
        expected.sort_by_key(|(name, count)| (u32::MAX - **count, (*name).clone()));
        let told: Vec<_> = details.tenants.iter().map(|(tenant, _)| tenant.to_string()).collect();
        assert_eq!(told, expected.iter().map(|(name, _)| (*name).clone()).collect::<Vec<_>>());
        for ((_, share), (name, count)) in details.tenants.iter().zip(expected) {
            let expected = f64::from(*count) / f64::from(sum);
            assert!((share - expected).abs() < 1e-9, "{name} has a share of {share} instead of {expected}");
        }
    }
}
