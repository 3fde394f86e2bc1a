//! The way to Redis: a few multiplexed connections, a deadline on every attempt, and a second try
//! for what may be tried twice. Nothing outside this folder knows `fred`.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use fred::clients::Pool;
use fred::error::{Error as FredError, ErrorKind};
use fred::interfaces::{ClientLike, LuaInterface};
use fred::types::config::{ConnectionConfig, PerformanceConfig, ReconnectPolicy, TcpConfig, UnresponsiveConfig};
use fred::types::{ClusterHash, CustomCommand, Key, Value};
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use super::reply::Reply;
use super::script::Script;
use super::uri::RedisUri;
use crate::storage::Error;

/// More connections gave nothing: each is multiplexed.
const CONNECTIONS: usize = 2;
/// How long one attempt may take. A script takes a few milliseconds at most.
const ATTEMPT: Duration = Duration::from_millis(450);
/// How long attempts go on; the last may outlast it by its own time, which stays below two seconds.
const PATIENCE: Duration = Duration::from_millis(1_300);
const PAUSE_BETWEEN_ATTEMPTS: Duration = Duration::from_millis(30);
const PAUSE_BETWEEN_RECONNECTS_MS: u32 = 100;
/// More waiting commands than this are refused: `fred` keeps them in memory while it is cut off.
const COMMANDS_WAITING_MAX: usize = 20_000;

/// Connections to a Redis server, a Sentinel group or a cluster.
#[derive(Clone)]
pub(super) struct Connection {
    pool: Pool,
}

impl Connection {
    /// Begins to connect. Does not wait: a store that is not there yet is one that will come.
    pub(super) fn open(uri: &RedisUri) -> Result<Self, Error> {
        let performance = PerformanceConfig { default_command_timeout: ATTEMPT, ..Default::default() };
        let connection = ConnectionConfig {
            connection_timeout: Duration::from_secs(1),
            internal_command_timeout: Duration::from_secs(1),
            max_command_attempts: 1,
            max_command_buffer_len: COMMANDS_WAITING_MAX,
            tcp: TcpConfig { nodelay: Some(true), ..Default::default() },
            // A peer that has gone silent looks like a live connection for as long as TCP is patient.
            unresponsive: UnresponsiveConfig {
                max_timeout: Some(Duration::from_secs(1)),
                interval: Duration::from_millis(250),
            },
            ..Default::default()
        };
        let reconnect = ReconnectPolicy::new_constant(0, PAUSE_BETWEEN_RECONNECTS_MS);
        let pool = Pool::new(uri.config(), Some(performance), Some(connection), Some(reconnect), CONNECTIONS)
            .map_err(|error| Error::Unavailable(error.to_string()))?;
        let _background = pool.connect();
        let this = Self { pool };
        tokio::spawn(this.clone().report_settings());
        Ok(this)
    }

    /// Runs a script, which must bear being run twice: an answer may be lost on the way.
    pub(super) async fn run(&self, script: &Script, keys: Vec<String>, args: Vec<Bytes>) -> Result<Reply, Error> {
        let keys: Vec<Key> = keys.into_iter().map(Key::from).collect();
        let args: Vec<Value> = args.into_iter().map(Value::from).collect();
        self.persist(script.name, || self.evaluate(script, keys.clone(), args.clone())).await
    }

    /// Runs a script that must not be run twice; if its answer is lost, so is what it did.
    pub(super) async fn run_once(&self, script: &Script, keys: Vec<String>, args: Vec<Bytes>) -> Result<Reply, Error> {
        let keys: Vec<Key> = keys.into_iter().map(Key::from).collect();
        let args: Vec<Value> = args.into_iter().map(Value::from).collect();
        match timeout(ATTEMPT, self.evaluate(script, keys, args)).await {
            Ok(Ok(value)) => Ok(Reply::new(value)),
            Ok(Err(error)) if is_final(&error) => Err(refusal(script.name, &error)),
            Ok(Err(error)) => Err(Error::Unavailable(format!("{}: {error}", script.name))),
            Err(_elapsed) => Err(Error::Unavailable(format!("{}: no answer in time", script.name))),
        }
    }

    /// Runs a plain command on the slot of `key`; it must bear being run twice.
    pub(super) async fn command(&self, name: &'static str, key: &str, args: &[&str]) -> Result<Reply, Error> {
        let command = CustomCommand::new_static(name, ClusterHash::from(key), false);
        let words: Vec<Value> = [key].iter().chain(args).map(|word| Value::from(*word)).collect();
        self.persist(name, || self.pool.custom(command.clone(), words.clone())).await
    }

    /// Succeeds if Redis answers.
    pub(super) async fn ping(&self) -> Result<(), Error> {
        let command = CustomCommand::new_static("PING", ClusterHash::Random, false);
        self.persist("PING", || self.pool.custom(command.clone(), Vec::<Value>::new())).await.map(|_pong| ())
    }

    async fn evaluate(&self, script: &Script, keys: Vec<Key>, args: Vec<Value>) -> Result<Value, FredError> {
        let client = self.pool.next();
        match client.evalsha(script.sha(), keys.clone(), args.clone()).await {
            Err(error) if error.details().starts_with("NOSCRIPT") => client.eval(script.text, keys, args).await,
            answer => answer,
        }
    }

    async fn persist<F>(&self, what: &str, attempt: impl Fn() -> F) -> Result<Reply, Error>
    where
        F: Future<Output = Result<Value, FredError>>,
    {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let reason = match timeout(ATTEMPT, attempt()).await {
                Ok(Ok(value)) => return Ok(Reply::new(value)),
                Ok(Err(error)) if is_final(&error) => return Err(refusal(what, &error)),
                Ok(Err(error)) => error.to_string(),
                Err(_elapsed) => "no answer in time".to_owned(),
            };
            if Instant::now() >= give_up {
                return Err(Error::Unavailable(format!("{what}: {reason}")));
            }
            sleep(PAUSE_BETWEEN_ATTEMPTS).await;
        }
    }

    /// Tells the operator about settings under which Redis may drop what was acknowledged.
    async fn report_settings(self) {
        if self.pool.wait_for_connect().await.is_err() {
            return;
        }
        info!("connected to the store");
        let command = CustomCommand::new_static("INFO", ClusterHash::Random, false);
        let Ok(memory) = self.pool.custom::<String, _>(command, vec!["memory"]).await else {
            return;
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

/// Whether Redis itself has answered, so that another attempt would be told the same.
fn is_final(error: &FredError) -> bool {
    let passing = ["LOADING", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN", "BUSY "];
    matches!(
        error.kind(),
        ErrorKind::Unknown | ErrorKind::InvalidArgument | ErrorKind::InvalidCommand | ErrorKind::Auth
    ) && !passing.iter().any(|word| error.details().starts_with(word))
}

/// What Redis says when it will not write now is its operator's business; anything else is our bug.
fn refusal(what: &str, error: &FredError) -> Error {
    let said = error.details();
    let passing = ["OOM ", "READONLY", "MISCONF", "NOREPLICAS", "NOAUTH", "NOPERM", "WRONGPASS"];
    if *error.kind() == ErrorKind::Auth || passing.iter().any(|word| said.contains(word)) {
        Error::Unavailable(format!("{what}: {said}"))
    } else {
        Error::Corrupt(format!("{what}: {said}"))
    }
}
