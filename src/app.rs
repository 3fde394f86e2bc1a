//! Puts the service together and runs it: store, broker, HTTP, janitor; and takes it down in order.

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use futures::FutureExt;
use thiserror::Error;
use tokio::net::{TcpListener, lookup_host};
use tokio::runtime::{self, Runtime};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

use crate::api::http::{self, Service, Serving, Settings};
use crate::api::wire::checksum::Checksums;
use crate::auth::signed_url::Signer;
use crate::broker::{Broker, Cipher};
use crate::config::{self, Bind, Config};
use crate::descriptors;
use crate::janitor;
use crate::metrics::Metrics;
pub use crate::storage::Check;
use crate::storage::embedded::{EmbeddedStore, Fsync, OpenError};
use crate::storage::redis::RedisStore;
use crate::storage::{self, Driver, Schedule, StoreUri};

/// Maximum number of open connections of the listener for health checks and metrics.
const OPERATIONS_CONNECTIONS_MAX: usize = 64;

/// Why the service does not run.
#[derive(Debug, Error)]
pub enum Error {
    /// The store's file cannot be used.
    #[error("store: {0}")]
    OpenStore(#[from] OpenError),
    /// The store has no file.
    #[error("only embedded stores have a file that can be compacted, and the store is {0}; use --store embedded:PATH")]
    NoFile(String),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] storage::Error),
    /// The store is of a kind that this release cannot use.
    #[error("store: {0}")]
    Refused(String),
    /// The address is taken, or not this machine's.
    #[error("cannot listen on {address}: {reason}; set another address by {option}")]
    Bind {
        /// Where the address is set.
        option: &'static str,
        /// The address.
        address: Bind,
        /// Why.
        reason: io::Error,
    },
    /// The operating system refused something.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What the service runs on. With as many threads as cores, of which the store needs one, requests would be
/// handed from one to another and wait for a core.
pub fn runtime(config: &Config) -> io::Result<Runtime> {
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = if config.threads == 0 { cores.saturating_sub(1).max(1) } else { config.threads };
    runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()
}

/// The service over a store, as the configuration wants it.
pub fn service(config: &Config, store: Arc<dyn Driver>) -> Service {
    let cipher = config.transport.message_encryption_key.reveal().map(Cipher::new);
    let settings = Settings {
        admin_mode: config.admin_mode,
        client_id: config.transport.client_id(),
        client_timeout: Duration::from_secs(config.client_timeout_s),
        signer: Signer::new(&config.signed_url.secret_key),
        checksums: if config.enable_checksum { Checksums::Shown } else { Checksums::Hidden },
        stream_heartbeat: Duration::from_secs(config.transport.stream_heartbeat_s),
    };
    let metrics = Arc::new(Metrics::new());
    let broker = Broker::new(store, config.transport.limits.clone(), cipher, metrics.clone());
    Service::new(broker, settings, metrics)
}

/// How connections of clients are served, as far as the limit on open files allows, which this raises.
#[must_use]
pub fn serving(config: &Config) -> Serving {
    Serving {
        head_timeout: Duration::from_secs(config.client_timeout_s),
        connections_max: descriptors::connections_max(config.max_connections),
    }
}

/// When the store's maintenance is done.
#[must_use]
pub fn schedule(config: &Config) -> Schedule {
    Schedule { pause: Duration::from_secs(config.janitor.pause_s), walk: Duration::from_secs(config.janitor.walk_s) }
}

/// The store that the configuration names.
fn open(config: &Config) -> Result<Arc<dyn Driver>, Error> {
    let fsync = match config.embedded.fsync {
        config::Fsync::Group => Fsync::Group,
        config::Fsync::Interval => Fsync::Interval,
        config::Fsync::Off => Fsync::Off,
    };
    Ok(match &config.store {
        StoreUri::Embedded(folder) => Arc::new(EmbeddedStore::open(folder, fsync)?),
        StoreUri::Memory => Arc::new(EmbeddedStore::in_memory()?),
        StoreUri::Redis(uri) => Arc::new(RedisStore::open(uri)?),
    })
}

