//! Dead letters and redrives between two stores, each of any kind, or within one Redis: messages
//! arrive exactly once, wherever a step is interrupted.

use std::sync::{Arc, Mutex, Weak};

use async_trait::async_trait;
use serde_json::json;
use sukkal_domain::{Body, MessageId, NewMessage, QueueId, Redrive, Selection, TaskId, TaskState};
use sukkal_storage::{Arrival, Destinations, Error, LeaseFence, MovedBatch, QueueEpoch, RedriveStep};
use tokio::sync::Notify;

use super::redrives::{all_to, progress};
use crate::conformance::support::drivers;
use crate::conformance::support::subject::{LONG_S, Subject, bodies_of, client, message, messages, metadata};
use support::waiting::until;

const OK: &str = "the store answers";
/// More than one step of a forwarder delivers.
const MANY: usize = 45;
const ALL: Redrive = Redrive { to: None, selection: Selection::All, per_second: None };

/// Two stores. Queues whose names begin with `far` are in the second one.
struct TwoStores {
    near: Subject,
    far: Subject,
    network: Mutex<Network>,
    /// The last batch that was to be delivered.
    last_batch: Mutex<Option<MovedBatch>>,
    /// Releases a reply that no queue was found.
    released: Notify,
    /// Notified when there is such a reply.
    found_no_queue: Notify,
}

/// What happens to deliveries between the stores.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Network {
    Works,
    /// No delivery reaches its store.
    Down,
    /// The reply to each delivery is lost.
    LosesReplies,
    /// The catalogue has no queue, so no store is asked. The reply comes when the test releases it.
    FindsNoQueue,
}

#[async_trait]
impl Destinations for TwoStores {
    async fn epoch(&self, queue: &QueueId) -> Result<Option<QueueEpoch>, Error> {
        self.of(queue).store().queue_epoch(queue).await
    }

    async fn create(&self, queue: &QueueId) -> Result<(), Error> {
        self.of(queue).store().create_queue(queue, &metadata(json!({}))).await.map(drop)
    }

    async fn deliver(&self, batch: &MovedBatch) -> Result<Arrival, Error> {
        *self.last_batch.lock().unwrap() = Some(batch.clone());
        let network = *self.network.lock().unwrap();
        let broken = Err(Error::Unavailable("the test has cut the network".to_owned()));
        match network {
            Network::Works => self.of(&batch.target).store().receive_moved(batch).await,
            Network::Down => broken,
            Network::LosesReplies => self.of(&batch.target).store().receive_moved(batch).await.and(broken),
            Network::FindsNoQueue => {
                self.found_no_queue.notify_one();
                self.released.notified().await;
                Ok(Arrival::NoQueue)
            }
        }
    }
}

impl TwoStores {
    fn new(near: Subject, far: Subject) -> Arc<Self> {
        let far = far.with_project(near.project());
        let stores = Arc::new(Self {
            near,
            far,
            network: Mutex::new(Network::Works),
            last_batch: Mutex::new(None),
            released: Notify::new(),
            found_no_queue: Notify::new(),
        });
        let destinations: Arc<dyn Destinations> = stores.clone();
        stores.near.set_destinations(Arc::downgrade(&destinations));
        stores.far.set_destinations(Arc::downgrade(&destinations));
        stores
    }

    fn of(&self, queue: &QueueId) -> &Subject {
        if queue.name().as_str().starts_with("far") { &self.far } else { &self.near }
    }

    fn set_network(&self, network: Network) {
        *self.network.lock().unwrap() = network;
    }

    /// Creates a queue in the first store that delivers each message once, and whose dead letters
    /// go to `far-dead`.
    async fn queue_with_far_dead_letters(&self) -> (QueueId, QueueId) {
        let keys = json!({ "_max_claim_count": 1, "_dead_letter_queue": "far-dead" });
        (self.near.queue_of("q", keys).await, self.far.id("far-dead"))
    }

