//! Messages that were claimed or popped are returned to their queue if their client does not get
//! them: because it has gone, or because the store has not said whether it has carried out the
//! command. Otherwise no other client would get them before the claim expires, or ever.

use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, error};

use super::{Action, Broker, Error};
use crate::auth::Caller;
use sukkal_domain::{ClaimId, QueueId, Taken};
use sukkal_storage::{POP_TERM, Popped};

/// The pause between two attempts to return messages.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// The pause between the first two attempts to end a claim or a pop. Each further one is twice as
/// long, up to
/// [`RETRY_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Maximum number of these attempts, because claims and pops also end by themselves.
const ATTEMPTS_MAX: usize = 300;
/// Interval at which a pop is renewed while its response is being written.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(20);

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
    /// All of a claim.
    Claim(ClaimId),
    /// All messages of a pop that is not final, which becomes final when the guard is disarmed.
    Pop(UnfinishedPop),
    /// These messages of a pop.
    Popped(Vec<Popped>),
}

#[derive(Debug)]
struct UnfinishedPop {
    id: ClaimId,
    /// Renews the pop as long as its messages are neither delivered nor returned.
    _renewal: AbortOnDropHandle<()>,
}

/// How a claim or a pop ends.
#[derive(Clone, Copy, Debug)]
enum End {
    /// Its client does not get it, or it is not known whether it was created.
    Withdraw(ClaimId),
    /// The process or the client has the messages of the pop.
    Complete(ClaimId),
}

impl<T> Undelivered<T> {
    /// Returns the claim or the messages as delivered. They do not return to the queue if the
    /// client disconnects, as is the case if it did not wait for them.
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

    /// Creates a guard of a pop that is not final. Disarming it makes the pop final.
    pub(super) fn of_pop(broker: &Broker, queue: &QueueId, pop: ClaimId) -> Self {
        let (this, of) = (broker.clone(), queue.clone());
        let renewal = tokio::spawn(async move { this.renew_pop(&of, pop).await });
        let pop = UnfinishedPop { id: pop, _renewal: AbortOnDropHandle::new(renewal) };
        Self::new(broker, queue, Returned::Pop(pop))
    }

    pub(super) fn of_popped(broker: &Broker, queue: &QueueId, popped: Vec<Popped>) -> Self {
        Self::new(broker, queue, Returned::Popped(popped))
    }

    fn new(broker: &Broker, queue: &QueueId, messages: Returned) -> Self {
        Self(Some(Box::new(Return { broker: broker.clone(), queue: queue.clone(), messages })))
    }

    /// Returns what the command has taken that this guard would return. Disarms the guard if the
    /// command has certainly taken nothing.
    pub(super) fn taken_by<T>(
        self,
        result: Result<Taken<T>, sukkal_storage::Error>,
    ) -> Result<Taken<(T, Self)>, Error> {
        let known = match result {
            Ok(Taken::Messages(taken)) => return Ok(Taken::Messages((taken, self))),
            Ok(Taken::Nothing) => Ok(Taken::Nothing),
            Ok(Taken::Paused) => Ok(Taken::Paused),
            Err(error) if error.leaves_outcome_unknown() => return Err(error.into()),
            Err(sukkal_storage::Error::NotSent(reason)) => Err(sukkal_storage::Error::Unavailable(reason).into()),
            Err(error) => Err(error.into()),
        };
        self.disarm();
        known
    }

    /// Returns whether the guard has messages to return.
    #[must_use]
    pub fn is_armed(&self) -> bool {
        self.0.is_some()
    }

    /// Returns a guard that returns nothing instead.
    pub(super) fn disarmed(self) -> Self {
        self.disarm();
        Self::none()
    }

    /// Disarms the guard, because the client has received the messages.
    pub fn disarm(mut self) {
        // Popped messages that are restored have not been picked up, so they are counted only now.
        match self.0.take().as_deref() {
            Some(Return { broker, messages: Returned::Popped(popped), .. }) => {
                broker.metrics.record_pickup_delays(popped.iter().filter_map(|popped| popped.pickup_delay));
            }
            Some(Return { broker, queue, messages: Returned::Pop(pop) }) => {
                broker.complete_pop(queue, pop.id);
            }
            Some(Return { messages: Returned::Claim(_), .. }) | None => {}
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
            Returned::Claim(id) | Returned::Pop(UnfinishedPop { id, .. }) => {
                broker.end_in_time(&queue, End::Withdraw(id)).await;
            }
            Returned::Popped(popped) => broker.restore_until_stored(queue, popped).await,
        }
    }
}

