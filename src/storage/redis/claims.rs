//! Claims in Redis: create, get, renew and release claims, and return single messages.

use async_trait::async_trait;
use bytes::Bytes;

use super::RedisStore;
use super::arguments;
use super::reply::{self, Reply};
use super::script::{CLAIM_CREATE, CLAIM_GET, CLAIM_RELEASE, CLAIM_RENEW, CLAIM_RETURN, Script};
use super::shard_digits;
use crate::domain::{Claim, ClaimId, MessageId, NewClaim, QueueId, Term};
use crate::storage::{ClaimOutcome, ClaimStore, Error, Processed};

#[async_trait]
impl ClaimStore for RedisStore {
    async fn create_claim(&self, queue: &QueueId, new: &NewClaim) -> Result<Option<Claim>, Error> {
        self.confirmer.note_use(queue);
        let (ttl_s, grace_s) = (arguments::number(new.term.ttl_s.into()), arguments::number(new.term.grace_s.into()));
        let (limit, prefer) =
            (arguments::number(new.limit as u64), Bytes::from(shard_digits::encode_all(&new.preferred_shards)));
        loop {
            let id = ClaimId::random();
            let args = [limit.clone(), arguments::claim(id), ttl_s.clone(), grace_s.clone(), prefer.clone()];
            let (kind, mut reply) = self.run_applying_due(&CLAIM_CREATE, queue, &args).await?;
            self.start_forwarding(queue, reply.number()?).await;
            if kind == "moved" {
                self.notify_after_dead_letters(queue);
                return Ok(None);
            }
            let claim = self.read_claim(&CLAIM_CREATE, queue, id, &kind, reply).await?;
            let claimed = claim.as_ref().map_or(0, |claim| claim.messages.len() as u64);
            self.count(Processed { claimed, ..Processed::default() });
            // If all messages of the claim have been deleted since, others may be available.
            if claim.as_ref().is_none_or(|claim| !claim.messages.is_empty()) {
                return Ok(claim);
            }
        }
    }

    async fn get_claim(&self, queue: &QueueId, id: ClaimId) -> Result<Option<Claim>, Error> {
        let (kind, mut reply) = self.run_applying_due(&CLAIM_GET, queue, &[arguments::claim(id)]).await?;
        let _dead_letters = reply.number()?;
        self.read_claim(&CLAIM_GET, queue, id, &kind, reply).await
    }

    async fn renew_claim(&self, queue: &QueueId, id: ClaimId, term: Term) -> Result<ClaimOutcome, Error> {
        let args = [arguments::claim(id), arguments::number(term.ttl_s.into()), arguments::number(term.grace_s.into())];
        self.change_claim(&CLAIM_RENEW, queue, &args).await
    }

    async fn return_message(
        &self,
        queue: &QueueId,
        claim: ClaimId,
        id: MessageId,
        delay_s: u32,
    ) -> Result<ClaimOutcome, Error> {
        // The key of an id of another queue could, by chance, be that of a message in this claim.
        let key = if id.is_of(queue) { arguments::message_key(id) } else { Bytes::new() };
        self.change_claim(&CLAIM_RETURN, queue, &[arguments::claim(claim), key, arguments::number(delay_s.into())])
            .await
    }

    async fn release_claim(&self, queue: &QueueId, id: ClaimId) -> Result<(), Error> {
        self.run_applying_due(&CLAIM_RELEASE, queue, &[arguments::claim(id), Bytes::new()]).await.map(|_done| ())
    }

    async fn withdraw_claim(&self, queue: &QueueId, id: ClaimId) -> Result<(), Error> {
        let args = [arguments::claim(id), Bytes::from_static(b"withdrawn")];
        self.run_applying_due(&CLAIM_RELEASE, queue, &args).await.map(|_done| ())
    }
}

impl RedisStore {
    async fn change_claim(&self, script: &Script, queue: &QueueId, args: &[Bytes]) -> Result<ClaimOutcome, Error> {
        let (kind, _) = self.run_applying_due(script, queue, args).await?;
        match kind.as_str() {
            "done" => Ok(ClaimOutcome::Done),
            "none" => Ok(ClaimOutcome::Gone),
            kind => Err(reply::unknown_kind(script.name, kind)),
        }
    }

    /// Reads the claim in the reply of a script, and its messages.
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
                let ttl_s =
                    u32::try_from(ttl_s).map_err(|_| Error::Corrupt(format!("claim {id} has a ttl of {ttl_s} s")))?;
                let age_s = now_us.saturating_sub(since_us) / 1_000_000;
                let fresh = reply.bytes()?;
                let messages = self.read_messages(queue, now_us, reply).await?;
                let fresh = messages.iter().zip(fresh.iter()).filter(|(_, is_fresh)| **is_fresh == b'1');
                let pickup_delays =
                    fresh.filter_map(|(message, _)| Some(message.as_ref()?.pickup_delay(now_us))).collect();
                // Messages that have been deleted since are left out.
                let messages = messages.into_iter().flatten().collect();
                Ok(Some(Claim { id, ttl_s, age_s, messages, pickup_delays }))
            }
            kind => Err(reply::unknown_kind(script.name, kind)),
        }
    }
}
