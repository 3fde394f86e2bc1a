//! Assembles the service from store, broker, HTTP and janitor, runs it, and stops its parts in
//! order.

use std::fs;
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
use zeroize::Zeroizing;

use crate::api::http::{self, ClientCertificates, Listener, ServerLimits, Service, Settings, Tls, TlsError, TlsFiles};
use crate::api::wire::checksum::Checksums;
use crate::audit::AuditLog;
use crate::auth::signed_url::Signer;
use crate::authentication::jwt::Jwt;
use crate::authentication::keystone::Keystone;
use crate::authentication::{Authenticator, Openness, Tokens, TrustedProxies};
pub use crate::broker::Rekeyed;
use crate::broker::pooling::Pooling;
use crate::broker::{self, Broker, Cipher};
use crate::config::{self, Auth, Bind, Config};
use crate::descriptors;
use crate::domain::{AuthStrategy, PushConfig, Secret, Token};
use crate::janitor;
use crate::metrics::{LiveCount, Metrics};
use crate::push::client::{Resolver, SystemResolver};
use crate::push::{self, Push};
use crate::service_manager;
pub use crate::storage::Check;
pub use crate::storage::StoreUri;
use crate::storage::embedded::{EmbeddedStore, Fsync, OpenError};
pub use crate::storage::migration::{Counts, MigrationError, MigrationStep};
use crate::storage::migration::{MigrationSource, MigrationTarget, migrate as migrate_store, verify_source};
use crate::storage::pooled::{self, PooledStore};
use crate::storage::redis::import::RedisImport;
use crate::storage::redis::{self, RedisPools, RedisStore};
use crate::storage::{self, Driver, Schedule, UriCipher};
use crate::telemetry::Tracer;

/// Maximum number of open connections of the listener for health checks and metrics.
const OPERATIONS_CONNECTIONS_MAX: usize = 64;

