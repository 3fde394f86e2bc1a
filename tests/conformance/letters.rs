//! Dead letters: what was given out too often goes to another queue, once, as a new message there.

use std::time::Duration;

use serde_json::{Value, json};
use sukkal::domain::{Message, MessageId, Origin, QueueId};
use sukkal::storage::{Creation, Deletion};

use super::subject::{LONG_S, Subject, ids_of, message, messages, metadata};

const S: Duration = Duration::from_secs(1);

impl Subject {
    /// A new queue with this metadata.
    async fn queue_with(&self, name: &str, keys: Value) -> QueueId {
        let queue = self.id(name);
        let creation = self.store().create_queue(&queue, &metadata(keys)).await;
        assert_eq!(creation, Ok(Creation::Created));
        queue
    }

    /// A queue that gives a message out so often, and the one for its dead letters.
    async fn queue_and_letters(&self, claim_count_max: i64) -> (QueueId, QueueId) {
        let keys = json!({"_max_claim_count": claim_count_max, "_dead_letter_queue": "letters"});
        (self.queue_with("q", keys).await, self.id("letters"))
    }

    /// Claims what is free and lets it go, so often.
    async fn try_in_vain(&self, queue: &QueueId, times: usize) {
        for _ in 0..times {
            let claim = self.claim(queue, 1_000, 60).await;
            self.release(queue, claim.id).await;
        }
    }

    async fn all(&self, queue: &QueueId) -> Vec<Message> {
        self.list(queue, None, 1_000).await
    }
}

fn origins_of(messages: &[Message]) -> Vec<Origin> {
    messages.iter().map(|message| message.origin.clone().expect("it is a dead letter")).collect()
}

fn origins(queue: &QueueId, ids: &[MessageId], claim_count: u32) -> Vec<Origin> {
    ids.iter().map(|id| Origin { queue: queue.name().clone(), id: *id, claim_count }).collect()
}

/// Rows 5.1-2, 5.1-3.
pub(super) async fn a_message_is_given_out_as_often_as_its_queue_says(subject: &Subject) {
    let (queue, letters) = subject.queue_and_letters(2).await;
    let ids = subject.post(&queue, &messages(LONG_S, 3)).await;
    for count in 1..=2 {
        let claim = subject.claim(&queue, 3, 60).await;
        assert_eq!(claim.messages.iter().map(|message| message.claim_count).collect::<Vec<_>>(), [count; 3]);
        subject.release(&queue, claim.id).await;
    }
    assert_eq!(subject.all(&letters).await, []);

    assert_eq!(subject.claim_for(&queue, 2, 60, 60).await, None);

    let dead = subject.all(&letters).await;
    assert_eq!(origins_of(&dead), origins(&queue, &ids[..2], 2));
    assert_eq!(subject.feed(&queue).await, ids[2..]);
    assert_eq!(subject.found(&queue, &ids).await, ids[2..]);
    assert_eq!(subject.count(&queue).await, 1);
}

/// Row 5.1-7.
pub(super) async fn a_dead_letter_is_a_new_message_that_says_the_same(subject: &Subject) {
    let (queue, letters) = subject.queue_and_letters(1).await;
    let id = subject.post(&queue, &[message(LONG_S, 7)]).await[0];
    let before = subject.get_messages(&queue, &[id]).await.remove(0);
    subject.try_in_vain(&queue, 1).await;

    subject.pop(&queue, 1).await;

    let dead = subject.all(&letters).await.remove(0);
    assert_ne!(dead.id, id);
    assert_eq!((dead.claim, dead.claim_count), (None, 1));
    assert_eq!((&dead.body, dead.created_s, dead.ttl_s), (&before.body, before.created_s, before.ttl_s));
    assert_eq!(subject.found(&letters, &[dead.id]).await, [dead.id]);
    assert_eq!(subject.acknowledge(&letters, dead.id, None).await, Deletion::Done);
    assert_eq!(subject.count(&letters).await, 0);
}

