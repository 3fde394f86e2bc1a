//! The servers and the store under test: the store's clock can be moved, and each server can be
//! killed.
//!
//! Over Redis, a server is a process. An embedded store belongs to one process, so there each
//! server is a runtime in this process over the same store. Killing that server drops all requests
//! that it has begun.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, PoisonError, RwLock};

use sukkal::api;
use sukkal::broker::Broker;
use sukkal::config::Config;
use sukkal::observability::metrics::ConnectionCounts;
use sukkal::push::client::{Resolver, SystemResolver};
use sukkal::{app, janitor};
use sukkal_domain::{ProjectId, QueueId};
use sukkal_storage::Driver;
use sukkal_storage::embedded::{EmbeddedStore, Fsync};
use sukkal_storage::redis::{Clock, RedisStore, RedisUri};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinHandle, block_in_place, spawn_blocking};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::cluster::RedisCluster;
use super::random::Random;
use super::redis::RedisServer;
use super::sukkal::{Api, MOVABLE_CLOCK, POOLING, Sukkal};
use super::waiting::{POLL_PAUSE, in_time, until};

/// A store that servers share.
#[derive(Clone)]
pub enum TestBed {
    Redis {
        url: String,
        store: Box<RedisStore>,
    },
    /// A service with pools over this management store, and the pools that may have the queue under
    /// test.
    Pooled {
        url: String,
        pools: Vec<RedisStore>,
    },
    Embedded(EmbeddedStore),
}

/// A store of one test, which owns its server or its folder. Both end when this is dropped.
pub enum Home {
    Redis(Arc<RedisServer>),
    Cluster(Arc<RedisCluster>),
    Embedded(EmbeddedStore, Option<TempDir>),
}

/// A service without a server, and the store under it.
pub type Service = (Broker, Arc<dyn Driver>);

/// One of the servers.
pub enum Server {
    Process(Sukkal),
    InProcess(InProcessServer),
}

/// The URLs of the servers that get new requests.
pub struct ServerUrls(RwLock<Vec<String>>);

/// A server in this process.
pub struct InProcessServer {
    runtime: Option<Runtime>,
    address: SocketAddr,
    stopping: CancellationToken,
    service: JoinHandle<()>,
}

impl Home {
    pub fn redis() -> Self {
        Self::Redis(Arc::new(RedisServer::start()))
    }

    pub fn cluster() -> Self {
        Self::Cluster(Arc::new(RedisCluster::start()))
    }

    pub fn file() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be created");
        let store = EmbeddedStore::open(folder.path(), Fsync::Group).expect("the new file is not in use");
        Self::Embedded(store, Some(folder))
    }

    pub fn memory() -> Self {
        Self::Embedded(EmbeddedStore::in_memory().expect("an in-memory store opens"), None)
    }

    /// Returns the store as one that servers share, and whose clock can be moved.
    pub fn bed(&self) -> TestBed {
        match self {
            Self::Redis(server) => TestBed::redis(&server.url()),
            Self::Cluster(cluster) => TestBed::redis(&cluster.url()),
            Self::Embedded(store, _) => TestBed::Embedded(store.clone()),
        }
    }

    /// Opens the store, whose clock is the real one.
    fn open(&self) -> Arc<dyn Driver> {
        let redis = |url: String| RedisStore::open(&url.parse().expect("the address is valid")).expect("it is valid");
        match self {
            Self::Redis(server) => Arc::new(redis(server.url())),
            Self::Cluster(cluster) => Arc::new(redis(cluster.url())),
            Self::Embedded(store, _) => Arc::new(store.clone()),
        }
    }

    /// Creates two services over this store.
    pub async fn services(&self) -> [Service; 2] {
        let config = Config::load(None, [], &[]).expect("the defaults are valid");
        let (limits, push) = (config.transport.limits, config.push);
        let stores = [self.open(), self.open()];
        for store in &stores {
            until("the store is connected", async || store.ping().await.is_ok()).await;
        }
        stores.map(|store| {
            let broker = Broker::new(store.clone(), limits.clone(), push.clone(), None, Arc::default());
            (broker, store)
        })
    }
}

impl TestBed {
    /// Uses the Redis server at this address.
    pub fn redis(url: &str) -> Self {
        Self::Redis { url: url.to_owned(), store: Box::new(open_movable(url)) }
    }

    /// Uses this management store. The queue under test is in one of the pools at these addresses.
    pub fn pooled(management: &str, pools: &[String]) -> Self {
        Self::Pooled { url: management.to_owned(), pools: pools.iter().map(|pool| open_movable(pool)).collect() }
    }

    pub fn store(&self) -> &dyn Driver {
        match self {
            Self::Redis { store, .. } => &**store,
            Self::Pooled { pools, .. } => &pools[0],
            Self::Embedded(store) => store,
        }
    }

    /// Sets how far the clock of the queue is ahead of the real one, in microseconds.
    pub async fn set_clock(&self, queue: &QueueId, offset_us: i64) {
        match self {
            Self::Redis { store, .. } => set_clock(store, queue, offset_us).await,
            Self::Pooled { pools, .. } => {
                for pool in pools {
                    set_clock(pool, queue, offset_us).await;
                }
            }
            Self::Embedded(store) => store.set_clock(queue, offset_us),
        }
    }

