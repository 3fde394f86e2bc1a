//! The store of a campaign and the processes that use it, and what the campaign does to them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sukkal::domain::{ProjectId, QueueId};
use sukkal::storage::embedded::EmbeddedStore;
use tokio::task::{block_in_place, spawn_blocking};
use tokio::time::sleep;

use super::history::{Disturbance, DisturbanceKind};
use super::{QUEUES, Step};
use crate::push::LOCAL;
use crate::support::cluster::RedisCluster;
use crate::support::random::Random;
use crate::support::redis::RedisServer;
use crate::support::test_bed::{Server, ServerUrls, TestBed};

pub(super) const PROJECT: &str = "campaign";
const SERVERS: usize = 3;
/// Longer than a delivery lease.
const LEASE_OVER_US: i64 = 41_000_000;
/// Time in which requests and commands of killed processes arrive.
const ARRIVAL: Duration = Duration::from_millis(50);
const JANITOR_LEASE: &str = "sukkal:{janitor}";

/// The store of a campaign.
#[derive(Clone)]
pub(super) enum Store {
    Redis(Arc<RedisServer>),
    Cluster(Arc<RedisCluster>),
    Embedded(EmbeddedStore),
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
}

impl Store {
    fn bed(&self) -> TestBed {
        match self {
            Self::Redis(redis) => TestBed::redis(&redis.url()),
            Self::Cluster(cluster) => TestBed::redis(&cluster.url()),
            Self::Embedded(store) => TestBed::Embedded(store.clone()),
        }
    }

    /// Returns the number of processes that may use the store.
    fn servers(&self) -> usize {
        if matches!(self, Self::Embedded(_)) { 1 } else { SERVERS }
    }

    /// Kills Redis, or a node of the cluster.
    fn kill(&self, node: usize) {
        match self {
            Self::Redis(redis) => redis.kill(),
            Self::Cluster(cluster) => cluster.nodes()[node].kill(),
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
            Self::Embedded(_) => {}
        }
    }

    /// Ends the lease of a killed janitor, so that the next one does not wait.
    fn end_janitor_lease(&self) {
        match self {
            Self::Redis(redis) => drop(redis.command(&["DEL", JANITOR_LEASE])),
            Self::Cluster(cluster) => drop(cluster.node_of(JANITOR_LEASE).command(&["DEL", JANITOR_LEASE])),
            Self::Embedded(_) => {}
        }
    }
}

impl Fleet {
    pub(super) async fn start(store: Store, started: Instant) -> Self {
        let bed = store.bed();
        let servers = start(&bed, store.servers()).await;
        let urls = Arc::new(ServerUrls::of(&servers));
        Self { store, bed, servers, urls, disturbances: Vec::new(), started, ahead_us: 0 }
    }

    pub(super) async fn disturb(&mut self, step: Step, random: &mut Random) {
        match step {
            Step::KillAll => {
                self.kill_all().await;
                self.replace_all().await;
            }
            Step::KillAllDuringOutage => {
                let (from, node) = (self.now(), random.below(SERVERS));
                block_in_place(|| self.store.kill(node));
                sleep(Duration::from_millis(random.within(0..=1_000))).await;
                self.kill_all().await;
                block_in_place(|| self.store.restart(node));
                self.record(DisturbanceKind::Outage, from);
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
            Step::RestartStore => {
                let (from, node) = (self.now(), random.below(SERVERS));
                block_in_place(|| self.store.kill(node));
                sleep(Duration::from_millis(random.within(0..=500))).await;
                block_in_place(|| self.store.restart(node));
                self.record(DisturbanceKind::Outage, from);
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

    fn record(&mut self, kind: DisturbanceKind, from: u64) {
        let to = self.now();
        self.disturbances.push(Disturbance { kind, from, to });
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap()
    }
}

pub(super) fn queue_name(number: usize) -> String {
    format!("q{number}")
}

fn queue_id(number: usize) -> QueueId {
    QueueId::new(ProjectId::new(PROJECT).unwrap(), queue_name(number).parse().unwrap()).unwrap()
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
