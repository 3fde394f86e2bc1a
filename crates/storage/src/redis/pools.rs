//! Pools, which are databases of Redis: connects to them, and identifies them.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::keys;
use super::uri::{Clock, RedisPools};
use super::{RedisStore, RedisUri, TlsFiles};
use crate::watch::Watchers;
use crate::{DatabaseId, Error, PoolConnector, PoolStore};
use sukkal_domain::PoolUri;

/// Maximum duration of a check of a pool.
const CHECK_MAX: Duration = Duration::from_secs(3);
const PAUSE_IN_CHECK: Duration = Duration::from_millis(100);

impl RedisPools {
    /// Connects with these files for TLS. Scripts read this clock.
    #[must_use]
    pub fn new(tls: TlsFiles, clock: Clock) -> Self {
        Self { tls, clock }
    }

    /// Opens the store of a pool for these waiters. Returns the reason if that is not possible.
    pub(crate) fn open_sharing(&self, uri: &PoolUri, watchers: Watchers) -> Result<RedisStore, String> {
        RedisStore::open_sharing(&self.address(uri)?, watchers).map_err(|error| error.to_string())
    }

    fn address(&self, uri: &PoolUri) -> Result<RedisUri, String> {
        let address = RedisUri::of_pool(uri, &self.tls).map_err(|error| error.to_string())?;
        Ok(address.with_clock(self.clock))
    }
}

#[async_trait]
impl PoolConnector for RedisPools {
    async fn check(&self, uri: &PoolUri) -> Result<DatabaseId, String> {
        let store = self.open_sharing(uri, Watchers::default())?;
        let mut reason = "there is no answer".to_owned();
        let answered = async {
            // To connect may take longer than a command is attempted.
            loop {
                match store.database_id().await {
                    Ok(id) => return id,
                    Err(error) => error.reason().clone_into(&mut reason),
                }
                sleep(PAUSE_IN_CHECK).await;
            }
        };
        let answer = timeout(CHECK_MAX, answered).await;
        store.close();
        answer.map_err(|_elapsed| reason)
    }
}

impl RedisStore {
    /// Returns the id of the database, which is stored when it is first asked for.
    pub(crate) async fn database_id(&self) -> Result<DatabaseId, Error> {
        let id = async || self.connection.command("GET", keys::DATABASE, &[]).await?.text_or_nil();
        if let Some(id) = id().await? {
            return Ok(DatabaseId(id));
        }
        self.connection.command("SET", keys::DATABASE, &[&Uuid::new_v4().to_string(), "NX"]).await?;
        let stored = id().await?.ok_or_else(|| Error::Unavailable("the id of the database was removed".to_owned()))?;
        Ok(DatabaseId(stored))
    }
}

impl PoolStore for RedisStore {}
