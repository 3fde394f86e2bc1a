//! The servers of a store, and which of them has which slots.
//!
//! A single server and the master of a Sentinel group count as one server that has all slots.
//! `cluster.rs` asks the servers of a cluster who has which slots, and `sentinels.rs` asks
//! Sentinels which server is the master.
//!
//! Each server has its own connections, so that commands to the others continue while one is
//! unreachable.

mod cluster;
mod cluster_slots;
mod sentinels;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use fred::types::config::{Config, Server as Address, ServerConfig};
use fred::util::redis_keyslot;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tracing::error;

use self::cluster_slots::SlotRange;
use super::functions::Functions;
use super::listener::Listener;
use super::pool::Pool;
use super::receipts::Receipts;
use crate::redis::slot_tags::SLOTS;
use crate::redis::uri::Credentials;
use crate::{Admission, Load};

/// Maximum number of operations in flight on a server. The longest scripts take 15 ms, so the last
/// of these operations is served long before it times out.
const IN_FLIGHT_MAX: usize = 64;
/// Maximum time to connect to a server that is asked for the other servers.
const LOOKUP_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// All servers of a store. Clones share them.
#[derive(Clone)]
pub(in crate::redis) struct Servers(Arc<SharedServers>);

struct SharedServers {
    config: Config,
    map: RwLock<SlotMap>,
    changes: watch::Sender<()>,
    refresh: Notify,
    /// Canceled when the store is closed.
    closed: CancellationToken,
    /// Bounds operations on slots whose server is not known.
    unassigned_admission: Arc<Admission>,
    /// Why the servers are not known, while that is so.
    lookup_failure: Mutex<Option<LookupFailure>>,
}

struct LookupFailure {
    reason: String,
    since: Instant,
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
    pub(super) receipts: Receipts,
    pub(super) functions: Functions,
}

impl Server {
    fn open(config: Config, changes: &watch::Sender<()>) -> Arc<Self> {
        let pool = Pool::open(&config, changes);
        let (admission, receipts) = (Admission::new(IN_FLIGHT_MAX), Receipts::new(config.clone()));
        Arc::new(Self { config, pool, admission, listener: OnceLock::new(), receipts, functions: Functions::default() })
    }
}

impl Servers {
    /// Starts to connect, and does not wait for a store that is not reachable yet. Sentinels get
    /// these credentials.
    pub(in crate::redis) fn open(config: Config, for_sentinels: &Credentials) -> Self {
        let this = Self(Arc::new(SharedServers {
            config,
            map: RwLock::default(),
            changes: watch::Sender::new(()),
            refresh: Notify::new(),
            closed: CancellationToken::new(),
            unassigned_admission: Admission::new(IN_FLIGHT_MAX),
            lookup_failure: Mutex::default(),
        }));
        match &this.0.config.server {
            ServerConfig::Centralized { server } => {
                this.use_only(server.clone());
            }
            ServerConfig::Clustered { .. } => {
                this.spawn(this.clone().follow_slot_map());
            }
            ServerConfig::Sentinel { hosts, service_name } => {
                this.follow_sentinels(hosts, service_name, for_sentinels);
            }
        }
        this
    }

