//! Sends every command to the server that has its slot, with a timeout for each attempt, and
//! retries commands that may be repeated. Nothing outside `storage/redis` uses `fred`.
//!
//! A server of a cluster that no longer has the slot replies so, and so does a server that is no
//! longer the master of its Sentinel group (`READONLY`). That counts as a failed attempt, and the
//! next attempt goes to the server that then has the slot. A server that is handing the slot over
//! (`ASK`, `TRYAGAIN`) is retried until it is done.

mod channel;
mod durable_script;
mod failure;
mod functions;
mod health;
mod layout;
mod listener;
mod pool;
mod receipt_connection;
mod receipts;
mod servers;
mod startup;
mod subscriber;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fred::clients::Client;
use fred::error::Error as FredError;
use fred::interfaces::ClientLike;
use fred::types::{ClusterHash, CustomCommand, Key, Value};
use tokio::time::{Instant, sleep};

pub(super) use self::failure::error_from_reply;
pub(super) use self::layout::{Version, layout_of, migrating_layout};
pub(super) use self::receipt_connection::REPLY_DELAY_MAX;
pub(super) use self::receipts::Receipt;
pub(super) use self::servers::Servers;
pub(super) use self::subscriber::Subscriber;

use self::channel::follow_channel;
use self::failure::{error_from_failure, has_not_run, is_permanent, is_read_only, no_server_known};
use self::layout::Layout;
use self::servers::Server;
use super::keys::{self, QueueKeys};
use super::library::Library;
use super::reply::Reply;
use super::script::{QUEUE_APPLY_DUE, Script};
use super::uri::Clock;
use crate::monitoring::ProcessedCounter;
use crate::{Admission, Error, Processed};
use sukkal_domain::TaskId;

/// How long a command is attempted. The last attempt may outlast it by its own timeout; together
/// they stay below two seconds.
const RETRY_TIMEOUT: Duration = Duration::from_millis(1_300);
const PAUSE_BETWEEN_ATTEMPTS: Duration = Duration::from_millis(30);

/// Kind of the reply of a script if due changes must be applied to its queue first.
const DUE: &str = "due";

/// Connections to a Redis server, a Sentinel group or a cluster. Clones share them.
#[derive(Clone)]
pub(super) struct Connection {
    pub(super) servers: Servers,
    layout: Layout,
    /// The clock that functions read.
    pub(super) clock: Clock,
    /// Whether scripts fail with [`Error::NoQueue`] on queues that do not exist.
    pub(super) requires_queues: bool,
    /// Messages that this process has processed.
    pub(super) processed: Arc<ProcessedCounter>,
}

/// What one run of `scripts/queue_apply_due.lua` reports.
pub(super) struct DueStep {
    /// The kind of the reply.
    pub(super) kind: String,
    /// Number of dead letters to forward.
    pub(super) dead_letters: u64,
    /// A task that no process works on.
    pub(super) abandoned_task: Option<TaskId>,
    /// Whether work is due for the deliveries of the queue.
    pub(super) are_deliveries_due: bool,
}

impl DueStep {
    /// Returns whether there may be more due changes.
    pub(super) fn has_more(&self) -> bool {
        self.kind == "again"
    }
}

impl Connection {
    /// Uses these servers, if they have this layout or are empty.
    pub(super) fn new(servers: Servers, clock: Clock, layout: &str) -> Self {
        let layout = Layout::expecting(layout);
        let this = Self { servers, layout, clock, requires_queues: false, processed: Arc::default() };
        this.servers.spawn(this.clone().verify_layout());
        this.servers.spawn(this.clone().warn_about_losses());
        this
    }

    /// Returns the same connections for scripts that fail with [`Error::NoQueue`] on queues that do
    /// not exist.
    pub(super) fn requiring_queues(&self) -> Self {
        Self { requires_queues: true, ..self.clone() }
    }

    /// Completes with a message if the store turns out to have a layout that this release does not
    /// support.
    pub(super) async fn unsupported_layout(&self) -> String {
        self.layout.unsupported().await
    }

