//! Dead letters: a message that was delivered too often moves to another queue, once, as a new
//! message there.

use std::time::Duration;

use serde_json::json;
use sukkal_domain::{Message, MessageId, Origin, QueueId};
use sukkal_storage::DeleteOutcome;

use crate::conformance::support::subject::{LONG_S, Subject, ids_of, message, messages};
use support::waiting::until_some;

const S: Duration = Duration::from_secs(1);

impl Subject {
    /// Creates a queue that delivers a message `claim_count_max` times, and returns it with its
    /// dead-letter queue.
    async fn queue_and_dead_letters(&self, claim_count_max: i64) -> (QueueId, QueueId) {
        let keys = json!({"_max_claim_count": claim_count_max, "_dead_letter_queue": "letters"});
        (self.queue_of("q", keys).await, self.id("letters"))
    }

    /// Claims the available messages and releases the claim, `times` times.
    async fn claim_and_release(&self, queue: &QueueId, times: usize) {
        for _ in 0..times {
            let claim = self.claim(queue, 1_000, 60).await;
            self.release(queue, claim.id).await;
        }
    }

    async fn all(&self, queue: &QueueId) -> Vec<Message> {
        self.list(queue, None, 1_000).await
    }

    /// Waits until a queue has at least this number of messages, and returns them. A slow store
    /// forwards dead letters after the claim or pop has returned.
    pub(in crate::conformance) async fn arrived(&self, queue: &QueueId, count: usize) -> Vec<Message> {
        until_some("the dead letters arrive", async || {
            let found = self.all(queue).await;
            (found.len() >= count).then_some(found)
        })
        .await
    }
}

fn origins_of(messages: &[Message]) -> Vec<Origin> {
    messages.iter().map(|message| message.origin.clone().expect("it is a dead letter")).collect()
}

fn origins(queue: &QueueId, ids: &[MessageId], claim_count: u32) -> Vec<Origin> {
    ids.iter().map(|id| Origin { queue: queue.name().clone(), id: *id, claim_count }).collect()
}

/// Rows 5.1-2, 5.1-3.
pub(in crate::conformance) async fn a_message_is_delivered_at_most_max_claim_count_times(subject: &Subject) {
    let (queue, dead_letters) = subject.queue_and_dead_letters(2).await;
    let ids = subject.post(&queue, &messages(LONG_S, 3)).await;
    for count in 1..=2 {
        let claim = subject.claim(&queue, 3, 60).await;
        assert_eq!(claim.messages.iter().map(|message| message.claim_count).collect::<Vec<_>>(), [count; 3]);
        subject.release(&queue, claim.id).await;
    }
    assert_eq!(subject.all(&dead_letters).await, []);

    assert_eq!(subject.claim_for(&queue, 2, 60, 60).await, None);

    let dead = subject.arrived(&dead_letters, 3).await;
    assert_eq!(origins_of(&dead), origins(&queue, &ids, 2));
    assert_eq!(subject.feed(&queue).await, []);
    assert_eq!(subject.found(&queue, &ids).await, []);
    assert_eq!(subject.count(&queue).await, 0);
}

/// Row 5.1-7.
pub(in crate::conformance) async fn a_dead_letter_is_a_new_message_with_the_same_body(subject: &Subject) {
    let (queue, dead_letters) = subject.queue_and_dead_letters(1).await;
    let id = subject.post(&queue, &[message(LONG_S, 7)]).await[0];
    let before = subject.get_messages(&queue, &[id]).await.remove(0);
    subject.claim_and_release(&queue, 1).await;

    subject.pop(&queue, 1).await;

    let dead = subject.arrived(&dead_letters, 1).await.remove(0);
    assert_ne!(dead.id, id);
    assert_eq!((dead.claim, dead.claim_count), (None, 1));
    assert_eq!((&dead.body, dead.created_s, dead.ttl_s), (&before.body, before.created_s, before.ttl_s));
    assert_eq!(subject.found(&dead_letters, &[dead.id]).await, [dead.id]);
    assert_eq!(subject.delete_with_claim(&dead_letters, dead.id, None).await, DeleteOutcome::Done);
    assert_eq!(subject.count(&dead_letters).await, 0);
}

