//! Large messages: an answer has to arrive in time, so it holds fewer of them, and none gets lost.

use sukkal::domain::{Body, NewClaim, NewMessage, QueueId, Term};

use super::subject::{LONG_S, Subject, ids_of};

const COUNT: usize = 12;
const BYTES: usize = 200_000;

async fn filled(subject: &Subject) -> (QueueId, Vec<sukkal::domain::MessageId>) {
    let queue = subject.queue("q").await;
    let mut posted = Vec::new();
    for _ in 0..COUNT {
        let body = rmp_serde::to_vec(&"x".repeat(BYTES)).expect("a string has a form");
        let message = NewMessage { ttl_s: LONG_S, delay_s: 0, body: Body::from_msgpack(body.into()), lot: None };
        posted.extend(subject.post(&queue, &[message]).await);
    }
    (queue, posted)
}

pub(super) async fn pages_of_large_messages_are_short_and_miss_nothing(subject: &Subject) {
    let (queue, posted) = filled(subject).await;

    let mut read = Vec::new();
    loop {
        let page = ids_of(&subject.list(&queue, read.last().copied(), COUNT).await);
        assert!(page.len() * BYTES < 1 << 20, "{} large messages in a page", page.len());
        if page.is_empty() {
            break;
        }
        read.extend(page);
    }

    assert_eq!(read, posted);
}

pub(super) async fn pops_of_large_messages_are_short_and_lose_nothing(subject: &Subject) {
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

pub(super) async fn claims_of_large_messages_leave_the_rest_free(subject: &Subject) {
    let (queue, posted) = filled(subject).await;
    let new = NewClaim { limit: COUNT, term: Term { ttl_s: 60, grace_s: 60 }, prefer: Vec::new() };

    let claim = subject.store().create_claim(&queue, &new).await.expect("the store is there").expect("all are free");

    let claimed = ids_of(&claim.messages);
    assert!(!claimed.is_empty() && claimed.len() * BYTES < 1 << 20, "{} large messages claimed", claimed.len());
    assert_eq!(subject.list(&queue, None, 1).await[0].id, posted[claimed.len()]);
}

pub(super) async fn all_large_messages_that_are_asked_for_are_got(subject: &Subject) {
    let (queue, posted) = filled(subject).await;

    assert_eq!(ids_of(&subject.get_messages(&queue, &posted).await), posted);
}
