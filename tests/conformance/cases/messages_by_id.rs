//! Messages by their ids: reading, deleting and counting them.

use crate::conformance::support::subject::{LONG_S, Subject, bodies_of, ids_of, messages};

pub(in crate::conformance) async fn messages_are_returned_in_the_requested_order(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 5)).await;

    for order in [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]] {
        let wanted = order.map(|position| ids[position]);

        let got = subject.get_messages(&queue, &wanted).await;

        assert_eq!(ids_of(&got), wanted);
        assert_eq!(
            bodies_of(&got),
            order.map(|number| crate::conformance::support::subject::message(LONG_S, number).body)
        );
    }
}

pub(in crate::conformance) async fn ids_of_missing_messages_are_skipped(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 5)).await;

    subject.delete_messages(&queue, &[ids[1], ids[4]]).await;

    assert_eq!(subject.found(&queue, &ids).await, [ids[0], ids[2], ids[3]]);
    assert_eq!(subject.found(&queue, &[ids[4], ids[3], ids[1]]).await, [ids[3]]);
    assert_eq!(subject.found(&queue, &[ids[1]]).await, []);
}

pub(in crate::conformance) async fn a_list_and_a_get_return_the_same_message(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 20)).await;

    let listed = subject.list(&queue, None, 20).await;
    let got = subject.get_messages(&queue, &ids).await;

    let parts = |read: &[sukkal_domain::Message]| {
        read.iter().map(|message| (message.id, message.ttl_s, message.body.clone())).collect::<Vec<_>>()
    };
    assert_eq!(parts(&listed), parts(&got));
}

pub(in crate::conformance) async fn an_empty_list_of_ids_affects_no_messages(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 2)).await;

    subject.delete_messages(&queue, &[]).await;

    assert_eq!(subject.get_messages(&queue, &[]).await, []);
    assert_eq!(subject.feed(&queue).await, ids);
}

pub(in crate::conformance) async fn deleting_removes_only_the_given_messages(subject: &Subject) {
    let queue = subject.queue("q").await;
    let other = subject.queue("other").await;
    let ids = subject.post(&queue, &messages(LONG_S, 30)).await;
    let others = subject.post(&other, &messages(LONG_S, 3)).await;
    let (deleted, kept): (Vec<_>, Vec<_>) = ids.iter().enumerate().partition(|(number, _)| number % 3 == 0);
    let [deleted, kept] = [deleted, kept].map(|part| part.into_iter().map(|(_, id)| *id).collect::<Vec<_>>());

    subject.delete_messages(&queue, &deleted).await;

    assert_eq!(subject.feed(&queue).await, kept);
    assert_eq!(subject.found(&queue, &ids).await, kept);
    assert_eq!(subject.count(&queue).await, kept.len());
    assert_eq!(subject.feed(&other).await, others);
}

pub(in crate::conformance) async fn deleting_again_has_no_effect(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 4)).await;

    subject.delete_messages(&queue, &[ids[0]]).await;
    subject.delete_messages(&queue, &[ids[0]]).await;
    subject.delete_messages(&queue, &[ids[0], ids[2], ids[2]]).await;

    assert_eq!(subject.feed(&queue).await, [ids[1], ids[3]]);
    assert_eq!(subject.count(&queue).await, 2);
}

pub(in crate::conformance) async fn a_thousand_messages_can_be_read_and_deleted_at_once(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 1_500)).await;

    assert_eq!(subject.found(&queue, &ids[..1_000]).await, ids[..1_000]);
    subject.delete_messages(&queue, &ids[..1_000]).await;

    assert_eq!(subject.found(&queue, &ids[..1_000]).await, []);
    assert_eq!(subject.feed(&queue).await, ids[1_000..]);
    assert_eq!(subject.count(&queue).await, 500);
}

pub(in crate::conformance) async fn the_count_follows_every_change(subject: &Subject) {
    let queue = subject.queue("q").await;
    assert_eq!(subject.count(&queue).await, 0);

    let ids = subject.post(&queue, &messages(LONG_S, 10)).await;
    assert_eq!(subject.count(&queue).await, 10);

    subject.delete_messages(&queue, &ids[..3]).await;
    assert_eq!(subject.count(&queue).await, 7);

    subject.post(&queue, &messages(LONG_S, 5)).await;
    assert_eq!(subject.count(&queue).await, 12);

    subject.delete_messages(&queue, &ids).await;
    assert_eq!(subject.count(&queue).await, 5);
}
