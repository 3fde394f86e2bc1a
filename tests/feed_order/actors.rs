//! The actors of a race, and the records that each of them makes.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::coordinator::{Coordinator, Phase, Progress};
use super::delays::Delays;
use super::history::{Delete, Draft, Page, Post, Seen, Span, rank_of};
use super::wire::Wire;
use support::random::Random;
use support::timeline::clock::wall_us;

pub(super) const PRODUCERS: usize = 16;
/// Number of observers that use the client id of a producer and list without its messages.
pub(super) const FILTERING_OBSERVERS: usize = 4;
pub(super) const DELETERS: usize = 4;

pub(super) const SHORT_TTL_S: u32 = 60;
pub(super) const LONG_TTL_S: u32 = 1_209_600;
/// Number of messages in the occasional large posts of a producer that an observer filters: more
/// than one script examines.
const FLOOD: RangeInclusive<u64> = 501..=600;
/// An observer pauses at random until the clock has moved, so that its marker's message ends before
/// it continues. The pause is short: the clock moves with the posts, and these wait for the slowest
/// observer.
const PAUSE_EVERY: u64 = 24;
pub(super) const PAUSE_MAX: Duration = Duration::from_millis(50);

/// The context that every actor has.
#[derive(Clone)]
pub(super) struct RaceContext {
    pub(super) seed: u64,
    pub(super) options: RaceOptions,
    pub(super) wall_us: i64,
    pub(super) wire: Arc<Wire>,
    pub(super) coordinator: Arc<Coordinator>,
}

/// The options of a race.
#[derive(Clone, Copy)]
pub(super) struct RaceOptions {
    pub(super) observers: usize,
    pub(super) page_max: u64,
    pub(super) flood_every: usize,
    pub(super) delays: Option<Delays>,
    /// Number of shards of the queue. Readers must not notice it.
    pub(super) shards: u16,
    /// Number of workers that take messages as fast as they can, by claims with deletions and by
    /// pops. With workers there are no other deleters, no server is killed and no clock is moved,
    /// because only the response to a pop says which messages it deleted. If a busy machine loses
    /// one, the messages that are missing at the end show it.
    pub(super) workers: usize,
}

#[derive(Clone, Copy)]
pub(super) enum Role {
    Producer = 1,
    Observer,
    Deleter,
    ClockMover,
    Worker,
}

/// Returns the client id of a producer.
fn producer_id(number: usize) -> Uuid {
    Uuid::from_u128(0xa000 + number as u128)
}

/// Returns the producer whose messages an observer does not receive, if any.
pub(super) fn excluded_producer(observer: usize) -> Option<usize> {
    (observer < FILTERING_OBSERVERS).then_some(observer)
}

impl RaceContext {
    /// Creates the context of a race that ends after some deliveries, and possibly later.
    pub(super) fn new(
        seed: u64,
        options: RaceOptions,
        wire: Wire,
        (target, until): (usize, Option<CancellationToken>),
    ) -> Self {
        let coordinator = Arc::new(Coordinator::new(target, options.observers, until));
        let wall_us = wall_us(|| coordinator.now());
        Self { seed, options, wall_us, wire: Arc::new(wire), coordinator }
    }

    /// Posts requests of 1 to 20 messages in sequence, until the race is over.
    pub(super) async fn produce(self, producer: usize) -> Vec<Post> {
        let mut random = self.random(Role::Producer, producer);
        let floods = (0..self.options.observers).any(|observer| excluded_producer(observer) == Some(producer));
        let mut posts = Vec::new();
        loop {
            let flood = floods && posts.len() % self.options.flood_every == self.options.flood_every / 2;
            let is_large = self.options.delays.is_some() && Delays::is_large_post(producer, posts.len());
            let size = random.within(1..=20).min(random.within(1..=20));
            let size = if flood { random.within(FLOOD) } else { size };
            let size = if is_large { Delays::LARGE_POST } else { size };
            let Some(first) = self.coordinator.reserve_tags(size).await else { return posts };
            let delay_choice = match self.options.delays {
                Some(_) if is_large => Some(Delays::for_large_post(posts.len())),
                delays => delays.map(|_| Delays::choose(&mut random)),
            };
            let mut draft = |tag| Draft {
                tag,
                ttl_s: if self.options.workers == 0 && random.one_in(2) { SHORT_TTL_S } else { LONG_TTL_S },
                delay_s: delay_choice.and_then(|delay_choice| delay_choice.delay_s(&mut random)),
            };
            let drafts: Vec<Draft> = (first..first + size).map(&mut draft).collect();

            let post = self.post(producer, &mut random, drafts).await;
            if is_large && let Some(first) = post.ids.first() {
                self.coordinator.record_burst(rank_of(*first));
            }
            posts.push(post);
        }
    }

