//! Messages in Redis: post, list, get, delete, pop; and what a queue holds of them.

use async_trait::async_trait;
use bytes::Bytes;
use uuid::Uuid;

use super::RedisStore;
use super::keys::QueueKeys;
use super::reply::{self, Reply};
use super::script::{
    MESSAGE_ACKNOWLEDGE, MESSAGE_DELETE, MESSAGE_GET, MESSAGE_LIST, MESSAGE_POP, MESSAGE_RESTORE, QUEUE_PURGE,
    QUEUE_STATS,
};
use super::shards;
use crate::domain::{ClaimId, Message, MessageId, QueueId, Rank, Shard, Tenant};
use crate::storage::key::{self, id_of};
use crate::storage::{
    Deletion, Details, Error, GivenClaim, Holding, Listing, MessageStore, Page, Popped, Post, Posting, Stats, record,
};

/// How long a restoration knows itself again, in milliseconds: longer than any attempt to do it takes.
const RESTORE_REMEMBERED_MS: &str = "30000";

#[async_trait]
impl MessageStore for RedisStore {
    async fn post_messages(&self, queue: &QueueId, post: &Post<'_>) -> Result<Posting, Error> {
        self.posts.post(queue, post).await
    }

    async fn list_messages(&self, queue: &QueueId, listing: &Listing) -> Result<Page, Error> {
        let mut after = text(listing.after.map_or(0, Rank::micros));
        let limit = text(listing.limit as u64);
        let not_from = listing.not_from.as_ref().map(|client| client.poster().as_bytes().to_vec());
        let not_from = Bytes::from(not_from.unwrap_or_default());
        let word = |wanted, word: &'static str| Bytes::from_static(if wanted { word } else { "" }.as_bytes());
        let scope = [word(listing.scope.claimed, "held"), word(listing.scope.delayed, "delayed")];
        loop {
            let [held, delayed] = scope.clone();
            let args = [after, limit.clone(), not_from.clone(), held, delayed];
            let (kind, mut reply) = self.run_settled(&MESSAGE_LIST, queue, &args).await?;
            match kind.as_str() {
                "page" => {
                    let now = reply.number()?;
                    let [delays, is_fair, is_last] = [reply.number()? == 1, reply.number()? == 1, reply.number()? == 1];
                    return Ok(Page { messages: read_messages(queue, now, reply)?, delays, is_fair, is_last });
                }
                "onward" => after = reply.bytes()?,
                kind => return Err(reply::unknown(MESSAGE_LIST.name, kind)),
            }
        }
    }

    async fn get_messages(&self, queue: &QueueId, ids: &[MessageId]) -> Result<Vec<Message>, Error> {
        let mut keys = keys_of(&own_ids(queue, ids));
        let mut found = Vec::new();
        while !keys.is_empty() {
            let (_found, mut reply) = self.run_settled(&MESSAGE_GET, queue, &keys).await?;
            let (now, reached) = (reply.number()?, reply.number()?);
            keys.drain(..keys.len().min(usize::try_from(reached).unwrap_or(usize::MAX)));
            found.extend(read_messages(queue, now, reply)?);
        }
        Ok(found)
    }

    async fn delete_message(
        &self,
        queue: &QueueId,
        id: MessageId,
        claim: Option<GivenClaim>,
    ) -> Result<Deletion, Error> {
        if !id.is_of(queue) {
            return Ok(Deletion::Done);
        }
        let (claim, mark) = match claim {
            None => (Bytes::new(), ""),
            Some(GivenClaim::Id(claim)) => (Bytes::copy_from_slice(claim.as_bytes()), ""),
            Some(GivenClaim::Malformed) => (Bytes::new(), "malformed"),
        };
        let args = [key_of(id), claim, Bytes::from_static(mark.as_bytes())];
        let (kind, _) = self.run_settled(&MESSAGE_ACKNOWLEDGE, queue, &args).await?;
        match kind.as_str() {
            "done" => Ok(Deletion::Done),
            "held" => Ok(Deletion::Held),
            "free" => Ok(Deletion::Free),
            "other" => Ok(Deletion::HeldByOther),
            "unknown" => Ok(Deletion::UnknownClaim),
            kind => Err(reply::unknown(MESSAGE_ACKNOWLEDGE.name, kind)),
        }
    }

    async fn delete_messages(&self, queue: &QueueId, ids: &[MessageId]) -> Result<(), Error> {
        self.delete_by_id(queue, ids, Bytes::new(), &[]).await.map(|_done| ())
    }

    async fn delete_claimed(&self, queue: &QueueId, ids: &[MessageId], claims: &[ClaimId]) -> Result<Deletion, Error> {
        self.delete_by_id(queue, ids, text(claims.len() as u64), claims).await
    }

    async fn pop_messages(&self, queue: &QueueId, limit: usize) -> Result<Vec<Popped>, Error> {
        let keys = QueueKeys::of(queue).all();
        loop {
            let mut reply = self.connection.run_once(&MESSAGE_POP, keys.clone(), vec![text(limit as u64)]).await?;
            match reply.text()?.as_str() {
                "again" => {}
                _popped => {
                    self.send_letters(queue, reply.number()?).await;
                    let (now, shards) = (reply.number()?, reply.bytes()?);
                    let mut shards = shards::numbers(&shards)?.into_iter();
                    let mut popped = Vec::new();
                    while !reply.is_empty() {
                        popped.push(Popped { shard: shards.next(), ..read_popped(queue, now, &mut reply)? });
                    }
                    return Ok(popped);
                }
            }
        }
    }

