//! Redrives: a task moves messages of a queue to other queues, each exactly once.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sukkal_domain::{
    Message, MessageId, NewMessage, Origin, QueueId, QueueKind, QueueName, Redrive, Selection, Sharding, Task, TaskId,
    TaskState, Tenant,
};
use sukkal_storage::{LeaseFence, RedriveStep, TaskCreation, run_redrive};
use uuid::Uuid;

use super::fair_helpers::in_shard;
use crate::conformance::support::subject::{
    LONG_S, Subject, bodies_of, body, client, ids_of, message, messages, without_ages,
};
use support::waiting::until;

const S: Duration = Duration::from_secs(1);
const ALL: Redrive = Redrive { to: None, selection: Selection::All, per_second: None };

/// Returns the metadata of a queue whose messages move to the queue `dead` after one delivery.
fn dead_lettering() -> Value {
    json!({"_max_claim_count": 1, "_dead_letter_queue": "dead"})
}

/// Returns the redrive of all messages to this queue.
pub(in crate::conformance) fn all_to(queue: &QueueId) -> Redrive {
    Redrive { to: Some(queue.name().clone()), ..ALL }
}

impl Subject {
    /// Posts messages to a new queue, all of which become dead letters in the queue `dead`. Returns
    /// the queue and their ids in it.
    pub(in crate::conformance) async fn dead_letters_from(
        &self,
        name: &str,
        posted: &[NewMessage],
    ) -> (QueueId, Vec<MessageId>) {
        let queue = self.queue_of(name, dead_lettering()).await;
        let ids = self.post_delivered(&queue, posted).await;
        let dead = self.id("dead");
        let all_dead = self.count(&dead).await + posted.len();
        while self.count(&queue).await > 0 {
            assert_eq!(self.pop(&queue, 100).await, []);
        }
        // A slow store forwards dead letters after the pop has returned.
        until("the dead letters arrive", async || self.count(&dead).await >= all_dead).await;
        self.set_metadata(&queue, json!({})).await;
        (queue, ids)
    }

    /// Creates a redrive without running it.
    pub(in crate::conformance) async fn create_redrive(&self, queue: &QueueId, redrive: &Redrive) -> TaskId {
        let id = TaskId::random();
        match self.store().create_redrive(queue, id, redrive).await {
            Ok(TaskCreation::Created(task)) => assert_eq!((task.id, task.state), (id, TaskState::Running)),
            other => panic!("no redrive: {other:?}"),
        }
        id
    }

    /// Creates a redrive and takes its lease.
    pub(in crate::conformance) async fn start_redrive(
        &self,
        queue: &QueueId,
        redrive: &Redrive,
    ) -> (TaskId, LeaseFence) {
        let id = self.create_redrive(queue, redrive).await;
        let fence = self.store().take_task_lease(queue, id, Uuid::new_v4()).await.expect("the store answers");
        (id, fence.expect("nobody has it"))
    }

    /// Creates a redrive, runs it until it ends, and returns it.
    pub(in crate::conformance) async fn redrive(&self, queue: &QueueId, redrive: &Redrive) -> Task {
        let id = self.create_redrive(queue, redrive).await;
        run_redrive(self.store(), queue, id).await;
        self.task(queue, id).await
    }

    pub(in crate::conformance) async fn task(&self, queue: &QueueId, id: TaskId) -> Task {
        self.store().get_task(queue, id).await.expect("the store answers").expect("the task exists")
    }

    pub(in crate::conformance) async fn contents(&self, queue: &QueueId) -> Vec<Message> {
        self.list(queue, None, 1_000).await
    }
}

/// Returns the state and the numbers of moved, skipped and remaining messages.
pub(in crate::conformance) fn progress(task: &Task) -> (TaskState, [u64; 3]) {
    (task.state, [task.moved, task.skipped, task.remaining])
}

fn done(moved: u64, skipped: u64) -> (TaskState, [u64; 3]) {
    (TaskState::Done, [moved, skipped, 0])
}

