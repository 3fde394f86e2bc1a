//! Lines: connections to a server that are replaced when they have died without a word.
//!
//! `fred` counts the time since its last write to a connection, so while commands keep coming it
//! would wait for ever for one that says nothing. A line that leaves an attempt unanswered, and
//! whatever else was asked since that attempt began, is taken for dead.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fred::clients::Client;
use fred::error::{Error as FredError, ErrorKind};
use fred::interfaces::{ClientLike, EventInterface};
use fred::types::Value;
use fred::types::config::{
    Config, ConnectionConfig, PerformanceConfig, ReconnectPolicy, TcpConfig, UnresponsiveConfig,
};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, warn};

use super::condition::Condition;
use super::failure::{is_said_by_redis, not_connected};

/// More connections to a server gave nothing: each is multiplexed.
const LINES: usize = 2;
/// How long one attempt may take. A script takes a few milliseconds at most.
const ATTEMPT: Duration = Duration::from_millis(450);
/// How long one command of it may. Shorter, so that `fred` itself gives the command up and does not
/// send it much later, when there is a connection again and nobody waits any more.
const COMMAND: Duration = Duration::from_millis(400);
const PAUSE_BETWEEN_RECONNECTS_MS: u32 = 100;
/// How long a client rests that has given up, which it does where it sees no sense in going on.
const REST: Duration = Duration::from_secs(1);
/// More waiting commands than this are refused: `fred` keeps them in memory while it is cut off.
const COMMANDS_WAITING_MAX: usize = 20_000;
/// How long the other side may leave what was sent unacknowledged, or its windows closed.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(1);

/// The lines to one server.
pub(super) struct Lines {
    all: Vec<Line>,
    next: AtomicUsize,
    cut_off_since: Mutex<Option<Instant>>,
    pub(super) condition: Arc<Condition>,
}

/// One connection. It ends when this is dropped.
pub(super) struct Line {
    client: Client,
    condition: Arc<Condition>,
    last_answer: Arc<Mutex<Instant>>,
    hanging_up: Arc<AtomicBool>,
    _connecting: AbortOnDropHandle<()>,
}

impl Lines {
    /// Begins to connect, and goes on for as long as this exists. Each connection is announced.
    pub(super) fn open(config: &Config, connected: &watch::Sender<()>) -> Self {
        let clients: Vec<Client> = (0..LINES).map(|_| client(config, PerformanceConfig::default())).collect();
        let condition = Arc::new(Condition::new(config, clients.clone()));
        let all = clients.into_iter().map(|client| Line::over(client, &condition, connected.clone())).collect();
        Self { all, next: AtomicUsize::default(), cut_off_since: Mutex::default(), condition }
    }

    /// The next line in turn, if possible one that is connected.
    pub(super) fn next(&self) -> &Line {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let in_turn = |offset| &self.all[turn.wrapping_add(offset) % self.all.len()];
        let connected = (0..self.all.len()).map(in_turn).find(|line| line.client.is_connected());
        connected.unwrap_or_else(|| in_turn(0))
    }

    pub(super) fn is_connected(&self) -> bool {
        self.all.iter().any(|line| line.client.is_connected())
    }

    /// Whether the server has answered nobody since that moment.
    pub(super) fn are_silent_since(&self, moment: Instant) -> bool {
        self.all.iter().all(|line| *lock(&line.last_answer) < moment)
    }

