//! Who waits in this process for something to turn up in a queue, and how they are woken.
//!
//! Whoever waits watches first, then looks, then waits to be called, then looks again: so nothing that turns up is
//! missed. Each queue that is watched has a keeper, a task that knows when the next delay or lease ends there and has
//! the store settle it then. A store tells its watchers what has become free: many claimers are called one for each
//! message, because one alone can have it, and all readers at once.
//!
//! Why no end of a lease is missed: whatever begins to be free is told, and everybody who was called looks and then
//! wakes the keeper, which asks anew when the next lease ends. So a lease of which it does not know was made
//! over messages that it was not told of, and of those there are none.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::broadcast::error::TryRecvError;
use tokio::sync::{Notify, OnceCell, broadcast, futures::Notified, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{Error, Sight};
use crate::domain::{QueueId, Rank};

/// Maximum number of older positions kept for a waiter that has not caught up; one that has missed some starts anew.
const OLDER_POSITIONS_MAX: usize = 16;
/// For so long a queue stays watched that nobody waits for any more: most clients that have waited wait again.
const LINGER: Duration = Duration::from_secs(5);
/// The keeper asks no more often than this, however often it is woken.
const PAUSE_BETWEEN_SIGHTS: Duration = Duration::from_millis(5);
/// How long the keeper rests when the store is away.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(500);
/// As often as this the keeper looks whether something has come untold, as where a queue has moved to another node.
const VERIFIED_EVERY: Duration = Duration::from_secs(30);

/// A position before every message.
const BEFORE_ALL: Rank = Rank::MIN;

/// What a store does for its watchers.
#[async_trait]
pub(super) trait Source: Clone + Send + Sync + 'static {
    /// Has the watchers told of what becomes free in the queue, whichever process brings it. May be done again.
    async fn subscribe(&self, queue: &QueueId) -> Result<(), Error>;

    /// Ends that.
    async fn unsubscribe(&self, queue: &QueueId);

    /// Settles what is due in the queue and says where it stands.
    async fn see(&self, queue: &QueueId) -> Result<Sight, Error>;
}

/// All queues for which somebody waits in this process. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct Watchers(Arc<Mutex<HashMap<QueueId, Arc<Watched>>>>);

/// A queue for which somebody waits, or has just waited.
struct Watched {
    people: Mutex<People>,
    is_subscribed: OnceCell<()>,
    claimers: Notify,
    /// Count what readers hear of: what has become free, and that and what is delayed.
    free: watch::Sender<u64>,
    any: watch::Sender<u64>,
    /// Positions at which messages became available although readers may have passed them.
    older: broadcast::Sender<Rank>,
    keeper: Notify,
    gone: CancellationToken,
}

#[derive(Default)]
struct People {
    count: usize,
    is_leaving: bool,
}

/// A place among those who wait for messages of a queue.
pub struct Watch {
    watched: Arc<Watched>,
}

impl Watchers {
    /// A place among those who wait for the queue.
    pub(super) async fn enter(&self, source: &impl Source, queue: &QueueId) -> Result<Watch, Error> {
        loop {
            let watched = self.watched(source, queue);
            if !watched.let_in() {
                watched.gone.cancelled().await;
                continue;
            }
            let watch = Watch { watched: watched.clone() };
            watched.is_subscribed.get_or_try_init(|| source.subscribe(queue)).await?;
            return Ok(watch);
        }
    }

    fn watched(&self, source: &impl Source, queue: &QueueId) -> Arc<Watched> {
        match self.all().entry(queue.clone()) {
            Entry::Occupied(entry) => entry.get().clone(),
            Entry::Vacant(entry) => {
                let watched = entry.insert(Watched::new()).clone();
                tokio::spawn(keep(source.clone(), self.clone(), queue.clone(), watched.clone()));
                watched
            }
        }
    }

    /// Tells who waits for the queue that so many messages have become free; with 0 that something is delayed or
    /// leased that may be due sooner than what was known. `older` is the lowest position of those messages that did not
    /// become available behind all others.
    pub(super) fn tell(&self, queue: &QueueId, freed: u64, older: Option<Rank>) {
        if let Some(watched) = self.known(queue) {
            watched.tell(freed, older);
        }
    }

    /// Somebody has looked who waits for the queue.
    pub(super) fn looked(&self, queue: &QueueId) {
        if let Some(watched) = self.known(queue) {
            watched.keeper.notify_one();
        }
    }

    /// Has everybody look who waits for the queue: nobody knows what they were not told.
    pub(super) fn tell_all(&self, queue: &QueueId) {
        if let Some(watched) = self.known(queue) {
            watched.tell_all();
        }
    }

    fn known(&self, queue: &QueueId) -> Option<Arc<Watched>> {
        self.all().get(queue).cloned()
    }

    fn all(&self) -> MutexGuard<'_, HashMap<QueueId, Arc<Watched>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, queue: &QueueId, watched: &Arc<Watched>) {
        if let Entry::Occupied(entry) = self.all().entry(queue.clone())
            && Arc::ptr_eq(entry.get(), watched)
        {
            entry.remove();
        }
        watched.gone.cancel();
    }
}

