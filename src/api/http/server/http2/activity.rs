//! What a connection with HTTP/2 is doing: its requests in progress, and the parts of responses that
//! wait until the client accepts them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::api::http::server::connections::Connection;

/// Time for the client to close a connection that has no more requests.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Minimum number of bytes of a response that a client accepts in a second, once the timeout is over.
const BYTES_PER_SECOND_MIN: u64 = 4 << 10;

/// The requests and responses of a connection.
pub(super) struct Activity {
    pub(super) connection: Arc<Connection>,
    timeout: Duration,
    state: Mutex<State>,
}

struct State {
    requests: usize,
    /// When the last request ended, or the connection began.
    idle_since: Instant,
    is_closing: bool,
    /// When each part of a response that has not been written must be written, by number.
    unsent: BTreeMap<u64, Instant>,
    next_number: u64,
}

/// A request in progress: until its response is written or dropped.
pub(super) struct InProgress {
    pub(super) activity: Arc<Activity>,
    _permit: Option<OwnedSemaphorePermit>,
}

/// A part of a response that has not been written completely.
pub(super) struct Unsent {
    number: u64,
    in_progress: Arc<InProgress>,
}

impl Activity {
    pub(super) fn new(connection: Arc<Connection>, timeout: Duration) -> Self {
        let state = State {
            requests: 0,
            idle_since: Instant::now(),
            is_closing: false,
            unsent: BTreeMap::new(),
            next_number: 0,
        };
        Self { connection, timeout, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a request has arrived.
    pub(super) fn begin(this: &Arc<Self>, permit: Option<OwnedSemaphorePermit>) -> Arc<InProgress> {
        this.state().requests += 1;
        this.connection.begin_request();
        Arc::new(InProgress { activity: this.clone(), _permit: permit })
    }

    /// Returns whether there is no request.
    pub(super) fn is_idle(&self) -> bool {
        self.state().requests == 0
    }

    /// Records that no further request is accepted.
    pub(super) fn begin_to_close(&self) {
        let mut state = self.state();
        state.is_closing = true;
        state.idle_since = Instant::now();
    }

    /// Returns when [`Self::is_idle_for_long`] or [`Self::is_stalled`] may become true.
    pub(super) fn next_check(&self) -> Instant {
        let state = self.state();
        let idle_max = self.idle_max(&state);
        let idle_end = if state.requests == 0 { state.idle_since } else { Instant::now() } + idle_max;
        state.unsent.values().min().map_or(idle_end, |due| idle_end.min(*due))
    }

    /// Returns whether there has been no request for so long that the connection ends.
    pub(super) fn is_idle_for_long(&self) -> bool {
        let state = self.state();
        state.requests == 0 && state.idle_since.elapsed() >= self.idle_max(&state)
    }

    /// Returns whether the client accepts a response too slowly.
    pub(super) fn is_stalled(&self) -> bool {
        let now = Instant::now();
        self.state().unsent.values().any(|due| *due <= now)
    }

    fn idle_max(&self, state: &State) -> Duration {
        if state.is_closing { CLOSE_TIMEOUT } else { self.timeout }
    }
}

impl InProgress {
    /// Records a part of the response, which must be written in the time for its size.
    pub(super) fn unsent(self: &Arc<Self>, bytes: usize) -> Unsent {
        let time = Duration::from_millis(bytes as u64 * 1_000 / BYTES_PER_SECOND_MIN);
        let mut state = self.activity.state();
        let number = state.next_number;
        state.next_number += 1;
        state.unsent.insert(number, Instant::now() + self.activity.timeout + time);
        drop(state);
        Unsent { number, in_progress: self.clone() }
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        let mut state = self.activity.state();
        state.requests -= 1;
        if state.requests == 0 {
            state.idle_since = Instant::now();
            self.activity.connection.end_requests();
        }
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        self.in_progress.activity.state().unsent.remove(&self.number);
    }
}
