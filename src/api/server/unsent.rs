//! Responses that clients have not accepted yet. A client has a limited time for each part, which
//! depends on its size, so that accepting it byte by byte holds neither its memory nor its
//! connection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use parking_lot::Mutex;
use tokio::time::Instant;

use sukkal_base::memory_budget::MemoryShare;

/// Minimum number of bytes of a response that a client accepts in a second, once the timeout is
/// over.
const BYTES_PER_SECOND_MIN: u64 = 4 << 10;

/// The parts of responses that a connection has not written.
pub(super) struct UnsentParts {
    timeout: Duration,
    deadlines: Arc<Mutex<Deadlines>>,
}

#[derive(Default)]
struct Deadlines {
    by_number: BTreeMap<u64, Instant>,
    next_number: u64,
    /// Size of all parts.
    bytes: u64,
}

/// Bytes that a connection has not written. They are when this is dropped.
struct Part {
    bytes: Bytes,
    number: u64,
    deadlines: Arc<Mutex<Deadlines>>,
    _memory: Option<Held>,
}

/// The memory that a response holds until its last byte is written.
#[derive(Clone)]
pub(in crate::api) struct Held(#[expect(dead_code, reason = "it is released when it is dropped")] Arc<MemoryShare>);

impl Held {
    pub(in crate::api) fn new(share: MemoryShare) -> Self {
        Self(Arc::new(share))
    }
}

impl UnsentParts {
    pub(super) fn new(timeout: Duration) -> Self {
        Self { timeout, deadlines: Arc::default() }
    }

    /// Returns whether the client accepts a part too slowly.
    pub(super) fn is_late(&self) -> bool {
        let deadlines = self.deadlines.lock();
        // Most connections have no part, and the time is not needed then.
        !deadlines.by_number.is_empty() && {
            let now = Instant::now();
            deadlines.by_number.values().any(|deadline| *deadline <= now)
        }
    }

    /// Returns the bytes as a part that must be written in the time for its size and that of the
    /// others.
    pub(super) fn watch(&self, bytes: Bytes, memory: Option<Held>) -> Bytes {
        let mut deadlines = self.deadlines.lock();
        // The client may accept all other parts first.
        deadlines.bytes += bytes.len() as u64;
        let time = Duration::from_millis(deadlines.bytes * 1_000 / BYTES_PER_SECOND_MIN);
        let number = deadlines.next_number;
        deadlines.next_number += 1;
        deadlines.by_number.insert(number, Instant::now() + self.timeout + time);
        drop(deadlines);
        Bytes::from_owner(Part { bytes, number, deadlines: self.deadlines.clone(), _memory: memory })
    }
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let mut deadlines = self.deadlines.lock();
        deadlines.by_number.remove(&self.number);
        deadlines.bytes -= self.bytes.len() as u64;
    }
}
