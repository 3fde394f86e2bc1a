//! Wakes the deliverer of a queue.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Wakes a deliverer. No signal is lost, even if it comes while the deliverer ends.
#[derive(Debug, Default)]
pub(super) struct Wake {
    is_pending: AtomicBool,
    notify: Notify,
}

impl Wake {
    /// Sends a signal.
    pub(super) fn wake(&self) {
        self.is_pending.store(true, Ordering::SeqCst);
        self.notify.notify_one();
    }

    /// Waits for a signal.
    pub(super) async fn notified(&self) {
        while !self.take() {
            self.notify.notified().await;
        }
    }

    /// Returns whether a signal has come that was not received yet, and receives it.
    pub(super) fn take(&self) -> bool {
        self.is_pending.swap(false, Ordering::SeqCst)
    }
}
