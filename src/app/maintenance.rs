//! The commands that work on the configured store without serving it.

use std::io::Read;

use futures::FutureExt;

use super::error::Error;
use super::store::{cipher, clock, leaves_out_pools, open_existing, redis_tls_files};
use crate::broker::{self, Rekeyed};
use crate::config::Config;
use sukkal_storage::embedded::EmbeddedStore;
use sukkal_storage::migration::{
    MigrationSource, MigrationStep, MigrationTarget, migrate as migrate_store, verify_source,
};
use sukkal_storage::redis::import::RedisImport;
use sukkal_storage::{Check, Driver, StoreUri};

/// Verifies the integrity of the configured store, and with `repairs` fixes the errors that can be
/// fixed. An embedded store must exist, and no other process may have it open.
pub async fn check(config: &Config, repairs: bool) -> Result<Check, Error> {
    let store = open_existing(config).await?;
    // A store that cannot say so is checked.
    if leaves_out_pools(config, &*store).await.unwrap_or(false) {
        return Err(Error::Pools);
    }
    let checked = tokio::select! {
        biased;
        reason = store.becomes_unusable() => return Err(Error::Refused(reason)),
        check = async { if repairs { store.repair().await } else { store.check().await } } => check,
    };
    match (checked, store.becomes_unusable().now_or_never()) {
        // The check may fail before the store reports that it is refused.
        (Err(_), Some(reason)) => Err(Error::Refused(reason)),
        (checked, _) => Ok(checked?),
    }
}

/// Encrypts the messages in the configured store with the first of the configured keys. Calls
/// `report` after each pass over the store. An embedded store must exist, and no other process may
/// have it open.
pub async fn rekey(config: &Config, report: impl Fn(u32, &Rekeyed) + Send + Sync) -> Result<Rekeyed, Error> {
    let cipher = cipher(config).ok_or(Error::NoKey)?;
    with_whole_store(config, async |store| Ok(broker::rekey(store, &cipher, report).await?)).await
}

/// Gives the configured store the layout of this release. Returns whether it had another one.
pub async fn upgrade(config: &Config) -> Result<bool, Error> {
    with_whole_store(config, async |store| Ok(store.upgrade().await?)).await
}

/// Runs `work` on the configured store, which must exist, with all its pools.
async fn with_whole_store<T>(
    config: &Config,
    work: impl AsyncFnOnce(&dyn Driver) -> Result<T, Error>,
) -> Result<T, Error> {
    let store = open_existing(config).await?;
    tokio::select! {
        biased;
        reason = store.becomes_unusable() => Err(Error::Refused(reason)),
        done = async {
            if leaves_out_pools(config, &*store).await? {
                return Err(Error::Pools);
            }
            work(&*store).await
        } => done,
    }
}

/// The result of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Migrated {
    /// The configured store has everything, and can be used.
    Now,
    /// An earlier run has completed the migration. Nothing was changed.
    Before,
}

/// Copies everything from an embedded store to the configured store, which must be an empty Redis.
/// No other process may have the embedded store open. Calls `report` after each step but the last
/// one.
pub async fn migrate(from: &StoreUri, config: &Config, report: impl Fn(&MigrationStep)) -> Result<Migrated, Error> {
    let (StoreUri::Embedded(folder), StoreUri::Redis(uri)) = (from, &config.store) else {
        return Err(Error::NoMigration { from: from.to_string(), to: config.store.to_string() });
    };
    let source = EmbeddedStore::open_verified(folder)?;
    let verified = verify_source(&source).await?;
    report(&MigrationStep::SourceVerified(verified.clone()));
    let id = source.migration_id().await?;
    let mut target =
        RedisImport::open(&uri.clone().with_tls(redis_tls_files(&config.redis)).with_clock(clock(config)), id)?;
    if target.is_complete().await? {
        return Ok(Migrated::Before);
    }
    tokio::select! {
        biased;
        reason = target.becomes_unusable() => Err(Error::Refused(reason)),
        migrated = migrate_store(&source, &verified, &mut target, report) => Ok(migrated.map(|()| Migrated::Now)?),
    }
}

/// Creates the configured embedded store from a backup. Returns the number of records.
pub fn restore(backup: impl Read, config: &Config) -> Result<u64, Error> {
    match &config.store {
        StoreUri::Embedded(folder) => Ok(EmbeddedStore::restore(backup, folder)?),
        uri @ (StoreUri::Memory | StoreUri::Redis(_)) => Err(Error::NoFile(uri.to_string())),
    }
}

/// Compacts the file of the configured embedded store, and returns its size in bytes before and
/// after. The store must exist, and no other process may have it open.
pub fn compact(config: &Config) -> Result<(u64, u64), Error> {
    match &config.store {
        StoreUri::Embedded(folder) => Ok(EmbeddedStore::compact(folder)?),
        uri @ (StoreUri::Memory | StoreUri::Redis(_)) => Err(Error::NoFile(uri.to_string())),
    }
}
