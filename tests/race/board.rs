//! What the actors of a race know of each other: it paces them and tells the deleters where it
//! hurts. Nothing of it is judged.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::watch;
use uuid::Uuid;

use super::wire::Unknown;

/// How many messages the producers may be ahead of the slowest observer: by turns far, so that
/// observers read full pages while messages end before them, and close, so that they read at the
/// very end of the feed.
const LAG_FAR: u64 = 1500;
const LAG_CLOSE: u64 = 40;
const TURN: u64 = 1000;

/// Places behind a crowd of 20,000, and in it.
const CROWD_US: [i64; 4] = [25_000, 2000, 8000, 25_000];
const RECENT_MAX: usize = 300;
/// A server that is killed leaves a few requests without an answer; so many are a fault.
const UNKNOWN_MAX: usize = 2000;

pub(super) struct Board {
    started: Instant,
    /// How many deliveries end the race.
    target: usize,
    observed: AtomicUsize,
    /// How many messages each observer has passed or found gone, and what the slowest has.
    passed: Vec<AtomicU64>,
    slowest: watch::Sender<u64>,
    news: watch::Sender<News>,
    markers: Vec<Mutex<Option<Uuid>>>,
    recent: Mutex<VecDeque<Uuid>>,
    /// Places in the middle of a great many messages that stand next to each other and are not due yet.
    crowd: Mutex<VecDeque<i64>>,
    unknown: AtomicUsize,
}

/// What may be worth waking up for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    /// Posts begun and ended.
    pub(super) turns: u64,
    /// Messages posted, or being posted.
    pub(super) drawn: u64,
    /// Moves of the clock.
    pub(super) moves: u64,
    pub(super) phase: Phase,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    #[default]
    Racing,
    /// The producers have stopped.
    Posted,
    /// Nothing changes any more.
    Quiet,
}

impl Board {
    pub(super) fn new(target: usize, observers: usize) -> Self {
        Self {
            started: Instant::now(),
            target,
            observed: AtomicUsize::new(0),
            passed: (0..observers).map(|_| AtomicU64::new(0)).collect(),
            slowest: watch::Sender::new(0),
            news: watch::Sender::default(),
            markers: (0..observers).map(|_| Mutex::new(None)).collect(),
            recent: Mutex::default(),
            crowd: Mutex::default(),
            unknown: AtomicUsize::new(0),
        }
    }

    /// Microseconds since the start.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).expect("no race takes so long")
    }

    /// How much of the race is over, in percent.
    pub(super) fn percent(&self) -> usize {
        self.observed.load(Ordering::Relaxed) * 100 / self.target
    }

    pub(super) fn news(&self) -> watch::Receiver<News> {
        self.news.subscribe()
    }

    pub(super) fn enter(&self, phase: Phase) {
        self.news.send_modify(|news| news.phase = phase);
    }

    /// Gives out the tags of a post that is about to begin, as soon as the observers are near enough;
    /// the first of them. `None` when the race is over.
    pub(super) async fn draw(&self, count: u64) -> Option<u64> {
        let near = |slowest: &u64| {
            let drawn = self.news.borrow().drawn;
            let lag_max = if (drawn / TURN).is_multiple_of(2) { LAG_FAR } else { LAG_CLOSE };
            drawn <= slowest + lag_max
        };
        self.slowest.subscribe().wait_for(near).await.expect("the board stays");
        if self.percent() >= 100 {
            return None;
        }
        let mut first = 0;
        self.news.send_modify(|news| {
            first = news.drawn;
            news.drawn += count;
            news.turns += 1;
        });
        Some(first)
    }

    /// Tells that a post has ended.
    pub(super) fn posted(&self, ids: &[Uuid]) {
        let mut recent = lock(&self.recent);
        recent.extend(ids.iter().rev().take(RECENT_MAX));
        let surplus = recent.len().saturating_sub(RECENT_MAX);
        recent.drain(..surplus);
        drop(recent);
        self.news.send_modify(|news| news.turns += 1);
    }

    /// Tells where a great many messages begin that stand next to each other.
    pub(super) fn crowd_at(&self, first: i64) {
        *lock(&self.crowd) = CROWD_US.map(|aside| first + aside).into();
    }

    /// The next place in the crowd, or behind it, if it is not due yet.
    pub(super) fn next_in_crowd(&self, now: i64) -> Option<i64> {
        lock(&self.crowd).pop_front().filter(|due| *due > now)
    }

    /// Tells that the clock has moved.
    pub(super) fn moved(&self) {
        self.news.send_modify(|news| news.moves += 1);
    }

    /// Tells that an observer got so many messages, and has come to this one and this far.
    pub(super) fn read(&self, observer: usize, count: usize, marker: Option<Uuid>, passed: u64) {
        self.observed.fetch_add(count, Ordering::Relaxed);
        *lock(&self.markers[observer]) = marker;
        self.passed[observer].fetch_max(passed, Ordering::Relaxed);
        let slowest = self.passed.iter().map(|passed| passed.load(Ordering::Relaxed)).min().unwrap_or(0);
        self.slowest.send_if_modified(|known| {
            let moved = slowest > *known;
            *known = slowest.max(*known);
            moved
        });
    }

    /// Where an observer stands.
    pub(super) fn marker(&self, observer: usize) -> Option<Uuid> {
        *lock(&self.markers[observer])
    }

    pub(super) fn recent(&self) -> Vec<Uuid> {
        lock(&self.recent).iter().copied().collect()
    }

    /// Counts an answer that was lost.
    pub(super) fn note(&self, unknown: &Unknown) {
        let count = self.unknown.fetch_add(1, Ordering::Relaxed) + 1;
        assert!(count < UNKNOWN_MAX, "{count} requests failed, the last with {unknown:?}");
    }

    pub(super) fn unknown(&self) -> usize {
        self.unknown.load(Ordering::Relaxed)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
