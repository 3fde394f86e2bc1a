//! Moves the queue's clock: forward, so that messages expire and become due, and back, which must
//! not affect ranks.

use sukkal_domain::QueueId;

use super::actors::{LONG_TTL_S, PRODUCERS, RaceContext, Role, SHORT_TTL_S};
use super::delays::Delays;
use super::history::{Draft, Post, rank_of};
use support::random::Random;
use support::test_bed::TestBed;
use support::timeline::ClockMove;

const SHORT_TTL_US: i64 = SHORT_TTL_S as i64 * 1_000_000;
/// The last move advances the clock by this much, in microseconds, and so makes all messages due.
const ALL_DUE_US: i64 = 60_000_000;
/// Smallest number of adjacent delayed messages that count as a burst.
const BURST_MIN: usize = 20;

pub(super) struct ClockMover {
    context: RaceContext,
    store: TestBed,
    queue: QueueId,
    random: Random,
    offset_us: i64,
    furthest_us: i64,
    moves: Vec<ClockMove>,
    posts: Vec<Post>,
}

impl ClockMover {
    pub(super) fn new(context: RaceContext, store: TestBed, queue: QueueId) -> Self {
        let random = context.random(Role::ClockMover, 0);
        Self { context, store, queue, random, offset_us: 0, furthest_us: 0, moves: Vec::new(), posts: Vec::new() }
    }

    /// Moves the clock until the race is over. Returns the moves, and the posts that it made
    /// meanwhile.
    pub(super) async fn run(mut self) -> (Vec<ClockMove>, Vec<Post>) {
        if self.context.options.delays.is_some() {
            self.step_around_due_times().await;
        } else {
            self.jump_far().await;
        }
        (self.moves, self.posts)
    }

    /// Moves the clock mostly forward and far, so that messages with a short life expire, and
    /// occasionally back.
    async fn jump_far(&mut self) {
        while self.context.wait_for_posts(self.random.within(40..=160)).await {
            let ahead = self.up_to(30_000_000);
            let by_us = match self.random.within(0..=7) {
                0 => -ahead,
                1..=4 => ahead + SHORT_TTL_US,
                _ => ahead,
            };
            self.set(self.offset_us + by_us).await;
        }
    }

    /// Moves the clock by small and large steps, back and forward, and to the due times of delayed
    /// messages. From there it often goes back at once, so that only some of several adjacent
    /// messages are released.
    async fn step_around_due_times(&mut self) {
        loop {
            // While the clock is behind the visible messages, new posts have adjacent ranks.
            let behind = self.offset_us < self.furthest_us;
            let count = self.random.within(if behind { 100..=500 } else { 10..=60 });
            if !self.context.wait_for_posts(count).await {
                return self.set(self.furthest_us + ALL_DUE_US).await;
            }
            if let Some(due) = self.context.coordinator.next_burst_position(self.now()) {
                self.post_into_burst(due).await;
                continue;
            }
            let (from_us, to_us) = (self.offset_us, self.step());
            self.set(to_us).await;
            if to_us > from_us && self.random.one_in(2) {
                let back = self.up_to(1_000_000);
                self.set(to_us - back).await;
            }
        }
    }

    /// Posts a message after a burst of adjacent delayed messages, or among them, where it has to
    /// wait; then moves the clock far back at once.
    async fn post_into_burst(&mut self, due: i64) {
        let Some(tag) = self.context.coordinator.reserve_tags(1).await else { return };
        self.set(self.offset_us + due - self.now()).await;
        let draft = Draft { tag, ttl_s: LONG_TTL_S, delay_s: Some(0) };
        let post = self.context.post(PRODUCERS, &mut self.random, vec![draft]).await;
        self.posts.push(post);
        let back = self.up_to(30_000_000);
        self.set(self.offset_us - back).await;
    }

    /// Returns an offset nearby, or one at which posts with some delay are placed among the waiting
    /// messages.
    fn step(&mut self) -> i64 {
        let by_us = match self.random.within(0..=39) {
            0 => SHORT_TTL_US,
            1 => self.up_to(30_000_000),
            2 => -self.up_to(30_000_000),
            3..=4 => self.up_to(1000),
            5..=8 => -self.up_to(1000),
            9..=10 => self.up_to(1_000_000),
            11..=18 => -self.up_to(1_000_000),
            _ => self.distance_to_delayed().unwrap_or_else(|| self.up_to(1_000_000)),
        };
        self.offset_us + by_us
    }

    fn distance_to_delayed(&mut self) -> Option<i64> {
        let now = self.now();
        let recent = self.context.coordinator.recent().into_iter();
        let mut waiting: Vec<i64> = recent.map(rank_of).filter(|rank| *rank > now).collect();
        waiting.sort_unstable();
        let bursts = waiting.windows(BURST_MIN).filter(|them| them[BURST_MIN - 1] - them[0] < 100);
        let bursts: Vec<i64> = bursts.map(|them| them[0]).collect();
        let due = *self.random.choose(if bursts.is_empty() { &waiting } else { &bursts })?;

        let delay_s = if self.random.one_in(2) { 0 } else { self.up_to(Delays::MOST_S.into()) };
        let aside = if self.random.one_in(2) { 2500 } else { 20_000 };
        Some(due - delay_s * 1_000_000 - self.up_to(aside) - now)
    }

    /// Returns the approximate time of the store.
    fn now(&self) -> i64 {
        let elapsed = i64::try_from(self.context.coordinator.now()).expect("no race takes so long");
        self.context.wall_us + elapsed + self.offset_us
    }

    fn up_to(&mut self, most: u64) -> i64 {
        self.random.within(1..=most).cast_signed()
    }

    async fn set(&mut self, offset_us: i64) {
        let invoked = self.context.coordinator.now();
        self.store.set_clock(&self.queue, offset_us).await;
        self.moves.push(ClockMove { invoked, answered: self.context.coordinator.now(), offset_us });
        self.offset_us = offset_us;
        self.furthest_us = self.furthest_us.max(offset_us);
        self.context.coordinator.clock_moved();
    }
}
