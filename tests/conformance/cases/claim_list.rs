//! Lists of live claims: their order, their pages, and what they show.

use std::time::Duration;

use sukkal::domain::{ClaimId, ClaimSummary, Fence, NewClaim, QueueId, Term};

use crate::conformance::support::subject::{LONG_S, Subject, client, ids_of, messages};

const TTL_S: u32 = 60;

impl Subject {
    /// Returns a page of the list of claims.
    pub(in crate::conformance) async fn claims_after(
        &self,
        queue: &QueueId,
        after: Option<Fence>,
        limit: usize,
    ) -> Vec<ClaimSummary> {
        let page = self.store().list_claims(queue, after, limit).await.expect("the store answers");
        assert!(page.len() <= limit, "{} claims on a page of {limit}", page.len());
        page
    }

    /// Returns all live claims, read in pages of this size.
    pub(in crate::conformance) async fn live_claims(&self, queue: &QueueId, limit: usize) -> Vec<ClaimSummary> {
        let mut claims: Vec<ClaimSummary> = Vec::new();
        loop {
            let page = self.claims_after(queue, claims.last().map(|claim| claim.fence), limit).await;
            if page.is_empty() {
                return claims;
            }
            claims.extend(page);
        }
    }

    async fn live_ids(&self, queue: &QueueId) -> Vec<ClaimId> {
        self.live_claims(queue, 20).await.iter().map(|claim| claim.id).collect()
    }
}

pub(in crate::conformance) async fn a_list_shows_each_live_claim_with_its_client_and_fence(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 9)).await;
    let mut claims = Vec::new();
    for number in 1..=3 {
        let new = NewClaim {
            limit: 3,
            term: Term { ttl_s: TTL_S * u32::try_from(number).expect("it is small"), grace_s: 60 },
            preferred_shards: Vec::new(),
            client: client(number),
        };
        claims.push(subject.claim_as(&queue, new).await.expect("messages are available"));
    }
    subject.advance(&queue, Duration::from_secs(30)).await;
    subject.renew(&queue, claims[1].id, 600, 60).await;
    subject.delete_with_claim(&queue, ids[0], Some(claims[0].id)).await;
    let returned = subject.store().return_message(&queue, claims[1].id, ids[3], 30).await;
    returned.expect("the store answers");
    subject.delete_messages(&queue, &ids[6..]).await;

    let listed = subject.live_claims(&queue, 20).await;

    let shown: Vec<_> = listed.iter().map(|claim| (claim.id, claim.client.clone(), claim.fence)).collect();
    let expected: Vec<_> =
        claims.iter().zip(1..).map(|(claim, number)| (claim.id, client(number), claim.fence)).collect();
    assert_eq!(shown, expected);
    assert_eq!(listed.iter().map(|claim| claim.ttl_s).collect::<Vec<_>>(), [60, 600, 180]);
    assert_eq!(listed.iter().map(|claim| claim.age_s / 10).collect::<Vec<_>>(), [3, 0, 3]);
    assert_eq!(listed.iter().map(|claim| claim.message_count).collect::<Vec<_>>(), [2, 2, 0]);
}

pub(in crate::conformance) async fn claims_that_have_ended_are_not_listed(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 5)).await;
    let mut claims = Vec::new();
    for ttl_s in [TTL_S, 200, 200, 200, 200] {
        claims.push(subject.claim(&queue, 1, ttl_s).await.id);
    }
    assert_eq!(subject.live_ids(&queue).await, claims);

    subject.advance(&queue, Duration::from_secs(61)).await;
    assert_eq!(subject.live_ids(&queue).await, claims[1..]);
    subject.release(&queue, claims[2]).await;
    subject.store().withdraw_claim(&queue, claims[4]).await.expect("the store answers");
    assert_eq!(subject.live_ids(&queue).await, [claims[1], claims[3]]);
    subject.store().purge_messages(&queue).await.expect("the store answers");
    assert_eq!(subject.live_ids(&queue).await, []);

    subject.post(&queue, &messages(LONG_S, 1)).await;
    let last = subject.claim(&queue, 1, TTL_S).await.id;
    assert_eq!(subject.live_ids(&queue).await, [last]);
    subject.delete(&queue).await;
    subject.create(&queue).await;
    assert_eq!(subject.live_ids(&queue).await, []);
}

pub(in crate::conformance) async fn pages_of_claims_of_any_size_cover_the_whole_list(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 60)).await;
    let mut claims = Vec::new();
    for _ in 0..30 {
        claims.push(subject.claim(&queue, 2, TTL_S).await);
    }
    for limit in [1, 2, 7, 29, 30, 31] {
        let listed: Vec<_> = subject.live_claims(&queue, limit).await.iter().map(|claim| claim.id).collect();
        assert_eq!(listed, claims.iter().map(|claim| claim.id).collect::<Vec<_>>(), "pages of {limit}");
    }

    // The claim of the marker ends, others before and after it are renewed, and a new one follows.
    let marker = subject.claims_after(&queue, None, 10).await.last().map(|claim| claim.fence);
    subject.release(&queue, claims[9].id).await;
    subject.renew(&queue, claims[3].id, 600, 60).await;
    subject.renew(&queue, claims[20].id, 600, 60).await;
    let new = subject.claim(&queue, 2, TTL_S).await;

    let rest: Vec<_> = subject.claims_after(&queue, marker, 100).await.iter().map(|claim| claim.id).collect();
    let expected: Vec<_> = claims[10..].iter().map(|claim| claim.id).chain([new.id]).collect();
    assert_eq!(rest, expected);
}

pub(in crate::conformance) async fn a_page_of_large_claims_is_shorter(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 1_200)).await;
    subject.post(&queue, &messages(LONG_S, 1_200)).await;
    let mut claims = Vec::new();
    for limit in [1_200, 600, 300, 300] {
        claims.push(subject.claim(&queue, limit, TTL_S).await);
    }
    assert_eq!(ids_of(&claims[0].messages).len(), 1_200);

    assert_eq!(subject.claims_after(&queue, None, 20).await.len(), 1);
    assert_eq!(subject.claims_after(&queue, Some(claims[0].fence), 20).await.len(), 2);
    let counts: Vec<_> = subject.live_claims(&queue, 20).await.iter().map(|claim| claim.message_count).collect();
    assert_eq!(counts, [1_200, 600, 300, 300]);
}

pub(in crate::conformance) async fn a_queue_that_does_not_exist_has_no_claims(subject: &Subject) {
    let (queue, other) = (subject.queue("q").await, subject.queue("other").await);
    subject.post(&queue, &messages(LONG_S, 1)).await;
    subject.claim(&queue, 1, TTL_S).await;

    assert_eq!(subject.live_claims(&other, 20).await, []);
    assert_eq!(subject.live_claims(&subject.id("never"), 20).await, []);
    assert_eq!(subject.get(&subject.id("never")).await, None);
}
