//! Claims in queues in pools.

use async_trait::async_trait;

use super::PooledStore;
use super::search::at;
use crate::{ClaimOutcome, ClaimStore, Error};
use sukkal_domain::{Claim, ClaimId, ClaimSummary, Fence, MessageId, NewClaim, QueueId, Taken, Term};

#[async_trait]
impl ClaimStore for PooledStore {
    async fn create_claim(&self, queue: &QueueId, id: ClaimId, new: &NewClaim) -> Result<Taken<Claim>, Error> {
        at!(self, queue, store => store.create_claim(queue, id, new))
    }

    async fn get_claim(&self, queue: &QueueId, id: ClaimId) -> Result<Option<Claim>, Error> {
        at!(self, queue, store => store.get_claim(queue, id))
    }

    async fn list_claims(
        &self,
        queue: &QueueId,
        after: Option<ClaimId>,
        limit: usize,
    ) -> Result<Vec<ClaimSummary>, Error> {
        at!(self, queue, store => store.list_claims(queue, after, limit))
    }

    async fn renew_claim(&self, queue: &QueueId, id: ClaimId, term: Term) -> Result<Option<Fence>, Error> {
        at!(self, queue, store => store.renew_claim(queue, id, term))
    }

    async fn return_message(
        &self,
        queue: &QueueId,
        claim: ClaimId,
        id: MessageId,
        delay_s: u32,
    ) -> Result<ClaimOutcome, Error> {
        at!(self, queue, store => store.return_message(queue, claim, id, delay_s))
    }

    async fn release_claim(&self, queue: &QueueId, id: ClaimId) -> Result<(), Error> {
        at!(self, queue, store => store.release_claim(queue, id))
    }

    async fn withdraw_claim(&self, queue: &QueueId, id: ClaimId) -> Result<(), Error> {
        at!(self, queue, store => store.withdraw_claim(queue, id))
    }
}