    /// Returns the ids that the dead letters in `far-dead` had before.
    async fn arrived(&self) -> Vec<MessageId> {
        let messages = self.far.contents(&self.far.id("far-dead")).await;
        messages.into_iter().map(|message| message.origin.expect("it is a dead letter").id).collect()
    }

    /// Maintains the first store until `far-dead` has this number of messages. A slow store
    /// forwards messages after maintenance has returned.
    async fn maintain_until_arrived(&self, count: usize) {
        until("the messages arrive", async || {
            let has_arrived = self.arrived().await.len() >= count;
            if !has_arrived {
                self.near.run_maintenance().await;
            }
            has_arrived
        })
        .await;
    }

    /// Starts a redrive whose first step is interrupted by the network.
    async fn interrupted_redrive(&self, queue: &QueueId, redrive: &Redrive, network: Network) -> (TaskId, LeaseFence) {
        let (id, fence) = self.of(queue).start_redrive(queue, redrive).await;
        self.set_network(network);
        self.of(queue).store().redrive_step(queue, id, fence).await.expect_err("the network is broken");
        (id, fence)
    }

    async fn assert_consistent(&self) {
        self.near.assert_consistent().await;
        self.far.assert_consistent().await;
    }
}

macro_rules! pairs {
    ([$($name:ident: $near:ident, $far:ident);+], $cases:tt) => { $(pairs! { $name $near $far $cases })+ };
    ($name:ident $near:ident $far:ident [$($case:ident),+ $(,)?]) => {
        mod $name {
            use super::{TwoStores, drivers};

            $(#[tokio::test]
            async fn $case() {
                let stores = TwoStores::new(drivers::$near(), drivers::$far());
                super::$case(&stores).await;
                stores.assert_consistent().await;
            })+
        }
    };
}

pairs! {
    [
        embedded_to_redis: embedded, redis;
        redis_to_embedded: redis, embedded;
        redis_to_redis: redis, redis_cluster;
        one_redis: redis, redis;
        embedded_to_embedded: embedded, memory
    ],
    [
        dead_letters_arrive_once_and_in_order,
        a_dead_letter_keeps_its_life_and_its_claim_count,
        dead_letters_that_have_arrived_do_not_arrive_in_a_later_queue,
        a_deleted_queue_delivers_its_dead_letters,
        dead_letters_enter_a_fair_queue,
        a_redrive_returns_dead_letters_to_their_origins,
        messages_of_a_redrive_to_a_deleted_queue_return,
        a_delayed_return_doubles_no_message,
        messages_of_a_redrive_whose_origin_is_deleted_are_skipped,
        redriven_messages_of_a_deleted_queue_do_not_return,
        redriven_messages_that_have_arrived_do_not_return,
        bodies_in_an_outbox_are_found_and_replaced,
    ]
}

async fn dead_letters_arrive_once_and_in_order(stores: &TwoStores) {
    let (queue, dead) = stores.queue_with_far_dead_letters().await;
    let mut ids = stores.near.post_delivered(&queue, &messages(LONG_S, MANY - 1)).await;
    stores.set_network(Network::Down);
    assert_eq!(stores.near.pop(&queue, 100).await, []);
    ids.extend(stores.near.post_delivered(&queue, &messages(LONG_S, 1)).await);
    assert_eq!(stores.near.claim_for(&queue, 1, 60, 60).await, None);
    stores.near.run_maintenance().await;
    assert_eq!((stores.near.count(&queue).await, stores.far.get(&dead).await), (0, None));

    stores.set_network(Network::LosesReplies);
    stores.near.run_maintenance().await;
    // The queue is created after its absence is known, and that reply is lost too.
    stores.far.store().create_queue(&dead, &metadata(json!({}))).await.expect(OK);
    stores.maintain_until_arrived(1).await;
    stores.set_network(Network::Down);
    stores.near.run_maintenance().await;
    let first = stores.arrived().await;
    assert!(!first.is_empty() && first.len() < MANY, "{} have arrived", first.len());
    stores.set_network(Network::Works);
    stores.maintain_until_arrived(MANY).await;

    assert_eq!(stores.arrived().await, ids);
    let bodies: Vec<_> = messages(LONG_S, MANY - 1).into_iter().map(|message| message.body).collect();
    assert_eq!(bodies_of(&stores.far.contents(&dead).await)[..MANY - 1], bodies);
    assert_eq!(stores.near.summary(&queue).await.totals.dead_lettered, MANY as u64);
    // Some messages of the last delivery have arrived before.
    for network in [Network::LosesReplies, Network::Works] {
        stores.set_network(network);
        ids.extend(stores.near.post_delivered(&queue, &messages(LONG_S, 3)).await);
        assert_eq!(stores.near.pop(&queue, 3).await, []);
        assert_eq!(stores.arrived().await, ids);
    }
}

