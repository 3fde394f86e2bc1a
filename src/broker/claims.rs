//! Operations on claims.

use super::access::{Access, AdmittedStore, require_client};
use super::range::{check_range, page_limit};
use super::undelivered::{ReturnGuard, Undelivered};
use super::{Action, Broker, Error};
use crate::auth::Caller;
use sukkal_domain::limits::CLAIM_TERM_S_MIN;
use sukkal_domain::{
    Claim, ClaimId, ClaimSummary, Fence, MessageId, NewClaim, QueueId, Shard, Taken, Tenant, Term, Warning,
    WithWarnings,
};
use sukkal_storage::ClaimOutcome;

/// The term that a worker asks for; `None` means the service's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TermDraft {
    /// Time to live of the claim, in seconds.
    pub ttl_s: Option<i64>,
    /// A message that would expire before the claim lives for this number of seconds beyond the
    /// claim.
    pub grace_s: Option<i64>,
}

/// The part of a fair queue from which a worker prefers messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preference {
    /// This shard.
    Shard(Shard),
    /// The shards of this tenant.
    Tenant(Tenant),
}

/// A request for a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimRequest {
    /// Maximum number of messages; `None` for the service's default.
    pub limit: Option<i64>,
    /// The duration of the claim.
    pub term: TermDraft,
    /// Number of seconds to wait for a message if none is available.
    pub wait_s: Option<i64>,
    /// The preferred part of a fair queue. Other queues ignore it.
    pub prefer: Option<Preference>,
}

impl Broker {
    /// Claims the next available messages. Takes nothing if there are none, and none becomes
    /// available while the caller waits. A queue that is paused has none.
    pub async fn create_claim(
        &self,
        caller: &Caller,
        queue: QueueId,
        request: ClaimRequest,
    ) -> Result<Taken<Undelivered<Claim>>, Error> {
        let client = require_client(caller)?.id.clone();
        let access = self.store.authorize(caller, Action::CreateClaim, &queue)?;
        let limit = page_limit(request.limit, self.limits.max_messages_per_claim_or_pop)?;
        let term = self.check_term(request.term, CLAIM_TERM_S_MIN)?;
        let wait = self.waiting.check_duration(request.wait_s)?;
        let prefer = match &request.prefer {
            Some(preference) => preferred(&access, &queue, preference).await?,
            None => Vec::new(),
        };
        let new = NewClaim { limit, term, preferred_shards: prefer, client };
        let claim = |store| {
            let (this, queue, new) = (self.clone(), queue.clone(), new.clone());
            self.run_to_completion(async move { this.claim_once(store, &queue, new, !wait.is_zero()).await })
        };
        self.waiting.take_within(&access, &queue, wait, claim).await
    }

    async fn claim_once(
        &self,
        store: AdmittedStore,
        queue: &QueueId,
        new: NewClaim,
        is_returnable: bool,
    ) -> Result<Taken<Undelivered<Claim>>, Error> {
        let new = NewClaim { limit: self.encryption.claimable(&store, queue, new.limit).await?, ..new };
        let id = ClaimId::random();
        let guard = ReturnGuard::of_claim(self, queue, id);
        let (mut claim, guard) = match guard.taken_by(store.create_claim(queue, id, &new).await)? {
            Taken::Messages(taken) => taken,
            Taken::Nothing => return Ok(Taken::Nothing),
            Taken::Paused => {
                self.metrics.count_paused_claim();
                return Ok(Taken::Paused);
            }
        };
        drop(store);
        // Also if the claim is withdrawn later: its messages are never claimed for the first time
        // again.
        self.metrics.record_pickup_delays(claim.pickup_delays.iter().copied());
        claim.messages = self.encryption.decrypt_all(queue, claim.messages)?;
        let return_guard = if is_returnable { guard } else { guard.disarmed() };
        Ok(Taken::Messages(Undelivered { value: claim, return_guard }))
    }

    /// Returns the claim with the messages that it still holds.
    pub async fn get_claim(&self, caller: &Caller, queue: &QueueId, id: &str) -> Result<Claim, Error> {
        let store = self.store.authorize(caller, Action::GetClaim, queue)?.admit().await?;
        let found = store.get_claim(queue, ClaimId::parse_or_unknown(id)).await?;
        let mut claim = found.ok_or_else(|| no_claim(queue, id))?;
        drop(store);
        claim.messages = self.encryption.decrypt_all(queue, claim.messages)?;
        Ok(claim)
    }

