//! The way to Redis: a few multiplexed connections, a deadline on every attempt, and a second try
//! for what may be tried twice. Nothing outside this folder knows `fred`.
//!
//! `fred` connects again by itself, but does not notice a connection that died without a word while
//! commands keep being written to it: see `line.rs`.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fred::clients::{Client, Pool};
use fred::error::{Error as FredError, ErrorKind};
use fred::interfaces::{ClientLike, ClusterInterface, LuaInterface};
use fred::types::cluster::ClusterRouting;
use fred::types::config::{
    ConnectionConfig, PerformanceConfig, ReconnectPolicy, Server, TcpConfig, UnresponsiveConfig,
};
use fred::types::{ClusterHash, CustomCommand, Key, Value};
use fred::util::redis_keyslot;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use super::keys::{self, QueueKeys};
use super::layout::{KEY_OF_LAYOUT_1, LAYOUT, Layout};
use super::line::{Line, Lines};
use super::reply::Reply;
use super::script::{QUEUE_SETTLE, Script};
use super::slots::{SLOTS, due_key};
use super::uri::RedisUri;
use crate::storage::Error;

/// More connections gave nothing: each is multiplexed.
const CONNECTIONS: usize = 2;
/// How long one attempt may take. A script takes a few milliseconds at most.
const ATTEMPT: Duration = Duration::from_millis(450);
/// How long one command of it may. Shorter, so that `fred` itself gives the command up and does not
/// send it much later, when there is a connection again and nobody waits any more.
const COMMAND: Duration = Duration::from_millis(400);
/// How long attempts go on; the last may outlast it by its own time, which stays below two seconds.
const PATIENCE: Duration = Duration::from_millis(1_300);
const PAUSE_BETWEEN_ATTEMPTS: Duration = Duration::from_millis(30);
const PAUSE_BETWEEN_RECONNECTS_MS: u32 = 100;
const PAUSE_BETWEEN_LAYOUT_READS: Duration = Duration::from_millis(100);
const PAUSE_BETWEEN_QUESTIONS: Duration = Duration::from_secs(5);
/// More waiting commands than this are refused: `fred` keeps them in memory while it is cut off.
const COMMANDS_WAITING_MAX: usize = 20_000;

/// What a script answers when something is due in its queue.
const DUE: &str = "due";
/// The key of commands that any node answers.
const ANYWHERE: &str = "";
/// How long the other side may leave what was sent unacknowledged, or its windows closed.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(1);

/// How `fred` goes about a connection.
pub(super) struct Manner {
    pub(super) performance: PerformanceConfig,
    pub(super) connection: ConnectionConfig,
    pub(super) reconnect: ReconnectPolicy,
}

/// With deadlines on everything, and no attempt that is not ours.
pub(super) fn manner() -> Manner {
    Manner {
        performance: PerformanceConfig { default_command_timeout: COMMAND, ..Default::default() },
        connection: ConnectionConfig {
            connection_timeout: Duration::from_secs(1),
            internal_command_timeout: Duration::from_secs(1),
            max_command_attempts: 1,
            // A `MOVED` brings the new map of the cluster and then counts as a failed attempt, so the next
            // one knows the way. An `ASK` waits for its slot to have moved: `fred` reads the reply to
            // `ASKING` from among those of other commands, which could then get each other's.
            max_redirections: 0,
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
        },
        reconnect: ReconnectPolicy::new_constant(0, PAUSE_BETWEEN_RECONNECTS_MS),
    }
}

/// Connections to a Redis server, a Sentinel group or a cluster.
#[derive(Clone)]
pub(super) struct Connection {
    lines: Lines,
    layout: Layout,
}

impl Connection {
    /// Begins to connect. Does not wait: a store that is not there yet is one that will come.
    pub(super) fn open(uri: &RedisUri) -> Result<Self, Error> {
        let manner = manner();
        let (performance, connection, reconnect) = (manner.performance, manner.connection, manner.reconnect);
        let pool = Pool::new(uri.config(), Some(performance), Some(connection), Some(reconnect), CONNECTIONS)
            .map_err(|error| Error::Unavailable(error.to_string()))?;
        let this = Self { lines: Lines::open(pool.clients()), layout: Layout::unknown() };
        let reconnected = this.lines.reconnected();
        tokio::spawn(this.clone().verify_layout(reconnected));
        tokio::spawn(this.clone().report_settings());
        Ok(this)
    }

