//! The store over Redis: a server, a Sentinel group or a cluster.
//!
//! One operation is one Lua script, legal on a cluster because all keys of a queue share a slot.
//! Only a queue's birth and death touch a second slot, the register of its project: see `queues.rs`.

mod check;
mod claims;
mod connection;
mod keys;
mod lanes;
mod letters;
mod line;
mod messages;
mod posts;
mod queues;
mod reply;
mod script;
mod shards;
mod subscriber;
mod upkeep;
mod uri;
mod watch;

use bytes::Bytes;

pub use posts::Batches;
pub use uri::{InvalidUri, RedisUri};

use self::connection::Connection;
use self::keys::QueueKeys;
use self::letters::Couriers;
use self::posts::Posts;
use self::reply::Reply;
use self::script::Script;
use self::subscriber::Subscriber;
use crate::domain::QueueId;
use crate::storage::Error;

/// A store in Redis. Cheap to clone.
#[derive(Clone)]
pub struct RedisStore {
    connection: Connection,
    posts: Posts,
    couriers: Couriers,
    subscriber: Subscriber,
}

impl RedisStore {
    /// A store at that address. It connects in the background and again whenever it must.
    pub fn open(uri: &RedisUri) -> Result<Self, Error> {
        Self::open_with(uri, Batches::default())
    }

    /// The same, with posts put together so.
    pub fn open_with(uri: &RedisUri, batches: Batches) -> Result<Self, Error> {
        let connection = Connection::open(uri)?;
        let posts = Posts::new(connection.clone(), batches);
        Ok(Self { connection, posts, couriers: Couriers::default(), subscriber: Subscriber::open(uri) })
    }

    /// Moves the clock of one queue: `offset_us` is added to Redis' own.
    #[cfg(feature = "movable-clock")]
    pub async fn set_clock(&self, queue: &QueueId, offset_us: i64) -> Result<(), Error> {
        let clock = QueueKeys::of(queue).clock();
        self.connection.command("SET", &clock, &[&offset_us.to_string()]).await?;
        Ok(())
    }

    /// Runs a script on a queue that has nothing left to settle.
    async fn run_settled(&self, script: &Script, queue: &QueueId, args: &[Bytes]) -> Result<(String, Reply), Error> {
        self.connection.run_settled(script, QueueKeys::of(queue).all(), args).await
    }
}