    /// Posts one request.
    pub(super) async fn post(&self, producer: usize, random: &mut Random, drafts: Vec<Draft>) -> Post {
        let invoked = self.coordinator.now();
        let outcome = self.wire.post(&producer_id(producer), random, &drafts).await;
        let answered = outcome.is_ok().then(|| self.coordinator.now());
        let ids = outcome.unwrap_or_else(|unknown| {
            self.coordinator.record_unknown(invoked, &unknown);
            Vec::new()
        });
        self.coordinator.record_post(&ids);
        Post { span: Span { invoked, answered }, producer, drafts, ids }
    }

    /// Follows the feed by marker until it has read all messages after the last change.
    pub(super) async fn observe(self, observer: usize) -> Vec<Page> {
        let mut random = self.random(Role::Observer, observer);
        let client = excluded_producer(observer).map_or(Uuid::from_u128(0xb000 + observer as u128), producer_id);
        let echo = excluded_producer(observer).is_none();
        let mut progress = self.coordinator.progress();
        let mut marker = None;
        let mut pages = Vec::new();
        loop {
            let before = *progress.borrow_and_update();
            let limit = usize::try_from(random.within(1..=self.options.page_max)).expect("a page is short");
            let invoked = self.coordinator.now();
            let messages = match self.wire.list(&client, &mut random, marker, limit, echo).await {
                Ok(messages) => messages,
                Err(unknown) => {
                    self.coordinator.record_unknown(invoked, &unknown);
                    continue;
                }
            };
            let answered = self.coordinator.now();

            let last = messages.last().copied();
            let passed = last.map_or(before.reserved, |Seen { tag, .. }| tag + 1);
            let before_this = marker;
            marker = last.map(|Seen { id, .. }| id).or(marker);
            self.coordinator.record_read(observer, messages.len(), marker, passed);
            pages.push(Page { invoked, answered, observer, marker: before_this, limit, messages });
            if random.one_in(PAUSE_EVERY) {
                let _moved = timeout(PAUSE_MAX, progress.wait_for(|now| now.moves > before.moves)).await;
            }
            if last.is_none() {
                if before.phase == Phase::Quiet {
                    return pages;
                }
                let has_changed = |now: &Progress| now.post_events != before.post_events || now.phase == Phase::Quiet;
                match self.options.delays {
                    None => drop(progress.wait_for(has_changed).await.expect("it stays")),
                    // The end of a delay is not signaled, so the observer must list again.
                    Some(_) => drop(timeout(Delays::REREAD_AFTER, progress.wait_for(has_changed)).await),
                }
            }
        }
    }

    /// Deletes the messages at the observers' markers, and messages that they are about to read.
    pub(super) async fn delete(self, number: usize) -> Vec<Delete> {
        let mut random = self.random(Role::Deleter, number);
        let client = Uuid::from_u128(0xc000 + number as u128);
        let mut deletes = Vec::new();
        while self.wait_for_posts(random.within(16..=96)).await {
            let ids: Vec<Uuid> = match random.within(0..=9) {
                0 => (0..self.options.observers).filter_map(|observer| self.coordinator.marker(observer)).collect(),
                1..=4 => random.choose(&self.coordinator.recent()).copied().into_iter().collect(),
                _ => {
                    let observer = random.within(0..=self.options.observers as u64 - 1);
                    self.coordinator
                        .marker(usize::try_from(observer).expect("there are few observers"))
                        .into_iter()
                        .collect()
                }
            };
            if ids.is_empty() {
                continue;
            }
            let invoked = self.coordinator.now();
            let outcome = self.wire.delete(&client, &mut random, &ids).await;
            let answered = outcome.is_ok().then(|| self.coordinator.now());
            if let Err(unknown) = outcome {
                self.coordinator.record_unknown(invoked, &unknown);
            }
            deletes.push(Delete { span: Span { invoked, answered }, ids });
        }
        deletes
    }

    /// Waits until `count` more messages have been posted. Returns `false` if the race is over.
    pub(super) async fn wait_for_posts(&self, count: u64) -> bool {
        let mut progress = self.coordinator.progress();
        let due = progress.borrow().reserved + count;
        let progress = progress.wait_for(|now| now.reserved >= due || now.phase > Phase::Racing).await;
        progress.expect("the coordinator exists during the test").phase == Phase::Racing
    }

    pub(super) fn random(&self, role: Role, number: usize) -> Random {
        Random::new(self.seed, role as u64, number)
    }
}
