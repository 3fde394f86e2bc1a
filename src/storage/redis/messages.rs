//! Messages in Redis: post, list, get, delete, pop; and what a queue holds of them.

use async_trait::async_trait;
use bytes::Bytes;

use super::keys::QueueKeys;
use super::reply::{self, Reply};
use super::script::{
    MESSAGE_ACKNOWLEDGE, MESSAGE_DELETE, MESSAGE_GET, MESSAGE_LIST, MESSAGE_POP, MESSAGE_POST, QUEUE_PURGE, QUEUE_STATS,
};
use super::{RedisStore, queues};
use crate::domain::message::Nonce;
use crate::domain::{ClaimId, ClientId, Message, MessageId, NewMessage, QueueId, Rank, Revision};
use crate::storage::{Deletion, Error, GivenClaim, Listing, MessageStore, Posting, Scope, Stats, record};

/// How long an answer is remembered: much longer than anybody goes on asking for it.
const ANSWER_REMEMBERED_MS: &str = "30000";
const KEY_BYTES: usize = 12;

#[async_trait]
impl MessageStore for RedisStore {
    async fn post_messages(
        &self,
        queue: &QueueId,
        seen: Revision,
        client: &ClientId,
        messages: &[NewMessage],
    ) -> Result<Posting, Error> {
        let lane = self.lanes.take();
        let client = record::client_digest(client);
        let nonces: Vec<Nonce> = messages.iter().map(|_| Nonce::random()).collect();
        let mut args = vec![text(seen.0), text(lane.sequence()), Bytes::from_static(ANSWER_REMEMBERED_MS.as_bytes())];
        for (message, nonce) in messages.iter().zip(&nonces) {
            args.push(Bytes::copy_from_slice(&nonce.bits().to_be_bytes()[3..]));
            args.push(record::tail(message, &client));
        }

        let keys = QueueKeys::of(queue).all_and_answer(&lane.name());
        let mut reply = self.connection.run(&MESSAGE_POST, keys, args).await?;
        match reply.text()?.as_str() {
            "posted" => {
                let first = reply.number()?;
                let fingerprint = queue.fingerprint();
                let ids = (first..)
                    .zip(nonces)
                    .map(|(micros, nonce)| Ok(MessageId::with_fingerprint(fingerprint, rank(micros)?, nonce)));
                Ok(Posting::Posted(ids.collect::<Result<_, Error>>()?))
            }
            "stale" if reply.is_empty() => Ok(Posting::Stale(None)),
            "stale" => Ok(Posting::Stale(Some(queues::read_queue(reply.number()?, &reply.bytes()?)?))),
            kind => Err(reply::unknown(MESSAGE_POST.name, kind)),
        }
    }

    async fn list_messages(&self, queue: &QueueId, listing: &Listing) -> Result<Vec<Message>, Error> {
        let mut after = text(listing.after.map_or(0, Rank::micros));
        let limit = text(listing.limit as u64);
        let not_from = listing.not_from.as_ref().map(|client| record::client_digest(client).to_vec());
        let not_from = Bytes::from(not_from.unwrap_or_default());
        let scope = match listing.scope {
            Scope::Free => "",
            Scope::FreeAndClaimed => "held",
        };
        loop {
            let args = [after, limit.clone(), not_from.clone(), Bytes::from_static(scope.as_bytes())];
            let (kind, mut reply) = self.run_settled(&MESSAGE_LIST, queue, &args).await?;
            match kind.as_str() {
                "page" => return read_page(queue, reply),
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

    async fn pop_messages(&self, queue: &QueueId, limit: usize) -> Result<Vec<Message>, Error> {
        let keys = QueueKeys::of(queue).all();
        loop {
            let mut reply = self.connection.run_once(&MESSAGE_POP, keys.clone(), vec![text(limit as u64)]).await?;
            match reply.text()?.as_str() {
                "again" => {}
                _popped => return read_page(queue, reply),
            }
        }
    }

    async fn purge_messages(&self, queue: &QueueId) -> Result<(), Error> {
        self.connection.run(&QUEUE_PURGE, QueueKeys::of(queue).all(), Vec::new()).await.map(|_done| ())
    }

    async fn get_stats(&self, queue: &QueueId) -> Result<Stats, Error> {
        let (_stats, mut reply) = self.run_settled(&QUEUE_STATS, queue, &[]).await?;
        let now = reply.number()?;
        let (total, claimed) = (reply.number()?, reply.number()?);
        let mut ends = read_messages(queue, now, reply)?.into_iter();
        Ok(Stats { total, claimed, oldest: ends.next(), newest: ends.next() })
    }
}

fn read_page(queue: &QueueId, mut reply: Reply) -> Result<Vec<Message>, Error> {
    let now = reply.number()?;
    read_messages(queue, now, reply)
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
    let fingerprint = queue.fingerprint();
    let mut messages = Vec::new();
    while !reply.is_empty() {
        let (rank, nonce) = parse_key(&reply.bytes()?)?;
        let id = MessageId::with_fingerprint(fingerprint, rank, nonce);
        let (record, hold) = (reply.bytes()?, reply.bytes()?);
        messages.push(record::message(id, &record, record::hold(&hold)?, now_us)?);
    }
    Ok(messages)
}

/// Those of the ids that can name a message here: a message's key has no room for the fingerprint.
fn own_ids(queue: &QueueId, ids: &[MessageId]) -> Vec<MessageId> {
    ids.iter().copied().filter(|id| id.is_of(queue)).collect()
}

/// What a message is called inside its queue: its rank in seven bytes and its nonce in five.
fn key_of(id: MessageId) -> Bytes {
    let mut key = [0; KEY_BYTES];
    key[..7].copy_from_slice(&id.rank().micros().to_be_bytes()[1..]);
    key[7..].copy_from_slice(&id.nonce().bits().to_be_bytes()[3..]);
    Bytes::copy_from_slice(&key)
}

fn keys_of(ids: &[MessageId]) -> Vec<Bytes> {
    ids.iter().copied().map(key_of).collect()
}

fn parse_key(key: &[u8]) -> Result<(Rank, Nonce), Error> {
    if key.len() != KEY_BYTES {
        return Err(Error::Corrupt("a message's key has not twelve bytes".to_owned()));
    }
    let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    Ok((rank(number(&key[..7]))?, Nonce::from_bits(number(&key[7..]))))
}

fn rank(micros: u64) -> Result<Rank, Error> {
    Rank::new(micros).ok_or_else(|| Error::Corrupt(format!("rank {micros} is beyond 2^53")))
}

pub(super) fn text(number: u64) -> Bytes {
    number.to_string().into()
}
