//! Messages by their ids: got, deleted, counted.

use super::subject::{LONG_S, Subject, bodies_of, ids_of, messages};

pub(super) async fn messages_are_got_in_the_order_asked_for(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 5)).await;

    for order in [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]] {
        let wanted = order.map(|position| ids[position]);

        let got = subject.get_messages(&queue, &wanted).await;

        assert_eq!(ids_of(&got), wanted);
        assert_eq!(bodies_of(&got), order.map(|number| super::subject::message(LONG_S, number).body));
    }
}

pub(super) async fn what_is_not_there_is_passed_over(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 5)).await;

    subject.delete_messages(&queue, &[ids[1], ids[4]]).await;

    assert_eq!(subject.found(&queue, &ids).await, [ids[0], ids[2], ids[3]]);
    assert_eq!(subject.found(&queue, &[ids[4], ids[3], ids[1]]).await, [ids[3]]);
    assert_eq!(subject.found(&queue, &[ids[1]]).await, []);
}

pub(super) async fn a_message_is_the_same_listed_and_got(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 20)).await;

    let listed = subject.list(&queue, None, 20).await;
    let got = subject.get_messages(&queue, &ids).await;

    let parts = |read: &[sukkal::domain::Message]| {
        read.iter().map(|message| (message.id, message.ttl_s, message.body.clone())).collect::<Vec<_>>()
    };
    assert_eq!(parts(&listed), parts(&got));
}

pub(super) async fn no_ids_are_no_messages(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 2)).await;

    subject.delete_messages(&queue, &[]).await;

    assert_eq!(subject.get_messages(&queue, &[]).await, []);
    assert_eq!(subject.feed(&queue).await, ids);
}

pub(super) async fn deleting_takes_what_is_named_and_nothing_else(subject: &Subject) {
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

pub(super) async fn deleting_twice_is_like_deleting_once(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 4)).await;

    subject.delete_messages(&queue, &[ids[0]]).await;
    subject.delete_messages(&queue, &[ids[0]]).await;
    subject.delete_messages(&queue, &[ids[0], ids[2], ids[2]]).await;

    assert_eq!(subject.feed(&queue).await, [ids[1], ids[3]]);
    assert_eq!(subject.count(&queue).await, 2);
}

pub(super) async fn a_thousand_are_got_and_deleted_at_once(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 1_500)).await;

    assert_eq!(subject.found(&queue, &ids[..1_000]).await, ids[..1_000]);
    subject.delete_messages(&queue, &ids[..1_000]).await;

    assert_eq!(subject.found(&queue, &ids[..1_000]).await, []);
    assert_eq!(subject.feed(&queue).await, ids[1_000..]);
    assert_eq!(subject.count(&queue).await, 500);
}

pub(super) async fn a_count_follows_every_change(subject: &Subject) {
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
