//! Runs the service, and stops its parts in order.

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::net::{TcpListener, lookup_host};
use tokio::runtime::{self, Runtime};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

use super::error::Error;
use super::service::{push, service};
use super::store::{leaves_out_pools, open, schedule};
use crate::api::{self, ClientCertificates, Listener, ServerLimits, Service, Tls, TlsError, TlsFiles};
use crate::config::{self, Bind, Config};
use crate::descriptors;
use crate::janitor;
use crate::observability::metrics::ConnectionCounts;
use crate::push::client::SystemResolver;
use crate::service_manager;
use sukkal_domain::AuthStrategy;
use sukkal_storage::embedded::EmbeddedStore;
use sukkal_storage::{Driver, StoreUri};

/// Maximum number of open connections of the listener for health checks and metrics.
const OPERATIONS_CONNECTIONS_MAX: usize = 64;

/// Creates the runtime of the service. By default it has one thread less than there are cores,
/// because the store needs a core: with more threads, requests would be passed between threads and
/// wait for a core.
pub fn runtime(config: &Config) -> io::Result<Runtime> {
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = if config.threads == 0 { cores.saturating_sub(1).max(1) } else { config.threads };
    runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()
}

/// Serves until `stop` completes, or until this release turns out to be unable to use the store.
/// Then finishes the requests that are running.
pub async fn serve(config: &Config, stop: impl Future<Output = ()>) -> Result<(), Error> {
    let tls = tls(&config.tls)?;
    let listener = listen(&config.bind, "--bind, SUKKAL_BIND or bind in the file").await?;
    check_exposure(config, listener.local_addr()?)?;
    let operations = match &config.operations.bind {
        Some(bind) => Some(listen(bind, "SUKKAL_OPERATIONS__BIND or bind in [operations] of the file").await?),
        None => None,
    };
    let websockets = listen_for_websockets(config).await?;
    if config.has_movable_clock {
        for listener in [Some(&listener), operations.as_ref(), websockets.as_ref()].into_iter().flatten() {
            require_loopback(listener.local_addr()?)?;
        }
    }
    let is_new = matches!(&config.store, StoreUri::Embedded(folder) if !EmbeddedStore::exists(folder));
    let opened = open(config)?;
    if let Some(pooled) = &opened.pooled {
        pooled.follow_pools();
    }
    let (maintained, store) = (opened.maintained(), opened.store);
    let service = service(config, store.clone())?;
    let (broker, tracer, audit) = (service.broker.clone(), service.tracer.clone(), service.settings.audit.clone());
    let _warnings = AbortOnDropHandle::new(tokio::spawn(warn_of_store(config.clone(), store.clone())));
    let push = push(config, &service, Arc::new(SystemResolver))?;
    broker.follow_quotas();

    report_start(config, listener.local_addr()?, is_new);
    let _certificates = tls.clone().map(|tls| AbortOnDropHandle::new(tokio::spawn(tls.follow_files())));
    let janitor = tokio::spawn(janitor::run(maintained, schedule(config), service.metrics.clone()));
    let limits = server_limits(config);
    let operations = match operations {
        Some(listener) => {
            info!(address = %listener.local_addr()?, "listening for health checks and metrics");
            let limits = ServerLimits { connections_max: OPERATIONS_CONNECTIONS_MAX, ..limits };
            let router = api::operations_router(service.clone());
            let listener = Listener { socket: listener, tls: tls.as_ref().map(Tls::without_client_certificates) };
            Some(AbortOnDropHandle::new(tokio::spawn(async move {
                api::serve(listener, router, limits, ConnectionCounts::default(), std::future::pending()).await.await;
            })))
        }
        None => None,
    };

    let (stopping, waiting) = (service.stopping.clone(), broker.clone());
    let drain_delay = Duration::from_secs(config.drain_delay_s);
    let drain_timeout = Duration::from_secs(config.drain_timeout_s).saturating_sub(drain_delay);
    let stop = async move {
        stop.await;
        service_manager::notify(service_manager::STOPPING);
        stopping.cancel();
        sleep(drain_delay).await;
    };
    let (refuse, refused) = oneshot::channel();
    let stopped = CancellationToken::new();
    let stop_all = stopped.clone();
    let stop = async move {
        tokio::select! {
            () = stop => {}
            reason = store.becomes_unusable() => {
                service_manager::notify(service_manager::STOPPING);
                let _no_receiver = refuse.send(reason);
            }
        }
        waiting.stop_waiting();
        stop_all.cancel();
    };
    service_manager::notify(service_manager::READY);
    let connections = service.metrics.connections();
    let websockets = websockets.map(|socket| {
        let listener = Listener { socket, tls: tls.clone() };
        serve_websockets(listener, service.clone(), limits, stopped)
    });
    let listener = Listener { socket: listener, tls };
    let unfinished = api::serve(listener, api::router(service), limits, connections, stop).await;
    info!("draining");
    let drained = async {
        // A slow request does not keep the delivery leases from being handed over.
        let unfinished_websockets = async {
            if let Some(websockets) = websockets {
                let _outcome = websockets.await;
            }
        };
        tokio::join!(unfinished, unfinished_websockets, push.stop());
        broker.drain().await;
    };
    if timeout(drain_timeout, drained).await.is_err() {
        warn!("some requests did not finish before the drain timeout");
    }
    if let Some(tracer) = tracer {
        tracer.stop().await;
    }
    if let Some(audit) = audit {
        audit.finish().await;
    }
    janitor.abort();
    drop(operations);
    info!("stopped");
    match refused.await {
        Ok(reason) => Err(Error::Refused(reason)),
        Err(_stopped_by_operator) => Ok(()),
    }
}

