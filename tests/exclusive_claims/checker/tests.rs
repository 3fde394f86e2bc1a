//! Hand-made histories: a valid one, and for each rule one that breaks it. Times are seconds.

mod dead_letters;

use uuid::Uuid;

use super::{Rule, check};
use crate::exclusive_claims::history::{
    Action, Claim, ClaimUse, Claimed, Count, Draft, History, Outcome, Pop, Post, Rules, Seen, Span, Switch, Term,
};
use support::timeline::ClockMove;

const SECOND: u64 = 1_000_000;
const TERM: Term = Term { ttl_s: 60, grace_s: 60 };
const A: u64 = 101;
const B: u64 = 102;

fn id(number: u64) -> Uuid {
    Uuid::from_u128(number.into())
}

/// Returns a span of half a second from then on.
fn at(second: u64) -> Span {
    Span { invoked: second * SECOND, ended: second * SECOND + SECOND / 2 }
}

fn seen(ids: &[u64]) -> Vec<Seen> {
    ids.iter().map(|number| Seen { id: id(*number), tag: *number }).collect()
}

impl History {
    fn post(&mut self, second: u64, ttl_s: u32, tags: &[u64]) {
        let drafts = tags.iter().map(|tag| Draft { tag: *tag, ttl_s, delay_s: None }).collect();
        self.posts.push(Post { span: at(second), drafts, ids: Some(tags.iter().map(|tag| id(*tag)).collect()) });
    }

    fn claim(&mut self, second: u64, claim: u64, limit: usize, ids: &[u64]) {
        let outcome = if ids.is_empty() { Claimed::Nothing } else { Claimed::Got(id(claim), seen(ids)) };
        self.claims.push(Claim { span: at(second), limit, term: TERM, outcome });
    }

    fn action(&mut self, second: u64, claim: u64, action: Action, outcome: Outcome) {
        self.claim_uses.push(ClaimUse { span: at(second), claim: Some(id(claim)), action, outcome });
    }

    fn pop(&mut self, second: u64, limit: usize, ids: &[u64]) {
        self.pops.push(Pop { span: at(second), limit, messages: Some(seen(ids)), is_paused: false });
    }

    fn switch(&mut self, second: u64, pauses: bool, is_known: bool) {
        self.switches.push(Switch { span: at(second), pauses, is_known });
    }

    fn count(&mut self, second: u64, total: u64, claimed: u64) {
        self.counts.push(Count { span: at(second), total, claimed, free: total - claimed, dead_letters: [0; 3] });
    }
}

/// Message 1 is deleted, 2 comes back when claim A has expired, 3 is popped, and 4 is never
/// touched.
fn valid_history() -> History {
    let rules = Rules { count_max: 3, ..Rules::default() };
    let mut story = History { rules, drained_from: 200 * SECOND, ..History::default() };
    story.post(1, 3600, &[1, 2, 3, 4]);
    story.claim(10, A, 2, &[1, 2]);
    story.action(20, A, Action::Delete(id(1)), Outcome::Done);
    story.pop(30, 1, &[3]);
    story.count(40, 2, 1);
    story.action(80, A, Action::Renew(TERM), Outcome::Refused);
    story.action(81, A, Action::Delete(id(2)), Outcome::Refused);
    story.claim(201, B, 20, &[2, 4]);
    story.count(203, 2, 2);
    story
}

fn rule_broken_by(change: impl FnOnce(&mut History)) -> Option<Rule> {
    let mut history = valid_history();
    change(&mut history);
    check(&history).err().map(|violation| violation.rule)
}

#[test]
fn a_valid_history_is_counted() {
    let summary = check(&valid_history()).unwrap();

    assert_eq!((summary.posted, summary.claims, summary.delivered), (4, 2, 5));
    assert_eq!((summary.claimed_again, summary.refused, summary.drained), (1, 2, 2));
    assert_eq!((summary.counts, summary.counts_exact), (2, 2));
}

#[test]
fn a_message_is_not_delivered_while_its_claim_is_live() {
    assert_eq!(rule_broken_by(|history| history.claim(60, 103, 1, &[2])), Some(Rule::HeldTwice));
    let popped = rule_broken_by(|history| {
        history.pop(60, 1, &[2]);
        history.claims[1].outcome = Claimed::Got(id(B), seen(&[4]));
    });
    assert_eq!(popped, Some(Rule::HeldTwice));
    // The claim may have expired, or was released.
    assert_eq!(rule_broken_by(|history| history.claim(70, 103, 1, &[2])), None);
    let released = rule_broken_by(|history| {
        history
            .claim_uses
            .insert(1, ClaimUse { span: at(50), claim: Some(id(A)), action: Action::Release, outcome: Outcome::Done });
        history.claim(60, 103, 1, &[2]);
    });
    assert_eq!(released, None);
}

