//! A process is killed at each store call of a delivery: another one continues, and the subscriber
//! gets the message once or twice. It gets it once if the outcome was stored before the kill.

use serde_json::json;
use sukkal::domain::{Progress, ProjectId, QueueId};
use sukkal::storage::SubscriptionStore;
use tokio::time::{Duration, Instant, sleep};

use super::{BUSY_JANITOR, BUSY_WALK, CALLS_MAX, KillPoint, PROJECT, Scene, answer_to, arm};
use crate::faults::gate::Gate;
use crate::push::LOCAL;
use crate::push::endpoint::Endpoint;
use crate::support::redis::block_until;
use crate::support::sukkal::{Api, Sukkal};

const MESSAGES: &str = "/v2/queues/q/messages";
/// The channel of the signals that work is due.
const SIGNALS: &str = "sukkal:deliveries";
/// Longer than a delivery lease.
const LEASE_OVER: Duration = Duration::from_secs(41);
/// Time in which a running attempt ends.
const ATTEMPT: Duration = Duration::from_millis(30);
/// Longest time until another process has delivered, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// What makes the process deliver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trigger {
    /// A message is posted, and the process has the lease already.
    Post,
    /// A subscription is created that starts with an older message.
    Subscription,
}

#[tokio::test]
async fn a_message_is_delivered_although_its_process_is_killed() {
    at_each_call(Trigger::Post, 4).await;
}

#[tokio::test]
async fn an_older_message_is_delivered_although_the_process_of_a_new_subscription_is_killed() {
    at_each_call(Trigger::Subscription, 6).await;
}

/// Kills the process at each call, of which there are at least `calls_min`.
async fn at_each_call(trigger: Trigger, calls_min: usize) {
    let scene = Scene::start(PROJECT);
    run(&scene, trigger, KillPoint::AfterResponse).await;
    for call in 0..CALLS_MAX {
        let before_call = run(&scene, trigger, KillPoint::BeforeCall(call)).await;
        let before_reply = run(&scene, trigger, KillPoint::BeforeReply(call)).await;
        if before_call && before_reply {
            assert!(call >= calls_min, "a delivery needs more than {call} calls");
            return;
        }
    }
    panic!("it makes more calls than that");
}

/// Delivers a message, kills the process at that point, and checks what the subscriber gets from
/// this process and from another one. Returns whether the process was not killed before the end.
async fn run(scene: &Scene, trigger: Trigger, kill_point: KillPoint) -> bool {
    scene.redis.command(&["FLUSHALL"]);
    block_until("earlier processes are gone", || receivers(scene) == 0);
    let (gate, endpoint) = (Gate::start(scene.redis.port(), PROJECT), Endpoint::start());
    let mut sukkal = Sukkal::start_without_janitor(&scene.redis, &gate.url(), &LOCAL[..1]);
    let api = sukkal.project(PROJECT);
    // Only the janitor would repeat a signal that is lost.
    block_until("the process receives signals", || receivers(scene) == 1);
    match trigger {
        Trigger::Post => {
            subscribe(api.clone(), endpoint.url("/")).await;
            // Meanwhile the process takes the lease and finds nothing to deliver.
            sleep(ATTEMPT).await;
        }
        Trigger::Subscription => post(api.clone()).await,
    }

    arm(&gate, kill_point);
    let request = match trigger {
        Trigger::Post => tokio::spawn(post(api)),
        Trigger::Subscription => tokio::spawn(subscribe(api, endpoint.url("/"))),
    };
    let deadline = Instant::now() + PATIENCE;
    while !gate.has_happened() && delivered(scene).await == 0 {
        assert!(Instant::now() < deadline, "nothing is delivered: {trigger:?}, {kill_point:?}");
        sleep(Duration::from_millis(1)).await;
    }
    let finished = !gate.has_happened();
    sleep(ATTEMPT).await;
    request.abort();
    sukkal.kill();
    let was_stored = delivered(scene).await == 1;
    scene.forget_maintenance();
    scene.set_clock("q", LEASE_OVER).await;

    let next = Sukkal::start_with(&scene.redis.url(), &[BUSY_JANITOR, BUSY_WALK, LOCAL[0]]);
    // The client that got no response repeats its request.
    match trigger {
        Trigger::Post => post(next.project(PROJECT)).await,
        Trigger::Subscription => subscribe(next.project(PROJECT), endpoint.url("/")).await,
    }
    let deadline = Instant::now() + PATIENCE;
    while delivered(scene).await == 0 {
        assert!(Instant::now() < deadline, "the message is lost: {trigger:?}, {kill_point:?}");
        sleep(Duration::from_millis(5)).await;
    }
    sleep(if was_stored { ATTEMPT } else { Duration::ZERO }).await;

    let (received, progress) = (endpoint.received().len(), progress(scene).await.unwrap());
    let allowed = if was_stored { 1..=1 } else { 1..=2 };
    assert!(allowed.contains(&received), "{trigger:?}, {kill_point:?}: delivered {received} times, {progress:?}");
    let rest = (progress.delivered, progress.in_flight.len(), progress.retries, progress.missed);
    assert_eq!(rest, (1, 0, 0, 0), "{trigger:?}, {kill_point:?}: {progress:?}");
    finished
}

/// Posts the message. It is posted once, even if this is repeated.
async fn post(api: Api) {
    let messages = json!({ "messages": [{ "body": "one", "ttl": 600 }] });
    let (status, answer) = answer_to(api.post(MESSAGES, &messages).header("Idempotency-Key", "one")).await;
    assert_eq!(status, 201, "{answer}");
}

/// Creates the subscription, unless it exists.
async fn subscribe(api: Api, subscriber: String) {
    let options = json!({ "ordered": true });
    let document = json!({ "subscriber": subscriber, "ttl": 600, "since": "1970-01-01T00:00:00Z", "options": options });
    let (status, answer) = answer_to(api.post("/v2/queues/q/subscriptions", &document)).await;
    assert!([201, 409].contains(&status), "{status}: {answer}");
}

/// Returns the number of processes that receive signals.
fn receivers(scene: &Scene) -> i64 {
    scene.redis.command(&["PUBSUB", "NUMSUB", SIGNALS]).items()[1].as_int()
}

async fn delivered(scene: &Scene) -> u64 {
    progress(scene).await.map_or(0, |progress| progress.delivered)
}

/// Returns the progress of the subscription, if it exists.
async fn progress(scene: &Scene) -> Option<Progress> {
    let queue = QueueId::new(ProjectId::new(PROJECT).unwrap(), "q".parse().unwrap()).unwrap();
    let subscriptions = scene.store.list_subscriptions(&queue, None, 1).await.unwrap();
    Some(subscriptions.into_iter().next()?.progress)
}
