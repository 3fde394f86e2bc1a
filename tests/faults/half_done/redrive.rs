//! A process is killed at each store call of a redrive: another one continues it, and each message
//! is in one place, once.

use serde_json::json;
use sukkal_domain::{Task, TaskState};
use sukkal_storage::TaskStore;
use tokio::time::Duration;
use tokio_util::task::AbortOnDropHandle;

use super::work::batch;
use super::{PROJECT, Scene, at_each_call, start_with_janitor};
use crate::faults::gate::{Gate, KillPoint};
use crate::http::{answered, feed, send};
use support::sukkal::Api;
use support::waiting::{until, until_some};

const DEAD: &str = "/v2/queues/dead";
/// Longer than the lease of a task.
const LEASE_OVER: Duration = Duration::from_secs(11);
/// Minimum number of calls, because two queues get messages.
const CALLS_MIN: usize = 12;

#[tokio::test]
async fn a_killed_redrive_moves_each_message_once() {
    at_each_call(
        PROJECT,
        CALLS_MIN,
        // The first run is undisturbed, so that Redis knows the scripts.
        async |scene| {
            run(scene, KillPoint::AfterResponse).await;
        },
        async |scene, (), call| {
            run(scene, KillPoint::BeforeCall(call)).await;
            run(scene, KillPoint::BeforeReply(call)).await
        },
    )
    .await;
}

/// A step whose reply is lost is repeated, and counts once.
#[tokio::test]
async fn a_redrive_with_a_lost_reply_moves_each_message_once() {
    let run = async |scene: &Scene, lost: Option<usize>| {
        scene.redis.command(&["FLUSHALL"]);
        let gate = Gate::start(scene.redis.port(), PROJECT);
        let sukkal = scene.start_without_janitor(gate.url(), &[]).await;
        let api = sukkal.project(PROJECT);
        prepare(&api).await;

        if let Some(call) = lost {
            gate.lose_reply_of(call);
        }
        answered(api.post(&format!("{DEAD}/redrive"), &json!({})), 202).await;
        verify(scene, &api, &format!("the lost reply {lost:?}")).await;
        gate.has_happened()
    };

    at_each_call(
        PROJECT,
        CALLS_MIN,
        async |scene| {
            run(scene, None).await;
        },
        async |scene, (), call| run(scene, Some(call)).await,
    )
    .await;
}

/// Redrives dead letters, kills the process at that point, and checks the messages after another
/// process has finished the task. Returns whether the process was killed before the end.
async fn run(scene: &Scene, kill_point: KillPoint) -> bool {
    scene.redis.command(&["FLUSHALL"]);
    let gate = Gate::start(scene.redis.port(), PROJECT);
    let mut sukkal = scene.start_without_janitor(gate.url(), &[]).await;
    let api = sukkal.project(PROJECT);
    prepare(&api).await;

    gate.hold_at(kill_point);
    let request = send(api.post(&format!("{DEAD}/redrive"), &json!({})));
    let request = AbortOnDropHandle::new(tokio::spawn(request));
    let is_done = async || last_task(scene).await.is_some_and(|task| task.state == TaskState::Done);
    until("the redrive is done or interrupted", async || gate.has_happened() || is_done().await).await;
    let was_killed = gate.has_happened();
    drop(request);
    sukkal.kill();
    scene.forget_maintenance();
    scene.set_clock("dead", LEASE_OVER).await;

    scene.stored().assert_consistent();
    let next = start_with_janitor(scene.redis.url(), &[]).await;
    let api = next.project(PROJECT);
    if last_task(scene).await.is_none() {
        // The client that got no response repeats its request.
        answered(api.post(&format!("{DEAD}/redrive"), &json!({})), 202).await;
    }
    verify(scene, &api, &format!("{kill_point:?}")).await;
    scene.stored().assert_consistent();
    was_killed
}

/// Waits until the task has ended, and checks that each message is in its place.
async fn verify(scene: &Scene, api: &Api, fault: &str) {
    let ended = async || last_task(scene).await.filter(|task| task.state != TaskState::Running);
    let task = until_some("the task ends", ended).await;
    assert_eq!((task.state, task.moved, task.skipped), (TaskState::Done, 5, 3), "{fault}");
    for (queue, expected) in [
        ("work-a", &["a-0", "a-1", "a-2"][..]),
        ("work-b", &["b-0", "b-1"]),
        ("dead", &["gone-0", "plain-0", "plain-1"]),
    ] {
        assert_eq!(names(api, queue).await, expected, "{queue} after {fault}");
    }
}

/// Fills the queue `dead`: dead letters of two queues and of a deleted one, and messages without an
/// origin, one of which is claimed.
async fn prepare(api: &Api) {
    for (queue, bodies) in [("gone", &["gone-0"][..]), ("work-a", &["a-0", "a-1", "a-2"]), ("work-b", &["b-0", "b-1"])]
    {
        let path = format!("/v2/queues/{queue}");
        let keys = json!({ "_max_claim_count": 1, "_dead_letter_queue": "dead" });
        answered(api.put(&path).json(&keys), 201).await;
        answered(api.post(&format!("{path}/messages"), &batch(bodies, 0)), 201).await;
        let claims = format!("{path}/claims");
        let claim = answered(api.post(&claims, &json!({})), 201).await.json();
        let id = claim["messages"][0]["href"].as_str().unwrap().rsplit_once('=').unwrap().1;
        answered(api.delete(&format!("{claims}/{id}")), 204).await;
        answered(api.post(&claims, &json!({})), 204).await;
    }
    answered(api.delete("/v2/queues/gone"), 204).await;
    answered(api.post(&format!("{DEAD}/messages"), &batch(&["plain-0"], 0)), 201).await;
    // The claim takes all messages and returns all but one.
    let claim = answered(api.post(&format!("{DEAD}/claims"), &json!({ "ttl": 300, "grace": 60 })), 201).await.json();
    for message in claim["messages"].as_array().unwrap() {
        let href = message["href"].as_str().unwrap();
        let claim = href.rsplit_once('=').unwrap().1;
        let id = message["id"].as_str().unwrap();
        if message["body"] != "plain-0" {
            answered(api.delete(&format!("{DEAD}/claims/{claim}/messages/{id}")), 204).await;
        }
    }
    answered(api.post(&format!("{DEAD}/messages"), &batch(&["plain-1"], 0)), 201).await;
}

/// Returns the newest task of the queue, read without a process.
async fn last_task(scene: &Scene) -> Option<Task> {
    scene.store.list_tasks(&scene.queue("dead")).await.unwrap().into_iter().next()
}

/// Returns the bodies of all messages of a queue, claimed ones included, in alphabetical order.
async fn names(api: &Api, queue: &str) -> Vec<String> {
    let bodies = feed(api, queue, "&include_claimed=true&limit=20").await;
    let mut names: Vec<String> = bodies.iter().map(|body| body.as_str().unwrap().to_owned()).collect();
    names.sort_unstable();
    names
}