    /// Returns the layout of the store, when it is known.
    pub(super) async fn layout_version(&self) -> Result<Version, Error> {
        self.require_layout("upgrade").await
    }

    /// Gives the store the layout of this release. The other processes notice it soon.
    pub(super) async fn upgrade_layout(&self) -> Result<(), Error> {
        let layout = self.layout.expected();
        self.command("SET", keys::LAYOUT, &[layout, "XX"]).await?;
        self.layout.set_version(Some(layout));
        Ok(())
    }

    /// Returns the admission that bounds the operations on a key.
    pub(super) fn admission_of(&self, key: impl FnOnce() -> String) -> Arc<Admission> {
        self.servers.admission(self.slot_with(key))
    }

    /// The same for a key that is made only if it is needed. It is not needed for the only slot of
    /// a single server.
    pub(super) fn slot_with(&self, key: impl FnOnce() -> String) -> u16 {
        if self.servers.are_clustered() { self.servers.slot(&key()) } else { 0 }
    }

    /// Runs a script on a queue. The script must be idempotent, because it is repeated if its reply
    /// is lost.
    pub(super) async fn run(&self, script: &Script, queue: &QueueKeys, args: &[Bytes]) -> Result<Reply, Error> {
        self.run_on(script, self.keys(script, queue), args.to_vec()).await
    }

    /// The same for keys that do not belong to a queue.
    pub(super) async fn run_on(&self, script: &Script, keys: Vec<String>, args: Vec<Bytes>) -> Result<Reply, Error> {
        self.evaluate(script, keys, args).await.map_err(Error::sent_or_not)
    }

    /// Runs a script on a queue. If due changes must be applied first, applies them in steps and
    /// runs the script again. Returns the kind of the reply, and the rest of it.
    pub(super) async fn run_applying_due(
        &self,
        script: &Script,
        queue: &QueueKeys,
        args: &[Bytes],
    ) -> Result<(String, Reply), Error> {
        self.take(script, queue, args).await.map_err(Error::sent_or_not)
    }

    /// The same for a script that takes messages. Fails with [`Error::NotSent`] if it has certainly
    /// not run.
    pub(super) async fn take(
        &self,
        script: &Script,
        queue: &QueueKeys,
        args: &[Bytes],
    ) -> Result<(String, Reply), Error> {
        let mut is_repeated = false;
        loop {
            let mut reply = self.evaluate(script, self.keys(script, queue), args.to_vec()).await?;
            let kind = reply.text()?;
            reply.is_repeated |= is_repeated;
            if kind != DUE {
                return Ok((kind, reply));
            }
            is_repeated = reply.is_repeated;
            self.apply_due(queue).await?;
        }
    }

    /// Applies the due changes of a queue, some hundreds of messages per script, so that other
    /// commands run in between.
    pub(super) async fn apply_due(&self, queue: &QueueKeys) -> Result<(), Error> {
        while self.apply_due_step(queue).await?.has_more() {}
        Ok(())
    }

    /// Applies some hundreds of due changes of a queue.
    pub(super) async fn apply_due_step(&self, queue: &QueueKeys) -> Result<DueStep, Error> {
        let mut reply = self.run(&QUEUE_APPLY_DUE, queue, &[]).await?;
        let (kind, dead_letters) = (reply.text()?, reply.number()?);
        let (task, expired) = (reply.bytes()?, reply.number()?);
        let are_deliveries_due = reply.number()? == 1;
        self.processed.add(Processed { expired, ..Processed::default() });
        let abandoned_task = <[u8; 16]>::try_from(&*task).ok().map(TaskId::from_bytes);
        Ok(DueStep { kind, dead_letters, abandoned_task, are_deliveries_due })
    }

    /// Returns the keys of a queue that a script gets.
    fn keys(&self, script: &Script, queue: &QueueKeys) -> Vec<String> {
        queue.named(script.keys, self.servers.slot(queue.prefix()))
    }

