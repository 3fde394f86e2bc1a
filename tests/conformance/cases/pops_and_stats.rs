//! Pops and stats: operations on the ends of the feed.

use std::time::Duration;

use sukkal_domain::{MessageId, QueueId, Stats};

use crate::conformance::support::subject::{LONG_S, Subject, assert_ascending, bodies_of, ids_of, messages};
use support::random::{Random, seed};

pub(in crate::conformance) async fn a_pop_removes_the_oldest_messages(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 10)).await;

    let popped = subject.pop(&queue, 3).await;

    assert_eq!(ids_of(&popped), ids[..3]);
    let bodies: Vec<_> = messages(LONG_S, 3).into_iter().map(|message| message.body).collect();
    assert_eq!(bodies_of(&popped), bodies);
    assert_eq!(subject.feed(&queue).await, ids[3..]);
    assert_eq!(subject.found(&queue, &ids).await, ids[3..]);
    assert_eq!(subject.count(&queue).await, 7);
    assert_eq!(subject.feed_after(&queue, Some(ids[1])).await, ids[3..]);
}

pub(in crate::conformance) async fn a_pop_beyond_the_end_returns_all_messages(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 3)).await;

    assert_eq!(ids_of(&subject.pop(&queue, 1_000).await), ids);
    assert_eq!(subject.pop(&queue, 1_000).await, []);
    assert_eq!(subject.pop(&subject.id("never"), 1).await, []);
    assert_eq!(subject.get(&subject.id("never")).await, None);
}

pub(in crate::conformance) async fn concurrent_pops_deliver_each_message_once(subject: &Subject) {
    let seed = seed();
    let queue = subject.queue("q").await;
    let mut posted = subject.post(&queue, &messages(LONG_S, 1_000)).await;

    let poppers: Vec<_> = (0..8)
        .map(|player| {
            let (subject, queue) = (subject.clone(), queue.clone());
            let mut random = Random::new(seed, player, 0);
            tokio::spawn(async move {
                let mut popped = Vec::new();
                loop {
                    let page = subject.pop(&queue, random.below(20) + 1).await;
                    if page.is_empty() {
                        return popped;
                    }
                    popped.extend(ids_of(&page));
                }
            })
        })
        .collect();
    posted.extend(subject.post(&queue, &messages(LONG_S, 500)).await);
    let mut popped = Vec::new();
    for popper in poppers {
        let own = popper.await.expect("no pop fails");
        assert_ascending(&own);
        popped.extend(own);
    }

    popped.extend(subject.feed(&queue).await);
    popped.sort_unstable();
    assert_eq!(popped, posted);
}

pub(in crate::conformance) async fn a_pop_skips_expired_messages(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(60, 3_000)).await;
    let left = subject.post(&queue, &messages(LONG_S, 3)).await;
    subject.advance(&queue, Duration::from_secs(62)).await;

    assert_eq!(ids_of(&subject.pop(&queue, 2).await), left[..2]);
    assert_eq!(ids_of(&subject.pop(&queue, 2).await), left[2..]);
    assert_eq!(subject.count(&queue).await, 0);
}

pub(in crate::conformance) async fn stats_show_the_count_and_the_oldest_and_newest_message(subject: &Subject) {
    let queue = subject.queue("q").await;
    assert_eq!(subject.stats(&queue).await, Stats { exists: true, ..Stats::default() });
    assert_eq!(subject.stats(&subject.id("never")).await, Stats::default());

    let ids = subject.post(&queue, &messages(LONG_S, 10)).await;
    assert_stats(subject, &queue, &ids).await;

    subject.delete_messages(&queue, &[ids[0], ids[5], ids[9]]).await;
    assert_stats(subject, &queue, &[&ids[1..5], &ids[6..9]].concat()).await;

    subject.pop(&queue, 6).await;
    assert_stats(subject, &queue, &ids[8..9]).await;

    subject.delete(&queue).await;
    assert_eq!(subject.stats(&queue).await, Stats::default());
}

/// Row 4.6-10.
pub(in crate::conformance) async fn stats_exclude_expired_messages(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(60, 1_500)).await;
    let left = subject.post(&queue, &messages(LONG_S, 4)).await;
    subject.post(&queue, &messages(60, 1_500)).await;

    subject.advance(&queue, Duration::from_secs(62)).await;

    assert_stats(subject, &queue, &left).await;
}

async fn assert_stats(subject: &Subject, queue: &QueueId, feed: &[MessageId]) {
    let stats = subject.stats(queue).await;

    assert_eq!(stats.total, feed.len() as u64);
    assert_eq!(stats.oldest.map(|message| message.id).as_ref(), feed.first());
    assert_eq!(stats.newest.map(|message| message.id).as_ref(), feed.last());
}
