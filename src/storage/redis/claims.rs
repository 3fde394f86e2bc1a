//! Claims in Redis: create, get, renew, give back, release.

use async_trait::async_trait;
use bytes::Bytes;

use super::RedisStore;
use super::messages::{key_of, read_messages, text};
use super::reply::{self, Reply};
use super::script::{CLAIM_CREATE, CLAIM_GET, CLAIM_RELEASE, CLAIM_RENEW, CLAIM_RETURN, CLAIM_WITHDRAW, Script};
use super::shards;
use crate::domain::{Claim, ClaimId, MessageId, NewClaim, QueueId, Term};
use crate::storage::{ClaimChange, ClaimStore, Error};

#[async_trait]
impl ClaimStore for RedisStore {
    async fn create_claim(&self, queue: &QueueId, new: &NewClaim) -> Result<Option<Claim>, Error> {
        let id = ClaimId::random();
        let (ttl_s, grace_s) = (text(new.term.ttl_s.into()), text(new.term.grace_s.into()));
        let args = [text(new.limit as u64), bytes(id), ttl_s, grace_s, shards::digits_of(&new.prefer).into()];
        let (kind, mut reply) = self.run_settled(&CLAIM_CREATE, queue, &args).await?;
        self.send_letters(queue, reply.number()?).await;
        read_claim(&CLAIM_CREATE, queue, id, &kind, reply)
    }

    async fn get_claim(&self, queue: &QueueId, id: ClaimId) -> Result<Option<Claim>, Error> {
        let (kind, mut reply) = self.run_settled(&CLAIM_GET, queue, &[bytes(id)]).await?;
        let _letters = reply.number()?;
        read_claim(&CLAIM_GET, queue, id, &kind, reply)
    }

    async fn renew_claim(&self, queue: &QueueId, id: ClaimId, term: Term) -> Result<ClaimChange, Error> {
        let args = [bytes(id), text(term.ttl_s.into()), text(term.grace_s.into())];
        self.change_claim(&CLAIM_RENEW, queue, &args).await
    }

    async fn return_message(
        &self,
        queue: &QueueId,
        claim: ClaimId,
        id: MessageId,
        delay_s: u32,
    ) -> Result<ClaimChange, Error> {
        // An id of another queue has a key that this claim cannot hold, but by chance.
        let key = if id.is_of(queue) { key_of(id) } else { Bytes::new() };
        self.change_claim(&CLAIM_RETURN, queue, &[bytes(claim), key, text(delay_s.into())]).await
    }

    async fn release_claim(&self, queue: &QueueId, id: ClaimId) -> Result<(), Error> {
        self.run_settled(&CLAIM_RELEASE, queue, &[bytes(id)]).await.map(|_done| ())
    }

    async fn withdraw_claim(&self, queue: &QueueId, id: ClaimId) -> Result<(), Error> {
        self.run_settled(&CLAIM_WITHDRAW, queue, &[bytes(id)]).await.map(|_done| ())
    }
}

impl RedisStore {
    async fn change_claim(&self, script: &Script, queue: &QueueId, args: &[Bytes]) -> Result<ClaimChange, Error> {
        let (kind, _) = self.run_settled(script, queue, args).await?;
        match kind.as_str() {
            "done" => Ok(ClaimChange::Done),
            "none" => Ok(ClaimChange::Gone),
            kind => Err(reply::unknown(script.name, kind)),
        }
    }
}

fn read_claim(
    script: &Script,
    queue: &QueueId,
    id: ClaimId,
    kind: &str,
    mut reply: Reply,
) -> Result<Option<Claim>, Error> {
    match kind {
        "none" => Ok(None),
        "claim" => {
            let (now_us, ttl_s, since_us) = (reply.number()?, reply.number()?, reply.number()?);
            let ttl_s = u32::try_from(ttl_s).map_err(|_| Error::Corrupt(format!("claim {id} lasts {ttl_s} s")))?;
            let age_s = now_us.saturating_sub(since_us) / 1_000_000;
            let fresh = reply.bytes()?;
            let messages = read_messages(queue, now_us, reply)?;
            let fresh = messages.iter().zip(fresh.iter()).filter(|(_, is_fresh)| **is_fresh == b'1');
            let waited = fresh.map(|(message, _)| message.waited(now_us)).collect();
            Ok(Some(Claim { id, ttl_s, age_s, messages, waited }))
        }
        kind => Err(reply::unknown(script.name, kind)),
    }
}

fn bytes(id: ClaimId) -> Bytes {
    Bytes::copy_from_slice(id.as_bytes())
}
