//! Waiting for something to turn up in a queue: watch, look, wait to be called, look again. `storage/watch.rs` says who
//! is called when, and why nothing is missed.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::{Broker, Error, check_range};
use crate::domain::QueueId;
use crate::storage::Watch;

/// A call that somebody else must have who does not look for it.
struct Call<'a>(Option<&'a Watch>);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let Some(watch) = self.0 {
            watch.pass_on();
        }
    }
}

impl Broker {
    /// Has everybody answered who waits, with what there is; nobody waits any more from then on.
    pub fn stop_waiting(&self) {
        self.closing.cancel();
    }

    /// How long a request waits.
    pub(super) fn admit_wait(&self, wait_s: Option<i64>) -> Result<Duration, Error> {
        let wait_s = check_range("wait", wait_s.unwrap_or(0), 0, self.limits.max_wait)?;
        Ok(Duration::from_secs(wait_s.into()))
    }

    /// What a look for free messages has found, which one caller alone can have; looks as long as it finds nothing and
    /// the time is not over.
    pub(super) async fn look_in_turn<T, F: Future<Output = Result<Option<T>, Error>>>(
        &self,
        queue: &QueueId,
        wait: Duration,
        look: impl Fn() -> F,
    ) -> Result<Option<T>, Error> {
        if wait.is_zero() {
            return look().await;
        }
        let until = Instant::now() + wait;
        let watch = self.store.watch(queue).await?;
        let mut call = Call(None);
        loop {
            let mut called = pin!(watch.claimer());
            called.as_mut().enable();
            let found = look().await?;
            call.0 = None;
            self.store.looked(queue);
            if found.is_some() {
                return Ok(found);
            }
            tokio::select! {
                () = called => call.0 = Some(&watch),
                () = sleep_until(until) => return Ok(None),
                () = self.closing.cancelled() => return Ok(None),
            }
        }
    }
}
