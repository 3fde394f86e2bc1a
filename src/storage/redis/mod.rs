//! The store over Redis: a server, a Sentinel group or a cluster.
//!
//! One operation is one Lua script, legal on a cluster because all keys of a queue share a slot.
//! Only the creation and deletion of a queue touch further slots, those of the registers: see `queues.rs`.

mod check;
mod claims;
mod cluster_slots;
mod condition;
mod confirmation;
mod connection;
mod dead_letters;
mod due;
mod failure;
mod janitor;
mod keys;
mod lanes;
mod layout;
mod line;
mod listener;
mod messages;
mod post_request;
mod posts;
mod queues;
mod records;
mod registers;
mod reply;
mod script;
mod servers;
mod shards;
mod slots;
mod subscriber;
mod upkeep;
mod uri;
mod watch;

use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

pub use posts::Batches;
pub use uri::{InvalidUri, RedisUri};

use self::confirmation::Confirmation;
use self::connection::Connection;
use self::dead_letters::Forwarders;
use self::keys::QueueKeys;
use self::posts::Posts;
use self::reply::Reply;
use self::script::Script;
use self::servers::Servers;
use self::subscriber::Subscriber;
use crate::domain::{ProjectId, QueueId};
use crate::storage::{Admission, Bounded, Error, Load};

/// A store in Redis. Cheap to clone.
#[derive(Clone)]
pub struct RedisStore {
    connection: Connection,
    posts: Posts,
    forwarders: Forwarders,
    subscriber: Subscriber,
    confirmation: Confirmation,
    /// Which of the processes that share the store this is, when they take turns.
    id: Uuid,
}

impl RedisStore {
    /// A store at that address. It connects in the background and again whenever it must.
    pub fn open(uri: &RedisUri) -> Result<Self, Error> {
        Self::open_with(uri, Batches::default())
    }

    /// The same, with posts put together so.
    pub fn open_with(uri: &RedisUri, batches: Batches) -> Result<Self, Error> {
        let servers = Servers::open(uri);
        let connection = Connection::new(servers.clone());
        let posts = Posts::new(connection.clone(), batches);
        let (forwarders, subscriber) = (Forwarders::default(), Subscriber::new(servers));
        let (confirmation, waiting) = Confirmation::new();
        let this = Self { connection, posts, forwarders, subscriber, confirmation, id: Uuid::new_v4() };
        tokio::spawn(this.clone().confirm_registrations(waiting));
        tokio::spawn(this.clone().confirm_anew_after_reconnections());
        Ok(this)
    }

    /// Moves the clock of one queue: `offset_us` is added to Redis' own.
    #[cfg(feature = "movable-clock")]
    pub async fn set_clock(&self, queue: &QueueId, offset_us: i64) -> Result<(), Error> {
        let clock = QueueKeys::of(queue).clock();
        self.connection.command("SET", &clock, &[&offset_us.to_string()]).await?;
        Ok(())
    }

    async fn confirm_anew_after_reconnections(self) {
        let mut changes = self.connection.changes();
        while changes.changed().await.is_ok() {
            self.confirmation.reconnected();
        }
    }

    /// Runs a script on a queue in which nothing is due.
    async fn run_settled(&self, script: &Script, queue: &QueueId, args: &[Bytes]) -> Result<(String, Reply), Error> {
        self.connection.run_settled(script, &QueueKeys::of(queue), args).await
    }
}

impl Bounded for RedisStore {
    fn queue_admission(&self, queue: &QueueId) -> Arc<Admission> {
        self.connection.admission_of(|| QueueKeys::of(queue).queue())
    }

    fn project_admission(&self, project: &ProjectId) -> Arc<Admission> {
        self.connection.admission_of(|| keys::queue_names(project))
    }

    fn load(&self) -> Load {
        self.connection.load()
    }
}
