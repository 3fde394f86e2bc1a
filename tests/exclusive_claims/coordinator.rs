//! State that the actors share: it paces them. The checker does not use it.

use std::time::Instant;

use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard, watch};

use super::history::Span;
use super::wire::Unknown;
use support::timeline::failures::Failures;

/// Largest number of unfinished messages; beyond it, producers pause.
const OUTSTANDING_MAX: i64 = 600;
/// Time after which a command of a killed server has run or never will, in microseconds.
const LATE_US: u64 = 5_000_000;

pub(super) struct Coordinator {
    started: Instant,
    quiet: RwLock<()>,
    progress: watch::Sender<Progress>,
    pub(super) failures: Failures,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Number of messages posted or being posted.
    pub(super) reserved: u64,
    /// An estimate, which each count corrects.
    pub(super) outstanding: i64,
    pub(super) posts: u64,
    pub(super) claims: u64,
    pub(super) moves: u64,
    pub(super) over: bool,
    /// The test is over, and no worker has a request under way.
    pub(super) is_idle: bool,
    /// Nor does a server complete in the background what it has answered.
    pub(super) is_settled: bool,
}

impl Coordinator {
    /// This many requests without a response are an error.
    pub(super) fn new(failures_max: usize) -> Self {
        Self {
            started: Instant::now(),
            quiet: RwLock::default(),
            progress: watch::Sender::default(),
            failures: Failures::below(failures_max),
        }
    }

    /// Returns the time since the start, in microseconds.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).expect("no test takes so long")
    }

    pub(super) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut Progress)) {
        self.progress.send_modify(change);
    }

    /// Waits until the condition is true. Returns `false` when the test is over.
    pub(super) async fn wait_until(&self, mut is_so: impl FnMut(&Progress) -> bool) -> bool {
        let mut progress = self.progress();
        !progress
            .wait_for(|progress| progress.over || is_so(progress))
            .await
            .expect("the coordinator exists during the test")
            .over
    }

    /// Waits until no worker has a request under way.
    pub(super) async fn wait_until_idle(&self) {
        self.wait_for(|progress| progress.is_idle).await;
    }

    /// Waits until the servers have completed what they have answered, too.
    pub(super) async fn wait_until_settled(&self) {
        self.wait_for(|progress| progress.is_settled).await;
    }

    async fn wait_for(&self, is_so: impl FnMut(&Progress) -> bool) {
        let mut progress = self.progress();
        let reached = progress.wait_for(is_so).await;
        drop(reached.expect("the coordinator exists during the test"));
    }

    /// Reserves `count` tags for new messages and returns the first. Returns `None` when the test
    /// is over.
    pub(super) async fn reserve_tags(&self, count: u64) -> Option<u64> {
        let goes_on = self.wait_until(|progress| progress.outstanding < OUTSTANDING_MAX).await;
        let mut first = 0;
        self.update(|progress| {
            first = progress.reserved;
            progress.reserved += count;
        });
        goes_on.then_some(first)
    }

    /// Starts an operation. Messages are not counted while an operation is under way.
    pub(super) async fn begin_operation(&self) -> RwLockReadGuard<'_, ()> {
        self.quiet.read().await
    }

    pub(super) async fn quiet(&self) -> RwLockWriteGuard<'_, ()> {
        self.quiet.write().await
    }

    /// Returns the span and the result of a request that began at `invoked` and has ended now.
    pub(super) fn record<T>(&self, invoked: u64, outcome: Result<T, Unknown>) -> (Span, Option<T>) {
        let ended = self.now();
        match outcome {
            Ok(outcome) => (Span { invoked, ended }, Some(outcome)),
            Err(unknown) => {
                self.failures.record(invoked, ended, &unknown.0);
                (Span { invoked, ended: ended + LATE_US }, None)
            }
        }
    }
}
