//! The way to Redis: a few multiplexed connections, a deadline on every attempt, and a second try
//! for what may be tried twice. Nothing outside this folder knows `fred`.
//!
//! `fred` connects again by itself, but does not notice a connection that died without a word while
//! commands keep being written to it: see `line.rs`.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use fred::clients::{Client, Pool};
use fred::error::{Error as FredError, ErrorKind};
use fred::interfaces::{ClientLike, LuaInterface};
use fred::types::config::{ConnectionConfig, PerformanceConfig, ReconnectPolicy, TcpConfig, UnresponsiveConfig};
use fred::types::{ClusterHash, CustomCommand, Key, Value};
use fred::util::redis_keyslot;
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use super::line::{Line, Lines};
use super::reply::Reply;
use super::script::Script;
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
const PAUSE_BETWEEN_QUESTIONS: Duration = Duration::from_secs(5);
/// More waiting commands than this are refused: `fred` keeps them in memory while it is cut off.
const COMMANDS_WAITING_MAX: usize = 20_000;

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
}

impl Connection {
    /// Begins to connect. Does not wait: a store that is not there yet is one that will come.
    pub(super) fn open(uri: &RedisUri) -> Result<Self, Error> {
        let manner = manner();
        let (performance, connection, reconnect) = (manner.performance, manner.connection, manner.reconnect);
        let pool = Pool::new(uri.config(), Some(performance), Some(connection), Some(reconnect), CONNECTIONS)
            .map_err(|error| Error::Unavailable(error.to_string()))?;
        let this = Self { lines: Lines::open(pool.clients()) };
        tokio::spawn(this.clone().report_settings());
        Ok(this)
    }

    /// Which part of the store has keys with that hash tag: what is in one can be touched by one script.
    pub(super) fn slot(&self, key: &str) -> u16 {
        if self.lines.are_clustered() { redis_keyslot(key.as_bytes()) } else { 0 }
    }

    /// Runs a script, which must bear being run twice: an answer may be lost on the way.
    pub(super) async fn run(&self, script: &Script, keys: Vec<String>, args: Vec<Bytes>) -> Result<Reply, Error> {
        self.evaluate(script, keys, args, always).await
    }

    /// Runs a script on a queue until it has nothing left to settle; each run settles some, so it ends. What kind of answer
    /// it has, and the rest of that.
    pub(super) async fn run_settled(
        &self,
        script: &Script,
        keys: Vec<String>,
        args: &[Bytes],
    ) -> Result<(String, Reply), Error> {
        loop {
            let mut reply = self.run(script, keys.clone(), args.to_vec()).await?;
            let kind = reply.text()?;
            if kind != "again" {
                return Ok((kind, reply));
            }
        }
    }

    /// Runs a script that must not be run twice: again only if it certainly was not run. If its answer is
    /// lost, so is what it did.
    pub(super) async fn run_once(&self, script: &Script, keys: Vec<String>, args: Vec<Bytes>) -> Result<Reply, Error> {
        self.evaluate(script, keys, args, has_not_run).await
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
        self.persist(script.name, &slot, may_repeat, attempt).await
    }

    /// Runs a plain command on the slot of `key`; it must bear being run twice.
    pub(super) async fn command(&self, name: &'static str, key: &str, args: &[&str]) -> Result<Reply, Error> {
        let command = CustomCommand::new_static(name, ClusterHash::from(key), false);
        let words: Vec<Value> = [key].iter().chain(args).map(|word| Value::from(*word)).collect();
        self.persist(name, key, always, |client| custom(client, command.clone(), words.clone())).await
    }

    /// Succeeds if Redis answers.
    pub(super) async fn ping(&self) -> Result<(), Error> {
        let command = CustomCommand::new_static("PING", ClusterHash::Random, false);
        self.persist("PING", ANYWHERE, always, |client| custom(client, command.clone(), Vec::new()))
            .await
            .map(|_pong| ())
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
        Err(error) if error.details().starts_with("NOSCRIPT") => client.eval(script.text, keys, args).await,
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
