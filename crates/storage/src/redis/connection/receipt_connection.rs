//! A connection on which a script runs and waits until its effects are durable.
//!
//! `WAIT` and `WAITAOF` block their connection, and wait only for what was written on it. So the
//! script and the commands that wait are one pipeline. The connection is never reconnected: if it
//! is lost, what has run on it gets no receipt.
//!
//! - A repeated script may write nothing, so a write follows it that always happens. A replica that
//!   has this write also has all earlier ones, whichever connection they came on.
//! - The pipeline begins and ends with `INFO replication`. A server that is a master with the same
//!   replication id both times was a master throughout. A replica that becomes a master gets a new
//!   id, so a server that was demoted in between gives no receipt, even if it was promoted again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fred::clients::Client;
use fred::error::{Error as FredError, ErrorKind};
use fred::interfaces::ClientLike;
use fred::types::config::{Config, ConnectionConfig, PerformanceConfig, UnresponsiveConfig};
use fred::types::{ClusterHash, CustomCommand, Value};
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::failure::{is_redis_reply, not_connected};
use super::pool::connection_config;
use sukkal_domain::Durability;

/// Maximum time between the end of a wait in Redis and the arrival of its reply.
pub(in crate::redis) const REPLY_DELAY_MAX: Duration = Duration::from_millis(400);
/// How long the key of the write after the script exists, in milliseconds.
const MARK_LIFETIME_MS: &str = "1000";

const NO_WAIT: &str = "This store cannot confirm \"Durability: replicas=N\": its user in Redis needs the command WAIT.";
const NO_FSYNC: &str = "This store cannot confirm \"Durability: fsync\": Redis needs the setting appendonly yes, \
                        and appendfsync always or, since Redis 7.2, everysec. \"Durability: replicas=N\" is possible.";

/// Why an attempt has no result.
pub(super) enum ReceiptFailure {
    /// The server cannot confirm this level. The script has not run.
    Unsupported(&'static str),
    /// The server has only this number of replicas. The script has not run.
    TooFewReplicas(u64),
    /// The script has not run.
    NotRun(FredError),
    /// The script may have run.
    Unknown(FredError),
}

/// The reply of a script, and the reason if the level was not reached in time.
pub(super) type Attempt = Result<(Value, Result<(), String>), ReceiptFailure>;

/// A connection that ends with its first failure.
pub(super) struct ReceiptConnection {
    client: Client,
    /// Whether the user may run `WAIT`.
    has_wait: bool,
    fsync: Option<FsyncProof>,
    /// Number of replicas when the server was last asked.
    replicas: AtomicU64,
    _connecting: AbortOnDropHandle<Result<(), FredError>>,
}

/// How a server proves that it has synced its writes to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FsyncProof {
    /// `WAITAOF`, which exists since Redis 7.2 and in Valkey.
    WaitAof,
    /// The settings `appendonly yes` and `appendfsync always`, with which Redis replies to a write
    /// only after the sync.
    Settings,
}