pub(in crate::conformance) async fn dead_letters_return_to_their_origins_in_order(subject: &Subject) {
    let dead = subject.id("dead");
    let (first, ids) = subject.dead_letters_from("a", &messages(LONG_S, 250)).await;
    let (second, _) = subject.dead_letters_from("b", &messages(LONG_S, 3)).await;
    let before = subject.contents(&dead).await;
    let there = subject.post(&first, &messages(LONG_S, 1)).await;

    let task = subject.redrive(&dead, &ALL).await;

    assert_eq!(progress(&task), done(253, 0));
    assert_eq!(subject.count(&dead).await, 0);
    let after = subject.contents(&first).await;
    assert_eq!(after[0].id, there[0]);
    assert_eq!(bodies_of(&after[1..]), bodies_of(&before[..250]));
    assert!(after[1..].iter().zip(&before).all(|(after, before)| after.origin == before.origin), "origins are kept");
    assert_eq!(after[1].origin.as_ref().map(|origin| origin.id), Some(ids[0]));
    assert!(after.iter().all(|message| !ids.contains(&message.id)), "a moved message has a new id");
    assert_eq!(bodies_of(&subject.contents(&second).await), bodies_of(&before[250..]));
}

/// All other subscriptions would get it again.
pub(in crate::conformance) async fn the_dead_letter_of_a_subscription_moves_only_to_a_named_queue(subject: &Subject) {
    let (dead, to) = (subject.queue("dead").await, subject.queue("to").await);
    let topic = QueueName::of_kind(QueueKind::Topic, "news").unwrap();
    subject.create(&QueueId::new(subject.project().clone(), topic.clone()).unwrap()).await;
    let origin = (Origin { queue: topic, id: MessageId::from_bits(9), claim_count: 0 }, 1_000_000_000);
    subject.post_dead_letter(&dead, message(LONG_S, 0), &origin, None).await;
    let letter = subject.contents(&dead).await.remove(0);
    assert_eq!((letter.origin.as_ref(), letter.created_s), (Some(&origin.0), origin.1));

    assert_eq!(progress(&subject.redrive(&dead, &ALL).await), done(0, 1));
    assert_eq!(progress(&subject.redrive(&dead, &all_to(&to)).await), done(1, 0));

    assert_eq!(subject.contents(&to).await[0].origin, Some(origin.0));
}

/// A moved message lives for its own time to live again, and all deliveries are before it again.
pub(in crate::conformance) async fn a_moved_message_has_a_fresh_life_and_no_deliveries(subject: &Subject) {
    let (queue, dead) = (subject.queue_of("q", dead_lettering()).await, subject.id("dead"));
    subject.post(&queue, &messages(300, 1)).await;
    let claim = subject.claim(&queue, 1, 60).await;
    subject.release(&queue, claim.id).await;
    assert_eq!(subject.pop(&queue, 1).await, []);
    for moved in [&queue, &dead] {
        subject.advance(moved, 200 * S).await;
    }
    // A claim that makes the dead letter live longer, which is not its own time to live.
    let claim = subject.claim(&dead, 1, 200).await;
    subject.release(&dead, claim.id).await;

    let began = Instant::now();
    assert_eq!(progress(&subject.redrive(&dead, &ALL).await), done(1, 0));

    let moved = subject.contents(&queue).await.remove(0);
    assert_eq!((moved.ttl_s, moved.claim_count), (300, 0));
    assert!(moved.age_s <= began.elapsed().as_secs() + 2, "{} s old", moved.age_s);
    subject.advance(&queue, 280 * S).await;
    let claim = subject.claim(&queue, 1, 60).await;
    assert_eq!((claim.messages[0].id, claim.messages[0].claim_count), (moved.id, 1));
    assert_eq!(claim.messages[0].origin, moved.origin);
    subject.release(&queue, claim.id).await;
    // It becomes a dead letter again, now of its second life.
    assert_eq!(subject.pop(&queue, 1).await, []);
    let again = subject.contents(&dead).await.remove(0);
    assert_eq!(again.origin.map(|origin| (origin.id, origin.claim_count)), Some((moved.id, 1)));
}