    /// Returns a page of the queue's live claims after an id, in the order of their ids. It is
    /// empty only at the end of the list. A queue that does not exist has no claims.
    pub async fn list_claims(
        &self,
        caller: &Caller,
        queue: &QueueId,
        after: Option<ClaimId>,
        limit: Option<i64>,
    ) -> Result<Vec<ClaimSummary>, Error> {
        let access = self.store.authorize(caller, Action::ListClaims, queue)?;
        let limit = page_limit(limit, self.limits.max_messages_per_page)?;
        Ok(access.admit().await?.list_claims(queue, after, limit).await?)
    }

    /// Renews the claim: its term begins again, for all messages that it still holds. Returns its
    /// fence.
    pub async fn renew_claim(
        &self,
        caller: &Caller,
        queue: QueueId,
        id: &str,
        term: TermDraft,
    ) -> Result<Fence, Error> {
        let access = self.store.authorize(caller, Action::RenewClaim, &queue)?;
        // Only the creation of a claim has a minimum grace.
        let term = self.check_term(term, 0)?;
        let store = access.admit().await?;
        let (missing, id) = (no_claim(&queue, id), ClaimId::parse_or_unknown(id));
        let renewed = self.run_to_completion(async move { store.renew_claim(&queue, id, term).await }).await?;
        renewed.ok_or(missing)
    }

    /// Returns one message of a live claim to the queue, if the claim still holds it. The message
    /// becomes available at once, or after a delay in seconds.
    pub async fn return_message(
        &self,
        caller: &Caller,
        queue: QueueId,
        claim: &str,
        id: &str,
        delay_s: Option<i64>,
    ) -> Result<WithWarnings<()>, Error> {
        let access = self.store.authorize(caller, Action::ReturnMessage, &queue)?;
        let delay_s = check_range("delay", delay_s.unwrap_or(0), 0, self.limits.max_claim_ttl)?;
        let store = access.admit().await?;
        let (missing, claim) = (no_claim(&queue, claim), ClaimId::parse_or_unknown(claim));
        let change = match MessageId::parse(id, &queue) {
            Some(id) => {
                self.run_to_completion(async move { store.return_message(&queue, claim, id, delay_s).await }).await?
            }
            // The id cannot be one of this queue, so there is no message to return.
            None if store.get_claim(&queue, claim).await?.is_some() => ClaimOutcome::NotHeld,
            None => ClaimOutcome::Gone,
        };
        match change {
            ClaimOutcome::Done => Ok(WithWarnings::none(())),
            ClaimOutcome::NotHeld => Ok(WithWarnings { value: (), warnings: vec![Warning::NotHeld] }),
            ClaimOutcome::Gone => Err(missing),
        }
    }

    /// Ends the claim, if it is live. The messages that it still holds become available again.
    pub async fn release_claim(&self, caller: &Caller, queue: QueueId, id: &str) -> Result<(), Error> {
        let store = self.store.authorize(caller, Action::ReleaseClaim, &queue)?.admit().await?;
        let id = ClaimId::parse_or_unknown(id);
        self.run_to_completion(async move { Ok(store.release_claim(&queue, id).await?) }).await
    }

    fn check_term(&self, term: TermDraft, grace_s_min: u32) -> Result<Term, Error> {
        let limits = &self.limits;
        let ttl_s = term.ttl_s.unwrap_or(limits.default_claim_ttl.into());
        let grace_s = term.grace_s.unwrap_or(limits.default_claim_grace.into());
        Ok(Term {
            ttl_s: check_range("ttl", ttl_s, CLAIM_TERM_S_MIN, limits.max_claim_ttl)?,
            grace_s: check_range("grace", grace_s, grace_s_min, limits.max_claim_grace)?,
        })
    }
}

/// Returns the shards that a worker prefers, as the queue is sharded now.
async fn preferred(access: &Access, queue: &QueueId, preference: &Preference) -> Result<Vec<Shard>, Error> {
    let tenant = match preference {
        Preference::Shard(shard) => return Ok(vec![*shard]),
        Preference::Tenant(tenant) => tenant,
    };
    let queue = access.admit().await?.get_queue(queue).await?;
    let sharding = queue.and_then(|queue| queue.metadata.sharding());
    Ok(sharding.map(|sharding| sharding.assign(tenant).shards).unwrap_or_default())
}

fn no_claim(queue: &QueueId, id: &str) -> Error {
    Error::NotFound(format!("Claim {id} does not exist in the queue {} for project {}", queue.name(), queue.project()))
}
