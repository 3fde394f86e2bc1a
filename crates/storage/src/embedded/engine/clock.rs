//! The store's clock, in microseconds since 1970. It is the machine's clock, except that tests can
//! move it for each queue.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use sukkal_domain::QueueId;

/// The clock of one store.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    /// By how much tests have moved the clock of each queue, in microseconds. Not set in a service.
    offsets_us: OnceLock<Mutex<HashMap<QueueId, i64>>>,
}

impl Clock {
    /// Returns the time that applies to this queue.
    pub(crate) fn now_us(&self, queue: &QueueId) -> u64 {
        let Some(offsets) = self.offsets_us.get() else { return now_us() };
        let offsets = offsets.lock();
        now_us().saturating_add_signed(offsets.get(queue).copied().unwrap_or(0))
    }

    /// Moves the clock of one queue.
    pub(crate) fn set(&self, queue: &QueueId, offset_us: i64) {
        let offsets = self.offsets_us.get_or_init(Mutex::default);
        offsets.lock().insert(queue.clone(), offset_us);
    }
}

/// Returns the machine's time.
pub(crate) fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the second at the start of which something with this time to live ends. The lifetime is
/// at least `ttl_s`, and less than a second longer.
pub(crate) fn end_s(now_us: u64, ttl_s: u32) -> u32 {
    u32::try_from(now_us / 1_000_000 + 1).unwrap_or(u32::MAX).saturating_add(ttl_s)
}