/// Looks whether the store that the configuration names is what it should be, and mends what can be mended if that is wanted. An
/// embedded store must be there, and nobody else may have it.
pub async fn check(config: &Config, repairs: bool) -> Result<Check, Error> {
    let store = match &config.store {
        StoreUri::Embedded(folder) => Arc::new(EmbeddedStore::open_verified(folder)?),
        StoreUri::Memory | StoreUri::Redis(_) => open(config)?,
    };
    let checked = tokio::select! {
        biased;
        reason = store.refused() => return Err(Error::Refused(reason)),
        check = async { if repairs { store.repair().await } else { store.check().await } } => check,
    };
    match (checked, store.refused().now_or_never()) {
        // The check may be the first to hear of it.
        (Err(_), Some(reason)) => Err(Error::Refused(reason)),
        (checked, _) => Ok(checked?),
    }
}

/// Makes the file of the embedded store that the configuration names as short as it can be, if it is there and nobody
/// else has it; how long it was and is, in bytes.
pub fn compact(config: &Config) -> Result<(u64, u64), Error> {
    match &config.store {
        StoreUri::Embedded(folder) => Ok(EmbeddedStore::compact(folder)?),
        uri @ (StoreUri::Memory | StoreUri::Redis(_)) => Err(Error::NoFile(uri.to_string())),
    }
}

/// Listens on the first address that can be had.
async fn listen(bind: &Bind, option: &'static str) -> Result<TcpListener, Error> {
    let unusable = |reason| Error::Bind { option, address: bind.clone(), reason };
    let addresses: Vec<SocketAddr> = match &bind.host {
        // IPv6 serves IPv4 clients too; a machine may have switched it off.
        None => vec![(Ipv6Addr::UNSPECIFIED, bind.port).into(), (Ipv4Addr::UNSPECIFIED, bind.port).into()],
        Some(host) => {
            let mut found: Vec<_> = lookup_host((host.as_str(), bind.port)).await.map_err(unusable)?.collect();
            found.sort_by_key(SocketAddr::is_ipv6);
            found
        }
    };
    TcpListener::bind(&*addresses).await.map_err(unusable)
}

/// Serves until `stop` is over or the store turns out to be one that this release cannot use, then finishes what is
/// under way.
pub async fn serve(config: &Config, stop: impl Future<Output = ()>) -> Result<(), Error> {
    let listener = listen(&config.bind, "--bind, SUKKAL_BIND or bind in the file").await?;
    let operations = match &config.operations.bind {
        Some(bind) => Some(listen(bind, "SUKKAL_OPERATIONS__BIND or bind in [operations] of the file").await?),
        None => None,
    };
    let store = open(config)?;
    let service = service(config, store.clone());
    let broker = service.broker.clone();

    info!(address = %listener.local_addr()?, store = %config.store, "listening");
    let janitor = tokio::spawn(janitor::run(store.clone(), schedule(config)));
    let serving = serving(config);
    let operations = match operations {
        Some(listener) => {
            info!(address = %listener.local_addr()?, "listening for health checks and metrics");
            let serving = Serving { connections_max: OPERATIONS_CONNECTIONS_MAX, ..serving };
            let router = http::operations_router(service.clone());
            Some(AbortOnDropHandle::new(tokio::spawn(async move {
                http::serve(listener, router, serving, std::future::pending()).await.await;
            })))
        }
        None => None,
    };

    let waited_on = broker.clone();
    let (refuse, refused) = oneshot::channel();
    let stop = async move {
        tokio::select! {
            () = stop => {}
            reason = store.refused() => {
                let _nobody_asks = refuse.send(reason);
            }
        }
        waited_on.stop_waiting();
    };
    let unfinished = http::serve(listener, http::router(service), serving, stop).await;
    info!("draining");
    let drained = async {
        unfinished.await;
        broker.drain().await;
    };
    if timeout(Duration::from_secs(config.drain_timeout_s), drained).await.is_err() {
        warn!("some requests did not finish in time");
    }
    janitor.abort();
    drop(operations);
    info!("stopped");
    match refused.await {
        Ok(reason) => Err(Error::Refused(reason)),
        Err(_was_told_to_stop) => Ok(()),
    }
}
