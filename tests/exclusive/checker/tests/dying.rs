//! The same for delay, messages that are given back, and dead letters.

use super::*;
use crate::exclusive::history::{Letter, Reading};

const C: u64 = 103;
const D: u64 = 104;

/// Message 1 is given out twice, which is the most, and dies when it is asked for again; 2 stays.
fn dying() -> History {
    let rules = Rules { delay_s: 5, count_max: 2, letter_ttl_s: None, is_fair: false };
    let mut story = History { rules, drained_from: 200 * SECOND, ..History::default() };
    story.post(1, 3600, &[1, 2]);
    story.claim(10, A, 1, &[1]);
    story.act(20, A, Act::Return(id(1), 0), Outcome::Done);
    story.claim(25, B, 1, &[1]);
    story.act(30, B, Act::Release, Outcome::Done);
    story.claim(35, C, 2, &[2]);
    story.read(40, &[1]);
    story.count(41, 1, 1);
    story.claim(201, D, 20, &[2]);
    story.read(203, &[]);
    story.count(204, 1, 1);
    story.counts.iter_mut().for_each(|count| count.letters = [1, 0, 1]);
    story
}

impl History {
    fn read(&mut self, second: u64, ids: &[u64]) {
        let letter = |number: &u64| Letter { tag: *number, ttl_s: 3600, source_id: id(*number), claim_count: 2 };
        self.readings.push(Reading { span: at(second), letters: ids.iter().map(letter).collect() });
    }

    fn letter(&mut self) -> &mut Letter {
        &mut self.readings[0].letters[0]
    }
}

fn broken_by(change: impl FnOnce(&mut History)) -> Option<Rule> {
    let mut history = dying();
    change(&mut history);
    check(&history).err().map(|violation| violation.rule)
}

#[test]
fn a_death_is_counted() {
    let summary = check(&dying()).unwrap();

    assert_eq!((summary.died, summary.returned, summary.delayed, summary.counts_exact), (1, 1, 2, 2));
}

#[test]
fn a_delayed_message_is_not_given_out_before_it_is_due() {
    let delay = |history: &mut History, delay_s| history.posts[0].drafts[1].delay_s = Some(delay_s);

    assert_eq!(broken_by(|history| delay(history, 60)), Some(Rule::Early));
    assert_eq!(broken_by(|history| delay(history, 30)), None);
    assert_eq!(broken_by(|history| history.rules.delay_s = 60), Some(Rule::Early));
}

#[test]
fn a_delayed_message_is_free_when_it_is_due() {
    let nobody_gets_any = |history: &mut History| history.claim(9, 105, 1, &[]);
    let delay = |history: &mut History, delay_s| {
        history.posts[0].drafts.iter_mut().for_each(|draft| draft.delay_s = Some(delay_s));
    };

    assert_eq!(broken_by(|history| (delay(history, 8), nobody_gets_any(history)).1), None);
    assert_eq!(broken_by(|history| (delay(history, 2), nobody_gets_any(history)).1), Some(Rule::Skipped));
    assert_eq!(broken_by(|history| (delay(history, 0), nobody_gets_any(history)).1), Some(Rule::Skipped));
}

#[test]
fn what_is_given_back_for_later_is_kept_from_everybody() {
    let for_later = |history: &mut History, delay_s| history.turns[0].act = Act::Return(id(1), delay_s);

    assert_eq!(broken_by(|history| for_later(history, 60)), Some(Rule::Early));
    assert_eq!(broken_by(|history| for_later(history, 3)), None);
    // Nobody knows whether it was given back, and the claim may have held it.
    let perhaps = broken_by(|history| {
        for_later(history, 60);
        history.turns[0].outcome = Outcome::Unknown;
    });
    assert_eq!(perhaps, None);
    assert_eq!(broken_by(|history| history.turns[0].outcome = Outcome::Refused), Some(Rule::Refused));
}

