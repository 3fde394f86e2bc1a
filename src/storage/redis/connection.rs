//! The way to Redis: every command goes to the server that has its slot, with a deadline on every attempt, and a second try
//! for what may be tried twice. Nothing outside this folder knows `fred`.
//!
//! A server of a cluster that does not have the slot any more says so, which counts as a failed attempt: the next one goes where
//! the cluster then says. One that is handing the slot over (`ASK`) is asked until it is done.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fred::clients::Client;
use fred::error::Error as FredError;
use fred::interfaces::{ClientLike, LuaInterface};
use fred::types::{ClusterHash, CustomCommand, Key, Value};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tracing::{error, warn};

use super::failure::{has_not_run, is_final, no_server, refusal};
use super::keys::{self, QueueKeys};
use super::layout::{KEY_OF_LAYOUT_1, LAYOUT, Layout};
use super::reply::Reply;
use super::script::{QUEUE_SETTLE, Script};
use super::servers::Servers;
use super::slots::probe_key;
use crate::storage::{Admission, Error, Load};

/// How long attempts go on; the last may outlast it by its own time, which stays below two seconds.
const PATIENCE: Duration = Duration::from_millis(1_300);
const PAUSE_BETWEEN_ATTEMPTS: Duration = Duration::from_millis(30);
const PAUSE_BETWEEN_LAYOUT_READS: Duration = Duration::from_millis(100);
/// The same when the layout was ours before the connection was lost.
const PAUSE_BETWEEN_LAYOUT_CHECKS: Duration = Duration::from_secs(1);
const PAUSE_BETWEEN_QUESTIONS: Duration = Duration::from_secs(5);

/// What a script answers when something is due in its queue.
const DUE: &str = "due";

/// Connections to a Redis server, a Sentinel group or a cluster.
#[derive(Clone)]
pub(super) struct Connection {
    servers: Servers,
    layout: Layout,
}

impl Connection {
    /// Over these servers, if they hold our layout.
    pub(super) fn new(servers: Servers) -> Self {
        let this = Self { servers, layout: Layout::unknown() };
        tokio::spawn(this.clone().verify_layout());
        tokio::spawn(this.clone().report_settings());
        this
    }

    /// Completes if the store turns out to have a layout that this release does not know, and says so.
    pub(super) async fn refused(&self) -> String {
        self.layout.refused().await
    }

