//! Connections to a server. A connection that has died silently is replaced.
//!
//! `fred` measures silence from its last write to a connection. So while commands keep coming, it
//! would wait forever for an unresponsive server. A connection is considered dead if an attempt
//! gets no reply and neither does any other command since that attempt began.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use fred::clients::Client;
use fred::error::{Error as FredError, ErrorKind};
use fred::interfaces::{ClientLike, EventInterface};
use fred::types::Value;
use fred::types::config::{
    Config, ConnectionConfig, PerformanceConfig, ReconnectPolicy, TcpConfig, UnresponsiveConfig,
};
use parking_lot::Mutex;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, warn};

use super::failure::{is_read_only, is_redis_reply, not_connected};
use super::health::Health;

/// Number of connections to a server. Measurements with more showed no gain, because each
/// connection is multiplexed.
const CONNECTIONS: usize = 2;
/// Maximum duration of one attempt. A script takes a few milliseconds at most.
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(450);
/// Maximum duration of one command in an attempt. It is shorter than the attempt, so that `fred`
/// itself gives the command up. Otherwise `fred` would send it much later, when there is a
/// connection again and the caller has gone.
const COMMAND_TIMEOUT: Duration = Duration::from_millis(400);
const PAUSE_BETWEEN_RECONNECTS_MS: u32 = 100;
/// Minimum time between two replacements of a connection because the server is a replica.
const PAUSE_BETWEEN_MASTERS: Duration = Duration::from_millis(500);
/// How long a client pauses after `fred` has stopped connecting, which it does when it considers
/// retries useless.
const PAUSE_AFTER_CLIENT_END: Duration = Duration::from_secs(1);
/// Maximum number of buffered commands. `fred` keeps them in memory while it is disconnected, and
/// further commands are refused.
const COMMAND_BUFFER_MAX: usize = 20_000;
/// Maximum time that the peer may leave sent data unacknowledged, or its receive window closed.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(1);

/// The connections to one server.
pub(super) struct Pool {
    connections: Vec<PooledConnection>,
    next_index: AtomicUsize,
    disconnected_since: Mutex<Option<Instant>>,
    pub(super) health: Arc<Health>,
}

/// One connection. It is closed when this is dropped.
pub(super) struct PooledConnection {
    client: Client,
    health: Arc<Health>,
    last_reply: Arc<Mutex<Instant>>,
    is_reconnecting: Arc<AtomicBool>,
    _connecting: AbortOnDropHandle<()>,
}

impl Pool {
    /// Starts to connect, and reconnects until this is dropped. Each connection is announced
    /// through `connected`.
    pub(super) fn open(config: &Config, connected: &watch::Sender<()>) -> Self {
        let clients: Vec<Client> = (0..CONNECTIONS).map(|_| client(config, PerformanceConfig::default())).collect();
        let health = Arc::new(Health::new(config, clients.clone()));
        let connections = clients
            .into_iter()
            .map(|client| PooledConnection::with_client(client, &health, connected.clone()))
            .collect();
        Self { connections, next_index: AtomicUsize::default(), disconnected_since: Mutex::default(), health }
    }

    /// Returns the next connection in turn, if possible one that is connected.
    pub(super) fn select(&self) -> &PooledConnection {
        let index = self.next_index.fetch_add(1, Ordering::Relaxed);
        let in_turn = |offset| &self.connections[index.wrapping_add(offset) % self.connections.len()];
        let connected = (0..self.connections.len()).map(in_turn).find(|connection| connection.client.is_connected());
        connected.unwrap_or_else(|| in_turn(0))
    }

    pub(super) fn is_connected(&self) -> bool {
        self.connections.iter().any(|connection| connection.client.is_connected())
    }

    /// Returns whether the server has not replied to any command since that moment.
    pub(super) fn is_silent_since(&self, moment: Instant) -> bool {
        self.connections.iter().all(|connection| *connection.last_reply.lock() < moment)
    }

