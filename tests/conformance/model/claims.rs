//! Claims in the model: the expected and the actual result of each operation on them.

use proptest::sample::Index;
use sukkal_domain::{ClaimId, Fence, MessageId, NewClaim, QueueId, Taken, Term};
use sukkal_storage::{ClaimOutcome, DeleteOutcome};

use super::{ExpectedMessage, RUN_S, Run, TICK_S, counted, ids_where};
use crate::conformance::cases::fair_helpers::shard;
use crate::conformance::cases::turn_model::UNSHARDED;
use crate::conformance::support::subject::{client, ids_of};

/// A claim that should be live.
#[derive(Clone, Debug)]
pub(in crate::conformance) struct ExpectedClaim {
    id: ClaimId,
    fence: Fence,
    ttl_s: u32,
    since_s: i64,
    /// Ids of the messages that the claim took, in order of delivery.
    delivered: Vec<MessageId>,
}

impl ExpectedClaim {
    fn expires_s(&self) -> i64 {
        self.since_s + i64::from(self.ttl_s)
    }
}

/// Makes a claim expire 25 s after a multiple of 100 s, when no message expires.
fn claim_ttl_s(ticks: u32) -> u32 {
    TICK_S * ticks + TICK_S / 4
}

/// Together with the ttl, makes a message expire 65 s after a multiple of 100 s, when no claim
/// expires.
fn grace_s(ticks: u32) -> u32 {
    TICK_S * ticks + 40
}