/// Row 5.1-7.
pub(super) async fn dead_letters_stand_at_the_end_in_the_order_of_their_deaths(subject: &Subject) {
    let (queue, letters) = subject.queue_and_letters(1).await;
    subject.create(&letters).await;
    let there = subject.post(&letters, &messages(LONG_S, 2)).await;
    let ids = subject.post(&queue, &messages(LONG_S, 30)).await;
    subject.try_in_vain(&queue, 1).await;

    for _ in 0..10 {
        subject.pop(&queue, 3).await;
    }

    let feed = subject.all(&letters).await;
    assert_eq!(ids_of(&feed[..2]), there);
    assert_eq!(origins_of(&feed[2..]), origins(&queue, &ids, 1));
}

/// Rows 5.1-2, 5.1-5, 6.5-12.
pub(super) async fn a_pop_counts_and_obeys_the_count(subject: &Subject) {
    let (queue, letters) = subject.queue_and_letters(1).await;
    let ids = subject.post(&queue, &messages(LONG_S, 4)).await;
    let claim = subject.claim(&queue, 2, 60).await;
    subject.release(&queue, claim.id).await;

    let popped = subject.pop(&queue, 3).await;

    assert_eq!(ids_of(&popped), ids[2..3]);
    assert_eq!(popped[0].claim_count, 0);
    assert_eq!(origins_of(&subject.all(&letters).await), origins(&queue, &ids[..2], 1));
    assert_eq!(subject.feed(&queue).await, ids[3..]);
}

/// Rows 5.1-4, 7.4-3.
pub(super) async fn the_count_survives_whatever_ends_a_claim(subject: &Subject) {
    let (queue, letters) = subject.queue_and_letters(3).await;
    let ids = subject.post(&queue, &messages(LONG_S, 2)).await;
    subject.try_in_vain(&queue, 1).await;
    subject.claim(&queue, 2, 60).await;
    subject.advance(&queue, 61 * S).await;
    let claim = subject.claim(&queue, 2, 60).await;
    for id in &ids {
        subject.store().return_message(&queue, claim.id, *id, 0).await.expect("the store answers");
    }

    assert_eq!(subject.claim_for(&queue, 2, 60, 60).await, None);

    assert_eq!(origins_of(&subject.all(&letters).await), origins(&queue, &ids, 3));
}

pub(super) async fn renewing_is_not_giving_out(subject: &Subject) {
    let (queue, letters) = subject.queue_and_letters(1).await;
    subject.post(&queue, &messages(LONG_S, 1)).await;
    let claim = subject.claim(&queue, 1, 60).await;

    for _ in 0..3 {
        subject.renew(&queue, claim.id, 60, 60).await;
    }

    assert_eq!(subject.get_claim(&queue, claim.id).await.map(|claim| claim.messages[0].claim_count), Some(1));
    assert_eq!(subject.all(&letters).await, []);
}

/// Rows 5.1-1, 5.1-4.
pub(super) async fn nobody_counts_where_nothing_says_so(subject: &Subject) {
    for (number, keys) in [
        json!({}),
        json!({"_max_claim_count": 1}),
        json!({"_dead_letter_queue": "letters"}),
        json!({"_max_claim_count": null, "_dead_letter_queue": "letters"}),
        json!({"_max_claim_count": 1, "_dead_letter_queue": null}),
    ]
    .into_iter()
    .enumerate()
    {
        let queue = subject.queue_with(&format!("q{number}"), keys).await;
        subject.post(&queue, &messages(LONG_S, 2)).await;
        subject.try_in_vain(&queue, 3).await;

        let popped = subject.pop(&queue, 2).await;

        assert_eq!(popped.iter().map(|message| message.claim_count).collect::<Vec<_>>(), [0, 0]);
    }
    assert_eq!(subject.get(&subject.id("letters")).await, None);
}

