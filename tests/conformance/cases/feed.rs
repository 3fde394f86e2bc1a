//! Reading the feed by marker: no message is skipped or repeated, whatever happens to the messages
//! near the marker.

use sukkal_domain::MessageId;

use crate::conformance::support::subject::{LONG_S, Subject, client, ids_of, messages};

pub(in crate::conformance) async fn a_list_after_a_marker_returns_the_messages_that_follow_it(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 20)).await;

    for (position, marker) in ids.iter().enumerate() {
        assert_eq!(subject.feed_after(&queue, Some(*marker)).await, ids[position + 1..]);
    }
}

pub(in crate::conformance) async fn pages_of_any_size_cover_the_whole_feed(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 130)).await;

    for limit in [1, 2, 7, 49, 50, 51, 130, 131, 1_000] {
        assert_eq!(subject.pages(&queue, None, limit, None).await, ids, "pages of {limit}");
    }
}

/// Row 6.2-13.
pub(in crate::conformance) async fn a_marker_keeps_its_position_when_its_message_is_deleted(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 20)).await;

    for (position, marker) in ids.iter().enumerate() {
        // The marker's own message, and another one after it.
        let deleted = [*marker, ids[(position + 2).min(19)]];
        subject.delete_messages(&queue, &deleted).await;

        let gone = |id: &MessageId| ids[..=position].contains(id) || deleted.contains(id);
        let after = subject.feed_after(&queue, Some(*marker)).await;
        assert_eq!(after, subject.feed(&queue).await);
        assert!(!after.iter().any(gone));
        assert!(after.iter().all(|id| id.rank() > marker.rank()));
    }
}

pub(in crate::conformance) async fn a_marker_at_the_last_message_returns_the_next_post(subject: &Subject) {
    let queue = subject.queue("q").await;
    let old = subject.post(&queue, &messages(LONG_S, 5)).await;
    let marker = old.last().copied();
    assert_eq!(subject.list(&queue, marker, 10).await, []);
    subject.delete_messages(&queue, &old).await;

    let new = subject.post(&queue, &messages(LONG_S, 2)).await;

    assert_eq!(subject.feed_after(&queue, marker).await, new);
}

pub(in crate::conformance) async fn a_reader_that_follows_the_feed_sees_every_message_once(subject: &Subject) {
    const POSTERS: usize = 4;
    const POSTS: usize = 25;
    let queue = subject.queue("q").await;
    let total = POSTERS * (1..=POSTS).sum::<usize>();

    let posters: Vec<_> = (0..POSTERS)
        .map(|_| {
            let (subject, queue) = (subject.clone(), queue.clone());
            tokio::spawn(async move {
                for size in 1..=POSTS {
                    let ids = subject.post(&queue, &messages(LONG_S, size)).await;
                    // Some messages are deleted immediately, which must not affect any marker.
                    subject.delete_messages(&queue, &ids[..ids.len() / 8]).await;
                }
            })
        })
        .collect();
    let mut seen: Vec<MessageId> = Vec::new();
    let mut limit = 0;
    let mut over = false;
    while !over {
        over = posters.iter().all(tokio::task::JoinHandle::is_finished);
        loop {
            limit = limit % 20 + 1;
            let page = subject.list(&queue, seen.last().copied(), limit).await;
            if page.is_empty() {
                break;
            }
            seen.extend(ids_of(&page));
        }
    }
    for poster in posters {
        poster.await.expect("no post fails");
    }

    crate::conformance::support::subject::assert_ascending(&seen);
    let left = subject.feed(&queue).await;
    assert!(left.iter().all(|id| seen.binary_search(id).is_ok()), "the reader missed a message");
    let deleted = POSTERS * (1..=POSTS).map(|size| size / 8).sum::<usize>();
    assert_eq!(left.len(), total - deleted);
}

pub(in crate::conformance) async fn a_list_can_exclude_the_messages_of_the_caller(subject: &Subject) {
    let queue = subject.queue("q").await;
    let mut others = Vec::new();
    let mut all = Vec::new();
    for number in 0..60 {
        let ids = subject.post_as(&client(number % 3), &queue, &messages(LONG_S, 2)).await;
        all.extend(ids.clone());
        if number % 3 != 1 {
            others.extend(ids);
        }
    }

    for limit in [1, 3, 60, 1_000] {
        assert_eq!(subject.pages(&queue, None, limit, Some(client(1))).await, others);
        assert_eq!(subject.pages(&queue, None, limit, Some(client(99))).await, all);
    }
    let own = subject.list_for(&queue, all.get(1).copied(), 1, Some(client(1))).await;
    assert_eq!(ids_of(&own), [all[4]]);
}

/// Row 6.2-15.
pub(in crate::conformance) async fn two_thousand_excluded_messages_do_not_hide_later_ones(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post_as(&client(1), &queue, &messages(LONG_S, 2_000)).await;
    let first = subject.post_as(&client(2), &queue, &messages(LONG_S, 1)).await;
    subject.post_as(&client(1), &queue, &messages(LONG_S, 1_500)).await;
    let second = subject.post_as(&client(2), &queue, &messages(LONG_S, 3)).await;

    for limit in [1, 2, 10, 600] {
        let page = subject.list_for(&queue, None, limit, Some(client(1))).await;
        assert_eq!(page.first().map(|message| message.id), Some(first[0]), "a page of {limit}");
        let all = subject.pages(&queue, None, limit, Some(client(1))).await;
        assert_eq!(all, [first.clone(), second.clone()].concat(), "pages of {limit}");
    }
}

pub(in crate::conformance) async fn a_page_is_empty_only_at_the_end(subject: &Subject) {
    let queue = subject.queue("q").await;
    // Numbers of messages at which a driver might stop scanning.
    for own in [49, 50, 51, 99, 100, 101, 499, 500, 501, 999, 1_000, 1_001] {
        let before = subject.post_as(&client(1), &queue, &messages(LONG_S, own)).await;
        let marker = before.first().copied();
        assert_eq!(
            subject.list_for(&queue, marker, 1, Some(client(1))).await,
            [],
            "{own} excluded messages, and no others"
        );

        let other = subject.post_as(&client(2), &queue, &messages(LONG_S, 1)).await;

        for limit in [1, 50, 500] {
            let page = subject.list_for(&queue, marker, limit, Some(client(1))).await;
            assert_eq!(ids_of(&page), other, "after {own} excluded messages, a page of {limit}");
        }
    }
}

pub(in crate::conformance) async fn a_page_can_have_a_thousand_messages(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 1_500)).await;

    let page = ids_of(&subject.list(&queue, None, 1_000).await);

    assert!(!page.is_empty());
    assert_eq!(page, ids[..page.len()]);
    assert_eq!(subject.pages(&queue, None, 1_000, Some(client(0))).await, []);
}