    async fn evaluate(&self, script: &Script, keys: Vec<String>, args: Vec<Bytes>) -> Result<Reply, Error> {
        let slot = keys.first().map_or(0, |key| self.servers.slot(key));
        let absent = self.servers.are_clustered().then(|| keys::absent(slot));
        let keys: Vec<Key> = keys.into_iter().chain(absent).map(Key::from).collect();
        let args: Vec<Value> = args.into_iter().map(Value::from).collect();
        let library = self.library(script.name).await?;
        let function = library.function(script, self.requires_queues);
        let attempt = |client, server: Arc<Server>| {
            let (keys, args) = (keys.clone(), args.clone());
            async move { server.functions.call(library, client, function.clone(), keys, args).await }
        };
        self.retry(script.name, slot, attempt).await
    }

    /// Runs a command on the slot of `key`. The command must be idempotent.
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
        self.require_layout(name).await?;
        self.command_unchecked(name, key, args).await
    }

    /// Runs a command without a key on the server that has the slot. The command must be
    /// idempotent.
    pub(super) async fn command_on(&self, slot: u16, name: &'static str, args: &[&str]) -> Result<Reply, Error> {
        self.require_layout(name).await?;
        self.send_command(name, slot, args.iter().map(|word| Value::from(*word)).collect()).await
    }

    /// The same as `command_with`, whatever layout the store has.
    pub(super) async fn command_unchecked(
        &self,
        name: &'static str,
        key: &str,
        args: impl IntoIterator<Item = Value>,
    ) -> Result<Reply, Error> {
        let args = [Value::from(key)].into_iter().chain(args).collect();
        self.send_command(name, self.servers.slot(key), args).await
    }

    async fn send_command(&self, name: &'static str, slot: u16, args: Vec<Value>) -> Result<Reply, Error> {
        // The command goes to a client of one server, so the hash policy is not used.
        let command = CustomCommand::new_static(name, ClusterHash::Random, false);
        let attempt = |client, _server| send(client, command.clone(), args.clone());
        self.retry(name, slot, attempt).await.map_err(Error::sent_or_not)
    }

    /// Passes on all that is published on a channel that does not belong to a slot, from soon on.
    pub(super) fn follow(&self, channel: &'static str, receive: impl Fn(&[u8]) + Clone + Send + 'static) {
        self.servers.spawn(follow_channel(self.servers.clone(), channel, receive));
    }

    /// Publishes a message on a channel that does not belong to a slot.
    pub(super) async fn publish(&self, channel: &str, message: &str) -> Result<(), Error> {
        self.command_on(self.servers.connected_slot(), "PUBLISH", &[channel, message]).await.map(|_receivers| ())
    }

    /// Succeeds if Redis replies. In a cluster it asks a server that is connected.
    pub(super) async fn ping(&self) -> Result<(), Error> {
        self.command_on(self.servers.connected_slot(), "PING", &[]).await.map(|_pong| ())
    }

    /// Succeeds if Redis replies and can write. In a cluster it asks a server whose disk was full,
    /// or else one that is connected. Deleting a key works even if Redis has no memory left.
    pub(super) async fn probe(&self) -> Result<(), Error> {
        let slot = self.servers.slot_with_full_disk().unwrap_or_else(|| self.servers.connected_slot());
        let deleted = self.command_on(slot, "DEL", &[&keys::absent(slot)]).await;
        if deleted.is_ok()
            && let Some(server) = self.servers.of_slot(slot)
        {
            server.pool.health.note_write(None);
        }
        deleted.map(|_none| ())
    }

    /// Records that the server of a slot has refused a command.
    pub(super) fn note_refusal(&self, slot: u16, error: &Error) {
        let Some(server) = self.servers.of_slot(slot) else {
            return;
        };
        match error {
            Error::DiskFull(reason) => server.pool.health.note_write(Some(reason)),
            Error::Unavailable(reason) | Error::NotSent(reason) | Error::MemoryFull(reason) => {
                server.pool.health.note_refusal(reason);
            }
            Error::NotDurable { .. }
            | Error::TooFewReplicas { .. }
            | Error::Unsupported(_)
            | Error::Overloaded
            | Error::NoQueue
            | Error::PoolDown(_)
            | Error::PoolOfMoveDown(_)
            | Error::NoPool(_)
            | Error::Corrupt(_) => {}
        }
    }

    pub(super) fn has_full_disk(&self) -> bool {
        self.servers.slot_with_full_disk().is_some()
    }

    /// Returns the functions for the layout of the store.
    async fn library(&self, what: &str) -> Result<&'static Library, Error> {
        Ok(Library::reading(self.clock, self.require_layout(what).await?))
    }

    /// Waits until the store is known to have a supported layout, and returns its version.
    async fn require_layout(&self, what: &str) -> Result<Version, Error> {
        if let Some(version) = self.layout.version() {
            return Ok(version);
        }
        let slot = self.servers.slot(keys::LAYOUT);
        let wait_max = RETRY_TIMEOUT.saturating_sub(self.servers.disconnected_for(slot));
        self.layout.wait_until_supported(wait_max).await.map_err(|error| match error {
            Error::Unavailable(reason) => self.unavailable(what, slot, &reason),
            error => error,
        })
    }

    /// Repeats an attempt until it succeeds, fails permanently, or the time is up.
    async fn retry<F>(&self, what: &str, slot: u16, attempt: impl Fn(Client, Arc<Server>) -> F) -> Result<Reply, Error>
    where
        F: Future<Output = Result<Value, FredError>>,
    {
        // Earlier commands have already waited for this server as long as they may.
        if self.servers.disconnected_for(slot) > RETRY_TIMEOUT {
            self.servers.refresh_soon();
            return Err(Error::NotSent(self.unavailable_reason(what, slot, "there is no connection")));
        }
        let (began, mut may_have_run) = (Instant::now(), false);
        loop {
            let server = self.servers.of_slot(slot);
            let reply = match &server {
                // Boxed, because the futures of the operations around it are moved, and this one is
                // large.
                Some(server) => {
                    let attempt = |client| attempt(client, server.clone());
                    Box::pin(server.pool.select().attempt(attempt)).await
                }
                None => Err(no_server_known()),
            };
            let failure = match reply {
                Ok(value) => return Ok(Reply::new(value, may_have_run)),
                Err(error) if is_permanent(&error) && !(is_read_only(&error) && self.servers.can_fail_over()) => {
                    let error = error_from_failure(what, &error);
                    self.note_refusal(slot, &error);
                    return Err(error);
                }
                Err(error) => error,
            };
            self.servers.refresh_soon();
            may_have_run |= !has_not_run(&failure);
            if began.elapsed() >= RETRY_TIMEOUT {
                let is_silent = server.as_ref().is_none_or(|server| server.pool.is_silent_since(began));
                if let Some(server) = server.filter(|_| is_silent) {
                    server.pool.health.note_silence();
                }
                let reason = self.unavailable_reason(what, slot, &failure.to_string());
                let error = if may_have_run { Error::Unavailable(reason) } else { Error::NotSent(reason) };
                if is_silent {
                    self.servers.admission(slot).refuse_waiting(&error);
                }
                return Err(error);
            }
            sleep(PAUSE_BETWEEN_ATTEMPTS).await;
        }
    }

    fn unavailable(&self, what: &str, slot: u16, reason: &str) -> Error {
        Error::Unavailable(self.unavailable_reason(what, slot, reason))
    }

    /// Returns why a command could not run: the problem of its server if known, else that of the
    /// command.
    fn unavailable_reason(&self, what: &str, slot: u16, reason: &str) -> String {
        self.servers.unavailable_reason(slot).unwrap_or_else(|| format!("{what}: {reason}"))
    }
}

async fn send(client: Client, command: CustomCommand, args: Vec<Value>) -> Result<Value, FredError> {
    client.custom(command, args).await
}
