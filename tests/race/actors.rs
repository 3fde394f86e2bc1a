//! Those who take part in a race, and what each of them records.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use uuid::Uuid;

use super::board::{Board, News, Phase};
use super::delays::Delays;
use super::history::{Delete, Draft, Page, Post, Seen, Span, rank_of};
use super::wire::Wire;
use crate::support::chronicle::choices::Choices;

pub(super) const PRODUCERS: usize = 16;
/// So many of the observers share a producer's client id and ask not to get its messages.
pub(super) const DEAF_OBSERVERS: usize = 4;
pub(super) const DELETERS: usize = 4;

pub(super) const SHORT_TTL_S: u32 = 60;
pub(super) const LONG_TTL_S: u32 = 1_209_600;
/// The producer whom somebody does not want to hear posts this many messages at once now and then:
/// more than one script looks at.
const FLOOD: RangeInclusive<u64> = 501..=600;
/// Now and then an observer dawdles until the clock has moved, so that its marker ends before it goes
/// on; not for long, since the clock moves with the posts, and those wait for the slowest observer.
const DAWDLE_EVERY: u64 = 24;
const DAWDLE_MAX: Duration = Duration::from_millis(50);

/// What every actor has.
#[derive(Clone)]
pub(super) struct Scene {
    pub(super) seed: u64,
    pub(super) course: Course,
    pub(super) wall_us: i64,
    pub(super) wire: Arc<Wire>,
    pub(super) board: Arc<Board>,
}

/// How a race is run.
#[derive(Clone, Copy)]
pub(super) struct Course {
    pub(super) observers: usize,
    pub(super) page_max: u64,
    pub(super) flood_every: usize,
    pub(super) delays: Option<Delays>,
    /// In how many shards the queue is divided, which is nothing to those who read.
    pub(super) shards: u16,
    /// How many workers take messages as fast as they can, by claims with deletions and by pops. With workers
    /// there are no other deleters, no server is killed and no clock is moved: what a pop has deleted is known only from
    /// its answer.
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
        let floods = (0..self.course.observers).any(|observer| deaf_to(observer) == Some(producer));
        let mut posts = Vec::new();
        loop {
            let flood = floods && posts.len() % self.course.flood_every == self.course.flood_every / 2;
            let huge = self.course.delays.is_some() && Delays::are_posted_at_once(producer, posts.len());
            let size = choices.within(1..=20).min(choices.within(1..=20));
            let size = if flood { choices.within(FLOOD) } else { size };
            let size = if huge { Delays::AT_ONCE } else { size };
            let Some(first) = self.board.draw(size).await else { return posts };
            let manner = match self.course.delays {
                Some(_) if huge => Some(Delays::of_many(posts.len())),
                delays => delays.map(|_| Delays::choose(&mut choices)),
            };
            let mut draft = |tag| Draft {
                tag,
                ttl_s: if self.course.workers == 0 && choices.one_in(2) { SHORT_TTL_S } else { LONG_TTL_S },
                delay_s: manner.and_then(|manner| manner.delay_s(&mut choices)),
            };
            let drafts: Vec<Draft> = (first..first + size).map(&mut draft).collect();

            let post = self.post(producer, &mut choices, drafts).await;
            if huge && let Some(first) = post.ids.first() {
                self.board.crowd_at(rank_of(*first));
            }
            posts.push(post);
        }
    }

    /// Posts one request.
    pub(super) async fn post(&self, producer: usize, choices: &mut Choices, drafts: Vec<Draft>) -> Post {
        let invoked = self.board.now();
        let outcome = self.wire.post(&producer_id(producer), choices, &drafts).await;
        let answered = outcome.is_ok().then(|| self.board.now());
        let ids = outcome.unwrap_or_else(|unknown| {
            self.board.note(&unknown);
            Vec::new()
        });
        self.board.posted(&ids);
        Post { span: Span { invoked, answered }, producer, drafts, ids }
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
            let limit = usize::try_from(choices.within(1..=self.course.page_max)).expect("a page is short");
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
                let is_news = |now: &News| now.turns != before.turns || now.phase == Phase::Quiet;
                match self.course.delays {
                    None => drop(news.wait_for(is_news).await.expect("it stays")),
                    // What falls due is no news: one has to look.
                    Some(_) => drop(timeout(Delays::PATIENCE, news.wait_for(is_news)).await),
                }
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
                0 => (0..self.course.observers).filter_map(|observer| self.board.marker(observer)).collect(),
                1..=4 => choices.among(&self.board.recent()).copied().into_iter().collect(),
                _ => {
                    let observer = choices.within(0..=self.course.observers as u64 - 1);
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

    /// Takes messages for good as fast as it can: claims and deletes them, or pops them.
    pub(super) async fn work(self, number: usize) -> Vec<Delete> {
        let mut choices = self.choices(Role::Worker, number);
        let client = Uuid::from_u128(0xd000 + number as u128);
        let mut news = self.board.news();
        let mut deletes = Vec::new();
        while news.borrow_and_update().phase == Phase::Racing {
            let limit = usize::try_from(choices.within(1..=20)).expect("it is small");
            let pops = choices.one_in(2);
            let mut invoked = self.board.now();
            let taken = if pops {
                self.wire.pop(&client, &mut choices, limit).await
            } else {
                self.wire.claim(&client, &mut choices, limit).await
            };
            let ids = taken.unwrap_or_else(|unknown| panic!("no server was killed: {unknown:?}"));
            if ids.is_empty() {
                let _more = timeout(DAWDLE_MAX, news.changed()).await;
                continue;
            }
            if !pops {
                invoked = self.board.now();
                let outcome = self.wire.delete_claimed(&client, &mut choices, &ids).await;
                outcome.unwrap_or_else(|unknown| panic!("no server was killed: {unknown:?}"));
            }
            deletes.push(Delete { span: Span { invoked, answered: Some(self.board.now()) }, ids });
        }
        deletes
    }

    /// Waits until so many more messages were posted; false when there will be no more.
    pub(super) async fn goes_on(&self, count: u64) -> bool {
        let mut news = self.board.news();
        let due = news.borrow().drawn + count;
        let news = news.wait_for(|now| now.drawn >= due || now.phase > Phase::Racing).await;
        news.expect("the board stays").phase == Phase::Racing
    }

    pub(super) fn choices(&self, role: Role, number: usize) -> Choices {
        Choices::of(self.seed, role as u64, number)
    }
}
