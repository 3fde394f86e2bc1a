//! Sealed bodies are found wherever a queue keeps them, and can be replaced.

use std::collections::BTreeSet;

use sukkal_domain::{Body, Message, NewMessage, QueueId};
use sukkal_storage::{SealedReplacement, StoredBody};

use super::delivery_helpers::{delivered, retry};
use crate::conformance::support::subject::{LONG_S, Subject, ids_of, message};

const OK: &str = "the store answers";
const CONTENT_BYTES: usize = 40;

fn sealed(content: u8, bytes: usize) -> Body {
    Body::sealed(&vec![content; bytes]).expect("it is short")
}

fn sealed_message(bytes: usize) -> NewMessage {
    NewMessage { body: sealed(1, bytes), ..message(LONG_S, 0) }
}

impl Subject {
    /// Returns all sealed bodies of a queue.
    pub(in crate::conformance) async fn sealed_bodies(&self, queue: &QueueId) -> Vec<StoredBody> {
        let (mut found, mut position) = (Vec::new(), None);
        loop {
            let page = self.store().list_sealed(queue, position.as_ref()).await.expect(OK);
            found.extend(page.bodies);
            position = page.next;
            if position.is_none() {
                return found;
            }
        }
    }

    /// Replaces these bodies. Returns the number of those that were replaced.
    pub(in crate::conformance) async fn replace_sealed(&self, queue: &QueueId, stored: &[StoredBody]) -> u64 {
        let replacements: Vec<_> = stored.iter().map(replacement).collect();
        self.store().replace_sealed(queue, &replacements).await.expect(OK)
    }
}

fn replacement(stored: &StoredBody) -> SealedReplacement {
    let bytes = stored.body().as_sealed().expect("it is sealed").len();
    assert!(stored.clone().replaced_by(&sealed(2, bytes + 1)).is_none(), "another length is refused");
    stored.clone().replaced_by(&sealed(2, bytes)).expect("it has the same length")
}

pub(in crate::conformance) async fn sealed_bodies_are_found_and_replaced_wherever_they_are(subject: &Subject) {
    let queue = subject.queue("q").await;
    let delayed = NewMessage { delay_s: 600, ..sealed_message(CONTENT_BYTES) };
    let posted = [sealed_message(CONTENT_BYTES), message(LONG_S, 0), sealed_message(CONTENT_BYTES), delayed];
    let ids = subject.post(&queue, &posted).await;
    let before = subject.get_messages(&queue, &ids).await;
    let claim = subject.claim(&queue, 1, 100).await;
    assert_eq!(ids_of(&claim.messages), ids[..1]);
    let subscription = subject.subscribe(&queue, "http://a").await;
    let (fence, state) = subject.lease(&queue, 1).await;
    let mut change = delivered(subscription, 0);
    change.new_retries = vec![retry(&before[2], state.now_us + 1_000_000)];
    assert!(subject.save(&queue, fence, &[change]).await.is_some());

    let found = subject.sealed_bodies(&queue).await;
    let subjects: BTreeSet<String> = found.iter().map(|stored| stored.subject(&queue)).collect();
    let message_of = |index: usize| format!("message {}", ids[index]);
    let expected = [message_of(0), message_of(2), message_of(3), format!("the retry of {}", message_of(2))];
    assert_eq!(subjects, BTreeSet::from(expected));
    assert!(found.iter().all(|stored| stored.body() == sealed(1, CONTENT_BYTES)));

    assert_eq!(subject.replace_sealed(&queue, &found).await, 4);

    let new = |message: &Message| match message.body.as_sealed() {
        Some(_) => sealed(2, CONTENT_BYTES),
        None => message.body.clone(),
    };
    let after = subject.get_messages(&queue, &ids).await;
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(after.body, new(before));
        assert_eq!((after.id, after.ttl_s, after.created_s), (before.id, before.ttl_s, before.created_s));
    }
    assert_eq!(subject.retries(&queue, subscription).await[0].message.body, sealed(2, CONTENT_BYTES));
    assert_eq!(subject.held_by(&queue, claim.id).await.as_deref(), Some(&ids[..1]));
    assert!(subject.sealed_bodies(&queue).await.iter().all(|stored| stored.body() == sealed(2, CONTENT_BYTES)));
}

pub(in crate::conformance) async fn a_body_that_was_removed_or_changed_is_not_replaced(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &[sealed_message(CONTENT_BYTES), sealed_message(CONTENT_BYTES)]).await;
    let found = subject.sealed_bodies(&queue).await;

    subject.delete_messages(&queue, &ids[..1]).await;

    assert_eq!(subject.replace_sealed(&queue, &found).await, 1);
    assert_eq!(subject.feed(&queue).await, ids[1..]);
    assert_eq!(subject.replace_sealed(&queue, &found).await, 0, "it is not the same any more");
    subject.delete(&queue).await;
    assert_eq!(subject.replace_sealed(&queue, &found).await, 0);
    assert_eq!(subject.sealed_bodies(&queue).await, []);
}

pub(in crate::conformance) async fn a_walk_over_sealed_bodies_is_complete(subject: &Subject) {
    let queue = subject.queue("q").await;
    for _ in 0..2 {
        subject.post(&queue, &vec![sealed_message(CONTENT_BYTES); 130]).await;
        let delayed = NewMessage { delay_s: 600, ..sealed_message(CONTENT_BYTES) };
        subject.post(&queue, &vec![delayed; 130]).await;
        // Several of them are too large for one step.
        subject.post(&queue, &vec![sealed_message(200_000); 5]).await;
    }
    subject.claim(&queue, 140, 100).await;

    let found = subject.sealed_bodies(&queue).await;

    let subjects: BTreeSet<String> = found.iter().map(|stored| stored.subject(&queue)).collect();
    assert_eq!((found.len(), subjects.len()), (530, 530));
    assert_eq!(subject.replace_sealed(&queue, &found).await, 530);
}
