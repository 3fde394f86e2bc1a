//! Message ids: an id matches only its own message, not one with a neighboring rank and none of
//! another queue.

use sukkal_domain::message::Nonce;
use sukkal_domain::{MessageId, QueueId, Rank};

use crate::conformance::support::subject::{LONG_S, Subject, fresh_project, messages, queue_id};

/// Returns the id that `queue` would have assigned for the same rank and nonce.
fn same_in(queue: &QueueId, id: MessageId) -> MessageId {
    MessageId::new(queue, id.rank(), id.nonce())
}

async fn assert_matches_nothing(subject: &Subject, queue: &QueueId, ids: &[MessageId]) {
    let before = subject.feed(queue).await;

    let found = subject.found(queue, ids).await;
    subject.delete_messages(queue, ids).await;

    assert_eq!(found, [], "found in {queue}");
    assert_eq!(subject.feed(queue).await, before, "deleted from {queue}");
    assert_eq!(subject.count(queue).await, before.len());
}

pub(in crate::conformance) async fn an_id_with_the_right_rank_and_another_nonce_matches_nothing(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 5)).await;

    for flipped in [1, 1 << 20, 1 << 37] {
        let other = |id: &MessageId| MessageId::new(&queue, id.rank(), Nonce::from_bits(id.nonce().bits() ^ flipped));

        assert_matches_nothing(subject, &queue, &ids.iter().map(other).collect::<Vec<_>>()).await;
    }
}

pub(in crate::conformance) async fn an_id_with_an_unused_rank_matches_nothing(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 5)).await;
    let at = |micros: u64| MessageId::new(&queue, Rank::new(micros).expect("it is in range"), ids[0].nonce());
    let (first, last) = (ids[0].rank().micros(), ids[4].rank().micros());

    assert_matches_nothing(
        subject,
        &queue,
        &[at(0), at(first - 1), at(first + 1), at(last + 1), at(Rank::MAX.micros())],
    )
    .await;
}

pub(in crate::conformance) async fn ids_of_another_queue_match_nothing(subject: &Subject) {
    let queue = subject.queue("q").await;
    let other = subject.queue("other").await;
    let ids = subject.post(&queue, &messages(LONG_S, 5)).await;
    let others = subject.post(&other, &messages(LONG_S, 5)).await;

    assert_matches_nothing(subject, &queue, &others).await;
    assert_matches_nothing(subject, &other, &ids).await;
    // These ids have the rank and nonce of existing messages.
    let disguised: Vec<_> = ids.iter().map(|id| same_in(&other, *id)).collect();
    assert_matches_nothing(subject, &queue, &disguised).await;
    assert_matches_nothing(subject, &other, &disguised).await;
}

pub(in crate::conformance) async fn ids_of_another_project_match_nothing(subject: &Subject) {
    let queue = subject.queue("q").await;
    let theirs = queue_id(&fresh_project(), "q");
    subject.create(&theirs).await;
    let ids = subject.post(&queue, &messages(LONG_S, 5)).await;

    assert_matches_nothing(subject, &theirs, &ids).await;
    let disguised: Vec<_> = ids.iter().map(|id| same_in(&theirs, *id)).collect();
    assert_matches_nothing(subject, &theirs, &disguised).await;
    assert_matches_nothing(subject, &queue, &disguised).await;
}

pub(in crate::conformance) async fn ids_of_a_deleted_queue_match_nothing_in_its_successor(subject: &Subject) {
    let queue = subject.queue("q").await;
    let old = subject.post(&queue, &messages(LONG_S, 5)).await;
    subject.delete(&queue).await;
    subject.create(&queue).await;
    subject.post(&queue, &messages(LONG_S, 5)).await;

    assert_matches_nothing(subject, &queue, &old).await;
}

pub(in crate::conformance) async fn every_id_survives_formatting_and_parsing(subject: &Subject) {
    let queue = subject.queue("q").await;
    let other = subject.id("other");
    let ids = subject.post(&queue, &messages(LONG_S, 1_200)).await;

    assert_eq!(subject.pages(&queue, None, 1_000, None).await, ids);
    for id in ids {
        assert_eq!(MessageId::parse(&id.to_string(), &queue), Some(id));
        assert_eq!(MessageId::parse(&id.to_string(), &other), None);
    }
}
