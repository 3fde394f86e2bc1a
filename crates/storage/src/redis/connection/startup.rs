//! What a process verifies when it has connected: the layout of the store, and settings of Redis
//! under which messages are lost.

use std::time::Duration;

use fred::types::Value;
use tokio::time::{sleep, timeout};
use tracing::{error, warn};

use super::Connection;
use super::layout::{KEY_OF_LAYOUT_1, Version};
use crate::Error;
use crate::redis::keys;

const PAUSE_BETWEEN_LAYOUT_READS: Duration = Duration::from_millis(100);
/// Pause between two reads of the layout if it was supported before the connection was lost.
const PAUSE_BETWEEN_LAYOUT_CHECKS: Duration = Duration::from_secs(1);
/// Time between two reads of the layout while the store may be upgraded.
const UPGRADE_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The oldest version of Redis that has functions.
const OLDEST_MAJOR_VERSION: u64 = 7;
const PAUSE_BETWEEN_INFO_ATTEMPTS: Duration = Duration::from_secs(5);
/// Approximate number of keys that one `SCAN` visits.
const KEYS_PER_SCAN: &str = "1000";

impl Connection {
    /// Reads the layout of the store now, after each connection, and at intervals while it may be
    /// upgraded.
    pub(super) async fn verify_layout(self) {
        let mut changes = self.servers.changes();
        loop {
            changes.mark_unchanged();
            match self.read_layout().await {
                Ok(version) => {
                    self.layout.set_version(version.as_deref());
                    let reconnection = changes.changed();
                    let is_over = match self.layout.version() {
                        Some(Version::Three) => {
                            timeout(UPGRADE_CHECK_INTERVAL, reconnection).await.is_ok_and(|outcome| outcome.is_err())
                        }
                        _ => reconnection.await.is_err(),
                    };
                    if is_over {
                        return;
                    }
                }
                Err(_away) if self.layout.version().is_some() => sleep(PAUSE_BETWEEN_LAYOUT_CHECKS).await,
                Err(error) => {
                    let reason = error.reason();
                    // Problems of the server itself have already been logged.
                    let is_logged_already = self.servers.unavailable_reason(self.servers.slot(keys::LAYOUT)).is_some();
                    if self.layout.set_unknown(reason) && !is_logged_already {
                        error!(reason, "the store cannot be used");
                    }
                    sleep(PAUSE_BETWEEN_LAYOUT_READS).await;
                }
            }
        }
    }

    /// Reads the version of the layout, and writes it if the store is empty. Returns `None` for a
    /// store that is not empty and has no version.
    async fn read_layout(&self) -> Result<Option<String>, Error> {
        let args = vec![Value::from("server")];
        let info =
            self.send_command("INFO", self.servers.slot(keys::LAYOUT), args).await.and_then(|mut info| info.text());
        // A user who may not ask for the version is not kept from working.
        if let Some(message) = info.ok().and_then(|info| unsupported_version(&info)) {
            return Err(Error::Unavailable(message));
        }
        let version = self.command_unchecked("GET", keys::LAYOUT, []).await?.text_or_nil()?;
        if version.is_some() {
            return Ok(version);
        }
        // The order matters: another process may be writing the version, which it does before
        // anything else.
        let is_layout_1 = self.command_unchecked("EXISTS", KEY_OF_LAYOUT_1, []).await?.number()? > 0;
        // A migration that has lost its mark writes it again, so that it can be repeated.
        let is_new_target = self.layout.is_migrating() && self.layout.version().is_none();
        let is_refused = is_layout_1 || is_new_target && self.has_keys().await?;
        let version = self.command_unchecked("GET", keys::LAYOUT, []).await?.text_or_nil()?;
        if version.is_some() || is_refused {
            return Ok(version);
        }
        // One command, so that a store that is emptied at this moment is not taken for one of
        // layout 1.
        let layout = self.layout.expected();
        let mut previous = self.command_unchecked("SET", keys::LAYOUT, [layout, "NX", "GET"].map(Value::from)).await?;
        Ok(Some(previous.text_or_nil()?.unwrap_or_else(|| layout.to_owned())))
    }

    /// Returns whether there is any key of Sukkal.
    async fn has_keys(&self) -> Result<bool, Error> {
        for slots in self.servers.slots_by_server() {
            let mut cursor = "0".to_owned();
            loop {
                let args = [&cursor, "MATCH", keys::ANY, "COUNT", KEYS_PER_SCAN].map(Value::from);
                let mut reply = self.send_command("SCAN", slots[0], args.into()).await?;
                cursor = reply.text()?;
                if !reply.list()?.is_empty() {
                    return Ok(true);
                }
                if cursor == "0" {
                    break;
                }
            }
        }
        Ok(false)
    }

    /// Logs a warning if Redis may evict keys, because it would drop messages that were
    /// acknowledged, and one if it keeps no append-only file.
    pub(super) async fn warn_about_losses(self) {
        let mut changes = self.servers.changes();
        let info = loop {
            let slot = self.servers.connected_slot();
            let sections = ["memory", "persistence"].map(Value::from);
            if let Ok(mut reply) = self.send_command("INFO", slot, sections.into()).await {
                break reply.text().unwrap_or_default();
            }
            let _either_way = timeout(PAUSE_BETWEEN_INFO_ATTEMPTS, changes.changed()).await;
        };
        let value = |name| info.lines().find_map(|line| line.trim().strip_prefix(name));
        let policy = value("maxmemory_policy:").unwrap_or("noeviction");
        if policy != "noeviction" {
            warn!(
                policy,
                "Redis evicts keys when it is full and so loses messages: set maxmemory-policy to noeviction"
            );
        }
        if value("aof_enabled:") == Some("0") {
            warn!("Redis keeps no append-only file, so its restart loses messages: set appendonly to yes");
        }
    }
}

/// Returns what the operator must do if the server with this `INFO` is too old. Valkey reports the
/// version of Redis with which it is compatible.
fn unsupported_version(info: &str) -> Option<String> {
    let version = info.lines().find_map(|line| line.trim().strip_prefix("redis_version:"))?;
    let major: u64 = version.split('.').next()?.parse().ok()?;
    let is_too_old = major < OLDEST_MAJOR_VERSION;
    is_too_old.then(|| format!("Redis {version} is too old: use Redis 7.0, Valkey 7.2, or a later version"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redis_without_functions_is_too_old() {
        let info = |version: &str| format!("# Server\r\nredis_version:{version}\r\nredis_mode:standalone\r\n");

        for version in ["7.0.0", "7.2.4", "8.2.1", "unknown"] {
            assert_eq!(unsupported_version(&info(version)), None, "{version}");
        }
        assert_eq!(
            unsupported_version(&info("6.2.14")).unwrap(),
            "Redis 6.2.14 is too old: use Redis 7.0, Valkey 7.2, or a later version"
        );
    }
}
