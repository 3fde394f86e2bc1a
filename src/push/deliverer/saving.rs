//! Saves outcomes and renews the lease.

use tokio::time::Instant;

use super::{Deliverer, RENEWAL_INTERVAL, SAVE_INTERVAL, Stop};
use sukkal_domain::Retry;
use sukkal_storage::{DELIVERY_LEASE_DURATION, DeliveryChange};

/// Maximum number of subscriptions whose changes are saved in one step of the store, and maximum
/// size of the messages in them, in bytes. A single change may be larger.
const CHANGES_PER_SAVE: usize = 100;
const BYTES_PER_SAVE: u64 = 4 << 20;

impl Deliverer {
    pub(super) fn is_save_due(&self) -> bool {
        let is_overdue = self.changed_at.is_some_and(|at| at.elapsed() >= SAVE_INTERVAL);
        let is_delay_over = self.feed.next_delayed_us.is_some_and(|due_us| due_us <= self.now_us());
        is_overdue
            || is_delay_over
            || self.changed_at.is_some() && self.attempts.is_empty()
            || self.feed_at.elapsed() >= RENEWAL_INTERVAL
    }

    /// Renews the lease during work that takes long, if it is time.
    pub(super) async fn renew_if_due(&mut self) -> Result<(), Stop> {
        if self.feed_at.elapsed() >= RENEWAL_INTERVAL { self.save().await } else { Ok(()) }
    }

    /// Saves what has changed, renews the lease, and learns the state of the feed.
    pub(super) async fn save(&mut self) -> Result<(), Stop> {
        let mut changes: Vec<_> =
            self.subscribers.working_mut().filter_map(|managed| managed.state.take_change()).collect();
        let (feed, asked_at) = loop {
            let (asked_at, count) = (Instant::now(), count_for_a_save(&changes));
            match self.deliveries.save(self.fence, &changes[..count]).await {
                Ok(Some(feed)) if count == changes.len() => break (feed, asked_at),
                Ok(Some(_)) => drop(changes.drain(..count)),
                Ok(None) => return Err(Stop::LeaseLost),
                Err(error) => {
                    for change in changes {
                        if let Some(managed) = self.subscribers.get_mut(change.subscription) {
                            managed.state.restore_change(change);
                        }
                    }
                    return Err(error.into());
                }
            }
        };
        (self.feed, self.feed_at, self.changed_at, self.is_outdated) = (feed, asked_at, None, false);
        self.lease_until.send_replace(asked_at + DELIVERY_LEASE_DURATION);
        for managed in self.subscribers.working_mut() {
            managed.state.note_feed(&feed);
        }
        self.pending.set(self.subscribers.working().map(|(_, managed)| managed.state.pending(&feed)).sum());
        Ok(())
    }
}

/// Returns how many of these changes are saved in one step.
fn count_for_a_save(changes: &[DeliveryChange]) -> usize {
    let mut bytes = 0;
    let fits = |change: &&DeliveryChange| {
        bytes += change.new_retries.iter().map(Retry::body_bytes).sum::<u64>();
        bytes <= BYTES_PER_SAVE
    };
    changes.iter().take(CHANGES_PER_SAVE).take_while(fits).count().max(changes.len().min(1))
}