impl Broker {
    /// Ends a claim or a pop.
    async fn end(&self, caller: &Caller, queue: &QueueId, end: End) -> Result<(), Error> {
        let store = self.store.authorize(caller, Action::EndTaking, queue)?.admit().await?;
        Ok(match end {
            End::Withdraw(id) => store.withdraw_claim(queue, id).await,
            End::Complete(pop) => store.complete_pop(queue, pop).await,
        }?)
    }

    /// Stores popped messages again as they were.
    async fn restore_messages(&self, caller: &Caller, queue: &QueueId, popped: &[Popped]) -> Result<(), Error> {
        let store = self.store.authorize(caller, Action::RestoreMessages, queue)?.admit().await?;
        Ok(store.restore_messages(queue, popped).await?)
    }

    /// Makes a pop final in the background, because the process or the client has its messages.
    pub(super) fn complete_pop(&self, queue: &QueueId, pop: ClaimId) {
        let (this, queue) = (self.clone(), queue.clone());
        self.writes.spawn(async move { this.end_in_time(&queue, End::Complete(pop)).await });
    }

    /// Renews a pop again and again.
    async fn renew_pop(&self, queue: &QueueId, pop: ClaimId) {
        loop {
            sleep(RENEWAL_INTERVAL).await;
            let renew = async {
                let store = self.store.authorize(&Caller::System, Action::EndTaking, queue)?.admit().await?;
                Ok::<_, Error>(store.renew_claim(queue, pop, POP_TERM).await?)
            };
            if let Err(error) = renew.await {
                debug!(%error, %queue, "cannot renew a pop yet");
            }
        }
    }

    /// Ends a claim or a pop, and retries if the store fails. Gives up when it may have ended by
    /// itself. A withdrawal also gives up when the process stops, or if there are too many.
    async fn end_in_time(&self, queue: &QueueId, end: End) {
        let is_withdrawal = matches!(end, End::Withdraw(_));
        let permit = is_withdrawal.then(|| self.withdrawals.try_acquire());
        if matches!(permit, Some(Err(_))) {
            debug!(%queue, ?end, "there are too many withdrawals; this claim or pop ends by itself");
            return;
        }
        let mut pause = FIRST_PAUSE;
        for _ in 0..ATTEMPTS_MAX {
            match self.end(&Caller::System, queue, end).await {
                Ok(()) => return,
                Err(error) => debug!(%error, %queue, ?end, "cannot end a claim or a pop yet"),
            }
            if is_withdrawal && self.waiting.closing.is_cancelled() {
                return;
            }
            sleep(pause).await;
            pause = RETRY_PAUSE.min(2 * pause);
        }
        debug!(%queue, ?end, "the store has not answered for minutes; a claim or a pop ends by itself");
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::*;
    use crate::auth::Client;
    use crate::broker::WITHDRAWALS_MAX;
    use crate::broker::claims::ClaimRequest;
    use crate::broker::messages::{Delay, Draft, PostRequest, TenantDraft};
    use crate::broker::test_options::{limits, push_config};
    use crate::observability::metrics::Metrics;
    use sukkal_domain::{Body, ProjectId};
    use sukkal_storage::embedded::EmbeddedStore;

    #[tokio::test]
    async fn a_claim_ends_by_itself_if_too_many_are_being_withdrawn() {
        let store = Arc::new(EmbeddedStore::in_memory().unwrap());
        let broker = Broker::new(store, limits(), push_config(), None, Arc::new(Metrics::default()));
        let queue = QueueId::new(ProjectId::new("p").unwrap(), "q".parse().unwrap()).unwrap();
        let caller = Caller::Client(Client::of_test("p", &[]));
        let body = Body::from_msgpack(Bytes::from_static(b"\x01"));
        let draft = Draft { ttl_s: None, delay: Delay::Unset, tenant: TenantDraft::Unset, body };
        let post = PostRequest {
            drafts: vec![draft],
            bytes: 0,
            idempotency: None,
            trace: None,
            origin: None,
            durability: None,
        };
        broker.post_messages(&caller, queue.clone(), post).await.unwrap();
        let taken = broker.create_claim(&caller, queue.clone(), ClaimRequest::default()).await.unwrap();
        let claim = taken.messages().expect("the message is available").value.id;
        let exists_after_withdrawal = async || {
            drop(ReturnGuard::of_claim(&broker, &queue, claim));
            broker.drain().await;
            broker.get_claim(&caller, &queue, &claim.to_string()).await.is_ok()
        };

        let others = broker.withdrawals.try_acquire_many(u32::try_from(WITHDRAWALS_MAX).unwrap()).unwrap();
        assert!(exists_after_withdrawal().await);
        drop(others);

        assert!(!exists_after_withdrawal().await);
    }
}