/// Row 5.1-7.
pub(in crate::conformance) async fn dead_letters_are_appended_in_the_order_in_which_they_are_moved(subject: &Subject) {
    let (queue, dead_letters) = subject.queue_and_dead_letters(1).await;
    subject.create(&dead_letters).await;
    let there = subject.post(&dead_letters, &messages(LONG_S, 2)).await;
    let ids = subject.post(&queue, &messages(LONG_S, 30)).await;
    subject.claim_and_release(&queue, 1).await;

    for _ in 0..10 {
        subject.pop(&queue, 3).await;
    }

    let feed = subject.arrived(&dead_letters, 32).await;
    assert_eq!(ids_of(&feed[..2]), there);
    assert_eq!(origins_of(&feed[2..]), origins(&queue, &ids, 1));
}

/// Rows 5.1-2, 5.1-5, 6.5-12.
pub(in crate::conformance) async fn a_pop_moves_messages_that_have_reached_max_claim_count(subject: &Subject) {
    let (queue, dead_letters) = subject.queue_and_dead_letters(1).await;
    let ids = subject.post(&queue, &messages(LONG_S, 4)).await;
    let claim = subject.claim(&queue, 2, 60).await;
    subject.release(&queue, claim.id).await;

    let popped = subject.pop(&queue, 3).await;

    assert_eq!(ids_of(&popped), ids[2..3]);
    assert_eq!(popped[0].claim_count, 0);
    assert_eq!(origins_of(&subject.arrived(&dead_letters, 2).await), origins(&queue, &ids[..2], 1));
    assert_eq!(subject.feed(&queue).await, ids[3..]);
}

/// Rows 5.1-4, 7.4-3.
pub(in crate::conformance) async fn the_claim_count_is_kept_when_a_claim_ends(subject: &Subject) {
    let (queue, dead_letters) = subject.queue_and_dead_letters(3).await;
    let ids = subject.post(&queue, &messages(LONG_S, 2)).await;
    subject.claim_and_release(&queue, 1).await;
    subject.claim(&queue, 2, 60).await;
    subject.advance(&queue, 61 * S).await;
    let claim = subject.claim(&queue, 2, 60).await;
    for (id, delay_s) in ids.iter().zip([0, 60]) {
        subject.store().return_message(&queue, claim.id, *id, delay_s).await.expect("the store answers");
    }
    subject.advance(&queue, 61 * S).await;

    assert_eq!(subject.claim_for(&queue, 2, 60, 60).await, None);

    assert_eq!(origins_of(&subject.arrived(&dead_letters, 2).await), origins(&queue, &ids, 3));
}

pub(in crate::conformance) async fn a_renewal_does_not_count_as_a_delivery(subject: &Subject) {
    let (queue, dead_letters) = subject.queue_and_dead_letters(1).await;
    subject.post(&queue, &messages(LONG_S, 1)).await;
    let claim = subject.claim(&queue, 1, 60).await;

    for _ in 0..3 {
        subject.renew(&queue, claim.id, 60, 60).await;
        let shown = subject.get_claim(&queue, claim.id).await.expect("it is live");
        assert_eq!(shown.messages[0].claim_count, 1);
    }

    assert_eq!(subject.all(&dead_letters).await, []);
}

/// Rows 5-12, 5.1-1, 5.1-4.
pub(in crate::conformance) async fn deliveries_are_counted_also_where_their_number_is_not_limited(subject: &Subject) {
    for (number, keys) in [
        json!({}),
        json!({"_max_claim_count": 1}),
        json!({"_dead_letter_queue": "letters"}),
        json!({"_max_claim_count": null, "_dead_letter_queue": "letters"}),
        json!({"_max_claim_count": 0, "_dead_letter_queue": "letters"}),
        json!({"_max_claim_count": -5, "_dead_letter_queue": "letters"}),
        json!({"_max_claim_count": i64::MIN, "_dead_letter_queue": "letters"}),
        json!({"_dead_letter_queue": "letters", "_dead_letter_queue_messages_ttl": 60}),
        json!({"_max_claim_count": 1, "_dead_letter_queue": null}),
    ]
    .into_iter()
    .enumerate()
    {
        let queue = subject.queue_of(&format!("q{number}"), keys).await;
        subject.post(&queue, &messages(LONG_S, 2)).await;
        subject.claim_and_release(&queue, 3).await;

        let popped = subject.pop(&queue, 2).await;

        assert_eq!(popped.iter().map(|message| message.claim_count).collect::<Vec<_>>(), [3, 3]);
    }
    assert_eq!(subject.get(&subject.id("letters")).await, None);
}

