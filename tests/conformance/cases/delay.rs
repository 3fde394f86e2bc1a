//! Delayed messages: none is delivered before it is due, and then its position is after every
//! marker.

use std::collections::HashSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::future::join_all;
use serde_json::json;
use sukkal_domain::{MessageId, NewMessage, QueueId, Scope};
use sukkal_storage::{Listing, Page};

use crate::conformance::support::subject::{LONG_S, Subject, assert_ascending, ids_of, message, messages};
use support::random::{Random, seed};

const S: Duration = Duration::from_secs(1);

impl Subject {
    /// Returns the ids of a list that includes delayed messages.
    async fn list_with_delayed(&self, queue: &QueueId) -> Vec<MessageId> {
        self.page_with_delayed(queue).await.messages.iter().map(|message| message.id).collect()
    }

    async fn page_with_delayed(&self, queue: &QueueId) -> Page {
        let scope = Scope { claimed: false, delayed: true };
        let listing = Listing { scope, ..Listing::first(1_000) };
        self.store().list_messages(queue, &listing).await.expect("the store answers")
    }

    async fn set_default_delay(&self, queue: &QueueId, delay_s: u32) {
        self.set_metadata(queue, json!({"_default_message_delay": delay_s})).await;
    }
}

/// Returns `count` messages with the same delay.
fn delayed(delay_s: u32, count: usize) -> Vec<NewMessage> {
    messages(LONG_S, count).into_iter().map(|message| NewMessage { delay_s, ..message }).collect()
}

/// Sets the queue's clock to `ahead` before the message is due.
async fn advance_to_shortly_before(subject: &Subject, queue: &QueueId, id: MessageId, ahead: Duration) {
    let real = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    let due = Duration::from_micros(id.rank().micros());
    subject.set_clock_ahead(queue, due.saturating_sub(real + ahead)).await;
}

/// Rows 5-9, 6.2-16, 6.5-11, 7.1-9.
pub(in crate::conformance) async fn a_delayed_message_is_not_delivered_until_it_is_due(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &delayed(100, 3)).await;

    for step in [0, 80] {
        subject.advance(&queue, step * S).await;
        assert_eq!(subject.feed(&queue).await, []);
        assert_eq!(subject.claimed_ids(&queue, 3, 60).await, []);
        assert_eq!(ids_of(&subject.pop(&queue, 3).await), []);
    }
    subject.advance(&queue, 21 * S).await;

    assert_eq!(subject.feed(&queue).await, ids);
    assert_eq!(subject.claimed_ids(&queue, 3, 60).await, ids);
}

/// Rows 4.6-7, 6.3-4.
pub(in crate::conformance) async fn a_delayed_message_can_be_read_counted_and_deleted(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &delayed(100, 3)).await;
    let first = subject.post(&queue, &messages(LONG_S, 1)).await;

    assert_eq!(subject.found(&queue, &ids).await, ids);
    let stats = subject.stats(&queue).await;
    assert_eq!((stats.total, stats.claimed), (4, 0));
    assert_eq!(stats.oldest.map(|message| message.id), Some(first[0]));
    assert_eq!(stats.newest.map(|message| message.id), Some(ids[2]));
    subject.delete_messages(&queue, &ids[..1]).await;
    subject.delete_with_claim(&queue, ids[1], None).await;
    assert_eq!(subject.count(&queue).await, 2);
    subject.advance(&queue, 101 * S).await;
    assert_eq!(subject.feed(&queue).await, [first[0], ids[2]]);
}

pub(in crate::conformance) async fn a_list_can_include_delayed_messages(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.set_default_delay(&queue, 5).await;
    let late = subject.post(&queue, &delayed(200, 2)).await;
    let soon = subject.post(&queue, &delayed(100, 2)).await;
    let now = subject.post(&queue, &messages(LONG_S, 2)).await;

    assert_eq!(subject.list_with_delayed(&queue).await, [now.clone(), soon.clone(), late.clone()].concat());
    subject.advance(&queue, 101 * S).await;
    assert_eq!(subject.feed(&queue).await, [now.clone(), soon.clone()].concat());
    assert_eq!(subject.list_with_delayed(&queue).await, [now.clone(), soon.clone(), late].concat());
    // The page no longer says so once the queue has no default delay.
    subject.set_default_delay(&queue, 0).await;
    assert_eq!(subject.list_with_delayed(&queue).await, [now, soon].concat());
}