pub(in crate::conformance) async fn a_moved_message_expires_after_its_own_ttl(subject: &Subject) {
    let dead = subject.id("dead");
    let (queue, _) = subject.dead_letters_from("q", &messages(100, 2)).await;
    let other = subject.queue("other").await;
    subject.post(&queue, &messages(100, 1)).await;
    for old in [&queue, &dead, &other] {
        subject.advance(old, 90 * S).await;
    }

    assert_eq!(progress(&subject.redrive(&dead, &ALL).await), done(2, 0));
    let began = Instant::now();
    assert_eq!(progress(&subject.redrive(&queue, &all_to(&other)).await), done(3, 0));

    let moved = subject.contents(&other).await;
    let age_max_s = began.elapsed().as_secs() + 2;
    assert!(moved.iter().all(|message| message.ttl_s == 100 && message.age_s <= age_max_s));
    subject.advance(&other, 80 * S).await;
    assert_eq!(subject.count(&other).await, 3);
    subject.advance(&other, 23 * S).await;
    assert_eq!(subject.count(&other).await, 0);
}

pub(in crate::conformance) async fn expired_messages_are_not_moved(subject: &Subject) {
    let (queue, other) = (subject.queue("q").await, subject.queue("other").await);
    subject.post(&queue, &messages(60, 400)).await;
    let kept = subject.post(&queue, &messages(LONG_S, 2)).await;
    let id = subject.create_redrive(&queue, &all_to(&other)).await;
    subject.advance(&queue, 62 * S).await;

    run_redrive(subject.store(), &queue, id).await;

    assert_eq!(progress(&subject.task(&queue, id).await), done(2, 0));
    assert_eq!(subject.count(&other).await, kept.len());
}

/// Messages that cannot be moved stay as they are: claimed ones, and those without a target.
pub(in crate::conformance) async fn messages_that_cannot_be_moved_are_skipped(subject: &Subject) {
    let dead = subject.id("dead");
    let (alive, _) = subject.dead_letters_from("alive", &messages(LONG_S, 5)).await;
    let (gone, _) = subject.dead_letters_from("gone", &messages(LONG_S, 2)).await;
    subject.delete(&gone).await;
    let plain = subject.post(&dead, &messages(LONG_S, 3)).await;
    let claim = subject.claim(&dead, 2, 60).await;
    let returned = claim.messages[0].id;
    subject.store().return_message(&dead, claim.id, returned, 30).await.expect("the store answers");
    let before = subject.feed(&dead).await;
    assert_eq!(before[before.len() - 3..], plain);

    let task = subject.redrive(&dead, &ALL).await;

    assert_eq!(progress(&task), done(3, 7));
    assert_eq!(subject.feed(&dead).await, before[3..]);
    assert_eq!(subject.held_by(&dead, claim.id).await, Some(vec![claim.messages[1].id]));
    assert_eq!(subject.count(&alive).await, 3);
    assert_eq!(subject.get(&gone).await, None);
}

pub(in crate::conformance) async fn a_message_does_not_move_to_its_own_queue(subject: &Subject) {
    let own = subject.queue_of("own", json!({"_max_claim_count": 1, "_dead_letter_queue": "own"})).await;
    subject.post_delivered(&own, &messages(LONG_S, 2)).await;
    assert_eq!(subject.pop(&own, 2).await, []);
    let before = without_ages(subject.contents(&own).await);
    assert!(before.iter().all(|message| message.origin.as_ref().is_some_and(|origin| &origin.queue == own.name())));

    assert_eq!(progress(&subject.redrive(&own, &ALL).await), done(0, 2));

    assert_eq!(without_ages(subject.contents(&own).await), before);
}

pub(in crate::conformance) async fn a_redrive_to_a_queue_moves_every_available_message(subject: &Subject) {
    let dead = subject.id("dead");
    let (_, ids) = subject.dead_letters_from("q", &messages(LONG_S, 2)).await;
    let plain = subject.post(&dead, &messages(LONG_S, 2)).await;
    let other = subject.queue("other").await;

    let task = subject.redrive(&dead, &all_to(&other)).await;

    assert_eq!(progress(&task), done(4, 0));
    let moved = subject.contents(&other).await;
    let origins: Vec<_> = moved.iter().map(|message| message.origin.as_ref().map(|origin| origin.id)).collect();
    assert_eq!(origins, [Some(ids[0]), Some(ids[1]), None, None]);
    assert_eq!(subject.found(&dead, &plain).await, []);
}

