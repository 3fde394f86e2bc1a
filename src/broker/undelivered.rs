//! Messages that were claimed or popped for a waiting client are returned to their queue if they
//! are not delivered. Otherwise no other client would get them before the claim expires, or ever.

use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::sleep;
use tracing::{error, warn};

use super::{Action, Broker, Error};
use crate::auth::Caller;
use crate::domain::{ClaimId, QueueId};
use crate::storage::Popped;

/// The pause between two attempts to return messages.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Maximum number of attempts to withdraw a claim, which expires by itself too.
const WITHDRAWALS_MAX: usize = 30;

/// A claim or popped messages with the guard that returns them.
#[derive(Debug)]
pub struct Undelivered<T> {
    /// The claim or the messages.
    pub value: T,
    /// Returns them to the queue unless they are delivered.
    pub return_guard: ReturnGuard,
}

/// Returns messages to their queue when it is dropped.
#[derive(Debug)]
#[must_use = "the messages are returned to their queue when this is dropped"]
pub struct ReturnGuard(Option<Box<Return>>);

#[derive(Debug)]
struct Return {
    broker: Broker,
    queue: QueueId,
    messages: Returned,
}

#[derive(Debug)]
enum Returned {
    Claim(ClaimId),
    Popped(Vec<Popped>),
}

impl<T> Undelivered<T> {
    /// Returns the claim or the messages as delivered. They do not return to the queue if the client
    /// disconnects, as is the case if it did not wait for them.
    pub fn into_delivered(self) -> T {
        self.return_guard.disarm();
        self.value
    }
}

impl ReturnGuard {
    /// Creates a guard that returns nothing.
    pub(super) fn none() -> Self {
        Self(None)
    }

    pub(super) fn of_claim(broker: &Broker, queue: &QueueId, claim: ClaimId) -> Self {
        Self::new(broker, queue, Returned::Claim(claim))
    }

    pub(super) fn of_popped(broker: &Broker, queue: &QueueId, popped: Vec<Popped>) -> Self {
        Self::new(broker, queue, Returned::Popped(popped))
    }

    fn new(broker: &Broker, queue: &QueueId, messages: Returned) -> Self {
        Self(Some(Box::new(Return { broker: broker.clone(), queue: queue.clone(), messages })))
    }

    /// Returns whether the guard has messages to return.
    #[must_use]
    pub fn is_armed(&self) -> bool {
        self.0.is_some()
    }

    /// Disarms the guard, because the client has received the messages.
    pub fn disarm(mut self) {
        // Popped messages that are returned have not been picked up, so they are counted only now.
        if let Some(Return { broker, messages: Returned::Popped(popped), .. }) = self.0.take().as_deref() {
            broker.metrics.record_pickup_delays(popped.iter().filter_map(|popped| popped.pickup_delay));
        }
    }
}

impl Drop for ReturnGuard {
    fn drop(&mut self) {
        // Without a runtime the process is ending: a claim will expire, and a pop is final.
        if let Some(undelivered) = self.0.take()
            && Handle::try_current().is_ok()
        {
            let writes = undelivered.broker.writes.clone();
            writes.spawn(undelivered.run());
        }
    }
}

impl Return {
    async fn run(self: Box<Self>) {
        let Self { broker, queue, messages } = *self;
        match messages {
            Returned::Claim(claim) => broker.withdraw_until_done(&queue, claim).await,
            Returned::Popped(popped) => broker.restore_until_stored(queue, popped).await,
        }
    }
}

impl Broker {
    /// Ends a claim that was not delivered. Its messages do not count as claimed by it.
    pub(super) async fn withdraw_claim(&self, caller: &Caller, queue: &QueueId, claim: ClaimId) -> Result<(), Error> {
        let store = self.store.authorize(caller, Action::WithdrawClaim, queue)?.admit().await?;
        Ok(store.withdraw_claim(queue, claim).await?)
    }

    /// Stores popped messages again as they were.
    async fn restore_messages(&self, caller: &Caller, queue: &QueueId, popped: &[Popped]) -> Result<(), Error> {
        let store = self.store.authorize(caller, Action::RestoreMessages, queue)?.admit().await?;
        Ok(store.restore_messages(queue, popped).await?)
    }

    /// Withdraws a claim, and retries if the store fails.
    async fn withdraw_until_done(&self, queue: &QueueId, claim: ClaimId) {
        for _ in 0..WITHDRAWALS_MAX {
            match self.withdraw_claim(&Caller::System, queue, claim).await {
                Ok(()) => return,
                Err(error) => warn!(%error, %queue, %claim, "cannot withdraw an undelivered claim yet"),
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    /// Restores popped messages, and retries until they are stored, because the process has the
    /// only copy.
    pub(super) async fn restore_until_stored(self, queue: QueueId, mut popped: Vec<Popped>) {
        for one in &mut popped {
            if let Some(body) = self.encryption.reseal(&queue, &one.message.body) {
                one.reseal(&body);
            }
        }
        while let Err(error) = self.restore_messages(&Caller::System, &queue, &popped).await {
            error!(%error, %queue, messages = popped.len(), "cannot restore undelivered messages yet");
            sleep(RETRY_PAUSE).await;
        }
    }
}