    /// Returns how long there has been no connection at all, counted from the first call that found
    /// none.
    pub(super) fn disconnected_for(&self) -> Duration {
        let mut since = self.disconnected_since.lock();
        if self.is_connected() {
            *since = None;
        } else {
            since.get_or_insert_with(Instant::now);
        }
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

impl PooledConnection {
    /// Starts to connect, without logging the outcome.
    pub(super) fn open(config: &Config) -> Self {
        let client = client(config, PerformanceConfig::default());
        let health = Arc::new(Health::unlogged(config, vec![client.clone()]));
        Self::with_client(client, &health, watch::Sender::new(()))
    }

    fn with_client(client: Client, health: &Arc<Health>, connected: watch::Sender<()>) -> Self {
        let connected = move || {
            connected.send_replace(());
        };
        let health = health.clone();
        let reported = health.clone();
        let connecting = keep_connected(client.clone(), connected, move |reason| reported.note_disconnection(reason));
        Self {
            client,
            health,
            last_reply: Arc::new(Mutex::new(Instant::now())),
            is_reconnecting: Arc::default(),
            _connecting: AbortOnDropHandle::new(tokio::spawn(connecting)),
        }
    }

    /// Waits until the connection is made. Otherwise returns why the server cannot be used.
    pub(super) async fn wait_for_connection(&self, limit: Duration) -> Result<(), String> {
        match timeout(limit, self.client.wait_for_connect()).await {
            Ok(Ok(())) => Ok(()),
            failed => {
                let unknown = || format!("there is no connection: {failed:?}");
                Err(self.health.unavailable_reason().unwrap_or_else(unknown))
            }
        }
    }

    /// Runs an attempt when there is a connection, and waits for the reply, within
    /// [`ATTEMPT_TIMEOUT`]. No command is left to be sent later.
    pub(super) async fn attempt<F>(&self, attempt: impl FnOnce(Client) -> F) -> Result<Value, FredError>
    where
        F: Future<Output = Result<Value, FredError>>,
    {
        let began = Instant::now();
        let end = began + ATTEMPT_TIMEOUT;
        if !self.client.is_connected() {
            match timeout_at(end, self.client.wait_for_connect()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return Err(not_connected()),
            }
        }
        let elapsed = |_| Err(FredError::new(ErrorKind::Timeout, "no answer in time"));
        // Pinned, so that it is not moved: it is large.
        let attempt = pin!(attempt(self.client.clone()));
        let reply = timeout_at(end, attempt).await.unwrap_or_else(elapsed);
        match reply.as_ref().err() {
            refusal if refusal.is_none_or(is_redis_reply) => {
                *self.last_reply.lock() = Instant::now();
                self.health.note_reply(refusal);
                if refusal.is_some_and(is_read_only) {
                    self.reconnect_to_another_master();
                }
            }
            Some(error) if *error.kind() == ErrorKind::Timeout => self.reconnect_if_silent_since(began),
            _ => {}
        }
        reply
    }

    /// Replaces the connection unless the server has replied to any command since `began`.
    fn reconnect_if_silent_since(&self, began: Instant) {
        // A client that is already connecting would reconnect once more afterwards.
        let is_alive = *self.last_reply.lock() >= began || !self.client.is_connected();
        if is_alive || self.is_reconnecting.swap(true, Ordering::SeqCst) {
            return;
        }
        warn!("a connection to the store does not answer and is replaced");
        self.reconnect(Duration::ZERO);
    }

    /// Replaces the connection to a server that has become a replica. The same address may lead to
    /// the new master, as it does behind a proxy.
    fn reconnect_to_another_master(&self) {
        if !self.is_reconnecting.swap(true, Ordering::SeqCst) {
            self.reconnect(PAUSE_BETWEEN_MASTERS);
        }
    }

    /// Replaces the connection, and then allows the next replacement after a pause.
    fn reconnect(&self, pause: Duration) {
        let (client, last_reply, is_reconnecting) =
            (self.client.clone(), self.last_reply.clone(), self.is_reconnecting.clone());
        tokio::spawn(async move {
            let _next_attempt_sees_the_outcome = client.force_reconnection().await;
            *last_reply.lock() = Instant::now();
            sleep(pause).await;
            is_reconnecting.store(false, Ordering::SeqCst);
        });
    }
}

/// Returns a client with timeouts for every operation, which does not retry commands itself.
pub(super) fn client(config: &Config, mut performance: PerformanceConfig) -> Client {
    performance.default_command_timeout = COMMAND_TIMEOUT;
    let reconnect = ReconnectPolicy::new_constant(0, PAUSE_BETWEEN_RECONNECTS_MS);
    Client::new(config.clone(), Some(performance), Some(connection_config()), Some(reconnect))
}

/// Returns timeouts for every operation of a client.
pub(super) fn connection_config() -> ConnectionConfig {
    ConnectionConfig {
        connection_timeout: Duration::from_secs(1),
        internal_command_timeout: Duration::from_secs(1),
        max_command_attempts: 1,
        max_command_buffer_len: COMMAND_BUFFER_MAX,
        tcp: TcpConfig {
            nodelay: Some(true),
            // Without it, a write to a dead network blocks for a quarter of an hour, and `fred`
            // with it.
            #[cfg(target_os = "linux")]
            user_timeout: Some(UNACKNOWLEDGED_MAX),
            ..Default::default()
        },
        // Until TCP gives up, a silent peer looks like a live connection.
        unresponsive: UnresponsiveConfig {
            max_timeout: Some(Duration::from_secs(1)),
            interval: Duration::from_millis(250),
        },
        ..Default::default()
    }
}

/// Keeps a client connected. Calls `connected` for each connection and `failed` for each failure.
/// Never ends by itself.
pub(super) async fn keep_connected(client: Client, connected: impl Fn(), failed: impl Fn(&FredError)) {
    let mut connections = client.reconnect_rx();
    let mut failures = client.error_rx();
    let announce = async {
        while !matches!(connections.recv().await, Err(RecvError::Closed)) {
            connected();
        }
    };
    let connect = async {
        loop {
            let end = AbortOnDropHandle::new(client.connect()).await;
            debug!(?end, "the client stopped connecting to the store; it is started again");
            sleep(PAUSE_AFTER_CLIENT_END).await;
        }
    };
    let report_failures = async {
        loop {
            match failures.recv().await {
                Ok((reason, _server)) => failed(&reason),
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    };
    tokio::join!(announce, connect, report_failures);
}
