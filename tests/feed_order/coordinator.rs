//! State that the actors of a race share: it paces them and shows the deleters which messages to
//! delete. The checker does not use it.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::wire::Unknown;
use support::lock;
use support::timeline::failures::Failures;

/// Largest number of messages by which producers may be ahead of the slowest observer. It
/// alternates. With a large lag, observers read full pages while messages end before them. With a
/// small lag, they read at the very end of the feed.
const LAG_FAR: u64 = 1500;
const LAG_CLOSE: u64 = 40;
const LAG_PERIOD: u64 = 200;

/// Offsets from the start of a burst in microseconds: after 20,000 messages, and among them.
const BURST_OFFSETS_US: [i64; 4] = [25_000, 2000, 8000, 25_000];
const RECENT_MAX: usize = 300;
/// A killed server leaves a few requests without a response; this many are an error.
const UNKNOWN_MAX: usize = 2000;

pub(super) struct Coordinator {
    started: Instant,
    /// Number of deliveries that ends the race.
    target: usize,
    /// Also has to be canceled before the race ends, if there is one.
    until: Option<CancellationToken>,
    observed: AtomicUsize,
    /// Number of messages that each observer has passed or found gone.
    passed: Vec<AtomicU64>,
    slowest: watch::Sender<u64>,
    progress: watch::Sender<Progress>,
    markers: Vec<Mutex<Option<Uuid>>>,
    recent: Mutex<VecDeque<Uuid>>,
    /// Positions in a burst of adjacent messages that are not due yet.
    burst: Mutex<VecDeque<i64>>,
    pub(super) failures: Failures,
}

/// The events for which an actor may wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Number of posts that have begun or ended.
    pub(super) post_events: u64,
    /// Number of messages posted or being posted.
    pub(super) reserved: u64,
    /// Number of moves of the clock.
    pub(super) moves: u64,
    pub(super) phase: Phase,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    #[default]
    Racing,
    /// The producers have stopped.
    Posted,
    /// No operation changes the queue any more.
    Quiet,
}

impl Coordinator {
    /// Creates the state of a race that ends after `target` deliveries. If it also lasts until an
    /// event, any number of requests may fail.
    pub(super) fn new(target: usize, observers: usize, until: Option<CancellationToken>) -> Self {
        Self {
            started: Instant::now(),
            target,
            failures: Failures::below(if until.is_some() { usize::MAX } else { UNKNOWN_MAX }),
            until,
            observed: AtomicUsize::new(0),
            passed: (0..observers).map(|_| AtomicU64::new(0)).collect(),
            slowest: watch::Sender::new(0),
            progress: watch::Sender::default(),
            markers: (0..observers).map(|_| Mutex::new(None)).collect(),
            recent: Mutex::default(),
            burst: Mutex::default(),
        }
    }

    /// Returns the time since the start, in microseconds.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).expect("no race takes so long")
    }

    /// Returns the progress of the race, in percent.
    pub(super) fn percent(&self) -> usize {
        self.observed() * 100 / self.target
    }

    pub(super) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    pub(super) fn set_phase(&self, phase: Phase) {
        self.progress.send_modify(|progress| progress.phase = phase);
    }

    /// Reserves `count` tags for a post as soon as the observers are close enough, and returns the
    /// first. Returns `None` when the race is over.
    pub(super) async fn reserve_tags(&self, count: u64) -> Option<u64> {
        let near = |slowest: &u64| {
            let reserved = self.progress.borrow().reserved;
            let lag_max = if (reserved / LAG_PERIOD).is_multiple_of(2) { LAG_CLOSE } else { LAG_FAR };
            reserved <= slowest + lag_max
        };
        self.slowest.subscribe().wait_for(near).await.expect("the coordinator exists during the test");
        if self.percent() >= 100 && self.until.as_ref().is_none_or(CancellationToken::is_cancelled) {
            return None;
        }
        let mut first = 0;
        self.progress.send_modify(|progress| {
            first = progress.reserved;
            progress.reserved += count;
            progress.post_events += 1;
        });
        Some(first)
    }

    /// Records that a post has ended.
    pub(super) fn record_post(&self, ids: &[Uuid]) {
        let mut recent = lock(&self.recent);
        recent.extend(ids.iter().rev().take(RECENT_MAX));
        let surplus = recent.len().saturating_sub(RECENT_MAX);
        recent.drain(..surplus);
        drop(recent);
        self.progress.send_modify(|progress| progress.post_events += 1);
    }

    /// Records the position at which a burst of adjacent messages begins.
    pub(super) fn record_burst(&self, first: i64) {
        *lock(&self.burst) = BURST_OFFSETS_US.map(|aside| first + aside).into();
    }

    /// Returns the next position in or after the burst, if it is not due yet.
    pub(super) fn next_burst_position(&self, now: i64) -> Option<i64> {
        lock(&self.burst).pop_front().filter(|due| *due > now)
    }

    /// Records that the clock has moved.
    pub(super) fn clock_moved(&self) {
        self.progress.send_modify(|progress| progress.moves += 1);
    }

    /// Records that an observer received `count` messages and has reached this marker and this tag.
    pub(super) fn record_read(&self, observer: usize, count: usize, marker: Option<Uuid>, passed: u64) {
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

    /// Returns the marker of an observer.
    pub(super) fn marker(&self, observer: usize) -> Option<Uuid> {
        *lock(&self.markers[observer])
    }

    pub(super) fn recent(&self) -> Vec<Uuid> {
        lock(&self.recent).iter().copied().collect()
    }

    /// Counts a lost response to a request that was sent at `invoked`.
    pub(super) fn record_unknown(&self, invoked: u64, unknown: &Unknown) {
        self.failures.record(invoked, self.now(), &unknown.0);
    }

    /// Returns the number of deliveries so far.
    pub(super) fn observed(&self) -> usize {
        self.observed.load(Ordering::Relaxed)
    }
}
