//! Follows the list of pools, which any process may change.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::sleep;
use tracing::{debug, warn};

use super::{Parts, PooledStore};
use crate::domain::{Pool, PoolName};
use crate::storage::{Error, PoolList, PoolStore, PoolsVersion, QueueStore, StoredPool};

/// Time between two requests for the version of the list.
const REFRESH_INTERVAL: Duration = Duration::from_secs(2);

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
        let page = self.pool(pool)?.redis.list_projects(None, 1).await?;
        Ok(!page.projects.is_empty())
    }
}

impl PooledStore {
    /// Reads the list of pools if it has changed, and uses those pools.
    pub async fn refresh_pools(&self) -> Result<(), Error> {
        let mut known = self.0.known_pools.lock().await;
        if let Some(list) = self.0.management.load_pools(known.as_ref()).await? {
            let pools = list.pools.iter().filter_map(|stored| self.complete(stored)).collect();
            self.set_pools(pools);
            *known = list.version;
        }
        Ok(())
    }

    /// Returns the pool with its complete URI, if that can be decrypted.
    fn complete(&self, stored: &StoredPool) -> Option<Pool> {
        match stored.uri(self.0.options.cipher.as_deref()) {
            Ok(uri) => Some(Pool { uri, ..stored.pool.clone() }),
            Err(error) => {
                warn!(pool = %stored.pool.name, %error, "cannot use a pool");
                None
            }
        }
    }

    /// Refreshes the list of pools at intervals, for as long as this store exists.
    pub fn follow_pools(&self) {
        let this = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            while let Some(()) = refresh(&this).await {
                sleep(REFRESH_INTERVAL).await;
            }
        });
    }
}

async fn refresh(store: &Weak<Parts>) -> Option<()> {
    if let Err(error) = PooledStore(store.upgrade()?).refresh_pools().await {
        debug!(%error, "cannot read the list of pools; it is tried again");
    }
    Some(())
}