async fn a_dead_letter_keeps_its_life_and_its_claim_count(stores: &TwoStores) {
    let (queue, dead) = stores.queue_with_far_dead_letters().await;
    let keys = json!({ "_max_claim_count": 1, "_dead_letter_queue": "third" });
    stores.far.queue_of("far-dead", keys).await;
    let ids = stores.near.post(&queue, &messages(300, 2)).await;
    let claim = stores.near.claim_for(&queue, 1, 600, 100).await.expect("a message is available");
    stores.near.release(&queue, claim.id).await;

    assert_eq!(stores.near.claim(&queue, 2, 60).await.messages[0].id, ids[1]);

    let dead_letter = stores.far.contents(&dead).await.remove(0);
    assert_eq!((dead_letter.ttl_s, dead_letter.claim_count), (700, 1));
    let origin = dead_letter.origin.expect("it is a dead letter");
    assert_eq!((origin.queue, origin.id, origin.claim_count), (queue.name().clone(), ids[0], 1));
    // It is delivered once before it moves again, and then it moves back to the first store.
    let claim = stores.far.claim(&dead, 1, 60).await;
    assert_eq!(claim.messages[0].id, dead_letter.id);
    stores.far.release(&dead, claim.id).await;
    assert_eq!(stores.far.pop(&dead, 1).await, []);
    let third = stores.near.contents(&stores.near.id("third")).await;
    assert_eq!(third[0].origin.as_ref().map(|origin| (origin.id, origin.claim_count)), Some((dead_letter.id, 2)));
}

async fn dead_letters_that_have_arrived_do_not_arrive_in_a_later_queue(stores: &TwoStores) {
    let (queue, dead) = stores.queue_with_far_dead_letters().await;
    stores.far.create(&dead).await;
    stores.near.post_delivered(&queue, &messages(LONG_S, 5)).await;
    stores.set_network(Network::LosesReplies);
    assert_eq!(stores.near.pop(&queue, 100).await, []);
    assert_eq!(stores.far.count(&dead).await, 5);
    stores.far.delete(&dead).await;

    stores.set_network(Network::Works);
    stores.near.run_maintenance().await;
    assert_eq!(stores.far.get(&dead).await, None);
    let later = stores.near.post_delivered(&queue, &messages(LONG_S, 2)).await;
    assert_eq!(stores.near.pop(&queue, 100).await, []);

    assert_eq!(stores.arrived().await, later);
}

async fn a_deleted_queue_delivers_its_dead_letters(stores: &TwoStores) {
    let (queue, _) = stores.queue_with_far_dead_letters().await;
    let ids = stores.near.post_delivered(&queue, &messages(LONG_S, MANY)).await;
    stores.set_network(Network::Down);
    assert_eq!(stores.near.pop(&queue, 100).await, []);
    stores.near.delete(&queue).await;
    stores.set_network(Network::Works);
    stores.maintain_until_arrived(MANY).await;
    assert_eq!(stores.arrived().await, ids);

    // The numbers of a queue that is created again follow those of the deleted one.
    stores.queue_with_far_dead_letters().await;
    let more = stores.near.post_delivered(&queue, &messages(LONG_S, 3)).await;
    assert_eq!(stores.near.pop(&queue, 100).await, []);
    assert_eq!(stores.arrived().await, [ids, more].concat());
}

