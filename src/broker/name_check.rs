//! Checks the addresses behind the name of a subscriber, so that its owner learns early that they
//! are not allowed. Each connection is checked again, because names can change.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::info;

use super::Error;
use sukkal_domain::address_rules::RefusedName;
use sukkal_domain::subscriber::InvalidSubscriber;
use sukkal_domain::subscription_draft::InvalidSubscription;
use sukkal_domain::{AddressRules, Subscriber};

/// Maximum duration of a lookup. A name that takes longer is accepted.
const LOOKUP_DURATION_MAX: Duration = Duration::from_secs(2);
/// Maximum number of lookups at the same time, each of which occupies a thread. Without a free one,
/// a name is accepted.
const LOOKUPS_MAX: usize = 32;

/// Resolves the names of subscribers.
pub(super) struct NameCheck(Arc<Semaphore>);

impl Default for NameCheck {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LOOKUPS_MAX)))
    }
}

impl NameCheck {
    /// Succeeds unless the name of the subscriber resolves to an address that is not allowed.
    pub(super) async fn check(&self, subscriber: &Subscriber, rules: &AddressRules) -> Result<(), Error> {
        let Some(name) = subscriber.name() else { return Ok(()) };
        let addresses = self.addresses(name, subscriber.port()).await;
        match addresses.into_iter().find_map(|address| rules.permits(address.ip()).err()) {
            None => Ok(()),
            Some(refusal) => {
                info!(name, %refusal, "the host of a subscriber is refused");
                let refused = InvalidSubscriber::Name(RefusedName(name.to_owned()));
                Err(InvalidSubscription::Subscriber(refused).into())
            }
        }
    }

    /// Returns the addresses of a name, or none if they cannot be found in time.
    async fn addresses(&self, name: &str, port: u16) -> Vec<SocketAddr> {
        let Ok(permit) = self.0.clone().try_acquire_owned() else { return Vec::new() };
        let name = name.to_owned();
        // A lookup cannot be stopped, so it keeps its permit when nobody waits for it any more.
        let lookup = tokio::spawn(async move {
            let _permit = permit;
            lookup_host((name, port)).await.map(Iterator::collect).unwrap_or_default()
        });
        timeout(LOOKUP_DURATION_MAX, lookup).await.ok().and_then(Result::ok).unwrap_or_default()
    }
}