/// The reason why the service cannot run.
#[derive(Debug, Error)]
pub enum Error {
    /// The store's file cannot be used.
    #[error("store: {0}")]
    OpenStore(#[from] OpenError),
    /// TLS to Redis cannot be used as configured.
    #[error("store: {0}")]
    RedisTls(#[from] redis::TlsError),
    /// The store has no file, so it cannot be compacted.
    #[error("only embedded stores have a file that can be compacted, and the store is {0}; use --store embedded:PATH")]
    NoFile(String),
    /// Stores of these kinds cannot be migrated into each other.
    #[error(
        "only an embedded store can be migrated, and only to Redis, but not {from} to {to}; use --from embedded:PATH --to redis://HOST"
    )]
    NoMigration {
        /// The source.
        from: String,
        /// The target.
        to: String,
    },
    /// A migration is not complete.
    #[error(transparent)]
    Migration(#[from] MigrationError),
    /// There is no key to encrypt messages with.
    #[error("message_encryption_key in [transport] is empty; set it to the passphrase that is to encrypt messages")]
    NoKey,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] storage::Error),
    /// This release cannot use the store, for example because of its version.
    #[error("store: {0}")]
    Refused(String),
    /// The address is in use, or does not belong to this machine.
    #[error("cannot listen on {address}: {reason}; set another address by {option}")]
    Bind {
        /// The ways to set the address, for the operator.
        option: &'static str,
        /// The address.
        address: Bind,
        /// The error of the operating system.
        reason: io::Error,
    },
    /// Other machines could use the service without authentication.
    #[error(
        "{0} is not a loopback address, and [auth] has no strategies, so everybody could use every project; set \
         SUKKAL_AUTH__STRATEGIES or strategies in [auth] to proxy, for a proxy that authenticates callers, or to none \
         if everybody may"
    )]
    Exposed(SocketAddr),
    /// A strategy cannot be used with its options.
    #[error("{0}")]
    Authentication(String),
    /// This release does not have the strategy.
    /// The token of the admin cannot be read.
    #[error("admin_token_file in [tokens]: {0}")]
    AdminToken(String),
    /// The file of the audit log cannot be used.
    #[error("file in [audit]: cannot open {0}")]
    AuditLog(String),
    /// The files in `[tls]` cannot be used.
    #[error("tls: {0}")]
    ListenerTls(#[from] TlsError),
    /// The service may not deliver to subscribers.
    #[error(transparent)]
    Push(#[from] broker::Error),
    /// The operating system refused something.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Creates the runtime of the service. By default it has one thread less than there are cores,
/// because the store needs a core: with more threads, requests would be passed between threads and
/// wait for a core.
pub fn runtime(config: &Config) -> io::Result<Runtime> {
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = if config.threads == 0 { cores.saturating_sub(1).max(1) } else { config.threads };
    runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()
}

/// Creates the service over a store, as configured.
pub fn service(config: &Config, store: Arc<dyn Driver>) -> Result<Service, Error> {
    let metrics = Arc::new(Metrics::new());
    let limits = config.transport.limits.clone();
    let options = broker::Options {
        policy: config.policy.clone(),
        monitored_queues: config.metrics.queues.clone(),
        quotas: config.quotas.with(&limits),
        pooling: pooling(config),
    };
    let broker = Broker::with_options(store, limits, push_config(config), cipher(config), metrics.clone(), options);
    let settings = Settings {
        admin_mode: config.admin_mode,
        pooling: config.pooling.enabled,
        authenticator: Arc::new(authenticator(config, &broker)?),
        client_id: config.transport.client_id(),
        client_id_is_optional: config.transport.client_id_is_optional(),
        default_project: config.transport.default_project.clone(),
        cors_origins: config.transport.cors_origins.clone(),
        bound_name: config.bind.host.clone(),
        client_timeout: Duration::from_secs(config.client_timeout_s),
        signer: signer(config),
        checksums: if config.enable_checksum { Checksums::Shown } else { Checksums::Hidden },
        stream_heartbeat: Duration::from_secs(config.transport.stream_heartbeat_s),
        audit: audit_log(config, &metrics)?,
    };
    Ok(http::service(broker, settings, metrics, tracer(config)))
}

/// Returns how pools are managed, if the operator wants them.
fn pooling(config: &Config) -> Option<Pooling> {
    let management_store = match &config.store {
        StoreUri::Redis(uri) => uri.to_string().parse().ok(),
        StoreUri::Embedded(_) | StoreUri::Memory => None,
    };
    let connector = Arc::new(RedisPools::new(redis_tls_files(&config.redis)));
    config.pooling.enabled.then_some(Pooling { connector, management_store })
}

/// Opens the audit log, if the operator wants one.
fn audit_log(config: &Config, metrics: &Arc<Metrics>) -> Result<Option<AuditLog>, Error> {
    let Some(file) = &config.audit.file else { return Ok(None) };
    let unusable = |error| Error::AuditLog(format!("{file}: {error}"));
    AuditLog::open(file, metrics.clone()).map(Some).map_err(unusable)
}

/// Creates the strategies that the operator has chosen. By default, everybody on this machine is
/// believed.
fn authenticator(config: &Config, broker: &Broker) -> Result<Authenticator, Error> {
    let Auth { strategies, trusted_proxies } = &config.auth;
    if strategies.is_empty() {
        return Ok(Authenticator::default().with_none(Openness::ThisMachine));
    }
    strategies.iter().try_fold(Authenticator::default(), |chosen, strategy| match strategy {
        AuthStrategy::None => Ok(chosen.with_none(Openness::Everybody)),
        AuthStrategy::Proxy => Ok(chosen.with_proxies(TrustedProxies::new(trusted_proxies))),
        AuthStrategy::Keystone => {
            let keystone = Keystone::new(config.keystone.clone()).map_err(Error::Authentication)?;
            let uri = keystone.public_uri().to_owned();
            broker.set_trusts(Arc::new(keystone.trusts()));
            Ok(chosen.with_keystone(Box::new(keystone), uri))
        }
        AuthStrategy::Jwt => {
            let jwt = Jwt::new(config.jwt.clone()).map_err(Error::Authentication)?;
            Ok(chosen.with_jwt(Box::new(jwt)))
        }
        AuthStrategy::Tokens => {
            let tokens = Tokens::new(broker.clone(), admin_token(config)?.as_ref());
            Ok(chosen.with_tokens(Box::new(tokens)))
        }
    })
}

/// Returns the token that the operator has configured for the admin.
fn admin_token(config: &Config) -> Result<Option<Token>, Error> {
    let text = match (config.tokens.admin_token.reveal(), &config.tokens.admin_token_file) {
        (Some(token), _) => Zeroizing::new(token.to_owned()),
        (None, Some(file)) => {
            let unreadable = |error| Error::AdminToken(format!("cannot read {file}: {error}"));
            Zeroizing::new(fs::read_to_string(file).map_err(unreadable)?)
        }
        (None, None) => return Ok(None),
    };
    let invalid = || Error::AdminToken("it does not have a token that `sukkal token generate` has printed".to_owned());
    Token::parse(text.trim()).map(Some).ok_or_else(invalid)
}

/// Refuses to serve other machines without authentication, unless the operator wants it.
fn check_exposure(config: &Config, address: SocketAddr) -> Result<(), Error> {
    let is_local = address.ip().to_canonical().is_loopback();
    if config.auth.strategies.is_empty() && !is_local {
        return Err(Error::Exposed(address));
    }
    if config.auth.strategies.contains(&AuthStrategy::None) && !is_local {
        warn!(%address, "with the strategy none, everybody who reaches this address can use every project and role");
    }
    Ok(())
}

/// Returns the text of a new token, which can be the `admin_token` of the service.
#[must_use]
pub fn new_token() -> Zeroizing<String> {
    Token::random().reveal()
}

/// Returns the keys that encrypt and decrypt messages, if there is one that encrypts.
fn cipher(config: &Config) -> Option<Cipher> {
    let first = config.transport.message_encryption_key.reveal()?;
    let others = config.transport.message_decryption_keys.iter();
    Some(Cipher::new(first).accepting(others.filter_map(Secret::reveal)))
}

/// Returns the signer of URLs, if there is a key.
fn signer(config: &Config) -> Option<Signer> {
    let keys = &config.signed_url;
    Some(Signer::new(&keys.secret_key)?.accepting(&keys.accepted_secret_key))
}

/// Starts to deliver messages to subscribers, whose names this resolver resolves.
pub fn push(config: &Config, service: &Service, resolver: Arc<dyn Resolver>) -> Result<Push, broker::Error> {
    let options = push::Options { config: config.push.clone(), resolver, signer: signer(config) };
    Push::start(service.broker.clone(), service.metrics.clone(), options)
}

/// Returns the options of push. Confirmations are not required if they cannot be signed.
fn push_config(config: &Config) -> PushConfig {
    PushConfig {
        require_confirmation: config.push.require_confirmation && signer(config).is_some(),
        ..config.push.clone()
    }
}

/// Starts to send traces if the operator has named a collector.
fn tracer(config: &Config) -> Option<Tracer> {
    let endpoint = config.telemetry.otlp_endpoint.as_deref()?;
    Tracer::start(endpoint).inspect_err(|error| warn!(%error, "cannot send traces")).ok()
}

/// Returns how client connections are served. Raises the limit on open files, which bounds their
/// number.
#[must_use]
pub fn server_limits(config: &Config) -> ServerLimits {
    ServerLimits {
        head_timeout: Duration::from_secs(config.client_timeout_s),
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

/// Returns the schedule of the store's maintenance.
#[must_use]
pub fn schedule(config: &Config) -> Schedule {
    Schedule { pause: Duration::from_secs(config.janitor.pause_s), walk: Duration::from_secs(config.janitor.walk_s) }
}

/// The configured store, and its pools if it has some.
struct Opened {
    store: Arc<dyn Driver>,
    pooled: Option<PooledStore>,
}

impl Opened {
    /// Returns the store that the service maintains. The pools are maintained by tasks of their own.
    fn maintained(&self) -> Arc<dyn Driver> {
        self.pooled.as_ref().map_or_else(|| self.store.clone(), PooledStore::management)
    }
}

/// Opens the configured store, with its pools.
fn open(config: &Config) -> Result<Opened, Error> {
    let fsync = match config.embedded.fsync {
        config::Fsync::Group => Fsync::Group,
        config::Fsync::Interval => Fsync::Interval,
        config::Fsync::Off => Fsync::Off,
    };
    match &config.store {
        StoreUri::Embedded(folder) => opened_embedded(config, EmbeddedStore::open(folder, fsync)?),
        StoreUri::Memory => opened_embedded(config, EmbeddedStore::in_memory()?),
        StoreUri::Redis(uri) => {
            // The files may be for the pools only.
            let is_for_pools = config.pooling.enabled && !uri.uses_tls();
            let files = if is_for_pools { redis::TlsFiles::default() } else { redis_tls_files(&config.redis) };
            let store = RedisStore::open(&uri.clone().with_tls(files))?;
            if !config.pooling.enabled {
                return Ok(Opened { store: Arc::new(store), pooled: None });
            }
            Ok(opened_pooled(PooledStore::over_redis(&store, pool_options(config))?))
        }
    }
}

fn opened_embedded(config: &Config, store: EmbeddedStore) -> Result<Opened, Error> {
    if !config.pooling.enabled {
        return Ok(Opened { store: Arc::new(store), pooled: None });
    }
    Ok(opened_pooled(PooledStore::over_embedded(&store, pool_options(config))?))
}

fn opened_pooled(store: PooledStore) -> Opened {
    Opened { store: Arc::new(store.clone()), pooled: Some(store) }
}

fn pool_options(config: &Config) -> pooled::Options {
    pooled::Options {
        has_virtual_pool: config.pooling.virtual_pool,
        schedule: schedule(config),
        redis: RedisPools::new(redis_tls_files(&config.redis)),
        wait_max: Duration::from_secs(config.transport.limits.max_queueing.into()),
        cipher: cipher(config).map(|cipher| Arc::new(cipher) as Arc<dyn UriCipher>),
    }
}

fn redis_tls_files(files: &config::Redis) -> redis::TlsFiles {
    let config::Redis { ca_file, certificate_file, key_file } = files.clone();
    redis::TlsFiles { ca: ca_file, certificate: certificate_file, key: key_file }
}

/// Verifies the integrity of the configured store, and with `repairs` fixes the errors that can be
/// fixed. An embedded store must exist, and no other process may have it open.
pub async fn check(config: &Config, repairs: bool) -> Result<Check, Error> {
    let store = open_existing(config).await?;
    let checked = tokio::select! {
        biased;
        reason = store.becomes_unusable() => return Err(Error::Refused(reason)),
        check = async { if repairs { store.repair().await } else { store.check().await } } => check,
    };
    match (checked, store.becomes_unusable().now_or_never()) {
        // The check may fail before the store reports that it is refused.
        (Err(_), Some(reason)) => Err(Error::Refused(reason)),
        (checked, _) => Ok(checked?),
    }
}

/// Encrypts the messages in the configured store with the first of the configured keys. Calls `report`
/// after each pass over the store. An embedded store must exist, and no other process may have it
/// open.
pub async fn rekey(config: &Config, report: impl Fn(u32, &Rekeyed) + Send + Sync) -> Result<Rekeyed, Error> {
    let cipher = cipher(config).ok_or(Error::NoKey)?;
    let store = open_existing(config).await?;
    tokio::select! {
        biased;
        reason = store.becomes_unusable() => Err(Error::Refused(reason)),
        rekeyed = broker::rekey(&*store, &cipher, report) => Ok(rekeyed?),
    }
}

/// The result of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Migrated {
    /// The configured store has everything, and can be used.
    Now,
    /// An earlier run has completed the migration. Nothing was changed.
    Before,
}

/// Copies everything from an embedded store to the configured store, which must be an empty Redis.
/// No other process may have the embedded store open. Calls `report` after each step but the last
/// one.
pub async fn migrate(from: &StoreUri, config: &Config, report: impl Fn(&MigrationStep)) -> Result<Migrated, Error> {
    let (StoreUri::Embedded(folder), StoreUri::Redis(uri)) = (from, &config.store) else {
        return Err(Error::NoMigration { from: from.to_string(), to: config.store.to_string() });
    };
    let source = EmbeddedStore::open_verified(folder)?;
    let verified = verify_source(&source).await?;
    report(&MigrationStep::SourceVerified(verified.clone()));
    let id = source.migration_id().await?;
    let mut target = RedisImport::open(&uri.clone().with_tls(redis_tls_files(&config.redis)), id)?;
    if target.is_complete().await? {
        return Ok(Migrated::Before);
    }
    tokio::select! {
        biased;
        reason = target.becomes_unusable() => Err(Error::Refused(reason)),
        migrated = migrate_store(&source, &verified, &mut target, report) => Ok(migrated.map(|()| Migrated::Now)?),
    }
}

/// Opens the configured store, with its pools. An embedded store must exist.
async fn open_existing(config: &Config) -> Result<Arc<dyn Driver>, Error> {
    let opened = match &config.store {
        StoreUri::Embedded(folder) => opened_embedded(config, EmbeddedStore::open_verified(folder)?)?,
        StoreUri::Memory | StoreUri::Redis(_) => open(config)?,
    };
    if let Some(pooled) = &opened.pooled {
        pooled.refresh_pools().await?;
    }
    Ok(opened.store)
}

/// Compacts the file of the configured embedded store, and returns its size in bytes before and
/// after. The store must exist, and no other process may have it open.
pub fn compact(config: &Config) -> Result<(u64, u64), Error> {
    match &config.store {
        StoreUri::Embedded(folder) => Ok(EmbeddedStore::compact(folder)?),
        uri @ (StoreUri::Memory | StoreUri::Redis(_)) => Err(Error::NoFile(uri.to_string())),
    }
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
    let opened = open(config)?;
    if let Some(pooled) = &opened.pooled {
        pooled.follow_pools();
    }
    let (maintained, store) = (opened.maintained(), opened.store);
    let service = service(config, store.clone())?;
    let (broker, tracer, audit) = (service.broker.clone(), service.tracer.clone(), service.settings.audit.clone());
    let push = push(config, &service, Arc::new(SystemResolver))?;
    broker.follow_quotas();
    if config.push.require_confirmation && !push_config(config).require_confirmation {
        warn!("require_confirmation in [push] has no effect without secret_key in [signed_url]");
    }

    info!(address = %listener.local_addr()?, store = %config.store, tls = tls.is_some(), "listening");
    let _certificates = tls.clone().map(|tls| AbortOnDropHandle::new(tokio::spawn(tls.follow_files())));
    let janitor = tokio::spawn(janitor::run(maintained, schedule(config), service.metrics.clone()));
    let limits = server_limits(config);
    let operations = match operations {
        Some(listener) => {
            info!(address = %listener.local_addr()?, "listening for health checks and metrics");
            let limits = ServerLimits { connections_max: OPERATIONS_CONNECTIONS_MAX, ..limits };
            let router = http::operations_router(service.clone());
            let listener = Listener { socket: listener, tls: tls.as_ref().map(Tls::without_client_certificates) };
            Some(AbortOnDropHandle::new(tokio::spawn(async move {
                http::serve(listener, router, limits, LiveCount::default(), std::future::pending()).await.await;
            })))
        }
        None => None,
    };

    let stopping = broker.clone();
    let (refuse, refused) = oneshot::channel();
    let stop = async move {
        tokio::select! {
            () = stop => {}
            reason = store.becomes_unusable() => {
                let _no_receiver = refuse.send(reason);
            }
        }
        service_manager::notify(service_manager::STOPPING);
        stopping.stop_waiting();
    };
    service_manager::notify(service_manager::READY);
    let connections = service.metrics.connections();
    let listener = Listener { socket: listener, tls };
    let unfinished = http::serve(listener, http::router(service), limits, connections, stop).await;
    info!("draining");
    let drained = async {
        // A slow request does not keep the delivery leases from being handed over.
        tokio::join!(unfinished, push.stop());
        broker.drain().await;
    };
    if timeout(Duration::from_secs(config.drain_timeout_s), drained).await.is_err() {
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
