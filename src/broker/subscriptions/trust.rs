//! Trusts of subscriptions: their subscriber gets messages with a token of the user who has created
//! the subscription.

use std::time::Duration;

use tracing::warn;

use crate::auth::{AuthenticationError, Caller};
use crate::broker::{Broker, Error, StoreError};
use sukkal_domain::subscriber::InvalidSubscriber;
use sukkal_domain::subscription::TRUST_ID;
use sukkal_domain::subscription_draft::InvalidSubscription;
use sukkal_domain::{JsonObject, Secret, Subscriber};

impl Broker {
    /// Creates a trust of the caller for a new subscription, if its subscriber needs one. Adds its
    /// id to the options, and returns it.
    pub(super) async fn create_trust(
        &self,
        caller: &Caller,
        user_token: &Secret,
        subscriber: &Subscriber,
        options: &mut JsonObject,
        ttl_s: u64,
    ) -> Result<Option<String>, Error> {
        if !subscriber.needs_trust() {
            return Ok(None);
        }
        let identity = caller.as_client().and_then(|client| client.identity.as_ref());
        let (Some(trusts), Some(identity), Some(_)) = (self.trusts.get(), identity, user_token.reveal()) else {
            return Err(InvalidSubscription::from(InvalidSubscriber::Keystone).into());
        };
        // Otherwise a client could use the trust of somebody else.
        if options.get(TRUST_ID).is_some_and(|id| !id.is_null()) {
            return Err(InvalidSubscription::TrustId.into());
        }
        let created = trusts.create(user_token, identity, Duration::from_secs(ttl_s)).await;
        let id = created.map_err(|error| match error {
            AuthenticationError::Unavailable(reason) => Error::Store(StoreError::Unavailable(reason)),
            refused => InvalidSubscription::Trust(refused.to_string()).into(),
        })?;
        *options = options.with_text(TRUST_ID, &id);
        Ok(Some(id))
    }

    /// Deletes a trust in the background. If this fails, the trust ends with the time to live of
    /// its subscription.
    pub(super) fn delete_trust(&self, id: String) {
        let Some(trusts) = self.trusts.get().cloned() else { return };
        self.writes.spawn(async move {
            if let Err(error) = trusts.delete(&id).await {
                warn!(%error, "the trust of a subscription cannot be deleted; it ends at its expiry");
            }
        });
    }
}