/// Row 5-9.
pub(in crate::conformance) async fn a_page_says_whether_the_queue_has_delayed_messages(subject: &Subject) {
    let queue = subject.queue("q").await;
    assert!(!subject.page_with_delayed(&queue).await.delays);

    for (delay, delays) in [(5, true), (0, false)] {
        subject.set_default_delay(&queue, delay).await;

        assert_eq!(subject.page_with_delayed(&queue).await.delays, delays);
    }
    assert!(!subject.page_with_delayed(&subject.id("never")).await.delays);
}

pub(in crate::conformance) async fn each_message_of_a_post_is_released_when_it_is_due(subject: &Subject) {
    let queue = subject.queue("q").await;
    let delays = [300, 0, 100, 300, 200, 0, 100];
    let batch: Vec<_> = delays.iter().map(|delay| NewMessage { delay_s: *delay, ..message(LONG_S, 0) }).collect();

    let ids = subject.post(&queue, &batch).await;

    let of = |places: &[usize]| places.iter().map(|place| ids[*place]).collect::<Vec<_>>();
    assert_eq!(subject.feed(&queue).await, of(&[1, 5]));
    let due = [vec![1, 5], vec![2, 6], vec![4], vec![0, 3]];
    for round in 2..=4 {
        subject.advance(&queue, 101 * S).await;
        assert_eq!(subject.feed(&queue).await, of(&due[..round].concat()));
    }
}

pub(in crate::conformance) async fn a_released_message_follows_every_marker(subject: &Subject) {
    let queue = subject.queue("q").await;
    let late = subject.post(&queue, &delayed(100, 2)).await;
    let first = subject.post(&queue, &messages(LONG_S, 2)).await;
    subject.advance(&queue, 50 * S).await;
    let second = subject.post(&queue, &messages(LONG_S, 2)).await;
    assert_eq!(subject.feed(&queue).await, [first, second.clone()].concat());

    subject.advance(&queue, 51 * S).await;
    // The messages are due, but no operation has applied this yet: a post in between changes
    // nothing.
    let third = subject.post(&queue, &messages(LONG_S, 2)).await;

    assert_eq!(subject.feed_after(&queue, Some(second[1])).await, [late, third].concat());
}

pub(in crate::conformance) async fn a_post_whose_ranks_reach_a_delayed_message_releases_it(subject: &Subject) {
    for step in [100 * S, S * 9 / 10] {
        let queue = subject.queue(&format!("q{}", step.as_secs())).await;
        let (late, near) = post_near_undue_message(subject, &queue).await;
        // Ranks do not decrease when the clock steps back.
        subject.rewind(&queue, step).await;

        let many = subject.post(&queue, &messages(LONG_S, 8_000)).await;
        let one = subject.post(&queue, &messages(LONG_S, 1)).await;

        assert_eq!(subject.feed_after(&queue, Some(near)).await, [late, many, one].concat());
    }
}

pub(in crate::conformance) async fn a_delay_has_its_full_length_when_ranks_are_ahead_of_the_clock(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.advance(&queue, 3_600 * S).await;
    let ahead = subject.post(&queue, &messages(LONG_S, 1)).await;
    subject.rewind(&queue, 3_600 * S).await;

    let late = subject.post(&queue, &delayed(100, 1)).await;
    let now = subject.post(&queue, &messages(LONG_S, 1)).await;

    assert_eq!(subject.feed(&queue).await, [&ahead[..], &now].concat());
    let due = subject.store().queue_status(&queue).await.expect("the store answers").next_due.expect("one is delayed");
    assert!(due <= 100 * S, "due in {due:?}");
    subject.advance(&queue, 80 * S).await;
    assert_eq!(subject.feed(&queue).await, [&ahead[..], &now].concat());
    subject.advance(&queue, 21 * S).await;
    assert_eq!(subject.feed(&queue).await, [ahead, now, late].concat());
}

