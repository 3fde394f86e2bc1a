//! The loop of one connection: it posts, or follows a feed, or claims and deletes, until the run
//! ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::connection::{LoadConnection, LoadFailure, Outgoing};
use super::pace::Pace;
use super::requests::{Messages, Requests};
use super::stats::{Kind, Stats, Window};

/// Pause after a connection could not be opened, before the next attempt.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);
/// Maximum time for the requests in flight when a run is interrupted.
const LAST_REQUESTS_MAX: Duration = Duration::from_secs(2);

/// What all connections share.
pub(super) struct SharedLoad {
    pub(super) requests: Requests,
    /// Canceled when the run is interrupted.
    pub(super) stop: CancellationToken,
    /// The statistics of each kind of request, indexed by `Kind`.
    pub(super) stats: [Mutex<Stats>; Kind::ALL.len()],
}

impl SharedLoad {
    /// The statistics of a kind of request. They are locked for less than a microsecond per
    /// request.
    pub(super) fn stats(&self, kind: Kind) -> MutexGuard<'_, Stats> {
        self.stats[kind as usize].lock()
    }
}

/// A connection and what it does.
pub(super) struct Worker {
    pub(super) kind: Kind,
    /// The number of this connection among those of its kind, from 0.
    pub(super) index: usize,
    pub(super) window: Window,
    pub(super) connection: LoadConnection,
    pub(super) pace: Pace,
    pub(super) shared: Arc<SharedLoad>,
}

impl Worker {
    /// Sends requests until the end of the run.
    pub(super) async fn run(mut self) {
        let shared = self.shared.clone();
        tokio::select! {
            () = self.send_all() => {}
            // A post that is still on its way would create its queue again after the queue is
            // deleted.
            () = async { shared.stop.cancelled().await; sleep(LAST_REQUESTS_MAX).await } => {}
        }
        let now = Instant::now();
        for _ in 0..self.pace.missed() {
            shared.stats(self.kind).record(&self.window, now, now, Err(&LoadFailure::NeverSent));
        }
    }

    async fn send_all(&mut self) {
        let shared = self.shared.clone();
        match self.kind {
            Kind::Produce => self.produce(&shared.requests).await,
            Kind::Observe => self.observe(&shared.requests).await,
            Kind::Claim | Kind::Delete => self.claim(&shared.requests).await,
        }
    }

    async fn produce(&mut self, requests: &Requests) {
        let mut rng = fastrand::Rng::new();
        while let Some(due) = self.next_due().await {
            let post = requests.post(requests.queue(rng.usize(..)));
            self.send(Kind::Produce, due, post, |_| Some((requests.batch, ()))).await;
        }
    }

    async fn observe(&mut self, requests: &Requests) {
        let queue = requests.queue(self.index);
        let mut marker = None;
        while let Some(due) = self.next_due().await {
            let next = |body: &[u8]| {
                let page = Messages::parse(body)?;
                let messages = page.ids().len();
                Some((messages, if messages == 0 { None } else { Some(page.marker()?.to_owned()) }))
            };
            // A request that fails is repeated.
            let page = requests.page(queue, marker.as_deref());
            marker = self.send(Kind::Observe, due, page, next).await.unwrap_or(marker);
        }
    }

    async fn claim(&mut self, requests: &Requests) {
        let mut queue_numbers = self.index..;
        while let (Some(due), Some(n)) = (self.next_due().await, queue_numbers.next()) {
            let queue = requests.queue(n);
            let delete = |body: &[u8]| {
                let claimed = Messages::parse(body)?;
                let messages = claimed.ids().len();
                Some((messages, (messages > 0).then(|| (messages, requests.delete(queue, claimed.ids())))))
            };
            let claimed = self.send(Kind::Claim, due, requests.claim(queue), delete).await;
            if let Some((messages, delete)) = claimed.flatten() {
                self.send(Kind::Delete, Instant::now(), delete, |_| Some((messages, ()))).await;
            }
        }
    }

    /// Waits until the next request is due. Returns `None` at the end of the run, or if it is
    /// interrupted.
    async fn next_due(&mut self) -> Option<Instant> {
        if Instant::now() >= self.window.end {
            return None;
        }
        self.shared.stop.run_until_cancelled(self.pace.wait_until_due()).await.flatten()
    }

    /// Sends a request and records its outcome. `parse` returns the number of messages in the
    /// response body and the value that the caller needs.
    async fn send<T>(
        &mut self,
        kind: Kind,
        due: Instant,
        request: Result<Outgoing, LoadFailure>,
        parse: impl FnOnce(&[u8]) -> Option<(usize, T)>,
    ) -> Option<T> {
        let outcome = self.connection.exchange(request).await;
        let now = Instant::now();
        let parsed = outcome.and_then(|response| match response.status() {
            status if status.is_success() => parse(response.body()).ok_or(LoadFailure::Unreadable),
            status => Err(LoadFailure::Status(status.as_u16())),
        });
        let messages = parsed.as_ref().map(|(messages, _)| *messages);
        self.shared.stats(kind).record(&self.window, due, now, messages);
        if let Err(LoadFailure::Connect(_)) = parsed {
            sleep(RECONNECT_PAUSE).await;
        }
        parsed.ok().map(|(_, found)| found)
    }
}
