//! The requests of a connection with HTTP/2 that are in progress.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::api::http::server::connection::Connection;

/// Time for the client to close a connection that has no more requests.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The requests of a connection.
pub(super) struct Activity {
    pub(super) connection: Arc<Connection>,
    idle_timeout: Duration,
    state: Mutex<ActivityState>,
}

struct ActivityState {
    requests: usize,
    /// When the last request ended, or the connection began.
    idle_since: Instant,
    is_closing: bool,
}

/// A request in progress: until its response is written or dropped.
pub(super) struct InProgress {
    pub(super) activity: Arc<Activity>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Activity {
    pub(super) fn new(connection: Arc<Connection>, idle_timeout: Duration) -> Self {
        let state = ActivityState { requests: 0, idle_since: Instant::now(), is_closing: false };
        Self { connection, idle_timeout, state: Mutex::new(state) }
    }

    /// Records that a request has arrived.
    pub(super) fn begin(this: &Arc<Self>, permit: Option<OwnedSemaphorePermit>) -> Arc<InProgress> {
        this.state.lock().requests += 1;
        this.connection.begin_request();
        Arc::new(InProgress { activity: this.clone(), _permit: permit })
    }

    /// Returns whether there is no request.
    pub(super) fn is_idle(&self) -> bool {
        self.state.lock().requests == 0
    }

    /// Records that no further request is accepted.
    pub(super) fn begin_to_close(&self) {
        let mut state = self.state.lock();
        state.is_closing = true;
        state.idle_since = Instant::now();
    }

    /// Returns when [`Self::is_idle_for_long`] may become true.
    pub(super) fn next_check(&self) -> Instant {
        let state = self.state.lock();
        let idle_max = self.idle_max(&state);
        if state.requests == 0 { state.idle_since + idle_max } else { Instant::now() + idle_max }
    }

    /// Returns whether there has been no request for so long that the connection ends.
    pub(super) fn is_idle_for_long(&self) -> bool {
        let state = self.state.lock();
        state.requests == 0 && state.idle_since.elapsed() >= self.idle_max(&state)
    }

    fn idle_max(&self, state: &ActivityState) -> Duration {
        if state.is_closing { CLOSE_TIMEOUT } else { self.idle_timeout }
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        let mut state = self.activity.state.lock();
        state.requests -= 1;
        if state.requests == 0 {
            state.idle_since = Instant::now();
            self.activity.connection.end_requests();
        }
    }
}
