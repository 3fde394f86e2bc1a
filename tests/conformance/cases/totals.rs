//! Totals of a queue: numbers of messages since it was created.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;
use sukkal_domain::{NewMessage, QueueId, Totals};

use crate::conformance::support::subject::{LONG_S, Subject, ids_of, message, messages};
use support::random::{Random, seed};
use support::waiting::until;

const OK: &str = "the store answers";
const WORKERS: u64 = 4;
const STEPS: usize = 60;

impl Subject {
    async fn totals(&self, queue: &QueueId) -> Totals {
        self.summary(queue).await.totals
    }

    /// Creates a queue that delivers a message once and has this dead-letter queue.
    async fn queue_with_dead_letters(&self, dead_letter_queue: &str) -> QueueId {
        self.queue_of("q", json!({"_max_claim_count": 1, "_dead_letter_queue": dead_letter_queue})).await
    }
}

pub(in crate::conformance) async fn each_message_counts_where_it_ends(subject: &Subject) {
    let queue = subject.queue_with_dead_letters("letters").await;
    assert_eq!(subject.totals(&queue).await, Totals::default());
    let delayed = NewMessage { delay_s: 600, ..message(LONG_S, 9) };
    let ids = subject.post(&queue, &messages(LONG_S, 9)).await;
    subject.post(&queue, &[message(60, 1), delayed, message(60, 2)]).await;
    assert_eq!(subject.totals(&queue).await, Totals { posted: 12, ..Totals::default() });

    subject.delete_messages(&queue, &[ids[8], ids[8]]).await;
    subject.pop(&queue, 2).await;
    let claim = subject.claim(&queue, 3, 600).await;
    subject.delete_with_claim(&queue, ids[2], Some(claim.id)).await;
    let totals = Totals { posted: 12, claimed: 3, deleted: 4, ..Totals::default() };
    assert_eq!(subject.totals(&queue).await, totals);

    subject.release(&queue, claim.id).await;
    subject.pop(&queue, 2).await;
    let totals = Totals { deleted: 6, dead_lettered: 2, ..totals };
    assert_eq!(subject.totals(&queue).await, totals);
    assert_eq!(subject.totals(&subject.id("letters")).await, Totals { posted: 2, ..Totals::default() });

    subject.advance(&queue, Duration::from_secs(62)).await;
    assert_eq!(subject.totals(&queue).await, Totals { expired: 2, ..totals });
}

pub(in crate::conformance) async fn a_queue_that_is_its_own_dead_letter_queue_counts_both_ways(subject: &Subject) {
    let queue = subject.queue_with_dead_letters("q").await;
    subject.post(&queue, &messages(LONG_S, 3)).await;
    let claim = subject.claim(&queue, 3, 600).await;
    subject.release(&queue, claim.id).await;

    assert_eq!(subject.claim_for(&queue, 3, 600, 60).await, None);

    let totals = Totals { posted: 6, claimed: 3, dead_lettered: 3, ..Totals::default() };
    assert_eq!(subject.totals(&queue).await, totals);
}

pub(in crate::conformance) async fn a_purge_counts_as_deletion(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 5)).await;
    subject.claim(&queue, 2, 600).await;
    subject.store().purge_queue(&queue).await.expect(OK);
    subject.post(&queue, &messages(LONG_S, 1)).await;

    assert_eq!(subject.totals(&queue).await, Totals { posted: 6, claimed: 2, deleted: 5, ..Totals::default() });
}

pub(in crate::conformance) async fn a_restored_message_counts_as_posted_again(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 3)).await;
    let popped = subject.popped(&queue, 2).await;

    for _ in 0..2 {
        subject.store().restore_messages(&queue, &popped).await.expect(OK);
    }

    // Where a pop is final, they were deleted.
    let restored = if popped[0].is_final { 2 } else { 0 };
    let expected = Totals { posted: 3 + restored, deleted: restored, ..Totals::default() };
    assert_eq!(subject.totals(&queue).await, expected);
}

