//! What operations on subscriptions have in common.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::broker::messages::Since;
use crate::broker::{Broker, Error};
use sukkal_domain::{ConfirmationKind, ConfirmationRequest, QueueId, SubscriptionId, SubscriptionSettings};

/// Maximum number of attempts to create a subscription of a queue that others delete at the same
/// time, or to change one that others change.
pub(super) const ATTEMPTS_MAX: usize = 32;
/// Time in seconds by which the clocks of this machine and of a client may differ.
const AHEAD_S_MAX: u64 = 60;

impl Broker {
    /// Asks the deliverer to send a confirmation, if the subscriber must confirm.
    pub(super) fn request_confirmation(
        &self,
        queue: &QueueId,
        subscription: SubscriptionId,
        settings: &SubscriptionSettings,
        valid_s: u64,
        kind: ConfirmationKind,
    ) {
        if self.requires_confirmation(&settings.subscriber) {
            self.confirmations.request(ConfirmationRequest {
                queue: queue.clone(),
                subscription,
                subscriber: settings.subscriber.clone(),
                options: settings.options.clone(),
                keys: settings.keys.clone(),
                kind,
                valid_s,
            });
        }
    }
}

pub(super) fn no_subscription(id: &str) -> Error {
    Error::NotFound(format!("Subscription {id} does not exist"))
}

/// Refuses a time in the future, from which on nothing can be delivered before it has come.
pub(super) fn check_since(since: Since) -> Result<(), Error> {
    match since {
        Since::Time(micros) if micros / 1_000_000 > now_s() + AHEAD_S_MAX => {
            Err(Error::Limit("since is in the future; deliveries begin at the latest with the next message".to_owned()))
        }
        Since::Time(_) | Since::Now => Ok(()),
    }
}

/// Returns the time of this machine, in seconds since 1970. It bounds times to live and limits how
/// long a replaced key signs; everything else follows the clock of the store.
pub(super) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
