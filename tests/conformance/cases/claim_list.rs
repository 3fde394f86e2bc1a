//! Lists of live claims: their order, their pages, and what they show.

use std::time::Duration;

use sukkal_domain::{Claim, ClaimId, ClaimSummary, NewClaim, QueueId};

use crate::conformance::support::subject::{LONG_S, Subject, client, messages};
use support::calls::new_claim;

const TTL_S: u32 = 60;

impl Subject {
    /// Returns a page of the list of claims.
    pub(in crate::conformance) async fn claims_after(
        &self,
        queue: &QueueId,
        after: Option<ClaimId>,
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
            let page = self.claims_after(queue, claims.last().map(|claim| claim.id), limit).await;
            if page.is_empty() {
                return claims;
            }
            claims.extend(page);
        }
    }

    async fn assert_live(&self, queue: &QueueId, ids: &[ClaimId]) {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        assert_eq!(ids_in(&self.live_claims(queue, 20).await), ids);
    }
}

fn ids_in(claims: &[ClaimSummary]) -> Vec<ClaimId> {
    claims.iter().map(|claim| claim.id).collect()
}

pub(in crate::conformance) async fn a_list_shows_each_live_claim_with_its_client_and_fence(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 9)).await;
    let mut claims = Vec::new();
    for number in 1..=3 {
        let ttl_s = TTL_S * u32::try_from(number).expect("it is small");
        let new = NewClaim { client: client(number), ..new_claim(3, ttl_s) };
        claims.push(subject.claim_as(&queue, new).await.expect("messages are available"));
    }
    subject.advance(&queue, Duration::from_secs(30)).await;
    subject.renew(&queue, claims[1].id, 600, 60).await;
    subject.delete_with_claim(&queue, ids[0], Some(claims[0].id)).await;
    let returned = subject.store().return_message(&queue, claims[1].id, ids[3], 30).await;
    returned.expect("the store answers");
    subject.delete_messages(&queue, &ids[6..8]).await;

    let listed = subject.live_claims(&queue, 20).await;

    assert_eq!(listed.len(), 3);
    for (index, (ttl_s, age_s, message_count)) in [(60, 30, 2), (600, 0, 2), (180, 30, 1)].into_iter().enumerate() {
        let Claim { id, fence, .. } = claims[index];
        let shown = listed.iter().find(|claim| claim.id == id).expect("it is live").clone();
        assert!((age_s..age_s + 5).contains(&shown.age_s), "{} s old", shown.age_s);
        let client = client(index as u128 + 1);
        assert_eq!(shown, ClaimSummary { id, client, ttl_s, age_s: shown.age_s, fence, message_count });
    }
}

pub(in crate::conformance) async fn claims_that_have_ended_are_not_listed(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 5)).await;
    let mut claims = Vec::new();
    for ttl_s in [TTL_S, 200, 200, 200, 200] {
        claims.push(subject.claim(&queue, 1, ttl_s).await.id);
    }
    subject.assert_live(&queue, &claims).await;

    subject.advance(&queue, Duration::from_secs(61)).await;
    subject.assert_live(&queue, &claims[1..]).await;
    subject.release(&queue, claims[2]).await;
    subject.store().withdraw_claim(&queue, claims[4]).await.expect("the store answers");
    subject.assert_live(&queue, &[claims[1], claims[3]]).await;
    subject.store().purge_queue(&queue).await.expect("the store answers");
    subject.assert_live(&queue, &[]).await;

    subject.post(&queue, &messages(LONG_S, 1)).await;
    let last = subject.claim(&queue, 1, TTL_S).await.id;
    subject.assert_live(&queue, &[last]).await;
    subject.delete(&queue).await;
    subject.create(&queue).await;
    subject.assert_live(&queue, &[]).await;
}

pub(in crate::conformance) async fn pages_of_claims_of_any_size_cover_the_whole_list(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 60)).await;
    let mut claims = Vec::new();
    for _ in 0..30 {
        claims.push(subject.claim(&queue, 2, TTL_S).await.id);
    }
    claims.sort_unstable();
    for limit in [1, 2, 7, 29, 30, 31] {
        assert_eq!(ids_in(&subject.live_claims(&queue, limit).await), claims, "pages of {limit}");
    }

    // The claim of the marker ends, others before and after it are renewed, and there is a new one.
    subject.release(&queue, claims[9]).await;
    subject.renew(&queue, claims[3], 600, 60).await;
    subject.renew(&queue, claims[20], 600, 60).await;
    let new = subject.claim(&queue, 2, TTL_S).await.id;

    let mut expected: Vec<_> =
        claims[10..].iter().copied().chain([new].into_iter().filter(|new| *new > claims[9])).collect();
    expected.sort_unstable();
    assert_eq!(ids_in(&subject.claims_after(&queue, Some(claims[9]), 100).await), expected);
}

pub(in crate::conformance) async fn a_page_of_large_claims_is_shorter(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 1_200)).await;
    subject.post(&queue, &messages(LONG_S, 1_200)).await;
    for limit in [1_200, 400, 400, 400] {
        assert_eq!(subject.claim(&queue, limit, TTL_S).await.messages.len(), limit);
    }
    let claims = subject.live_claims(&queue, 20).await;
    let mut counts: Vec<_> = claims.iter().map(|claim| claim.message_count).collect();

    for (index, count) in counts.iter().enumerate() {
        let after = index.checked_sub(1).map(|before| claims[before].id);
        let next = counts.get(index + 1).copied().unwrap_or(1_000);
        let fitting = if count + next <= 1_000 { 2 } else { 1 };
        assert_eq!(subject.claims_after(&queue, after, 20).await.len(), fitting, "{counts:?} from {index} on");
    }
    counts.sort_unstable();
    assert_eq!(counts, [400, 400, 400, 1_200]);
}

pub(in crate::conformance) async fn a_queue_that_does_not_exist_has_no_claims(subject: &Subject) {
    let (queue, other) = (subject.queue("q").await, subject.queue("other").await);
    subject.post(&queue, &messages(LONG_S, 1)).await;
    subject.claim(&queue, 1, TTL_S).await;

    assert_eq!(subject.live_claims(&other, 20).await, []);
    assert_eq!(subject.live_claims(&subject.id("never"), 20).await, []);
    assert_eq!(subject.get(&subject.id("never")).await, None);
}