type Command = (&'static str, Vec<Value>);

impl ReceiptConnection {
    /// Connects to the master, and finds out what it can confirm.
    pub(super) async fn open(config: &Config) -> Result<Self, FredError> {
        let connection = ConnectionConfig {
            // A connection that waits is silent.
            unresponsive: UnresponsiveConfig { max_timeout: None, ..UnresponsiveConfig::default() },
            ..connection_config()
        };
        // Otherwise a client without a reconnect policy would not connect at all.
        let config = Config { fail_fast: true, ..config.clone() };
        let client = Client::new(config, Some(PerformanceConfig::default()), Some(connection), None);
        let connecting = AbortOnDropHandle::new(client.connect());
        client.wait_for_connect().await?;
        let commands = [info(), command("WAIT", ["0", "1"]), command("WAITAOF", ["1", "0", "1"]), append_settings()];
        let [info, wait, wait_aof, settings] = send(&client, commands, Instant::now()).await?;
        let replicas = AtomicU64::new(replicas_of_master(&info?)?);
        let fsync = fsync_proof(&wait_aof, &settings);
        Ok(Self { client, has_wait: wait.is_ok(), fsync, replicas, _connecting: connecting })
    }

    pub(super) fn is_connected(&self) -> bool {
        self.client.is_connected()
    }

    /// Returns how the server proves the sync that the level requires, if it requires one. The
    /// error says why the server cannot confirm the level.
    pub(super) fn fsync_proof(&self, level: Durability) -> Result<Option<FsyncProof>, &'static str> {
        match self.fsync {
            _ if level.replicas() > 0 && !self.has_wait => Err(NO_WAIT),
            None if level.requires_fsync() => Err(NO_FSYNC),
            proof => Ok(proof.filter(|_| level.requires_fsync())),
        }
    }

    /// Succeeds if the server had enough replicas for the level when it was last asked, or has them
    /// now. A replica that does not reply counts until the server gives up on it.
    pub(super) async fn require_replicas(&self, level: Durability) -> Result<(), ReceiptFailure> {
        let wanted = u64::from(level.replicas());
        if self.replicas.load(Ordering::Relaxed) >= wanted {
            return Ok(());
        }
        let [info] = send(&self.client, [info()], Instant::now()).await.map_err(ReceiptFailure::NotRun)?;
        let connected = info.and_then(|info| replicas_of_master(&info)).map_err(ReceiptFailure::NotRun)?;
        self.replicas.store(connected, Ordering::Relaxed);
        if connected < wanted { Err(ReceiptFailure::TooFewReplicas(connected)) } else { Ok(()) }
    }

    /// Runs the script and waits until its effects have reached the level.
    pub(super) async fn run(
        &self,
        (eval, script): (&'static str, &str),
        keys: &[String],
        args: &[Bytes],
        mark: &str,
        (level, deadline): (Durability, Instant),
    ) -> Attempt {
        let fsync = self.fsync_proof(level).map_err(ReceiptFailure::Unsupported)?;
        self.require_replicas(level).await?;
        let wait_ms = deadline.saturating_duration_since(Instant::now()).as_millis().max(1).to_string();
        let key_count = keys.len().to_string();
        let eval_args = [script, &key_count].into_iter().chain(keys.iter().map(String::as_str)).map(Value::from);
        let eval = (eval, eval_args.chain(args.iter().cloned().map(Value::from)).collect());
        // A command that has nothing to prove is replaced by one that returns at once.
        let fsync_command = match fsync {
            Some(FsyncProof::WaitAof) => command("WAITAOF", ["1", "0", &wait_ms]),
            Some(FsyncProof::Settings) => append_settings(),
            None => command("PING", []),
        };
        let wait = match level.replicas() {
            0 => command("PING", []),
            replicas => command("WAIT", [&replicas.to_string(), &wait_ms]),
        };
        let mark = command("SET", [mark, "", "PX", MARK_LIFETIME_MS]);
        let commands = [info(), eval, mark, wait, fsync_command, info()];
        let [before, result, marked, waited, synced, after] =
            send(&self.client, commands, deadline).await.map_err(ReceiptFailure::Unknown)?;
        let result = result.map_err(|error| {
            if is_redis_reply(&error) { ReceiptFailure::NotRun(error) } else { ReceiptFailure::Unknown(error) }
        })?;
        let (before, after) = (before.map_err(ReceiptFailure::Unknown)?, after.map_err(ReceiptFailure::Unknown)?);
        let history_before = history(&before);
        if history_before.is_none() || history_before != history(&after) {
            let message = "the server was not a master throughout";
            return Err(ReceiptFailure::Unknown(FredError::new(ErrorKind::Routing, message)));
        }
        self.replicas.store(replicas_of_master(&after).map_err(ReceiptFailure::Unknown)?, Ordering::Relaxed);
        let has_replicas = match level.replicas() {
            0 => Ok(()),
            count => has_received(&waited, count),
        };
        let is_synced = fsync.map_or(Ok(()), |proof| is_synced(proof, &synced));
        let is_marked = marked.map(drop).map_err(|error| error.to_string());
        Ok((result, is_marked.and(has_replicas).and(is_synced)))
    }
}

/// Sends the commands in one pipeline. Returns their replies, which must arrive soon after the
/// deadline.
async fn send<const N: usize>(
    client: &Client,
    commands: [Command; N],
    deadline: Instant,
) -> Result<[Result<Value, FredError>; N], FredError> {
    let pipeline = client.pipeline();
    for (name, args) in commands {
        let command = CustomCommand::new_static(name, ClusterHash::Random, false);
        let () = pipeline.custom(command, args).await?;
    }
    let wait_max = deadline.saturating_duration_since(Instant::now()) + REPLY_DELAY_MAX;
    let replies = timeout(wait_max, pipeline.try_all::<Value>()).await.map_err(|_| elapsed())?;
    let failure = replies.iter().find_map(|reply| reply.as_ref().err().cloned());
    replies.try_into().map_err(|_| failure.unwrap_or_else(not_connected))
}

fn command<const N: usize>(name: &'static str, args: [&str; N]) -> Command {
    (name, args.map(Value::from).into())
}

fn info() -> Command {
    command("INFO", ["replication"])
}

fn append_settings() -> Command {
    command("CONFIG", ["GET", "append*"])
}

pub(super) fn elapsed() -> FredError {
    FredError::new(ErrorKind::Timeout, "no answer in time")
}

/// Returns the replication id of a server by its `INFO replication`; `None` if it is not a master.
fn history(info: &Value) -> Option<String> {
    (field(info, "role:")? == "master").then(|| field(info, "master_replid:")).flatten()
}

/// Returns the number of replicas that are connected to a server, by its `INFO replication`. Fails
/// if it is not a master.
fn replicas_of_master(info: &Value) -> Result<u64, FredError> {
    if history(info).is_none() {
        return Err(FredError::new(ErrorKind::Routing, "the server is not a master"));
    }
    Ok(field(info, "connected_slaves:").and_then(|count| count.parse().ok()).unwrap_or_default())
}

/// Returns the text after `name` in a line of `INFO`.
fn field(info: &Value, name: &str) -> Option<String> {
    info.as_str()?.lines().find_map(|line| line.trim().strip_prefix(name)).map(str::to_owned)
}

/// Reads a reply to `WAIT`. The error says why it is not enough.
fn has_received(reply: &Result<Value, FredError>, wanted: u8) -> Result<(), String> {
    match reply {
        Ok(count) if count.as_u64().is_some_and(|count| count >= wanted.into()) => Ok(()),
        Ok(count) => Err(format!("{} of {wanted} replicas have confirmed it", count.as_u64().unwrap_or(0))),
        Err(error) => Err(error.to_string()),
    }
}

/// Reads a reply to the command that proves the sync. The error says why it does not.
fn is_synced(proof: FsyncProof, reply: &Result<Value, FredError>) -> Result<(), String> {
    let is_synced = match (proof, reply) {
        (_, Err(error)) => return Err(error.to_string()),
        (FsyncProof::Settings, Ok(settings)) => has_always(settings),
        (FsyncProof::WaitAof, Ok(counts)) => {
            counts.clone().into_array().first().and_then(Value::as_u64).is_some_and(|local| local >= 1)
        }
    };
    is_synced.then_some(()).ok_or_else(|| "the server has not synced it in time".to_owned())
}

/// Decides by the replies to `WAITAOF` and `CONFIG GET` how a server proves its syncs; `None` if it
/// does not.
fn fsync_proof(wait_aof: &Result<Value, FredError>, settings: &Result<Value, FredError>) -> Option<FsyncProof> {
    let settings = settings.as_ref().ok();
    // With `no`, Redis never knows what is on disk.
    let is_off = settings.is_some_and(|settings| setting(settings, "appendfsync").is_some_and(|value| value == "no"));
    if wait_aof.is_ok() && !is_off {
        Some(FsyncProof::WaitAof)
    } else {
        settings.is_some_and(has_always).then_some(FsyncProof::Settings)
    }
}

fn has_always(settings: &Value) -> bool {
    let is = |name, wanted| setting(settings, name).is_some_and(|value| value == wanted);
    is("appendonly", "yes") && is("appendfsync", "always")
}

fn setting(settings: &Value, name: &str) -> Option<String> {
    settings.clone().convert::<HashMap<String, String>>().ok()?.remove(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(role: &str, id: &str) -> Value {
        format!("# Replication\r\nrole:{role}\r\nmaster_replid:{id}\r\nmaster_replid2:0\r\n").into()
    }

    #[test]
    fn a_server_has_the_same_history_only_as_a_master_with_the_same_id() {
        let before = history(&info("master", "a"));

        assert!(before.is_some());
        assert_eq!(before, history(&info("master", "a")));
        // It was demoted and promoted again.
        assert_ne!(before, history(&info("master", "b")));
        assert_eq!(history(&info("slave", "a")), None);
    }
}
