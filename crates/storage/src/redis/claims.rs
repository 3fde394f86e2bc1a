//! Claims in Redis: create, get, list, renew and release claims, and return single messages.

use async_trait::async_trait;
use bytes::Bytes;

use super::RedisStore;
use super::arguments;
use super::reply::{self, Reply};
use super::script::{CLAIM_CREATE, CLAIM_GET, CLAIM_LIST, CLAIM_RELEASE, CLAIM_RENEW, CLAIM_RETURN, Script};
use super::shard_digits;
use crate::{ClaimOutcome, ClaimStore, Error, Processed};
use sukkal_domain::{Claim, ClaimId, ClaimSummary, ClientId, Fence, MessageId, NewClaim, QueueId, Taken, Term};

#[async_trait]
impl ClaimStore for RedisStore {
    async fn create_claim(&self, queue: &QueueId, id: ClaimId, new: &NewClaim) -> Result<Taken<Claim>, Error> {
        self.confirmer.note_use(queue);
        let args = [
            arguments::number(new.limit as u64),
            arguments::claim(id),
            arguments::number(new.term.ttl_s.into()),
            arguments::number(new.term.grace_s.into()),
            Bytes::from(shard_digits::encode_all(&new.preferred_shards)),
            Bytes::copy_from_slice(new.client.as_str().as_bytes()),
        ];
        while let Some((kind, reply)) = self.take_next(&CLAIM_CREATE, queue, &args).await? {
            match kind.as_str() {
                "paused" => return Ok(Taken::Paused),
                "repeated" => {
                    let claim = self.get_claim(queue, id).await.map_err(unknown_if_moved)?;
                    return Ok(claim.map_or(Taken::Nothing, Taken::Messages));
                }
                _ => {}
            }
            match self.read_claim(&CLAIM_CREATE, queue, id, &kind, reply).await.map_err(unknown_if_moved)? {
                None => return Ok(Taken::Nothing),
                // All messages of the claim have been deleted since, and others may be available.
                Some(claim) if claim.messages.is_empty() => self.end_claim(queue, id, b"forgotten").await?,
                Some(claim) => {
                    self.count(Processed { claimed: claim.messages.len() as u64, ..Processed::default() });
                    return Ok(Taken::Messages(claim));
                }
            }
        }
        Ok(Taken::Nothing)
    }

    async fn get_claim(&self, queue: &QueueId, id: ClaimId) -> Result<Option<Claim>, Error> {
        let (kind, mut reply) = self.run_applying_due(&CLAIM_GET, queue, &[arguments::claim(id)]).await?;
        let _dead_letters = reply.number()?;
        self.read_claim(&CLAIM_GET, queue, id, &kind, reply).await
    }

    async fn list_claims(
        &self,
        queue: &QueueId,
        after: Option<ClaimId>,
        limit: usize,
    ) -> Result<Vec<ClaimSummary>, Error> {
        let args = [after.map_or_else(Bytes::new, arguments::claim), arguments::number(limit as u64)];
        let (_claims, mut reply) = self.run_applying_due(&CLAIM_LIST, queue, &args).await?;
        let now_us = reply.number()?;
        reply.read_all(|reply| {
            let id = reply.bytes()?;
            let id = <[u8; 16]>::try_from(&*id).map_err(|_| Error::Corrupt(format!("{id:?} is no claim id")))?;
            let id = ClaimId::from_bytes(id);
            let (ttl_s, age_s) = term(id, now_us, reply)?;
            let fence = Fence(reply.number()?);
            let client = ClientId::from_store(&reply.text()?);
            Ok(ClaimSummary { id, client, ttl_s, age_s, fence, message_count: reply.number()? })
        })
    }

    async fn renew_claim(&self, queue: &QueueId, id: ClaimId, term: Term) -> Result<Option<Fence>, Error> {
        let args = [arguments::claim(id), arguments::number(term.ttl_s.into()), arguments::number(term.grace_s.into())];
        let (kind, mut reply) = self.run_applying_due(&CLAIM_RENEW, queue, &args).await?;
        match kind.as_str() {
            "done" => Ok(Some(Fence(reply.number()?))),
            "none" => Ok(None),
            kind => Err(reply::unknown_kind(CLAIM_RENEW.name, kind)),
        }
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
        let args = [arguments::claim(claim), key, arguments::number(delay_s.into())];
        let (kind, _) = self.run_applying_due(&CLAIM_RETURN, queue, &args).await?;
        match kind.as_str() {
            "done" => Ok(ClaimOutcome::Done),
            "not_held" => Ok(ClaimOutcome::NotHeld),
            "none" => Ok(ClaimOutcome::Gone),
            kind => Err(reply::unknown_kind(CLAIM_RETURN.name, kind)),
        }
    }

    async fn release_claim(&self, queue: &QueueId, id: ClaimId) -> Result<(), Error> {
        self.end_claim(queue, id, b"").await
    }

    async fn withdraw_claim(&self, queue: &QueueId, id: ClaimId) -> Result<(), Error> {
        self.end_claim(queue, id, b"withdrawn").await?;
        self.pops.forget(id);
        Ok(())
    }
}

impl RedisStore {
    /// Ends a claim in one of the ways that the script has.
    async fn end_claim(&self, queue: &QueueId, id: ClaimId, how: &'static [u8]) -> Result<(), Error> {
        let args = [arguments::claim(id), Bytes::from_static(how)];
        self.run_applying_due(&CLAIM_RELEASE, queue, &args).await.map(|_done| ())
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
                let now_us = reply.number()?;
                let (ttl_s, age_s) = term(id, now_us, &mut reply)?;
                let fence = Fence(reply.number()?);
                let fresh = reply.bytes()?;
                let messages = self.read_messages(queue, now_us, reply).await?;
                let fresh = messages.iter().zip(fresh.iter()).filter(|(_, is_fresh)| **is_fresh == b'1');
                let pickup_delays =
                    fresh.filter_map(|(message, _)| Some(message.as_ref()?.pickup_delay(now_us))).collect();
                // Messages that have been deleted since are left out.
                let messages = messages.into_iter().flatten().collect();
                Ok(Some(Claim { id, ttl_s, age_s, fence, messages, pickup_delays }))
            }
            kind => Err(reply::unknown_kind(script.name, kind)),
        }
    }
}

/// Reads the ttl and the start of a claim's term. Returns the ttl and the age, in seconds.
fn term(id: ClaimId, now_us: u64, reply: &mut Reply) -> Result<(u32, u64), Error> {
    let (ttl_s, since_us) = (reply.number()?, reply.number()?);
    let ttl_s = u32::try_from(ttl_s).map_err(|_| Error::Corrupt(format!("claim {id} has a ttl of {ttl_s} s")))?;
    Ok((ttl_s, now_us.saturating_sub(since_us) / 1_000_000))
}

/// Returns the error for a claim that was created before its queue moved, and could not be read
/// after that. It moves with the queue, so the request must not be repeated in the other pool.
fn unknown_if_moved(error: Error) -> Error {
    match error {
        Error::NoQueue => Error::Unavailable("the queue moved to another pool after it was claimed from".to_owned()),
        error => error,
    }
}