#[test]
fn what_is_kept_back_counts_as_claimed() {
    let kept = |history: &mut History, claimed| {
        history.turns[0].act = Act::Return(id(1), 60);
        history.claims[1].span = at(100);
        history.turns[1].span = at(105);
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
fn a_claim_keeps_what_is_not_given_back() {
    let both = |history: &mut History| {
        history.claims.truncate(3);
        history.claims[0].limit = 2;
        history.claims[0].outcome = Claimed::Got(id(A), seen(&[1, 2]));
    };

    assert_eq!(broken_by(both), Some(Rule::Shared));
    // Once only: what was given back is not the claim's any more.
    let deleted = |history: &mut History, outcome| history.act(22, A, Act::Delete(id(1)), outcome);
    assert_eq!(broken_by(|history| deleted(history, Outcome::Refused)), None);
    let was_there = broken_by(|history| {
        deleted(history, Outcome::Done);
        history.claims.retain(|claim| claim.messages() != seen(&[1]) || claim.span == at(10));
        history.readings[0].letters.clear();
    });
    assert_eq!(was_there, Some(Rule::TookEffect));
}

#[test]
fn a_message_is_given_out_so_many_times() {
    assert_eq!(broken_by(|history| history.rules.count_max = 1), Some(Rule::TooOften));
    assert_eq!(broken_by(|history| history.pop(50, 1, &[1])), Some(Rule::TooOften));
}

#[test]
fn what_was_given_out_so_many_times_dies_with_the_next_attempt() {
    assert_eq!(broken_by(|history| history.readings[0].letters.clear()), Some(Rule::Lost));
    // Too few times; but a claim without an answer counts.
    let once = |history: &mut History| history.claims[1].outcome = Claimed::Nothing;
    let seldom = |history: &mut History| {
        once(history);
        history.claims[1].span = at(20);
    };
    assert_eq!(broken_by(seldom), Some(Rule::Undue));
    assert_eq!(broken_by(|history| history.claims[1].outcome = Claimed::Unknown), None);
    // Under its claim, or before anybody asks.
    assert_eq!(broken_by(|history| history.turns.truncate(1)), Some(Rule::Undue));
    assert_eq!(broken_by(|history| history.claims[2].span = at(45)), Some(Rule::Undue));
}

#[test]
fn what_is_deleted_does_not_die() {
    assert_eq!(broken_by(|history| history.act(28, B, Act::Delete(id(1)), Outcome::Done)), Some(Rule::Deleted));
    let popped = broken_by(|history| {
        history.claims.remove(1);
        history.pop(25, 1, &[1]);
    });
    assert_eq!(popped, Some(Rule::Deleted));
}

#[test]
fn a_dead_letter_arrives_once_and_as_it_was() {
    assert_eq!(broken_by(|history| history.read(205, &[1])), Some(Rule::Doubled));
    assert_eq!(broken_by(|history| history.letter().tag = 2), Some(Rule::Altered));
    assert_eq!(broken_by(|history| history.letter().ttl_s = 77), Some(Rule::Altered));
    assert_eq!(broken_by(|history| history.letter().claim_count = 3), Some(Rule::Altered));
    assert_eq!(broken_by(|history| history.letter().source_id = id(9)), Some(Rule::Invented));
    assert_eq!(broken_by(|history| history.rules.letter_ttl_s = Some(600)), Some(Rule::Altered));
}

#[test]
fn the_dead_are_not_given_out() {
    assert_eq!(broken_by(|history| history.claims[1].span = at(50)), Some(Rule::Dead));
}

#[test]
fn all_dead_letters_are_counted_and_no_others() {
    assert_eq!(broken_by(|history| history.counts[0].letters = [2, 0, 2]), Some(Rule::Miscounted));
    assert_eq!(broken_by(|history| history.counts[0].letters = [1, 1, 0]), Some(Rule::Miscounted));
    assert_eq!(broken_by(|history| history.counts[0].total = 2), Some(Rule::Miscounted));
}

#[test]
fn what_dies_takes_the_place_of_another() {
    let claimed = |history: &mut History, limit| {
        history.claims[2].outcome = Claimed::Nothing;
        history.claims[2].limit = limit;
        (history.counts[0].claimed, history.counts[0].free) = (0, 1);
    };

    assert_eq!(broken_by(|history| claimed(history, 1)), None);
    assert_eq!(broken_by(|history| claimed(history, 2)), Some(Rule::Skipped));
}
