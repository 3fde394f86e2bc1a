//! The reason why the service cannot run.

use std::io;
use std::net::SocketAddr;

use thiserror::Error;

use crate::api::TlsError;
use crate::broker;
use crate::config::Bind;
use sukkal_storage::embedded::{OpenError, RestoreError};
use sukkal_storage::migration::MigrationError;
use sukkal_storage::redis;

/// The reason why the service cannot run.
#[derive(Debug, Error)]
pub enum Error {
    /// The store's file cannot be used.
    #[error("store: {0}")]
    OpenStore(#[from] OpenError),
    /// TLS to Redis cannot be used as configured.
    #[error("store: {0}")]
    RedisTls(#[from] redis::TlsError),
    /// The store has no file.
    #[error("only embedded stores have a file, and the store is {0}; use --store embedded:PATH")]
    NoFile(String),
    /// A backup cannot be restored.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// Stores of these kinds cannot be migrated into each other.
    #[error(
        "only an embedded store can be migrated, and only to Redis, but not {from} to {to}; use --from embedded:PATH --to redis://HOST"
    )]
    NoMigration {
        /// The source.
        from: String,
        /// The target.
        to: String,
    },
    /// A migration is not complete.
    #[error(transparent)]
    Migration(#[from] MigrationError),
    /// There is no key to encrypt messages with.
    #[error("message_encryption_key in [transport] is empty; set it to the passphrase that is to encrypt messages")]
    NoKey,
    /// The store has queues in pools, which would be left out.
    #[error("the store has pools, but pooling.enabled is false, so queues in pools would be left out; set it to true")]
    Pools,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] sukkal_storage::Error),
    /// This release cannot use the store, for example because of its version.
    #[error("store: {0}")]
    Refused(String),
    /// The address is in use, or does not belong to this machine.
    #[error("cannot listen on {address}: {reason}; set another address by {option}")]
    Bind {
        /// The ways to set the address, for the operator.
        option: &'static str,
        /// The address.
        address: Bind,
        /// The error of the operating system.
        reason: io::Error,
    },
    /// Other machines could use the service without authentication.
    #[error(
        "{0} is not a loopback address, and [auth] has no strategies, so everybody could use every project; set \
         SUKKAL_AUTH__STRATEGIES or strategies in [auth] to proxy, for a proxy that authenticates callers, or to none \
         if everybody may"
    )]
    Exposed(SocketAddr),
    /// Other machines could use a service whose clock tests can move.
    #[error("{0} is not a loopback address, and SUKKAL_MOVABLE_CLOCK is set, which is for tests only; unset it")]
    MovableClock(SocketAddr),
    /// A strategy cannot be used with its options.
    #[error("{0}")]
    Authentication(String),
    /// The token of the admin cannot be read.
    #[error("admin_token_file in [tokens]: {0}")]
    AdminToken(String),
    /// The password for the mail server cannot be read.
    #[error("password_file in [mail]: {0}")]
    MailPassword(String),
    /// The file of the audit log cannot be used.
    #[error("file in [audit]: cannot open {0}")]
    AuditLog(String),
    /// The files in `[tls]` cannot be used.
    #[error("tls: {0}")]
    ListenerTls(#[from] TlsError),
    /// The service may not deliver to subscribers.
    #[error(transparent)]
    Push(#[from] broker::Error),
    /// The operating system refused something.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Error {
    /// Returns whether an option is wrong, or the store that it names cannot be used.
    #[must_use]
    pub fn is_of_options(&self) -> bool {
        match self {
            Self::OpenStore(_)
            | Self::RedisTls(_)
            | Self::NoFile(_)
            | Self::NoMigration { .. }
            | Self::Migration(MigrationError::Pools)
            | Self::NoKey
            | Self::Refused(_)
            | Self::Bind { .. }
            | Self::Exposed(_)
            | Self::MovableClock(_)
            | Self::Authentication(_)
            | Self::AdminToken(_)
            | Self::AuditLog(_)
            | Self::ListenerTls(_) => true,
            Self::Restore(_)
            | Self::Migration(_)
            | Self::Pools
            | Self::Store(_)
            | Self::MailPassword(_)
            | Self::Push(_)
            | Self::Io(_) => false,
        }
    }
}