/// Row 5.1-3.
pub(super) async fn a_count_of_nothing_lets_nothing_out(subject: &Subject) {
    for (name, count) in [("zero", 0), ("below", -5)] {
        let keys = json!({"_max_claim_count": count, "_dead_letter_queue": format!("{name}.letters")});
        let queue = subject.queue_with(name, keys).await;
        let ids = subject.post(&queue, &messages(LONG_S, 2)).await;

        assert_eq!(subject.claim_for(&queue, 2, 60, 60).await, None);

        let letters = subject.all(&subject.id(&format!("{name}.letters"))).await;
        assert_eq!(origins_of(&letters), origins(&queue, &ids, 0));
    }
}

/// Row 5.1-8.
pub(super) async fn a_dead_letter_lives_on_or_as_its_queue_says(subject: &Subject) {
    for (name, ttl_s) in [("kept", None), ("given", Some(300))] {
        let keys = json!({
            "_max_claim_count": 0,
            "_dead_letter_queue": format!("{name}.letters"),
            "_dead_letter_queue_messages_ttl": ttl_s,
        });
        let queue = subject.queue_with(name, keys).await;
        let letters = subject.id(&format!("{name}.letters"));
        subject.post(&queue, &messages(100, 1)).await;
        subject.advance(&queue, 50 * S).await;
        subject.advance(&letters, 50 * S).await;
        subject.pop(&queue, 1).await;

        let dead = subject.all(&letters).await.remove(0);
        let (shown_s, left_s) = ttl_s.map_or((100, 50), |ttl_s| (ttl_s, ttl_s));
        assert_eq!(dead.ttl_s, shown_s, "{name}");
        assert!(dead.age_s >= 50, "{name}: {} s old", dead.age_s);
        subject.advance(&letters, (left_s - 3) * S).await;
        assert_eq!(subject.count(&letters).await, 1, "{name}");
        subject.advance(&letters, 6 * S).await;
        assert_eq!(subject.count(&letters).await, 0, "{name}");
    }
}

/// Row 5.1-9.
pub(super) async fn letters_may_die_again(subject: &Subject) {
    let first = subject.queue_with("a", json!({"_max_claim_count": 1, "_dead_letter_queue": "b"})).await;
    let second = subject.queue_with("b", json!({"_max_claim_count": 2, "_dead_letter_queue": "c"})).await;
    subject.post(&first, &[message(LONG_S, 7)]).await;
    subject.try_in_vain(&first, 1).await;
    subject.pop(&first, 1).await;
    let in_second = ids_of(&subject.all(&second).await);

    // It brings its count along.
    subject.try_in_vain(&second, 1).await;
    subject.pop(&second, 1).await;

    let dead = subject.all(&subject.id("c")).await;
    assert_eq!(origins_of(&dead), origins(&second, &in_second, 2));
    assert_eq!(dead[0].body, message(LONG_S, 7).body);
}

pub(super) async fn a_queue_may_be_its_own_dead_letter_queue(subject: &Subject) {
    let queue = subject.queue_with("q", json!({"_max_claim_count": 1, "_dead_letter_queue": "q"})).await;
    let ids = subject.post(&queue, &messages(LONG_S, 2)).await;
    let claim = subject.claim(&queue, 1, 60).await;
    subject.release(&queue, claim.id).await;

    subject.claim_for(&queue, 1, 60, 60).await;

    let feed = subject.all(&queue).await;
    assert_eq!(feed[0].id, ids[1]);
    assert_eq!(origins_of(&feed[1..]), origins(&queue, &ids[..1], 1));
}

