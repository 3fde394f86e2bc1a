//! The keys and records that the other ways to post write. They are the same as those of the
//! scripts of the store.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use fred::clients::Client;
use fred::error::Error as FredError;
use fred::interfaces::ClientLike;
use fred::types::config::Config;
use fred::types::{Builder, ClusterHash, CustomCommand, Value};
use sukkal::domain::message::Nonce;
use sukkal::domain::{ClientId, NewMessage, QueueId, Rank};
use sukkal::storage::Error;
use xxhash_rust::xxh3::xxh3_128;

/// Returns the key of a part of a queue. The names of the benchmark need no encoding.
pub(super) fn key(queue: &QueueId, part: &str) -> Value {
    format!("sukkal:{{{}/{}}}:{part}", queue.project().as_str(), queue.name()).into()
}

/// Returns the key of a message within its queue.
pub(super) fn member(rank: Rank, nonce: Nonce) -> Bytes {
    [&rank.micros().to_be_bytes()[1..], &nonce.bits().to_be_bytes()[3..]].concat().into()
}

/// Returns the stored form of a message.
pub(super) fn record(message: &NewMessage, client: &ClientId, now_us: u64) -> Bytes {
    let client = xxh3_128(client.as_str().as_bytes()).to_be_bytes();
    let mut record = vec![0x95, 0x01, 0xcf];
    record.extend(now_us.to_be_bytes());
    record.push(0xce);
    record.extend(message.ttl_s.to_be_bytes());
    record.extend([0xc4, 16]);
    record.extend(client);
    record.extend(message.body.as_msgpack());
    record.into()
}

/// Returns the second in which a message expires, and the entry for its expiry.
pub(super) fn end(message: &NewMessage, now_us: u64, member: &[u8]) -> (u64, Bytes) {
    let second = now_us.div_ceil(1_000_000) + u64::from(message.ttl_s);
    let head = u32::try_from(second).expect("before 2106").to_be_bytes();
    (second, [&head[..], member].concat().into())
}

/// Returns an open connection.
pub(super) async fn connect(url: &str) -> Client {
    let client = Builder::from_config(Config::from_url(url).unwrap()).build().unwrap();
    client.init().await.unwrap();
    client
}

/// Sends commands to Redis in one write, and returns their replies.
pub(crate) async fn pipelined(client: &Client, commands: Vec<(&'static str, Vec<Value>)>) -> Result<Vec<Value>, Error> {
    let pipeline = client.pipeline();
    for (name, words) in commands {
        let command = CustomCommand::new_static(name, ClusterHash::FirstKey, false);
        let _queued: Value = pipeline.custom(command, words).await.map_err(unavailable)?;
    }
    pipeline.all().await.map_err(unavailable)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn unavailable(error: FredError) -> Error {
    Error::Unavailable(error.to_string())
}

/// Connections that are used in turn.
pub(crate) struct RoundRobin {
    clients: Vec<Client>,
    next: AtomicU64,
}

impl RoundRobin {
    pub(crate) async fn open(url: &str, count: usize) -> Self {
        let mut clients = Vec::new();
        for _ in 0..count {
            clients.push(connect(url).await);
        }
        Self { clients, next: AtomicU64::new(0) }
    }

    pub(crate) fn next(&self) -> &Client {
        let turn = usize::try_from(self.next.fetch_add(1, Ordering::Relaxed)).unwrap();
        &self.clients[turn % self.clients.len()]
    }
}
