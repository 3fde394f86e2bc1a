//! The connections of a listener: how many may be open, and which one is closed for a new one.
//!
//! A connection is idle from when its last answer has been written until the head of the next request has arrived. Only one that
//! has been idle for a second is closed at once, because on the others a request may be on its way. If there is none, another
//! one is closed after its next answer, which says so to its client.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
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
    /// Idle times are measured from here.
    start: Instant,
}

/// One connection, as requests on it know it.
pub(super) struct Connection {
    /// What it has been given to write and was taken out of queues.
    pub(super) outbound: Outbound,
    registry: Arc<Registry>,
    /// Since when it has had no request, in microseconds; or [`BUSY`], [`ANSWERING`] or [`STREAMING`].
    state: AtomicU64,
    /// Whether its next answer is to be its last.
    is_last: AtomicBool,
    close: CancellationToken,
}

/// It has a request.
const BUSY: u64 = u64::MAX;
/// The last answer is not written as a whole.
const ANSWERING: u64 = u64::MAX - 1;
/// Its answer is a stream, which goes on until the client ends it.
const STREAMING: u64 = u64::MAX - 2;

/// How long a connection has to be idle to be closed for a new one.
const IDLE_MIN: Duration = Duration::from_secs(1);

impl Connections {
    /// At most `max` connections.
    pub(super) fn new(max: usize) -> Self {
        let open = Registry { by_number: Mutex::default(), start: Instant::now() };
        let places = Arc::new(Semaphore::new(max.min(Semaphore::MAX_PERMITS)));
        Self { places, open: Arc::new(open), tasks: TaskTracker::new(), closing: CancellationToken::new() }
    }

    /// Waits until there is a place for one more connection, and makes one as soon as that is possible.
    pub(super) async fn place(&self) -> OwnedSemaphorePermit {
        loop {
            if let Ok(place) = self.places.clone().try_acquire_owned() {
                return place;
            }
            self.open.close_one();
            if let Ok(place) = timeout(IDLE_MIN / 4, self.places.clone().acquire_owned()).await {
                return place.expect("the semaphore is never closed");
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
            state: AtomicU64::new(self.open.now_us()),
            is_last: AtomicBool::new(false),
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
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(STREAMING - 1)
    }

    /// Closes the connection that has been idle for longest, if that is long enough; else another one behind its next answer, if
    /// possible one that has a request.
    fn close_one(&self) {
        let open = self.lock();
        let state = |connection: &&Arc<Connection>| connection.state.load(Ordering::SeqCst);
        let idle_before = self.now_us().saturating_sub(u64::try_from(IDLE_MIN.as_micros()).unwrap_or(u64::MAX));
        let is_idle =
            |connection: &&Arc<Connection>| state(connection) <= idle_before && !connection.close.is_cancelled();
        if let Some(connection) = open.values().filter(is_idle).min_by_key(state) {
            connection.close.cancel();
            return;
        }
        let has_answers = |connection: &&Arc<Connection>| {
            state(connection) != STREAMING && !connection.is_last.load(Ordering::SeqCst)
        };
        if let Some(connection) = open.values().filter(has_answers).max_by_key(state) {
            connection.is_last.store(true, Ordering::SeqCst);
        }
    }
}

impl Connection {
    /// A request has arrived.
    pub(super) fn begin_request(&self) {
        self.state.store(BUSY, Ordering::SeqCst);
    }

    /// There is an answer to the request, and it is to be written. Returns whether the connection is closed behind it, which the
    /// answer has to say.
    pub(super) fn begin_answer(&self, is_stream: bool) -> bool {
        self.state.store(if is_stream { STREAMING } else { ANSWERING }, Ordering::SeqCst);
        self.is_last.load(Ordering::SeqCst)
    }

    /// All that there is to write has been written.
    pub(super) fn written(&self) {
        self.outbound.written();
        if self.state.load(Ordering::SeqCst) == ANSWERING {
            self.state.store(self.registry.now_us(), Ordering::SeqCst);
        }
    }

    /// Whether it has no request and nothing to write.
    pub(super) fn is_idle(&self) -> bool {
        self.state.load(Ordering::SeqCst) < STREAMING
    }
}
