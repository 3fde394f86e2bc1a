//! A Redis Cluster of three masters without replicas, each a `RedisServer`. Needs Redis 7.
//!
//! A start takes two seconds on any machine, because a new master refuses to serve for that time.
//! Prefer `shared`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::ports::{first_that_starts, free_port};
use super::redis::{RedisServer, Reply, shared_instance};
use super::waiting::{POLL_TIMEOUT, block_until};

/// The first and last slot of each node, as `redis-cli --cluster create` would assign them.
const SLOTS: [(u16, u16); 3] = [(0, 5460), (5461, 10922), (10923, 16383)];

/// Time without a reply after which a node counts as failed, in milliseconds. Short, so that a test
/// sees the failure; long enough for a busy machine.
const NODE_TIMEOUT_MS: &str = "2000";

const PAUSE_BETWEEN_MOVES: Duration = Duration::from_millis(300);

/// Three running nodes, which are killed on drop.
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts the nodes and waits until each of them serves.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts nodes with further options as in `redis.conf`, such as `("appendonly", "yes")`.
    pub fn start_with(options: &[(&str, &str)]) -> Self {
        let (nodes, bus_ports): (Vec<_>, Vec<_>) = SLOTS.iter().map(|_| start_node(options)).unzip();
        for (index, node) in nodes.iter().enumerate() {
            let (first, last) = SLOTS[index];
            let [first, last] = [first, last].map(|slot| slot.to_string());
            ok(node, &["CLUSTER", "ADDSLOTSRANGE", &first, &last]);
            // Nodes with equal epochs would first have to agree on new ones.
            let epoch = (index + 1).to_string();
            ok(node, &["CLUSTER", "SET-CONFIG-EPOCH", &epoch]);
        }
        for (index, node) in nodes.iter().enumerate() {
            // Each pair is introduced directly, which is faster than gossip.
            for (other, bus_port) in nodes.iter().zip(&bus_ports).skip(index + 1) {
                let port = other.port().to_string();
                ok(node, &["CLUSTER", "MEET", "127.0.0.1", &port, bus_port]);
            }
        }
        let cluster = Self { nodes };
        cluster.wait_until_ok();
        cluster
    }

    /// Returns the cluster that all tests of this process share, if they neither damage it nor
    /// depend on the absence of other keys.
    pub fn shared_movable() -> Arc<Self> {
        static SHARED: Mutex<Weak<RedisCluster>> = Mutex::new(Weak::new());

        shared_instance(&SHARED, Self::start)
    }

    /// Returns `redis-cluster://127.0.0.1:P1,127.0.0.1:P2,127.0.0.1:P3`, or `rediss-cluster` with
    /// TLS.
    pub fn url(&self) -> String {
        let addresses: Vec<_> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        let url = self.nodes[0].url();
        let (scheme, _) = url.split_once(':').expect("a URL has a scheme");
        format!("{scheme}-cluster://{}", addresses.join(","))
    }

    /// Returns the masters in the order of their slots.
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// Returns the master that holds `key`. Asks the first node, which must run.
    pub fn node_of(&self, key: &str) -> &RedisServer {
        let slot = self.nodes[0].command(&["CLUSTER", "KEYSLOT", key]).as_int();
        let holds = |&(first, last): &(u16, u16)| (i64::from(first)..=i64::from(last)).contains(&slot);
        &self.nodes[SLOTS.iter().position(holds).expect("every slot has a node")]
    }

    /// Moves a slot with its keys, as `redis-cli --cluster reshard` does. `node_of` does not notice
    /// it.
    fn move_slot(&self, slot: &str, from: usize, to: usize) {
        let (source, target) = (&self.nodes[from], &self.nodes[to]);
        let [source_id, target_id] =
            [source, target].map(|node| node.command(&["CLUSTER", "MYID"]).as_text().to_owned());
        let port = target.port().to_string();
        ok(target, &["CLUSTER", "SETSLOT", slot, "IMPORTING", &source_id]);
        ok(source, &["CLUSTER", "SETSLOT", slot, "MIGRATING", &target_id]);
        let deadline = Instant::now() + POLL_TIMEOUT;
        loop {
            let keys = source.command(&["CLUSTER", "GETKEYSINSLOT", slot, "1"]);
            let [key] = keys.items() else { break };
            assert!(Instant::now() < deadline, "slot {slot} still has keys after {POLL_TIMEOUT:?}");
            let moved = source.command(&["MIGRATE", "127.0.0.1", &port, key.as_text(), "0", "5000"]);
            // A key may have expired meanwhile.
            assert!(["OK", "NOKEY"].contains(&moved.as_text()), "{moved:?}");
        }
        for node in [target, source].into_iter().chain(&self.nodes) {
            ok(node, &["CLUSTER", "SETSLOT", slot, "NODE", &target_id]);
        }
    }

    /// Adds a replica to a master of the cluster, and waits until it is in sync and all masters
    /// know it. Only then can they elect it.
    pub fn add_replica(&self, master: &RedisServer) -> RedisServer {
        let (replica, bus_port) = start_node(&[]);
        let [id, replica_id] = [master, &replica].map(|node| node.command(&["CLUSTER", "MYID"]).as_text().to_owned());
        for node in &self.nodes {
            ok(node, &["CLUSTER", "MEET", "127.0.0.1", &replica.port().to_string(), &bus_port]);
        }
        block_until("the replica knows its master", || {
            replica.command(&["CLUSTER", "REPLICATE", &id]) == Reply::Status("OK".to_owned())
        });
        block_until("the replica is in sync", || {
            replica.command(&["INFO", "replication"]).as_text().contains("master_link_status:up")
        });
        block_until("all masters know the replica", || {
            self.nodes.iter().all(|node| {
                let nodes = node.command(&["CLUSTER", "NODES"]);
                let mut lines = nodes.as_text().lines();
                lines.any(|line| line.starts_with(&replica_id) && line.contains(&format!("slave {id} ")))
            })
        });
        replica
    }

    /// Waits until every node serves and sees the others do so, for instance after a restart.
    pub fn wait_until_ok(&self) {
        let whole = ["cluster_state:ok\r\n", "cluster_slots_ok:16384\r\n", "cluster_known_nodes:3\r\n"];
        block_until("the cluster is whole", || {
            self.nodes.iter().all(|node| {
                let info = node.command(&["CLUSTER", "INFO"]);
                whole.iter().all(|line| info.as_text().contains(line))
            })
        });
    }
}

