//! The list of pools and flavors in Redis: a hash with the list and its version.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::keys;
use super::reply::unknown_kind;
use super::script::POOLS_REPLACE;
use super::uri::{Clock, RedisPools};
use super::{BatchLimits, RedisStore, RedisUri, TlsFiles};
use crate::domain::PoolUri;
use crate::storage::pools::{decode, encode};
use crate::storage::watch::Watchers;
use crate::storage::{DatabaseId, Error, PoolConnector, PoolList, PoolStore, PoolsVersion};

/// Maximum duration of a check of a pool.
const CHECK_MAX: Duration = Duration::from_secs(3);
const PAUSE_IN_CHECK: Duration = Duration::from_millis(100);

impl RedisPools {
    /// Connects with these files for TLS. Scripts read this clock.
    #[must_use]
    pub fn new(tls: TlsFiles, clock: Clock) -> Self {
        Self { tls, clock }
    }

    /// Opens the store of a pool. Returns the reason if that is not possible.
    pub fn open(&self, uri: &PoolUri) -> Result<RedisStore, String> {
        RedisStore::open(&self.address(uri)?).map_err(|error| error.to_string())
    }

    /// Opens the pool for these waiters.
    pub(in crate::storage) fn open_sharing(&self, uri: &PoolUri, watchers: Watchers) -> Result<RedisStore, String> {
        let address = self.address(uri)?;
        RedisStore::open_sharing(&address, BatchLimits::default(), watchers).map_err(|error| error.to_string())
    }

    fn address(&self, uri: &PoolUri) -> Result<RedisUri, String> {
        let address = RedisUri::of_pool(uri, &self.tls).map_err(|error| error.to_string())?;
        Ok(address.with_clock(self.clock))
    }
}

#[async_trait]
impl PoolConnector for RedisPools {
    async fn check(&self, uri: &PoolUri) -> Result<DatabaseId, String> {
        let store = self.open(uri)?;
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
    pub(in crate::storage) async fn database_id(&self) -> Result<DatabaseId, Error> {
        let id = async || self.connection.command("GET", keys::DATABASE, &[]).await?.text_or_nil();
        if let Some(id) = id().await? {
            return Ok(DatabaseId(id));
        }
        self.connection.command("SET", keys::DATABASE, &[&Uuid::new_v4().to_string(), "NX"]).await?;
        let stored = id().await?.ok_or_else(|| Error::Unavailable("the id of the database was removed".to_owned()))?;
        Ok(DatabaseId(stored))
    }
}

const VERSION: &str = "version";
const LIST: &str = "list";

#[async_trait]
impl PoolStore for RedisStore {
    async fn load_pools(&self, known: Option<&PoolsVersion>) -> Result<Option<PoolList>, Error> {
        if let Some(known) = known {
            let version = self.connection.command("HGET", keys::POOLS, &[VERSION]).await?.bytes_or_nil();
            if version.as_ref() == Some(&known.0) {
                return Ok(None);
            }
        }
        let mut fields = self.connection.command("HMGET", keys::POOLS, &[VERSION, LIST]).await?;
        match (fields.bytes_or_nil(), fields.bytes_or_nil()) {
            (Some(version), Some(list)) => decode(version, &list).map(Some),
            _ => Ok(Some(PoolList::default())),
        }
    }

    async fn replace_pools(&self, last_known: Option<&PoolsVersion>, list: &PoolList) -> Result<bool, Error> {
        let last_known = last_known.map_or_else(Bytes::new, |version| version.0.clone());
        let args = vec![last_known, PoolsVersion::random().0, Bytes::from(encode(list))];
        let mut reply = self.connection.run_on(&POOLS_REPLACE, vec![keys::POOLS.to_owned()], args).await?;
        match reply.text()?.as_str() {
            "replaced" => Ok(true),
            "changed" => Ok(false),
            kind => Err(unknown_kind("pools_replace", kind)),
        }
    }
}
