//! The messages that a process has processed: each counts for what has happened to it.

use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use sukkal_domain::IdempotencyKey;
use sukkal_storage::{Post, PostOutcome, Processed};

use super::redrives::all_to;
use crate::conformance::support::subject::{LONG_S, Subject, client, messages};
use support::calls::plain_post;

const NONE: Processed = Processed { posted: 0, claimed: 0, deleted: 0, expired: 0, dead_lettered: 0 };

pub(in crate::conformance) async fn posted_claimed_and_deleted_messages_are_counted(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 9)).await;
    assert_eq!(subject.store().processed(), Processed { posted: 9, ..NONE });

    let claim = subject.claim(&queue, 3, 60).await;
    subject.store().delete_message(&queue, ids[0], Some(claim.id)).await.unwrap();
    subject.release(&queue, claim.id).await;
    assert_eq!(subject.store().processed(), Processed { posted: 9, claimed: 3, deleted: 1, ..NONE });

    subject.pop(&queue, 2).await;
    assert_eq!(subject.store().processed(), Processed { posted: 9, claimed: 5, deleted: 3, ..NONE });
    subject.delete_messages(&queue, &ids[1..5]).await;
    let claim = subject.claim(&queue, 1, 60).await;
    subject.store().delete_claimed(&queue, &ids[5..6], &[claim.id]).await.unwrap();
    assert_eq!(subject.store().processed(), Processed { posted: 9, claimed: 6, deleted: 6, ..NONE });
}

pub(in crate::conformance) async fn only_what_has_happened_is_counted(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 4)).await;
    subject.delete_messages(&queue, &ids[..1]).await;
    let claim = subject.claim(&queue, 1, 60).await;
    let before = subject.store().processed();
    assert_eq!(before, Processed { posted: 4, claimed: 1, deleted: 1, ..NONE });

    // A deletion that is repeated, one that is refused, and claims and pops without messages.
    subject.delete_messages(&queue, &ids[..1]).await;
    subject.store().delete_message(&queue, ids[0], None).await.unwrap();
    subject.store().delete_message(&queue, ids[1], None).await.unwrap();
    subject.store().delete_claimed(&queue, &ids[1..3], &[claim.id]).await.unwrap();
    subject.pop(&subject.id("empty"), 1).await;
    subject.store().purge_queue(&queue).await.unwrap();
    subject.delete(&queue).await;

    assert_eq!(subject.store().processed(), before);
}

pub(in crate::conformance) async fn a_post_that_is_repeated_counts_once(subject: &Subject) {
    let queue = subject.queue("q").await;
    let key = IdempotencyKey::new(b"k", b"three messages").expect("the key is legal");
    let (seen, by, batch) = (subject.revision(&queue).await, client(1), messages(LONG_S, 3));
    let post = Post { idempotency: Some((&key, 600)), ..plain_post(seen, &by, &batch) };

    let outcomes = join_all((0..20).map(|_| subject.store().post_messages(&queue, &post))).await;
    let again = subject.store().post_messages(&queue, &post).await;

    assert!(outcomes.iter().all(|outcome| *outcome == again && matches!(outcome, Ok(PostOutcome::Posted(_)))));
    assert_eq!(subject.store().processed(), Processed { posted: 3, ..NONE });
}

pub(in crate::conformance) async fn expired_messages_are_counted(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(60, 700)).await;
    subject.post(&queue, &messages(LONG_S, 1)).await;

    subject.advance(&queue, Duration::from_secs(100)).await;
    assert_eq!(subject.count(&queue).await, 1);

    assert_eq!(subject.store().processed(), Processed { posted: 701, expired: 700, ..NONE });
}

pub(in crate::conformance) async fn dead_letters_are_counted(subject: &Subject) {
    let letters = subject.id("letters");
    let queue = subject.queue_of("q", json!({"_max_claim_count": 1, "_dead_letter_queue": "letters"})).await;
    subject.post_delivered(&queue, &messages(LONG_S, 3)).await;

    assert_eq!(subject.claim_for(&queue, 3, 60, 60).await, None);

    assert_eq!(subject.count(&letters).await, 3);
    assert_eq!(subject.store().processed(), Processed { posted: 3, claimed: 3, dead_lettered: 3, ..NONE });
}

pub(in crate::conformance) async fn messages_of_a_redrive_are_not_counted(subject: &Subject) {
    let (_source, ids) = subject.dead_letters_from("q", &messages(LONG_S, 3)).await;
    let other = subject.queue("other").await;
    let before = subject.store().processed();
    assert_eq!(before, Processed { posted: 3, claimed: 3, dead_lettered: 3, ..NONE });

    subject.redrive(&subject.id("dead"), &all_to(&other)).await;

    assert_eq!(subject.count(&other).await, ids.len());
    assert_eq!(subject.store().processed(), before);
}
