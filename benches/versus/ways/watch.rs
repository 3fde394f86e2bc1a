//! Posts with WATCH and retry: reads the counter, then stores, indexes and counts in a transaction.
//! Redis rejects the transaction if another client has changed the counter, and then all is
//! repeated.
//!
//! WATCH belongs to a connection, so each attempt uses a connection of its own.

use std::sync::Mutex;

use async_trait::async_trait;
use fred::clients::Client;
use fred::types::Value;
use sukkal::domain::message::Nonce;
use sukkal::domain::{MessageId, QueueId, Rank};
use sukkal::storage::redis::RedisStore;
use sukkal::storage::{Error, Post, PostOutcome, QueueStore};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::Poster;
use super::layout::{connect, end, key, member, pipelined, record};

/// The outcome of an attempt.
enum Attempt {
    Posted(Vec<MessageId>),
    /// The queue has changed.
    Stale,
    /// Another client was faster.
    Conflict,
}

/// A pool of connections. A post uses one of them exclusively.
pub(super) struct Watch {
    free: Mutex<Vec<Client>>,
    permits: Semaphore,
}

impl Watch {
    pub(super) async fn open(url: &str, connections: usize) -> Self {
        let mut free = Vec::new();
        for _ in 0..connections {
            free.push(connect(url).await);
        }
        Self { free: Mutex::new(free), permits: Semaphore::new(connections) }
    }

    async fn attempt(client: &Client, queue: &QueueId, post: &Post<'_>) -> Result<Attempt, Error> {
        let watched = vec![
            ("WATCH", vec![key(queue, "counter")]),
            ("GET", vec![key(queue, "counter")]),
            ("HGET", vec![key(queue, "queue"), "v".into()]),
            ("TIME", vec![]),
        ];
        let answers = pipelined(client, watched).await?;
        let [_, counter, revision, time] = &answers[..] else {
            return Err(Error::Corrupt("four commands have four answers".to_owned()));
        };
        if revision.as_u64() != Some(post.last_known_revision.0) {
            pipelined(client, vec![("UNWATCH", vec![])]).await?;
            return Ok(Attempt::Stale);
        }
        let now_us = now_us(time).ok_or_else(|| Error::Corrupt("TIME answers with two numbers".to_owned()))?;
        let first = now_us.max(counter.as_u64().unwrap_or_default() + 1);

        let mut commands = vec![("MULTI", vec![])];
        let (mut records, mut ready, mut ends) =
            (vec![key(queue, "messages")], vec![key(queue, "ready")], vec![key(queue, "ends")]);
        let mut ids = Vec::new();
        for (rank, message) in (first..).zip(post.messages) {
            let (rank, nonce) = (Rank::new(rank).expect("below 2^53"), Nonce::random());
            let member = member(rank, nonce);
            let (second, ending) = end(message, now_us, &member);
            records.extend([member.clone().into(), record(message, post.client, now_us).into()]);
            ready.extend([rank.micros().to_string().into(), member.into()]);
            ends.extend([second.to_string().into(), ending.into()]);
            ids.push(MessageId::new(queue, rank, nonce));
        }
        let last = first + post.messages.len() as u64 - 1;
        commands.extend([
            ("HSET", records),
            ("ZADD", ready),
            ("ZADD", ends),
            ("HINCRBY", vec![key(queue, "queue"), "n".into(), ids.len().to_string().into()]),
            ("SET", vec![key(queue, "counter"), last.to_string().into()]),
            ("EXEC", vec![]),
        ]);
        let executed = pipelined(client, commands).await?;
        let refused = executed.last().is_none_or(Value::is_null);
        Ok(if refused { Attempt::Conflict } else { Attempt::Posted(ids) })
    }
}

/// A connection for one post. Dropping it returns the connection to the pool, even if the caller
/// was canceled.
struct BorrowedConnection<'a> {
    client: Option<Client>,
    pool: &'a Mutex<Vec<Client>>,
    _permit: SemaphorePermit<'a>,
}

impl Drop for BorrowedConnection<'_> {
    fn drop(&mut self) {
        // The connection is returned before the permit, which is dropped after this.
        self.pool.lock().expect("no thread panics").extend(self.client.take());
    }
}

#[async_trait]
impl Poster for Watch {
    async fn post(&self, store: &RedisStore, queue: &QueueId, post: &Post<'_>) -> Result<PostOutcome, Error> {
        let permit = self.permits.acquire().await.expect("it is never closed");
        let client = self.free.lock().expect("no thread panics").pop().expect("as many as permits");
        let borrowed = BorrowedConnection { client: Some(client.clone()), pool: &self.free, _permit: permit };
        loop {
            match Self::attempt(&client, queue, post).await? {
                Attempt::Conflict => {}
                Attempt::Posted(ids) => return Ok(PostOutcome::Posted(ids)),
                Attempt::Stale => break,
            }
        }
        drop(borrowed);
        Ok(PostOutcome::Stale(store.get_queue(queue).await?))
    }
}

/// Converts the reply of `TIME`, seconds and microseconds, to microseconds.
fn now_us(time: &Value) -> Option<u64> {
    let Value::Array(parts) = time else {
        return None;
    };
    Some(parts.first()?.as_u64()? * 1_000_000 + parts.get(1)?.as_u64()?)
}