pub(in crate::conformance) async fn a_recreated_queue_starts_at_zero(subject: &Subject) {
    let queue = subject.queue_with_dead_letters("letters").await;
    subject.post(&queue, &messages(60, 4)).await;
    let claim = subject.claim(&queue, 1, 30).await;
    subject.release(&queue, claim.id).await;
    subject.pop(&queue, 1).await;
    subject.advance(&queue, Duration::from_secs(62)).await;
    let totals = Totals { posted: 4, claimed: 1, deleted: 1, expired: 2, dead_lettered: 1 };
    assert_eq!(subject.totals(&queue).await, totals);

    subject.delete(&queue).await;
    assert_eq!(subject.totals(&queue).await, Totals::default());
    subject.create(&queue).await;

    assert_eq!(subject.totals(&queue).await, Totals::default());
}

/// While clients do anything, each total only grows, and the totals account for each message.
pub(in crate::conformance) async fn totals_never_fall(subject: &Subject) {
    let seed = seed();
    let queue = subject.queue_with_dead_letters("letters").await;
    let (posted, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let reader = {
        let (subject, queue, is_over) = (subject.clone(), queue.clone(), is_over.clone());
        tokio::spawn(async move {
            let mut last = Totals::default();
            while !is_over.load(Ordering::Relaxed) {
                last = grown(&subject, &queue, last).await;
            }
            last
        })
    };
    let workers = (0..WORKERS).map(|role| {
        let (subject, queue, posted) = (subject.clone(), queue.clone(), posted.clone());
        let mut random = Random::new(seed, role, 0);
        tokio::spawn(async move {
            for _ in 0..STEPS {
                posted.fetch_add(perform_any(&subject, &queue, &mut random).await, Ordering::Relaxed);
            }
        })
    });

    for worker in workers.collect::<Vec<_>>() {
        worker.await.expect("no operation fails");
    }
    is_over.store(true, Ordering::Relaxed);
    let last = reader.await.expect("no total falls");

    let totals = grown(subject, &queue, last).await;
    assert_eq!(totals.posted, posted.load(Ordering::Relaxed));
    until("as many messages arrive as were dead-lettered", async || {
        // It forwards those that moved when a forwarder was about to end.
        subject.run_maintenance().await;
        subject.totals(&subject.id("letters")).await.posted == totals.dead_lettered
    })
    .await;
}

/// Returns the totals of a queue, after checking that none is lower than before.
async fn grown(subject: &Subject, queue: &QueueId, last: Totals) -> Totals {
    let summary = subject.summary(queue).await;
    let Totals { posted, claimed, deleted, expired, dead_lettered } = summary.totals;
    let fell = [
        (posted, last.posted),
        (claimed, last.claimed),
        (deleted, last.deleted),
        (expired, last.expired),
        (dead_lettered, last.dead_lettered),
    ];
    assert!(fell.iter().all(|(now, before)| now >= before), "{:?} after {last:?}", summary.totals);
    let present = summary.messages.available + summary.messages.delayed + summary.messages.claimed;
    assert_eq!(posted, deleted + expired + dead_lettered + present, "{summary:?}");
    summary.totals
}

/// Performs a random operation. Returns the number of messages that it posted or restored.
async fn perform_any(subject: &Subject, queue: &QueueId, random: &mut Random) -> u64 {
    match random.below(9) {
        0..3 => {
            let (delay_s, ttl_s) = (if random.one_in(3) { 20 } else { 0 }, if random.one_in(2) { 60 } else { LONG_S });
            let batch = vec![NewMessage { delay_s, ..message(ttl_s, 1) }; random.below(30) + 1];
            return subject.post(queue, &batch).await.len() as u64;
        }
        3 => {
            let popped = subject.popped(queue, 5).await;
            subject.store().restore_messages(queue, &popped).await.expect(OK);
            return popped.iter().filter(|one| one.is_final).count() as u64;
        }
        4 => drop(subject.pop(queue, 5).await),
        5 => subject.delete_messages(queue, &ids_of(&subject.list(queue, None, 10).await)).await,
        6 => subject.advance(queue, Duration::from_secs(7)).await,
        _ => {
            let Some(claim) = subject.claim_for(queue, 8, 60, 60).await else { return 0 };
            subject.delete_with_claim(queue, claim.messages[0].id, Some(claim.id)).await;
            match random.below(3) {
                0 => {}
                1 => subject.release(queue, claim.id).await,
                _ => subject.store().withdraw_claim(queue, claim.id).await.expect(OK),
            }
        }
    }
    0
}
