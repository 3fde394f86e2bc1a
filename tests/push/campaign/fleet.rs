//! The store of a campaign and the processes that use it, and what the campaign does to them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use sukkal_domain::QueueId;
use sukkal_storage::embedded::EmbeddedStore;
use tokio::task::{block_in_place, spawn_blocking};
use tokio::time::sleep;

use super::history::{Affected, Disturbance, DisturbanceKind};
use super::{QUEUES, Step};
use crate::pools::{Deployment, Move, eventually};
use crate::push::LOCAL;
use support::cluster::RedisCluster;
use support::random::Random;
use support::redis::RedisServer;
use support::test_bed::{self, Server, ServerUrls, TestBed};

pub(super) const PROJECT: &str = "campaign";
const SERVERS: usize = 3;
pub(super) const POOLS: usize = 2;
/// Number of deliveries in the other pool during each outage of a pool.
const DELIVERIES_DURING_OUTAGE: usize = 20;
/// Longer than a delivery lease, and than the attempts that its holder may have begun.
const LEASE_OVER_US: i64 = 41_000_000;
/// Time in which requests and commands of killed processes arrive.
const ARRIVAL: Duration = Duration::from_millis(50);
const JANITOR_LEASE: &str = "sukkal:{janitor}";

/// The store of a campaign.
#[derive(Clone)]
pub(super) enum Store {
    Redis(Arc<RedisServer>),
    Cluster(Arc<RedisCluster>),
    /// Every second queue is in the second pool.
    Pooled(Arc<Deployment>),
    Embedded(EmbeddedStore),
}

/// The deliveries of a campaign.
pub(super) struct Deliveries {
    /// Returns the number of deliveries in a pool so far.
    pub(super) so_far: Box<dyn Fn(usize) -> usize + Send + Sync>,
    /// Number of deliveries in each pool at the end.
    pub(super) at_the_end: usize,
}

/// The processes, and what was done to them.
pub(super) struct Fleet {
    store: Store,
    bed: TestBed,
    pub(super) servers: Vec<Server>,
    pub(super) urls: Arc<ServerUrls>,
    pub(super) disturbances: Vec<Disturbance>,
    started: Instant,
    /// How far the clocks of the queues are ahead.
    ahead_us: i64,
    deliveries: Deliveries,
    /// The pool of each queue, if there are pools.
    places: [usize; QUEUES],
    /// Number of times that messages of a pool were delivered while the other pool was down.
    pub(super) went_on: usize,
}

impl Store {
    /// Starts two pools with the queues.
    pub(super) async fn pooled() -> Self {
        let deployment = Deployment::start(&[1; POOLS]).await;
        let server = deployment.serve();
        for queue in 0..QUEUES {
            deployment.create_in(pool_of(queue), &server, (PROJECT, &queue_name(queue)), &json!({})).await;
        }
        Self::Pooled(Arc::new(deployment))
    }

    fn bed(&self) -> TestBed {
        match self {
            Self::Redis(redis) => TestBed::redis(&redis.url()),
            Self::Cluster(cluster) => TestBed::redis(&cluster.url()),
            Self::Pooled(deployment) => {
                let pools: Vec<String> = deployment.pools.iter().map(|pool| pool.url()).collect();
                TestBed::pooled(&deployment.url(), &pools)
            }
            Self::Embedded(store) => TestBed::Embedded(store.clone()),
        }
    }

    /// Returns the number of processes that may use the store.
    fn servers(&self) -> usize {
        if matches!(self, Self::Embedded(_)) { 1 } else { SERVERS }
    }

    /// Returns the number of servers of the store that can be killed.
    fn nodes(&self) -> usize {
        match self {
            Self::Redis(_) | Self::Embedded(_) => 1,
            Self::Cluster(cluster) => cluster.nodes().len(),
            Self::Pooled(deployment) => deployment.pools.len(),
        }
    }

    /// Kills Redis, a node of the cluster, or a pool.
    fn kill(&self, node: usize) {
        match self {
            Self::Redis(redis) => redis.kill(),
            Self::Cluster(cluster) => cluster.nodes()[node].kill(),
            Self::Pooled(deployment) => deployment.pools[node].kill(),
            Self::Embedded(_) => {}
        }
    }

    /// Starts what was killed, and waits until the store serves.
    fn restart(&self, node: usize) {
        match self {
            Self::Redis(redis) => redis.restart(),
            Self::Cluster(cluster) => {
                cluster.nodes()[node].restart();
                cluster.wait_until_ok();
            }
            Self::Pooled(deployment) => deployment.pools[node].restart(),
            Self::Embedded(_) => {}
        }
    }

    /// Ends the lease of a killed janitor, so that the next one does not wait.
    fn end_janitor_lease(&self) {
        match self {
            Self::Redis(redis) => drop(redis.command(&["DEL", JANITOR_LEASE])),
            Self::Cluster(cluster) => drop(cluster.node_of(JANITOR_LEASE).command(&["DEL", JANITOR_LEASE])),
            Self::Pooled(deployment) => {
                for redis in deployment.servers() {
                    redis.command(&["DEL", JANITOR_LEASE]);
                }
            }
            Self::Embedded(_) => {}
        }
    }
}

impl Fleet {
    pub(super) async fn start(store: Store, started: Instant, deliveries: Deliveries) -> Self {
        let bed = store.bed();
        let servers = start(&bed, store.servers()).await;
        let urls = Arc::new(ServerUrls::of(&servers));
        Self {
            store,
            bed,
            servers,
            urls,
            disturbances: Vec::new(),
            started,
            ahead_us: 0,
            deliveries,
            places: std::array::from_fn(pool_of),
            went_on: 0,
        }
    }

