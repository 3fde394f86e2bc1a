//! Hand-made histories with delays, returned messages, and dead letters.

use super::*;
use crate::exclusive_claims::history::{DeadLetter, Reading};

const C: u64 = 103;
const D: u64 = 104;

/// Message 1 is delivered twice, which is the limit, and becomes a dead letter at the next request.
/// Message 2 stays.
fn dead_letter_history() -> History {
    let rules = Rules { delay_s: 5, count_max: 2, dead_letter_ttl_s: None, is_fair: false };
    let mut story = History { rules, drained_from: 200 * SECOND, ..History::default() };
    story.post(1, 3600, &[1, 2]);
    story.claim(10, A, 1, &[1]);
    story.action(20, A, Action::Return(id(1), 0), Outcome::Done);
    story.claim(25, B, 1, &[1]);
    story.action(30, B, Action::Release, Outcome::Done);
    story.claim(35, C, 2, &[2]);
    story.read(40, &[1]);
    story.count(41, 1, 1);
    story.claim(201, D, 20, &[2]);
    story.read(203, &[]);
    story.count(204, 1, 1);
    story.counts.iter_mut().for_each(|count| count.dead_letters = [1, 0, 1]);
    story
}

impl History {
    fn read(&mut self, second: u64, ids: &[u64]) {
        let dead_letter =
            |number: &u64| DeadLetter { tag: *number, ttl_s: 3600, source_id: id(*number), claim_count: 2 };
        self.readings.push(Reading { span: at(second), dead_letters: ids.iter().map(dead_letter).collect() });
    }

    fn dead_letter(&mut self) -> &mut DeadLetter {
        &mut self.readings[0].dead_letters[0]
    }
}

fn broken_by(change: impl FnOnce(&mut History)) -> Option<Rule> {
    let mut history = dead_letter_history();
    change(&mut history);
    check(&history).err().map(|violation| violation.rule)
}

#[test]
fn a_dead_letter_is_counted() {
    let summary = check(&dead_letter_history()).unwrap();

    assert_eq!((summary.moved_to_dead_letters, summary.returned, summary.delayed, summary.counts_exact), (1, 1, 2, 2));
}

#[test]
fn a_delayed_message_is_not_delivered_before_it_is_due() {
    let delay = |history: &mut History, delay_s| history.posts[0].drafts[1].delay_s = Some(delay_s);

    assert_eq!(broken_by(|history| delay(history, 60)), Some(Rule::Early));
    assert_eq!(broken_by(|history| delay(history, 30)), None);
    assert_eq!(broken_by(|history| history.rules.delay_s = 60), Some(Rule::Early));
}

#[test]
fn a_delayed_message_is_available_when_it_is_due() {
    let nobody_gets_any = |history: &mut History| history.claim(9, 105, 1, &[]);
    let delay = |history: &mut History, delay_s| {
        history.posts[0].drafts.iter_mut().for_each(|draft| draft.delay_s = Some(delay_s));
    };

    assert_eq!(broken_by(|history| (delay(history, 8), nobody_gets_any(history)).1), None);
    assert_eq!(broken_by(|history| (delay(history, 2), nobody_gets_any(history)).1), Some(Rule::Skipped));
    assert_eq!(broken_by(|history| (delay(history, 0), nobody_gets_any(history)).1), Some(Rule::Skipped));
}

#[test]
fn a_message_returned_with_a_delay_is_unavailable() {
    let for_later = |history: &mut History, delay_s| history.claim_uses[0].action = Action::Return(id(1), delay_s);

    assert_eq!(broken_by(|history| for_later(history, 60)), Some(Rule::Early));
    assert_eq!(broken_by(|history| for_later(history, 3)), None);
    // It is unknown whether the message was returned, so the claim may still have held it.
    let perhaps = broken_by(|history| {
        for_later(history, 60);
        history.claim_uses[0].outcome = Outcome::Unknown;
    });
    assert_eq!(perhaps, None);
    assert_eq!(broken_by(|history| history.claim_uses[0].outcome = Outcome::Refused), Some(Rule::Refused));
}

#[test]
fn a_message_returned_with_a_delay_counts_as_claimed() {
    let kept = |history: &mut History, claimed| {
        history.claim_uses[0].action = Action::Return(id(1), 60);
        history.claims[1].span = at(100);
        history.claim_uses[1].span = at(105);
        history.claims.remove(2);
        history.readings.clear();
        history.read(203, &[1]);
        history.counts.clear();
        history.count(50, 2, claimed);
    };

    assert_eq!(broken_by(|history| kept(history, 1)), None);
    assert_eq!(broken_by(|history| kept(history, 0)), Some(Rule::Miscounted));
}

