//! Who moves the queue's clock: ahead, so that messages expire and fall due, and back, which no rank may
//! follow.

use sukkal::domain::QueueId;

use super::actors::{LONG_TTL_S, PRODUCERS, Role, SHORT_TTL_S, Scene};
use super::delays::Delays;
use super::history::{Draft, Post, rank_of};
use crate::support::chronicle::ClockMove;
use crate::support::chronicle::choices::Choices;
use crate::support::ground::Ground;

const SHORT_TTL_US: i64 = SHORT_TTL_S as i64 * 1_000_000;
/// The last move makes everything due.
const ALL_DUE_US: i64 = 60_000_000;
/// So many messages that wait, next to each other, are a crowd.
const CROWD: usize = 20;

pub(super) struct Clockwork {
    scene: Scene,
    store: Ground,
    queue: QueueId,
    choices: Choices,
    offset_us: i64,
    furthest_us: i64,
    moves: Vec<ClockMove>,
    posts: Vec<Post>,
}

impl Clockwork {
    pub(super) fn new(scene: Scene, store: Ground, queue: QueueId) -> Self {
        let choices = scene.choices(Role::ClockMover, 0);
        Self { scene, store, queue, choices, offset_us: 0, furthest_us: 0, moves: Vec::new(), posts: Vec::new() }
    }

    /// Moves the clock until the race is over; what it posted meanwhile.
    pub(super) async fn run(mut self) -> (Vec<ClockMove>, Vec<Post>) {
        if self.scene.course.delays.is_some() {
            self.stagger().await;
        } else {
            self.leap().await;
        }
        (self.moves, self.posts)
    }

    /// Mostly ahead and far, so that messages with a short life expire; now and then back.
    async fn leap(&mut self) {
        while self.scene.goes_on(self.choices.within(40..=160)).await {
            let ahead = self.up_to(30_000_000);
            let by_us = match self.choices.within(0..=7) {
                0 => -ahead,
                1..=4 => ahead + SHORT_TTL_US,
                _ => ahead,
            };
            self.set(self.offset_us + by_us).await;
        }
    }

    /// By little and by much, back and ahead, and to where messages wait for it; from there often back at
    /// once, so that of those next to each other some are let in.
    async fn stagger(&mut self) {
        loop {
            // While the clock is behind what is visible, what is posted crowds together.
            let behind = self.offset_us < self.furthest_us;
            let count = self.choices.within(if behind { 100..=500 } else { 10..=60 });
            if !self.scene.goes_on(count).await {
                return self.set(self.furthest_us + ALL_DUE_US).await;
            }
            if let Some(due) = self.scene.board.next_in_crowd(self.now()) {
                self.press(due).await;
                continue;
            }
            let (from_us, to_us) = (self.offset_us, self.step());
            self.set(to_us).await;
            if to_us > from_us && self.choices.one_in(2) {
                let back = self.up_to(1_000_000);
                self.set(to_us - back).await;
            }
        }
    }

    /// Posts a message behind a great many that wait next to each other, before they are let in, or in the
    /// middle of them, where it has to wait; and turns far back at once.
    async fn press(&mut self, due: i64) {
        let Some(tag) = self.scene.board.draw(1).await else { return };
        self.set(self.offset_us + due - self.now()).await;
        let draft = Draft { tag, ttl_s: LONG_TTL_S, delay_s: Some(0) };
        let post = self.scene.post(PRODUCERS, &mut self.choices, vec![draft]).await;
        self.posts.push(post);
        let back = self.up_to(30_000_000);
        self.set(self.offset_us - back).await;
    }

    /// Somewhere near, or to where posts of some delay get into the middle of what waits already.
    fn step(&mut self) -> i64 {
        let by_us = match self.choices.within(0..=39) {
            0 => SHORT_TTL_US,
            1 => self.up_to(30_000_000),
            2 => -self.up_to(30_000_000),
            3..=4 => self.up_to(1000),
            5..=8 => -self.up_to(1000),
            9..=10 => self.up_to(1_000_000),
            11..=18 => -self.up_to(1_000_000),
            _ => self.way_to_what_waits().unwrap_or_else(|| self.up_to(1_000_000)),
        };
        self.offset_us + by_us
    }

    fn way_to_what_waits(&mut self) -> Option<i64> {
        let now = self.now();
        let recent = self.scene.board.recent().into_iter();
        let mut waiting: Vec<i64> = recent.map(rank_of).filter(|rank| *rank > now).collect();
        waiting.sort_unstable();
        let crowds = waiting.windows(CROWD).filter(|them| them[CROWD - 1] - them[0] < 100);
        let crowds: Vec<i64> = crowds.map(|them| them[0]).collect();
        let due = *self.choices.among(if crowds.is_empty() { &waiting } else { &crowds })?;

        let delay_s = if self.choices.one_in(2) { 0 } else { self.up_to(Delays::MOST_S.into()) };
        let aside = if self.choices.one_in(2) { 2500 } else { 20_000 };
        Some(due - delay_s * 1_000_000 - self.up_to(aside) - now)
    }

    /// The store's time, about.
    fn now(&self) -> i64 {
        let elapsed = i64::try_from(self.scene.board.now()).expect("no race takes so long");
        self.scene.wall_us + elapsed + self.offset_us
    }

    fn up_to(&mut self, most: u64) -> i64 {
        self.choices.within(1..=most).cast_signed()
    }

    async fn set(&mut self, offset_us: i64) {
        let invoked = self.scene.board.now();
        self.store.set_clock(&self.queue, offset_us).await;
        self.moves.push(ClockMove { invoked, answered: self.scene.board.now(), offset_us });
        self.offset_us = offset_us;
        self.furthest_us = self.furthest_us.max(offset_us);
        self.scene.board.moved();
    }
}
