//! Pauses: claims and pops of a paused queue get nothing, and all other operations work as usual.

use std::pin::pin;
use std::time::Duration;

use serde_json::json;
use sukkal_domain::{ClaimId, Metadata, NewMessage, QueueId, Taken};
use sukkal_storage::{ClaimOutcome, DeleteOutcome};
use tokio::time::timeout;

use crate::conformance::support::subject::{LONG_S, Subject, ids_of, message, messages};
use support::calls::new_claim;

const TTL_S: u32 = 60;
const OVER: Duration = Duration::from_secs(61);
/// Timeout for a notification that normally arrives within milliseconds.
const WAKE_UP_TIMEOUT: Duration = Duration::from_secs(20);

impl Subject {
    /// Returns whether a claim and a pop are both refused because the queue is paused. If it is
    /// not, both must find the same.
    async fn is_paused(&self, queue: &QueueId) -> bool {
        let new = new_claim(1, TTL_S);
        let claim = self.store().create_claim(queue, ClaimId::random(), &new).await.expect("the store answers");
        let pop = self.store().pop_messages(queue, ClaimId::random(), 1).await.expect("the store answers");
        let is_paused = matches!(claim, Taken::Paused);
        assert_eq!(matches!(pop, Taken::Paused), is_paused, "{claim:?} and {pop:?}");
        is_paused
    }
}

pub(in crate::conformance) async fn a_paused_queue_hands_out_no_messages(subject: &Subject) {
    let queue = subject.queue("q").await;
    let mut ids = subject.post(&queue, &messages(LONG_S, 3)).await;

    subject.pause(&queue).await;
    subject.pause(&queue).await;

    assert!(subject.is_paused(&queue).await);
    ids.extend(subject.post(&queue, &messages(LONG_S, 3)).await);
    assert!(subject.is_paused(&queue).await);
    subject.assert_available_and_claimed(&queue, &ids, &[]).await;
    assert_eq!(subject.found(&queue, &ids).await, ids);
    subject.delete_messages(&queue, &ids[..1]).await;
    assert_eq!(subject.delete_with_claim(&queue, ids[1], None).await, DeleteOutcome::Done);
    subject.resume(&queue).await;
    assert_eq!(subject.claimed_ids(&queue, 2, TTL_S).await, ids[2..4]);
    assert_eq!(ids_of(&subject.pop(&queue, 9).await), ids[4..]);
    subject.resume(&queue).await;
    assert!(!subject.is_paused(&queue).await);
}

pub(in crate::conformance) async fn claims_from_before_a_pause_can_be_used(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 6)).await;
    let (used, released) = (subject.claim(&queue, 3, TTL_S).await, subject.claim(&queue, 1, TTL_S).await);
    let expiring = subject.claim(&queue, 1, TTL_S).await;
    subject.pause(&queue).await;

    assert_eq!(subject.renew(&queue, used.id, 600, 60).await, Some(used.fence));
    assert_eq!(subject.delete_with_claim(&queue, ids[0], Some(used.id)).await, DeleteOutcome::Done);
    let returned = subject.store().return_message(&queue, used.id, ids[1], 0).await;
    assert_eq!(returned, Ok(ClaimOutcome::Done));
    subject.release(&queue, released.id).await;
    subject.advance(&queue, OVER).await;

    assert!(subject.is_paused(&queue).await);
    assert_eq!(subject.held_by(&queue, used.id).await, Some(vec![ids[2]]));
    assert_eq!(subject.held_by(&queue, expiring.id).await, None);
    subject.assert_available_and_claimed(&queue, &[ids[1], ids[3], ids[4], ids[5]], &[ids[2]]).await;
    subject.resume(&queue).await;
    assert_eq!(subject.claimed_ids(&queue, 9, TTL_S).await, [ids[1], ids[3], ids[4], ids[5]]);
}

