//! Hand-made histories: a valid one, and for each rule one that breaks it.

mod delays;

use std::ops::Range;

use uuid::Uuid;

use super::{Rule, check};
use crate::feed_order::history::{Delete, Draft, History, Observer, Page, Post, Seen, Span};
use support::timeline::ClockMove;

const HOUR: u32 = 3600;
const MINUTE: u32 = 60;
const SECOND: u64 = 1_000_000;

/// Message `n` has the rank `n`; by default its tag is the same number.
fn id(number: u64) -> Uuid {
    Uuid::from_u128(u128::from(number) << 64)
}

fn answered(time: &Range<u64>) -> Span {
    Span { invoked: time.start, answered: Some(time.end) }
}

/// Observer 0 receives from all producers, observer 1 from all but producer 1.
fn empty_history() -> History {
    let observers = vec![Observer { excluded_producer: None }, Observer { excluded_producer: Some(1) }];
    History { observers, slack_us: SECOND.cast_signed(), quiet: 1000, ..History::default() }
}

/// A valid history: two posts, one message deleted and missed by observer 1, both observers at the
/// end.
fn valid_history() -> History {
    let mut empty_history = empty_history();
    empty_history.post(0, 10..20, HOUR, &[1, 2, 3]);
    empty_history.post(1, 30..40, HOUR, &[4, 5]);
    empty_history.list(0, 35..45, 2, &[1, 2]);
    empty_history.delete(50..60, &[2]);
    empty_history.list(0, 70..80, 20, &[3, 4, 5]);
    empty_history.list(1, 70..80, 20, &[1, 3]);
    empty_history.list(0, 1001..1002, 20, &[]);
    empty_history.list(1, 1001..1002, 20, &[]);
    empty_history
}

impl History {
    fn post(&mut self, producer: usize, time: Range<u64>, ttl_s: u32, ids: &[u64]) {
        let drafts = ids.iter().map(|tag| Draft { tag: *tag, ttl_s, delay_s: None }).collect();
        let ids = ids.iter().map(|number| id(*number)).collect();
        self.posts.push(Post { span: answered(&time), producer, drafts, ids });
    }

    /// Adds a post whose response was lost.
    fn post_without_response(&mut self, producer: usize, invoked: u64, tags: &[u64]) {
        let drafts = tags.iter().map(|tag| Draft { tag: *tag, ttl_s: HOUR, delay_s: None }).collect();
        self.posts.push(Post { span: Span { invoked, answered: None }, producer, drafts, ids: Vec::new() });
    }

    fn delete(&mut self, time: Range<u64>, ids: &[u64]) {
        let ids = ids.iter().map(|number| id(*number)).collect();
        self.deletes.push(Delete { span: answered(&time), ids });
    }

    fn set_clock_ahead(&mut self, time: Range<u64>, offset_s: i64) {
        self.moves.push(ClockMove { invoked: time.start, answered: time.end, offset_us: offset_s * 1_000_000 });
    }

    /// Adds a list from the observer's marker.
    fn list(&mut self, observer: usize, time: Range<u64>, limit: usize, ids: &[u64]) {
        let own = self.pages.iter().filter(|page| page.observer == observer);
        let marker = own.flat_map(|page| &page.messages).last().map(|seen| seen.id);
        let messages = ids.iter().map(|number| Seen { id: id(*number), tag: *number }).collect();
        self.pages.push(Page { invoked: time.start, answered: time.end, observer, marker, limit, messages });
    }

    /// Lets both observers find no more messages after the end of all changes.
    fn end(mut self) -> Self {
        let end = self.quiet + 1;
        self.list(0, end..end + 1, 20, &[]);
        self.list(1, end..end + 1, 20, &[]);
        self
    }
}

fn broken_rule(history: &History) -> Option<Rule> {
    check(history).err().map(|violation| violation.rule)
}