    /// Starts a server with these environment variables.
    pub fn serve(&self, environment: &[(&str, &str)]) -> Server {
        match self {
            Self::Redis { url, .. } => {
                Server::Process(Sukkal::start_with(url, &[&[MOVABLE_CLOCK], environment].concat()))
            }
            Self::Pooled { url, .. } => {
                Server::Process(Sukkal::start_with(url, &[&POOLING[..], &[MOVABLE_CLOCK], environment].concat()))
            }
            Self::Embedded(store) => Server::in_process(store, environment, Arc::new(SystemResolver)),
        }
    }
}

impl Server {
    /// Starts a server in this process, which resolves the names of subscribers like this.
    pub fn in_process(store: &EmbeddedStore, environment: &[(&str, &str)], resolver: Arc<dyn Resolver>) -> Self {
        Self::InProcess(InProcessServer::start(store, environment, resolver))
    }

    pub fn url(&self, path: &str) -> String {
        match self {
            Self::Process(sukkal) => sukkal.url(path),
            Self::InProcess(server) => format!("http://{}{path}", server.address),
        }
    }

    /// Returns a client for one project, with the usual client id.
    pub fn project(&self, project: &str) -> Api {
        Api::new(self.url(""), project)
    }

    /// Asks the server to stop, and waits until it has handed over its work and has exited. Needs a
    /// runtime with several threads.
    pub async fn stop(&mut self) {
        match self {
            Self::Process(sukkal) => {
                sukkal.terminate();
                let status = block_in_place(|| sukkal.wait());
                assert!(status.success(), "{status}: {:#?}", sukkal.log());
            }
            Self::InProcess(server) => {
                server.stopping.cancel();
                (&mut server.service).await.expect("the server ends");
                server.kill();
            }
        }
    }

    /// Kills the server, whatever it is doing.
    pub fn kill(&mut self) {
        match self {
            Self::Process(sukkal) => sukkal.kill(),
            Self::InProcess(server) => server.kill(),
        }
    }
}

impl ServerUrls {
    pub fn of(servers: &[Server]) -> Self {
        Self(RwLock::new(urls(servers)))
    }

    /// Sends new requests to these servers from now on.
    pub fn set(&self, servers: &[Server]) {
        self.write(|known| *known = urls(servers));
    }

    /// Returns the URL of any of the servers.
    pub fn choose(&self, random: &mut Random) -> String {
        let urls = self.0.read().unwrap_or_else(PoisonError::into_inner);
        random.choose(&urls).expect("there is always a server").clone()
    }

    /// Kills the first server, which leaves requests without a response, and starts another one.
    pub async fn replace_one(
        &self,
        mut servers: Vec<Server>,
        start: impl FnOnce() -> Server + Send + 'static,
    ) -> Vec<Server> {
        let mut killed = servers.swap_remove(0);
        killed.kill();
        self.write(|urls| {
            if urls.len() > 1 {
                urls.retain(|url| *url != killed.url(""));
            }
        });
        let replacement = spawn_blocking(start).await.expect("another server starts");
        servers.push(replacement);
        self.set(&servers);
        servers
    }

    fn write(&self, change: impl FnOnce(&mut Vec<String>)) {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Returns the id of a queue.
pub fn queue_id(project: &str, name: &str) -> QueueId {
    let project = ProjectId::new(project).expect("it is short");
    QueueId::new(project, name.parse().expect("it is a name")).expect("it is short")
}

/// Opens a store whose clock can be moved. All processes that use it need [`MOVABLE_CLOCK`].
pub fn open_movable(url: &str) -> RedisStore {
    let uri: RedisUri = url.parse().expect("the address is valid");
    RedisStore::open(&uri.with_clock(Clock::Movable)).expect("opening a store does not wait for the connection")
}

/// Sets the clock of a queue, as soon as its store accepts commands: a pool may be stopped, and the
/// keys of a slot that moves cannot be used.
pub async fn set_clock(store: &RedisStore, queue: &QueueId, offset_us: i64) {
    let moved = async {
        // Without the pause, this loop would not end when its runtime does.
        while store.set_clock(queue, offset_us).await.is_err() {
            sleep(POLL_PAUSE).await;
        }
    };
    in_time("the clock can be moved", moved).await;
}

fn urls(servers: &[Server]) -> Vec<String> {
    servers.iter().map(|server| server.url("")).collect()
}

impl InProcessServer {
    fn start(store: &EmbeddedStore, environment: &[(&str, &str)], resolver: Arc<dyn Resolver>) -> Self {
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let config = Config::load(None, environment, &[]).expect("the options are valid");
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        listener.set_nonblocking(true).expect("a socket can be non-blocking");
        let address = listener.local_addr().expect("the socket has an address");
        let store: Arc<dyn Driver> = Arc::new(store.clone());
        let runtime =
            Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads can be started");
        let stopping = CancellationToken::new();
        let stop = stopping.clone();
        let service = runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("the socket listens");
            tokio::spawn(janitor::run(store.clone(), app::schedule(&config), Arc::default()));
            let service = app::service(&config, store).expect("the options are valid");
            let push = app::push(&config, &service, resolver).expect("deliveries can start");
            let limits = app::server_limits(&config);
            api::serve(listener, api::router(service), limits, ConnectionCounts::default(), stop.cancelled_owned())
                .await
                .await;
            push.stop().await;
        });
        Self { runtime: Some(runtime), address, stopping, service }
    }

    fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for InProcessServer {
    fn drop(&mut self) {
        self.kill();
    }
}
