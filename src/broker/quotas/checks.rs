//! Checks of requests against the quotas of their project, and the task that keeps the limits up to
//! date.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tracing::debug;

use crate::auth::Caller;
use crate::broker::access::{AdmittedStore, Resource};
use crate::broker::{Action, Broker, Error};
use sukkal_domain::{ProjectId, QueueId, Quota};

/// Pause between two readings of the list of quotas. A change takes effect within five seconds,
/// also if the store is slow.
const REFRESH_PAUSE: Duration = Duration::from_secs(2);

impl Broker {
    /// Counts a request of the project.
    ///
    /// # Errors
    ///
    /// [`Error::RateExceeded`] if the project sends more requests than it may.
    pub fn count_request(&self, project: &ProjectId) -> Result<(), Error> {
        self.quotas.take(project, Quota::RequestsPerSecond, 1)
    }

    /// Counts the bytes of a request that posts messages, which is about to arrive. The number is 0
    /// if it is not known yet.
    ///
    /// # Errors
    ///
    /// [`Error::RateExceeded`] if the project posts more bytes than it may.
    pub fn count_declared_bytes(&self, project: &ProjectId, bytes: u64) -> Result<(), Error> {
        self.quotas.take(project, Quota::PostedBytesPerSecond, bytes)
    }

    /// Counts the bytes of a request whose size was not known before.
    pub fn count_posted_bytes(&self, project: &ProjectId, bytes: u64) {
        if let Some(max) = self.quotas.limit(project, Quota::PostedBytesPerSecond) {
            self.quotas.rates.charge(project, Quota::PostedBytesPerSecond, bytes, max);
        }
    }

    /// Checks that the queue exists or may be created: that a new queue may have the name, and that
    /// its project may have another one. Queues that are being created at the same time are not
    /// counted. What the service itself creates is not limited.
    pub(in crate::broker) async fn check_new_queue(
        &self,
        caller: &Caller,
        store: &AdmittedStore,
        queue: &QueueId,
    ) -> Result<(), Error> {
        if !is_limited(caller) {
            return Ok(());
        }
        if let Err(invalid) = queue.name().check_new() {
            return if store.get_queue(queue).await?.is_some() { Ok(()) } else { Err(invalid.into()) };
        }
        let Some(max) = self.quotas.limit(queue.project(), Quota::Queues) else { return Ok(()) };
        if store.count_queues(queue.project(), None).await? < max || store.get_queue(queue).await?.is_some() {
            return Ok(());
        }
        Err(Error::QuotaExceeded { quota: Quota::Queues, max, advice: "delete queues or topics" })
    }

    /// Reads the quotas of the store again and again, until all other clones of this broker are
    /// dropped.
    pub fn follow_quotas(&self) {
        let parts = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            while let Some(broker) = parts.upgrade().map(Broker) {
                if let Err(error) = broker.refresh_quotas().await {
                    debug!(%error, "cannot read the quotas of projects");
                }
                drop(broker);
                sleep(REFRESH_PAUSE).await;
            }
        });
    }

    /// Reads the quotas of the store, if they have changed.
    pub(super) async fn refresh_quotas(&self) -> Result<(), Error> {
        let access = self.store.authorize(&Caller::System, Action::GetQuotas, Resource::Store)?;
        if let Some(list) = access.admit().await?.list_quotas(self.quotas.version().as_ref()).await? {
            self.quotas.update(list);
        }
        Ok(())
    }
}

/// Returns whether quotas apply to the caller. They do not apply to the service itself, which posts
/// dead letters of subscriptions, and checks its health.
pub(super) fn is_limited(caller: &Caller) -> bool {
    matches!(caller, Caller::Client(_))
}
