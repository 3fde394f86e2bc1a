//! Concurrent posts, which a store may execute together: each has its own outcome.

use futures::future::join_all;
use sukkal_domain::{IdempotencyKey, MessageId, NewMessage, QueueId, Revision};
use sukkal_storage::{Error, Post, PostOutcome};

use crate::conformance::support::subject::{LONG_S, Subject, assert_ascending, bodies_of, client, message, messages};
use support::calls::plain_post;

const ROUNDS: usize = 40;

/// A request of one client, with its expected outcome.
struct Request {
    queue: QueueId,
    last_known_revision: Revision,
    idempotency: Option<IdempotencyKey>,
    messages: Vec<NewMessage>,
}

impl Subject {
    async fn post_at_once(&self, requests: &[Request]) -> Vec<Result<PostOutcome, Error>> {
        let by = client(1);
        let posts = requests.iter().map(|request| {
            let idempotency = request.idempotency.as_ref().map(|idempotency| (idempotency, 600));
            let plain = plain_post(request.last_known_revision, &by, &request.messages);
            let post = Post { idempotency, ..plain };
            async move { self.store().post_messages(&request.queue, &post).await }
        });
        join_all(posts).await
    }

    async fn request(&self, queue: &QueueId, messages: Vec<NewMessage>) -> Request {
        Request { queue: queue.clone(), last_known_revision: self.revision(queue).await, idempotency: None, messages }
    }
}

fn posted(outcome: &Result<PostOutcome, Error>) -> &[MessageId] {
    match outcome {
        Ok(PostOutcome::Posted(ids)) => ids,
        other => panic!("not posted: {other:?}"),
    }
}

fn once(key: &str, content: &str) -> IdempotencyKey {
    IdempotencyKey::new(key.as_bytes(), content.as_bytes()).expect("the key is legal")
}

pub(in crate::conformance) async fn each_request_gets_the_ids_of_its_own_messages(subject: &Subject) {
    let queues = [subject.queue("a").await, subject.queue("b").await, subject.queue("c").await];
    let mut requests = Vec::new();
    for round in 0..ROUNDS {
        for queue in &queues {
            let batch = (0..=round % 4).map(|number| message(LONG_S, round * 10 + number)).collect();
            requests.push(subject.request(queue, batch).await);
        }
    }

    let outcomes = subject.post_at_once(&requests).await;

    for (request, outcome) in requests.iter().zip(&outcomes) {
        let ids = posted(outcome);
        assert_ascending(ids);
        let found = subject.get_messages(&request.queue, ids).await;
        let sent: Vec<_> = request.messages.iter().map(|message| message.body.clone()).collect();
        assert_eq!(bodies_of(&found), sent);
        let feed = subject.feed(&request.queue).await;
        let at = feed.iter().position(|id| id == &ids[0]).expect("it is in the feed");
        assert_eq!(feed[at..at + ids.len()], *ids, "the messages of one request are not consecutive");
    }
    for queue in &queues {
        let sent: usize = requests.iter().filter(|it| it.queue == *queue).map(|it| it.messages.len()).sum();
        assert_eq!(subject.count(queue).await, sent);
    }
}

pub(in crate::conformance) async fn a_rejected_post_does_not_affect_the_others(subject: &Subject) {
    let (queue, other) = (subject.queue("a").await, subject.queue("b").await);
    let missing = subject.id("missing");
    let revision = subject.revision(&queue).await;
    let mut first = subject.request(&queue, messages(LONG_S, 1)).await;
    first.idempotency = Some(once("used", "first"));
    subject.post_at_once(&[first]).await;
    let mut requests = Vec::new();
    for _ in 0..ROUNDS {
        requests.push(subject.request(&queue, messages(LONG_S, 2)).await);
        requests.push(Request {
            last_known_revision: Revision(revision.0 - 1),
            ..subject.request(&queue, messages(LONG_S, 1)).await
        });
        requests.push(Request { queue: missing.clone(), ..subject.request(&queue, messages(LONG_S, 1)).await });
        requests.push(Request {
            idempotency: Some(once("used", "second")),
            ..subject.request(&queue, messages(LONG_S, 1)).await
        });
        requests.push(subject.request(&other, messages(LONG_S, 3)).await);
    }

    let outcomes = subject.post_at_once(&requests).await;

    for outcomes in outcomes.chunks(5) {
        assert_eq!(posted(&outcomes[0]).len(), 2);
        let Ok(PostOutcome::Stale(Some(current))) = &outcomes[1] else { panic!("{:?}", outcomes[1]) };
        assert_eq!(current.revision, revision);
        assert_eq!(outcomes[2], Ok(PostOutcome::Stale(None)));
        assert_eq!(outcomes[3], Ok(PostOutcome::KeyReused));
        assert_eq!(posted(&outcomes[4]).len(), 3);
    }
    assert_eq!(subject.count(&queue).await, 1 + 2 * ROUNDS);
    assert_eq!(subject.count(&other).await, 3 * ROUNDS);
    assert_eq!(subject.get(&missing).await, None);
}

pub(in crate::conformance) async fn one_idempotency_key_stores_one_post_and_detects_other_content(subject: &Subject) {
    let queue = subject.queue("a").await;
    let mut requests = Vec::new();
    for round in 0..ROUNDS {
        let content = if round % 2 == 0 { "even" } else { "odd" };
        requests.push(Request {
            idempotency: Some(once("key", content)),
            ..subject.request(&queue, messages(LONG_S, 2)).await
        });
    }

    let outcomes = subject.post_at_once(&requests).await;

    let feed = subject.feed(&queue).await;
    assert_eq!(feed.len(), 2);
    let (even, odd): (Vec<_>, Vec<_>) = outcomes.chunks(2).map(|pair| (&pair[0], &pair[1])).unzip();
    let (first, second) = if matches!(even[0], Ok(PostOutcome::Posted(_))) { (even, odd) } else { (odd, even) };
    assert!(first.into_iter().all(|outcome| posted(outcome) == feed));
    assert!(second.into_iter().all(|outcome| outcome == &Ok(PostOutcome::KeyReused)));
}