    /// Runs a task until the store is closed.
    pub(in crate::redis) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let closed = self.0.closed.clone();
        tokio::spawn(async move { closed.run_until_cancelled_owned(task).await });
    }

    /// Ends the tasks of the store. Its connections are closed when its last clone is dropped.
    pub(in crate::redis) fn close(&self) {
        self.0.closed.cancel();
    }

    /// Returns whether another server can take the place of the one that a slot has.
    pub(super) fn can_fail_over(&self) -> bool {
        !matches!(self.0.config.server, ServerConfig::Centralized { .. })
    }

    /// Returns whether the servers form a cluster.
    pub(in crate::redis) fn are_clustered(&self) -> bool {
        self.0.config.server.is_clustered()
    }

    /// Returns the number of the database, which is 0 in a cluster.
    pub(in crate::redis) fn database(&self) -> u8 {
        self.0.config.database.unwrap_or_default()
    }

    /// Returns the slot of a key.
    pub(in crate::redis) fn slot(&self, key: &str) -> u16 {
        if self.are_clustered() { redis_keyslot(key.as_bytes()) } else { 0 }
    }

    /// Returns the server that has a slot, if it is known.
    pub(super) fn of_slot(&self, slot: u16) -> Option<Arc<Server>> {
        self.0.map.read().of_slots.get(usize::from(slot)).cloned().flatten()
    }

    /// Returns the admission that bounds the operations on a slot: that of its server.
    pub(super) fn admission(&self, slot: u16) -> Arc<Admission> {
        let map = self.0.map.read();
        let server = map.of_slots.get(usize::from(slot)).and_then(Option::as_ref);
        server.map_or(&self.0.unassigned_admission, |server| &server.admission).clone()
    }

    /// Returns the load of all servers together.
    pub(in crate::redis) fn load(&self) -> Load {
        self.0.map.read().servers.values().map(|server| server.admission.load()).sum()
    }

    /// Returns a slot of a server that is connected, or slot 0 if there is none.
    pub(super) fn connected_slot(&self) -> u16 {
        let is_connected =
            |server: &Option<Arc<Server>>| server.as_ref().is_some_and(|server| server.pool.is_connected());
        let slot = self.0.map.read().of_slots.iter().position(is_connected);
        slot.and_then(|slot| u16::try_from(slot).ok()).unwrap_or_default()
    }

    /// Returns all slots by server, without those that no server has. Empty while the cluster is
    /// not known.
    pub(in crate::redis) fn slots_by_server(&self) -> Vec<Vec<u16>> {
        let mut by_server: HashMap<*const Server, Vec<u16>> = HashMap::new();
        for (slot, server) in (0..).zip(&self.0.map.read().of_slots) {
            if let Some(server) = server {
                by_server.entry(Arc::as_ptr(server)).or_default().push(slot);
            }
        }
        by_server.into_values().collect()
    }

    /// Notifies of each connection to a server, and of slots that have moved.
    pub(in crate::redis) fn changes(&self) -> watch::Receiver<()> {
        self.0.changes.subscribe()
    }

    /// Returns why the server of a slot cannot be used, if that is known.
    pub(super) fn unavailable_reason(&self, slot: u16) -> Option<String> {
        match self.of_slot(slot) {
            Some(server) => server.pool.health.unavailable_reason(),
            None => self.0.lookup_failure.lock().as_ref().map(|failure| failure.reason.clone()),
        }
    }

    /// Returns how long the server of a slot has been known to be out of reach.
    pub(super) fn disconnected_for(&self, slot: u16) -> Duration {
        match self.of_slot(slot) {
            Some(server) => server.pool.disconnected_for(),
            None => self.0.lookup_failure.lock().as_ref().map_or(Duration::ZERO, |failure| failure.since.elapsed()),
        }
    }

    /// Returns a slot of a server whose disk is full, if there is one.
    pub(super) fn slot_with_full_disk(&self) -> Option<u16> {
        let is_full =
            |server: &Option<Arc<Server>>| server.as_ref().is_some_and(|server| server.pool.health.has_full_disk());
        self.0.map.read().of_slots.iter().position(is_full).and_then(|slot| u16::try_from(slot).ok())
    }

    /// Requests an early read of the slot map, because an attempt has failed.
    pub(super) fn refresh_soon(&self) {
        self.0.refresh.notify_one();
    }

    /// Records why the servers are not known. A new reason is logged.
    fn note_lookup_failure(&self, reason: String) {
        let mut failure = self.0.lookup_failure.lock();
        if failure.as_ref().is_none_or(|known| known.reason != reason) {
            error!(reason, "the store cannot be used");
        }
        let since = failure.take().map_or_else(Instant::now, |known| known.since);
        *failure = Some(LookupFailure { reason, since });
    }

    /// Uses this server for everything. Returns whether it is another one than before.
    fn use_only(&self, address: Address) -> bool {
        self.assign(vec![SlotRange { first: 0, last: 0, address }])
    }

    /// Replaces the slot map. Returns whether it has changed.
    fn assign(&self, ranges: Vec<SlotRange>) -> bool {
        let slots = if self.are_clustered() { SLOTS } else { 1 };
        let mut map = self.0.map.write();
        let mut next = SlotMap { servers: HashMap::new(), of_slots: vec![None; usize::from(slots)] };
        for SlotRange { first, last, address } in ranges {
            let server = next.servers.entry(address.clone()).or_insert_with(|| match map.servers.get(&address) {
                Some(server) => server.clone(),
                None => Server::open(self.config_of(&address), &self.0.changes),
            });
            next.of_slots[usize::from(first)..=usize::from(last)].fill(Some(server.clone()));
        }
        let has_changed = !server_pointers(&map).eq(server_pointers(&next));
        if has_changed {
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
