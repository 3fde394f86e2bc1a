//! Histories with delayed messages. Each message is named by its rank, and the clocks agree.

use std::ops::Range;

use uuid::Uuid;

use super::{HOUR, SECOND, answered, broken_rule, empty_history};
use crate::feed_order::checker::{Rule, check};
use crate::feed_order::history::{Delete, Draft, History, Page, Post, Seen};
use support::timeline::ClockMove;

/// The rank at which the delayed messages of the valid history are due.
const DUE: u64 = SECOND + 105;

fn at(rank: u64) -> Seen {
    let id = u128::from(rank / 1000) << 80 | u128::from(rank % 1000) << 64;
    Seen { id: Uuid::from_u128(id), tag: rank }
}

fn empty_delayed_history() -> History {
    History { default_delay_s: 1, slack_us: 0, quiet: 20 * SECOND, ..empty_history() }
}

/// Two messages with a delay, one without, both observers at the end.
fn valid_history() -> History {
    let mut history = empty_delayed_history();
    history.post_at(100..110, 1, &[DUE, DUE + 1]);
    history.post_at(120..130, 0, &[125]);
    history.read(0, 140..150, &[125]);
    history.read(0, DUE + 10..DUE + 20, &[DUE, DUE + 1]);
    history.read(1, DUE + 10..DUE + 20, &[125, DUE, DUE + 1]);
    history
}

impl History {
    fn post_at(&mut self, time: Range<u64>, delay_s: u32, ranks: &[u64]) {
        let drafts = ranks.iter().map(|rank| Draft { tag: *rank, ttl_s: HOUR, delay_s: Some(delay_s) }).collect();
        let ids = ranks.iter().map(|rank| at(*rank).id).collect();
        self.posts.push(Post { span: answered(&time), producer: 0, drafts, ids });
    }

    fn read(&mut self, observer: usize, time: Range<u64>, ranks: &[u64]) {
        let own = self.pages.iter().filter(|page| page.observer == observer);
        let marker = own.flat_map(|page| &page.messages).last().map(|seen| seen.id);
        let messages = ranks.iter().map(|rank| at(*rank)).collect();
        self.pages.push(Page { invoked: time.start, answered: time.end, observer, marker, limit: 20, messages });
    }

    fn set_clock(&mut self, time: Range<u64>, offset_us: i64) {
        self.moves.push(ClockMove { invoked: time.start, answered: time.end, offset_us });
    }
}

#[test]
fn a_valid_history_counts_delayed_messages() {
    let summary = check(&valid_history().end()).unwrap();

    assert_eq!((summary.observed, summary.delayed, summary.kept_back), (6, 4, 0));
}

#[test]
fn a_message_is_early_before_its_delay_can_have_elapsed() {
    let read_early = |clock: &[(Range<u64>, i64)]| {
        let mut history = empty_delayed_history();
        for (time, offset_us) in clock {
            history.set_clock(time.clone(), *offset_us);
        }
        history.post_at(100..110, 1, &[DUE]);
        history.read(0, 300..400, &[DUE]);
        history.read(1, 500..600, &[DUE]);
        broken_rule(&history.end())
    };

    assert_eq!(read_early(&[]), Some(Rule::Early));
    assert_eq!(read_early(&[(10..20, 1_000_000), (30..40, 0)]), Some(Rule::Early));
    assert_eq!(read_early(&[(200..210, 999_000)]), Some(Rule::Early));
    assert_eq!(read_early(&[(200..210, 1_000_000)]), None);
    assert_eq!(read_early(&[(200..210, 1_000_000), (450..460, 0)]), None);
}

#[test]
fn a_message_that_is_due_is_missed() {
    let nothing_read = |time: Range<u64>| {
        let mut history = valid_history();
        history.pages.retain(|page| page.answered < SECOND);
        history.read(0, time, &[]);
        history.read(0, DUE + 50..DUE + 60, &[DUE, DUE + 1]);
        history.read(1, DUE + 50..DUE + 60, &[125, DUE, DUE + 1]);
        broken_rule(&history.end())
    };

    assert_eq!(nothing_read(DUE - 1..DUE + 9), None);
    assert_eq!(nothing_read(DUE..DUE + 9), Some(Rule::Missed));
}

#[test]
fn an_unseen_due_message_is_not_due_after_a_step_back() {
    let history = |seen: bool| {
        let mut history = valid_history();
        history.pages.retain(|page| page.answered < SECOND || page.observer == 1 && seen);
        history.set_clock(DUE + 30..DUE + 40, -500_000);
        history.read(0, DUE + 50..DUE + 60, &[]);
        history
    };

    assert_eq!(broken_rule(&history(true)), Some(Rule::Missed));
    let mut unseen = history(false);
    unseen.read(0, 2 * SECOND..2 * SECOND + 10, &[DUE, DUE + 1]);
    unseen.read(1, 2 * SECOND..2 * SECOND + 10, &[125, DUE, DUE + 1]);
    assert_eq!(broken_rule(&unseen.end()), None);
}

#[test]
fn a_message_that_is_never_released_is_missed() {
    let mut history = valid_history();
    history.pages.pop();
    history.read(1, DUE + 10..DUE + 20, &[125]);

    assert_eq!(broken_rule(&history.end()), Some(Rule::Missed));
}

#[test]
fn a_message_that_is_not_due_must_not_be_skipped() {
    let mut history = valid_history();
    history.pages.retain(|page| page.answered < SECOND);
    history.post_at(DUE - 50..DUE - 40, 0, &(DUE + 5..DUE + 25).collect::<Vec<_>>());
    history.read(0, DUE - 30..DUE - 20, &[DUE + 5]);

    assert_eq!(broken_rule(&history), Some(Rule::Missed));
}

