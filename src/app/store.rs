//! Opens the configured store, with its pools.

use std::sync::Arc;
use std::time::Duration;

use super::error::Error;
use crate::broker::Cipher;
use crate::config::{self, Config};
use sukkal_domain::Secret;
use sukkal_storage::embedded::{EmbeddedStore, Fsync};
use sukkal_storage::pooled::{self, PooledStore};
use sukkal_storage::redis::{self, RedisPools, RedisStore};
use sukkal_storage::{Driver, Schedule, StoreUri, UriCipher};

/// The configured store, and its pools if it has some.
pub(super) struct Opened {
    pub(super) store: Arc<dyn Driver>,
    pub(super) pooled: Option<PooledStore>,
}

impl Opened {
    /// Returns the store that the service maintains. The pools are maintained by tasks of their
    /// own.
    pub(super) fn maintained(&self) -> Arc<dyn Driver> {
        self.pooled.as_ref().map_or_else(|| self.store.clone(), PooledStore::management)
    }
}

/// Opens the configured store, with its pools.
pub(super) fn open(config: &Config) -> Result<Opened, Error> {
    let fsync = match config.embedded.fsync {
        config::Fsync::Group => Fsync::Group,
        config::Fsync::Interval => Fsync::Interval,
        config::Fsync::Off => Fsync::Off,
    };
    match &config.store {
        StoreUri::Embedded(folder) => opened_embedded(config, EmbeddedStore::open(folder, fsync)?),
        StoreUri::Memory => opened_embedded(config, EmbeddedStore::in_memory()?),
        StoreUri::Redis(uri) => {
            // The files may be for the pools only.
            let is_for_pools = config.pooling.enabled && !uri.uses_tls();
            let files = if is_for_pools { redis::TlsFiles::default() } else { redis_tls_files(&config.redis) };
            let store = RedisStore::open(&uri.clone().with_tls(files).with_clock(clock(config)))?;
            if !config.pooling.enabled {
                return Ok(Opened { store: Arc::new(store), pooled: None });
            }
            Ok(opened_pooled(PooledStore::over_redis(&store, pool_options(config))?))
        }
    }
}

/// Opens the configured store, with its pools. An embedded store must exist.
pub(super) async fn open_existing(config: &Config) -> Result<Arc<dyn Driver>, Error> {
    let opened = match &config.store {
        StoreUri::Embedded(folder) => opened_embedded(config, EmbeddedStore::open_verified(folder)?)?,
        StoreUri::Memory | StoreUri::Redis(_) => open(config)?,
    };
    if let Some(pooled) = &opened.pooled {
        pooled.refresh_pools().await?;
    }
    Ok(opened.store)
}

/// Returns whether the store has pools that the configuration leaves out.
pub(super) async fn leaves_out_pools(config: &Config, store: &dyn Driver) -> Result<bool, sukkal_storage::Error> {
    if config.pooling.enabled {
        return Ok(false);
    }
    Ok(store.load_pools(None).await?.is_some_and(|list| !list.pools.is_empty()))
}

fn opened_embedded(config: &Config, store: EmbeddedStore) -> Result<Opened, Error> {
    if !config.pooling.enabled {
        return Ok(Opened { store: Arc::new(store), pooled: None });
    }
    Ok(opened_pooled(PooledStore::over_embedded(&store, pool_options(config))?))
}

fn opened_pooled(store: PooledStore) -> Opened {
    Opened { store: Arc::new(store.clone()), pooled: Some(store) }
}

pub(super) fn pool_options(config: &Config) -> pooled::Options {
    pooled::Options {
        has_virtual_pool: config.pooling.virtual_pool,
        schedule: schedule(config),
        redis: RedisPools::new(redis_tls_files(&config.redis), clock(config)),
        wait_max: Duration::from_secs(config.transport.limits.max_queueing.into()),
        cipher: cipher(config).map(|cipher| Arc::new(cipher) as Arc<dyn UriCipher>),
    }
}

pub(super) fn redis_tls_files(files: &config::Redis) -> redis::TlsFiles {
    let config::Redis { ca_file, certificate_file, key_file } = files.clone();
    redis::TlsFiles { ca: ca_file, certificate: certificate_file, key: key_file }
}

/// Returns the clock of scripts over Redis.
pub(super) fn clock(config: &Config) -> redis::Clock {
    if config.has_movable_clock { redis::Clock::Movable } else { redis::Clock::Redis }
}

/// Returns the schedule of the store's maintenance.
#[must_use]
pub fn schedule(config: &Config) -> Schedule {
    Schedule { pause: Duration::from_secs(config.janitor.pause_s), walk: Duration::from_secs(config.janitor.walk_s) }
}

/// Returns the keys that encrypt and decrypt messages, if there is one that encrypts.
pub(super) fn cipher(config: &Config) -> Option<Cipher> {
    let first = config.transport.message_encryption_key.reveal()?;
    let others = config.transport.message_decryption_keys.iter();
    Some(Cipher::new(first).accepting(others.filter_map(Secret::reveal)))
}