fn report_start(config: &Config, address: SocketAddr, has_new_store: bool) {
    info!(%address, store = %config.store, tls = config.tls.certificate.is_some(), "listening");
    if has_new_store {
        // A mistake in the name of its folder would otherwise look like a store that has lost
        // everything.
        info!(store = %config.store, "a new store was created");
    }
}

/// Warns if the store has pools that are not used, and if no client can authenticate, because the
/// only strategy is `tokens` and there is no token.
async fn warn_of_store(config: Config, store: Arc<dyn Driver>) {
    if leaves_out_pools(&config, &*store).await.unwrap_or(false) {
        warn!(
            "the store has pools, but pooling.enabled is false, so queues in pools look as if they did not exist; set it \
             to true"
        );
    }
    let has_admin = config.tokens.admin_token.reveal().is_some() || config.tokens.admin_token_file.is_some();
    let needs_token = config.auth.strategies == [AuthStrategy::Tokens] && !has_admin;
    if needs_token && store.list_tokens(None, None, 1).await.is_ok_and(|tokens| tokens.is_empty()) {
        warn!(
            "auth.strategies is \"tokens\", but there is no token, so no client can authenticate; generate one with \
             `sukkal token generate`, and name its file in tokens.admin_token_file"
        );
    }
}

/// Listens for WebSockets, if they have a listener of their own.
async fn listen_for_websockets(config: &Config) -> Result<Option<TcpListener>, Error> {
    let Some(bind) = &config.websocket.bind else { return Ok(None) };
    let listener = listen(bind, "SUKKAL_WEBSOCKET__BIND or bind in [websocket] of the file").await?;
    check_exposure(config, listener.local_addr()?)?;
    info!(address = %listener.local_addr()?, "listening for WebSockets");
    Ok(Some(listener))
}

/// Serves WebSockets in a task of its own until the token is canceled. The task ends when they are
/// closed.
fn serve_websockets(
    listener: Listener,
    service: Service,
    limits: ServerLimits,
    stopped: CancellationToken,
) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let connections = service.metrics.connections();
        let router = api::websocket_router(service);
        api::serve(listener, router, limits, connections, stopped.cancelled()).await.await;
    }))
}

/// Listens on the first of the host's addresses that can be used.
async fn listen(bind: &Bind, option: &'static str) -> Result<TcpListener, Error> {
    let unusable = |reason| Error::Bind { option, address: bind.clone(), reason };
    let addresses: Vec<SocketAddr> = match &bind.host {
        // A socket on IPv6 serves IPv4 clients too, but IPv6 may be disabled on this machine.
        None => vec![(Ipv6Addr::UNSPECIFIED, bind.port).into(), (Ipv4Addr::UNSPECIFIED, bind.port).into()],
        Some(host) => {
            let mut found: Vec<_> = lookup_host((host.as_str(), bind.port)).await.map_err(unusable)?.collect();
            found.sort_by_key(SocketAddr::is_ipv6);
            found
        }
    };
    TcpListener::bind(&*addresses).await.map_err(unusable)
}

/// Refuses to serve other machines without authentication, unless the operator wants it.
fn check_exposure(config: &Config, address: SocketAddr) -> Result<(), Error> {
    let is_local = is_loopback(address);
    if config.auth.strategies.is_empty() && !is_local {
        return Err(Error::Exposed(address));
    }
    if config.auth.strategies.contains(&AuthStrategy::None) && !is_local {
        warn!(%address, "with the strategy none, everybody who reaches this address can use every project and role");
    }
    Ok(())
}

/// Refuses to serve other machines with a clock that tests can move.
fn require_loopback(address: SocketAddr) -> Result<(), Error> {
    if is_loopback(address) { Ok(()) } else { Err(Error::MovableClock(address)) }
}

fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// Returns how client connections are served. Raises the limit on open files, which bounds their
/// number.
#[must_use]
pub fn server_limits(config: &Config) -> ServerLimits {
    ServerLimits {
        head_timeout: Duration::from_secs(config.client_timeout_s),
        idle_timeout: Duration::from_secs(config.idle_timeout_s),
        connections_max: descriptors::connections_max(config.max_connections),
    }
}

/// Opens the certificates of the listeners, if they have any.
fn tls(config: &config::Tls) -> Result<Option<Tls>, TlsError> {
    let (Some(certificate), Some(key)) = (config.certificate.clone(), config.key.clone()) else { return Ok(None) };
    let client_certificates = match config.client_certificate {
        config::ClientCertificate::Required => ClientCertificates::Required,
        config::ClientCertificate::Optional => ClientCertificates::Optional,
    };
    Tls::open(TlsFiles { certificate, key, client_ca: config.client_ca.clone(), client_certificates }).map(Some)
}
