//! The maintenance and the admission of the stores of a service with pools. In a service, each pool
//! is maintained by a task of its own, so that none waits for another: see `pools.rs`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::try_join_all;

use super::PooledStore;
use crate::{
    Admission, AdmissionControl, Check, DiskUsage, Error, Load, Maintenance, Monitoring, PoolState, Processed, Schedule,
};
use sukkal_domain::{ProjectId, QueueId};

#[async_trait]
impl Maintenance for PooledStore {
    async fn ping(&self) -> Result<(), Error> {
        self.0.management.ping().await
    }

    async fn probe(&self) -> Result<(), Error> {
        self.0.management.probe().await
    }

    fn has_full_disk(&self) -> bool {
        self.0.management.has_full_disk()
    }

    async fn becomes_unusable(&self) -> String {
        self.0.management.becomes_unusable().await
    }

    async fn maintain(&self, schedule: &Schedule) -> Result<u64, Error> {
        let stores = self.stores();
        Ok(try_join_all(stores.iter().map(|store| store.maintain(schedule))).await?.into_iter().sum())
    }

    /// Does a step in each store, and as many as it takes until all stores have reached the same
    /// queue.
    async fn maintain_step(&self, after: Option<&QueueId>) -> Result<Option<QueueId>, Error> {
        let stores = self.stores();
        let reached = try_join_all(stores.iter().map(|store| store.maintain_step(after))).await?;
        let Some(first) = reached.iter().flatten().min() else { return Ok(None) };
        let last = reached.iter().flatten().filter(|queue| queue.project() == first.project()).max().cloned();
        for (store, mut reached) in stores.iter().zip(reached) {
            while reached.is_some() && reached < last {
                reached = store.maintain_step(reached.as_ref()).await?;
            }
        }
        Ok(last)
    }

    /// Checks all stores before it changes one: the same processes use all of them.
    async fn upgrade(&self) -> Result<bool, Error> {
        self.check_usable()?;
        let pools = self.0.pools.all();
        let must_change = try_join_all(pools.values().map(|pool| pool.redis.check_upgrade())).await?;
        let mut is_upgraded = self.0.management.upgrade().await?;
        for (pool, must_change) in pools.values().zip(must_change) {
            if must_change {
                pool.redis.set_layout().await?;
                is_upgraded = true;
            }
        }
        Ok(is_upgraded)
    }

    async fn check(&self) -> Result<Check, Error> {
        let mut sum = Check::default();
        for store in self.stores() {
            sum.add(store.check().await?);
        }
        self.check_places(&mut sum, false).await?;
        Ok(sum)
    }

    async fn repair(&self) -> Result<Check, Error> {
        let mut sum = Check::default();
        for store in self.stores() {
            sum.add(store.repair().await?);
        }
        self.check_places(&mut sum, true).await?;
        Ok(sum)
    }
}

impl Monitoring for PooledStore {
    fn processed(&self) -> Processed {
        self.processed_in_all()
    }

    fn disk_usage(&self) -> Option<DiskUsage> {
        self.0.management.disk_usage()
    }

    fn pools(&self) -> Option<Vec<PoolState>> {
        Some(self.states())
    }
}

#[async_trait]
impl AdmissionControl for PooledStore {
    fn queue_admission(&self, queue: &QueueId) -> Arc<Admission> {
        self.known_queue_admission(queue).unwrap_or_else(|| self.0.management.queue_admission(queue))
    }

    fn project_admission(&self, project: &ProjectId) -> Arc<Admission> {
        self.0.management.project_admission(project)
    }

    fn known_queue_admission(&self, queue: &QueueId) -> Option<Arc<Admission>> {
        self.0.locations.get(queue).map(|located| located.store.queue_admission(queue))
    }

    async fn locate(&self, queue: &QueueId, wait_max: Duration) -> Result<(), Error> {
        self.wait_for_move(queue, wait_max).await?;
        let project = queue.project();
        let _permit = self.project_admission(project).acquire(project, wait_max).await?;
        if let Some(location) = self.0.management.find_location(queue).await? {
            self.locate_at(queue, location).await?;
        }
        Ok(())
    }

    fn load(&self) -> Load {
        self.stores().iter().map(|store| store.load()).sum()
    }
}