/// Returns the rule that the valid history breaks after one change.
fn rule_broken_by(change: impl FnOnce(&mut History)) -> Option<Rule> {
    let mut history = valid_history();
    change(&mut history);
    broken_rule(&history)
}

#[test]
fn a_valid_history_is_counted() {
    let summary = check(&valid_history()).unwrap();

    assert_eq!((summary.posted, summary.observed), (5, 7));
    assert_eq!((summary.pages, summary.pages_empty), (5, 2));
    assert_eq!((summary.markers_deleted, summary.passed_over), (1, 1));
}

#[test]
fn a_message_that_a_page_leaves_out_is_missed() {
    assert_eq!(rule_broken_by(|history| remove_message(&mut history.pages[1].messages, 0)), Some(Rule::Missed));
    assert_eq!(rule_broken_by(|history| remove_message(&mut history.pages[2].messages, 0)), Some(Rule::Missed));
    // The page may be short because it was not full, but the observer then reads past the message.
    assert_eq!(rule_broken_by(|history| remove_message(&mut history.pages[1].messages, 2)), Some(Rule::Marker));
}

#[test]
fn a_message_deleted_only_after_the_response_is_missed() {
    assert_eq!(rule_broken_by(|history| history.deletes[0].span.invoked = 81), Some(Rule::Missed));
    assert_eq!(rule_broken_by(|history| history.deletes[0].span.invoked = 80), None);
}

#[test]
fn a_message_inserted_before_an_observers_marker_is_missed() {
    let mut history = empty_history();
    history.post(0, 10..50, HOUR, &[1]);
    history.post(1, 20..30, HOUR, &[2]);
    history.list(0, 35..40, 20, &[2]);

    assert_eq!(broken_rule(&history), Some(Rule::Missed));
}

#[test]
fn an_empty_page_may_omit_posts_without_a_response() {
    let mut history = empty_history();
    history.list(0, 15..18, 20, &[]);
    history.post(0, 10..20, HOUR, &[1]);
    history.list(0, 30..31, 20, &[1]);
    history.list(1, 30..31, 20, &[1]);

    assert_eq!(broken_rule(&history.end()), None);
}

#[test]
fn a_message_seen_by_one_observer_exists_for_the_next() {
    let mut history = empty_history();
    history.post(0, 10..100, HOUR, &[1]);
    history.list(0, 15..20, 20, &[1]);
    history.list(1, 25..30, 20, &[]);

    assert_eq!(broken_rule(&history), Some(Rule::Missed));
}

#[test]
fn a_filtered_page_may_be_short_but_not_empty_before_the_end() {
    let mut history = empty_history();
    history.post(0, 10..20, HOUR, &[1, 2]);
    history.list(0, 30..31, 20, &[1, 2]);
    history.list(1, 30..31, 20, &[1]);
    let mut short = history.clone();
    short.list(1, 40..41, 20, &[2]);
    history.list(1, 40..41, 20, &[]);

    assert_eq!(broken_rule(&short.end()), None);
    assert_eq!(broken_rule(&history), Some(Rule::Missed));
}

#[test]
fn a_message_delivered_again_is_repeated() {
    assert_eq!(rule_broken_by(|history| history.list(0, 1003..1004, 20, &[5])), Some(Rule::Repeated));
    assert_eq!(rule_broken_by(|history| history.pages[1].messages.insert(0, seen(1))), Some(Rule::Repeated));
}

#[test]
fn a_page_whose_ids_do_not_ascend_is_unordered() {
    assert_eq!(rule_broken_by(|history| history.pages[1].messages.swap(0, 1)), Some(Rule::Unordered));
}

#[test]
fn a_deleted_message_is_not_delivered() {
    assert_eq!(rule_broken_by(|history| history.pages[2].messages.insert(1, seen(2))), Some(Rule::Ended));
    // During its deletion a message may be missing.
    let while_it_is_deleted = rule_broken_by(|history| {
        history.deletes[0].span.answered = Some(75);
        history.pages[2].messages.insert(1, seen(2));
    });
    assert_eq!(while_it_is_deleted, None);
}

