//! The connections of a listener: how many may be open, and which one is closed for a new one.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::delivery::Outbound;

/// All connections of a listener.
pub(super) struct Connections {
    places: Arc<Semaphore>,
    open: Arc<Registry>,
    tasks: TaskTracker,
    closing: CancellationToken,
}

struct Registry {
    by_number: Mutex<HashMap<u64, Arc<Connection>>>,
    /// A new connection waits until another one is idle.
    is_full: AtomicBool,
    became_idle: Notify,
    /// Idle times are measured from here.
    start: Instant,
}

/// One connection, as requests on it know it.
pub(super) struct Connection {
    /// What it has been given to write and was taken out of queues.
    pub(super) outbound: Outbound,
    registry: Arc<Registry>,
    /// Since when it has had no request, in microseconds; [`BUSY`] while it has one.
    idle_since_us: AtomicU64,
    close: CancellationToken,
}

const BUSY: u64 = u64::MAX;

impl Connections {
    /// At most `max` connections.
    pub(super) fn new(max: usize) -> Self {
        let open = Registry {
            by_number: Mutex::default(),
            is_full: AtomicBool::new(false),
            became_idle: Notify::new(),
            start: Instant::now(),
        };
        let places = Arc::new(Semaphore::new(max.min(Semaphore::MAX_PERMITS)));
        Self { places, open: Arc::new(open), tasks: TaskTracker::new(), closing: CancellationToken::new() }
    }

    /// Waits until there is a place for one more connection. If there is none, the connection is closed that has been
    /// idle for longest; if none is idle, the next one that is.
    pub(super) async fn place(&self) -> OwnedSemaphorePermit {
        loop {
            if let Ok(place) = self.places.clone().try_acquire_owned() {
                return place;
            }
            self.open.is_full.store(true, Ordering::SeqCst);
            let is_closing = self.open.close_longest_idle();
            tokio::select! {
                place = self.places.clone().acquire_owned() => {
                    self.open.is_full.store(false, Ordering::SeqCst);
                    return place.expect("the semaphore is never closed");
                }
                () = self.open.became_idle.notified(), if !is_closing => {}
            }
        }
    }

    /// Serves a connection, which has this place, in a task of its own.
    pub(super) fn serve<F: Future<Output = ()> + Send + 'static>(
        &self,
        number: u64,
        place: OwnedSemaphorePermit,
        serve: impl FnOnce(Arc<Connection>, CancellationToken) -> F,
    ) {
        let close = self.closing.child_token();
        let connection = Arc::new(Connection {
            outbound: Outbound::default(),
            registry: self.open.clone(),
            idle_since_us: AtomicU64::new(self.open.now_us()),
            close: close.clone(),
        });
        self.open.lock().insert(number, connection.clone());
        let (open, serve) = (self.open.clone(), serve(connection, close));
        self.tasks.spawn(async move {
            serve.await;
            open.lock().remove(&number);
            drop(place);
        });
    }

    /// Closes each connection as soon as it has no request, and waits for that.
    pub(super) async fn close(self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Connection>>> {
        self.by_number.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(BUSY - 1)
    }

    /// Returns whether there was an idle connection.
    fn close_longest_idle(&self) -> bool {
        let open = self.lock();
        let idle_since = |connection: &&Arc<Connection>| connection.idle_since_us.load(Ordering::SeqCst);
        let is_idle =
            |connection: &&Arc<Connection>| idle_since(connection) != BUSY && !connection.close.is_cancelled();
        let longest = open.values().filter(is_idle).min_by_key(idle_since);
        if let Some(connection) = longest {
            connection.close.cancel();
        }
        longest.is_some()
    }
}

impl Connection {
    /// A request has arrived.
    pub(super) fn begin_request(&self) {
        self.idle_since_us.store(BUSY, Ordering::SeqCst);
    }

    /// The request is answered.
    pub(super) fn end_request(&self) {
        self.idle_since_us.store(self.registry.now_us(), Ordering::SeqCst);
        if self.registry.is_full.load(Ordering::SeqCst) {
            self.registry.became_idle.notify_one();
        }
    }
}