    /// For how long there has been no connection at all, as far as anybody has asked.
    pub(super) fn cut_off_for(&self) -> Duration {
        let mut since = lock(&self.cut_off_since);
        if self.is_connected() {
            *since = None;
        } else {
            since.get_or_insert_with(Instant::now);
        }
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

impl Line {
    /// Begins to connect, without telling the operator how that goes.
    pub(super) fn open(config: &Config) -> Self {
        let client = client(config, PerformanceConfig::default());
        let condition = Arc::new(Condition::unreported(config, vec![client.clone()]));
        Self::over(client, &condition, watch::Sender::new(()))
    }

    fn over(client: Client, condition: &Arc<Condition>, connected: watch::Sender<()>) -> Self {
        let connected = move || {
            connected.send_replace(());
        };
        let condition = condition.clone();
        let told = condition.clone();
        let connecting = keep_connected(client.clone(), connected, move |reason| told.disconnected(reason));
        Self {
            client,
            condition,
            last_answer: Arc::new(Mutex::new(Instant::now())),
            hanging_up: Arc::default(),
            _connecting: AbortOnDropHandle::new(tokio::spawn(connecting)),
        }
    }

    /// Waits for the connection.
    pub(super) async fn connected(&self) -> Result<(), FredError> {
        self.client.wait_for_connect().await
    }

    /// Why the server cannot be used, if that is known.
    pub(super) fn trouble(&self) -> Option<String> {
        self.condition.trouble()
    }

    /// Sends what is attempted when there is a connection, and waits for the answer, all in bounded time. Nothing is left to be sent
    /// later.
    pub(super) async fn attempt<F>(&self, attempt: impl FnOnce(Client) -> F) -> Result<Value, FredError>
    where
        F: Future<Output = Result<Value, FredError>>,
    {
        let began = Instant::now();
        let end = began + ATTEMPT;
        if !self.client.is_connected() {
            match timeout_at(end, self.client.wait_for_connect()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return Err(not_connected()),
            }
        }
        let elapsed = |_| Err(FredError::new(ErrorKind::Timeout, "no answer in time"));
        let answer = timeout_at(end, attempt(self.client.clone())).await.unwrap_or_else(elapsed);
        match answer.as_ref().err() {
            refusal if refusal.is_none_or(is_said_by_redis) => {
                *lock(&self.last_answer) = Instant::now();
                self.condition.answered(refusal);
            }
            Some(error) if *error.kind() == ErrorKind::Timeout => self.hang_up_if_silent_since(began),
            _ => {}
        }
        answer
    }

    /// Replaces the connection unless the server has answered somebody since `began`.
    fn hang_up_if_silent_since(&self, began: Instant) {
        // A client that is connecting already would do it once more afterwards.
        let lives = *lock(&self.last_answer) >= began || !self.client.is_connected();
        if lives || self.hanging_up.swap(true, Ordering::SeqCst) {
            return;
        }
        warn!("a connection to the store is silent and is replaced");
        let (client, last_answer, hanging_up) =
            (self.client.clone(), self.last_answer.clone(), self.hanging_up.clone());
        tokio::spawn(async move {
            let _next_attempt_tells = client.force_reconnection().await;
            *lock(&last_answer) = Instant::now();
            hanging_up.store(false, Ordering::SeqCst);
        });
    }
}

/// A client with deadlines on everything, and no attempt that is not ours.
pub(super) fn client(config: &Config, mut performance: PerformanceConfig) -> Client {
    performance.default_command_timeout = COMMAND;
    let connection = ConnectionConfig {
        connection_timeout: Duration::from_secs(1),
        internal_command_timeout: Duration::from_secs(1),
        max_command_attempts: 1,
        max_command_buffer_len: COMMANDS_WAITING_MAX,
        tcp: TcpConfig {
            nodelay: Some(true),
            // Without it a write to a dead network waits for a quarter of an hour, and `fred` with it.
            #[cfg(target_os = "linux")]
            user_timeout: Some(UNACKNOWLEDGED_MAX),
            ..Default::default()
        },
        // A peer that has gone silent looks like a live connection for as long as TCP is patient.
        unresponsive: UnresponsiveConfig {
            max_timeout: Some(Duration::from_secs(1)),
            interval: Duration::from_millis(250),
        },
        ..Default::default()
    };
    let reconnect = ReconnectPolicy::new_constant(0, PAUSE_BETWEEN_RECONNECTS_MS);
    Client::new(config.clone(), Some(performance), Some(connection), Some(reconnect))
}

/// Keeps a client connected, and announces each connection, and why there is none. Never ends by itself.
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
            debug!(?end, "a connection to the store was given up; it is tried again");
            sleep(REST).await;
        }
    };
    let complain = async {
        loop {
            match failures.recv().await {
                Ok((reason, _server)) => failed(&reason),
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    };
    tokio::join!(announce, connect, complain);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