#[test]
fn a_deletion_of_unknown_outcome_allows_either() {
    let unknown = |history: &mut History| history.deletes[0].span.answered = None;

    assert_eq!(rule_broken_by(unknown), None);
    let delivered = rule_broken_by(|history| {
        unknown(history);
        history.pages[2].messages.insert(1, seen(2));
    });
    assert_eq!(delivered, None);
}

#[test]
fn a_message_gone_for_one_observer_is_gone_for_the_next() {
    let mut history = empty_history();
    history.post(0, 10..20, HOUR, &[1, 2]);
    history.deletes.push(Delete { span: Span { invoked: 30, answered: None }, ids: vec![id(1)] });
    history.list(0, 40..50, 20, &[2]);
    history.list(1, 60..70, 20, &[1, 2]);

    assert_eq!(broken_rule(&history), Some(Rule::Ended));
}

#[test]
fn a_message_may_be_missing_once_it_may_have_expired() {
    let late = 70 * SECOND;
    let history = |listed_at: u64, ids: &[u64]| {
        let mut history = empty_history();
        history.post(0, 10..20, MINUTE, &[1]);
        history.post(0, 30..40, HOUR, &[2]);
        history.list(0, listed_at..listed_at + 1, 20, ids);
        history.list(1, late..late + 1, 20, &[2]);
        history.quiet = late;
        history.end()
    };

    assert_eq!(broken_rule(&history(SECOND, &[2])), Some(Rule::Missed));
    assert_eq!(broken_rule(&history(60 * SECOND, &[2])), None);
    assert_eq!(broken_rule(&history(60 * SECOND, &[1, 2])), None);
    assert_eq!(broken_rule(&history(64 * SECOND, &[1, 2])), Some(Rule::Ended));
}

#[test]
fn moving_the_clock_expires_messages() {
    let history = |listed: Range<u64>, ids: &[u64]| {
        let mut history = empty_history();
        history.post(0, 10..20, MINUTE, &[1]);
        history.set_clock_ahead(30..40, 70);
        history.list(0, listed, 20, ids);
        history.list(1, 35..36, 20, &[1]);
        history.end()
    };

    assert_eq!(broken_rule(&history(25..29, &[])), Some(Rule::Missed));
    assert_eq!(broken_rule(&history(25..33, &[1])), None);
    assert_eq!(broken_rule(&history(37..38, &[])), None);
    assert_eq!(broken_rule(&history(50..60, &[1])), Some(Rule::Ended));
}

#[test]
fn a_later_post_follows_an_answered_one() {
    let overtaken = rule_broken_by(|history| history.posts[1].span = answered(&(5..8)));

    assert_eq!(overtaken, Some(Rule::Overtaken));
    // Posts that overlap may have either order.
    assert_eq!(rule_broken_by(|history| history.posts[1].span = answered(&(5..12))), None);
}

#[test]
fn the_messages_of_a_request_stay_together_and_in_order() {
    let mut split = empty_history();
    split.post(0, 10..20, HOUR, &[1, 3]);
    split.post(1, 10..20, HOUR, &[2]);
    let mut reversed_receipt = empty_history();
    reversed_receipt.post(0, 10..20, HOUR, &[2, 1]);
    let mut reversed_unanswered = empty_history();
    reversed_unanswered.post_without_response(0, 10, &[8, 9]);
    reversed_unanswered.list(0, 30..40, 20, &[1, 2]);
    reversed_unanswered.pages[0].messages[0].tag = 9;
    reversed_unanswered.pages[0].messages[1].tag = 8;

    assert_eq!(broken_rule(&split), Some(Rule::BatchSplit));
    assert_eq!(broken_rule(&reversed_receipt), Some(Rule::BatchUnordered));
    assert_eq!(broken_rule(&reversed_unanswered), Some(Rule::BatchUnordered));
}

