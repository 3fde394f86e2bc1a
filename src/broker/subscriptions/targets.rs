//! The queues that the options of a subscription name: the service posts to them in the name of the
//! client that has named them.

use crate::auth::{Caller, Client};
use crate::broker::{Broker, Error};
use sukkal_domain::{Author, DeliveryOptions};

impl Broker {
    /// Succeeds if the caller may name the queues that these options name. Returns the caller as
    /// their author; `None` if the options name no queue.
    pub(super) fn authorize_targets(
        &self,
        caller: &Caller,
        options: &DeliveryOptions,
    ) -> Result<Option<Author>, Error> {
        let mut author = None;
        for (option, _) in options.targets() {
            self.store.authorize_target(caller, option)?;
            author = caller.as_client().map(Client::to_author);
        }
        Ok(author)
    }
}
