//! The servers of a store, and which of them has which slots.
//!
//! A single server and a Sentinel group count as one server that has all slots. The servers of a
//! cluster know who has which slots. One of them is asked at the start, after failed attempts, and
//! every few seconds.
//!
//! Each server has its own connections, so that commands to the others continue while one is
//! unreachable. `fred`'s cluster client sends nothing to any server until it is connected to all of
//! them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::ClientLike;
use fred::types::config::{Config, Server as Address, ServerConfig};
use fred::types::{ClusterHash, CustomCommand, Value};
use fred::util::redis_keyslot;
use futures::future::select_ok;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};
use tracing::{error, info};

use super::cluster_slots::{SlotRange, read_ranges};
use super::listener::Listener;
use super::pool::{Pool, PooledConnection};
use crate::storage::redis::slot_tags::SLOTS;
use crate::storage::{Admission, Load};

/// Maximum number of operations in flight on a server. The longest scripts take 15 ms, so the last
/// of these operations is served long before it times out.
const IN_FLIGHT_MAX: usize = 64;
/// Time between two regular reads of the slot map.
const REFRESH_INTERVAL: Duration = Duration::from_secs(3);
/// Time between two reads of the slot map while attempts fail: at first, and while nothing changes.
const REFRESH_PAUSE_MIN: Duration = Duration::from_millis(100);
const REFRESH_PAUSE_MAX: Duration = Duration::from_secs(1);
/// Maximum time to connect to a seed, which is a server that the operator configured.
const SEED_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// All servers of a store. Clones share them.
#[derive(Clone)]
pub(in crate::storage::redis) struct Servers(Arc<Shared>);

struct Shared {
    config: Config,
    map: RwLock<SlotMap>,
    changes: watch::Sender<()>,
    refresh: Notify,
    /// Bounds operations on slots whose server is not known.
    unassigned_admission: Arc<Admission>,
    /// Why no server of the cluster returns the slot map, while that is so.
    lookup_error: Mutex<Option<String>>,
}

/// The server of each slot. There is only slot 0 if the store is not a cluster.
#[derive(Default)]
struct SlotMap {
    servers: HashMap<Address, Arc<Server>>,
    of_slots: Vec<Option<Arc<Server>>>,
}

/// One server with its connections.
pub(super) struct Server {
    pub(super) config: Config,
    pub(super) pool: Pool,
    pub(super) admission: Arc<Admission>,
    /// Opened when a client first waits for a queue of this server.
    pub(super) listener: OnceLock<Listener>,
}

impl Server {
    fn open(config: Config, changes: &watch::Sender<()>) -> Arc<Self> {
        let pool = Pool::open(&config, changes);
        Arc::new(Self { config, pool, admission: Admission::new(IN_FLIGHT_MAX), listener: OnceLock::new() })
    }
}

impl Servers {
    /// Starts to connect, and does not wait for a store that is not reachable yet.
    pub(in crate::storage::redis) fn open(config: Config) -> Self {
        let this = Self(Arc::new(Shared {
            config,
            map: RwLock::default(),
            changes: watch::Sender::new(()),
            refresh: Notify::new(),
            unassigned_admission: Admission::new(IN_FLIGHT_MAX),
            lookup_error: Mutex::default(),
        }));
        if this.are_clustered() {
            tokio::spawn(this.clone().follow_slot_map());
        } else {
            let server = Server::open(this.0.config.clone(), &this.0.changes);
            this.0.map.write().unwrap_or_else(PoisonError::into_inner).of_slots = vec![Some(server)];
        }
        this
    }

    /// Returns whether the servers form a cluster.
    pub(super) fn are_clustered(&self) -> bool {
        self.0.config.server.is_clustered()
    }

    /// Returns the number of the database, which is 0 in a cluster.
    pub(super) fn database(&self) -> u8 {
        self.0.config.database.unwrap_or_default()
    }

    /// Returns the slot of a key.
    pub(super) fn slot(&self, key: &str) -> u16 {
        if self.are_clustered() { redis_keyslot(key.as_bytes()) } else { 0 }
    }

    /// Returns the server that has a slot, if it is known.
    pub(super) fn of_slot(&self, slot: u16) -> Option<Arc<Server>> {
        self.map().of_slots.get(usize::from(slot)).cloned().flatten()
    }

    /// Returns the admission that bounds the operations on a slot: that of its server.
    pub(super) fn admission(&self, slot: u16) -> Arc<Admission> {
        let map = self.map();
        let server = map.of_slots.get(usize::from(slot)).and_then(Option::as_ref);
        server.map_or(&self.0.unassigned_admission, |server| &server.admission).clone()
    }

    /// Returns the load of all servers together.
    pub(super) fn load(&self) -> Load {
        let map = self.map();
        let single = map.servers.is_empty().then(|| map.of_slots.first().and_then(Option::as_ref)).flatten();
        map.servers.values().chain(single).map(|server| server.admission.load()).sum()
    }

    /// Returns a slot of a server that is connected, or slot 0 if there is none.
    pub(super) fn connected_slot(&self) -> u16 {
        let is_connected =
            |server: &Option<Arc<Server>>| server.as_ref().is_some_and(|server| server.pool.is_connected());
        let slot = self.map().of_slots.iter().position(is_connected);
        slot.and_then(|slot| u16::try_from(slot).ok()).unwrap_or_default()
    }

