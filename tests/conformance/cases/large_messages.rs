//! Large messages: a response is limited in bytes, so it contains fewer messages, and none is lost.

use sukkal_domain::{Body, ClaimId, MessageId, NewMessage, Order, QueueId};
use sukkal_storage::Listing;

use crate::conformance::support::subject::{LONG_S, Subject, ids_of};
use support::calls::new_claim;

const COUNT: usize = 12;
const BYTES: usize = 200_000;

async fn filled(subject: &Subject) -> (QueueId, Vec<MessageId>) {
    let queue = subject.queue("q").await;
    let mut posted = Vec::new();
    for _ in 0..COUNT {
        let body = rmp_serde::to_vec(&"x".repeat(BYTES)).expect("a string can be formatted");
        let message = NewMessage { ttl_s: LONG_S, delay_s: 0, body: Body::from_msgpack(body.into()), assignment: None };
        posted.extend(subject.post(&queue, &[message]).await);
    }
    (queue, posted)
}

/// Reads the feed page by page.
async fn read_pages(subject: &Subject, queue: &QueueId, order: Order) -> Vec<MessageId> {
    let mut read: Vec<MessageId> = Vec::new();
    loop {
        let after = read.last().map(|id| id.rank());
        let page = subject.page_of(queue, &Listing { after, order, ..Listing::first(COUNT) }).await;
        let page = ids_of(&page.messages);
        assert!(page.len() * BYTES < 1 << 20, "{} large messages in a page", page.len());
        if page.is_empty() {
            return read;
        }
        read.extend(page);
    }
}

pub(in crate::conformance) async fn pages_of_large_messages_are_short_and_complete(subject: &Subject) {
    let (queue, posted) = filled(subject).await;

    assert_eq!(read_pages(subject, &queue, Order::OldestFirst).await, posted);
}

pub(in crate::conformance) async fn pages_with_the_newest_first_are_short_and_complete(subject: &Subject) {
    let (queue, mut posted) = filled(subject).await;

    posted.reverse();
    assert_eq!(read_pages(subject, &queue, Order::NewestFirst).await, posted);
}

pub(in crate::conformance) async fn pops_of_large_messages_are_short_and_lose_nothing(subject: &Subject) {
    let (queue, posted) = filled(subject).await;

    let mut popped = Vec::new();
    while popped.len() < COUNT {
        let page = ids_of(&subject.pop(&queue, COUNT).await);
        assert!(!page.is_empty() && page.len() * BYTES < 1 << 20, "{} large messages popped", page.len());
        assert_eq!(subject.count(&queue).await, COUNT - popped.len() - page.len());
        popped.extend(page);
    }

    assert_eq!(popped, posted);
}

pub(in crate::conformance) async fn claims_of_large_messages_leave_the_rest_available(subject: &Subject) {
    let (queue, posted) = filled(subject).await;
    let new = new_claim(COUNT, 60);

    let claim =
        subject.store().create_claim(&queue, ClaimId::random(), &new).await.expect("the store is there").messages();
    let claim = claim.expect("all are free");

    let claimed = ids_of(&claim.messages);
    assert!(!claimed.is_empty() && claimed.len() * BYTES < 1 << 20, "{} large messages claimed", claimed.len());
    assert_eq!(subject.list(&queue, None, 1).await[0].id, posted[claimed.len()]);
}

pub(in crate::conformance) async fn a_get_returns_all_requested_large_messages(subject: &Subject) {
    let (queue, posted) = filled(subject).await;

    assert_eq!(ids_of(&subject.get_messages(&queue, &posted).await), posted);
}
