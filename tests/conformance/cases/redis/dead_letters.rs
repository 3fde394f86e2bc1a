//! Dead letters over Redis: states that only a crash between two steps produces.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use sukkal_domain::{Body, MessageId, NewMessage, QueueId, Redrive, Selection, TaskId, TaskState};
use sukkal_storage::{LeaseFence, RedriveStep};
use uuid::Uuid;

use super::keys::{existing_parts, key};
use crate::conformance::cases::redrives::{all_to, progress};
use crate::conformance::support::drivers::{redis, redis_at};
use crate::conformance::support::subject::{LONG_S, Subject, bodies_of, ids_of, message, messages, metadata};
use support::redis::RedisServer;

/// Creates a queue that delivers each message once, with `count` messages that have been delivered.
async fn queue_of_delivered(subject: &Subject, count: usize) -> (QueueId, Vec<MessageId>) {
    let queue = subject.id("q");
    let keys = metadata(json!({"_max_claim_count": 1, "_dead_letter_queue": "letters"}));
    subject.store().create_queue(&queue, &keys).await.unwrap();
    let ids = subject.post_delivered(&queue, &messages(LONG_S, count)).await;
    (queue, ids)
}

/// Returns the original ids of the dead letters that have arrived.
async fn arrived_origins(subject: &Subject) -> Vec<MessageId> {
    let dead_letters = subject.list(&subject.id("letters"), None, 1_000).await;
    dead_letters.into_iter().map(|dead_letter| dead_letter.origin.unwrap().id).collect()
}

/// Puts a key of the wrong type where arrivals are recorded, so that dead letters cannot arrive.
/// Keeps the old key aside.
fn block_arrivals(server: &RedisServer, subject: &Subject) {
    let noted = key(&subject.id("letters"), "received");
    server.command(&["RENAMENX", &noted, &format!("{noted}:aside")]);
    server.command(&["LPUSH", &noted, "in the way"]);
}

fn unblock_arrivals(server: &RedisServer, subject: &Subject) {
    let noted = key(&subject.id("letters"), "received");
    server.command(&["DEL", &noted]);
    server.command(&["RENAME", &format!("{noted}:aside"), &noted]);
}

#[tokio::test]
async fn sealed_bodies_of_dead_letters_on_their_way_are_replaced() {
    let (server, subject) = (RedisServer::shared_movable(), redis());
    let (queue, _) = queue_of_delivered(&subject, 1).await;
    subject.pop(&queue, 1).await;
    let sealed = |content: u8| Body::sealed(&[content; 40]).unwrap();
    let posted: Vec<_> = (0..10).map(|number| NewMessage { body: sealed(number), ..message(LONG_S, 0) }).collect();
    subject.post_delivered(&queue, &posted).await;
    block_arrivals(&server, &subject);
    subject.pop(&queue, 10).await;
    assert_eq!(server.command(&["LLEN", &key(&queue, "outbox")]).as_int(), 10);

    let found = subject.sealed_bodies(&queue).await;
    // One of them leaves the outbox in the meantime.
    server.command(&["LPOP", &key(&queue, "outbox")]);
    let replacements: Vec<_> = found.iter().map(|stored| stored.clone().replaced_by(&sealed(77)).unwrap()).collect();
    assert_eq!(found.len(), 10);
    assert_eq!(subject.store().replace_sealed(&queue, &replacements).await, Ok(9));

    unblock_arrivals(&server, &subject);
    subject.run_maintenance().await;
    let arrived = subject.list(&subject.id("letters"), None, 1_000).await;
    assert_eq!(bodies_of(&arrived)[1..], vec![sealed(77); 9]);
}

#[tokio::test]
async fn dead_letters_forwarded_twice_arrive_once() {
    let (server, subject) = (RedisServer::shared_movable(), redis());
    let (queue, mut ids) = queue_of_delivered(&subject, 1).await;
    subject.pop(&queue, 1).await;
    block_arrivals(&server, &subject);
    ids.extend(subject.post_delivered(&queue, &messages(LONG_S, 25)).await);
    subject.pop(&queue, 25).await;
    let outbox = key(&queue, "outbox");
    let kept = format!("{outbox}:kept");
    assert_eq!(server.command(&["LLEN", &outbox]).as_int(), 25);
    server.command(&["COPY", &outbox, &kept]);
    unblock_arrivals(&server, &subject);
    subject.run_maintenance().await;
    assert_eq!(arrived_origins(&subject).await, ids);

    // The state after a forwarder has crashed before it removed delivered dead letters, and more
    // have been added.
    block_arrivals(&server, &subject);
    ids.extend(subject.post_delivered(&queue, &messages(LONG_S, 5)).await);
    subject.pop(&queue, 5).await;
    unblock_arrivals(&server, &subject);
    assert_eq!(server.command(&["LLEN", &outbox]).as_int(), 5);
    for _ in 0..5 {
        server.command(&["LMOVE", &outbox, &kept, "LEFT", "RIGHT"]);
    }
    server.command(&["RENAME", &kept, &outbox]);
    subject.run_maintenance().await;

    assert_eq!(arrived_origins(&subject).await, ids);
    assert!(!existing_parts(&server, &queue).contains(&"outbox"));
}