    pub(super) async fn disturb(&mut self, step: Step, random: &mut Random) {
        match step {
            Step::KillAll => {
                self.kill_all().await;
                self.replace_all().await;
            }
            Step::KillAllDuringOutage => {
                let (from, node) = (self.now(), random.below(self.store.nodes()));
                block_in_place(|| self.store.kill(node));
                sleep(Duration::from_millis(random.within(0..=1_000))).await;
                self.kill_all().await;
                block_in_place(|| self.store.restart(node));
                self.record_outage(from, node);
                self.replace_all().await;
            }
            Step::KillOne => {
                let from = self.now();
                let mut killed = self.servers.swap_remove(random.below(self.servers.len()));
                killed.kill();
                sleep(ARRIVAL).await;
                self.record(DisturbanceKind::Kill, from);
                self.servers.extend(start(&self.bed, 1).await);
                self.urls.set(&self.servers);
            }
            Step::StopOne => self.stop_one(random).await,
            Step::Move => self.move_queue(false, random).await,
            Step::KillAllDuringMove => self.move_queue(true, random).await,
            Step::RestartStore => {
                let (from, node) = (self.now(), random.below(self.store.nodes()));
                block_in_place(|| self.store.kill(node));
                sleep(Duration::from_millis(random.within(0..=500))).await;
                self.wait_for_other_pool(node).await;
                block_in_place(|| self.store.restart(node));
                self.record_outage(from, node);
            }
        }
    }

    /// Tells a process to stop, and starts another one. The other one starts first, unless the
    /// store belongs to one process.
    async fn stop_one(&mut self, random: &mut Random) {
        let from = self.now();
        let mut stopping = self.servers.swap_remove(random.below(self.servers.len()));
        if self.store.servers() > 1 {
            self.servers.extend(start(&self.bed, 1).await);
            self.urls.set(&self.servers);
            stopping.stop().await;
        } else {
            stopping.stop().await;
            self.servers = start(&self.bed, 1).await;
            self.urls.set(&self.servers);
        }
        self.record(DisturbanceKind::Stop, from);
    }

    async fn kill_all(&mut self) {
        let from = self.now();
        self.servers.iter_mut().for_each(Server::kill);
        sleep(ARRIVAL).await;
        self.record(DisturbanceKind::Kill, from);
    }

    /// Lets the leases of the killed processes expire, and starts other processes.
    async fn replace_all(&mut self) {
        // The connections of this process may have to be made again.
        while self.bed.store().probe().await.is_err() {
            sleep(Duration::from_millis(10)).await;
        }
        self.ahead_us += LEASE_OVER_US;
        for queue in (0..QUEUES).map(queue_id) {
            self.bed.set_clock(&queue, self.ahead_us).await;
        }
        block_in_place(|| self.store.end_janitor_lease());
        self.servers = start(&self.bed, self.store.servers()).await;
        self.urls.set(&self.servers);
    }

    /// Waits for deliveries in the other pool while one is down.
    async fn wait_for_other_pool(&mut self, down: usize) {
        if matches!(self.store, Store::Pooled(_)) {
            let Deliveries { so_far, at_the_end } = &self.deliveries;
            let before = so_far(1 - down);
            let due = (before + DELIVERIES_DURING_OUTAGE).min(*at_the_end);
            eventually("messages of the other pool are delivered", || so_far(1 - down) >= due).await;
            self.went_on += usize::from(before < due);
        }
    }

    fn record(&mut self, kind: DisturbanceKind, from: u64) {
        let to = self.now();
        self.disturbances.push(Disturbance { kind, affected: Affected::All, from, to });
    }

    fn record_outage(&mut self, from: u64, node: usize) {
        let affected = if matches!(self.store, Store::Pooled(_)) { Affected::Pool(node) } else { Affected::All };
        let to = self.now();
        self.disturbances.push(Disturbance { kind: DisturbanceKind::Outage, affected, from, to });
    }

    /// Moves a queue to the other pool. Meanwhile all processes may be killed. The move is repeated
    /// until it succeeds.
    async fn move_queue(&mut self, kills_all: bool, random: &mut Random) {
        let (from, queue) = (self.now(), random.below(QUEUES));
        self.places[queue] = 1 - self.places[queue];
        let name = queue_name(queue);
        let target = Move { project: PROJECT, queue: &name, pool: self.places[queue] };
        let first = target.begin(&self.servers[random.below(self.servers.len())]);
        if kills_all {
            Move::until_kill(random).await;
            self.kill_all().await;
            self.replace_all().await;
        }
        target.finish(first, &self.servers, random).await;
        let (affected, to) = (Affected::Queue(queue), self.now());
        self.disturbances.push(Disturbance { kind: DisturbanceKind::Outage, affected, from, to });
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap()
    }
}

/// Returns the first pool of the queue, if there are pools.
pub(super) fn pool_of(queue: usize) -> usize {
    queue % POOLS
}

pub(super) fn queue_name(number: usize) -> String {
    format!("q{number}")
}

fn queue_id(number: usize) -> QueueId {
    test_bed::queue_id(PROJECT, &queue_name(number))
}

/// Starts this number of processes at the same time. Their janitors visit all queues.
async fn start(bed: &TestBed, count: usize) -> Vec<Server> {
    let mut servers = Vec::new();
    let starts: Vec<_> = (0..count)
        .map(|_| {
            let bed = bed.clone();
            let options = [("SUKKAL_JANITOR__WALK", "1"), ("SUKKAL_TRANSPORT__IDEMPOTENCY_KEY_TTL", "1000000")];
            spawn_blocking(move || bed.serve(&[&LOCAL[..], &options].concat()))
        })
        .collect();
    for start in starts {
        servers.push(start.await.unwrap());
    }
    servers
}
