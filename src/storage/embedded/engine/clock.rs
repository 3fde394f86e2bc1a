//! The store's clock, in microseconds since 1970. It is the machine's clock, except that tests can
//! move it for each queue.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::domain::QueueId;

/// The clock of one store.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    #[cfg(feature = "movable-clock")]
    offsets_us: std::sync::Mutex<std::collections::HashMap<QueueId, i64>>,
}

impl Clock {
    /// Returns the time that applies to this queue.
    #[cfg(not(feature = "movable-clock"))]
    #[expect(clippy::unused_self, reason = "the clock that tests can move uses it")]
    pub(crate) fn now_us(&self, _queue: &QueueId) -> u64 {
        now_us()
    }

    /// Returns the time that applies to this queue.
    #[cfg(feature = "movable-clock")]
    pub(crate) fn now_us(&self, queue: &QueueId) -> u64 {
        let offsets = self.offsets_us.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        now_us().saturating_add_signed(offsets.get(queue).copied().unwrap_or(0))
    }

    /// Moves the clock of one queue.
    #[cfg(feature = "movable-clock")]
    pub(crate) fn set(&self, queue: &QueueId, offset_us: i64) {
        let mut offsets = self.offsets_us.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        offsets.insert(queue.clone(), offset_us);
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