#[tokio::test]
async fn undelivered_dead_letters_do_not_block_claims_and_arrive_later() {
    let (server, subject) = (RedisServer::shared_movable(), redis());
    let (queue, mut ids) = queue_of_delivered(&subject, 1).await;
    subject.pop(&queue, 1).await;
    block_arrivals(&server, &subject);

    ids.extend(subject.post_delivered(&queue, &messages(LONG_S, 1)).await);
    assert_eq!(subject.pop(&queue, 1).await, []);
    ids.extend(subject.post_delivered(&queue, &messages(LONG_S, 1)).await);
    assert_eq!(subject.claim_for(&queue, 1, 60, 60).await, None);
    unblock_arrivals(&server, &subject);
    ids.extend(subject.post_delivered(&queue, &messages(LONG_S, 1)).await);
    subject.claim_for(&queue, 1, 60, 60).await;

    assert_eq!(arrived_origins(&subject).await, ids);
}

/// Returns how often a script failed because of a key of the wrong type, which is how dead letters
/// fail to arrive here.
fn failed_scripts(server: &RedisServer) -> u64 {
    let stats = server.command(&["INFO", "errorstats"]).as_text().to_owned();
    let count = stats.lines().find_map(|line| line.strip_prefix("errorstat_WRONGTYPE:count="));
    count.map_or(0, |count| count.trim().parse().expect("it is a number"))
}

#[tokio::test]
async fn dead_letters_that_cannot_arrive_are_tried_once_per_visit() {
    let server = Arc::new(RedisServer::start());
    let subject = redis_at(server.clone());
    let (queue, _) = queue_of_delivered(&subject, 1).await;
    subject.pop(&queue, 1).await;
    block_arrivals(&server, &subject);
    subject.post_delivered(&queue, &messages(LONG_S, 1)).await;
    subject.pop(&queue, 1).await;
    let before = failed_scripts(&server);
    subject.run_maintenance().await;
    let by_one_visit = failed_scripts(&server) - before;
    subject.post(&queue, &messages(60, 3_000)).await;
    subject.advance(&queue, Duration::from_secs(62)).await;

    let before = failed_scripts(&server);
    subject.run_maintenance().await;

    assert!(by_one_visit > 0, "nothing failed");
    assert_eq!(failed_scripts(&server) - before, by_one_visit);
    assert!(
        existing_parts(&server, &queue).contains(&"outbox") && !existing_parts(&server, &queue).contains(&"messages")
    );
}

#[tokio::test]
async fn a_deleted_queue_stays_registered_until_its_dead_letters_arrive() {
    let (server, subject) = (RedisServer::shared_movable(), redis());
    let (queue, mut ids) = queue_of_delivered(&subject, 1).await;
    subject.pop(&queue, 1).await;
    block_arrivals(&server, &subject);
    ids.extend(subject.post_delivered(&queue, &messages(LONG_S, 2)).await);
    subject.pop(&queue, 2).await;

    subject.delete(&queue).await;
    subject.run_maintenance().await;
    assert_eq!(existing_parts(&server, &queue), ["outbox"]);
    assert_eq!(subject.names(subject.project(), None, 10).await, ["letters"]);
    unblock_arrivals(&server, &subject);
    subject.run_maintenance().await;

    assert_eq!(arrived_origins(&subject).await, ids);
    assert_eq!(existing_parts(&server, &queue), [""; 0]);
    assert_eq!(subject.count_queues().await, 1);
}

#[tokio::test]
async fn a_deleted_queue_stays_registered_until_its_last_dead_letter_arrives() {
    let (server, subject) = (RedisServer::shared_movable(), redis());
    let (queue, mut ids) = queue_of_delivered(&subject, 1).await;
    subject.pop(&queue, 1).await;
    block_arrivals(&server, &subject);
    ids.extend(subject.post_delivered(&queue, &messages(LONG_S, 2_200)).await);
    subject.pop(&queue, 1_000).await;
    unblock_arrivals(&server, &subject);

    subject.delete(&queue).await;
    subject.run_maintenance().await;

    assert_eq!(subject.count(&subject.id("letters")).await, ids.len());
    assert_eq!(existing_parts(&server, &queue), [""; 0]);
    assert_eq!(subject.names(subject.project(), None, 10).await, ["letters"]);
}

