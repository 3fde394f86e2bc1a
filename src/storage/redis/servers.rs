//! The servers of a store, and which of them has which slots.
//!
//! A single server and a Sentinel group count as one server that has everything. The servers of a cluster say which of them has which
//! slots; one of them is asked at the start, after failed attempts, and every few seconds. Each server has connections of its own, so
//! that commands to the others go on while one is away: `fred`'s client of a cluster sends nothing to any server until it
//! is connected to all of them.

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

use super::cluster_slots::{Range, read_ranges};
use super::line::{Line, Lines};
use super::listener::Listener;
use super::slots::SLOTS;
use super::uri::RedisUri;
use crate::storage::{Admission, Load};

/// Maximum number of operations in flight on a server. The longest scripts take 15 ms, so the last of these is served
/// long before it is given up.
const IN_FLIGHT_MAX: usize = 64;
/// How often the cluster is asked which server has which slots.
const MAP_READ_EVERY: Duration = Duration::from_secs(3);
/// How soon again when attempts fail: at first, and while nothing changes.
const PAUSE_BETWEEN_READS_MIN: Duration = Duration::from_millis(100);
const PAUSE_BETWEEN_READS_MAX: Duration = Duration::from_secs(1);
/// How long it may take to connect to a server that the operator named.
const NAMED_PATIENCE: Duration = Duration::from_secs(1);

/// All servers of a store. Clones are the same.
#[derive(Clone)]
pub(super) struct Servers(Arc<Shared>);

struct Shared {
    config: Config,
    map: RwLock<Map>,
    changes: watch::Sender<()>,
    outdated: Notify,
    /// For slots of which no server is known.
    unknown: Arc<Admission>,
    /// Why no server of the cluster says which slots they have, while that is so.
    complaint: Mutex<Option<String>>,
}

/// The server of each slot; there is only slot 0 if the store is no cluster.
#[derive(Default)]
struct Map {
    servers: HashMap<Address, Arc<Server>>,
    of_slots: Vec<Option<Arc<Server>>>,
}

/// One server, with what is connected to it.
pub(super) struct Server {
    pub(super) config: Config,
    pub(super) lines: Lines,
    pub(super) admission: Arc<Admission>,
    /// Opened when somebody first waits for a queue of this server.
    pub(super) listener: OnceLock<Listener>,
}

impl Server {
    fn open(config: Config, changes: &watch::Sender<()>) -> Arc<Self> {
        let lines = Lines::open(&config, changes);
        Arc::new(Self { config, lines, admission: Admission::new(IN_FLIGHT_MAX), listener: OnceLock::new() })
    }
}

impl Servers {
    /// Begins to connect. Does not wait: a store that is not there yet is one that will come.
    pub(super) fn open(uri: &RedisUri) -> Self {
        let this = Self(Arc::new(Shared {
            config: uri.config(),
            map: RwLock::default(),
            changes: watch::Sender::new(()),
            outdated: Notify::new(),
            unknown: Admission::new(IN_FLIGHT_MAX),
            complaint: Mutex::default(),
        }));
        if this.are_clustered() {
            tokio::spawn(this.clone().follow_cluster());
        } else {
            let server = Server::open(uri.config(), &this.0.changes);
            this.0.map.write().unwrap_or_else(PoisonError::into_inner).of_slots = vec![Some(server)];
        }
        this
    }

    /// Whether they are those of a cluster.
    pub(super) fn are_clustered(&self) -> bool {
        self.0.config.server.is_clustered()
    }

    /// The slot of a key.
    pub(super) fn slot(&self, key: &str) -> u16 {
        if self.are_clustered() { redis_keyslot(key.as_bytes()) } else { 0 }
    }

    /// The server that has a slot, if that is known.
    pub(super) fn of(&self, slot: u16) -> Option<Arc<Server>> {
        self.map().of_slots.get(usize::from(slot)).cloned().flatten()
    }

    /// What bounds the operations on a slot: those of its server.
    pub(super) fn admission(&self, slot: u16) -> Arc<Admission> {
        let map = self.map();
        let server = map.of_slots.get(usize::from(slot)).and_then(Option::as_ref);
        server.map_or(&self.0.unknown, |server| &server.admission).clone()
    }

    /// How busy all servers are.
    pub(super) fn load(&self) -> Load {
        let map = self.map();
        let single = map.servers.is_empty().then(|| map.of_slots.first().and_then(Option::as_ref)).flatten();
        map.servers.values().chain(single).map(|server| server.admission.load()).sum()
    }

    /// A slot of a server that is connected, or any slot.
    pub(super) fn connected_slot(&self) -> u16 {
        let is_connected =
            |server: &Option<Arc<Server>>| server.as_ref().is_some_and(|server| server.lines.is_connected());
        let slot = self.map().of_slots.iter().position(is_connected);
        slot.and_then(|slot| u16::try_from(slot).ok()).unwrap_or_default()
    }

    /// All slots by server, without those that no server has. Empty while the cluster is not known.
    pub(super) fn slots(&self) -> Vec<Vec<u16>> {
        let mut by_server: HashMap<*const Server, Vec<u16>> = HashMap::new();
        for (slot, server) in (0..).zip(&self.map().of_slots) {
            if let Some(server) = server {
                by_server.entry(Arc::as_ptr(server)).or_default().push(slot);
            }
        }
        by_server.into_values().collect()
    }

