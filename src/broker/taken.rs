//! What was taken out of a queue for somebody who waited, and goes back unless it reaches them: nobody else would get
//! it before the claim is over, or ever.

use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::sleep;
use tracing::{error, warn};

use super::Broker;
use crate::domain::{ClaimId, QueueId};
use crate::storage::Popped;

/// How long what goes back rests between two attempts.
const PUT_BACK_PAUSE: Duration = Duration::from_secs(1);
/// So often it is tried to withdraw a claim, which ends by itself too.
const WITHDRAWALS_MAX: usize = 30;

/// Something with what puts it back.
#[derive(Debug)]
pub struct Taken<T> {
    /// What was taken.
    pub value: T,
    /// Puts it back unless it is delivered.
    pub way_back: WayBack,
}

/// Puts back what was taken when it is dropped.
#[derive(Debug)]
#[must_use = "what was taken goes back when this is dropped"]
pub struct WayBack(Option<Box<Load>>);

#[derive(Debug)]
struct Load {
    broker: Broker,
    queue: QueueId,
    what: What,
}

#[derive(Debug)]
enum What {
    Claim(ClaimId),
    Popped(Vec<Popped>),
}

impl WayBack {
    /// No way back.
    pub(super) fn none() -> Self {
        Self(None)
    }

    pub(super) fn of_claim(broker: &Broker, queue: &QueueId, claim: ClaimId) -> Self {
        Self::new(broker, queue, What::Claim(claim))
    }

    pub(super) fn of_popped(broker: &Broker, queue: &QueueId, popped: Vec<Popped>) -> Self {
        Self::new(broker, queue, What::Popped(popped))
    }

    fn new(broker: &Broker, queue: &QueueId, what: What) -> Self {
        Self(Some(Box::new(Load { broker: broker.clone(), queue: queue.clone(), what })))
    }

    /// Whether it would go back at all.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// It has reached who waited for it.
    pub fn delivered(mut self) {
        // Only now: popped messages that go back are as they were, and to be picked up by somebody else.
        if let Some(Load { broker, what: What::Popped(popped), .. }) = self.0.take().as_deref() {
            broker.metrics.picked_up(popped.iter().filter_map(|popped| popped.waited));
        }
    }
}

impl Drop for WayBack {
    fn drop(&mut self) {
        // Without a runtime the process is at its end: a claim runs out, a pop has happened.
        if let Some(load) = self.0.take()
            && Handle::try_current().is_ok()
        {
            let writes = load.broker.writes.clone();
            writes.spawn(load.go_back());
        }
    }
}

impl Load {
    async fn go_back(self: Box<Self>) {
        let Self { broker, queue, what } = *self;
        match what {
            What::Claim(claim) => broker.withdraw(&queue, claim).await,
            What::Popped(popped) => broker.put_back(queue, popped).await,
        }
    }
}

impl Broker {
    async fn withdraw(&self, queue: &QueueId, claim: ClaimId) {
        for _ in 0..WITHDRAWALS_MAX {
            match self.store.withdraw_claim(queue, claim).await {
                Ok(()) => return,
                Err(error) => warn!(%error, %queue, %claim, "a claim that reached nobody is not withdrawn yet"),
            }
            sleep(PUT_BACK_PAUSE).await;
        }
    }

    /// Puts back what was popped in vain, until it is stored: nobody else has it any more.
    pub(super) async fn put_back(self, queue: QueueId, popped: Vec<Popped>) {
        while let Err(error) = self.store.restore_messages(&queue, &popped).await {
            error!(%error, %queue, messages = popped.len(), "popped messages are not put back yet");
            sleep(PUT_BACK_PAUSE).await;
        }
    }
}
