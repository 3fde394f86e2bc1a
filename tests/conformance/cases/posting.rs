//! Posting: atomic, in order, after all other messages, and with unchanged content.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use sukkal_domain::{NewMessage, Revision};
use sukkal_storage::{PostOutcome, UpdateOutcome};

use crate::conformance::support::subject::{
    LONG_S, Subject, assert_ascending, bodies_of, body, client, ids_of, message, messages, metadata, ranks_of,
};

pub(in crate::conformance) async fn a_post_is_stored_in_the_order_given(subject: &Subject) {
    let queue = subject.queue("q").await;
    let batches = [messages(LONG_S, 1), messages(LONG_S, 3), messages(LONG_S, 40)];

    let mut posted = Vec::new();
    for batch in &batches {
        posted.extend(subject.post(&queue, batch).await);
    }

    let read = subject.list(&queue, None, 100).await;
    assert_eq!(ids_of(&read), posted);
    let bodies: Vec<_> = batches.concat().into_iter().map(|message| message.body).collect();
    assert_eq!(bodies_of(&read), bodies);
    assert_ascending(&posted);
}

pub(in crate::conformance) async fn the_messages_of_a_post_have_consecutive_ranks(subject: &Subject) {
    let queue = subject.queue("q").await;

    for size in [1, 2, 999, 1_000, 1_001, 2_000] {
        let ids = subject.post(&queue, &messages(LONG_S, size)).await;

        let ranks = ranks_of(&ids);
        assert_eq!(ranks.len(), size);
        assert!(ranks.windows(2).all(|pair| pair[1] == pair[0] + 1), "of {size}: {ranks:?}");
    }
}

/// Row 6.1-26.
pub(in crate::conformance) async fn concurrent_posts_do_not_interleave(subject: &Subject) {
    let queue = subject.queue("q").await;

    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (subject, queue) = (subject.clone(), queue.clone());
            tokio::spawn(async move {
                let mut posts = Vec::new();
                for size in 1..=20 {
                    posts.push(subject.post(&queue, &messages(LONG_S, size)).await);
                }
                posts
            })
        })
        .collect();
    let mut posts = Vec::new();
    for task in tasks {
        let own = task.await.expect("no post fails");
        assert_ascending(&own.concat());
        posts.extend(own);
    }

    posts.sort_unstable();
    assert_eq!(subject.feed(&queue).await, posts.concat());
}

pub(in crate::conformance) async fn a_post_to_a_missing_queue_stores_nothing(subject: &Subject) {
    let queue = subject.queue("q").await;
    let revision = subject.revision(&queue).await;
    subject.delete(&queue).await;

    for queue in [queue, subject.id("never")] {
        let posting = subject.try_post(&queue, revision, &client(0), &messages(LONG_S, 3)).await;

        assert_eq!(posting, Ok(PostOutcome::Stale(None)));
        assert_eq!(subject.get(&queue).await, None);
        subject.create(&queue).await;
        assert_eq!(subject.feed(&queue).await, []);
        assert_eq!(subject.count(&queue).await, 0);
    }
}

pub(in crate::conformance) async fn a_post_to_a_changed_queue_stores_nothing_and_returns_the_queue(subject: &Subject) {
    let queue = subject.queue("q").await;
    let revision = subject.revision(&queue).await;
    let update = subject.store().update_queue(&queue, revision, &metadata(json!({"a": [1, "ü"]}))).await;
    assert_eq!(update, Ok(UpdateOutcome::Done));
    let now = subject.get(&queue).await;

    for stale in [revision, Revision(0), Revision(u64::MAX)] {
        for size in [1, 5_000] {
            let posting = subject.try_post(&queue, stale, &client(0), &messages(LONG_S, size)).await;

            assert_eq!(posting, Ok(PostOutcome::Stale(now.clone())));
            assert_eq!(subject.count(&queue).await, 0);
        }
    }
}

pub(in crate::conformance) async fn a_large_post_becomes_visible_atomically(subject: &Subject) {
    const SIZE: usize = 5_000;
    let queue = subject.queue("q").await;
    let done = AtomicBool::new(false);

    let post = async {
        for _ in 0..4 {
            subject.post(&queue, &messages(LONG_S, SIZE)).await;
        }
        done.store(true, Ordering::Relaxed);
    };
    let read = async {
        let mut reads = 0;
        while !done.load(Ordering::Relaxed) {
            let count = subject.count(&queue).await;
            assert_eq!(count % SIZE, 0, "part of a post is visible");
            reads += 1;
        }
        reads
    };
    let ((), reads) = tokio::join!(post, read);

    assert!(reads > 0);
    assert_eq!(subject.count(&queue).await, 4 * SIZE);
}

pub(in crate::conformance) async fn any_json_body_is_returned_unchanged(subject: &Subject) {
    let queue = subject.queue("q").await;
    let mut deep = json!("bottom");
    for _ in 0..100 {
        deep = json!([deep]);
    }
    let values = [
        Value::Null,
        json!(false),
        json!(0),
        json!(-1),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(0.1),
        json!(-0.0),
        json!(1e308),
        json!(""),
        json!("a\0b\r\n\u{7f}"),
        json!("Ünïcödé 😀 مرحبا"),
        json!([]),
        json!({}),
        json!({"z": {"": [null, {}]}, "a": 1}),
        json!("x".repeat(200_000)),
        json!((0..20_000).collect::<Vec<_>>()),
        deep,
    ];
    let posted: Vec<_> = values
        .iter()
        .map(|value| NewMessage { ttl_s: LONG_S, delay_s: 0, body: body(value), assignment: None })
        .collect();

    let ids = subject.post(&queue, &posted).await;

    let listed = subject.list(&queue, None, values.len()).await;
    let got = subject.get_messages(&queue, &ids).await;
    for read in [listed, got] {
        let bodies: Vec<Value> = read
            .iter()
            .map(|message| rmp_serde::from_slice(message.body.as_msgpack()).expect("it is MessagePack"))
            .collect();
        assert_eq!(bodies, values);
        let bytes: Vec<_> = posted.iter().map(|message| message.body.clone()).collect();
        assert_eq!(bodies_of(&read), bytes);
    }
}

pub(in crate::conformance) async fn every_message_keeps_its_own_ttl(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ttls = [60, 1_209_600, 61, 60, u32::MAX, 3_600];
    let posted: Vec<_> = ttls.iter().enumerate().map(|(number, ttl_s)| message(*ttl_s, number)).collect();

    let ids = subject.post(&queue, &posted).await;

    let read = subject.list(&queue, None, ttls.len()).await;
    assert_eq!(ids_of(&read), ids);
    assert_eq!(read.iter().map(|message| message.ttl_s).collect::<Vec<_>>(), ttls);
}
