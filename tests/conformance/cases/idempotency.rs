//! Idempotency keys: a repeated post stores its messages once.

use futures::future::join_all;
use sukkal_domain::{ClientId, IdempotencyKey, MessageId, NewMessage, QueueId};
use sukkal_storage::{Post, PostOutcome};

use crate::conformance::support::subject::{LONG_S, Subject, client, messages};
use support::calls::plain_post;

const KEPT_S: u32 = 600;

impl Subject {
    async fn post_once(&self, queue: &QueueId, by: &ClientId, key: &str, batch: &[NewMessage]) -> PostOutcome {
        let content = format!("{} messages", batch.len());
        let once = IdempotencyKey::new(key.as_bytes(), content.as_bytes()).expect("the key is legal");
        let revision = self.revision(queue).await;
        let post = Post { idempotency: Some((&once, KEPT_S)), ..plain_post(revision, by, batch) };
        self.store().post_messages(queue, &post).await.expect("the store answers")
    }

    async fn posted_once(&self, queue: &QueueId, by: &ClientId, key: &str, count: usize) -> Vec<MessageId> {
        match self.post_once(queue, by, key, &messages(LONG_S, count)).await {
            PostOutcome::Posted(ids) => ids,
            other => panic!("not posted: {other:?}"),
        }
    }
}

pub(in crate::conformance) async fn a_repeated_post_returns_the_first_response(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.posted_once(&queue, &client(1), "k", 3).await;
    subject.delete_messages(&queue, &ids[..1]).await;

    assert_eq!(subject.posted_once(&queue, &client(1), "k", 3).await, ids);

    assert_eq!(subject.feed(&queue).await, ids[1..]);
}

pub(in crate::conformance) async fn concurrent_repeated_posts_store_the_messages_once(subject: &Subject) {
    let queue = subject.queue("q").await;
    let posts = (0..40).map(|_| {
        let (subject, queue) = (subject.clone(), queue.clone());
        async move { subject.posted_once(&queue, &client(1), "k", 5).await }
    });

    let answers = join_all(posts).await;

    let feed = subject.feed(&queue).await;
    assert_eq!(feed.len(), 5);
    assert_eq!(answers, vec![feed; 40]);
}

pub(in crate::conformance) async fn a_key_with_other_content_is_rejected(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.posted_once(&queue, &client(1), "k", 3).await;

    let other = subject.post_once(&queue, &client(1), "k", &messages(LONG_S, 4)).await;

    assert_eq!(other, PostOutcome::KeyReused);
    assert_eq!(subject.feed(&queue).await, ids);
}

pub(in crate::conformance) async fn a_key_belongs_to_its_queue_and_client(subject: &Subject) {
    let queues = [subject.queue("q").await, subject.queue("r").await];
    let mut posted = Vec::new();

    for queue in &queues {
        for by in [client(1), client(2)] {
            for key in ["k", "l"] {
                posted.extend(subject.posted_once(queue, &by, key, 1).await);
            }
        }
    }

    let feeds = [subject.feed(&queues[0]).await, subject.feed(&queues[1]).await].concat();
    assert_eq!(feeds, posted);
}

pub(in crate::conformance) async fn deleting_the_queue_deletes_its_keys(subject: &Subject) {
    let queue = subject.queue("q").await;
    let before = subject.posted_once(&queue, &client(1), "k", 3).await;
    subject.delete(&queue).await;
    subject.create(&queue).await;

    let ids = subject.posted_once(&queue, &client(1), "k", 3).await;

    assert!(ids.iter().all(|id| !before.contains(id)));
    assert_eq!(subject.feed(&queue).await, ids);
}

pub(in crate::conformance) async fn a_post_that_stored_nothing_is_not_remembered(subject: &Subject) {
    let queue = subject.queue("q").await;
    let stale = subject.revision(&queue).await;
    subject.delete(&queue).await;
    subject.create(&queue).await;
    let once = IdempotencyKey::new(b"k", b"3 messages").expect("the key is legal");
    let (by, batch) = (client(1), messages(LONG_S, 3));
    let post = Post { idempotency: Some((&once, KEPT_S)), ..plain_post(stale, &by, &batch) };
    let posting = subject.store().post_messages(&queue, &post).await;
    assert!(matches!(posting, Ok(PostOutcome::Stale(Some(_)))), "{posting:?}");

    let ids = subject.posted_once(&queue, &by, "k", 3).await;

    assert_eq!(subject.feed(&queue).await, ids);
}