async fn dead_letters_enter_a_fair_queue(stores: &TwoStores) {
    let (queue, dead) = stores.queue_with_far_dead_letters().await;
    stores.far.queue_of("far-dead", json!({ "_shards": 8 })).await;
    for tenant in 1..=3 {
        stores.near.post_as(&client(tenant), &queue, &messages(LONG_S, 4)).await;
    }
    stores.near.deliver_once(&queue, 12).await;

    assert_eq!(stores.near.pop(&queue, 100).await, []);

    let details = stores.far.store().get_stats(&dead, true).await.expect(OK).details.expect("they were requested");
    assert_eq!((details.unsharded.available, stores.far.count(&dead).await), (0, 12));
    assert_eq!(stores.far.pop(&dead, 100).await.len(), 12);
}

async fn a_redrive_returns_dead_letters_to_their_origins(stores: &TwoStores) {
    let (queue, dead) = stores.queue_with_far_dead_letters().await;
    let keys = json!({ "_max_claim_count": 1, "_dead_letter_queue": "far-dead" });
    let gone = stores.near.queue_of("gone", keys).await;
    for source in [&gone, &queue] {
        stores.near.post_delivered(source, &messages(LONG_S, MANY)).await;
        assert_eq!(stores.near.pop(source, 100).await, []);
    }
    stores.near.delete(&gone).await;
    stores.far.post(&dead, &messages(LONG_S, 1)).await;
    let before = stores.far.contents(&dead).await;

    let (id, fence) = stores.far.start_redrive(&dead, &ALL).await;
    for network in [Network::Down, Network::LosesReplies, Network::LosesReplies] {
        stores.set_network(network);
        stores.far.store().redrive_step(&dead, id, fence).await.expect_err("the network is broken");
    }
    stores.set_network(Network::Works);
    while stores.far.store().redrive_step(&dead, id, fence).await.expect(OK) != RedriveStep::Ended {}

    let (moved, skipped) = (MANY as u64, MANY as u64 + 1);
    assert_eq!(progress(&stores.far.task(&dead, id).await), (TaskState::Done, [moved, skipped, 0]));
    let returned = stores.near.contents(&queue).await;
    assert_eq!(bodies_of(&returned), bodies_of(&before[MANY..2 * MANY]));
    assert!(returned.iter().all(|message| (message.ttl_s, message.claim_count) == (LONG_S, 0)));
    assert_eq!((stores.far.count(&dead).await, stores.near.get(&gone).await), (MANY + 1, None));
}

async fn messages_of_a_redrive_to_a_deleted_queue_return(stores: &TwoStores) {
    for (name, shards) in [("plain", 1), ("fair", 4)] {
        let keys = json!({ "_shards": shards, "_max_claim_count": 9, "_dead_letter_queue": "letters" });
        assert_redrive_returns(stores, &stores.near.queue_of(name, keys).await).await;
    }
}