    /// Completes if the store turns out to have a layout that this release does not know, and says so.
    pub(super) async fn refused(&self) -> String {
        self.layout.refused().await
    }

    /// Notified after each reconnection and each change of a cluster.
    pub(super) fn reconnected(&self) -> Arc<Notify> {
        self.lines.reconnected()
    }

    /// All slots, by the server that has them; those of a cluster that nobody has are left out. An empty list if the
    /// cluster is not known.
    pub(super) fn slots_by_server(&self) -> Vec<Vec<u16>> {
        if !self.lines.are_clustered() {
            return vec![vec![0]];
        }
        let mut by_server: HashMap<Server, Vec<u16>> = HashMap::new();
        let state = self.lines.next().client().cached_cluster_state();
        for range in state.iter().flat_map(ClusterRouting::slots) {
            by_server
                .entry(range.primary.clone())
                .or_default()
                .extend((range.start..=range.end).filter(|slot| *slot < SLOTS));
        }
        by_server.into_values().collect()
    }

    /// Which part of the store has keys with that hash tag: what is in one can be touched by one script.
    pub(super) fn slot(&self, key: &str) -> u16 {
        if self.lines.are_clustered() { redis_keyslot(key.as_bytes()) } else { 0 }
    }

    /// Runs a script on a queue. It must bear being run twice: an answer may be lost on the way.
    pub(super) async fn run(&self, script: &Script, queue: &QueueKeys, args: &[Bytes]) -> Result<Reply, Error> {
        self.evaluate(script, self.keys(script, queue), args.to_vec(), always).await
    }

    /// The same with keys that are no queue's.
    pub(super) async fn run_on(&self, script: &Script, keys: Vec<String>, args: Vec<Bytes>) -> Result<Reply, Error> {
        self.evaluate(script, keys, args, always).await
    }

    /// Runs a script on a queue in which nothing is due: applies what is due first, in steps. Returns the kind of its answer,
    /// and the rest.
    pub(super) async fn run_settled(
        &self,
        script: &Script,
        queue: &QueueKeys,
        args: &[Bytes],
    ) -> Result<(String, Reply), Error> {
        self.evaluate_settled(script, queue, args, always).await
    }

    /// The same for a script that must not be run twice: it is repeated only if it certainly was not run. If its answer is lost,
    /// so is what it did.
    pub(super) async fn run_settled_once(
        &self,
        script: &Script,
        queue: &QueueKeys,
        args: &[Bytes],
    ) -> Result<(String, Reply), Error> {
        self.evaluate_settled(script, queue, args, has_not_run).await
    }

    async fn evaluate_settled(
        &self,
        script: &Script,
        queue: &QueueKeys,
        args: &[Bytes],
        may_repeat: fn(&FredError) -> bool,
    ) -> Result<(String, Reply), Error> {
        loop {
            let mut reply = self.evaluate(script, self.keys(script, queue), args.to_vec(), may_repeat).await?;
            let kind = reply.text()?;
            if kind != DUE {
                return Ok((kind, reply));
            }
            self.settle(queue).await?;
        }
    }

    /// Applies what is due in a queue, some hundreds of messages in a script, so that others get their turn in between.
    pub(super) async fn settle(&self, queue: &QueueKeys) -> Result<(), Error> {
        while self.run(&QUEUE_SETTLE, queue, &[]).await?.text()? == "again" {}
        Ok(())
    }

    /// The keys that a script gets of a queue.
    fn keys(&self, script: &Script, queue: &QueueKeys) -> Vec<String> {
        queue.parts(script.keys, self.slot(queue.prefix()))
    }

    async fn evaluate(
        &self,
        script: &Script,
        keys: Vec<String>,
        args: Vec<Bytes>,
        may_repeat: fn(&FredError) -> bool,
    ) -> Result<Reply, Error> {
        let slot = keys.first().cloned().unwrap_or_default();
        let keys: Vec<Key> = keys.into_iter().map(Key::from).collect();
        let args: Vec<Value> = args.into_iter().map(Value::from).collect();
        let attempt = |client| evaluate(client, script, keys.clone(), args.clone());
        self.admit(script.name).await?;
        self.persist(script.name, &slot, may_repeat, attempt).await
    }

