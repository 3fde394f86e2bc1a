//! Claims in Redis: create, get, renew, release.

use async_trait::async_trait;
use bytes::Bytes;

use super::RedisStore;
use super::messages::{read_messages, text};
use super::reply::{self, Reply};
use super::script::{CLAIM_CREATE, CLAIM_GET, CLAIM_RELEASE, CLAIM_RENEW, Script};
use crate::domain::{Claim, ClaimId, NewClaim, QueueId, Term};
use crate::storage::{ClaimStore, Error, Renewal};

#[async_trait]
impl ClaimStore for RedisStore {
    async fn create_claim(&self, queue: &QueueId, new: &NewClaim) -> Result<Option<Claim>, Error> {
        let id = ClaimId::random();
        let args = [text(new.limit as u64), bytes(id), text(new.term.ttl_s.into()), text(new.term.grace_s.into())];
        let (kind, reply) = self.run_settled(&CLAIM_CREATE, queue, &args).await?;
        read_claim(&CLAIM_CREATE, queue, id, &kind, reply)
    }

    async fn get_claim(&self, queue: &QueueId, id: ClaimId) -> Result<Option<Claim>, Error> {
        let (kind, reply) = self.run_settled(&CLAIM_GET, queue, &[bytes(id)]).await?;
        read_claim(&CLAIM_GET, queue, id, &kind, reply)
    }

    async fn renew_claim(&self, queue: &QueueId, id: ClaimId, term: Term) -> Result<Renewal, Error> {
        let args = [bytes(id), text(term.ttl_s.into()), text(term.grace_s.into())];
        let (kind, _) = self.run_settled(&CLAIM_RENEW, queue, &args).await?;
        match kind.as_str() {
            "done" => Ok(Renewal::Done),
            "none" => Ok(Renewal::Gone),
            kind => Err(reply::unknown(CLAIM_RENEW.name, kind)),
        }
    }

    async fn release_claim(&self, queue: &QueueId, id: ClaimId) -> Result<(), Error> {
        self.run_settled(&CLAIM_RELEASE, queue, &[bytes(id)]).await.map(|_done| ())
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
            Ok(Some(Claim { id, ttl_s, age_s, messages: read_messages(queue, now_us, reply)? }))
        }
        kind => Err(reply::unknown(script.name, kind)),
    }
}

fn bytes(id: ClaimId) -> Bytes {
    Bytes::copy_from_slice(id.as_bytes())
}