#[test]
fn a_receipt_names_every_message() {
    assert_eq!(rule_broken_by(|history| history.posts[0].ids.truncate(2)), Some(Rule::Receipt));
}

#[test]
fn an_id_and_a_message_belong_together() {
    assert_eq!(rule_broken_by(|history| history.pages[0].messages[0].tag = 99), Some(Rule::Invented));
    assert_eq!(rule_broken_by(|history| history.posts[1].span.invoked = 100), Some(Rule::Invented));
    assert_eq!(rule_broken_by(|history| history.pages[0].messages[0].id = id(9)), Some(Rule::TwoIds));
    let mut twice = empty_history();
    twice.post(0, 10..20, HOUR, &[1]);
    twice.post(0, 30..40, HOUR, &[1]);
    twice.posts[1].drafts[0].tag = 2;
    assert_eq!(broken_rule(&twice), Some(Rule::IdTwice));
}

#[test]
fn a_post_of_unknown_outcome_is_atomic() {
    let mut absent = valid_history();
    absent.post_without_response(0, 50, &[6, 7]);
    let seen_by_everybody = |ids: &[u64]| {
        let mut history = empty_history();
        history.post_without_response(0, 10, &[1, 2]);
        history.list(0, 30..40, 20, ids);
        history.list(1, 30..40, 20, ids);
        history.end()
    };

    assert_eq!(broken_rule(&absent), None);
    assert_eq!(broken_rule(&seen_by_everybody(&[1, 2])), None);
    assert_eq!(broken_rule(&seen_by_everybody(&[2])), Some(Rule::NotAtomic));
    let mut with_worker = seen_by_everybody(&[2]);
    with_worker.delete(10..20, &[1]);
    assert_eq!(broken_rule(&with_worker), None);
}

#[test]
fn a_post_of_unknown_outcome_is_missed_if_others_saw_it() {
    let mut history = empty_history();
    history.post_without_response(0, 10, &[1]);
    history.post(0, 20..30, HOUR, &[2]);
    history.list(0, 40..50, 20, &[1, 2]);
    history.list(1, 40..50, 20, &[2]);

    assert_eq!(broken_rule(&history), Some(Rule::Missed));
}

#[test]
fn own_messages_are_not_echoed() {
    assert_eq!(rule_broken_by(|history| history.pages[2].messages.push(seen(4))), Some(Rule::Echoed));
}

#[test]
fn an_observer_gets_only_what_follows_its_marker() {
    assert_eq!(rule_broken_by(|history| history.pages[1].marker = Some(id(1))), Some(Rule::Marker));
    assert_eq!(rule_broken_by(|history| history.pages[0].limit = 1), Some(Rule::Limit));
}

#[test]
fn every_observer_reads_the_last_message() {
    assert_eq!(rule_broken_by(|history| history.pages.truncate(4)), Some(Rule::Unfinished));
    assert_eq!(rule_broken_by(|history| history.pages[4].invoked = 1000), Some(Rule::Unfinished));
    assert_eq!(
        rule_broken_by(|history| history.observers.push(Observer { excluded_producer: None })),
        Some(Rule::Unfinished)
    );
}

#[test]
fn a_violation_shows_the_events() {
    let mut history = valid_history();
    history.seed = 7;
    history.pages[2].messages.insert(1, seen(2));

    let text = check(&history).unwrap_err().to_string();

    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "Ended: 2 was gone by 0.000060, observer 1 got it (seed 7)");
    assert!(lines[1].contains("list by observer 1 after nothing, limit 20: 1 ("), "{text}");
    assert!(lines[2].contains("[0.000010 - 0.000020] post by producer 0: 1 ("), "{text}");
    assert!(lines[3].contains("[0.000050 - 0.000060] delete: 00000000-"), "{text}");
}

fn remove_message(page: &mut Vec<Seen>, index: usize) {
    page.remove(index);
}

fn seen(number: u64) -> Seen {
    Seen { id: id(number), tag: number }
}