impl Run<'_> {
    pub(in crate::conformance) fn free(&self) -> Vec<MessageId> {
        ids_where(&self.feed, |message| message.is_released && !message.is_in_flight())
    }

    pub(in crate::conformance) fn claimed(&self) -> Vec<MessageId> {
        ids_where(&self.feed, ExpectedMessage::is_in_flight)
    }

    /// Returns the messages that a claim still holds, in order of delivery.
    fn messages_of(&self, claim: ClaimId) -> Vec<&ExpectedMessage> {
        let expected = self.claims.iter().find(|expected| expected.id == claim);
        let delivered = expected.iter().flat_map(|expected| &expected.delivered);
        delivered
            .filter_map(|id| self.feed.iter().find(|message| message.id == *id && message.claim == Some(claim)))
            .collect()
    }

    pub(in crate::conformance) fn dead_letter_queue(&self) -> QueueId {
        self.subject.id(&format!("{}.letters", self.queue.name()))
    }

    /// Compares the stats and both feeds with the model.
    pub(in crate::conformance) async fn check_feed(&self) {
        let stats = self.subject.stats(&self.queue).await;
        assert_eq!((stats.total, stats.claimed), (self.feed.len() as u64, self.claimed().len() as u64));
        assert_eq!(self.subject.feed(&self.queue).await, self.free());
        let listed = self.subject.feed_with_claimed(&self.queue, 100, None).await;
        assert_eq!(listed, ids_where(&self.feed, |message| message.is_released));
    }

    /// Compares the dead letters with the model, in the order in which they were moved.
    pub(in crate::conformance) async fn check_dead_letters(&self) {
        let dead_letter_queue = self.subject.list(&self.dead_letter_queue(), None, 1_000).await;
        let dead_letter_queue: Vec<_> = dead_letter_queue
            .into_iter()
            .map(|dead_letter| (dead_letter.origin.expect("it is a dead letter"), dead_letter.body))
            .map(|(origin, body)| (origin.id, origin.claim_count, body))
            .collect();
        let expected: Vec<_> =
            self.moved.iter().map(|message| (message.id, message.claim_count, message.body.clone())).collect();
        assert_eq!(dead_letter_queue, expected);
    }

    /// Takes the next available messages, of which a paused queue has none. Those that were
    /// delivered too often become dead letters; the others are returned as they are now. If all
    /// became dead letters, those after them are next, in at most ten steps.
    pub(in crate::conformance) fn deliver(&mut self, limit: usize, prefer: &[u16]) -> Vec<ExpectedMessage> {
        for _ in 0..10 {
            let moved_before = self.moved.len();
            let left = self.deliver_next(limit, prefer);
            if !left.is_empty() || self.moved.len() == moved_before {
                return left;
            }
        }
        Vec::new()
    }

    fn deliver_next(&mut self, limit: usize, prefer: &[u16]) -> Vec<ExpectedMessage> {
        if self.is_paused {
            return Vec::new();
        }
        let most = self.claim_count_max();
        let free: Vec<_> = self.feed.iter().filter(|message| message.is_released && !message.is_in_flight()).collect();
        let taken: Vec<MessageId> = if self.is_fair() {
            let free: Vec<_> = free.iter().map(|message| (message.shard.unwrap_or(UNSHARDED), message.id)).collect();
            self.fairness.turn.take(&free, limit, prefer)
        } else {
            free.iter().take(limit).map(|message| message.id).collect()
        };
        let find = |id: &MessageId| {
            self.feed.iter().find(|message| message.id == *id).expect("the message is available").clone()
        };
        let is_dead = |message: &ExpectedMessage| most.is_some_and(|most| message.claim_count >= most);
        let (moved, left): (Vec<ExpectedMessage>, Vec<ExpectedMessage>) = taken.iter().map(find).partition(is_dead);
        self.feed.retain(|message| !moved.contains(message));
        self.totals.dead_lettered += moved.len() as u64;
        self.moved.extend(moved);
        left
    }

    pub(in crate::conformance) async fn return_message(
        &mut self,
        pick: Index,
        id: MessageId,
        delay_ticks: Option<u32>,
    ) {
        let claim = self.picked_claim(pick);
        let delay_s = delay_ticks.map_or(0, |ticks| TICK_S * ticks + 35);

        let change = self.subject.store().return_message(&self.queue, claim, id, delay_s).await;

        let (is_live, now_s) = (self.is_live(claim), self.now_s);
        let held = self.feed.iter_mut().find(|message| message.id == id && message.claim == Some(claim));
        let expected = match &held {
            _ if !is_live => ClaimOutcome::Gone,
            Some(_) => ClaimOutcome::Done,
            None => ClaimOutcome::NotHeld,
        };
        assert_eq!(change, Ok(expected));
        if let Some(message) = held {
            message.claim = None;
            message.returned_until_s = (delay_s > 0).then_some(now_s + i64::from(delay_s));
        }
    }

    /// Returns the time at which a live claim expires, in seconds of the queue's clock.
    pub(in crate::conformance) fn end_of_claim_s(&self, claim: ClaimId) -> i64 {
        self.claims.iter().find(|expected| expected.id == claim).expect("it is live").expires_s()
    }

    fn is_live(&self, claim: ClaimId) -> bool {
        self.claims.iter().any(|expected| expected.id == claim)
    }

    /// Ends expired claims and the delays of returned messages.
    pub(in crate::conformance) fn expire_claims(&mut self) {
        let expired: Vec<_> =
            self.claims.iter().filter(|claim| claim.expires_s() <= self.now_s).map(|claim| claim.id).collect();
        for claim in expired {
            self.remove_claim(claim);
        }
        let now_s = self.now_s;
        for message in &mut self.feed {
            message.returned_until_s = message.returned_until_s.filter(|returned_until_s| *returned_until_s > now_s);
        }
    }

    /// Ends the claims that hold no message any more.
    pub(in crate::conformance) fn end_emptied_claims(&mut self) {
        self.claims.retain(|claim| self.feed.iter().any(|message| message.claim == Some(claim.id)));
    }

    fn remove_claim(&mut self, claim: ClaimId) {
        self.claims.retain(|expected| expected.id != claim);
        for message in self.feed.iter_mut().filter(|message| message.claim == Some(claim)) {
            message.claim = None;
        }
    }

    /// Returns some earlier claim, or a claim that never existed.
    fn picked_claim(&self, pick: Index) -> ClaimId {
        let count = self.all_claim_ids.len();
        self.all_claim_ids.get(pick.index(count + 1)).copied().unwrap_or_else(ClaimId::random)
    }

    fn add_to_claim(&mut self, claim: ClaimId, ids: &[MessageId], ttl_s: u32, grace_s: u32) {
        let now_s = self.now_s;
        for message in self.feed.iter_mut().filter(|message| ids.contains(&message.id)) {
            (message.claim, message.was_claimed) = (Some(claim), true);
            if message.expires_s < now_s + i64::from(ttl_s) {
                message.ttl_s = ttl_s + grace_s;
                message.expires_s = now_s + i64::from(message.ttl_s);
            }
        }
    }

    pub(in crate::conformance) async fn claim(&mut self, limit: usize, ticks: u32, grace_ticks: u32, prefer: &[u16]) {
        let (ttl_s, grace_s) = (claim_ttl_s(ticks), grace_s(grace_ticks));
        let shards = prefer.iter().map(|number| shard(*number)).collect();

        let new = NewClaim { limit, term: Term { ttl_s, grace_s }, preferred_shards: shards, client: client(0) };
        if self.is_paused {
            assert_eq!(
                self.subject.store().create_claim(&self.queue, ClaimId::random(), &new).await,
                Ok(Taken::Paused)
            );
        }
        let claim = self.subject.claim_as(&self.queue, new).await;

        let expected = self.deliver(limit, prefer);
        let Some(claim) = claim else {
            assert_eq!(expected, []);
            return;
        };
        let counted_now: Vec<_> = expected.iter().map(|message| (message.id, message.claim_count + 1)).collect();
        assert_eq!((counted(&claim.messages), claim.ttl_s), (counted_now, ttl_s));
        self.check_pick_up_delays(&expected, &claim.pickup_delays);
        let delivered = ids_of(&claim.messages);
        self.totals.claimed += delivered.len() as u64;
        let now_s = self.now_s;
        for message in self.feed.iter_mut().filter(|message| delivered.contains(&message.id)) {
            message.claim_count += 1;
            message.first_claimed_s.get_or_insert(now_s);
        }
        self.add_to_claim(claim.id, &delivered, ttl_s, grace_s);
        assert!(self.last_fence < Some(claim.fence), "{} does not follow {:?}", claim.fence, self.last_fence);
        self.last_fence = Some(claim.fence);
        self.claims.push(ExpectedClaim { id: claim.id, fence: claim.fence, ttl_s, since_s: self.now_s, delivered });
        self.all_claim_ids.push(claim.id);
        let lives: Vec<_> = claim.messages.iter().map(|message| message.ttl_s).collect();
        assert_eq!(lives, self.ttls_of(claim.id));
    }

    fn ttls_of(&self, claim: ClaimId) -> Vec<u32> {
        self.messages_of(claim).iter().map(|message| message.ttl_s).collect()
    }

    fn ids_of_claim(&self, claim: ClaimId) -> Vec<MessageId> {
        self.messages_of(claim).iter().map(|message| message.id).collect()
    }

    pub(in crate::conformance) async fn check_claim(&self, pick: Index) {
        let id = self.picked_claim(pick);
        let expected = self.claims.iter().find(|expected| expected.id == id);

        let claim = self.subject.get_claim(&self.queue, id).await;

        self.check_claim_list().await;
        assert_eq!(claim.is_some(), expected.is_some());
        if let (Some(claim), Some(expected)) = (claim, expected) {
            assert_eq!((claim.ttl_s, claim.fence), (expected.ttl_s, expected.fence));
            assert_eq!(ids_of(&claim.messages), self.ids_of_claim(id));
            let lives: Vec<_> = claim.messages.iter().map(|message| message.ttl_s).collect();
            assert_eq!(lives, self.ttls_of(id));
            for (message, expected) in claim.messages.iter().zip(self.messages_of(id)) {
                let first_s = expected.first_claimed_s.expect("it is claimed");
                let expected_ms = self.clock_us(first_s) / 1_000..self.clock_us(first_s + RUN_S) / 1_000;
                assert!(expected_ms.contains(&message.first_claim_ms.expect("it is claimed")), "{message:?}");
            }
            let age_s = u64::try_from(self.now_s - expected.since_s).unwrap_or(0);
            assert!((age_s..age_s + 25).contains(&claim.age_s), "{} s old instead of {age_s}", claim.age_s);
        }
    }

    /// Compares the list of claims with the model.
    async fn check_claim_list(&self) {
        let listed = self.subject.live_claims(&self.queue, 3).await;
        let listed: Vec<_> =
            listed.into_iter().map(|claim| (claim.id, claim.fence, claim.ttl_s, claim.message_count)).collect();
        let count = |id| self.ids_of_claim(id).len() as u64;
        let mut expected: Vec<_> =
            self.claims.iter().map(|claim| (claim.id, claim.fence, claim.ttl_s, count(claim.id))).collect();
        expected.sort_unstable();
        assert_eq!(listed, expected);
    }

    pub(in crate::conformance) async fn renew(&mut self, pick: Index, ticks: u32, grace_ticks: u32) {
        let (id, ttl_s, grace_s) = (self.picked_claim(pick), claim_ttl_s(ticks), grace_s(grace_ticks));

        let renewal = self.subject.renew(&self.queue, id, ttl_s, grace_s).await;

        assert_eq!(renewal, self.claims.iter().find(|expected| expected.id == id).map(|expected| expected.fence));
        let now_s = self.now_s;
        if let Some(expected) = self.claims.iter_mut().find(|expected| expected.id == id) {
            (expected.ttl_s, expected.since_s) = (ttl_s, now_s);
        }
        self.add_to_claim(id, &self.ids_of_claim(id), ttl_s, grace_s);
    }

    pub(in crate::conformance) async fn release(&mut self, pick: Index) {
        let id = self.picked_claim(pick);
        self.subject.release(&self.queue, id).await;
        self.remove_claim(id);
    }

    pub(in crate::conformance) async fn delete_with_claim(&mut self, id: MessageId, pick: Option<Index>) {
        let claim = pick.map(|pick| self.picked_claim(pick));
        let expected = match (self.feed.iter().find(|message| message.id == id), claim) {
            (None, _) | (Some(ExpectedMessage { claim: None, .. }), None) => DeleteOutcome::Done,
            (Some(ExpectedMessage { claim: None, .. }), Some(_)) => DeleteOutcome::NotClaimed,
            (Some(_), None) => DeleteOutcome::ClaimRequired,
            (Some(message), Some(_)) if message.claim == claim => DeleteOutcome::Done,
            (Some(_), Some(other)) if self.is_live(other) => DeleteOutcome::ClaimedByAnother,
            (Some(_), Some(_)) => DeleteOutcome::UnknownClaim,
        };

        assert_eq!(self.subject.delete_with_claim(&self.queue, id, claim).await, expected);

        if expected == DeleteOutcome::Done {
            self.delete(|message| message.id == id);
        }
        assert_eq!(
            self.subject.feed_with_claimed(&self.queue, 100, None).await,
            ids_where(&self.feed, |message| message.is_released)
        );
    }

    pub(in crate::conformance) async fn delete_claimed(&mut self, ids: &[MessageId], picks: &[Index]) {
        let claims: Vec<_> = picks.iter().map(|pick| self.picked_claim(*pick)).collect();
        let is_allowed = |message: &ExpectedMessage| message.claim.is_some_and(|claim| claims.contains(&claim));
        let allowed = self.feed.iter().filter(|message| ids.contains(&message.id)).all(is_allowed);

        let deletion = self.subject.delete_claimed(&self.queue, ids, &claims).await;

        assert_eq!(deletion, if allowed { DeleteOutcome::Done } else { DeleteOutcome::NotClaimed });
        if allowed {
            self.delete(|message| ids.contains(&message.id));
        }
    }
}
