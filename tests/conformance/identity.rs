//! An id opens its own message and nothing else: not another one's at its place, not another queue's.

use sukkal::domain::message::Nonce;
use sukkal::domain::{MessageId, QueueId, Rank};

use super::subject::{LONG_S, Subject, fresh_project, messages, queue_id};

/// The id that `queue` would have given at that rank with that nonce.
fn same_in(queue: &QueueId, id: MessageId) -> MessageId {
    MessageId::new(queue, id.rank(), id.nonce())
}

async fn opens_nothing(subject: &Subject, queue: &QueueId, ids: &[MessageId]) {
    let before = subject.feed(queue).await;

    let found = subject.found(queue, ids).await;
    subject.delete_messages(queue, ids).await;

    assert_eq!(found, [], "found in {queue}");
    assert_eq!(subject.feed(queue).await, before, "deleted from {queue}");
    assert_eq!(subject.count(queue).await, before.len());
}

pub(super) async fn an_id_with_the_right_rank_and_another_nonce_is_nobodys(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 5)).await;

    for flipped in [1, 1 << 20, 1 << 37] {
        let other = |id: &MessageId| MessageId::new(&queue, id.rank(), Nonce::from_bits(id.nonce().bits() ^ flipped));

        opens_nothing(subject, &queue, &ids.iter().map(other).collect::<Vec<_>>()).await;
    }
}

pub(super) async fn an_id_between_and_beyond_the_messages_is_nobodys(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 5)).await;
    let at = |micros: u64| MessageId::new(&queue, Rank::new(micros).expect("it is in range"), ids[0].nonce());
    let (first, last) = (ids[0].rank().micros(), ids[4].rank().micros());

    opens_nothing(subject, &queue, &[at(0), at(first - 1), at(first + 1), at(last + 1), at(Rank::MAX.micros())]).await;
}

pub(super) async fn ids_of_another_queue_open_nothing(subject: &Subject) {
    let queue = subject.queue("q").await;
    let other = subject.queue("other").await;
    let ids = subject.post(&queue, &messages(LONG_S, 5)).await;
    let others = subject.post(&other, &messages(LONG_S, 5)).await;

    opens_nothing(subject, &queue, &others).await;
    opens_nothing(subject, &other, &ids).await;
    // Of the same rank and nonce as a message that is there.
    let disguised: Vec<_> = ids.iter().map(|id| same_in(&other, *id)).collect();
    opens_nothing(subject, &queue, &disguised).await;
    opens_nothing(subject, &other, &disguised).await;
}

pub(super) async fn ids_of_another_project_open_nothing(subject: &Subject) {
    let queue = subject.queue("q").await;
    let theirs = queue_id(&fresh_project(), "q");
    subject.create(&theirs).await;
    let ids = subject.post(&queue, &messages(LONG_S, 5)).await;

    opens_nothing(subject, &theirs, &ids).await;
    let disguised: Vec<_> = ids.iter().map(|id| same_in(&theirs, *id)).collect();
    opens_nothing(subject, &theirs, &disguised).await;
    opens_nothing(subject, &queue, &disguised).await;
}

pub(super) async fn ids_of_an_earlier_queue_of_that_name_open_nothing(subject: &Subject) {
    let queue = subject.queue("q").await;
    let old = subject.post(&queue, &messages(LONG_S, 5)).await;
    subject.delete(&queue).await;
    subject.create(&queue).await;
    subject.post(&queue, &messages(LONG_S, 5)).await;

    opens_nothing(subject, &queue, &old).await;
}

pub(super) async fn every_id_is_spelt_and_parsed_as_the_queues_own(subject: &Subject) {
    let queue = subject.queue("q").await;
    let other = subject.id("other");
    let ids = subject.post(&queue, &messages(LONG_S, 1_200)).await;

    assert_eq!(subject.pages(&queue, None, 1_000, None).await, ids);
    for id in ids {
        assert_eq!(MessageId::parse(&id.to_string(), &queue), Some(id));
        assert_eq!(MessageId::parse(&id.to_string(), &other), None);
    }
}
