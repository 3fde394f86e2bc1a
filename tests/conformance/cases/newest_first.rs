//! Lists with the newest messages first: a marker continues towards older messages, and messages
//! that arrive meanwhile change nothing.

use std::time::Duration;

use serde_json::json;
use sukkal_domain::{MessageId, NewMessage, Order, Scope};
use sukkal_storage::Listing;

use crate::conformance::support::subject::{LONG_S, Subject, client, ids_of, messages};

/// Selects the newest messages, at most `limit`.
fn newest(limit: usize) -> Listing {
    Listing { order: Order::NewestFirst, ..Listing::first(limit) }
}

fn reversed(ids: &[MessageId]) -> Vec<MessageId> {
    ids.iter().rev().copied().collect()
}

pub(in crate::conformance) async fn pages_of_any_size_cover_the_whole_feed(subject: &Subject) {
    let queue = subject.queue("q").await;
    assert_eq!(ids_of(&subject.page_of(&queue, &newest(10)).await.messages), []);
    assert_eq!(ids_of(&subject.page_of(&subject.id("never"), &newest(10)).await.messages), []);
    let ids = subject.post(&queue, &messages(LONG_S, 130)).await;

    for limit in [1, 2, 49, 50, 130, 131, 1_000] {
        assert_eq!(subject.pages_from(&queue, newest(limit)).await, reversed(&ids), "pages of {limit}");
    }
    for (position, marker) in ids.iter().enumerate().step_by(13) {
        let older = subject.pages_from(&queue, Listing { after: Some(marker.rank()), ..newest(7) }).await;
        assert_eq!(older, reversed(&ids[..position]));
    }
}

pub(in crate::conformance) async fn a_marker_keeps_its_position_when_its_message_is_deleted(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 5)).await;

    subject.delete_messages(&queue, &[ids[3], ids[1]]).await;

    let older = subject.pages_from(&queue, Listing { after: Some(ids[3].rank()), ..newest(10) }).await;
    assert_eq!(older, [ids[2], ids[0]]);
}

pub(in crate::conformance) async fn messages_that_arrive_are_on_no_later_page(subject: &Subject) {
    let queue = subject.queue("q").await;
    let late = subject.post(&queue, &[NewMessage { delay_s: 100, ..messages(LONG_S, 1).remove(0) }]).await;
    let ids = subject.post(&queue, &messages(LONG_S, 20)).await;
    let mut read: Vec<MessageId> = Vec::new();

    for _ in 0..10 {
        let after = read.last().map(|id| id.rank());
        read.extend(ids_of(&subject.page_of(&queue, &Listing { after, ..newest(2) }).await.messages));
        subject.post(&queue, &messages(LONG_S, 3)).await;
        // Ranks never go back, even if the clock does. The delayed message becomes due meanwhile.
        subject.advance(&queue, Duration::from_secs(20)).await;
        subject.rewind(&queue, Duration::from_secs(5)).await;
    }

    assert_eq!(read, reversed(&ids));
    assert!(subject.feed(&queue).await.contains(&late[0]));
}

pub(in crate::conformance) async fn a_page_has_available_claimed_and_delayed_messages_in_one_order(subject: &Subject) {
    let queue = subject.queue_of("q", json!({"_default_message_delay": 5})).await;
    let delayed = NewMessage { delay_s: 100, ..messages(LONG_S, 1).remove(0) };
    let late = subject.post(&queue, &[delayed.clone(), delayed]).await;
    let ids = subject.post(&queue, &messages(LONG_S, 6)).await;
    let claimed = ids_of(&subject.claim(&queue, 2, 60).await.messages);
    let claim = subject.claim(&queue, 2, 60).await;
    subject.store().return_message(&queue, claim.id, ids[2], 0).await.expect("the store answers");
    assert_eq!(claimed, ids[..2]);

    for limit in [1, 3, 10] {
        let listed = async |claimed, delayed| {
            let scope = Scope { claimed, delayed };
            subject.pages_from(&queue, Listing { scope, ..newest(limit) }).await
        };
        assert_eq!(listed(false, false).await, [ids[5], ids[4], ids[2]]);
        assert_eq!(listed(true, false).await, reversed(&ids));
        assert_eq!(listed(false, true).await, [late[1], late[0], ids[5], ids[4], ids[2]]);
        assert_eq!(listed(true, true).await, reversed(&[ids.clone(), late.clone()].concat()));
    }
}

pub(in crate::conformance) async fn two_thousand_excluded_messages_do_not_hide_older_ones(subject: &Subject) {
    let queue = subject.queue("q").await;
    let mut others = subject.post_as(&client(2), &queue, &messages(LONG_S, 2)).await;
    subject.post_as(&client(1), &queue, &messages(LONG_S, 1_500)).await;
    others.extend(subject.post_as(&client(2), &queue, &messages(LONG_S, 1)).await);
    subject.post_as(&client(1), &queue, &messages(LONG_S, 2_000)).await;

    for limit in [1, 2, 600] {
        let listing = Listing { not_from: Some(client(1)), ..newest(limit) };
        assert_eq!(subject.pages_from(&queue, listing).await, reversed(&others), "pages of {limit}");
    }
}
