//! Operations on claims.

use super::taken::{Taken, WayBack};
use super::{Admitted, Broker, Error, check_range};
use crate::domain::limits::CLAIM_TERM_S_MIN;
use crate::domain::{Claim, ClaimId, MessageId, NewClaim, QueueId, Shard, Tenant, Term};
use crate::storage::ClaimChange;

/// How long a worker wants a claim; the service's defaults where it does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TermDraft {
    /// How long the claim shall last, in seconds.
    pub ttl_s: Option<i64>,
    /// How much longer a message shall live that would end before the claim, in seconds.
    pub grace_s: Option<i64>,
}

/// From where in a fair queue a worker would rather be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preference {
    /// From that shard.
    Shard(Shard),
    /// From the shards of that tenant.
    Tenant(Tenant),
}

/// A claim as a worker asks for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimRequest {
    /// How many messages at most; the service's default without it.
    pub limit: Option<i64>,
    /// How long the worker wants it.
    pub term: TermDraft,
    /// How long to wait for a message where there is none, in seconds.
    pub wait_s: Option<i64>,
    /// From where the worker would rather be served; a queue that is not fair does not look at it.
    pub prefer: Option<Preference>,
}

impl Broker {
    /// Claims the free messages that are next; `None` when there are none, and none turn up while the caller waits.
    pub async fn create_claim(&self, queue: QueueId, request: ClaimRequest) -> Result<Option<Taken<Claim>>, Error> {
        let limit = match request.limit {
            Some(limit) => check_range("limit", limit, 1, self.limits.max_messages_per_claim_or_pop)?,
            None => self.limits.messages_per_claim(),
        };
        let term = self.admit_term(request.term, CLAIM_TERM_S_MIN)?;
        let wait = self.admit_wait(request.wait_s)?;
        let prefer = match &request.prefer {
            Some(preference) => self.preferred(&queue, preference).await?,
            None => Vec::new(),
        };
        let new = NewClaim { limit: limit as usize, term, prefer };
        let look = |store| {
            let (this, queue, new) = (self.clone(), queue.clone(), new.clone());
            self.to_the_end(async move { this.claim_once(&store, &queue, new, !wait.is_zero()).await })
        };
        self.look_in_turn(&queue, wait, look).await
    }

    async fn claim_once(
        &self,
        store: &Admitted,
        queue: &QueueId,
        new: NewClaim,
        may_go_back: bool,
    ) -> Result<Option<Taken<Claim>>, Error> {
        let new = NewClaim { limit: self.look_ahead(store, queue, new.limit).await?, ..new };
        let Some(claim) = store.create_claim(queue, &new).await? else {
            return Ok(None);
        };
        // Also if it goes back: what has been under a claim is never again claimed for the first time.
        self.metrics.picked_up(claim.waited.iter().copied());
        let way_back = if may_go_back { WayBack::of_claim(self, queue, claim.id) } else { WayBack::none() };
        let value = self.open_claim(queue, claim).await?;
        Ok(Some(Taken { value, way_back }))
    }

    /// The shards that somebody prefers, in a queue as it is divided now.
    async fn preferred(&self, queue: &QueueId, preference: &Preference) -> Result<Vec<Shard>, Error> {
        let tenant = match preference {
            Preference::Shard(shard) => return Ok(vec![*shard]),
            Preference::Tenant(tenant) => tenant,
        };
        let queue = self.admitted(queue).await?.get_queue(queue).await?;
        let sharding = queue.and_then(|queue| queue.metadata.sharding());
        Ok(sharding.map(|sharding| sharding.draw(tenant).shards).unwrap_or_default())
    }

    /// The claim with the messages that it still holds.
    pub async fn get_claim(&self, queue: &QueueId, id: &str) -> Result<Claim, Error> {
        let missing = || no_claim(queue, id);
        let Some(id) = ClaimId::parse(id) else {
            self.ping_for(queue).await?;
            return Err(missing());
        };
        let mut claim = self.admitted(queue).await?.get_claim(queue, id).await?.ok_or_else(missing)?;
        claim.messages = self.sealing.open_all(queue, claim.messages)?;
        Ok(claim)
    }

    /// Lets the claim run anew, with all messages that it still holds.
    pub async fn renew_claim(&self, queue: QueueId, id: &str, term: TermDraft) -> Result<(), Error> {
        // Only creation has a least grace.
        let term = self.admit_term(term, 0)?;
        let missing = no_claim(&queue, id);
        let Some(id) = ClaimId::parse(id) else {
            self.ping_for(&queue).await?;
            return Err(missing);
        };
        let store = self.admitted(&queue).await?;
        match self.to_the_end(async move { store.renew_claim(&queue, id, term).await }).await? {
            ClaimChange::Done => Ok(()),
            ClaimChange::Gone => Err(missing),
        }
    }

    /// Gives back one message of a live claim, if it still holds it: free at once, or after a delay in seconds
    /// in which nobody gets it.
    pub async fn return_message(
        &self,
        queue: QueueId,
        claim: &str,
        id: &str,
        delay_s: Option<i64>,
    ) -> Result<(), Error> {
        let delay_s = check_range("delay", delay_s.unwrap_or(0), 0, self.limits.max_claim_ttl)?;
        let missing = no_claim(&queue, claim);
        let Some(claim) = ClaimId::parse(claim) else {
            self.ping_for(&queue).await?;
            return Err(missing);
        };
        let store = self.admitted(&queue).await?;
        let change = match MessageId::parse(id, &queue) {
            Some(id) => self.to_the_end(async move { store.return_message(&queue, claim, id, delay_s).await }).await?,
            // It names no message here, so there is nothing to give back.
            None if store.get_claim(&queue, claim).await?.is_some() => ClaimChange::Done,
            None => ClaimChange::Gone,
        };
        match change {
            ClaimChange::Done => Ok(()),
            ClaimChange::Gone => Err(missing),
        }
    }

    /// Ends the claim, if it is live: what it still holds is free again.
    pub async fn release_claim(&self, queue: QueueId, id: &str) -> Result<(), Error> {
        let Some(id) = ClaimId::parse(id) else {
            return self.ping_for(&queue).await;
        };
        let store = self.admitted(&queue).await?;
        self.to_the_end(async move { Ok(store.release_claim(&queue, id).await?) }).await
    }

    fn admit_term(&self, term: TermDraft, grace_s_min: u32) -> Result<Term, Error> {
        let limits = &self.limits;
        let ttl_s = term.ttl_s.unwrap_or(limits.default_claim_ttl.into());
        let grace_s = term.grace_s.unwrap_or(limits.default_claim_grace.into());
        Ok(Term {
            ttl_s: check_range("ttl", ttl_s, CLAIM_TERM_S_MIN, limits.max_claim_ttl)?,
            grace_s: check_range("grace", grace_s, grace_s_min, limits.max_claim_grace)?,
        })
    }
}

fn no_claim(queue: &QueueId, id: &str) -> Error {
    Error::NoClaim(format!("Claim {id} does not exist in the queue {} for project {}", queue.name(), queue.project()))
}
