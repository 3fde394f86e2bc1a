//! Backups of the whole store, for operators.

use tokio::sync::OwnedSemaphorePermit;

use super::access::Resource;
use super::{Action, Broker, Error};
use crate::auth::Caller;
use crate::storage;

/// A backup of the store as it was when this was created, in parts. Reading the next part is quick, apart
/// from disk access.
pub struct Backup {
    parts: storage::Backup,
    /// Only one backup is made at a time.
    _permit: OwnedSemaphorePermit,
}

impl Broker {
    /// Begins a backup of the whole store, which must be an embedded one without pools. Only operators may
    /// ask for it.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] if the store is another one, or a backup is being made.
    pub async fn begin_backup(&self, caller: &Caller) -> Result<Backup, Error> {
        let access = self.store.authorize(caller, Action::Backup, Resource::Store)?;
        let permit = self.backups.clone().try_acquire_owned();
        let permit =
            permit.map_err(|_| Error::Conflict("another backup is being made; wait until it has ended".to_owned()))?;
        let parts = access.admit().await?.begin_backup()?.ok_or_else(|| {
            let text = "only an embedded store without pools has backups here; back up Redis with its own tools";
            Error::Conflict(text.to_owned())
        })?;
        Ok(Backup { parts, _permit: permit })
    }
}

impl Iterator for Backup {
    type Item = Result<Vec<u8>, storage::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.parts.next()
    }
}