#[test]
fn a_renewed_claim_stays_live() {
    let renewed = |history: &mut History| history.claim_uses[1] = claim_use(60, Action::Renew(TERM), Outcome::Done);

    assert_eq!(rule_broken_by(|history| (renewed(history), history.claim(100, 103, 1, &[2])).1), Some(Rule::HeldTwice));
    assert_eq!(
        rule_broken_by(|history| history.claim_uses[1] = claim_use(60, Action::Renew(TERM), Outcome::Refused)),
        Some(Rule::Refused)
    );
    assert_eq!(
        rule_broken_by(|history| history.claim_uses[1] = claim_use(80, Action::Renew(TERM), Outcome::Done)),
        Some(Rule::Revived)
    );
}

fn claim_use(second: u64, action: Action, outcome: Outcome) -> ClaimUse {
    ClaimUse { span: at(second), claim: Some(id(A)), action, outcome }
}

#[test]
fn a_deleted_or_popped_message_is_not_delivered() {
    assert_eq!(rule_broken_by(|history| history.claim(100, 103, 1, &[1])), Some(Rule::Deleted));
    assert_eq!(rule_broken_by(|history| history.claim(100, 103, 1, &[3])), Some(Rule::Deleted));
    let refused = rule_broken_by(|history| {
        history.claim_uses[0].outcome = Outcome::Refused;
        history.claims[1].outcome = Claimed::Got(id(B), seen(&[1, 2, 4]));
    });
    assert_eq!(refused, Some(Rule::Refused));
}

#[test]
fn an_expired_message_is_not_delivered_unless_a_claim_extended_it() {
    let short = |history: &mut History, ttl_s| history.posts[0].drafts[1].ttl_s = ttl_s;

    // Claim A extends its life to 130 s.
    assert_eq!(rule_broken_by(|history| short(history, 60)), Some(Rule::Ended));
    let within_the_grace = rule_broken_by(|history| {
        short(history, 60);
        history.claim(120, 103, 1, &[2]);
    });
    assert_eq!(within_the_grace, None);
}

#[test]
fn a_renewal_that_overlaps_the_next_claim_may_have_come_first() {
    let mut story = History { drained_from: 300 * SECOND, ..valid_history() };
    (story.posts, story.claims, story.claim_uses, story.pops, story.counts) = Default::default();
    story.post(1, 60, &[1]);
    story.claim(10, A, 1, &[1]);
    // To 360 s; it would be 190 s if the next claim had come first.
    story.action(60, A, Action::Renew(Term { ttl_s: 100, grace_s: 200 }), Outcome::Done);
    story.action(61, A, Action::Release, Outcome::Done);
    story.claim(59, B, 1, &[1]);
    story.claims[1].span.ended = 62 * SECOND;
    story.claims[1].term = Term { ttl_s: 110, grace_s: 20 };
    story.claim(300, 103, 1, &[1]);

    let verdict = check(&story).map(|summary| summary.drained);

    assert_eq!(verdict.map_err(|violation| violation.rule), Ok(1));
}

#[test]
fn an_expired_claim_deletes_nothing() {
    assert_eq!(rule_broken_by(|history| history.claim_uses[2].outcome = Outcome::Done), Some(Rule::Deleted));
    let lost = rule_broken_by(|history| {
        history.claim_uses[2].outcome = Outcome::Done;
        history.claims[1].outcome = Claimed::Got(id(B), seen(&[4]));
    });
    assert_eq!(lost, Some(Rule::DeletedByOther));
}

#[test]
fn remaining_messages_are_found_at_the_end() {
    let lost = rule_broken_by(|history| {
        history.claims[1] = Claim { limit: 1, ..history.claims[1].clone() };
        history.claims[1].outcome = Claimed::Got(id(B), seen(&[2]));
    });
    assert_eq!(lost, Some(Rule::Lost));
}

#[test]
fn the_oldest_available_messages_are_delivered() {
    let skipped = rule_broken_by(|history| {
        history.pops[0].messages = Some(seen(&[4]));
        history.claims[1].outcome = Claimed::Got(id(B), seen(&[2, 3]));
    });
    assert_eq!(skipped, Some(Rule::Skipped));
    assert_eq!(rule_broken_by(|history| history.claim(35, 103, 1, &[])), Some(Rule::Skipped));
    assert_eq!(
        rule_broken_by(|history| history.claims[0].outcome = Claimed::Got(id(A), seen(&[2, 1]))),
        Some(Rule::Unordered)
    );
}