    async fn restore_messages(&self, queue: &QueueId, popped: &[Popped]) -> Result<(), Error> {
        if popped.is_empty() {
            return Ok(());
        }
        let mut keys = QueueKeys::of(queue).all();
        keys.push(QueueKeys::of(queue).answer(&Uuid::new_v4().simple().to_string()));
        let mut args = vec![Bytes::from_static(RESTORE_REMEMBERED_MS.as_bytes())];
        for one in popped {
            let shard = one.shard.map_or_else(Bytes::new, |shard| Bytes::copy_from_slice(&shards::digits(shard)));
            args.extend([key_of(one.message.id), one.record.clone(), one.hold.clone(), shard]);
        }
        self.connection.run(&MESSAGE_RESTORE, keys, args).await.map(|_done| ())
    }

    async fn purge_messages(&self, queue: &QueueId) -> Result<(), Error> {
        self.connection.run(&QUEUE_PURGE, QueueKeys::of(queue).all(), Vec::new()).await.map(|_done| ())
    }

    async fn get_stats(&self, queue: &QueueId, detailed: bool) -> Result<Stats, Error> {
        let detail = Bytes::from_static(if detailed { b"detailed" } else { b"" });
        let (_stats, mut reply) = self.run_settled(&QUEUE_STATS, queue, &[detail]).await?;
        let now = reply.number()?;
        let (total, claimed) = (reply.number()?, reply.number()?);
        let details = read_details(now, &mut reply)?;
        let mut ends = read_messages(queue, now, reply)?.into_iter();
        Ok(Stats { total, claimed, oldest: ends.next(), newest: ends.next(), details: detailed.then_some(details) })
    }
}

impl RedisStore {
    async fn delete_by_id(
        &self,
        queue: &QueueId,
        ids: &[MessageId],
        claims_needed: Bytes,
        claims: &[ClaimId],
    ) -> Result<Deletion, Error> {
        let ids = own_ids(queue, ids);
        if ids.is_empty() {
            return Ok(Deletion::Done);
        }
        let mut args = vec![claims_needed];
        args.extend(claims.iter().map(|claim| Bytes::copy_from_slice(claim.as_bytes())));
        args.extend(keys_of(&ids));
        let (kind, _) = self.run_settled(&MESSAGE_DELETE, queue, &args).await?;
        match kind.as_str() {
            "done" => Ok(Deletion::Done),
            "unclaimed" => Ok(Deletion::Free),
            kind => Err(reply::unknown(MESSAGE_DELETE.name, kind)),
        }
    }
}

/// The messages of an answer that has come to its keys, records and holds.
pub(super) fn read_messages(queue: &QueueId, now_us: u64, mut reply: Reply) -> Result<Vec<Message>, Error> {
    let mut messages = Vec::new();
    while !reply.is_empty() {
        messages.push(read_popped(queue, now_us, &mut reply)?.message);
    }
    Ok(messages)
}

/// The next message of such an answer, with what it was read from.
fn read_popped(queue: &QueueId, now_us: u64, reply: &mut Reply) -> Result<Popped, Error> {
    let id = id_of(queue, &reply.bytes()?)?;
    let (record, hold) = (reply.bytes()?, reply.bytes()?);
    let message = record::message(id, &record, record::hold(&hold)?, now_us)?;
    let waited = hold.is_empty().then(|| message.waited(now_us));
    Ok(Popped { message, waited, record, hold, shard: None })
}

/// What each shard has, and who posts most.
fn read_details(now_us: u64, reply: &mut Reply) -> Result<Details, Error> {
    let (rows, tenants) = (reply.number()?, reply.number()?);
    let mut details = Details::default();
    for _ in 0..rows {
        let number = reply.number()?;
        let [available, delayed, claimed] = [reply.number()?, reply.number()?, reply.number()?];
        let oldest = Some(reply.number()?).filter(|rank| *rank > 0);
        let oldest_age_s = oldest.map(|rank| now_us.saturating_sub(rank) / 1_000_000);
        let holding = Holding { available, delayed, claimed, oldest_age_s };
        match u16::try_from(number).ok().and_then(Shard::new) {
            Some(shard) => details.shards.push((shard, holding)),
            None => details.unsharded = holding,
        }
    }
    details.shards.sort_unstable_by_key(|(shard, _)| *shard);
    let mut counts = Vec::new();
    for _ in 0..tenants {
        let (name, count) = (reply.text()?, reply.text()?);
        let count: f64 = count.parse().map_err(|_| Error::Corrupt(format!("{name} has posted {count:?} messages")))?;
        counts.push((Tenant::from_store(&name), count));
    }
    details.tenants = Details::shares(counts);
    Ok(details)
}

/// Those of the ids that can name a message here: a message's key has no room for the fingerprint.
fn own_ids(queue: &QueueId, ids: &[MessageId]) -> Vec<MessageId> {
    ids.iter().copied().filter(|id| id.is_of(queue)).collect()
}

/// A message's key, as a script gets it.
pub(super) fn key_of(id: MessageId) -> Bytes {
    Bytes::copy_from_slice(&key::key_of(id))
}

fn keys_of(ids: &[MessageId]) -> Vec<Bytes> {
    ids.iter().copied().map(key_of).collect()
}

pub(super) fn text(number: u64) -> Bytes {
    number.to_string().into()
}
