//! Assembles the service from store, broker, HTTP and janitor, runs it, and stops its parts in
//! order. Also has the commands that work on the store alone.

mod error;
mod maintenance;
mod serve;
mod service;
mod store;

pub use self::error::Error;
pub use self::maintenance::{Migrated, check, compact, migrate, rekey, restore, upgrade};
pub use self::serve::{runtime, serve, server_limits};
pub use self::service::{push, service};
pub use self::store::schedule;
pub use crate::broker::Rekeyed;
pub use sukkal_storage::migration::{Counts, MigrationError, MigrationStep};
pub use sukkal_storage::{Check, StoreUri};