async fn assert_redrive_returns(stores: &TwoStores, queue: &QueueId) {
    let other = stores.far.queue("far-other").await;
    stores.near.post(queue, &messages(LONG_S, MANY)).await;
    let claim = stores.near.claim(queue, 2, 60).await;
    stores.near.release(queue, claim.id).await;
    let shown = async || {
        let messages = stores.near.contents(queue).await;
        messages.into_iter().map(|one| (one.id, one.body, one.ttl_s, one.claim_count)).collect::<Vec<_>>()
    };
    let before = shown().await;
    let named = Selection::Ids(before[..20].iter().map(|(id, ..)| *id).collect());
    for (selection, moved) in [(Selection::All, MANY), (Selection::First(30), 30), (named, 20)] {
        let redrive = Redrive { selection, ..all_to(&other) };
        let (id, fence) = stores.interrupted_redrive(queue, &redrive, Network::Down).await;
        let selected = stores.near.task(queue, id).await.remaining + moved as u64;
        assert_eq!(shown().await, before[moved..]);
        let late = stores.last_batch.lock().unwrap().clone().expect("it was to be delivered");

        stores.far.delete(&other).await;
        stores.set_network(Network::Works);
        stores.near.run_maintenance().await;

        assert_eq!(shown().await, before);
        assert_eq!(stores.near.store().redrive_step(queue, id, fence).await, Ok(RedriveStep::Ended));
        let task = stores.near.task(queue, id).await;
        assert_eq!(progress(&task), (TaskState::Failed, [0, 0, selected]));
        assert_eq!(task.error.as_deref(), Some("The queue far-other does not exist any more."));
        // A forwarder that has listed the outbox before may try to deliver its messages now.
        stores.far.create(&other).await;
        assert_eq!(stores.far.store().receive_moved(&late).await, Ok(Arrival::NoQueue));
    }
    assert_eq!(stores.near.redrive(queue, &all_to(&other)).await.moved, MANY as u64);
    assert_eq!((stores.near.count(queue).await, stores.far.count(&other).await), (0, MANY));
    stores.far.delete(&other).await;
}

/// One forwarder finds no queue, and its return is delayed. Meanwhile the queue is created again,
/// and another forwarder delivers.
async fn a_delayed_return_doubles_no_message(stores: &TwoStores) {
    let (queue, other) = (stores.near.queue("q").await, stores.far.queue("far-other").await);
    let ids = stores.near.post(&queue, &messages(LONG_S, 5)).await;
    stores.interrupted_redrive(&queue, &all_to(&other), Network::Down).await;
    stores.far.delete(&other).await;

    stores.set_network(Network::FindsNoQueue);
    let delayed = stores.near.run_maintenance();
    let meanwhile = async {
        stores.found_no_queue.notified().await;
        stores.far.create(&other).await;
        // The reply to the delivery is lost, so that the messages stay in the outbox if they
        // arrive.
        stores.set_network(Network::LosesReplies);
        stores.near.run_maintenance().await;
        stores.set_network(Network::Works);
        stores.released.notify_one();
    };
    tokio::join!(delayed, meanwhile);

    assert_eq!((stores.near.feed(&queue).await, stores.far.count(&other).await), (ids, 0));
}

async fn messages_of_a_redrive_whose_origin_is_deleted_are_skipped(stores: &TwoStores) {
    let (gone, dead) = stores.queue_with_far_dead_letters().await;
    let keys = json!({ "_max_claim_count": 1, "_dead_letter_queue": "far-dead" });
    let alive = stores.near.queue_of("alive", keys).await;
    for (source, count) in [(&gone, 5), (&alive, 3)] {
        stores.near.post_delivered(source, &messages(LONG_S, count)).await;
        assert_eq!(stores.near.pop(source, 100).await, []);
    }
    let before = stores.far.feed(&dead).await;
    let (id, fence) = stores.interrupted_redrive(&dead, &ALL, Network::Down).await;

    stores.near.delete(&gone).await;
    stores.set_network(Network::Works);
    stores.far.run_maintenance().await;
    while stores.far.store().redrive_step(&dead, id, fence).await.expect(OK) != RedriveStep::Ended {}

    assert_eq!(progress(&stores.far.task(&dead, id).await), (TaskState::Done, [3, 5, 0]));
    assert_eq!(stores.far.feed(&dead).await, before[..5]);
    assert_eq!((stores.near.get(&gone).await, stores.near.count(&alive).await), (None, 3));
}

async fn redriven_messages_of_a_deleted_queue_do_not_return(stores: &TwoStores) {
    let (queue, other) = (stores.near.queue("q").await, stores.far.queue("far-other").await);
    stores.near.post(&queue, &messages(LONG_S, 5)).await;
    stores.interrupted_redrive(&queue, &all_to(&other), Network::Down).await;

    stores.far.delete(&other).await;
    stores.near.delete(&queue).await;
    stores.near.create(&queue).await;
    stores.set_network(Network::Works);
    stores.near.run_maintenance().await;

    assert_eq!((stores.near.count(&queue).await, stores.far.get(&other).await), (0, None));
    stores.far.create(&other).await;
    stores.near.run_maintenance().await;
    assert_eq!(stores.far.count(&other).await, 0);
}