#[test]
fn a_fair_queue_may_deliver_any_messages_but_not_too_few() {
    let fair = |change: fn(&mut History)| {
        rule_broken_by(|history| {
            history.rules.is_fair = true;
            change(history);
        })
    };
    let another_way = |history: &mut History| {
        history.pops[0].messages = Some(seen(&[4]));
        history.claims[1].outcome = Claimed::Got(id(B), seen(&[3, 2]));
    };
    assert_eq!(fair(another_way), None);
    assert_eq!(fair(|history| history.claim(35, 103, 1, &[])), Some(Rule::Skipped));
    assert_eq!(fair(|history| history.pops[0].limit = 2), Some(Rule::Skipped));
}

#[test]
fn a_paused_queue_hands_out_nothing() {
    let paused = |from, to, is_known| {
        rule_broken_by(|history| {
            history.switch(from, true, is_known);
            history.switch(to, false, true);
        })
    };
    // Message 3 is popped from 30 s on.
    assert_eq!(paused(25, 35, true), Some(Rule::HandedOutWhilePaused));
    assert_eq!(paused(9, 11, true), Some(Rule::HandedOutWhilePaused));
    for (from, to, is_known) in [(25, 35, false), (30, 35, true), (25, 30, true), (15, 20, true), (35, 40, true)] {
        assert_eq!(paused(from, to, is_known), None, "{from} to {to}");
    }
    let maybe_resumed = rule_broken_by(|history| {
        history.switch(25, true, true);
        history.switch(27, false, false);
        history.switch(35, false, true);
    });
    assert_eq!(maybe_resumed, None);
}

#[test]
fn only_a_paused_queue_says_so() {
    let refused_at = |second, is_known| {
        rule_broken_by(|history| {
            history.switch(100, true, is_known);
            history.switch(110, false, true);
            history.claims.push(Claim { span: at(second), limit: 1, term: TERM, outcome: Claimed::Paused });
            history.pops.push(Pop { span: at(second), limit: 1, messages: Some(Vec::new()), is_paused: true });
        })
    };
    for second in [100, 105, 110] {
        assert_eq!((refused_at(second, true), refused_at(second, false)), (None, None), "{second}");
    }
    for second in [99, 111] {
        assert_eq!(refused_at(second, true), Some(Rule::NotPaused), "{second}");
    }
}

#[test]
fn the_stats_match_the_model() {
    assert_eq!(rule_broken_by(|history| history.counts[0].total = 3), Some(Rule::Miscounted));
    assert_eq!(rule_broken_by(|history| history.count(75, 2, 1)), Some(Rule::Miscounted));
}

/// Its process may have been killed before the deletion of its messages, which then return.
#[test]
fn messages_of_a_pop_without_a_response_may_be_counted_as_claimed_for_a_minute() {
    let count_after = |second| {
        rule_broken_by(|history| {
            history.pops.push(Pop { span: at(100), limit: 1, messages: None, is_paused: false });
            history.count(second, 2, 1);
        })
    };

    assert_eq!(count_after(99), Some(Rule::Miscounted));
    assert_eq!((count_after(101), count_after(159)), (None, None));
    assert_eq!(count_after(165), Some(Rule::Miscounted));
}

#[test]
fn a_claim_without_a_response_may_hide_messages_until_it_expires() {
    let unknown = |history: &mut History| {
        let span = at(34);
        history.claims.push(Claim { span, limit: 1, term: TERM, outcome: Claimed::Unknown });
    };

    assert_eq!(rule_broken_by(|history| (unknown(history), history.claim(36, 103, 1, &[])).1), None);
    assert_eq!(rule_broken_by(|history| (unknown(history), history.claim(120, 103, 1, &[])).1), Some(Rule::Skipped));
}

#[test]
fn a_claim_that_expires_before_its_response_may_hide_messages() {
    let is_over_at_once = |history: &mut History| {
        let span = Span { invoked: at(195).invoked, ended: at(196).ended };
        history.claims.push(Claim { span, limit: 2, term: TERM, outcome: Claimed::Nothing });
        let offset_us = i64::from(TERM.ttl_s + 2) * 1_000_000;
        history.moves.push(ClockMove { invoked: at(195).ended, answered: at(196).invoked, offset_us });
    };
    let goes_on = |history: &mut History| {
        is_over_at_once(history);
        history.moves.clear();
    };

    assert_eq!(rule_broken_by(is_over_at_once), None);
    assert_eq!(rule_broken_by(goes_on), Some(Rule::Skipped));
}
