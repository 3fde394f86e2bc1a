//! The open connections of a listener: how many there may be, and which one is closed for a new
//! one.
//!
//! Clients that have sent no accepted request come first: their oldest connection is ended,
//! whatever it is doing, if it is at least a second old.
//!
//! A connection is idle from when its last response has been written until the head of the next
//! request has arrived. Of the other clients, only a connection that has been idle for a second is
//! closed at once, because a request may be on its way. If no connection has been idle for so long,
//! another one is closed after its next response, which announces that to the client.
//!
//! A connection with HTTP/2 has any number of requests, and is idle without any. Instead of being
//! closed after its next response, it announces at once that it accepts no more requests.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{interval, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::debug;

use super::connection::{Connection, STREAMING, micros_since};
use super::limits::ServerLimits;
use super::unknown_turns::UnknownTurns;
use super::unsent::UnsentParts;
use crate::authentication::Peer;
use crate::observability::metrics::{Closed, ConnectionCounts};

/// All connections of a listener.
pub(super) struct Connections {
    permits: Arc<Semaphore>,
    open: Arc<OpenConnections>,
    unknown_turns: UnknownTurns,
    counts: ConnectionCounts,
    /// Time for a client to accept a response, besides the time for its size.
    response_timeout: Duration,
    tasks: TaskTracker,
    closing: CancellationToken,
}

struct OpenConnections {
    by_number: Mutex<HashMap<u64, Arc<Connection>>>,
    /// The start of the clock for idle times.
    start: Instant,
}

/// Minimum idle time of a connection that is closed at once for a new one, and minimum age of that
/// of an unknown client.
const IDLE_MIN: Duration = Duration::from_secs(1);
/// Interval at which connections are ended whose clients are too slow.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

impl Connections {
    /// Creates the set of connections of a listener. `counts` has their number.
    pub(super) fn new(limits: ServerLimits, unknown_turns: UnknownTurns, counts: ConnectionCounts) -> Self {
        let open = Arc::new(OpenConnections { by_number: Mutex::default(), start: Instant::now() });
        let permits = Arc::new(Semaphore::new(limits.connections_max.min(Semaphore::MAX_PERMITS)));
        let (swept, slow) = (Arc::downgrade(&open), counts.clone());
        tokio::spawn(async move {
            let mut interval = interval(SWEEP_INTERVAL);
            loop {
                interval.tick().await;
                let Some(open) = swept.upgrade() else { return };
                open.end_late(limits, || slow.closed(Closed::Slow));
            }
        });
        let (tasks, closing) = (TaskTracker::new(), CancellationToken::new());
        let response_timeout = limits.head_timeout;
        Self { permits, open, unknown_turns, counts, response_timeout, tasks, closing }
    }

    /// Waits until one more connection may be open. If there are too many, it closes one as soon as
    /// possible.
    pub(super) async fn acquire(&self) -> OwnedSemaphorePermit {
        loop {
            if let Some(permit) = self.try_acquire() {
                return permit;
            }
            if self.open.close_one() {
                self.counts.closed(Closed::Replaced);
            }
            if let Ok(permit) = timeout(IDLE_MIN / 4, self.permits.clone().acquire_owned()).await {
                return permit.expect("the semaphore is never closed");
            }
        }
    }

    /// Returns the permission for one more connection if there is room for it.
    pub(super) fn try_acquire(&self) -> Option<OwnedSemaphorePermit> {
        self.permits.clone().try_acquire_owned().ok()
    }

    /// Serves a connection in a task of its own.
    pub(super) fn serve<F: Future<Output = ()> + Send + 'static>(
        &self,
        number: u64,
        peer: Peer,
        permit: OwnedSemaphorePermit,
        serve: impl FnOnce(Arc<Connection>, CancellationToken) -> F,
    ) {
        let close = self.closing.child_token();
        let unsent = UnsentParts::new(self.response_timeout);
        let connection = Arc::new(Connection::new(peer, self.open.start, unsent, close.clone()));
        self.open.by_number.lock().insert(number, connection.clone());
        let serve = self.unknown_turns.serve(connection.clone(), serve(connection.clone(), close));
        let (open, counted) = (self.open.clone(), self.counts.count());
        self.tasks.spawn(async move {
            tokio::select! {
                () = serve => {}
                () = connection.aborted() => debug!("a connection was ended for others, or because its client does not read"),
            }
            // An upgrade that nobody has taken refers to its own connection.
            drop(connection.take_upgrade());
            drop(counted);
            open.by_number.lock().remove(&number);
            drop(permit);
        });
    }

    /// Closes each connection as soon as it has no request, and returns when all are closed.
    pub(super) async fn close(self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl OpenConnections {
    /// Makes room for a new connection. Clients that are unknown come first: their oldest
    /// connection is ended, if it is as old as [`IDLE_MIN`]. If unknown clients have half of the
    /// connections, one of theirs closes after its next response.
    ///
    /// Otherwise closes the connection that has been idle for longest, if it has been idle for
    /// [`IDLE_MIN`], or lets another one close after its next response, preferably one that has a
    /// request. Returns whether there is such a connection.
    fn close_one(&self) -> bool {
        let open = self.by_number.lock();
        let before_us =
            micros_since(self.start).saturating_sub(u64::try_from(IDLE_MIN.as_micros()).unwrap_or(u64::MAX));
        let unknown = || open.values().filter(|connection| !connection.is_known());
        let oldest = unknown().filter(|connection| !connection.is_aborted()).min_by_key(|one| one.accepted_us);
        if let Some(oldest) = oldest.filter(|connection| connection.accepted_us <= before_us) {
            oldest.abort();
            return true;
        }
        let comes_first: &dyn Fn(&&Arc<Connection>) -> bool =
            if unknown().count() * 2 >= open.len() { &|connection| !connection.is_known() } else { &|_| true };
        let state = |connection: &&Arc<Connection>| connection.state();
        let open = || open.values().filter(comes_first);
        let is_idle = |connection: &&Arc<Connection>| state(connection) <= before_us && !connection.is_closed();
        let can_close_later =
            |connection: &&Arc<Connection>| state(connection) != STREAMING && !connection.is_closing();
        if let Some(connection) = open().filter(is_idle).min_by_key(state) {
            connection.close();
            true
        } else if let Some(connection) = open().filter(can_close_later).max_by_key(state) {
            connection.close_after_response();
            true
        } else {
            false
        }
    }

    /// Ends the connections whose clients send a head or accept a response too slowly, and notes
    /// each. Closes those that are idle for too long.
    fn end_late(&self, limits: ServerLimits, note: impl Fn()) {
        for connection in self.by_number.lock().values().filter(|one| !one.is_aborted()) {
            if connection.unsent.is_late() || connection.is_head_late(limits.head_timeout) {
                connection.abort();
                note();
            } else if connection.is_idle_for(limits.idle_timeout) {
                connection.close();
            }
        }
    }
}
