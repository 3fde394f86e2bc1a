//! What the actors know of each other: it paces them. Nothing of it is judged.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard, watch};

use super::history::Span;
use super::wire::Unknown;

/// So many messages may wait or be worked on before producers pause.
const OUTSTANDING_MAX: i64 = 600;
/// A server that is killed leaves a few requests without an answer; so many are a fault.
const UNKNOWN_MAX: usize = 1000;
/// A command that a dead server has sent is run by then, or never.
const LATE_US: u64 = 5_000_000;

pub(super) struct Board {
    started: Instant,
    quiet: RwLock<()>,
    news: watch::Sender<News>,
    unknown: AtomicUsize,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct News {
    /// Messages posted, or being posted.
    pub(super) drawn: u64,
    /// A guess, set right by each count.
    pub(super) outstanding: i64,
    pub(super) posts: u64,
    pub(super) claims: u64,
    pub(super) moves: u64,
    pub(super) half: bool,
    pub(super) over: bool,
    /// All is over, and no worker has anything under way any more.
    pub(super) at_rest: bool,
}

impl Board {
    pub(super) fn new() -> Self {
        Self {
            started: Instant::now(),
            quiet: RwLock::default(),
            news: watch::Sender::default(),
            unknown: AtomicUsize::new(0),
        }
    }

    /// Microseconds since the start.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).expect("no test takes so long")
    }

    pub(super) fn news(&self) -> watch::Receiver<News> {
        self.news.subscribe()
    }

    pub(super) fn tell(&self, change: impl FnOnce(&mut News)) {
        self.news.send_modify(change);
    }

    /// Waits until it is so; false when all is over.
    pub(super) async fn wait_until(&self, mut is_so: impl FnMut(&News) -> bool) -> bool {
        let mut news = self.news();
        !news.wait_for(|news| news.over || is_so(news)).await.expect("the board stays").over
    }

    /// Waits until no worker has anything under way any more.
    pub(super) async fn wait_for_rest(&self) {
        let mut news = self.news();
        let rest = news.wait_for(|news| news.at_rest).await;
        drop(rest.expect("the board stays"));
    }

    /// The tag of the first of so many new messages; none when all is over.
    pub(super) async fn draw(&self, count: u64) -> Option<u64> {
        let goes_on = self.wait_until(|news| news.outstanding < OUTSTANDING_MAX).await;
        let mut first = 0;
        self.tell(|news| {
            first = news.drawn;
            news.drawn += count;
        });
        goes_on.then_some(first)
    }

    /// Nothing is counted while somebody has a turn.
    pub(super) async fn turn(&self) -> RwLockReadGuard<'_, ()> {
        self.quiet.read().await
    }

    pub(super) async fn quiet(&self) -> RwLockWriteGuard<'_, ()> {
        self.quiet.write().await
    }

    /// What a request that began then and has ended now has come to.
    pub(super) fn record<T>(&self, invoked: u64, outcome: Result<T, Unknown>) -> (Span, Option<T>) {
        let ended = self.now();
        match outcome {
            Ok(outcome) => (Span { invoked, ended }, Some(outcome)),
            Err(unknown) => {
                let count = self.unknown.fetch_add(1, Ordering::Relaxed) + 1;
                assert!(count < UNKNOWN_MAX, "{count} requests failed, the last with {}", unknown.0);
                (Span { invoked, ended: ended + LATE_US }, None)
            }
        }
    }

    pub(super) fn unknown(&self) -> usize {
        self.unknown.load(Ordering::Relaxed)
    }
}
