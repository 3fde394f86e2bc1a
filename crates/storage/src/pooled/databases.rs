//! Notices that two addresses lead to the same database, which has an id.
//!
//! Pools with different labels may share a database. A pool must not have the database of the
//! management store, because the registers of both would be the same keys.

use futures::future::{join_all, try_join};
use tracing::error;

use super::PooledStore;
use crate::redis::RedisStore;
use crate::{DATABASE_KEY, DatabaseId, Error};
use sukkal_domain::PoolName;

impl PooledStore {
    /// Returns the stores with this database: see
    /// [`crate::PoolStore::stores_with_database`].
    pub(super) async fn with_database(&self, id: &DatabaseId) -> Result<Vec<Option<PoolName>>, Error> {
        let mut found = Vec::new();
        if self.is_management_store(id).await? {
            found.push(None);
        }
        let pools = self.databases().await.into_iter();
        found.extend(pools.filter(|(_, database)| database == id).map(|(name, _)| Some(name)));
        Ok(found)
    }

    /// Returns whether this is the database of the management store.
    pub(super) async fn is_management_store(&self, id: &DatabaseId) -> Result<bool, Error> {
        match &self.0.virtual_redis {
            Some(management) => Ok(management.database_id().await? == *id),
            None => Ok(false),
        }
    }

    /// Logs each two pools that have the same database and the same label, unless they are in
    /// `known`.
    pub(super) async fn report_shared_databases(&self, known: &mut Vec<(PoolName, PoolName)>) {
        let (databases, pools) = (self.databases().await, self.0.pools.all());
        let label = |name| pools.get(name).and_then(|pool| pool.config.uri.label());
        let mut shared = Vec::new();
        for (at, (pool, database)) in databases.iter().enumerate() {
            let others = databases[at + 1..].iter().filter(|(_, other)| other == database);
            for (other, _) in others.filter(|(other, _)| label(other) == label(pool)) {
                let pair = (pool.clone(), other.clone());
                if !known.contains(&pair) {
                    error!(
                        %pool, %other, key = DATABASE_KEY,
                        "two pools have the same database, so queues cannot move between them; if it is the copy of \
                         a database, delete the key in the copy"
                    );
                }
                shared.push(pair);
            }
        }
        *known = shared;
    }

    /// Returns the databases of the pools that are up, by name.
    async fn databases(&self) -> Vec<(PoolName, DatabaseId)> {
        let pools = self.0.pools.all();
        let up = pools.iter().filter(|(_, pool)| pool.is_up());
        let read = up.map(async |(name, pool)| Some((name.clone(), pool.redis.database_id().await.ok()?)));
        join_all(read).await.into_iter().flatten().collect()
    }
}

/// Returns why a pool cannot have its database, or `None` if it can.
pub(super) async fn misuse(pool: &RedisStore, management: &RedisStore) -> Result<Option<String>, Error> {
    let (own, other) = try_join(pool.database_id(), management.database_id()).await?;
    Ok((own == other).then(|| {
        format!(
            "it has the database of the management store; if it is a copy, delete the key {DATABASE_KEY} in the pool"
        )
    }))
}