/// Row 5.1-8.
pub(in crate::conformance) async fn a_dead_letter_keeps_its_expiry_unless_the_queue_sets_a_ttl(subject: &Subject) {
    // The life of the message, of its claim and of dead letters; then the life that is shown, and
    // the one that is left.
    for (name, life_s, claim_s, ttl_s, shown_s, left_s) in [
        ("kept", 100, 10, None, 100, 50),
        ("extended", 100, 200, None, 260, 210),
        ("longer", 100, 10, Some(300), 300, 300),
        ("shorter", 1_000, 10, Some(300), 300, 300),
    ] {
        let keys = json!({
            "_max_claim_count": 1,
            "_dead_letter_queue": format!("{name}.letters"),
            "_dead_letter_queue_messages_ttl": ttl_s,
        });
        let queue = subject.queue_of(name, keys).await;
        let dead_letters = subject.id(&format!("{name}.letters"));
        subject.post(&queue, &messages(life_s, 1)).await;
        let claim = subject.claim(&queue, 1, claim_s).await;
        subject.release(&queue, claim.id).await;
        subject.advance(&queue, 50 * S).await;
        subject.advance(&dead_letters, 50 * S).await;
        subject.pop(&queue, 1).await;

        let dead = subject.arrived(&dead_letters, 1).await.remove(0);
        assert_eq!(dead.ttl_s, shown_s, "{name}");
        assert!(dead.age_s >= 50, "{name}: {} s old", dead.age_s);
        subject.advance(&dead_letters, (left_s - 20) * S).await;
        assert_eq!(subject.count(&dead_letters).await, 1, "{name}");
        subject.advance(&dead_letters, 21 * S).await;
        assert_eq!(subject.count(&dead_letters).await, 0, "{name}");
    }
}

/// Row 5.1-9.
pub(in crate::conformance) async fn a_dead_letter_can_become_a_dead_letter_again(subject: &Subject) {
    let first = subject.queue_of("a", json!({"_max_claim_count": 1, "_dead_letter_queue": "b"})).await;
    let second = subject.queue_of("b", json!({"_max_claim_count": 2, "_dead_letter_queue": "c"})).await;
    subject.post(&first, &[message(LONG_S, 7)]).await;
    subject.claim_and_release(&first, 1).await;
    subject.pop(&first, 1).await;
    let in_second = ids_of(&subject.arrived(&second, 1).await);

    // The dead letter keeps its claim count.
    subject.claim_and_release(&second, 1).await;
    subject.pop(&second, 1).await;

    let dead = subject.arrived(&subject.id("c"), 1).await;
    assert_eq!(origins_of(&dead), origins(&second, &in_second, 2));
    assert_eq!(dead[0].body, message(LONG_S, 7).body);
}

pub(in crate::conformance) async fn a_queue_can_be_its_own_dead_letter_queue(subject: &Subject) {
    let queue = subject.queue_of("q", json!({"_max_claim_count": 1, "_dead_letter_queue": "q"})).await;
    let ids = subject.post(&queue, &messages(LONG_S, 2)).await;
    let claim = subject.claim(&queue, 1, 60).await;
    subject.release(&queue, claim.id).await;

    subject.claim_for(&queue, 1, 60, 60).await;

    let feed = subject.arrived(&queue, 2).await;
    assert_eq!(feed[0].id, ids[1]);
    assert_eq!(origins_of(&feed[1..]), origins(&queue, &ids[..1], 1));
}

/// Each further delivery moves a message once, for two queues that are each other's dead-letter
/// queue and for a queue that is its own.
pub(in crate::conformance) async fn a_dead_letter_moves_once_per_delivery(subject: &Subject) {
    let to = |name: &str| json!({"_max_claim_count": 1, "_dead_letter_queue": name});
    let own = subject.queue_of("own", to("own")).await;
    let (first, second) = (subject.queue_of("a", to("b")).await, subject.queue_of("b", to("a")).await);
    for (queue, moved_to) in [(&own, &own), (&first, &second)] {
        let ids = subject.post_delivered(queue, &messages(LONG_S, 2)).await;
        // A pop of a moved message delivers it, like a claim.
        assert_eq!(subject.claim_for(queue, 2, 60, 60).await, None);
        subject.arrived(moved_to, 2).await;

        let claim = subject.claim(moved_to, 2, 60).await;

        assert_eq!(origins_of(&claim.messages), origins(queue, &ids, 1));
        assert_eq!(claim.messages.iter().map(|message| message.claim_count).collect::<Vec<_>>(), [2; 2]);
        subject.release(moved_to, claim.id).await;
        assert_eq!(subject.pop(moved_to, 2).await, []);
        subject.arrived(queue, 2).await;
        let popped = subject.pop(queue, 2).await;
        assert_eq!(origins_of(&popped), origins(moved_to, &ids_of(&claim.messages), 2));
        assert_eq!(subject.count(queue).await + subject.count(moved_to).await, 0);
    }
}

