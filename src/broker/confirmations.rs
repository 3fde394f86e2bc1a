//! Confirmations on their way from the operations that ask for them to the deliverer that sends
//! them.

use parking_lot::Mutex;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use sukkal_domain::ConfirmationRequest;

/// Maximum number of requests that wait. Further ones are dropped; a client can repeat its POST.
const WAITING_MAX: usize = 1_024;

/// The requests that wait for the deliverer.
pub(super) struct Confirmations {
    sender: Sender<ConfirmationRequest>,
    receiver: Mutex<Option<Receiver<ConfirmationRequest>>>,
}

impl Default for Confirmations {
    fn default() -> Self {
        let (sender, receiver) = channel(WAITING_MAX);
        Self { sender, receiver: Mutex::new(Some(receiver)) }
    }
}

impl Confirmations {
    /// Passes a request to the deliverer, or drops it if there is none or too many wait.
    pub(super) fn request(&self, request: ConfirmationRequest) {
        if let Err(error) = self.sender.try_send(request) {
            tracing::warn!(%error, "a confirmation was not sent");
        }
    }

    /// Returns the receiver of all requests; `None` after the first call.
    pub(super) fn take(&self) -> Option<Receiver<ConfirmationRequest>> {
        self.receiver.lock().take()
    }
}