    /// Notified after each connection to a server, and when slots have moved.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.servers.changes()
    }

    /// All slots, by the server that has them; those of a cluster that nobody has are left out. An empty list if the
    /// cluster is not known.
    pub(super) fn slots_by_server(&self) -> Vec<Vec<u16>> {
        self.servers.slots()
    }

    /// What bounds the operations on a key.
    pub(super) fn admission_of(&self, key: impl FnOnce() -> String) -> Arc<Admission> {
        // The key of a single server's only slot is not needed, and costs more than the rest of this.
        let slot = if self.servers.are_clustered() { self.slot(&key()) } else { 0 };
        self.servers.admission(slot)
    }

    /// How busy all servers are.
    pub(super) fn load(&self) -> Load {
        self.servers.load()
    }

    /// Which part of the store has keys with that hash tag: what is in one can be touched by one script.
    pub(super) fn slot(&self, key: &str) -> u16 {
        self.servers.slot(key)
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
        let slot = keys.first().map_or(0, |key| self.slot(key));
        let keys: Vec<Key> = keys.into_iter().map(Key::from).collect();
        let args: Vec<Value> = args.into_iter().map(Value::from).collect();
        let attempt = |client| evaluate(client, script, keys.clone(), args.clone());
        self.admit(script.name).await?;
        self.persist(script.name, slot, may_repeat, attempt).await
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
        self.plain(name, slot, args.iter().map(|word| Value::from(*word)).collect()).await
    }

    /// The same as `command_with`, whatever layout the store has.
    async fn unchecked(
        &self,
        name: &'static str,
        key: &str,
        args: impl IntoIterator<Item = Value>,
    ) -> Result<Reply, Error> {
        let words = [Value::from(key)].into_iter().chain(args).collect();
        self.plain(name, self.slot(key), words).await
    }

    async fn plain(&self, name: &'static str, slot: u16, words: Vec<Value>) -> Result<Reply, Error> {
        // It goes to a client of one server, so its hash is not used.
        let command = CustomCommand::new_static(name, ClusterHash::Random, false);
        self.persist(name, slot, always, |client| custom(client, command.clone(), words.clone())).await
    }

    /// Succeeds if Redis answers: in a cluster a server that is connected.
    pub(super) async fn ping(&self) -> Result<(), Error> {
        self.command_on(self.servers.connected_slot(), "PING", &[]).await.map(|_pong| ())
    }

    /// Succeeds if Redis answers and can write: in a cluster a server that is connected, or one whose disk was full. A
    /// deletion works even when Redis has no memory left.
    pub(super) async fn probe(&self) -> Result<(), Error> {
        let slot = self.servers.slot_of_full_disk().unwrap_or_else(|| self.servers.connected_slot());
        let deleted = self.command_on(slot, "DEL", &[&probe_key(slot)]).await;
        if deleted.is_ok()
            && let Some(server) = self.servers.of(slot)
        {
            server.lines.condition.wrote(None);
        }
        deleted.map(|_none| ())
    }

    /// Notes that the server of a slot has refused a command.
    pub(super) fn note_refusal(&self, slot: u16, error: &Error) {
        let Some(server) = self.servers.of(slot) else {
            return;
        };
        match error {
            Error::DiskFull(reason) => server.lines.condition.wrote(Some(reason)),
            Error::Unavailable(reason) | Error::MemoryFull(reason) => server.lines.condition.refused(reason),
            Error::Overloaded | Error::Corrupt(_) => {}
        }
    }

    pub(super) fn has_full_disk(&self) -> bool {
        self.servers.slot_of_full_disk().is_some()
    }

    /// Waits until the store is known to have our layout.
    async fn admit(&self, what: &str) -> Result<(), Error> {
        if self.layout.is_ours() {
            return Ok(());
        }
        let slot = self.slot(keys::LAYOUT);
        let patience = PATIENCE.saturating_sub(self.cut_off_for(slot));
        self.layout.admit(patience).await.map_err(|error| match error {
            Error::Unavailable(reason) => self.unavailable(what, slot, &reason),
            error => error,
        })
    }

    /// For how long the server of a slot has been known without a connection to it.
    fn cut_off_for(&self, slot: u16) -> Duration {
        self.servers.of(slot).map_or(Duration::ZERO, |server| server.lines.cut_off_for())
    }

    /// Reads the layout of the store now and after each connection.
    async fn verify_layout(self) {
        let mut changes = self.changes();
        loop {
            changes.mark_unchanged();
            match self.read_layout().await {
                Ok(version) => {
                    self.layout.found(version.as_deref());
                    if changes.changed().await.is_err() {
                        return;
                    }
                }
                Err(_away) if self.layout.is_ours() => sleep(PAUSE_BETWEEN_LAYOUT_CHECKS).await,
                Err(error) => {
                    let reason = error.reason();
                    // What is wrong with the server itself has been logged.
                    let is_of_server = self.servers.trouble(self.slot(keys::LAYOUT)).is_some();
                    if self.layout.not_found(reason) && !is_of_server {
                        error!(reason, "the store cannot be used");
                    }
                    sleep(PAUSE_BETWEEN_LAYOUT_READS).await;
                }
            }
        }
    }

    /// The version of the layout, written if the store is empty; `None` for a store without one that is not.
    async fn read_layout(&self) -> Result<Option<String>, Error> {
        let version = self.unchecked("GET", keys::LAYOUT, []).await?.text_or_nil()?;
        if version.is_some() {
            return Ok(version);
        }
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
        slot: u16,
        may_repeat: fn(&FredError) -> bool,
        attempt: impl Fn(Client) -> F,
    ) -> Result<Reply, Error>
    where
        F: Future<Output = Result<Value, FredError>>,
    {
        // Others have waited for it in vain.
        if self.cut_off_for(slot) > PATIENCE {
            self.servers.may_have_changed();
            return Err(self.unavailable(what, slot, "there is no connection"));
        }
        let began = Instant::now();
        loop {
            let server = self.servers.of(slot);
            let answer = match &server {
                // In a box, because the futures of the operations around it are moved, and this one is large.
                Some(server) => Box::pin(server.lines.next().attempt(&attempt)).await,
                None => Err(no_server()),
            };
            let failure = match answer {
                Ok(value) => return Ok(Reply::new(value)),
                Err(error) if is_final(&error) => {
                    let error = refusal(what, &error);
                    self.note_refusal(slot, &error);
                    return Err(error);
                }
                Err(error) => error,
            };
            self.servers.may_have_changed();
            let is_given_up = began.elapsed() >= PATIENCE;
            if is_given_up || !may_repeat(&failure) {
                let is_silent = server.as_ref().is_none_or(|server| server.lines.are_silent_since(began));
                if let Some(server) = server.filter(|_| is_given_up && is_silent) {
                    server.lines.condition.silent();
                }
                let error = self.unavailable(what, slot, &failure.to_string());
                if is_given_up && is_silent {
                    self.servers.admission(slot).refuse_waiting(&error);
                }
                return Err(error);
            }
            sleep(PAUSE_BETWEEN_ATTEMPTS).await;
        }
    }

    /// The error of a command that could not be run: what is wrong with its server, or with the command alone.
    fn unavailable(&self, what: &str, slot: u16, reason: &str) -> Error {
        Error::Unavailable(self.servers.trouble(slot).unwrap_or_else(|| format!("{what}: {reason}")))
    }

    /// Tells the operator about settings under which Redis may drop what was acknowledged.
    async fn report_settings(self) {
        let mut changes = self.changes();
        let memory = loop {
            let slot = self.servers.connected_slot();
            if let Ok(mut reply) = self.plain("INFO", slot, vec![Value::from("memory")]).await {
                break reply.text().unwrap_or_default();
            }
            let _either_way = timeout(PAUSE_BETWEEN_QUESTIONS, changes.changed()).await;
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