    /// Runs a plain command on the slot of `key`; it must bear being run twice.
    pub(super) async fn command(&self, name: &'static str, key: &str, args: &[&str]) -> Result<Reply, Error> {
        let args = args.iter().map(|arg| Value::from(*arg));
        self.command_with(name, key, args).await
    }

    /// The same with arguments of any kind.
    pub(super) async fn command_with(
        &self,
        name: &'static str,
        key: &str,
        args: impl IntoIterator<Item = Value>,
    ) -> Result<Reply, Error> {
        self.admit(name).await?;
        self.unchecked(name, key, args).await
    }

    /// Runs a plain command without a key on the server that has the slot; it must bear being run twice.
    pub(super) async fn command_on(&self, slot: u16, name: &'static str, args: &[&str]) -> Result<Reply, Error> {
        self.admit(name).await?;
        let command = CustomCommand::new_static(name, ClusterHash::Custom(slot), false);
        let words: Vec<Value> = args.iter().map(|word| Value::from(*word)).collect();
        let key = due_key(slot);
        self.persist(name, &key, always, |client| custom(client, command.clone(), words.clone())).await
    }

    /// The same as `command_with`, whatever layout the store has.
    async fn unchecked(
        &self,
        name: &'static str,
        key: &str,
        args: impl IntoIterator<Item = Value>,
    ) -> Result<Reply, Error> {
        let command = CustomCommand::new_static(name, ClusterHash::from(key), false);
        let words: Vec<Value> = [Value::from(key)].into_iter().chain(args).collect();
        self.persist(name, key, always, |client| custom(client, command.clone(), words.clone())).await
    }

    /// Succeeds if Redis answers.
    pub(super) async fn ping(&self) -> Result<(), Error> {
        self.admit("PING").await?;
        let command = CustomCommand::new_static("PING", ClusterHash::Random, false);
        self.persist("PING", ANYWHERE, always, |client| custom(client, command.clone(), Vec::new()))
            .await
            .map(|_pong| ())
    }

    /// Waits until the store is known to have our layout.
    async fn admit(&self, what: &str) -> Result<(), Error> {
        if self.layout.is_ours() {
            return Ok(());
        }
        let patience = PATIENCE.saturating_sub(self.lines.cut_off_for());
        self.layout.admit(patience).await.map_err(|error| match error {
            Error::Unavailable(reason) => Error::Unavailable(format!("{what}: {reason}")),
            error @ Error::Corrupt(_) => error,
        })
    }

    /// Reads the layout of the store now and after each reconnection.
    async fn verify_layout(self, reconnected: Arc<Notify>) {
        loop {
            match self.read_layout().await {
                Ok(version) => {
                    self.layout.found(version.as_deref());
                    reconnected.notified().await;
                }
                Err(_away) => sleep(PAUSE_BETWEEN_LAYOUT_READS).await,
            }
        }
    }

    /// The version of the layout, written if the store is empty; `None` for a store without one that is not.
    async fn read_layout(&self) -> Result<Option<String>, Error> {
        // In this order: another process may be writing the version, and does so before anything else.
        let is_layout_1 = self.unchecked("EXISTS", KEY_OF_LAYOUT_1, []).await?.number()? > 0;
        let version = self.unchecked("GET", keys::LAYOUT, []).await?.text_or_nil()?;
        if version.is_some() || is_layout_1 {
            return Ok(version);
        }
        self.unchecked("SET", keys::LAYOUT, [LAYOUT, "NX"].map(Value::from)).await?;
        self.unchecked("GET", keys::LAYOUT, []).await?.text_or_nil()
    }

    /// Attempts until there is an answer, or a failure after which there may not be another attempt.
    async fn persist<F>(
        &self,
        what: &str,
        key: &str,
        may_repeat: fn(&FredError) -> bool,
        attempt: impl Fn(Client) -> F,
    ) -> Result<Reply, Error>
    where
        F: Future<Output = Result<Value, FredError>>,
    {
        // Others have waited for it in vain.
        if self.lines.cut_off_for() > PATIENCE {
            return Err(Error::Unavailable(format!("{what}: there is no connection")));
        }
        let give_up = Instant::now() + PATIENCE;
        loop {
            let line = self.lines.next();
            let failure = match try_once(line, key, &attempt).await {
                Ok(value) => return Ok(Reply::new(value)),
                Err(error) if is_final(&error) => return Err(refusal(what, &error)),
                Err(error) => error,
            };
            if Instant::now() >= give_up || !may_repeat(&failure) {
                return Err(Error::Unavailable(format!("{what}: {failure}")));
            }
            sleep(PAUSE_BETWEEN_ATTEMPTS).await;
        }
    }

