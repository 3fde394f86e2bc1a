//! Lines: connections that are replaced when they have died without a word.
//!
//! `fred` counts the time since its last write to a connection, so while commands keep coming it
//! would wait for ever for one that says nothing. A line that leaves an attempt unanswered, and
//! whatever else was asked since that attempt began, is taken for dead. In a cluster a line is a
//! connection to each node, and one node does not vouch for another: answers count for the part of
//! the slots that they come from.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::{ClientLike, EventInterface};
use fred::util::redis_keyslot;
use tokio::sync::Notify;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep};
use tracing::warn;

/// The slots of a cluster, and into how many parts answers are told apart. Slots next to each other are
/// mostly of one node.
const SLOTS: usize = 16_384;
const PARTS: usize = 64;
/// How long a client rests that has given up, which it does where it sees no sense in going on.
const REST: Duration = Duration::from_secs(1);

/// All lines of this process.
#[derive(Clone)]
pub(super) struct Lines {
    all: Arc<[Line]>,
    next: Arc<AtomicUsize>,
    cut_off_since: Arc<Mutex<Option<Instant>>>,
}

/// One connection, or one to each node of a cluster.
pub(super) struct Line {
    client: Client,
    last_answers: Arc<[Mutex<Instant>]>,
    hanging_up: Arc<AtomicBool>,
}

impl Lines {
    /// Begins to connect, and never ends.
    pub(super) fn open(clients: &[Client]) -> Self {
        let all = clients.iter().cloned().map(Line::open).collect();
        Self { all, next: Arc::default(), cut_off_since: Arc::default() }
    }

    /// The next line in turn, if possible one that is connected.
    pub(super) fn next(&self) -> &Line {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let in_turn = |offset| &self.all[turn.wrapping_add(offset) % self.all.len()];
        let connected = (0..self.all.len()).map(in_turn).find(|line| line.client.is_connected());
        connected.unwrap_or_else(|| in_turn(0))
    }

    /// For how long there has been no connection at all, as far as anybody has asked.
    pub(super) fn cut_off_for(&self) -> Duration {
        let mut since = self.cut_off_since.lock().unwrap_or_else(PoisonError::into_inner);
        if self.all.iter().any(|line| line.client.is_connected()) {
            *since = None;
        } else {
            since.get_or_insert_with(Instant::now);
        }
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Whether each is a connection to every node of a cluster.
    pub(super) fn are_clustered(&self) -> bool {
        self.all[0].client.is_clustered()
    }

    /// Notified after each reconnection of a line and each change of the cluster that it finds.
    pub(super) fn reconnected(&self) -> Arc<Notify> {
        let notify = Arc::new(Notify::new());
        for line in &*self.all {
            let (mut reconnections, mut changes) = (line.client.reconnect_rx(), line.client.cluster_change_rx());
            let notified = notify.clone();
            tokio::spawn(async move {
                loop {
                    let event = tokio::select! {
                        event = reconnections.recv() => event.map(drop),
                        event = changes.recv() => event.map(drop),
                    };
                    if matches!(event, Err(RecvError::Closed)) {
                        return;
                    }
                    notified.notify_one();
                }
            });
        }
        notify
    }

    /// Waits until all lines have been connected.
    pub(super) async fn connected(&self) {
        for line in &*self.all {
            while line.client.wait_for_connect().await.is_err() {
                sleep(REST).await;
            }
        }
    }
}

impl Line {
    fn open(client: Client) -> Self {
        let driven = client.clone();
        tokio::spawn(async move {
            loop {
                let end = driven.connect().await;
                warn!(?end, "a connection to the store was given up; it is tried again");
                sleep(REST).await;
            }
        });
        let parts = if client.is_clustered() { PARTS } else { 1 };
        let last_answers = (0..parts).map(|_| Mutex::new(Instant::now())).collect();
        Self { client, last_answers, hanging_up: Arc::default() }
    }

    pub(super) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Notes that whoever has the key lives.
    pub(super) fn has_answered(&self, key: &str) {
        *self.last_answer(key) = Instant::now();
    }

    /// Replaces the connection unless whoever has the key has answered somebody since `began`.
    pub(super) fn hang_up_if_silent_since(&self, began: Instant, key: &str) {
        // A client that is connecting already would do it once more afterwards.
        let lives = *self.last_answer(key) >= began || !self.client.is_connected();
        if lives || self.hanging_up.swap(true, Ordering::SeqCst) {
            return;
        }
        warn!("a connection to the store is silent and is replaced");
        let (client, last_answers, hanging_up) =
            (self.client.clone(), self.last_answers.clone(), self.hanging_up.clone());
        tokio::spawn(async move {
            let _next_attempt_tells = client.force_reconnection().await;
            for last_answer in &*last_answers {
                *lock(last_answer) = Instant::now();
            }
            hanging_up.store(false, Ordering::SeqCst);
        });
    }

    fn last_answer(&self, key: &str) -> MutexGuard<'_, Instant> {
        let parts = self.last_answers.len();
        lock(&self.last_answers[usize::from(redis_keyslot(key.as_bytes())) * parts / SLOTS])
    }
}

fn lock(instant: &Mutex<Instant>) -> MutexGuard<'_, Instant> {
    instant.lock().unwrap_or_else(PoisonError::into_inner)
}
