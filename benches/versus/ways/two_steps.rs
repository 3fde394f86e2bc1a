//! In two steps: the messages are stored, then a script gives them their ranks and indexes them.

use async_trait::async_trait;
use fred::interfaces::LuaInterface;
use fred::types::Value;
use fred::types::scripts::Script;
use sukkal::domain::message::Nonce;
use sukkal::domain::{MessageId, QueueId, Rank};
use sukkal::storage::redis::RedisStore;
use sukkal::storage::{Error, Post, Posting, QueueStore};

use super::Poster;
use super::layout::{Turns, end, key, member, pipelined, record, unavailable};

/// As many as the store itself has.
const CONNECTIONS: usize = 2;

/// Indexes what is stored already.
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

/// Stores, then indexes.
pub(super) struct TwoSteps {
    connections: Turns,
    script: Script,
}

impl TwoSteps {
    pub(super) async fn open(url: &str) -> Self {
        let connections = Turns::open(url, CONNECTIONS).await;
        let script = Script::from_lua(INDEX);
        script.load(connections.next()).await.unwrap();
        Self { connections, script }
    }
}

#[async_trait]
impl Poster for TwoSteps {
    async fn post(&self, store: &RedisStore, queue: &QueueId, post: &Post<'_>) -> Result<Posting, Error> {
        let client = self.connections.next();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        let now_us = u64::try_from(now.as_micros()).expect("before the year 500,000");
        let mut stored = vec![key(queue, "messages")];
        let mut index: Vec<Value> = vec![post.seen.0.to_string().into()];
        let mut nonces = Vec::new();
        for message in post.messages {
            // Its rank is not known yet, so this is not what the store would call it, only as long.
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
            return Ok(Posting::Stale(store.get_queue(queue).await?));
        }
        let ids = (rank..)
            .zip(nonces)
            .map(|(rank, nonce)| MessageId::new(queue, Rank::new(rank).expect("below 2^53"), nonce));
        Ok(Posting::Posted(ids.collect()))
    }
}