pub(in crate::conformance) async fn a_limit_moves_the_oldest_messages_that_can_be_moved(subject: &Subject) {
    let dead = subject.id("dead");
    let (gone, _) = subject.dead_letters_from("gone", &messages(LONG_S, 150)).await;
    let (queue, _) = subject.dead_letters_from("q", &messages(LONG_S, 150)).await;
    subject.delete(&gone).await;
    let before = subject.contents(&dead).await;

    let first = Redrive { selection: Selection::First(120), ..ALL };
    assert_eq!(progress(&subject.redrive(&dead, &first).await), done(120, 150));

    assert_eq!(bodies_of(&subject.contents(&queue).await), bodies_of(&before[150..270]));
    assert_eq!(subject.feed(&dead).await, [&ids_of(&before[..150])[..], &ids_of(&before[270..])].concat());
    assert_eq!(progress(&subject.redrive(&dead, &first).await), done(30, 150));
}

pub(in crate::conformance) async fn named_messages_are_moved_and_the_others_stay(subject: &Subject) {
    let dead = subject.id("dead");
    let (queue, _) = subject.dead_letters_from("q", &messages(LONG_S, 6)).await;
    let before = subject.contents(&dead).await;
    let ids = ids_of(&before);
    let claim = subject.claim(&dead, 1, 60).await;
    subject.delete_messages(&dead, &ids[1..2]).await;

    let named = Redrive { selection: Selection::Ids([&ids[..3], &ids[4..5]].concat()), ..ALL };
    assert_eq!(progress(&subject.redrive(&dead, &named).await), done(2, 2));

    assert_eq!(bodies_of(&subject.contents(&queue).await), [before[2].body.clone(), before[4].body.clone()]);
    assert_eq!(subject.feed(&dead).await, [ids[3], ids[5]]);
    assert_eq!(subject.held_by(&dead, claim.id).await, Some(vec![ids[0]]));
}

/// Otherwise each message without a target would need a step of its own.
pub(in crate::conformance) async fn a_pace_and_a_limit_apply_only_to_messages_that_move(subject: &Subject) {
    let dead = subject.queue("dead").await;
    let plain = subject.post(&dead, &messages(LONG_S, 300)).await;
    let (queue, _) = subject.dead_letters_from("q", &messages(LONG_S, 6)).await;
    let before = subject.contents(&dead).await;
    let ids = ids_of(&before);
    let named = Selection::Ids([&ids[301..303], &plain[..2], &ids[303..304]].concat());

    for (redrive, moved, skipped, steps_max) in [
        (Redrive { selection: Selection::First(1), ..ALL }, 1, 300, 6),
        (Redrive { selection: named, per_second: Some(1), ..ALL }, 3, 2, 4),
        (Redrive { per_second: Some(1), ..ALL }, 2, 300, 7),
    ] {
        let (id, fence) = subject.start_redrive(&dead, &redrive).await;
        let mut steps = 1;
        while let RedriveStep::Continue { moved, .. } = subject.store().redrive_step(&dead, id, fence).await.unwrap() {
            assert!(moved <= 1, "{moved} messages in a step");
            steps += 1;
        }

        assert_eq!(progress(&subject.task(&dead, id).await), done(moved, skipped));
        assert!(steps <= steps_max, "{steps} steps for {redrive:?}");
    }
    assert_eq!(bodies_of(&subject.contents(&queue).await), bodies_of(&before[300..]));
    assert_eq!(subject.feed(&dead).await, plain);
}