    /// Returns all slots by server, without those that no server has. Empty while the cluster is
    /// not known.
    pub(super) fn slots_by_server(&self) -> Vec<Vec<u16>> {
        let mut by_server: HashMap<*const Server, Vec<u16>> = HashMap::new();
        for (slot, server) in (0..).zip(&self.map().of_slots) {
            if let Some(server) = server {
                by_server.entry(Arc::as_ptr(server)).or_default().push(slot);
            }
        }
        by_server.into_values().collect()
    }

    /// Notifies of each connection to a server, and of slots that have moved.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.0.changes.subscribe()
    }

    /// Returns why the server of a slot cannot be used, if that is known.
    pub(super) fn unavailable_reason(&self, slot: u16) -> Option<String> {
        match self.of_slot(slot) {
            Some(server) => server.pool.health.unavailable_reason(),
            None => self.lookup_error().clone(),
        }
    }

    /// Returns a slot of a server whose disk is full, if there is one.
    pub(super) fn slot_with_full_disk(&self) -> Option<u16> {
        let is_full =
            |server: &Option<Arc<Server>>| server.as_ref().is_some_and(|server| server.pool.health.has_full_disk());
        self.map().of_slots.iter().position(is_full).and_then(|slot| u16::try_from(slot).ok())
    }

    /// Requests an early read of the slot map, because an attempt has failed.
    pub(super) fn refresh_soon(&self) {
        self.0.refresh.notify_one();
    }

    fn lookup_error(&self) -> MutexGuard<'_, Option<String>> {
        self.0.lookup_error.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn map(&self) -> RwLockReadGuard<'_, SlotMap> {
        self.0.map.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the slot map of a cluster up to date. After each failure it asks another server,
    /// because the last one may be cut off from the others. While the map does not change, it asks
    /// less and less often.
    async fn follow_slot_map(self) {
        let (mut next_server, mut pause) = (0, REFRESH_PAUSE_MIN);
        loop {
            let has_changed = match self.fetch_slot_map(&mut next_server).await {
                Ok(ranges) => {
                    *self.lookup_error() = None;
                    self.apply_ranges(ranges)
                }
                Err(reason) => {
                    let reason = format!("no server of the cluster returned the slot map: {reason}");
                    let known = self.lookup_error().replace(reason.clone());
                    if known.is_none_or(|known| known != reason) {
                        error!(reason, "the store cannot be used");
                    }
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
            self.map().servers.iter().map(|(address, server)| (address.clone(), server.clone())).collect();
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
            match timeout(SEED_CONNECT_TIMEOUT, connection.wait_for_connection()).await {
                Ok(Ok(())) => fetch_ranges(&connection, &address).await,
                failed => {
                    let unknown = || format!("there is no connection: {failed:?}");
                    Err(format!("{address}: {}", connection.unavailable_reason().unwrap_or_else(unknown)))
                }
            }
        });
        select_ok(seeds.map(Box::pin)).await.map(|(ranges, _others)| ranges)
    }

    /// Replaces the slot map. Returns whether it has changed.
    fn apply_ranges(&self, ranges: Vec<SlotRange>) -> bool {
        let mut map = self.0.map.write().unwrap_or_else(PoisonError::into_inner);
        let mut next = SlotMap { servers: HashMap::new(), of_slots: vec![None; usize::from(SLOTS)] };
        for SlotRange { first, last, address } in ranges {
            let server = next.servers.entry(address.clone()).or_insert_with(|| match map.servers.get(&address) {
                Some(server) => server.clone(),
                None => Server::open(self.config_of(&address), &self.0.changes),
            });
            next.of_slots[usize::from(first)..=usize::from(last)].fill(Some(server.clone()));
        }
        let has_changed = !server_pointers(&map).eq(server_pointers(&next));
        if has_changed {
            info!(servers = next.servers.len(), "the slot map of the cluster has changed");
            *map = next;
            drop(map);
            self.0.changes.send_replace(());
        }
        has_changed
    }

    fn config_of(&self, address: &Address) -> Config {
        Config { server: ServerConfig::Centralized { server: address.clone() }, ..self.0.config.clone() }
    }
}

fn server_pointers(map: &SlotMap) -> impl Iterator<Item = Option<*const Server>> {
    map.of_slots.iter().map(|server| server.as_ref().map(Arc::as_ptr))
}

/// Asks one server for the slot map.
async fn fetch_ranges(connection: &PooledConnection, address: &Address) -> Result<Vec<SlotRange>, String> {
    let command = CustomCommand::new_static("CLUSTER", ClusterHash::Random, false);
    let request = |client: Client| async move { client.custom(command, vec![Value::from("SLOTS")]).await };
    let reply = connection.attempt(request).await.map_err(|error| match error.details() {
        message if message.contains("cluster support disabled") => {
            format!("{address} is not part of a cluster ({message}); for a single server use redis://")
        }
        message => format!("{address}: {message}"),
    })?;
    read_ranges(reply, &address.host).ok_or_else(|| format!("{address}: no slot ranges in the reply to CLUSTER SLOTS"))
}