/// Thousands of delayed messages while the clock steps. The elapsed time is the time that passes
/// between the steps. A message is due when its delay has elapsed, however often the clock stepped
/// back. It is due earlier only by the amount that the clock stepped forward.
pub(in crate::conformance) async fn delayed_messages_keep_order_and_delay_when_the_clock_steps(subject: &Subject) {
    const ROUNDS: usize = 60;
    let queue = subject.queue("q").await;
    let mut random = Random::new(seed(), 0, 0);
    let began = Instant::now();
    // Seconds that elapsed, and seconds that the clock stepped forward in addition.
    let (mut passed, mut ahead) = (0_u64, 0_u64);
    let mut posted: Vec<(MessageId, u64, u64)> = Vec::new();
    let mut marker = None;
    let mut feed = Vec::new();
    let mut seen = HashSet::new();
    for _ in 0..ROUNDS {
        let delays: Vec<_> = (0..=random.below(200)).map(|_| 30 * roll_s(&mut random, 8)).collect();
        let batch: Vec<_> =
            delays.iter().map(|delay_s| NewMessage { delay_s: *delay_s, ..message(LONG_S, 0) }).collect();
        for (id, delay_s) in subject.post(&queue, &batch).await.into_iter().zip(delays) {
            posted.push((id, passed + u64::from(delay_s), ahead + passed + u64::from(delay_s)));
        }
        match random.below(4) {
            0 => subject.rewind(&queue, roll_s(&mut random, 7_200) * S).await,
            1 => {
                let step_s = roll_s(&mut random, 90);
                subject.advance(&queue, step_s * S).await;
                ahead += u64::from(step_s);
            }
            _ => {
                let step_s = roll_s(&mut random, 60);
                subject.advance(&queue, step_s * S).await;
                passed += u64::from(step_s);
            }
        }
        let page = subject.feed_after(&queue, marker).await;
        marker = page.last().copied().or(marker);
        seen.extend(page.iter().copied());
        feed.extend(page);
        let late = posted.iter().find(|(id, due, _)| *due + 1 < passed && !seen.contains(id));
        assert_eq!(late, None, "it is late, {passed} s after the beginning");
        // The run itself takes time.
        let taken = began.elapsed().as_secs() + 2;
        let early = posted.iter().find(|(id, _, due)| *due > ahead + passed + taken && seen.contains(id));
        assert_eq!(early, None, "it is early, {passed} s after the beginning");
    }
    subject.advance(&queue, 300 * S).await;
    feed.extend(subject.feed_after(&queue, marker).await);

    assert_ascending(&feed);
    let mut all: Vec<_> = posted.into_iter().map(|(id, ..)| id).collect();
    all.sort_unstable();
    assert_eq!(feed, all);
}

fn roll_s(random: &mut Random, sides: usize) -> u32 {
    u32::try_from(random.below(sides)).expect("it is small")
}

/// Posts a message that is not due, and another one whose rank is less than eight thousand before
/// it.
async fn post_near_undue_message(subject: &Subject, queue: &QueueId) -> (Vec<MessageId>, MessageId) {
    loop {
        let late = subject.post(queue, &delayed(60, 1)).await;
        advance_to_shortly_before(subject, queue, late[0], Duration::from_millis(8)).await;
        let near = subject.post(queue, &messages(LONG_S, 1)).await[0];
        // On a busy machine the second post may come too late, so try again.
        if near < late[0] {
            return (late, near);
        }
    }
}

/// The rank that a delayed message would get belongs to another one, so it gets the next free one.
pub(in crate::conformance) async fn a_delayed_message_gets_the_first_rank_that_is_free(subject: &Subject) {
    const COUNT: usize = 2_000;
    /// Attempts to post at a time that is exact to a millisecond.
    const ATTEMPTS_MAX: usize = 300;
    let queue = subject.queue("q").await;
    for _ in 0..ATTEMPTS_MAX {
        let late = subject.post(&queue, &delayed(60, COUNT)).await;
        advance_to_shortly_before(subject, &queue, late[0], 30 * S + Duration::from_millis(1)).await;
        let next = subject.post(&queue, &delayed(30, 1)).await[0];
        let [first, last, rank] = [late[0], late[COUNT - 1], next].map(|id| id.rank().micros());
        assert!(!(first..=last).contains(&rank), "{rank} belongs to another message");
        if rank == last + 1 {
            return;
        }
        // The post came a few milliseconds too early or too late.
        subject.advance(&queue, 61 * S).await;
    }
    panic!("no post came at the right time");
}

pub(in crate::conformance) async fn ranks_are_unique_among_delayed_and_other_messages(subject: &Subject) {
    let seed = seed();
    let queue = subject.queue("q").await;
    let posts = (0..24_u64).map(|number| {
        let (subject, queue) = (subject.clone(), queue.clone());
        async move {
            let mut random = Random::new(seed, number, 0);
            let mut ids = Vec::new();
            for _ in 0..8 {
                let delays: Vec<_> = (0..=random.below(300)).map(|_| u32::from(random.below(2) == 0)).collect();
                let batch: Vec<_> =
                    delays.iter().map(|delay| NewMessage { delay_s: *delay, ..message(LONG_S, 0) }).collect();
                ids.extend(subject.post(&queue, &batch).await);
            }
            ids
        }
    });
    let mut all = join_all(posts).await.concat();
    subject.advance(&queue, 3 * S).await;

    let feed = subject.feed(&queue).await;

    assert_ascending(&feed);
    all.sort_unstable();
    assert_eq!(feed, all);
}