/// Two queues that are each other's dead-letter queue: a redrive ends although what it has moved
/// comes back.
pub(in crate::conformance) async fn messages_that_arrive_later_are_not_covered(subject: &Subject) {
    let dead = subject.id("dead");
    let (queue, _) = subject.dead_letters_from("q", &messages(LONG_S, 150)).await;
    let mut polls = 0;
    while subject.count(&dead).await < 150 {
        polls += 1;
        assert!(polls < 10_000, "the dead letters do not arrive");
    }
    subject.set_metadata(&queue, dead_lettering()).await;
    let (id, fence) = subject.start_redrive(&dead, &ALL).await;

    let mut steps = 0;
    while let RedriveStep::Continue { .. } = subject.store().redrive_step(&dead, id, fence).await.unwrap() {
        let moved = subject.count(&queue).await;
        subject.deliver_once(&queue, moved).await;
        assert_eq!(subject.pop(&queue, 1_000).await, []);
        steps += 1;
        assert!(steps < 10, "the redrive does not end");
    }

    assert_eq!(progress(&subject.task(&dead, id).await), done(150, 0));
    assert_eq!((subject.count(&queue).await, subject.count(&dead).await), (0, 150));
}

pub(in crate::conformance) async fn large_messages_move_in_short_steps(subject: &Subject) {
    let (queue, other) = (subject.queue("q").await, subject.queue("other").await);
    let large = || NewMessage { body: body(&json!("x".repeat(200_000))), ..message(LONG_S, 0) };
    let mut ids = Vec::new();
    for _ in 0..7 {
        ids.extend(subject.post(&queue, &[large()]).await);
    }
    for selection in [Selection::Ids(ids), Selection::All] {
        let (from, to) = if selection == Selection::All { (&other, &queue) } else { (&queue, &other) };
        let (id, fence) = subject.start_redrive(from, &Redrive { selection, ..all_to(to) }).await;

        while let RedriveStep::Continue { moved, .. } = subject.store().redrive_step(from, id, fence).await.unwrap() {
            assert!(moved <= 2, "{moved} messages of 200 KB in a step");
        }

        assert_eq!(progress(&subject.task(from, id).await), done(7, 0));
    }
    assert_eq!(subject.count(&queue).await, 7);
}

pub(in crate::conformance) async fn a_fair_queue_assigns_shards_to_moved_messages(subject: &Subject) {
    let fair = subject.queue_of("fair", json!({ "_shards": 64, "_shards_per_tenant": 2 })).await;
    let source = subject.fair_queue("source", 8).await;
    for poster in [7, 7, 8] {
        subject.post_as(&client(poster), &source, &[in_shard(3)]).await;
    }

    assert_eq!(progress(&subject.redrive(&source, &all_to(&fair)).await), done(3, 0));

    assert_eq!(subject.holdings(&source).await, (Vec::new(), [0; 3]));
    let sharding = Sharding::new(64, 2).expect("it is one");
    let moved = subject.contents(&fair).await;
    let assigned = |message: &Message| sharding.assign(&Tenant::of_poster(message.poster)).shards;
    let [busy, other] = [assigned(&moved[0]), assigned(&moved[2])];
    let mut expected = vec![(busy[0].number(), 1), (busy[1].number(), 1), (other[0].number(), 1)];
    expected.sort_unstable();
    assert_eq!(subject.available(&fair).await, expected);
}

/// A process that runs the same task at the same time moves nothing twice.
pub(in crate::conformance) async fn concurrent_claims_and_redrives_lose_and_double_nothing(subject: &Subject) {
    let dead = subject.id("dead");
    let (queue, ids) = subject.dead_letters_from("q", &messages(LONG_S, 400)).await;
    let id = subject.create_redrive(&dead, &ALL).await;

    let runners = (0..3).map(|_| run_redrive(subject.store(), &dead, id));
    let worker = async {
        let mut claimed = Vec::new();
        while subject.task(&dead, id).await.state == TaskState::Running {
            if let Some(claim) = subject.claim_for(&dead, 7, 60, 60).await {
                subject.delete_messages(&dead, &ids_of(&claim.messages)).await;
                claimed.extend(claim.messages);
            }
        }
        claimed
    };
    let (_, claimed) = futures::future::join(futures::future::join_all(runners), worker).await;

    let left = [subject.contents(&dead).await, subject.contents(&queue).await].concat();
    let mut origins: Vec<_> =
        claimed.into_iter().chain(left).map(|message| message.origin.expect("it was a dead letter").id).collect();
    origins.sort_unstable();
    assert_eq!(origins, ids);
}