#[tokio::test]
async fn an_arrival_is_remembered_after_its_queue_is_deleted() {
    let (server, subject) = (RedisServer::shared_movable(), redis());
    let (queue, mut ids) = queue_of_delivered(&subject, 1).await;
    let dead_letters = subject.id("letters");
    subject.pop(&queue, 1).await;
    block_arrivals(&server, &subject);
    ids.extend(subject.post_delivered(&queue, &messages(LONG_S, 1)).await);
    subject.pop(&queue, 1).await;
    let (outbox, kept) = (key(&queue, "outbox"), key(&queue, "outbox:kept"));
    server.command(&["COPY", &outbox, &kept]);
    unblock_arrivals(&server, &subject);
    subject.run_maintenance().await;

    subject.delete(&dead_letters).await;
    let ttl_s = server.command(&["TTL", &key(&dead_letters, "received")]).as_int();
    assert!((1..=86_400).contains(&ttl_s), "it still exists after {ttl_s} s");
    server.command(&["RENAME", &kept, &outbox]);
    subject.run_maintenance().await;

    // Late dead letters are not posted to the recreated queue.
    assert_eq!(arrived_origins(&subject).await, []);
    let again = subject.post_delivered(&queue, &messages(LONG_S, 1)).await;
    subject.pop(&queue, 1).await;
    assert_eq!(arrived_origins(&subject).await, again);
    assert_eq!(ids.len(), 2);
}

/// Earlier releases have stored it, and then delivered no message.
#[tokio::test]
async fn a_stored_limit_of_0_is_no_limit() {
    let (server, subject) = (RedisServer::shared_movable(), redis());
    let (queue, ids) = queue_of_delivered(&subject, 2).await;
    server.command(&["HSET", &key(&queue, "queue"), "p", "\0\0\0\0\0\0\0\0\0letters"]);

    let claim = subject.claim(&queue, 2, 60).await;

    assert_eq!(ids_of(&claim.messages), ids);
    assert_eq!(claim.messages.iter().map(|message| message.claim_count).collect::<Vec<_>>(), [1; 2]);
}

/// Starts a redrive whose first step is cut off when its messages are in the outbox, because no
/// message can arrive in `target`.
async fn cut_off_redrive(
    server: &RedisServer,
    subject: &Subject,
    from: &QueueId,
    target: &QueueId,
    redrive: &Redrive,
) -> (TaskId, LeaseFence) {
    let id = subject.create_redrive(from, redrive).await;
    let fence = subject.store().take_task_lease(from, id, Uuid::new_v4()).await.unwrap().expect("nobody has it");
    server.command(&["DEL", &key(target, "received")]);
    server.command(&["LPUSH", &key(target, "received"), "in the way"]);
    subject.store().redrive_step(from, id, fence).await.expect_err("no message arrives");
    (id, fence)
}

/// Deletes a queue in which no message can arrive.
async fn delete_blocked(server: &RedisServer, subject: &Subject, queue: &QueueId) {
    subject.delete(queue).await;
    server.command(&["DEL", &key(queue, "received")]);
}

#[tokio::test]
async fn a_redrive_does_not_create_its_deleted_target_again() {
    let (server, subject) = (RedisServer::shared_movable(), redis());
    for (name, keys) in [
        ("plain", json!({"_max_claim_count": 9, "_dead_letter_queue": "letters"})),
        ("fair", json!({"_shards": 4, "_max_claim_count": 9, "_dead_letter_queue": "letters"})),
    ] {
        let (queue, other) = (subject.queue_of(name, keys).await, subject.queue("other").await);
        subject.post(&queue, &messages(LONG_S, 250)).await;
        let claim = subject.claim(&queue, 2, 60).await;
        subject.release(&queue, claim.id).await;
        let shown = async || {
            let messages = subject.contents(&queue).await;
            messages.into_iter().map(|one| (one.id, one.body, one.ttl_s, one.claim_count)).collect::<Vec<_>>()
        };
        let before = shown().await;
        let named = Selection::Ids(before[..20].iter().map(|(id, ..)| *id).collect());
        for (selection, moved) in [(Selection::All, 100), (Selection::First(30), 30), (named, 20)] {
            let redrive = Redrive { selection, ..all_to(&other) };
            let (id, fence) = cut_off_redrive(&server, &subject, &queue, &other, &redrive).await;
            let remaining = subject.task(&queue, id).await.remaining + moved;
            assert_eq!(shown().await, before[usize::try_from(moved).unwrap()..]);

            delete_blocked(&server, &subject, &other).await;
            subject.run_maintenance().await;

            assert_eq!(subject.get(&other).await, None);
            assert_eq!(shown().await, before);
            assert!(!existing_parts(&server, &queue).contains(&"outbox"));
            assert_eq!(subject.store().redrive_step(&queue, id, fence).await, Ok(RedriveStep::Ended));
            let task = subject.task(&queue, id).await;
            assert_eq!(progress(&task), (TaskState::Failed, [0, 0, remaining]));
            assert_eq!(task.error.as_deref(), Some("The queue other does not exist any more."));
            subject.create(&other).await;
        }
        assert_eq!(subject.redrive(&queue, &all_to(&other)).await.moved, 250);
        assert_eq!(subject.count(&other).await, 250);
        subject.delete(&other).await;
    }
    subject.assert_consistent().await;
}

