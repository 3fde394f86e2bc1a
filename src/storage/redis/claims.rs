//! Claims in Redis: create, get, renew, give back, release.

use async_trait::async_trait;
use bytes::Bytes;

use super::RedisStore;
use super::messages::{key_of, text};
use super::reply::{self, Reply};
use super::script::{CLAIM_CREATE, CLAIM_GET, CLAIM_RELEASE, CLAIM_RENEW, CLAIM_RETURN, Script};
use super::shards;
use crate::domain::{Claim, ClaimId, MessageId, NewClaim, QueueId, Term};
use crate::storage::{ClaimChange, ClaimStore, Error};

#[async_trait]
impl ClaimStore for RedisStore {
    async fn create_claim(&self, queue: &QueueId, new: &NewClaim) -> Result<Option<Claim>, Error> {
        self.confirmation.uses(queue);
        let (ttl_s, grace_s) = (text(new.term.ttl_s.into()), text(new.term.grace_s.into()));
        let (limit, prefer) = (text(new.limit as u64), Bytes::from(shards::digits_of(&new.prefer)));
        loop {
            let id = ClaimId::random();
            let args = [limit.clone(), bytes(id), ttl_s.clone(), grace_s.clone(), prefer.clone()];
            let (kind, mut reply) = self.run_settled(&CLAIM_CREATE, queue, &args).await?;
            self.start_forwarding(queue, reply.number()?).await;
            if kind == "moved" {
                self.notify_behind_dead_letters(queue);
                return Ok(None);
            }
            let claim = self.read_claim(&CLAIM_CREATE, queue, id, &kind, reply).await?;
            // If all its messages were deleted since, there may be others.
            if claim.as_ref().is_none_or(|claim| !claim.messages.is_empty()) {
                return Ok(claim);
            }
        }
    }

    async fn get_claim(&self, queue: &QueueId, id: ClaimId) -> Result<Option<Claim>, Error> {
        let (kind, mut reply) = self.run_settled(&CLAIM_GET, queue, &[bytes(id)]).await?;
        let _dead_letters = reply.number()?;
        self.read_claim(&CLAIM_GET, queue, id, &kind, reply).await
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
        self.run_settled(&CLAIM_RELEASE, queue, &[bytes(id), Bytes::new()]).await.map(|_done| ())
    }

    async fn withdraw_claim(&self, queue: &QueueId, id: ClaimId) -> Result<(), Error> {
        let args = [bytes(id), Bytes::from_static(b"withdrawn")];
        self.run_settled(&CLAIM_RELEASE, queue, &args).await.map(|_done| ())
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

    /// The claim that a script has answered, with its messages.
    async fn read_claim(
        &self,
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
                let messages = self.read_messages(queue, now_us, reply).await?;
                let fresh = messages.iter().zip(fresh.iter()).filter(|(_, is_fresh)| **is_fresh == b'1');
                let waited = fresh.filter_map(|(message, _)| Some(message.as_ref()?.waited(now_us))).collect();
                // A message that is gone by now was deleted since.
                let messages = messages.into_iter().flatten().collect();
                Ok(Some(Claim { id, ttl_s, age_s, messages, waited }))
            }
            kind => Err(reply::unknown(script.name, kind)),
        }
    }
}

fn bytes(id: ClaimId) -> Bytes {
    Bytes::copy_from_slice(id.as_bytes())
}
