//! Confirms the registrations of queues in use: a register may lose names that were acknowledged, when its slot fails over to
//! a replica that lags, while the queues stay.
//!
//! A process confirms a queue when it first uses it, then after every ten minutes of use, and after a reconnection. One task
//! does so beside the operations, which do not wait for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quick_cache::sync::Cache;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tracing::{debug, warn};

use super::RedisStore;
use crate::domain::QueueId;

/// How long a confirmation lasts while the queue is used.
const CONFIRMED_FOR: Duration = Duration::from_secs(600);
/// Maximum number of queues of which a process remembers that they are confirmed.
const REMEMBERED_MAX: usize = 10_000;
/// Maximum number of queues that wait to be confirmed. Further ones are confirmed when they are used again.
const WAITING_MAX: usize = 1_024;
/// How long a queue waits at least: the operation that used it goes first, and it may just be creating the queue.
const DELAY: Duration = Duration::from_secs(1);
/// How long the task leaves the store to others between two queues.
const PAUSE: Duration = Duration::from_millis(5);

/// The confirmations of a process. Clones are the same.
#[derive(Clone)]
pub(super) struct Confirmation {
    /// Since when a queue is confirmed, or waits to be, and the number of reconnections before.
    confirmed: Arc<Cache<QueueId, (Instant, u64)>>,
    reconnections: Arc<AtomicU64>,
    waiting: mpsc::Sender<(QueueId, Instant)>,
}

impl Confirmation {
    /// Also returns what `run` needs.
    pub(super) fn new() -> (Self, mpsc::Receiver<(QueueId, Instant)>) {
        let (waiting, receiver) = mpsc::channel(WAITING_MAX);
        let confirmed = Arc::new(Cache::new(REMEMBERED_MAX));
        (Self { confirmed, reconnections: Arc::default(), waiting }, receiver)
    }

    /// Has the registration of a queue in use confirmed in the background, if it is time for that.
    pub(super) fn uses(&self, queue: &QueueId) {
        let reconnections = self.reconnections.load(Ordering::Relaxed);
        let now = Instant::now();
        let is_confirmed = |(since, then): (Instant, u64)| then == reconnections && now - since < CONFIRMED_FOR;
        if self.confirmed.get(queue).is_some_and(is_confirmed) {
            return;
        }
        if let Ok(place) = self.waiting.try_reserve() {
            self.confirmed.insert(queue.clone(), (now, reconnections));
            place.send((queue.clone(), now));
        }
    }

    /// Confirmations from before count no longer.
    pub(super) fn reconnected(&self) {
        self.reconnections.fetch_add(1, Ordering::Relaxed);
    }
}

impl RedisStore {
    /// Confirms the queues that wait, one after the other, until the process uses the store no longer.
    pub(super) async fn confirm_registrations(self, mut waiting: mpsc::Receiver<(QueueId, Instant)>) {
        while let Some((queue, since)) = waiting.recv().await {
            sleep(DELAY.saturating_sub(since.elapsed()).max(PAUSE)).await;
            match self.confirm_registration(&queue).await {
                Ok(false) => debug!(%queue, "confirmed the registration of a queue"),
                Ok(true) => warn!(%queue, "a queue was not registered; it is registered again"),
                Err(error) => {
                    warn!(%queue, %error, "cannot confirm the registration of a queue; its next use tries again");
                    self.confirmation.confirmed.remove(&queue);
                }
            }
        }
    }
}