/// Moves the slot of a key from node to node, with all its keys, until it is dropped.
pub struct SlotMover {
    over: Arc<AtomicBool>,
    moves: Option<JoinHandle<usize>>,
}

impl SlotMover {
    pub fn start(cluster: Arc<RedisCluster>, key: &str) -> Self {
        let slot = cluster.nodes[0].command(&["CLUSTER", "KEYSLOT", key]).as_int().to_string();
        let first = cluster.nodes.iter().position(|node| node.port() == cluster.node_of(key).port());
        let mut from = first.expect("the slot has a node");
        let over = Arc::new(AtomicBool::new(false));
        let is_over = over.clone();
        let moves = thread::spawn(move || {
            let mut moves = 0;
            while !is_over.load(Ordering::SeqCst) {
                let to = (from + 1) % cluster.nodes.len();
                cluster.move_slot(&slot, from, to);
                (from, moves) = (to, moves + 1);
                thread::sleep(PAUSE_BETWEEN_MOVES);
            }
            moves
        });
        Self { over, moves: Some(moves) }
    }

    /// Stops after the current move, and returns the number of moves.
    pub fn stop(mut self) -> usize {
        self.over.store(true, Ordering::SeqCst);
        let moves = self.moves.take().expect("it is taken only here");
        moves.join().expect("the slot can be moved")
    }
}

impl Drop for SlotMover {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
    }
}

/// Starts an empty node, and returns it with the port of its cluster bus.
fn start_node(options: &[(&str, &str)]) -> (RedisServer, String) {
    let mut bus_port = String::new();
    let node = first_that_starts(|| {
        bus_port = free_port().to_string();
        let of_cluster = [
            ("cluster-enabled", "yes"),
            ("cluster-port", bus_port.as_str()),
            ("cluster-announce-ip", "127.0.0.1"),
            ("cluster-require-full-coverage", "yes"),
            ("cluster-node-timeout", NODE_TIMEOUT_MS),
        ];
        RedisServer::try_start(&[&of_cluster, options].concat())
    });
    (node, bus_port)
}

fn ok(node: &RedisServer, words: &[&str]) {
    let reply = node.command(words);
    assert_eq!(reply, Reply::Status("OK".to_owned()), "{words:?}");
}
