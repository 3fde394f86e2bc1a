//! Upgrades the layout of a store, for `sukkal upgrade`.
//!
//! A process of the release before this one damages data of layout 4, and notices the layout only
//! when it connects. So the store gets the layout when no such process is live any more.

use std::time::Duration;

use tokio::time::sleep;

use super::RedisStore;
use super::connection::Version;
use crate::Error;

/// How long processes are listened to. Each publishes a heartbeat every second.
const LISTENING: Duration = Duration::from_secs(5);

impl RedisStore {
    /// Returns whether the store has the layout of the release before.
    pub(crate) async fn needs_upgrade(&self) -> Result<bool, Error> {
        Ok(self.connection.layout_version().await? != Version::Four)
    }

    /// Succeeds if the store has the layout of this release, or can get it because no process of an
    /// earlier release uses it. Returns whether it must be changed.
    pub(crate) async fn check_upgrade(&self) -> Result<bool, Error> {
        if !self.needs_upgrade().await? {
            return Ok(false);
        }
        let _signals = self.signals.receiver(&self.connection, || {});
        sleep(LISTENING).await;
        let processes = match self.signals.processes_of_earlier_releases() {
            None => "this process did not receive its own heartbeat, so others may use it unnoticed".to_owned(),
            Some(0) => return Ok(true),
            Some(1) => "a process of an earlier release uses it; replace it first".to_owned(),
            Some(count) => format!("{count} processes of an earlier release use it; replace them first"),
        };
        Err(Error::Unsupported(format!("the store cannot be upgraded: {processes}")))
    }

    /// Gives the store the layout of this release.
    pub(crate) async fn set_layout(&self) -> Result<(), Error> {
        self.connection.upgrade_layout().await
    }
}