pub(in crate::conformance) async fn messages_of_a_post_with_the_same_delay_are_consecutive(subject: &Subject) {
    let queue = subject.queue("q").await;
    let posts = (0..12).map(|_| {
        let (subject, queue) = (subject.clone(), queue.clone());
        async move { subject.post(&queue, &delayed(10, 2_000)).await }
    });
    let posts = join_all(posts).await;
    subject.advance(&queue, 12 * S).await;

    let feed = subject.feed(&queue).await;

    assert_eq!(feed.len(), 24_000);
    for post in posts {
        let start = feed.iter().position(|id| *id == post[0]).expect("it is there");
        assert_eq!(feed[start..start + 2_000], post);
    }
}

pub(in crate::conformance) async fn the_first_reader_sees_thousands_of_messages_that_are_due_together(
    subject: &Subject,
) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &delayed(60, 3_000)).await;
    subject.advance(&queue, 61 * S).await;

    assert_eq!(ids_of(&subject.list(&queue, Some(ids[2_989]), 1_000).await), ids[2_990..]);
    assert_eq!(subject.feed(&queue).await, ids);
}

pub(in crate::conformance) async fn no_message_is_due_earlier_when_the_clock_steps_back(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &delayed(100, 2)).await;
    subject.advance(&queue, 90 * S).await;
    subject.rewind(&queue, 60 * S).await;
    let now = subject.post(&queue, &messages(LONG_S, 2)).await;

    // Updates of the metadata take sequence numbers too.
    for color in 0..20 {
        subject.set_metadata(&queue, json!({"color": color})).await;
    }
    assert_eq!(subject.feed(&queue).await, now);
    subject.advance(&queue, 50 * S).await;
    assert_eq!(subject.feed(&queue).await, now);
    subject.advance(&queue, 21 * S).await;
    assert_eq!(subject.feed(&queue).await, [now, ids].concat());
}

pub(in crate::conformance) async fn a_released_message_stays_released_when_the_clock_steps_back(subject: &Subject) {
    let queue = subject.queue("q").await;
    let late = subject.post(&queue, &delayed(100, 2)).await;
    subject.advance(&queue, 101 * S).await;
    // The rank follows those of the due messages, although no operation has released them yet.
    let post = subject.post(&queue, &messages(LONG_S, 1)).await;
    subject.rewind(&queue, 50 * S).await;

    assert_eq!(subject.feed(&queue).await, [late, post].concat());
}

pub(in crate::conformance) async fn posts_follow_released_messages_when_the_clock_steps_back(subject: &Subject) {
    let queue = subject.queue("q").await;
    let late = subject.post(&queue, &delayed(100, 2)).await;
    subject.advance(&queue, 101 * S).await;
    assert_eq!(subject.feed(&queue).await, late);
    subject.rewind(&queue, 50 * S).await;

    let post = subject.post(&queue, &messages(LONG_S, 1)).await;

    assert_eq!(subject.feed_after(&queue, Some(late[1])).await, post);
}

pub(in crate::conformance) async fn a_message_can_expire_before_it_is_due(subject: &Subject) {
    let queue = subject.queue("q").await;
    let short = NewMessage { delay_s: 900, ..message(60, 0) };
    let ids = subject.post(&queue, &[short]).await;
    subject.advance(&queue, 40 * S).await;
    assert_eq!(subject.found(&queue, &ids).await, ids);

    subject.advance(&queue, 22 * S).await;

    assert_eq!(subject.found(&queue, &ids).await, []);
    assert_eq!(subject.count(&queue).await, 0);
    subject.advance(&queue, 900 * S).await;
    assert_eq!(subject.feed(&queue).await, []);
}

pub(in crate::conformance) async fn purging_and_deleting_a_queue_remove_delayed_messages(subject: &Subject) {
    let queue = subject.queue("q").await;
    for deleted in [false, true] {
        subject.post(&queue, &delayed(100, 20)).await;
        if deleted {
            subject.delete(&queue).await;
            subject.create(&queue).await;
        } else {
            subject.store().purge_queue(&queue).await.expect("the store answers");
        }
        assert_eq!(subject.count(&queue).await, 0);
        subject.advance(&queue, 101 * S).await;
        assert_eq!(subject.feed(&queue).await, []);
    }
}