/// A withdrawn claim is no delivery, and neither is a pop whose messages are restored.
pub(in crate::conformance) async fn an_undelivered_dead_letter_does_not_move_again(subject: &Subject) {
    let queue = subject.queue_of("q", json!({"_max_claim_count": 1, "_dead_letter_queue": "q"})).await;
    subject.post_delivered(&queue, &messages(LONG_S, 1)).await;
    assert_eq!(subject.claim_for(&queue, 1, 60, 60).await, None);
    subject.arrived(&queue, 1).await;
    let claim = subject.claim(&queue, 1, 60).await;
    subject.store().withdraw_claim(&queue, claim.id).await.expect("the store answers");

    let popped = subject.popped(&queue, 1).await;
    assert_eq!(popped[0].message.id, claim.messages[0].id);
    subject.store().restore_messages(&queue, &popped).await.expect("the store answers");

    assert_eq!(subject.claimed_ids(&queue, 1, 60).await, ids_of(&claim.messages));
}

pub(in crate::conformance) async fn dead_letters_arrive_after_their_source_queue_is_deleted(subject: &Subject) {
    let (queue, dead_letters) = subject.queue_and_dead_letters(1).await;
    subject.post(&queue, &messages(LONG_S, 500)).await;
    subject.claim_and_release(&queue, 1).await;
    subject.claim_for(&queue, 500, 60, 60).await;
    subject.delete(&queue).await;
    subject.run_maintenance().await;

    assert_eq!(subject.arrived(&dead_letters, 500).await.len(), 500);
    assert_eq!(subject.names(subject.project(), None, 10).await, ["letters"]);
    // The recreated queue does not forward the dead letters of its predecessor again.
    subject.queue_and_dead_letters(1).await;
    subject.post_delivered(&queue, &messages(LONG_S, 2)).await;
    subject.pop(&queue, 2).await;
    assert_eq!(subject.arrived(&dead_letters, 502).await.len(), 502);
}

/// Row 5.1-9.
pub(in crate::conformance) async fn a_deleted_dead_letter_queue_is_created_again_when_needed(subject: &Subject) {
    let (queue, dead_letters) = subject.queue_and_dead_letters(1).await;

    for _ in 0..3 {
        let ids = subject.post_delivered(&queue, &messages(LONG_S, 2)).await;
        subject.pop(&queue, 2).await;

        assert_eq!(origins_of(&subject.arrived(&dead_letters, 2).await), origins(&queue, &ids, 1));
        assert_eq!(subject.names(subject.project(), None, 10).await, ["letters", "q"]);
        subject.delete(&dead_letters).await;
    }
}

/// Row 5.1-2.
pub(in crate::conformance) async fn dead_letters_of_concurrent_workers_arrive_once(subject: &Subject) {
    let (queue, dead_letters) = subject.queue_and_dead_letters(2).await;
    let ids = subject.post(&queue, &messages(LONG_S, 400)).await;

    let workers = (0..16).map(|_| {
        let (subject, queue) = (subject.clone(), queue.clone());
        async move {
            let mut deliveries = 0;
            while subject.count(&queue).await > 0 {
                if let Some(claim) = subject.claim_for(&queue, 7, 60, 60).await {
                    deliveries += claim.messages.len();
                    subject.release(&queue, claim.id).await;
                }
            }
            deliveries
        }
    });
    let deliveries: usize = futures::future::join_all(workers).await.into_iter().sum();
    assert_eq!(deliveries, 2 * ids.len());
    let dead = until_some("the dead letters arrive", async || {
        // It forwards those that moved when a forwarder was about to end.
        subject.run_maintenance().await;
        let dead = subject.all(&dead_letters).await;
        (dead.len() >= ids.len()).then_some(dead)
    })
    .await;

    let mut origins: Vec<_> = origins_of(&dead).into_iter().map(|origin| origin.id).collect();
    origins.sort_unstable();
    assert_eq!(origins, ids);
}
