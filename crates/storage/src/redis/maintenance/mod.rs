//! Maintenance of the store: it reclaims what expires in queues that nobody uses, and repairs what
//! crashes have left. Health checks are here too.

mod check;
pub(super) mod confirmer;
mod due;
mod janitor;
mod records;
mod unregistered;
pub(super) mod walk;

use async_trait::async_trait;
use tracing::{debug, warn};

use self::walk::UnreachableServers;
use super::RedisStore;
use super::arguments;
use super::keys::QueueKeys;
use crate::{Check, Error, Maintenance, Schedule};
use sukkal_domain::QueueId;

/// Maximum number of scripts that one visit to a queue runs, each for some hundreds of messages.
/// The next visit continues.
const APPLY_STEPS_MAX: usize = 10_000;

#[async_trait]
impl Maintenance for RedisStore {
    async fn ping(&self) -> Result<(), Error> {
        self.connection.ping().await
    }

    async fn probe(&self) -> Result<(), Error> {
        self.connection.probe().await
    }

    fn has_full_disk(&self) -> bool {
        self.connection.has_full_disk()
    }

    async fn becomes_unusable(&self) -> String {
        self.connection.unsupported_layout().await
    }

    async fn check(&self) -> Result<Check, Error> {
        self.check_all(false).await
    }

    async fn repair(&self) -> Result<Check, Error> {
        self.check_all(true).await
    }

    async fn upgrade(&self) -> Result<bool, Error> {
        let must_change = self.check_upgrade().await?;
        if must_change {
            self.set_layout().await?;
        }
        Ok(must_change)
    }

    async fn maintain(&self, schedule: &Schedule) -> Result<u64, Error> {
        // Boxed, because it is large and runs seldom.
        Box::pin(self.run_janitor(schedule)).await
    }

    async fn maintain_step(&self, after: Option<&QueueId>) -> Result<Option<QueueId>, Error> {
        self.walk_step(after, &mut UnreachableServers::new()).await.map(|(_visited, last)| last)
    }
}

impl RedisStore {
    pub(crate) async fn maintain_queue(&self, queue: &QueueId) -> Result<(), Error> {
        for _ in 0..APPLY_STEPS_MAX {
            let step = self.connection.apply_due_step(&QueueKeys::of(queue)).await?;
            if step.has_more() {
                continue;
            }
            if let Some(task) = step.abandoned_task {
                self.continue_redrive(queue, task);
            }
            if step.are_deliveries_due {
                self.signals.send_own(queue);
            }
            match (step.kind.as_str(), step.dead_letters) {
                ("absent", _) => return self.remove_orphaned_registration(queue).await,
                (_done, 0) => break,
                (_done, _dead_letters) => {
                    // Once per visit: the receiving queue may be unreachable, and the janitor's
                    // other work must go on.
                    if let Err(error) = self.forward_dead_letters(queue).await {
                        warn!(%queue, %error, "cannot forward dead letters; the janitor tries again later");
                    }
                    break;
                }
            }
        }
        Ok(())
    }

    /// Removes the registration of a name whose queue was never created, or whose deletion was
    /// interrupted.
    pub(super) async fn remove_orphaned_registration(&self, queue: &QueueId) -> Result<(), Error> {
        match self.registration(queue).await? {
            Some(registration) if registration.pool.is_some() => {
                // The pool may be unreachable. The queues after this one must not wait for it.
                if let Err(error) = self.other_stores.destinations(self)?.resolve_location(queue).await {
                    debug!(%queue, %error, "cannot find out whether a queue is in its pool");
                }
                Ok(())
            }
            Some(registration) => {
                match self.delete_and_unregister(queue, arguments::number(registration.version)).await {
                    // The queue moves to this pool or away from it.
                    Err(Error::NoQueue) => Ok(()),
                    removed => removed.map(drop),
                }
            }
            None => Ok(()),
        }
    }
}