/// They were deleted with their new queue.
async fn redriven_messages_that_have_arrived_do_not_return(stores: &TwoStores) {
    let (queue, other) = (stores.near.queue("q").await, stores.far.queue("far-other").await);
    stores.near.post(&queue, &messages(LONG_S, 5)).await;
    stores.interrupted_redrive(&queue, &all_to(&other), Network::LosesReplies).await;
    assert_eq!(stores.far.count(&other).await, 5);

    stores.far.delete(&other).await;
    stores.set_network(Network::Works);
    stores.near.run_maintenance().await;

    assert_eq!((stores.near.count(&queue).await, stores.far.get(&other).await), (0, None));
}

async fn bodies_in_an_outbox_are_found_and_replaced(stores: &TwoStores) {
    let sealed = |content: u8| Body::sealed(&[content; 40]).unwrap();
    let (queue, dead) = stores.queue_with_far_dead_letters().await;
    let posted: Vec<_> = (0..10).map(|number| NewMessage { body: sealed(number), ..message(LONG_S, 0) }).collect();
    stores.near.post_delivered(&queue, &posted).await;
    stores.set_network(Network::Down);
    assert_eq!(stores.near.pop(&queue, 100).await, []);

    let found = stores.near.sealed_bodies(&queue).await;
    let replacements: Vec<_> = found.iter().map(|stored| stored.clone().replaced_by(&sealed(77)).unwrap()).collect();
    assert_eq!(stores.near.store().replace_sealed(&queue, &replacements[2..5]).await, Ok(3));
    // Three of them are no longer as they were listed.
    assert_eq!(stores.near.store().replace_sealed(&queue, &replacements).await, Ok(7));
    stores.set_network(Network::Works);
    stores.near.run_maintenance().await;

    assert_eq!(bodies_of(&stores.far.contents(&dead).await), vec![sealed(77); 10]);
}

/// The process ends before or after the messages have arrived, and another one opens the file.
#[tokio::test]
async fn messages_in_the_outbox_of_a_file_arrive_once_after_a_crash() {
    for network in [Network::Down, Network::LosesReplies] {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let stores = TwoStores::new(drivers::embedded_in(folder.clone()), drivers::memory());
        let (queue, dead) = stores.queue_with_far_dead_letters().await;
        stores.far.create(&dead).await;
        let ids = stores.near.post_delivered(&queue, &messages(LONG_S, MANY)).await;
        stores.set_network(network);
        assert_eq!(stores.near.pop(&queue, 100).await, []);
        let (far, project) = (stores.far.clone(), stores.near.project().clone());
        drop(stores);

        let near = drivers::embedded_in(folder).with_project(&project);
        let reopened = TwoStores::new(near, far);
        // The destinations of the other store are those of the process that has ended.
        reopened.near.run_maintenance().await;

        assert_eq!(reopened.arrived().await, ids);
        reopened.assert_consistent().await;
    }
}

/// While the stores are being closed, nothing moves to a wrong store.
#[tokio::test]
async fn messages_wait_in_the_outbox_when_their_destinations_are_gone() {
    let near = drivers::memory();
    let gone: Weak<dyn Destinations> = Weak::<TwoStores>::new();
    near.set_destinations(gone);
    let keys = json!({ "_max_claim_count": 1, "_dead_letter_queue": "far-dead" });
    let queue = near.queue_of("q", keys).await;
    near.post_delivered(&queue, &messages(LONG_S, 1)).await;

    assert_eq!(near.pop(&queue, 1).await, []);
    near.run_maintenance().await;

    assert_eq!(near.get(&near.id("far-dead")).await, None);
    assert_eq!(near.count_queues().await, 1);
}
