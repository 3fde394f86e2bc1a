//! The model's claims: what each operation on them should do, and what it does.

use proptest::sample::Index;
use sukkal::domain::{ClaimId, MessageId, NewClaim, QueueId, Term};
use sukkal::storage::{ClaimChange, Deletion};

use super::fairness::shard;
use super::model::{Kept, Run, TICK_S, counted, ids_where};
use super::rotation::UNSHARDED;
use super::subject::ids_of;

/// A live claim.
#[derive(Clone, Debug)]
pub(super) struct Leased {
    id: ClaimId,
    ttl_s: u32,
    since_s: i64,
    /// What it was given, in this order.
    given: Vec<MessageId>,
}

impl Leased {
    fn ends_s(&self) -> i64 {
        self.since_s + i64::from(self.ttl_s)
    }
}

/// Ends a claim in 25 s of a hundred, where no message ends.
fn claim_ttl_s(ticks: u32) -> u32 {
    TICK_S * ticks + TICK_S / 4
}

/// With the ttl, ends a message in 65 s of a hundred, where no claim ends.
fn grace_s(ticks: u32) -> u32 {
    TICK_S * ticks + 40
}

impl Run<'_> {
    fn free(&self) -> Vec<MessageId> {
        ids_where(&self.feed, |kept| kept.let_in && !kept.is_held())
    }

    pub(super) fn claimed(&self) -> Vec<MessageId> {
        ids_where(&self.feed, Kept::is_held)
    }

    /// What a claim holds, in the order in which it was given.
    fn held(&self, claim: ClaimId) -> Vec<&Kept> {
        let leased = self.claims.iter().find(|leased| leased.id == claim);
        let given = leased.iter().flat_map(|leased| &leased.given);
        given.filter_map(|id| self.feed.iter().find(|kept| kept.id == *id && kept.claim == Some(claim))).collect()
    }

    pub(super) fn letters(&self) -> QueueId {
        self.subject.id(&format!("{}.letters", self.queue.name()))
    }

    /// Expects the stats, and both feeds.
    pub(super) async fn look_at_feed(&self) {
        let stats = self.subject.stats(&self.queue).await;
        assert_eq!((stats.total, stats.claimed), (self.feed.len() as u64, self.claimed().len() as u64));
        assert_eq!(self.subject.feed(&self.queue).await, self.free());
        let listed = self.subject.feed_with_claimed(&self.queue, 100, None).await;
        assert_eq!(listed, ids_where(&self.feed, |kept| kept.let_in));
    }

    /// Expects the dead letters, in the order of their deaths.
    pub(super) async fn look_at_letters(&self) {
        let letters = self.subject.list(&self.letters(), None, 1_000).await;
        let letters: Vec<_> = letters
            .into_iter()
            .map(|letter| (letter.origin.expect("it is a dead letter"), letter.body))
            .map(|(origin, body)| (origin.id, origin.claim_count, body))
            .collect();
        let expected: Vec<_> = self.dead.iter().map(|kept| (kept.id, kept.claim_count, kept.body.clone())).collect();
        assert_eq!(letters, expected);
    }

    /// Of the free messages that are next, takes away those that have been given out too often; the others as they
    /// are now.
    pub(super) fn give_out(&mut self, limit: usize, prefer: &[u16]) -> Vec<Kept> {
        let most = self.claim_count_max();
        let free: Vec<_> = self.feed.iter().filter(|kept| kept.let_in && !kept.is_held()).collect();
        let taken: Vec<MessageId> = if self.is_fair() {
            let free: Vec<_> = free.iter().map(|kept| (kept.shard.unwrap_or(UNSHARDED), kept.id)).collect();
            self.fairness.rotation.take(&free, limit, prefer)
        } else {
            free.iter().take(limit).map(|kept| kept.id).collect()
        };
        let find = |id: &MessageId| self.feed.iter().find(|kept| kept.id == *id).expect("it is free").clone();
        let is_dead = |kept: &Kept| most.is_some_and(|most| kept.claim_count >= most);
        let (dead, left): (Vec<Kept>, Vec<Kept>) = taken.iter().map(find).partition(is_dead);
        self.feed.retain(|kept| !dead.contains(kept));
        self.dead.extend(dead);
        left
    }

    pub(super) async fn give_back(&mut self, pick: Index, id: MessageId, delay_ticks: Option<u32>) {
        let claim = self.picked_claim(pick);
        let delay_s = delay_ticks.map_or(0, |ticks| TICK_S * ticks + 35);

        let change = self.subject.store().return_message(&self.queue, claim, id, delay_s).await;

        assert_eq!(change, Ok(if self.is_live(claim) { ClaimChange::Done } else { ClaimChange::Gone }));
        let now_s = self.now_s;
        if let Some(kept) = self.feed.iter_mut().find(|kept| kept.id == id && kept.claim == Some(claim)) {
            kept.claim = None;
            kept.back_s = (delay_s > 0).then_some(now_s + i64::from(delay_s));
        }
    }

    fn is_live(&self, claim: ClaimId) -> bool {
        self.claims.iter().any(|leased| leased.id == claim)
    }

    /// Ends the claims that are over.
    pub(super) fn end_claims(&mut self) {
        let over: Vec<_> =
            self.claims.iter().filter(|leased| leased.ends_s() <= self.now_s).map(|leased| leased.id).collect();
        for claim in over {
            self.forget(claim);
        }
        let now_s = self.now_s;
        for kept in &mut self.feed {
            kept.back_s = kept.back_s.filter(|back_s| *back_s > now_s);
        }
    }

    fn forget(&mut self, claim: ClaimId) {
        self.claims.retain(|leased| leased.id != claim);
        for kept in self.feed.iter_mut().filter(|kept| kept.claim == Some(claim)) {
            kept.claim = None;
        }
    }

    /// Some claim that ever was, or one that never was.
    fn picked_claim(&self, pick: Index) -> ClaimId {
        let count = self.ever_claimed.len();
        self.ever_claimed.get(pick.index(count + 1)).copied().unwrap_or_else(ClaimId::random)
    }

    fn hold(&mut self, claim: ClaimId, ids: &[MessageId], ttl_s: u32, grace_s: u32) {
        let now_s = self.now_s;
        for kept in self.feed.iter_mut().filter(|kept| ids.contains(&kept.id)) {
            (kept.claim, kept.was_claimed) = (Some(claim), true);
            if kept.ends_s < now_s + i64::from(ttl_s) {
                kept.ttl_s = ttl_s + grace_s;
                kept.ends_s = now_s + i64::from(kept.ttl_s);
            }
        }
    }

    pub(super) async fn claim(&mut self, limit: usize, ticks: u32, grace_ticks: u32, prefer: &[u16]) {
        let (ttl_s, grace_s) = (claim_ttl_s(ticks), grace_s(grace_ticks));
        let shards = prefer.iter().map(|number| shard(*number)).collect();

        let new = NewClaim { limit, term: Term { ttl_s, grace_s }, prefer: shards };
        let claim = self.subject.claim_as(&self.queue, new).await;

        let expected = self.give_out(limit, prefer);
        let Some(claim) = claim else {
            assert_eq!(expected, []);
            return;
        };
        let counts = u32::from(self.claim_count_max().is_some());
        let counted_now: Vec<_> = expected.iter().map(|kept| (kept.id, kept.claim_count + counts)).collect();
        assert_eq!((counted(&claim.messages), claim.ttl_s), (counted_now, ttl_s));
        self.look_at_waited(&expected, &claim.waited);
        let given = ids_of(&claim.messages);
        for kept in self.feed.iter_mut().filter(|kept| given.contains(&kept.id)) {
            kept.claim_count += counts;
        }
        self.hold(claim.id, &given, ttl_s, grace_s);
        self.claims.push(Leased { id: claim.id, ttl_s, since_s: self.now_s, given });
        self.ever_claimed.push(claim.id);
        let lives: Vec<_> = claim.messages.iter().map(|message| message.ttl_s).collect();
        assert_eq!(lives, self.ttls_of(claim.id));
    }

    fn ttls_of(&self, claim: ClaimId) -> Vec<u32> {
        self.held(claim).iter().map(|kept| kept.ttl_s).collect()
    }

    fn ids_held(&self, claim: ClaimId) -> Vec<MessageId> {
        self.held(claim).iter().map(|kept| kept.id).collect()
    }

    pub(super) async fn look_at_claim(&self, pick: Index) {
        let id = self.picked_claim(pick);
        let expected = self.claims.iter().find(|leased| leased.id == id);

        let claim = self.subject.get_claim(&self.queue, id).await;

        assert_eq!(claim.is_some(), expected.is_some());
        if let (Some(claim), Some(leased)) = (claim, expected) {
            assert_eq!((claim.ttl_s, ids_of(&claim.messages)), (leased.ttl_s, self.ids_held(id)));
            let lives: Vec<_> = claim.messages.iter().map(|message| message.ttl_s).collect();
            assert_eq!(lives, self.ttls_of(id));
            let age_s = u64::try_from(self.now_s - leased.since_s).unwrap_or(0);
            assert!((age_s..age_s + 25).contains(&claim.age_s), "{} s old instead of {age_s}", claim.age_s);
        }
    }

    pub(super) async fn renew(&mut self, pick: Index, ticks: u32, grace_ticks: u32) {
        let (id, ttl_s, grace_s) = (self.picked_claim(pick), claim_ttl_s(ticks), grace_s(grace_ticks));

        let renewal = self.subject.renew(&self.queue, id, ttl_s, grace_s).await;

        assert_eq!(renewal, if self.is_live(id) { ClaimChange::Done } else { ClaimChange::Gone });
        let now_s = self.now_s;
        if let Some(leased) = self.claims.iter_mut().find(|leased| leased.id == id) {
            (leased.ttl_s, leased.since_s) = (ttl_s, now_s);
        }
        self.hold(id, &self.ids_held(id), ttl_s, grace_s);
    }

    pub(super) async fn release(&mut self, pick: Index) {
        let id = self.picked_claim(pick);
        self.subject.release(&self.queue, id).await;
        self.forget(id);
    }

    pub(super) async fn acknowledge(&mut self, id: MessageId, pick: Option<Index>) {
        let claim = pick.map(|pick| self.picked_claim(pick));
        let expected = match (self.feed.iter().find(|kept| kept.id == id), claim) {
            (None, _) | (Some(Kept { claim: None, .. }), None) => Deletion::Done,
            (Some(Kept { claim: None, .. }), Some(_)) => Deletion::Free,
            (Some(_), None) => Deletion::Held,
            (Some(kept), Some(_)) if kept.claim == claim => Deletion::Done,
            (Some(_), Some(other)) if self.is_live(other) => Deletion::HeldByOther,
            (Some(_), Some(_)) => Deletion::UnknownClaim,
        };

        assert_eq!(self.subject.acknowledge(&self.queue, id, claim).await, expected);

        if expected == Deletion::Done {
            self.feed.retain(|kept| kept.id != id);
        }
        assert_eq!(
            self.subject.feed_with_claimed(&self.queue, 100, None).await,
            ids_where(&self.feed, |kept| kept.let_in)
        );
    }

    pub(super) async fn delete_claimed(&mut self, ids: &[MessageId], picks: &[Index]) {
        let claims: Vec<_> = picks.iter().map(|pick| self.picked_claim(*pick)).collect();
        let is_allowed = |kept: &Kept| kept.claim.is_some_and(|claim| claims.contains(&claim));
        let allowed = self.feed.iter().filter(|kept| ids.contains(&kept.id)).all(is_allowed);

        let deletion = self.subject.delete_claimed(&self.queue, ids, &claims).await;

        assert_eq!(deletion, if allowed { Deletion::Done } else { Deletion::Free });
        if allowed {
            self.feed.retain(|kept| !ids.contains(&kept.id));
        }
    }
}
