//! Popping messages: returning them and deleting them in the same step.

use std::time::Duration;

use tokio::time::timeout;

use crate::auth::Caller;
use crate::broker::access::AdmittedStore;
use crate::broker::encryption::DecryptedPop;
use crate::broker::range::check_range;
use crate::broker::undelivered::{ReturnGuard, Undelivered};
use crate::broker::{Action, Broker, Error};
use sukkal_domain::{ClaimId, Message, QueueId, Taken};

/// How long a pop waits until messages that cannot be decrypted are restored.
const RESTORE_WAIT_MAX: Duration = Duration::from_secs(2);

impl Broker {
    /// Pops up to `count` of the next available messages. If there is none, waits up to `wait_s`
    /// seconds for one. A queue that is paused has none.
    pub async fn pop_messages(
        &self,
        caller: &Caller,
        queue: QueueId,
        count: i64,
        wait_s: Option<i64>,
    ) -> Result<Taken<Undelivered<Vec<Message>>>, Error> {
        let access = self.store.authorize(caller, Action::PopMessages, &queue)?;
        if queue.name().topic().is_some() {
            return Err(Error::Limit(
                "a topic keeps its messages for all observers; list its messages instead of popping them".to_owned(),
            ));
        }
        let limit = check_range("pop", count, 1, self.limits.max_messages_per_claim_or_pop)?;
        let wait = self.waiting.check_duration(wait_s)?;
        let pop = |store| {
            let (this, queue) = (self.clone(), queue.clone());
            self.run_to_completion(async move { this.pop_once(store, &queue, limit as usize, !wait.is_zero()).await })
        };
        self.waiting.take_within(&access, &queue, wait, pop).await
    }

    async fn pop_once(
        &self,
        store: AdmittedStore,
        queue: &QueueId,
        limit: usize,
        is_returnable: bool,
    ) -> Result<Taken<Undelivered<Vec<Message>>>, Error> {
        let limit = self.encryption.claimable(&store, queue, limit).await?;
        let pop = ClaimId::random();
        let guard = ReturnGuard::of_claim(self, queue, pop);
        let (popped, guard) = match guard.taken_by(store.pop_messages(queue, pop, limit).await)? {
            Taken::Messages(taken) => taken,
            Taken::Nothing => return Ok(Taken::Nothing),
            Taken::Paused => {
                self.metrics.count_paused_claim();
                return Ok(Taken::Paused);
            }
        };
        let is_final = popped.iter().all(|one| one.is_final);
        let DecryptedPop { messages: value, readable, failed } = self.encryption.decrypt_popped(queue, popped);
        if let Some((unreadable, error)) = failed {
            let restored = self.writes.spawn(self.clone().restore_until_stored(queue.clone(), unreadable));
            // The task continues by itself if it takes longer.
            let is_restored = timeout(RESTORE_WAIT_MAX, restored).await.is_ok();
            if value.is_empty() || !(is_final || is_restored) {
                return Err(error);
            }
            tracing::error!(%error, "a popped message cannot be decrypted and was returned to its queue");
        }
        guard.disarm();
        if !is_returnable || !is_final {
            // Also if they return later: they are never picked up for the first time again.
            self.metrics.record_pickup_delays(readable.iter().filter_map(|popped| popped.pickup_delay));
        }
        let return_guard = if !is_returnable {
            if store.complete_pop(queue, pop).await.is_err() {
                self.complete_pop(queue, pop);
            }
            ReturnGuard::none()
        } else if is_final {
            ReturnGuard::of_popped(self, queue, readable)
        } else {
            ReturnGuard::of_pop(self, queue, pop)
        };
        Ok(Taken::Messages(Undelivered { value, return_guard }))
    }
}
