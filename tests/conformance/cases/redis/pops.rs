//! Pops and claims whose outcome the service does not know, because no reply came in time.

use std::time::Duration;

use serde_json::json;
use sukkal_domain::{ClaimId, MessageId, QueueId, Taken};
use sukkal_storage::Popped;

use super::keys::existing_parts;
use crate::conformance::support::drivers::redis;
use crate::conformance::support::subject::{LONG_S, Subject, ids_of, messages};
use support::calls::new_claim;
use support::redis::RedisServer;

const OK: &str = "the store answers";

/// A queue in which each message may be claimed once, with this number of messages.
async fn queue_with(subject: &Subject, count: usize) -> (QueueId, Vec<MessageId>) {
    let queue = subject.queue_of("q", json!({ "_max_claim_count": 1, "_dead_letter_queue": "dead" })).await;
    let ids = subject.post(&queue, &messages(LONG_S, count)).await;
    (queue, ids)
}

async fn pop(subject: &Subject, queue: &QueueId, pop: ClaimId, limit: usize) -> Vec<MessageId> {
    let popped = subject.store().pop_messages(queue, pop, limit).await.expect(OK).messages();
    ids_of(&Popped::messages(popped.unwrap_or_default()))
}

/// Other tests use the same server.
async fn assert_intact(subject: &Subject, queue: &QueueId) {
    let findings = subject.store().check().await.expect(OK).findings;
    let project = queue.project().as_str();
    assert!(!findings.iter().any(|finding| finding.contains(project)), "{findings:?}");
}

#[tokio::test]
async fn a_repeated_pop_returns_the_same_messages() {
    let (server, subject) = (RedisServer::shared_movable(), redis());
    let (queue, ids) = queue_with(&subject, 5).await;
    let (first, second) = (ClaimId::random(), ClaimId::random());

    assert_eq!(pop(&subject, &queue, first, 2).await, ids[..2]);
    assert_eq!(pop(&subject, &queue, second, 9).await, ids[2..]);
    assert_eq!(pop(&subject, &queue, first, 2).await, ids[..2]);
    assert_intact(&subject, &queue).await;

    for id in [first, second, first] {
        subject.store().complete_pop(&queue, id).await.expect(OK);
    }
    assert_eq!(subject.count(&queue).await, 0);
    assert_eq!(existing_parts(&server, &queue), ["queue"]);
}

/// The process that popped them has crashed.
#[tokio::test]
async fn messages_of_a_pop_that_is_not_completed_return_in_order_and_do_not_become_dead_letters() {
    let subject = redis();
    let (queue, ids) = queue_with(&subject, 3).await;

    for _ in 0..2 {
        assert_eq!(pop(&subject, &queue, ClaimId::random(), 2).await, ids[..2]);
        assert_eq!(subject.store().list_claims(&queue, None, 9).await, Ok(Vec::new()));
        subject.advance(&queue, Duration::from_secs(61)).await;
        assert_eq!(subject.feed(&queue).await, ids);
    }

    assert_eq!(ids_of(&subject.pop(&queue, 9).await), ids);
    assert_intact(&subject, &queue).await;
}

#[tokio::test]
async fn a_pop_that_is_withdrawn_returns_its_messages_and_takes_none_later() {
    let (server, subject) = (RedisServer::shared_movable(), redis());
    let (queue, ids) = queue_with(&subject, 3).await;
    let (early, late) = (ClaimId::random(), ClaimId::random());

    assert_eq!(pop(&subject, &queue, early, 2).await, ids[..2]);
    for id in [early, late] {
        subject.store().withdraw_claim(&queue, id).await.expect(OK);
    }
    assert_eq!(subject.feed(&queue).await, ids);
    for id in [early, late] {
        assert_eq!(pop(&subject, &queue, id, 2).await, []);
        subject.store().complete_pop(&queue, id).await.expect(OK);
    }

    assert_eq!(subject.feed(&queue).await, ids);
    assert_intact(&subject, &queue).await;
    subject.advance(&queue, Duration::from_secs(61)).await;
    subject.run_maintenance().await;
    assert_eq!(existing_parts(&server, &queue), ["queue", "messages", "ready", "expirations"]);
}

/// The command that creates a claim may arrive a second time, after the claim has ended.
#[tokio::test]
async fn a_claim_that_has_ended_takes_no_messages_later() {
    let (server, subject) = (RedisServer::shared_movable(), redis());
    let (queue, ids) = queue_with(&subject, 3).await;
    let new = new_claim(2, 300);
    let [early, withdrawn, released] = [(); 3].map(|()| ClaimId::random());
    let create = async |id: ClaimId| subject.store().create_claim(&queue, id, &new).await.expect(OK);

    subject.store().withdraw_claim(&queue, early).await.expect(OK);
    assert!(matches!(create(withdrawn).await, Taken::Messages(_)));
    subject.store().withdraw_claim(&queue, withdrawn).await.expect(OK);
    for id in [early, withdrawn] {
        assert_eq!(create(id).await, Taken::Nothing);
    }
    assert_eq!(subject.feed(&queue).await, ids);
    assert!(matches!(create(released).await, Taken::Messages(_)));
    subject.store().release_claim(&queue, released).await.expect(OK);
    assert_eq!(create(released).await, Taken::Nothing);
    assert_eq!(subject.store().get_claim(&queue, released).await, Ok(None));

    assert_eq!(subject.feed(&queue).await, ids);
    assert_intact(&subject, &queue).await;
    subject.advance(&queue, Duration::from_secs(61)).await;
    subject.run_maintenance().await;
    assert_eq!(existing_parts(&server, &queue), ["queue", "messages", "ready", "expirations"]);
}
