//! Posts in two steps: stores the messages, then a script assigns their ranks and indexes them.

use async_trait::async_trait;
use fred::interfaces::LuaInterface;
use fred::types::Value;
use fred::types::scripts::Script;
use sukkal::domain::message::Nonce;
use sukkal::domain::{MessageId, QueueId, Rank};
use sukkal::storage::redis::RedisStore;
use sukkal::storage::{Error, Post, PostOutcome, QueueStore};

use super::Poster;
use super::layout::{RoundRobin, end, key, member, pipelined, record, unavailable};

/// Number of connections, the same as in the store.
const CONNECTIONS: usize = 2;

/// The script that indexes stored messages.
const INDEX: &str = "
local queue, counter, ready, ends = unpack(KEYS)
if redis.call('HGET', queue, 'v') ~= ARGV[1] then
  return 0
end
local time = redis.call('TIME')
local rank = math.max((tonumber(redis.call('GET', counter)) or 0) + 1, time[1] * 1000000 + time[2])
for i = 2, #ARGV, 3 do
  local at = rank + (i - 2) / 3
  redis.call('ZADD', ready, at, ARGV[i])
  redis.call('ZADD', ends, ARGV[i + 1], ARGV[i + 2])
end
redis.call('HINCRBY', queue, 'n', (#ARGV - 1) / 3)
redis.call('SET', counter, string.format('%.0f', rank + (#ARGV - 1) / 3 - 1))
return rank
";

/// Stores messages, then indexes them.
pub(super) struct TwoSteps {
    connections: RoundRobin,
    script: Script,
}

impl TwoSteps {
    pub(super) async fn open(url: &str) -> Self {
        let connections = RoundRobin::open(url, CONNECTIONS).await;
        let script = Script::from_lua(INDEX);
        script.load(connections.next()).await.unwrap();
        Self { connections, script }
    }
}

#[async_trait]
impl Poster for TwoSteps {
    async fn post(&self, store: &RedisStore, queue: &QueueId, post: &Post<'_>) -> Result<PostOutcome, Error> {
        let client = self.connections.next();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        let now_us = u64::try_from(now.as_micros()).expect("before the year 500,000");
        let mut stored = vec![key(queue, "messages")];
        let mut index: Vec<Value> = vec![post.last_known_revision.0.to_string().into()];
        let mut nonces = Vec::new();
        for message in post.messages {
            // The rank is not known yet, so the key differs from that of the store. It has the same
            // length.
            let nonce = Nonce::random();
            let member = member(Rank::new(now_us).expect("below 2^53"), nonce);
            let (second, ending) = end(message, now_us, &member);
            stored.extend([member.clone().into(), record(message, post.client, now_us).into()]);
            index.extend([member.into(), second.to_string().into(), ending.into()]);
            nonces.push(nonce);
        }
        pipelined(client, vec![("HSET", stored)]).await?;
        let keys: Vec<_> = ["queue", "counter", "ready", "ends"].map(|part| key(queue, part)).into();
        let keys: Vec<fred::types::Key> = keys.into_iter().map(|key| key.try_into().expect("a text")).collect();
        let rank: u64 = client.evalsha(self.script.sha1().clone(), keys, index).await.map_err(unavailable)?;
        if rank == 0 {
            return Ok(PostOutcome::Stale(store.get_queue(queue).await?));
        }
        let ids = (rank..)
            .zip(nonces)
            .map(|(rank, nonce)| MessageId::new(queue, Rank::new(rank).expect("below 2^53"), nonce));
        Ok(PostOutcome::Posted(ids.collect()))
    }
}
