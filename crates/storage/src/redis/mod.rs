//! The store over Redis: a server, a Sentinel group or a cluster.
//!
//! One operation is one Lua script. That is possible on a cluster because all keys of a queue share
//! a slot. Only the creation and deletion of a queue use other slots, those of the registers: see
//! `queues.rs`.

mod arguments;
mod catalogue;
mod claims;
mod connection;
mod dead_letters;
mod deliveries;
pub mod import;
mod keys;
mod library;
mod maintenance;
mod message_records;
mod messages;
mod moves;
mod peek;
mod pools;
mod pops;
mod posts;
mod projects;
mod queues;
mod quotas;
mod records;
mod registrations;
mod reply;
mod script;
mod sealed_bodies;
mod shard_digits;
mod signals;
mod slot_tags;
mod subscriptions;
mod summaries;
mod tasks;
mod tls;
mod upgrade;
mod uri;
mod values;
mod watch;

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use bytes::Bytes;
use uuid::Uuid;

pub use tls::{TlsError, TlsFiles};
pub use uri::{Clock, InvalidUri, RedisPools, RedisUri};

use self::connection::{Connection, Servers, Subscriber, layout_of};
use self::keys::QueueKeys;
use self::maintenance::confirmer::Confirmer;
use self::pops::Pops;
use self::posts::PostBatcher;
use self::reply::Reply;
use self::script::Script;
use self::signals::Signals;
use crate::moved_messages::OtherStores;
use crate::outbox::Forwarders;
use crate::watch::Watchers;
use crate::{Admission, AdmissionControl, Destinations, DiskUsage, Error, Load, Monitoring, Processed};
use sukkal_domain::{ProjectId, QueueId};

/// A store in Redis. Cheap to clone.
#[derive(Clone)]
pub struct RedisStore {
    connection: Connection,
    post_batcher: PostBatcher,
    pops: Pops,
    forwarders: Forwarders,
    other_stores: OtherStores,
    subscriber: Subscriber,
    confirmer: Confirmer,
    signals: Signals,
    /// Identifies this process among those that share the store, for the janitor lease and signals.
    id: Uuid,
}

impl RedisStore {
    /// Opens the store at this address. It connects in the background, and reconnects after each
    /// failure. The error says why it cannot use TLS as configured.
    pub fn open(uri: &RedisUri) -> Result<Self, TlsError> {
        Self::open_sharing(uri, Watchers::default())
    }

    /// The same for a pool, whose queues have these waiters.
    pub(super) fn open_sharing(uri: &RedisUri, watchers: Watchers) -> Result<Self, TlsError> {
        Self::with_layout(uri, watchers, &layout_of(uri.clock))
    }

    /// The same for a store of another layout. An empty store gets that layout.
    fn with_layout(uri: &RedisUri, watchers: Watchers, layout: &str) -> Result<Self, TlsError> {
        let servers = Servers::open(uri.config()?, uri.sentinel_credentials());
        let connection = Connection::new(servers.clone(), uri.clock, layout);
        let post_batcher = PostBatcher::new(connection.clone());
        let pops = Pops::default();
        let (forwarders, other_stores) = (Forwarders::default(), OtherStores::default());
        let subscriber = Subscriber::new(servers, watchers);
        let (confirmer, waiting) = Confirmer::new();
        let id = Uuid::new_v4();
        let signals = Signals::new(id);
        let this =
            Self { connection, post_batcher, pops, forwarders, other_stores, subscriber, confirmer, signals, id };
        this.connection.servers.spawn(this.clone().confirm_registrations(waiting));
        this.connection.servers.spawn(this.clone().reconfirm_after_reconnections());
        Ok(this)
    }

    /// Ends the tasks of the store, which is not used any more. Its connections are closed when its
    /// last clone is dropped.
    pub(super) fn close(&self) {
        self.connection.servers.close();
    }

    /// Returns the same store for operations that fail with [`Error::NoQueue`] if their queue does
    /// not exist. Posts, lookups of queues and lists of tasks do not.
    pub(super) fn requiring_queues(&self) -> Self {
        Self { connection: self.connection.requiring_queues(), ..self.clone() }
    }

    /// Makes this one of several stores: messages that leave its queues move to the queues of these
    /// destinations. Later calls have no effect.
    pub fn set_destinations(&self, destinations: Weak<dyn Destinations>) {
        self.other_stores.set(destinations);
    }

    /// Moves the clock of one queue, for tests: `offset_us` is added to the clock of Redis. The
    /// store must have been opened with [`Clock::Movable`].
    pub async fn set_clock(&self, queue: &QueueId, offset_us: i64) -> Result<(), Error> {
        assert_eq!(self.connection.clock, Clock::Movable, "the clock of this store cannot be moved");
        let clock = QueueKeys::of(queue).clock();
        self.connection.command("SET", &clock, &[&offset_us.to_string()]).await?;
        Ok(())
    }

    async fn reconfirm_after_reconnections(self) {
        let mut changes = self.connection.servers.changes();
        while changes.changed().await.is_ok() {
            self.confirmer.reconnected();
        }
    }

    /// Counts messages that were processed.
    fn count(&self, processed: Processed) {
        self.connection.processed.add(processed);
    }

    /// Runs a script on a queue, after its due changes have been applied. Returns the kind of the
    /// reply, and the rest of it.
    async fn run_applying_due(
        &self,
        script: &Script,
        queue: &QueueId,
        args: &[Bytes],
    ) -> Result<(String, Reply), Error> {
        self.connection.run_applying_due(script, &QueueKeys::of(queue), args).await
    }
}

#[async_trait]
impl AdmissionControl for RedisStore {
    fn queue_admission(&self, queue: &QueueId) -> Arc<Admission> {
        self.connection.admission_of(|| QueueKeys::of(queue).queue())
    }

    fn project_admission(&self, project: &ProjectId) -> Arc<Admission> {
        self.connection.admission_of(|| keys::queue_register(project))
    }

    fn load(&self) -> Load {
        self.connection.servers.load()
    }
}

impl Monitoring for RedisStore {
    fn processed(&self) -> Processed {
        self.connection.processed.get()
    }

    fn disk_usage(&self) -> Option<DiskUsage> {
        None
    }
}