impl Watched {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            people: Mutex::default(),
            is_subscribed: OnceCell::new(),
            claimers: Notify::new(),
            free: watch::Sender::default(),
            any: watch::Sender::default(),
            older: broadcast::Sender::new(OLDER_POSITIONS_MAX),
            keeper: Notify::new(),
            gone: CancellationToken::new(),
        })
    }

    fn people(&self) -> MutexGuard<'_, People> {
        self.people.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn let_in(&self) -> bool {
        let mut people = self.people();
        people.count += usize::from(!people.is_leaving);
        !people.is_leaving
    }

    /// Whether nobody is left; then nobody is let in any more.
    fn is_left(&self) -> bool {
        let mut people = self.people();
        people.is_leaving = people.count == 0;
        people.is_leaving
    }

    fn tell(&self, freed: u64, older: Option<Rank>) {
        if let Some(rank) = older {
            // First, so that a reader that is woken knows the position.
            let _nobody_reads = self.older.send(rank);
        }
        if freed > 0 {
            self.free.send_modify(|count| *count += 1);
            let people = self.people().count as u64;
            (0..freed.min(people)).for_each(|_| self.claimers.notify_one());
        }
        self.any.send_modify(|count| *count += 1);
        self.keeper.notify_one();
    }

    fn tell_all(&self) {
        self.tell(u64::MAX, Some(BEFORE_ALL));
    }

    /// Has the next query of each reader start anew, because notifications may have been lost.
    fn start_anew(&self) {
        let _nobody_reads = self.older.send(BEFORE_ALL);
    }
}

impl Watch {
    /// Calls a claimer when there may be something for it: from now on, once it is enabled. One that goes without
    /// having looked passes the call on.
    pub fn claimer(&self) -> Notified<'_> {
        self.watched.claimers.notified()
    }

    /// Passes a call on that was taken up in vain.
    pub fn pass_on(&self) {
        self.watched.claimers.notify_one();
    }

    /// Calls a reader when something has become free; with those who also read what is delayed, when that has come.
    #[must_use]
    pub fn reader(&self, with_delayed: bool) -> Receiver {
        let changes = if with_delayed { &self.watched.any } else { &self.watched.free };
        Receiver { changes: changes.subscribe(), older: self.watched.older.subscribe() }
    }
}

/// Receives the notifications for a waiter that reads a feed.
#[derive(Debug)]
pub struct Receiver {
    changes: watch::Receiver<u64>,
    older: broadcast::Receiver<Rank>,
}

impl Receiver {
    /// Waits until there is a notification that came after the last call of [`Self::catch_up`].
    pub async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            // There is a sender as long as the queue is watched.
            std::future::pending::<()>().await;
        }
    }

    /// Takes all notifications so far as known; call this before a query. Returns the lowest position at which messages
    /// became available that are not behind all others: a query that continues where the last one ended must not
    /// start behind it. After lost notifications that is a position before every message.
    pub fn catch_up(&mut self) -> Option<Rank> {
        self.changes.mark_unchanged();
        let mut lowest: Option<Rank> = None;
        loop {
            let rank = match self.older.try_recv() {
                Ok(rank) => rank,
                Err(TryRecvError::Lagged(_)) => BEFORE_ALL,
                Err(TryRecvError::Empty | TryRecvError::Closed) => return lowest,
            };
            lowest = Some(lowest.map_or(rank, |lowest| lowest.min(rank)));
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut people = self.watched.people();
        people.count -= 1;
        if people.count == 0 {
            self.watched.keeper.notify_one();
        }
    }
}

/// Has what is due in the queue settled in time, as long as anybody waits for it, and subscribes to it a little longer.
async fn keep(source: impl Source, watchers: Watchers, queue: QueueId, watched: Arc<Watched>) {
    let mut verified = Verified { at: Instant::now(), last: Rank::default(), free: 0, told: 0 };
    let mut left_at = None;
    loop {
        let rest = if watched.people().count > 0 {
            left_at = None;
            keep_once(&source, &queue, &watched, &mut verified).await
        } else {
            let since = left_at.get_or_insert_with(Instant::now).elapsed();
            if since >= LINGER && watched.is_left() {
                break;
            }
            LINGER.saturating_sub(since)
        };
        if timeout(rest, watched.keeper.notified()).await.is_ok() {
            sleep(PAUSE_BETWEEN_SIGHTS).await;
        }
    }
    source.unsubscribe(&queue).await;
    watchers.forget(&queue, &watched);
}

/// Has what is due settled; says how long there is nothing more to do.
async fn keep_once(source: &impl Source, queue: &QueueId, watched: &Watched, verified: &mut Verified) -> Duration {
    let is_to_be_verified = verified.at.elapsed() >= VERIFIED_EVERY && source.subscribe(queue).await.is_ok();
    match source.see(queue).await {
        Ok(sight) => {
            verified.compare(watched, &sight, is_to_be_verified);
            sight.next_due.unwrap_or(VERIFIED_EVERY).clamp(PAUSE_BETWEEN_SIGHTS, VERIFIED_EVERY)
        }
        Err(error) => {
            debug!(%error, %queue, "a watched queue was not seen");
            PAUSE_AFTER_FAILURE
        }
    }
}

/// What a keeper knows that everybody was told of.
struct Verified {
    at: Instant,
    last: Rank,
    free: u64,
    told: u64,
}

impl Verified {
    /// Has everybody look if something has come that nobody was told of.
    fn compare(&mut self, watched: &Watched, sight: &Sight, is_to_be_verified: bool) {
        let told = *watched.free.borrow();
        if is_to_be_verified {
            watched.start_anew();
            self.at = Instant::now();
            if told == self.told && (sight.last != self.last || sight.free > self.free) {
                watched.tell_all();
            }
        }
        (self.last, self.free, self.told) = (sight.last, sight.free, told);
    }
}
