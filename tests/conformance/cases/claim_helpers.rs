//! Helpers for cases on claims: claim, show, renew, release, and list with the claimed messages.

use sukkal_domain::{Claim, ClaimId, ClientId, Fence, MessageId, NewClaim, NewMessage, QueueId, Scope, Term};
use sukkal_storage::{DeleteOutcome, Listing};

use crate::conformance::support::subject::{Subject, client, ids_of};

const OK: &str = "the store answers";
const GRACE_S: u32 = 60;

impl Subject {
    /// Claims available messages, of which there must be at least one.
    pub(in crate::conformance) async fn claim(&self, queue: &QueueId, limit: usize, ttl_s: u32) -> Claim {
        self.claim_for(queue, limit, ttl_s, GRACE_S).await.expect("a message is available")
    }

    pub(in crate::conformance) async fn claim_for(
        &self,
        queue: &QueueId,
        limit: usize,
        ttl_s: u32,
        grace_s: u32,
    ) -> Option<Claim> {
        self.claim_as(
            queue,
            NewClaim { limit, term: Term { ttl_s, grace_s }, preferred_shards: Vec::new(), client: client(0) },
        )
        .await
    }

    pub(in crate::conformance) async fn claim_as(&self, queue: &QueueId, new: NewClaim) -> Option<Claim> {
        let claim = self.store().create_claim(queue, ClaimId::random(), &new).await.expect(OK).messages();
        if let Some(claim) = &claim {
            let holders: Vec<_> = claim.messages.iter().map(|message| message.claim).collect();
            assert_eq!(holders, vec![Some(claim.id); holders.len()]);
            let limit = new.limit;
            assert!((1..=limit).contains(&holders.len()), "{} messages for a claim of {limit}", holders.len());
        }
        claim
    }

    /// Returns the ids of the messages that a claim takes, which may be none.
    pub(in crate::conformance) async fn claimed_ids(
        &self,
        queue: &QueueId,
        limit: usize,
        ttl_s: u32,
    ) -> Vec<MessageId> {
        self.claim_for(queue, limit, ttl_s, GRACE_S).await.map_or_else(Vec::new, |claim| ids_of(&claim.messages))
    }

    pub(in crate::conformance) async fn get_claim(&self, queue: &QueueId, id: ClaimId) -> Option<Claim> {
        self.store().get_claim(queue, id).await.expect(OK)
    }

    /// Returns the ids of the messages that a live claim holds, or `None` if the claim is not live.
    pub(in crate::conformance) async fn held_by(&self, queue: &QueueId, id: ClaimId) -> Option<Vec<MessageId>> {
        self.get_claim(queue, id).await.map(|claim| ids_of(&claim.messages))
    }

    pub(in crate::conformance) async fn renew(
        &self,
        queue: &QueueId,
        id: ClaimId,
        ttl_s: u32,
        grace_s: u32,
    ) -> Option<Fence> {
        self.store().renew_claim(queue, id, Term { ttl_s, grace_s }).await.expect(OK)
    }

    pub(in crate::conformance) async fn release(&self, queue: &QueueId, id: ClaimId) {
        self.store().release_claim(queue, id).await.expect(OK);
    }

    /// Posts messages and delivers each of them once. In a queue with a `_max_claim_count` of 1,
    /// the next claim or pop makes dead letters of them.
    pub(in crate::conformance) async fn post_delivered(
        &self,
        queue: &QueueId,
        messages: &[NewMessage],
    ) -> Vec<MessageId> {
        let ids = self.post(queue, messages).await;
        self.deliver_once(queue, ids.len()).await;
        ids
    }

    /// Claims this number of messages, and then releases the claims.
    pub(in crate::conformance) async fn deliver_once(&self, queue: &QueueId, count: usize) {
        let (mut claims, mut left) = (Vec::new(), count);
        while left > 0 {
            // The term is short, so that it does not prolong the lives of the messages.
            let claim = self.claim_for(queue, left.min(1_000), 10, 0).await.expect("a message is available");
            left -= claim.messages.len();
            claims.push(claim.id);
        }
        for claim in claims {
            self.release(queue, claim).await;
        }
    }

    /// Deletes one message, with or without a claim.
    pub(in crate::conformance) async fn delete_with_claim(
        &self,
        queue: &QueueId,
        id: MessageId,
        claim: Option<ClaimId>,
    ) -> DeleteOutcome {
        self.store().delete_message(queue, id, claim).await.expect(OK)
    }

    pub(in crate::conformance) async fn delete_claimed(
        &self,
        queue: &QueueId,
        ids: &[MessageId],
        claims: &[ClaimId],
    ) -> DeleteOutcome {
        self.store().delete_claimed(queue, ids, claims).await.expect(OK)
    }

    /// Returns the ids of the whole feed including claimed messages, read in pages.
    pub(in crate::conformance) async fn feed_with_claimed(
        &self,
        queue: &QueueId,
        limit: usize,
        not_from: Option<ClientId>,
    ) -> Vec<MessageId> {
        let scope = Scope { claimed: true, delayed: false };
        self.pages_from(queue, Listing { not_from, scope, ..Listing::first(limit) }).await
    }

    /// Asserts that stats and feeds show exactly these available and claimed messages, both in
    /// order.
    pub(in crate::conformance) async fn assert_available_and_claimed(
        &self,
        queue: &QueueId,
        free: &[MessageId],
        claimed: &[MessageId],
    ) {
        let mut all = [free, claimed].concat();
        all.sort_unstable();
        let stats = self.stats(queue).await;
        assert_eq!((stats.total, stats.claimed), (all.len() as u64, claimed.len() as u64), "total and claimed");
        assert_eq!(stats.oldest.map(|message| message.id).as_ref(), all.first(), "the oldest");
        assert_eq!(stats.newest.map(|message| message.id).as_ref(), all.last(), "the newest");
        assert_eq!(self.feed(queue).await, free, "what is free");
        assert_eq!(self.feed_with_claimed(queue, 100, None).await, all, "all there is");
    }
}
