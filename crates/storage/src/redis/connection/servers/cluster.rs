//! Finds out which server of a cluster has which slots. The servers know it. One of them is asked
//! at the start, after failed attempts, and every few seconds.
//!
//! `fred`'s cluster client is not used: it sends nothing to any server until it is connected to all
//! of them.

use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::ClientLike;
use fred::types::config::Server as Address;
use fred::types::{ClusterHash, CustomCommand, Value};
use futures::future::select_ok;
use tokio::time::{sleep, timeout};
use tracing::info;

use super::cluster_slots::{SlotRange, read_ranges};
use super::{LOOKUP_CONNECT_TIMEOUT, Servers};
use crate::redis::connection::pool::PooledConnection;
use crate::redis::uri::shown;

/// Time between two regular reads of the slot map.
const REFRESH_INTERVAL: Duration = Duration::from_secs(3);
/// Time between two reads of the slot map while attempts fail: at first, and while nothing changes.
const REFRESH_PAUSE_MIN: Duration = Duration::from_millis(100);
const REFRESH_PAUSE_MAX: Duration = Duration::from_secs(1);

impl Servers {
    /// Keeps the slot map of a cluster up to date. After each failure it asks another server,
    /// because the last one may be cut off from the others. While the map does not change, it asks
    /// less and less often.
    pub(super) async fn follow_slot_map(self) {
        let (mut next_server, mut pause) = (0, REFRESH_PAUSE_MIN);
        loop {
            let has_changed = match self.fetch_slot_map(&mut next_server).await {
                Ok(ranges) => {
                    *self.0.lookup_failure.lock() = None;
                    let has_changed = self.assign(ranges);
                    if has_changed {
                        info!(servers = self.0.map.read().servers.len(), "the slot map of the cluster has changed");
                    }
                    has_changed
                }
                Err(reason) => {
                    self.note_lookup_failure(format!("no server of the cluster returned the slot map: {reason}"));
                    false
                }
            };
            pause = if has_changed { REFRESH_PAUSE_MIN } else { (2 * pause).min(REFRESH_PAUSE_MAX) };
            if timeout(REFRESH_INTERVAL, self.0.refresh.notified()).await.is_ok() {
                next_server += 1;
                sleep(pause).await;
            } else {
                pause = REFRESH_PAUSE_MIN;
            }
        }
    }

    /// Returns the slot map of the first server that replies. If no known server does, it asks all
    /// seeds at once; the error is that of one of them.
    async fn fetch_slot_map(&self, next_server: &mut usize) -> Result<Vec<SlotRange>, String> {
        let mut servers: Vec<_> =
            self.0.map.read().servers.iter().map(|(address, server)| (address.clone(), server.clone())).collect();
        servers.sort_by(|(one, _), (other, _)| one.cmp(other));
        for _ in 0..servers.len() {
            let (address, server) = &servers[*next_server % servers.len()];
            if server.pool.is_connected()
                && let Ok(ranges) = fetch_ranges(server.pool.select(), address).await
            {
                return Ok(ranges);
            }
            *next_server += 1;
        }
        let seeds = self.0.config.server.hosts().into_iter().map(async |address| {
            let connection = PooledConnection::open(&self.config_of(&address));
            let connected = connection.wait_for_connection(LOOKUP_CONNECT_TIMEOUT).await;
            connected.map_err(|reason| format!("{}: {reason}", shown(&address)))?;
            fetch_ranges(&connection, &address).await
        });
        select_ok(seeds.map(Box::pin)).await.map(|(ranges, _others)| ranges)
    }
}

/// Asks one server for the slot map.
async fn fetch_ranges(connection: &PooledConnection, address: &Address) -> Result<Vec<SlotRange>, String> {
    let command = CustomCommand::new_static("CLUSTER", ClusterHash::Random, false);
    let request = |client: Client| async move { client.custom(command, vec![Value::from("SLOTS")]).await };
    let name = shown(address);
    let reply = connection.attempt(request).await.map_err(|error| match error.details() {
        message if message.contains("cluster support disabled") => {
            format!("{name} is not part of a cluster ({message}); for a single server use redis://")
        }
        message => format!("{name}: {message}"),
    })?;
    read_ranges(reply, &address.host).ok_or_else(|| format!("{name}: no slot ranges in the reply to CLUSTER SLOTS"))
}
