//! Confirms the registrations of queues in use. A register may lose acknowledged names when its
//! slot fails over to a replica that lags, while the queues remain.
//!
//! A process confirms a queue at its first use, then after every ten minutes of use, and after a
//! reconnection. One task does this in the background, and operations do not wait for it. The walk
//! of the janitor finds the queues that nobody uses.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quick_cache::sync::Cache;
use tokio::sync::mpsc;
use tokio::time::Instant;

use sukkal_domain::QueueId;

/// How long a confirmation is valid while the queue is used.
const CONFIRMATION_LIFETIME: Duration = Duration::from_secs(600);
/// Maximum number of queues that a process remembers as confirmed.
const CONFIRMED_QUEUES_MAX: usize = 10_000;
/// Maximum number of queues that wait for confirmation. Others are confirmed at a later use.
const PENDING_MAX: usize = 1_024;

/// The confirmations of a process. Clones share them.
#[derive(Clone)]
pub(in crate::redis) struct Confirmer {
    /// Since when a queue has been confirmed or waiting for confirmation, and the number of
    /// reconnections at that time.
    confirmed: Arc<Cache<QueueId, (Instant, u64)>>,
    reconnections: Arc<AtomicU64>,
    waiting: mpsc::Sender<(QueueId, Instant)>,
}

impl Confirmer {
    /// Returns the confirmer, and the receiver for `RedisStore::confirm_registrations`.
    pub(in crate::redis) fn new() -> (Self, mpsc::Receiver<(QueueId, Instant)>) {
        let (waiting, receiver) = mpsc::channel(PENDING_MAX);
        let confirmed = Arc::new(Cache::new(CONFIRMED_QUEUES_MAX));
        (Self { confirmed, reconnections: Arc::default(), waiting }, receiver)
    }

    /// Records a use of a queue, and queues it for confirmation if that is necessary.
    pub(in crate::redis) fn note_use(&self, queue: &QueueId) {
        let reconnections = self.reconnections.load(Ordering::Relaxed);
        let now = Instant::now();
        let is_confirmed = |(since, then): (Instant, u64)| then == reconnections && now - since < CONFIRMATION_LIFETIME;
        if self.confirmed.get(queue).is_some_and(is_confirmed) {
            return;
        }
        if let Ok(permit) = self.waiting.try_reserve() {
            self.confirmed.insert(queue.clone(), (now, reconnections));
            permit.send((queue.clone(), now));
        }
    }

    /// Forgets the confirmation of a queue, so that its next use asks for another one.
    pub(in crate::redis) fn forget(&self, queue: &QueueId) {
        self.confirmed.remove(queue);
    }

    /// Invalidates all earlier confirmations.
    pub(in crate::redis) fn reconnected(&self) {
        self.reconnections.fetch_add(1, Ordering::Relaxed);
    }
}
