//! Waits for events, each with a limit, after which a test fails and says what it waited for.

use std::thread;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

/// Long enough for a busy machine.
pub const POLL_TIMEOUT: Duration = Duration::from_secs(30);
pub(super) const POLL_PAUSE: Duration = Duration::from_millis(5);

/// Polls until the condition is true. Panics with `what` after `POLL_TIMEOUT`. Blocks the runtime.
pub fn block_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + POLL_TIMEOUT;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {POLL_TIMEOUT:?}: {what}");
        thread::sleep(POLL_PAUSE);
    }
}

/// Polls until the condition is true. Panics with `what` after `POLL_TIMEOUT`.
pub async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    until_some(what, async || condition().await.then_some(())).await;
}

/// Polls until there is a value, and returns it. Panics with `what` after `POLL_TIMEOUT`.
pub async fn until_some<T>(what: &str, mut find: impl AsyncFnMut() -> Option<T>) -> T {
    let polls = async {
        loop {
            if let Some(found) = find().await {
                return found;
            }
            sleep(POLL_PAUSE).await;
        }
    };
    in_time(what, polls).await
}

/// Waits for an event. Panics with `what` after `POLL_TIMEOUT`.
pub async fn in_time<T>(what: &str, event: impl Future<Output = T>) -> T {
    timeout(POLL_TIMEOUT, event).await.unwrap_or_else(|_| panic!("not within {POLL_TIMEOUT:?}: {what}"))
}

/// Moves tokio's clock in this process forward, which the test and the services in its runtime use.
/// The runtime must have one thread.
pub async fn advance(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}