pub(in crate::conformance) async fn a_pause_ends_with_the_deletion_of_its_queue_and_not_before(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 2)).await;
    let before = subject.get(&queue).await;
    subject.pause(&queue).await;
    assert_eq!(subject.get(&queue).await, before, "a pause does not change the metadata");

    subject.store().purge_queue(&queue).await.expect("the store answers");
    subject.post(&queue, &messages(LONG_S, 2)).await;
    assert!(subject.is_paused(&queue).await, "after a purge");
    subject.set_metadata(&queue, json!({"_max_claim_count": 3})).await;
    subject.run_maintenance().await;
    assert!(subject.is_paused(&queue).await, "after an update");

    subject.delete(&queue).await;
    assert!(!subject.is_paused(&queue).await, "after the deletion");
    subject.create(&queue).await;
    subject.post(&queue, &messages(LONG_S, 2)).await;
    assert!(!subject.is_paused(&queue).await, "in the next queue of the same name");
}

pub(in crate::conformance) async fn pausing_creates_a_missing_queue_and_resuming_does_not(subject: &Subject) {
    let (queue, other) = (subject.id("q"), subject.id("other"));

    subject.pause(&queue).await;
    subject.resume(&other).await;

    assert_eq!(subject.get(&queue).await.map(|queue| queue.metadata), Some(Metadata::default()));
    assert_eq!(subject.get(&other).await, None);
    assert_eq!(subject.names(subject.project(), None, 9).await, ["q"]);
    assert!(subject.is_paused(&queue).await);
    subject.post(&queue, &messages(LONG_S, 2)).await;
    subject.resume(&queue).await;
    assert_eq!(subject.claimed_ids(&queue, 9, TTL_S).await.len(), 2);
}

pub(in crate::conformance) async fn a_pause_applies_to_one_queue(subject: &Subject) {
    let (queue, other) = (subject.queue("q").await, subject.queue("other").await);
    subject.post(&other, &messages(LONG_S, 2)).await;
    subject.pause(&queue).await;

    assert!(subject.is_paused(&queue).await);
    assert!(!subject.is_paused(&other).await);
}

pub(in crate::conformance) async fn a_paused_queue_moves_no_dead_letters_and_receives_some(subject: &Subject) {
    let keys = json!({"_max_claim_count": 1, "_dead_letter_queue": "dead"});
    let (queue, dead) = (subject.queue_of("q", keys).await, subject.id("dead"));
    subject.post(&queue, &messages(LONG_S, 1)).await;
    let claim = subject.claim(&queue, 1, TTL_S).await.id;
    subject.release(&queue, claim).await;
    subject.pause(&queue).await;
    subject.pause(&dead).await;

    assert!(subject.is_paused(&queue).await);
    assert_eq!((subject.count(&queue).await, subject.count(&dead).await), (1, 0));

    subject.resume(&queue).await;
    assert_eq!(subject.claimed_ids(&queue, 1, TTL_S).await, []);
    assert_eq!((subject.count(&queue).await, subject.count(&dead).await), (0, 1));
    assert!(subject.is_paused(&dead).await);
    subject.resume(&dead).await;
    assert_eq!(subject.claimed_ids(&dead, 1, TTL_S).await.len(), 1);
}

pub(in crate::conformance) async fn a_paused_fair_queue_keeps_its_turns(subject: &Subject) {
    let queue = subject.fair_queue("q", 4).await;
    subject.post(&queue, &messages(LONG_S, 4)).await;
    subject.pause(&queue).await;
    assert!(subject.is_paused(&queue).await);

    subject.resume(&queue).await;

    assert_eq!(subject.claimed_ids(&queue, 9, TTL_S).await.len(), 4);
}

pub(in crate::conformance) async fn a_resumption_wakes_a_claimer_for_each_message(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.pause(&queue).await;
    subject.post(&queue, &[message(LONG_S, 0), NewMessage { delay_s: 60, ..message(LONG_S, 1) }]).await;
    let watches = [
        subject.store().watch(&queue).await.expect("the store answers"),
        subject.store().watch(&queue).await.expect("the store answers"),
    ];
    let (mut one, mut other) = (pin!(watches[0].worker()), pin!(watches[1].worker()));
    // The delayed message is due now, and no operation has applied that yet.
    subject.advance(&queue, OVER).await;
    one.as_mut().enable();
    other.as_mut().enable();

    subject.resume(&queue).await;

    timeout(WAKE_UP_TIMEOUT, one).await.expect("the first claimer is notified");
    timeout(WAKE_UP_TIMEOUT, other).await.expect("the second claimer is notified");
    assert_eq!(subject.claimed_ids(&queue, 9, TTL_S).await.len(), 2);
}