#[test]
fn a_claim_keeps_messages_that_are_not_returned() {
    let both = |history: &mut History| {
        history.claims.truncate(3);
        history.claims[0].limit = 2;
        history.claims[0].outcome = Claimed::Got(id(A), seen(&[1, 2]));
    };

    assert_eq!(broken_by(both), Some(Rule::HeldTwice));
    // Only once: a returned message is no longer in the claim.
    let deleted = |history: &mut History, outcome| history.action(22, A, Action::Delete(id(1)), outcome);
    assert_eq!(broken_by(|history| deleted(history, Outcome::Refused)), None);
    let was_there = broken_by(|history| {
        deleted(history, Outcome::Done);
        history.claims.retain(|claim| claim.messages() != seen(&[1]) || claim.span == at(10));
        history.readings[0].dead_letters.clear();
    });
    assert_eq!(was_there, Some(Rule::DeletedByOther));
}

#[test]
fn a_message_is_delivered_at_most_count_max_times() {
    assert_eq!(broken_by(|history| history.rules.count_max = 1), Some(Rule::TooOften));
    assert_eq!(broken_by(|history| history.pop(50, 1, &[1])), Some(Rule::TooOften));
}

#[test]
fn the_next_attempt_after_count_max_deliveries_makes_a_dead_letter() {
    assert_eq!(broken_by(|history| history.readings[0].dead_letters.clear()), Some(Rule::Lost));
    // Too few deliveries; but a claim without a response counts as one.
    let once = |history: &mut History| history.claims[1].outcome = Claimed::Nothing;
    let seldom = |history: &mut History| {
        once(history);
        history.claims[1].span = at(20);
    };
    assert_eq!(broken_by(seldom), Some(Rule::UnjustifiedDeadLetter));
    assert_eq!(broken_by(|history| history.claims[1].outcome = Claimed::Unknown), None);
    // While it is in its claim, or before the next request.
    assert_eq!(broken_by(|history| history.claim_uses.truncate(1)), Some(Rule::UnjustifiedDeadLetter));
    assert_eq!(broken_by(|history| history.claims[2].span = at(45)), Some(Rule::UnjustifiedDeadLetter));
}

#[test]
fn a_deleted_message_does_not_become_a_dead_letter() {
    assert_eq!(broken_by(|history| history.action(28, B, Action::Delete(id(1)), Outcome::Done)), Some(Rule::Deleted));
    let popped = broken_by(|history| {
        history.claims.remove(1);
        history.pop(25, 1, &[1]);
    });
    assert_eq!(popped, Some(Rule::Deleted));
}

#[test]
fn a_dead_letter_arrives_once_and_unchanged() {
    assert_eq!(broken_by(|history| history.read(205, &[1])), Some(Rule::DeadLetterTwice));
    assert_eq!(broken_by(|history| history.dead_letter().tag = 2), Some(Rule::Altered));
    assert_eq!(broken_by(|history| history.dead_letter().ttl_s = 77), Some(Rule::Altered));
    assert_eq!(broken_by(|history| history.dead_letter().claim_count = 3), Some(Rule::Altered));
    assert_eq!(broken_by(|history| history.dead_letter().source_id = id(9)), Some(Rule::Invented));
    assert_eq!(broken_by(|history| history.rules.dead_letter_ttl_s = Some(600)), Some(Rule::Altered));
}

#[test]
fn a_dead_letter_is_not_delivered_by_its_source() {
    assert_eq!(broken_by(|history| history.claims[1].span = at(50)), Some(Rule::DeadLetterDelivered));
}

#[test]
fn all_dead_letters_are_counted_and_no_others() {
    assert_eq!(broken_by(|history| history.counts[0].dead_letters = [2, 0, 2]), Some(Rule::Miscounted));
    assert_eq!(broken_by(|history| history.counts[0].dead_letters = [1, 1, 0]), Some(Rule::Miscounted));
    assert_eq!(broken_by(|history| history.counts[0].total = 2), Some(Rule::Miscounted));
}

#[test]
fn a_dead_letter_uses_up_part_of_the_limit() {
    let claimed = |history: &mut History, limit| {
        history.claims[2].outcome = Claimed::Nothing;
        history.claims[2].limit = limit;
        (history.counts[0].claimed, history.counts[0].free) = (0, 1);
    };

    assert_eq!(broken_by(|history| claimed(history, 1)), None);
    assert_eq!(broken_by(|history| claimed(history, 2)), Some(Rule::Skipped));
}