#[tokio::test]
async fn a_redrive_to_origins_skips_messages_whose_origin_is_deleted() {
    let (server, subject) = (RedisServer::shared_movable(), redis());
    let dead = subject.id("dead");
    let (gone, _) = subject.dead_letters_from("gone", &messages(LONG_S, 50)).await;
    let (alive, _) = subject.dead_letters_from("alive", &messages(LONG_S, 3)).await;
    let before = subject.feed(&dead).await;
    let all = Redrive { to: None, selection: Selection::All, per_second: None };
    let (id, fence) = cut_off_redrive(&server, &subject, &dead, &gone, &all).await;

    delete_blocked(&server, &subject, &gone).await;
    subject.run_maintenance().await;

    assert_eq!(subject.store().redrive_step(&dead, id, fence).await, Ok(RedriveStep::Ended));
    assert_eq!(progress(&subject.task(&dead, id).await), (TaskState::Done, [3, 50, 0]));
    assert_eq!(subject.get(&gone).await, None);
    assert_eq!(subject.feed(&dead).await, before[..50]);
    assert_eq!(subject.count(&alive).await, 3);
    subject.assert_consistent().await;
}

/// The copy of the outbox stands for a process that has read it before, and posts late.
#[tokio::test]
async fn a_message_that_has_returned_does_not_arrive_in_a_later_queue() {
    let (server, subject) = (RedisServer::shared_movable(), redis());
    let (queue, other) = (subject.queue("q").await, subject.queue("other").await);
    subject.post(&queue, &messages(LONG_S, 5)).await;
    let (id, fence) = cut_off_redrive(&server, &subject, &queue, &other, &all_to(&other)).await;
    let (outbox, kept) = (key(&queue, "outbox"), key(&queue, "outbox:kept"));
    server.command(&["COPY", &outbox, &kept]);
    delete_blocked(&server, &subject, &other).await;
    subject.run_maintenance().await;
    assert_eq!(subject.count(&queue).await, 5);

    subject.create(&other).await;
    server.command(&["RENAME", &kept, &outbox]);
    subject.run_maintenance().await;

    assert_eq!((subject.count(&queue).await, subject.count(&other).await), (5, 0));
    while subject.store().redrive_step(&queue, id, fence).await.unwrap() != RedriveStep::Ended {}
    assert_eq!((subject.count(&queue).await, subject.count(&other).await), (0, 5));
}

/// A message that has arrived does not return: it was deleted with its new queue.
#[tokio::test]
async fn redriven_messages_return_only_to_their_own_queue_and_only_if_they_have_not_arrived() {
    let (server, subject) = (RedisServer::shared_movable(), redis());
    let (queue, other) = (subject.queue("q").await, subject.queue("other").await);
    subject.post(&queue, &messages(LONG_S, 10)).await;
    cut_off_redrive(&server, &subject, &queue, &other, &all_to(&other)).await;
    let (outbox, kept) = (key(&queue, "outbox"), key(&queue, "outbox:kept"));
    server.command(&["COPY", &outbox, &kept]);
    server.command(&["DEL", &key(&other, "received")]);
    subject.run_maintenance().await;
    assert_eq!(subject.count(&other).await, 10);
    subject.delete(&other).await;
    server.command(&["RENAME", &kept, &outbox]);
    subject.run_maintenance().await;
    assert_eq!((subject.count(&queue).await, subject.get(&other).await), (0, None));

    subject.create(&other).await;
    let source = subject.queue("source").await;
    subject.post(&source, &messages(LONG_S, 10)).await;
    cut_off_redrive(&server, &subject, &source, &other, &all_to(&other)).await;
    delete_blocked(&server, &subject, &other).await;
    subject.delete(&source).await;
    subject.create(&source).await;
    subject.run_maintenance().await;
    assert_eq!((subject.count(&source).await, subject.get(&other).await), (0, None));
    assert!(!existing_parts(&server, &source).contains(&"outbox"));
    subject.assert_consistent().await;
}
