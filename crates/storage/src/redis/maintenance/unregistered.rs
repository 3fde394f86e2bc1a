//! Scans all keys for queues that exist and are not registered. A register may lose names in a
//! failover: see `confirmer.rs`.

use tracing::{debug, warn};

use crate::Error;
use crate::redis::RedisStore;
use crate::redis::keys;
use crate::redis::reply::Reply;
use sukkal_domain::QueueId;

/// Approximate number of keys that one `SCAN` visits.
const KEYS_PER_SCAN: &str = "1000";
/// The cursor at the start and at the end of a scan.
const FIRST: &str = "0";

/// A scan of the keys of all servers.
pub(super) struct KeyScan {
    /// The first slot of each server that is still to be scanned.
    servers: Vec<u16>,
    /// Where the scan of the last of them continues.
    cursor: String,
}

impl KeyScan {
    /// Goes on with the next server.
    pub(super) fn skip_server(&mut self) {
        self.servers.pop();
        FIRST.clone_into(&mut self.cursor);
    }
}

impl RedisStore {
    /// Begins a scan.
    pub(super) fn begin_scan(&self) -> KeyScan {
        let servers = self.connection.servers.slots_by_server().into_iter().map(|slots| slots[0]).collect();
        KeyScan { servers, cursor: FIRST.to_owned() }
    }

    /// Returns the queues among the next keys, and `None` at the end.
    pub(super) async fn scan_step(&self, scan: &mut KeyScan) -> Result<Option<Vec<QueueId>>, Error> {
        let Some(server) = scan.servers.last() else {
            return Ok(None);
        };
        let args = [&scan.cursor, "MATCH", keys::ANY_QUEUE, "COUNT", KEYS_PER_SCAN];
        let mut reply = self.connection.command_on(*server, "SCAN", &args).await?;
        let cursor = reply.text()?;
        let found = reply.list()?.read_all(Reply::text)?;
        match cursor.as_str() {
            FIRST => scan.skip_server(),
            _ => scan.cursor = cursor,
        }
        Ok(Some(found.iter().filter_map(|key| keys::queue_of_key(key)).collect()))
    }

    /// Registers a queue if it is not registered. A failure is logged: the next walk tries again.
    pub(super) async fn register_if_missing(&self, queue: &QueueId) {
        let step = async {
            Ok::<_, Error>(self.registered_version(queue).await?.is_none() && self.confirm_registration(queue).await?)
        };
        match step.await {
            Ok(false) => {}
            Ok(true) => warn!(%queue, "a queue was not registered and has been registered again"),
            // The store itself logs an outage.
            Err(error) if error.is_transient() => debug!(%queue, %error, "cannot confirm the registration of a queue"),
            Err(error) => warn!(%queue, %error, "cannot confirm the registration of a queue"),
        }
    }
}
