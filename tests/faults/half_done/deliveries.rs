//! A process is killed at each store call of a delivery: another one continues, and the subscriber
//! gets the message once or twice. It gets it once if the outcome was stored before the kill.

use serde_json::json;
use sukkal_domain::Progress;
use sukkal_storage::SubscriptionStore;
use tokio::time::{Duration, sleep};
use tokio_util::task::AbortOnDropHandle;

use super::{PROJECT, Scene, start_with_janitor};
use crate::faults::gate::{Gate, KillPoint};
use crate::http::{answered, send};
use crate::push::LOCAL;
use crate::push::endpoint::Endpoint;
use support::sukkal::Api;
use support::waiting::until;

const MESSAGES: &str = "/v2/queues/q/messages";
/// The channel of the signals that work is due.
const SIGNALS: &str = "sukkal:deliveries";
/// Longer than a delivery lease.
const LEASE_OVER: Duration = Duration::from_secs(41);
/// Time in which a running attempt ends.
const ATTEMPT: Duration = Duration::from_millis(30);

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
    super::at_each_call(
        PROJECT,
        calls_min,
        async |scene| {
            run(scene, trigger, KillPoint::AfterResponse).await;
        },
        async |scene, (), call| {
            let before_call = run(scene, trigger, KillPoint::BeforeCall(call)).await;
            let before_reply = run(scene, trigger, KillPoint::BeforeReply(call)).await;
            before_call || before_reply
        },
    )
    .await;
}

/// Delivers a message, kills the process at that point, and checks what the subscriber gets from
/// this process and from another one. Returns whether the process was killed before the end.
async fn run(scene: &Scene, trigger: Trigger, kill_point: KillPoint) -> bool {
    scene.redis.command(&["FLUSHALL"]);
    until("earlier processes are gone", async || receivers(scene) == 0).await;
    let (gate, endpoint) = (Gate::start(scene.redis.port(), PROJECT), Endpoint::start());
    let mut sukkal = scene.start_without_janitor(gate.url(), &[LOCAL[0]]).await;
    let api = sukkal.project(PROJECT);
    // Only the janitor would repeat a signal that is lost.
    until("the process receives signals", async || receivers(scene) == 1).await;
    match trigger {
        Trigger::Post => {
            subscribe(api.clone(), endpoint.url("/")).await;
            // Meanwhile the process takes the lease and finds nothing to deliver.
            sleep(ATTEMPT).await;
        }
        Trigger::Subscription => post(api.clone()).await,
    }

    gate.hold_at(kill_point);
    let request = AbortOnDropHandle::new(match trigger {
        Trigger::Post => tokio::spawn(post(api)),
        Trigger::Subscription => tokio::spawn(subscribe(api, endpoint.url("/"))),
    });
    let is_over = async || gate.has_happened() || delivered(scene).await > 0;
    until(&format!("the delivery is over: {trigger:?}, {kill_point:?}"), is_over).await;
    let was_killed = gate.has_happened();
    sleep(ATTEMPT).await;
    drop(request);
    sukkal.kill();
    let was_stored = delivered(scene).await == 1;
    scene.forget_maintenance();
    scene.set_clock("q", LEASE_OVER).await;

    let next = start_with_janitor(scene.redis.url(), &[LOCAL[0]]).await;
    // The client that got no response repeats its request.
    match trigger {
        Trigger::Post => post(next.project(PROJECT)).await,
        Trigger::Subscription => subscribe(next.project(PROJECT), endpoint.url("/")).await,
    }
    let is_delivered = async || delivered(scene).await > 0;
    until(&format!("the message is delivered: {trigger:?}, {kill_point:?}"), is_delivered).await;
    sleep(if was_stored { ATTEMPT } else { Duration::ZERO }).await;

    let (received, progress) = (endpoint.received().len(), progress(scene).await.unwrap());
    let allowed = if was_stored { 1..=1 } else { 1..=2 };
    assert!(allowed.contains(&received), "{trigger:?}, {kill_point:?}: delivered {received} times, {progress:?}");
    let rest = (progress.delivered, progress.in_flight.len(), progress.retries, progress.missed);
    assert_eq!(rest, (1, 0, 0, 0), "{trigger:?}, {kill_point:?}: {progress:?}");
    was_killed
}

/// Posts the message. It is posted once, even if this is repeated.
async fn post(api: Api) {
    let messages = json!({ "messages": [{ "body": "one", "ttl": 600 }] });
    answered(api.post(MESSAGES, &messages).header("Idempotency-Key", "one"), 201).await;
}

/// Creates the subscription, unless it exists.
async fn subscribe(api: Api, subscriber: String) {
    let options = json!({ "ordered": true });
    let document = json!({ "subscriber": subscriber, "ttl": 600, "since": "1970-01-01T00:00:00Z", "options": options });
    let answer = send(api.post("/v2/queues/q/subscriptions", &document)).await;
    assert!([201, 409].contains(&answer.status), "{answer:?}");
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
    let subscriptions = scene.store.list_subscriptions(&scene.queue("q"), None, 1).await.unwrap();
    Some(subscriptions.subscriptions.into_iter().next()?.progress)
}