/// Whether two queues are each other's dead-letter queues or one is its own, each further delivery moves a message once.
pub(super) async fn a_dead_letter_moves_once_per_delivery(subject: &Subject) {
    let to = |name: &str| json!({"_max_claim_count": 0, "_dead_letter_queue": name});
    let own = subject.queue_with("own", to("own")).await;
    let (first, second) = (subject.queue_with("a", to("b")).await, subject.queue_with("b", to("a")).await);
    for (queue, moved_to) in [(&own, &own), (&first, &second)] {
        let ids = subject.post(queue, &messages(LONG_S, 2)).await;
        // A pop of what has moved, as a claim, delivers it.
        assert_eq!(subject.claim_for(queue, 2, 60, 60).await, None);

        let claim = subject.claim(moved_to, 2, 60).await;

        assert_eq!(origins_of(&claim.messages), origins(queue, &ids, 0));
        assert_eq!(claim.messages.iter().map(|message| message.claim_count).collect::<Vec<_>>(), [1; 2]);
        subject.release(moved_to, claim.id).await;
        assert_eq!(subject.pop(moved_to, 2).await, []);
        let popped = subject.pop(queue, 2).await;
        assert_eq!(origins_of(&popped), origins(moved_to, &ids_of(&claim.messages), 1));
        assert_eq!(subject.count(queue).await + subject.count(moved_to).await, 0);
    }
}

/// A withdrawn claim is no delivery, and a popped letter that is restored was none.
pub(super) async fn what_was_delivered_to_nobody_moves_no_further(subject: &Subject) {
    let queue = subject.queue_with("q", json!({"_max_claim_count": 0, "_dead_letter_queue": "q"})).await;
    subject.post(&queue, &messages(LONG_S, 1)).await;
    assert_eq!(subject.claim_for(&queue, 1, 60, 60).await, None);
    let claim = subject.claim(&queue, 1, 60).await;
    subject.store().withdraw_claim(&queue, claim.id).await.expect("the store answers");

    let popped = subject.store().pop_messages(&queue, 1).await.expect("the store answers");
    assert_eq!(popped[0].message.id, claim.messages[0].id);
    subject.store().restore_messages(&queue, &popped).await.expect("the store answers");

    assert_eq!(subject.claimed_ids(&queue, 1, 60).await, ids_of(&claim.messages));
}

pub(super) async fn letters_arrive_though_their_source_is_deleted(subject: &Subject) {
    let (queue, letters) = subject.queue_and_letters(1).await;
    subject.post(&queue, &messages(LONG_S, 500)).await;
    subject.try_in_vain(&queue, 1).await;
    subject.claim_for(&queue, 500, 60, 60).await;
    subject.delete(&queue).await;
    subject.tidy_project().await;

    assert_eq!(subject.count(&letters).await, 500);
    assert_eq!(subject.names(subject.project(), None, 10).await, ["letters"]);
    // Its successor's letters are none that came before.
    subject.queue_and_letters(0).await;
    subject.post(&queue, &messages(LONG_S, 2)).await;
    subject.pop(&queue, 2).await;
    assert_eq!(subject.count(&letters).await, 502);
}

/// Row 5.1-9.
pub(super) async fn a_dead_letter_queue_is_created_as_often_as_it_is_needed(subject: &Subject) {
    let (queue, letters) = subject.queue_and_letters(0).await;

    for _ in 0..3 {
        let ids = subject.post(&queue, &messages(LONG_S, 2)).await;
        subject.pop(&queue, 2).await;

        assert_eq!(origins_of(&subject.all(&letters).await), origins(&queue, &ids, 0));
        assert_eq!(subject.names(subject.project(), None, 10).await, ["letters", "q"]);
        subject.delete(&letters).await;
    }
}

pub(super) async fn letters_of_many_takers_arrive_once(subject: &Subject) {
    let (queue, letters) = subject.queue_and_letters(2).await;
    let ids = subject.post(&queue, &messages(LONG_S, 400)).await;

    let takers = (0..16).map(|_| {
        let (subject, queue) = (subject.clone(), queue.clone());
        async move {
            while subject.count(&queue).await > 0 {
                if let Some(claim) = subject.claim_for(&queue, 7, 60, 60).await {
                    subject.release(&queue, claim.id).await;
                }
            }
        }
    });
    futures::future::join_all(takers).await;
    subject.tidy_project().await;

    let mut origins: Vec<_> = origins_of(&subject.all(&letters).await).into_iter().map(|origin| origin.id).collect();
    origins.sort_unstable();
    assert_eq!(origins, ids);
}
