//! Those who take part in a race, and what each of them records.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use sukkal::domain::QueueId;
use sukkal::storage::redis::RedisStore;
use tokio::time::timeout;
use uuid::Uuid;

use super::board::{Board, Phase};
use super::history::{Delete, Draft, Page, Post, Seen, Span};
use super::wire::Wire;
use crate::support::chronicle::ClockMove;
use crate::support::chronicle::choices::Choices;

pub(super) const PRODUCERS: usize = 16;
pub(super) const OBSERVERS: usize = 16;
/// So many of the observers share a producer's client id and ask not to get its messages.
pub(super) const DEAF_OBSERVERS: usize = 4;
pub(super) const DELETERS: usize = 4;

const PAGE_MAX: u64 = 20;
const SHORT_TTL_S: u32 = 60;
const LONG_TTL_S: u32 = 1_209_600;
/// The producer whom somebody does not want to hear posts this many messages at once now and then:
/// more than one script looks at.
const FLOOD_EVERY: usize = 25;
const FLOOD: RangeInclusive<u64> = 501..=600;
/// Now and then an observer dawdles until the clock has moved, so that its marker ends before it goes
/// on; not for long, since the clock moves with the posts, and those wait for the slowest observer.
const DAWDLE_EVERY: u64 = 24;
const DAWDLE_MAX: Duration = Duration::from_millis(50);

/// What every actor has.
#[derive(Clone)]
pub(super) struct Scene {
    pub(super) seed: u64,
    pub(super) wire: Arc<Wire>,
    pub(super) board: Arc<Board>,
}

#[derive(Clone, Copy)]
enum Role {
    Producer = 1,
    Observer,
    Deleter,
    ClockMover,
}

/// The client id of a producer.
fn producer_id(number: usize) -> Uuid {
    Uuid::from_u128(0xa000 + number as u128)
}

/// The producer that an observer is deaf to, if any.
pub(super) fn deaf_to(observer: usize) -> Option<usize> {
    (observer < DEAF_OBSERVERS).then_some(observer)
}

impl Scene {
    /// Posts requests of 1 to 20 messages, one after the other, until the race is over.
    pub(super) async fn produce(self, producer: usize) -> Vec<Post> {
        let mut choices = self.choices(Role::Producer, producer);
        let floods = (0..OBSERVERS).any(|observer| deaf_to(observer) == Some(producer));
        let mut posts = Vec::new();
        loop {
            let flood = floods && posts.len() % FLOOD_EVERY == FLOOD_EVERY / 2;
            let size = choices.within(1..=20).min(choices.within(1..=20));
            let size = if flood { choices.within(FLOOD) } else { size };
            let Some(first) = self.board.draw(size).await else { return posts };
            let mut ttl_s = || if choices.one_in(2) { SHORT_TTL_S } else { LONG_TTL_S };
            let drafts: Vec<Draft> = (first..first + size).map(|tag| Draft { tag, ttl_s: ttl_s() }).collect();

            let invoked = self.board.now();
            let outcome = self.wire.post(&producer_id(producer), &mut choices, &drafts).await;
            let answered = outcome.is_ok().then(|| self.board.now());
            let ids = outcome.unwrap_or_else(|unknown| {
                self.board.note(&unknown);
                Vec::new()
            });
            self.board.posted(&ids);
            posts.push(Post { span: Span { invoked, answered }, producer, drafts, ids });
        }
    }

    /// Follows the feed by marker until it has read all there is after the last change.
    pub(super) async fn observe(self, observer: usize) -> Vec<Page> {
        let mut choices = self.choices(Role::Observer, observer);
        let client = deaf_to(observer).map_or(Uuid::from_u128(0xb000 + observer as u128), producer_id);
        let echo = deaf_to(observer).is_none();
        let mut news = self.board.news();
        let mut marker = None;
        let mut pages = Vec::new();
        loop {
            let before = *news.borrow_and_update();
            let limit = usize::try_from(choices.within(1..=PAGE_MAX)).expect("a page is short");
            let invoked = self.board.now();
            let messages = match self.wire.list(&client, &mut choices, marker, limit, echo).await {
                Ok(messages) => messages,
                Err(unknown) => {
                    self.board.note(&unknown);
                    continue;
                }
            };
            let answered = self.board.now();

            let last = messages.last().copied();
            let passed = last.map_or(before.drawn, |Seen { tag, .. }| tag + 1);
            let before_this = marker;
            marker = last.map(|Seen { id, .. }| id).or(marker);
            self.board.read(observer, messages.len(), marker, passed);
            pages.push(Page { invoked, answered, observer, marker: before_this, limit, messages });
            if choices.one_in(DAWDLE_EVERY) {
                let _moved = timeout(DAWDLE_MAX, news.wait_for(|now| now.moves > before.moves)).await;
            }
            if last.is_none() {
                if before.phase == Phase::Quiet {
                    return pages;
                }
                news.wait_for(|now| now.turns != before.turns || now.phase == Phase::Quiet).await.expect("it stays");
            }
        }
    }

    /// Deletes where observers stand, and what they are about to read.
    pub(super) async fn delete(self, number: usize) -> Vec<Delete> {
        let mut choices = self.choices(Role::Deleter, number);
        let client = Uuid::from_u128(0xc000 + number as u128);
        let mut deletes = Vec::new();
        while self.goes_on(choices.within(16..=96)).await {
            let ids: Vec<Uuid> = match choices.within(0..=9) {
                0 => (0..OBSERVERS).filter_map(|observer| self.board.marker(observer)).collect(),
                1..=4 => choices.among(&self.board.recent()).copied().into_iter().collect(),
                _ => {
                    let observer = choices.within(0..=OBSERVERS as u64 - 1);
                    self.board.marker(usize::try_from(observer).expect("there are few")).into_iter().collect()
                }
            };
            if ids.is_empty() {
                continue;
            }
            let invoked = self.board.now();
            let outcome = self.wire.delete(&client, &mut choices, &ids).await;
            let answered = outcome.is_ok().then(|| self.board.now());
            if let Err(unknown) = outcome {
                self.board.note(&unknown);
            }
            deletes.push(Delete { span: Span { invoked, answered }, ids });
        }
        deletes
    }

    /// Moves the queue's clock: mostly ahead, so that messages with a short life expire; now and then
    /// back, which no rank may follow.
    pub(super) async fn move_clock(self, store: RedisStore, queue: QueueId) -> Vec<ClockMove> {
        let mut choices = self.choices(Role::ClockMover, 0);
        let mut offset_us = 0;
        let mut moves = Vec::new();
        while self.goes_on(choices.within(40..=160)).await {
            let ahead = choices.within(1..=30_000_000).cast_signed();
            offset_us += match choices.within(0..=7) {
                0 => -ahead,
                1..=4 => ahead + i64::from(SHORT_TTL_S) * 1_000_000,
                _ => ahead,
            };
            let invoked = self.board.now();
            store.set_clock(&queue, offset_us).await.expect("the clock can be moved");
            moves.push(ClockMove { invoked, answered: self.board.now(), offset_us });
            self.board.moved();
        }
        moves
    }

    /// Waits until so many more messages were posted; false when there will be no more.
    async fn goes_on(&self, count: u64) -> bool {
        let mut news = self.board.news();
        let due = news.borrow().drawn + count;
        let news = news.wait_for(|now| now.drawn >= due || now.phase > Phase::Racing).await;
        news.expect("the board stays").phase == Phase::Racing
    }

    fn choices(&self, role: Role, number: usize) -> Choices {
        Choices::of(self.seed, role as u64, number)
    }
}
