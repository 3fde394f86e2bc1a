//! Follows the list of pools, which any process may change.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep};
use tracing::debug;

use super::PooledStore;
use super::live_pools::ListedPool;
use super::location_walk::LocationWalk;
use crate::{DatabaseId, Error, Moved, PoolList, PoolStore, PoolsVersion, StoredPool};
use sukkal_domain::{Pool, PoolName, QueueId};

/// Time between two requests for the version of the list.
const REFRESH_INTERVAL: Duration = Duration::from_secs(2);
/// Time between two searches for retired pools without queues.
const REMOVAL_INTERVAL: Duration = Duration::from_secs(60);
/// Time between two comparisons of the databases of pools.
const COMPARISON_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum number of names that a request searches.
const NAMES_PER_REQUEST_MAX: usize = 20_000;

#[async_trait]
impl PoolStore for PooledStore {
    async fn load_pools(&self, known: Option<&PoolsVersion>) -> Result<Option<PoolList>, Error> {
        self.0.management.load_pools(known).await
    }

    async fn replace_pools(&self, last_known: Option<&PoolsVersion>, list: &PoolList) -> Result<bool, Error> {
        let is_replaced = self.0.management.replace_pools(last_known, list).await?;
        self.refresh_pools().await?;
        Ok(is_replaced)
    }

    async fn pool_has_queues(&self, pool: &PoolName) -> Result<bool, Error> {
        let unused = self.unused_pools(vec![pool.clone()], Some(NAMES_PER_REQUEST_MAX)).await?;
        Ok(unused.is_empty())
    }

    async fn stores_with_database(&self, id: &DatabaseId) -> Result<Vec<Option<PoolName>>, Error> {
        self.with_database(id).await
    }

    async fn move_queue(&self, queue: &QueueId, pool: &PoolName) -> Result<Moved, Error> {
        self.move_to(queue, pool).await
    }
}

impl PooledStore {
    /// Reads the list of pools if it has changed, and uses those pools. Callers share a request
    /// that began after they asked, so each waits for two at most.
    pub async fn refresh_pools(&self) -> Result<(), Error> {
        let before = self.0.known_pools.refreshes.load(Ordering::SeqCst);
        let mut known = self.0.known_pools.list.lock().await;
        if known.refresh > before {
            return known.outcome.clone();
        }
        let refresh = self.0.known_pools.refreshes.fetch_add(1, Ordering::SeqCst) + 1;
        let outcome = self.read_list(&mut known.version).await;
        (known.refresh, known.outcome) = (refresh, outcome.clone());
        outcome
    }

    async fn read_list(&self, known: &mut Option<PoolsVersion>) -> Result<(), Error> {
        let changed = self.0.management.load_pools(known.as_ref()).await?;
        if let Some(list) = changed.filter(|list| list.version != *known) {
            self.use_pools(list.pools.iter().map(|stored| self.complete(stored)).collect());
            *known = list.version;
        }
        Ok(())
    }

    /// Returns the pool with its complete URI, if that can be decrypted.
    fn complete(&self, stored: &StoredPool) -> ListedPool {
        let (config, is_closed) = (stored.pool.clone(), stored.is_closed);
        match stored.uri(self.0.options.cipher.as_deref()) {
            Ok(uri) => ListedPool { config: Pool { uri, ..config }, is_closed, failure: None },
            Err(error) => ListedPool { config, is_closed, failure: Some(error.to_string()) },
        }
    }

    /// Refreshes the list of pools at intervals, and removes retired pools that have no queues any
    /// more, for as long as this store exists.
    pub fn follow_pools(&self) {
        let this = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            let mut next_removal = Instant::now() + REMOVAL_INTERVAL;
            let (mut next_comparison, mut shared) = (Instant::now(), Vec::new());
            while let Some(store) = this.upgrade().map(PooledStore) {
                let mut outcome = store.refresh_pools().await;
                if Instant::now() >= next_comparison {
                    next_comparison = Instant::now() + COMPARISON_INTERVAL;
                    store.report_shared_databases(&mut shared).await;
                }
                if outcome.is_ok() && Instant::now() >= next_removal {
                    next_removal = Instant::now() + REMOVAL_INTERVAL;
                    outcome = store.remove_unused_pools().await;
                }
                if let Err(error) = outcome {
                    debug!(%error, "cannot follow the list of pools; it is tried again");
                }
                drop(store);
                sleep(REFRESH_INTERVAL).await;
            }
        });
    }

    /// Removes the retired pools that have no queues, and opens pools again that a process has
    /// closed and not opened, because it was killed. A change of an address that is running begins
    /// again then.
    async fn remove_unused_pools(&self) -> Result<(), Error> {
        let Some(mut list) = self.0.management.load_pools(None).await? else { return Ok(()) };
        let retired = list.pools.iter().filter(|stored| stored.pool.is_retired);
        let retired: Vec<_> = retired.map(|stored| stored.pool.name.clone()).collect();
        let unused = if retired.is_empty() { retired } else { self.unused_pools(retired, None).await? };
        let before = list.clone();
        list.pools.retain(|stored| !(stored.pool.is_retired && unused.contains(&stored.pool.name)));
        list.pools.iter_mut().for_each(|stored| stored.is_closed = false);
        if list == before {
            return Ok(());
        }
        // If another process has changed the list, the next round tries again.
        self.replace_pools(list.version.clone().as_ref(), &list).await.map(drop)
    }

    /// Searches the whole catalogue for queues of these pools. Returns the pools that have none.
    /// Locations of queues that do not exist in these pools are removed. A pool whose deleted
    /// queues have dead letters to forward is in use, and so is one that does not answer, because
    /// it may have some.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the catalogue has more names than the search may examine.
    async fn unused_pools(&self, mut pools: Vec<PoolName>, names_max: Option<usize>) -> Result<Vec<PoolName>, Error> {
        let (mut walk, mut examined) = (LocationWalk::default(), 0);
        while let Some(queues) = walk.next(&*self.0.management).await? {
            examined += queues.len();
            for (queue, location) in queues {
                let Some(at) = pools.iter().position(|pool| location.pool.as_ref() == Some(pool)) else { continue };
                // A pool that does not answer may have the queue.
                if !self.remove_empty_location(&queue, &location).await.unwrap_or(false) {
                    pools.remove(at);
                }
            }
            if pools.is_empty() {
                break;
            }
            if names_max.is_some_and(|max| examined > max) {
                return Err(Error::Unavailable("the catalogue has too many queues to search it now".to_owned()));
            }
        }
        let mut unused = Vec::new();
        for name in pools {
            if let Ok(pool) = self.pool(&name)
                && pool.redis.has_outboxes_of_deleted_queues().await == Ok(false)
            {
                unused.push(name);
            }
        }
        Ok(unused)
    }
}
