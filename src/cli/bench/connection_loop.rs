//! The loop of one connection: it posts, or follows a feed, or claims and deletes, until the run
//! ends.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::connection::{Connection, Failure};
use super::pacing::Pace;
use super::responses::{ClaimResponse, Page};
use super::stats::{Kind, RequestStats, Window};
use super::target::Outgoing;
use super::timer::PreciseTimer;
use super::traffic::Traffic;

/// Pause after a connection could not be opened, before the next attempt.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);

/// The state that all connections of a thread share.
pub(super) struct ThreadState {
    pub(super) traffic: Arc<Traffic>,
    /// Number of messages in each post.
    pub(super) batch: u64,
    pub(super) window: Window,
    /// Canceled when the run is interrupted.
    pub(super) stop: CancellationToken,
    pub(super) timer: PreciseTimer,
    pub(super) stats: RefCell<[RequestStats; Kind::ALL.len()]>,
    pub(super) totals: Arc<RunningTotals>,
}

/// Requests of one thread so far, including those of the warm-up. The progress bar reads them.
#[derive(Debug, Default)]
pub(super) struct RunningTotals {
    succeeded: AtomicU64,
    failed: AtomicU64,
}

impl RunningTotals {
    /// Returns the numbers of successful and failed requests of all threads.
    pub(super) fn sum(threads: &[Arc<Self>]) -> (u64, u64) {
        let sum =
            |count: fn(&Self) -> &AtomicU64| threads.iter().map(|totals| count(totals).load(Ordering::Relaxed)).sum();
        (sum(|totals| &totals.succeeded), sum(|totals| &totals.failed))
    }
}

/// A connection and what it does.
pub(super) struct ConnectionLoop {
    kind: Kind,
    /// The number of this connection among those of its kind, from 0.
    index: usize,
    connection: Connection,
    pace: Pace,
    thread: Rc<ThreadState>,
}

impl ThreadState {
    fn update(&self, kind: Kind, update: impl FnOnce(&mut RequestStats)) {
        update(&mut self.stats.borrow_mut()[kind as usize]);
    }

    fn record_success(&self, kind: Kind, due: Instant, now: Instant, messages: u64) {
        self.update(kind, |stats| stats.record_success(&self.window, due, now, messages));
        self.totals.succeeded.fetch_add(1, Ordering::Relaxed);
    }

    fn record_failures(&self, kind: Kind, now: Instant, failure: Failure, requests: u64) {
        self.update(kind, |stats| stats.record_failures(&self.window, now, failure, requests));
        self.totals.failed.fetch_add(requests, Ordering::Relaxed);
    }
}

impl ConnectionLoop {
    pub(super) fn new(kind: Kind, index: usize, connection: Connection, pace: Pace, thread: &Rc<ThreadState>) -> Self {
        Self { kind, index, connection, pace, thread: thread.clone() }
    }

    /// Sends requests until the end of the run.
    pub(super) async fn run(mut self) {
        let thread = self.thread.clone();
        match self.kind {
            Kind::Produce => self.produce(&thread).await,
            Kind::Observe => self.observe(&thread).await,
            Kind::Claim | Kind::Delete => self.claim(&thread).await,
        }
        thread.record_failures(self.kind, thread.window.end, Failure::NeverSent, self.pace.missed());
    }

    /// Waits until the next request is due. Returns `None` at the end of the run, or if it is interrupted.
    async fn next_due(&mut self, thread: &ThreadState) -> Option<Instant> {
        thread.stop.run_until_cancelled(self.pace.wait_until_due(&thread.timer)).await.flatten()
    }

    async fn produce(&mut self, thread: &ThreadState) {
        let mut rng = fastrand::Rng::new();
        while let Some(due) = self.next_due(thread).await {
            let post = thread.traffic.random_queue(&mut rng).post();
            self.send(Kind::Produce, due, post, |_| Some((thread.batch, ()))).await;
        }
    }

    async fn observe(&mut self, thread: &ThreadState) {
        let queue = thread.traffic.queue(self.index);
        let mut next = queue.first_page();
        while let Some(due) = self.next_due(thread).await {
            let parse = |body: &[u8]| {
                let page = Page::parse(body)?;
                let is_end = page.messages() == 0;
                let next = if is_end { queue.first_page() } else { queue.page_after(page.marker()?)? };
                Some((page.messages(), next))
            };
            // A request that fails is repeated.
            next = self.send(Kind::Observe, due, next.clone(), parse).await.unwrap_or(next);
        }
    }

    async fn claim(&mut self, thread: &ThreadState) {
        let mut queue_numbers = self.index..;
        while let (Some(due), Some(n)) = (self.next_due(thread).await, queue_numbers.next()) {
            let queue = thread.traffic.queue(n);
            let parse = |body: &[u8]| {
                let claimed = ClaimResponse::parse(body)?;
                let delete = if claimed.messages() == 0 { None } else { Some(queue.delete(claimed.ids())?) };
                Some((claimed.messages(), delete.map(|delete| (claimed.messages(), delete))))
            };
            if let Some((messages, delete)) = self.send(Kind::Claim, due, queue.claim(), parse).await.flatten() {
                self.send(Kind::Delete, Instant::now(), delete, |_| Some((messages, ()))).await;
            }
        }
    }

    /// Sends a request and records its outcome. `parse` returns the number of messages in the
    /// response body and the value that the caller needs.
    async fn send<T>(
        &mut self,
        kind: Kind,
        due: Instant,
        request: Outgoing,
        parse: impl FnOnce(&[u8]) -> Option<(u64, T)>,
    ) -> Option<T> {
        let outcome = self.connection.exchange(request).await;
        let now = Instant::now();
        match outcome.and_then(|_| parse(self.connection.response_body()).ok_or(Failure::Unreadable)) {
            Ok((messages, found)) => {
                self.thread.record_success(kind, due, now, messages);
                Some(found)
            }
            Err(failure) => {
                self.thread.record_failures(kind, now, failure, 1);
                if let Failure::Connect(_) = failure {
                    sleep(RECONNECT_PAUSE).await;
                }
                None
            }
        }
    }
}
