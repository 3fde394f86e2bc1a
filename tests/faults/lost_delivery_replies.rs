//! Redis has executed a command for a subscription or a delivery, but its reply is lost: the
//! repeated command has no second effect.

use sukkal_domain::{
    Attempt, Metadata, NewSubscription, Progress, QueueId, SubscriptionId, SubscriptionSettings, SubscriptionState,
};
use sukkal_storage::redis::RedisStore;
use sukkal_storage::{
    DeliveryChange, DeliveryStore, QueueStore, SubscriptionChange, SubscriptionCreation, SubscriptionStore,
    SubscriptionUpdate,
};
use uuid::Uuid;

use super::gate::Gate;
use support::redis::RedisServer;
use support::test_bed::queue_id;

const PROJECT: &str = "lost-deliveries";
const OK: &str = "the store answers";

struct Scene {
    _redis: RedisServer,
    gate: Gate,
    store: RedisStore,
    queue: QueueId,
}

impl Scene {
    async fn start() -> Self {
        let redis = RedisServer::start();
        let gate = Gate::start(redis.port(), PROJECT);
        let store = RedisStore::open(&gate.url().parse().unwrap()).unwrap();
        let queue = queue_id(PROJECT, "q");
        store.create_queue(&queue, &Metadata::default()).await.expect(OK);
        Self { _redis: redis, gate, store, queue }
    }

    /// Makes a call repeatedly, and loses the reply to another of its commands each time.
    async fn each_reply_lost(&self, attempt: impl AsyncFn(usize)) {
        assert!(self.gate.lose_each_reply(attempt).await > 0, "the first reply was lost");
    }

    async fn subscribe(&self, subscriber: &str) -> SubscriptionId {
        let id = SubscriptionId::random();
        let new = NewSubscription { id, ttl_s: 600, after: None, settings: settings(subscriber) };
        let creation = self.store.create_subscription(&self.queue, &new, 100).await;
        assert_eq!(creation, Ok(SubscriptionCreation::Created));
        id
    }

    async fn count(&self) -> usize {
        self.store.list_subscriptions(&self.queue, None, 100).await.expect(OK).subscriptions.len()
    }
}

fn settings(subscriber: &str) -> SubscriptionSettings {
    SubscriptionSettings {
        subscriber: subscriber.to_owned(),
        options: sukkal_domain::JsonObject::default(),
        confirmed: true,
        keys: Vec::new(),
        state: SubscriptionState::Active,
        requests: Vec::new(),
        author: None,
    }
}

#[tokio::test]
async fn a_subscription_is_created_once() {
    let scene = Scene::start().await;

    scene
        .each_reply_lost(async |number| {
            scene.subscribe(&format!("http://{number}")).await;
        })
        .await;

    let count = scene.count().await;
    let all = NewSubscription { id: SubscriptionId::random(), ttl_s: 1, after: None, settings: settings("http://x") };
    let most = u32::try_from(count).unwrap();
    let creation = scene.store.create_subscription(&scene.queue, &all, most).await;
    assert_eq!(creation, Ok(SubscriptionCreation::TooMany), "each is counted once");
}

#[tokio::test]
async fn a_subscription_is_changed_once() {
    let scene = Scene::start().await;
    let id = scene.subscribe("http://a").await;

    scene
        .each_reply_lost(async |number| {
            let find = async || scene.store.get_subscription(&scene.queue, id).await.expect(OK).expect("it exists");
            let before = find().await.subscription;
            scene.gate.lose_reply_of(number);
            let change = SubscriptionChange {
                last_known_revision: before.revision,
                settings: settings(&format!("http://{number}")),
                ttl_s: None,
            };
            let update = scene.store.update_subscription(&scene.queue, id, &change).await;
            assert_eq!(update, Ok(SubscriptionUpdate::Done));
            let after = find().await.subscription;
            assert_eq!(after.settings, change.settings);
            assert!(after.revision > before.revision);
        })
        .await;
}

#[tokio::test]
async fn subscriptions_are_deleted_once() {
    let scene = Scene::start().await;
    scene.subscribe("http://kept").await;

    scene
        .each_reply_lost(async |number| {
            let id = scene.subscribe(&format!("http://{number}")).await;
            scene.gate.lose_reply_of(number);
            scene.store.delete_subscription(&scene.queue, id).await.expect(OK);
            assert_eq!(scene.count().await, 1);
        })
        .await;
    scene
        .each_reply_lost(async |_| {
            scene.store.delete_subscriptions(&scene.queue).await.expect(OK);
            assert_eq!(scene.count().await, 0);
        })
        .await;
}

#[tokio::test]
async fn a_lease_is_taken_and_ended_once() {
    let scene = Scene::start().await;
    let id = scene.subscribe("http://a").await;
    let holder = Uuid::new_v4();

    scene
        .each_reply_lost(async |number| {
            let taken = scene.store.take_delivery_lease(&scene.queue, holder).await.expect(OK);
            let (fence, state) = taken.expect("no other process has it");
            scene.gate.lose_reply_of(number);
            let change = DeliveryChange {
                subscription: id,
                progress: Progress { delivered: number as u64, ..Progress::default() },
                attempts: vec![(number as u64, failed_attempt())],
                ended_retries: Vec::new(),
                new_retries: Vec::new(),
            };
            let saved = scene.store.save_deliveries(&scene.queue, fence, &[change]).await.expect(OK);
            assert_eq!(saved.map(|saved| saved.last), Some(state.last));
            let ended = scene.store.end_delivery_lease(&scene.queue, fence, &state, None).await;
            assert_eq!(ended, Ok(true));
            let attempts = scene.store.list_attempts(&scene.queue, id).await.expect(OK).expect("it exists");
            assert_eq!(attempts.len(), number + 1);
        })
        .await;
}

fn failed_attempt() -> Attempt {
    Attempt { message: 1, number: 1, at_s: 1, status: None, duration_ms: 1, error: None, response: String::new() }
}