    /// Tells the operator about settings under which Redis may drop what was acknowledged.
    async fn report_settings(self) {
        self.lines.connected().await;
        info!("connected to the store");
        let command = CustomCommand::new_static("INFO", ClusterHash::Random, false);
        let memory = loop {
            let words = vec![Value::from("memory")];
            if let Ok(mut reply) =
                self.persist("INFO", ANYWHERE, always, |client| custom(client, command.clone(), words.clone())).await
            {
                break reply.text().unwrap_or_default();
            }
            sleep(PAUSE_BETWEEN_QUESTIONS).await;
        };
        let policy =
            memory.lines().find_map(|line| line.trim().strip_prefix("maxmemory_policy:")).unwrap_or("noeviction");
        if policy != "noeviction" {
            warn!(
                policy,
                "Redis evicts keys when it is full and so loses messages: set maxmemory-policy to noeviction"
            );
        }
    }
}

async fn try_once<F>(line: &Line, key: &str, attempt: impl Fn(Client) -> F) -> Result<Value, FredError>
where
    F: Future<Output = Result<Value, FredError>>,
{
    let began = Instant::now();
    let elapsed = |_| Err(FredError::new(ErrorKind::Timeout, "no answer in time"));
    let answer = timeout(ATTEMPT, attempt(line.client())).await.unwrap_or_else(elapsed);
    match &answer {
        Ok(_) => line.has_answered(key),
        Err(error) if is_said_by_redis(error) => line.has_answered(key),
        Err(error) if *error.kind() == ErrorKind::Timeout => line.hang_up_if_silent_since(began, key),
        Err(_) => {}
    }
    answer
}

async fn evaluate(client: Client, script: &Script, keys: Vec<Key>, args: Vec<Value>) -> Result<Value, FredError> {
    match client.evalsha(script.sha(), keys.clone(), args.clone()).await {
        Err(error) if error.details().starts_with("NOSCRIPT") => client.eval(script.text(), keys, args).await,
        answer => answer,
    }
}

async fn custom(client: Client, command: CustomCommand, words: Vec<Value>) -> Result<Value, FredError> {
    client.custom(command, words).await
}

fn always(_failure: &FredError) -> bool {
    true
}

/// Whether a command that failed so has certainly not been run: Redis said no, or there was no node
/// yet to send it to.
fn has_not_run(failure: &FredError) -> bool {
    is_said_by_redis(failure) || failure.details().starts_with("Missing cluster routing state")
}

/// Whether Redis has answered so that another attempt would be told the same.
fn is_final(error: &FredError) -> bool {
    let passing = ["LOADING", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN", "BUSY ", "MOVED", "ASK "];
    match error.kind() {
        ErrorKind::InvalidArgument | ErrorKind::InvalidCommand => true,
        _ => is_said_by_redis(error) && !passing.iter().any(|word| error.details().starts_with(word)),
    }
}

/// Redis begins its errors with a word in capitals. `fred` has complaints of its own, of the same
/// kinds: that it has no connection right now, for instance.
fn is_said_by_redis(error: &FredError) -> bool {
    let word = error.details().split(' ').next().unwrap_or_default();
    word.len() >= 2 && word.bytes().all(|byte| byte.is_ascii_uppercase())
}

fn refusal(what: &str, error: &FredError) -> Error {
    match error.kind() {
        ErrorKind::Auth => Error::Unavailable(format!("{what}: {}", error.details())),
        _ => refused(what, error.details()),
    }
}

/// What Redis says when it will not write now is its operator's business; anything else is our bug.
pub(super) fn refused(what: &str, said: &str) -> Error {
    let passing = ["OOM ", "READONLY", "MISCONF", "NOREPLICAS", "NOAUTH", "NOPERM", "WRONGPASS"];
    if passing.iter().any(|word| said.contains(word)) {
        Error::Unavailable(format!("{what}: {said}"))
    } else {
        Error::Corrupt(format!("{what}: {said}"))
    }
}
