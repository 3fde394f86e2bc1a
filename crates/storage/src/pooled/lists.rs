//! Lists of queues across pools, and what the queues of a project use.

use std::sync::Arc;

use futures::future::try_join_all;
use futures::stream::{self, StreamExt, TryStreamExt};

use super::PooledStore;
use super::search::{at, is_same};
use crate::quotas::sum_usages;
use crate::{
    Driver, Error, Location, MeasuredQueues, NameRange, QueueListing, QueuePage, QueueStore, QueueUsage, QuotaStore,
    unless_unreadable,
};
use sukkal_domain::{Metadata, PoolName, ProjectId, Queue, QueueId, QueueName, Revision, Summary};

/// Maximum number of queues that are read at a time.
const READS_IN_FLIGHT_MAX: usize = 64;

impl PooledStore {
    /// Lists queues by the catalogue. A queue whose pool is down is listed without its metadata,
    /// unless the listing needs it, so that a project sees the names of all its queues.
    pub(super) async fn list_located_queues(
        &self,
        project: &ProjectId,
        listing: &QueueListing,
    ) -> Result<QueuePage, Error> {
        let page = self.0.management.list_locations(project, &listing.names, listing.examined_max).await?;
        let matching = page.queues.into_iter().filter(|(name, _)| listing.includes(name));
        let reads: Vec<_> =
            matching.map(|(name, location)| self.read_listed(project, name, location, listing)).collect();
        QueuePage::read(reads, page.reached, listing).await
    }

    async fn read_listed(
        &self,
        project: &ProjectId,
        name: QueueName,
        location: Location,
        listing: &QueueListing,
    ) -> Result<Option<(QueueName, Queue)>, Error> {
        let queue = QueueId::new(project.clone(), name.clone())
            .map_err(|error| Error::Corrupt(format!("the catalogue of {project}: {error}")))?;
        let found = if self.is_up(location.pool.as_ref()) {
            self.store_of(location.pool.as_ref())?.get_queue(&queue).await
        } else {
            Err(Error::Unavailable("the pool is down".to_owned()))
        };
        let (found, is_moving) = match found {
            // It may be moving, or have moved since the catalogue was read.
            Ok(None) | Err(Error::NoQueue) => (self.get_queue(&queue).await, true),
            found => (found, false),
        };
        match (found, location.pool) {
            (Ok(found), _) => Ok(found.map(|found| (name, found))),
            (Err(error @ Error::Corrupt(_)), _) => unless_unreadable(Err(error)),
            (Err(Error::Unavailable(_)), Some(pool)) if listing.needs_metadata && !is_moving => {
                Err(Error::PoolDown(pool))
            }
            (Err(Error::Unavailable(_)), pool) if !listing.needs_metadata && (pool.is_some() || is_moving) => {
                Ok(Some((name, Queue { metadata: Metadata::default(), revision: Revision(0) })))
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Measures the next queues of the catalogue. Those of a pool that is down count as this
    /// process has last measured them, so that quotas still bound what their project stores
    /// elsewhere.
    pub(super) async fn measure_located_queues(
        &self,
        project: &ProjectId,
        after: Option<&QueueName>,
        examined_max: usize,
    ) -> Result<MeasuredQueues, Error> {
        let page = self.0.management.list_locations(project, &NameRange::after(after), examined_max).await?;
        let queue = |name| QueueId::new(project.clone(), name);
        let queues = page.queues.into_iter().filter_map(|(name, location)| Some((queue(name).ok()?, location.pool)));
        let measurements: Vec<_> = queues.map(|(queue, pool)| self.measure_located(queue, pool)).collect();
        Ok(MeasuredQueues { usage: sum_usages(measurements).await?, reached: page.reached })
    }

    async fn measure_located(&self, queue: QueueId, pool: Option<PoolName>) -> Result<QueueUsage, Error> {
        let last_usages = &self.0.last_usages;
        if self.is_up(pool.as_ref()) {
            match self.measure_queue(&queue).await {
                Ok(usage) if pool.is_some() && usage != QueueUsage::default() => {
                    last_usages.insert(queue, usage);
                    return Ok(usage);
                }
                Ok(usage) => {
                    last_usages.remove(&queue);
                    return Ok(usage);
                }
                Err(Error::Unavailable(_)) if pool.is_some() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(last_usages.get(&queue).unwrap_or_default())
    }

    /// Summarizes the queues of each store by one call to it. Returns the summaries of the first
    /// queues, up to the one that its store has left out.
    pub(super) async fn summarize_located_queues(&self, queues: &[QueueId]) -> Result<Vec<Summary>, Error> {
        let stores: Vec<_> = queues.iter().map(|queue| self.store_with(queue)).collect();
        let stores: Vec<_> = stream::iter(stores).buffered(READS_IN_FLIGHT_MAX).try_collect().await?;
        let mut groups: Vec<(Arc<dyn Driver>, Vec<usize>)> = Vec::new();
        for (index, store) in stores.into_iter().enumerate() {
            match groups.iter_mut().find(|(other, _)| is_same(&**other, &*store)) {
                Some((_, indexes)) => indexes.push(index),
                None => groups.push((store, vec![index])),
            }
        }
        let reads = groups.iter().map(|(store, indexes)| self.summarize_group(&**store, queues, indexes));
        let mut summaries = vec![None; queues.len()];
        for (index, summary) in try_join_all(reads).await?.into_iter().flatten() {
            summaries[index] = Some(summary);
        }
        Ok(summaries.into_iter().map_while(|summary| summary).collect())
    }

    /// Summarizes these queues in this store, or each of them where it is by now if one has left.
    async fn summarize_group(
        &self,
        store: &dyn Driver,
        queues: &[QueueId],
        indexes: &[usize],
    ) -> Result<Vec<(usize, Summary)>, Error> {
        let group: Vec<QueueId> = indexes.iter().map(|&index| queues[index].clone()).collect();
        let summaries = match store.summarize_queues(&group).await {
            Err(Error::NoQueue) => {
                let mut summaries = Vec::new();
                for queue in &group {
                    let one = std::slice::from_ref(queue);
                    summaries.extend(at!(self, queue, store => store.summarize_queues(one))?);
                }
                summaries
            }
            summaries => summaries?,
        };
        Ok(indexes.iter().copied().zip(summaries).collect())
    }

    /// Returns the store that has the queue, as far as this process knows, or the empty store.
    async fn store_with(&self, queue: &QueueId) -> Result<Arc<dyn Driver>, Error> {
        self.search(queue, true).next().await
    }
}