#[test]
fn a_position_is_not_before_the_end_of_the_delay() {
    let mut history = empty_delayed_history();
    history.post_at(100..110, 1, &[SECOND + 99]);

    assert_eq!(broken_rule(&history), Some(Rule::DueEarly));
}

#[test]
fn a_position_is_after_the_end_of_the_delay_only_for_a_reason() {
    let late = |rank: u64| {
        let mut history = empty_delayed_history();
        history.post_at(100..110, 1, &[rank]);
        history
    };
    let mut after_others = late(DUE + 20);
    after_others.post_at(50..60, 1, &(DUE - 50..DUE + 20).collect::<Vec<_>>());
    let mut after_what_is_visible = late(5 * SECOND);
    after_what_is_visible.set_clock(10..20, 4_000_000);
    after_what_is_visible.post_at(30..40, 0, &[4 * SECOND - 1]);
    after_what_is_visible.set_clock(50..60, 0);
    let mut after_its_own = late(DUE + 6);
    after_its_own.posts[0].drafts.insert(0, Draft { tag: 1, ttl_s: HOUR, delay_s: Some(0) });
    after_its_own.posts[0].ids.insert(0, at(110).id);

    assert_eq!(broken_rule(&late(DUE + 5)), Some(Rule::Unfinished));
    assert_eq!(broken_rule(&late(DUE + 6)), Some(Rule::DueLate));
    assert_eq!(broken_rule(&after_others), Some(Rule::Unfinished));
    assert_eq!(broken_rule(&after_its_own), Some(Rule::Unfinished));
    assert_eq!(broken_rule(&after_what_is_visible), Some(Rule::Unfinished));
}

#[test]
fn a_post_without_delay_is_present_at_once() {
    let ahead = 10 * SECOND;
    let not_there = |ranks: Range<u64>| {
        let mut history = empty_delayed_history();
        history.set_clock(10..20, 9_000_000);
        history.post_at(35..36, 1, &[ahead + 36]);
        history.set_clock(40..41, 9_999_980);
        history.post_at(45..46, 0, &[ahead + 26]);
        history.read(0, 50..55, &[ahead + 26]);
        history.set_clock(60..70, 0);
        history.post_at(90..95, 0, &ranks.collect::<Vec<_>>());
        history.read(0, 100..110, &[]);
        broken_rule(&history)
    };

    assert_eq!(not_there(ahead + 27..ahead + 29), Some(Rule::Missed));
    assert_eq!(not_there(ahead + 37..ahead + 57), Some(Rule::Missed));
}

#[test]
fn a_later_post_follows_an_earlier_one_after_any_step_back() {
    let overtaken = |offset_us: i64| {
        let mut history = empty_delayed_history();
        history.post_at(100..110, 1, &[DUE]);
        history.post_at(DUE - 10..DUE - 5, 0, &(DUE + 1..DUE + 7).collect::<Vec<_>>());
        history.set_clock(DUE - 4..DUE - 3, offset_us);
        history.post_at(DUE - 2..DUE - 1, 0, &[DUE - 3]);
        broken_rule(&history)
    };

    assert_eq!(overtaken(0), Some(Rule::Overtaken));
    assert_eq!(overtaken(-900_000), Some(Rule::Overtaken));
    assert_eq!(overtaken(-1_100_000), Some(Rule::Overtaken));
}

#[test]
fn a_post_without_delay_is_never_overtaken() {
    let mut history = empty_delayed_history();
    history.post_at(100..110, 1, &[DUE]);
    history.post_at(200..210, 0, &[205]);
    history.set_clock(220..230, -2_000_000);
    history.post_at(240..250, 0, &[204]);

    assert_eq!(broken_rule(&history), Some(Rule::Overtaken));
}

#[test]
fn delayed_messages_of_a_request_are_adjacent_if_positions_are_free() {
    let spread = |ranks: &[u64]| {
        let mut history = empty_delayed_history();
        history.post_at(101..106, 1, &[DUE + 1]);
        history.post_at(100..110, 1, ranks);
        broken_rule(&history)
    };

    assert_eq!(spread(&[DUE, DUE + 2]), Some(Rule::Unfinished));
    assert_eq!(spread(&[DUE, DUE + 3]), Some(Rule::BatchSplit));
    assert_eq!(spread(&[DUE + 2, DUE]), Some(Rule::BatchUnordered));
}

#[test]
fn a_position_is_assigned_once_while_it_is_used() {
    let mut history = empty_delayed_history();
    history.post_at(100..110, 1, &[DUE]);
    history.post_at(101..111, 1, &[DUE]);
    history.posts[1].drafts[0].tag = 1;
    history.posts[1].ids[0] = Uuid::from_u128(at(DUE).id.as_u128() + 1);
    let mut free_again = history.clone();
    let ids = free_again.posts[0].ids.clone();
    free_again.deletes.push(Delete { span: answered(&(102..104)), ids });

    assert_eq!(broken_rule(&history), Some(Rule::RankTwice));
    assert_eq!(broken_rule(&free_again), Some(Rule::Unfinished));
}

#[test]
fn messages_of_a_request_with_different_delays_are_apart() {
    let mut history = empty_delayed_history();
    history.post_at(100..110, 1, &[DUE, 105]);
    history.posts[0].drafts[1].delay_s = Some(0);
    history.read(0, 120..130, &[105]);
    history.read(0, DUE + 10..DUE + 20, &[DUE]);
    history.read(1, DUE + 10..DUE + 20, &[105, DUE]);

    assert_eq!(broken_rule(&history.end()), None);
}