    /// Notified after each connection to a server, and when slots have moved.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.0.changes.subscribe()
    }

    /// Why the server of a slot cannot be used, as far as that is known.
    pub(super) fn trouble(&self, slot: u16) -> Option<String> {
        match self.of(slot) {
            Some(server) => server.lines.condition.trouble(),
            None => self.complaint().clone(),
        }
    }

    /// A slot of a server whose disk is full.
    pub(super) fn slot_of_full_disk(&self) -> Option<u16> {
        let is_full =
            |server: &Option<Arc<Server>>| server.as_ref().is_some_and(|server| server.lines.condition.has_full_disk());
        self.map().of_slots.iter().position(is_full).and_then(|slot| u16::try_from(slot).ok())
    }

    /// Has the map of a cluster read soon: an attempt has failed.
    pub(super) fn may_have_changed(&self) {
        self.0.outdated.notify_one();
    }

    fn complaint(&self) -> MutexGuard<'_, Option<String>> {
        self.0.complaint.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn map(&self) -> RwLockReadGuard<'_, Map> {
        self.0.map.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the map of a cluster true. Asks another server after each failure, because the one that was asked may be cut off from
    /// the others; ever less often while the map stays as it is.
    async fn follow_cluster(self) {
        let (mut turn, mut pause) = (0, PAUSE_BETWEEN_READS_MIN);
        loop {
            let has_changed = match self.ask(&mut turn).await {
                Ok(ranges) => {
                    *self.complaint() = None;
                    self.adopt(ranges)
                }
                Err(reason) => {
                    let reason = format!("no server of the cluster says which slots they have: {reason}");
                    let known = self.complaint().replace(reason.clone());
                    if known.is_none_or(|known| known != reason) {
                        error!(reason, "the store cannot be used");
                    }
                    false
                }
            };
            pause = if has_changed { PAUSE_BETWEEN_READS_MIN } else { (2 * pause).min(PAUSE_BETWEEN_READS_MAX) };
            if timeout(MAP_READ_EVERY, self.0.outdated.notified()).await.is_ok() {
                turn += 1;
                sleep(pause).await;
            } else {
                pause = PAUSE_BETWEEN_READS_MIN;
            }
        }
    }

    /// What the first server says that answers. Those that the operator named are asked, all at once, if none of the others
    /// does. The error is that of one of these.
    async fn ask(&self, turn: &mut usize) -> Result<Vec<Range>, String> {
        let mut servers: Vec<_> =
            self.map().servers.iter().map(|(address, server)| (address.clone(), server.clone())).collect();
        servers.sort_by(|(one, _), (other, _)| one.cmp(other));
        for _ in 0..servers.len() {
            let (address, server) = &servers[*turn % servers.len()];
            if server.lines.is_connected()
                && let Ok(ranges) = ask(server.lines.next(), address).await
            {
                return Ok(ranges);
            }
            *turn += 1;
        }
        let named = self.0.config.server.hosts().into_iter().map(async |address| {
            let line = Line::open(&self.config_of(&address));
            match timeout(NAMED_PATIENCE, line.connected()).await {
                Ok(Ok(())) => ask(&line, &address).await,
                failed => {
                    let unknown = || format!("there is no connection: {failed:?}");
                    Err(format!("{address}: {}", line.trouble().unwrap_or_else(unknown)))
                }
            }
        });
        select_ok(named.map(Box::pin)).await.map(|(ranges, _others)| ranges)
    }

    /// Returns whether that is another map than before.
    fn adopt(&self, ranges: Vec<Range>) -> bool {
        let mut map = self.0.map.write().unwrap_or_else(PoisonError::into_inner);
        let mut next = Map { servers: HashMap::new(), of_slots: vec![None; usize::from(SLOTS)] };
        for Range { first, last, address } in ranges {
            let server = next.servers.entry(address.clone()).or_insert_with(|| match map.servers.get(&address) {
                Some(server) => server.clone(),
                None => Server::open(self.config_of(&address), &self.0.changes),
            });
            next.of_slots[usize::from(first)..=usize::from(last)].fill(Some(server.clone()));
        }
        let has_changed = !pointers(&map).eq(pointers(&next));
        if has_changed {
            info!(servers = next.servers.len(), "the servers of the cluster are known");
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

fn pointers(map: &Map) -> impl Iterator<Item = Option<*const Server>> {
    map.of_slots.iter().map(|server| server.as_ref().map(Arc::as_ptr))
}

/// Which server has which slots, as this one says.
async fn ask(line: &Line, address: &Address) -> Result<Vec<Range>, String> {
    let command = CustomCommand::new_static("CLUSTER", ClusterHash::Random, false);
    let question = |client: Client| async move { client.custom(command, vec![Value::from("SLOTS")]).await };
    let answer = line.attempt(question).await.map_err(|error| match error.details() {
        said if said.contains("cluster support disabled") => {
            format!("{address} is not part of a cluster ({said}); for a single server use redis://")
        }
        said => format!("{address}: {said}"),
    })?;
    read_ranges(answer, &address.host).ok_or_else(|| format!("{address}: no ranges in the answer to CLUSTER SLOTS"))
}
