//! Backups of the whole store, for operators.

use super::access::Resource;
use super::{Action, Broker, Error};
use crate::auth::Caller;
use sukkal_storage::{Backup, BackupStart};

impl Broker {
    /// Begins a backup of the whole store, which must be an embedded one without pools. Only
    /// operators may ask for it.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] if the store is another one, or another backup is being made.
    pub async fn begin_backup(&self, caller: &Caller) -> Result<Backup, Error> {
        let access = self.store.authorize(caller, Action::Backup, Resource::Store)?;
        let refusal = match access.admit().await?.begin_backup()? {
            BackupStart::Begun(backup) => return Ok(backup),
            BackupStart::Running => "another backup is being made; wait until it has ended",
            BackupStart::OtherTools => {
                "only an embedded store without pools has backups here; back up Redis with its own tools"
            }
        };
        Err(Error::Conflict(refusal.to_owned()))
    }
}
