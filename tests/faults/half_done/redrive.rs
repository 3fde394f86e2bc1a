//! A process is killed at each store call of a redrive: another one continues it, and each message
//! is in one place, once.

use serde_json::{Value, json};
use sukkal::domain::{ProjectId, QueueId, Task, TaskState};
use sukkal::storage::TaskStore;
use tokio::time::{Duration, sleep};

use super::work::batch;
use super::{BUSY_JANITOR, BUSY_WALK, CALLS_MAX, KillPoint, PROJECT, Scene, answer_to, arm};
use crate::faults::gate::Gate;
use crate::support::sukkal::{Api, Sukkal};

const DEAD: &str = "/v2/queues/dead";
/// Longer than the lease of a task.
const LEASE_OVER: Duration = Duration::from_secs(11);

#[tokio::test]
async fn a_killed_redrive_moves_each_message_once() {
    let scene = Scene::start(PROJECT);
    let mut calls = 0;
    for call in 0..CALLS_MAX {
        let mut finished = false;
        // The first run is undisturbed, so that Redis knows the scripts.
        let first = [KillPoint::AfterResponse].into_iter().filter(|_| call == 0);
        for kill_point in first.chain([KillPoint::BeforeCall(call), KillPoint::BeforeReply(call)]) {
            finished = run(&scene, kill_point).await && kill_point != KillPoint::AfterResponse;
        }
        calls = call;
        if finished {
            break;
        }
    }

    assert!(calls >= 12, "two queues get messages, which needs more than {calls} calls");
    assert!(calls < CALLS_MAX - 1, "it makes more calls than that");
}

/// A step whose reply is lost is repeated, and counts once.
#[tokio::test]
async fn a_redrive_with_a_lost_reply_moves_each_message_once() {
    let scene = Scene::start(PROJECT);
    for call in 0..CALLS_MAX {
        scene.redis.command(&["FLUSHALL"]);
        let gate = Gate::start(scene.redis.port(), PROJECT);
        let sukkal = Sukkal::start_without_janitor(&scene.redis, &gate.url(), &[]);
        let api = sukkal.project(PROJECT);
        prepare(&api).await;

        gate.lose_reply_of(call);
        let (status, answer) = answer_to(api.post(&format!("{DEAD}/redrive"), &json!({}))).await;

        assert_eq!(status, 202, "{answer}");
        verify(&scene, &api, &format!("the lost reply {call}")).await;
        if !gate.has_happened() {
            assert!(call >= 12, "two queues get messages, which needs more than {call} calls");
            return;
        }
    }
    panic!("it makes more calls than that");
}

/// Redrives dead letters, kills the process at that point, and checks the messages after another
/// process has finished the task. Returns whether the process was not killed before the end.
async fn run(scene: &Scene, kill_point: KillPoint) -> bool {
    scene.redis.command(&["FLUSHALL"]);
    let gate = Gate::start(scene.redis.port(), PROJECT);
    let mut sukkal = Sukkal::start_without_janitor(&scene.redis, &gate.url(), &[]);
    let api = sukkal.project(PROJECT);
    prepare(&api).await;

    arm(&gate, kill_point);
    let request = tokio::spawn(answer_to(api.post(&format!("{DEAD}/redrive"), &json!({}))));
    while !gate.has_happened() && !last_task(scene).await.is_some_and(|task| task.state == TaskState::Done) {
        sleep(Duration::from_millis(1)).await;
    }
    let finished = !gate.has_happened();
    request.abort();
    sukkal.kill();
    scene.forget_maintenance();
    scene.set_clock("dead", LEASE_OVER).await;

    scene.stored().assert_consistent();
    let next = Sukkal::start_with(&scene.redis.url(), &[BUSY_JANITOR, BUSY_WALK]);
    let api = next.project(PROJECT);
    if last_task(scene).await.is_none() {
        // The client that got no response repeats its request.
        let (status, answer) = answer_to(api.post(&format!("{DEAD}/redrive"), &json!({}))).await;
        assert_eq!(status, 202, "{answer}");
    }
    verify(scene, &api, &format!("{kill_point:?}")).await;
    scene.stored().assert_consistent();
    finished
}

/// Waits until the task has ended, and checks that each message is in its place.
async fn verify(scene: &Scene, api: &Api, fault: &str) {
    let task = loop {
        match last_task(scene).await {
            Some(task) if task.state != TaskState::Running => break task,
            _ => sleep(Duration::from_millis(2)).await,
        }
    };
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
        let keys = json!({ "_max_claim_count": 0, "_dead_letter_queue": "dead" });
        assert_eq!(answer_to(api.put(&path).json(&keys)).await.0, 201);
        assert_eq!(answer_to(api.post(&format!("{path}/messages"), &batch(bodies, 0))).await.0, 201);
        assert_eq!(answer_to(api.post(&format!("{path}/claims"), &json!({}))).await.0, 204);
    }
    assert_eq!(answer_to(api.delete("/v2/queues/gone")).await.0, 204);
    let posted = answer_to(api.post(&format!("{DEAD}/messages"), &batch(&["plain-0"], 0))).await;
    assert_eq!(posted.0, 201);
    // The claim takes all messages and returns all but one.
    let (status, claim) = answer_to(api.post(&format!("{DEAD}/claims"), &json!({ "ttl": 300, "grace": 60 }))).await;
    assert_eq!(status, 201, "{claim}");
    for message in claim["messages"].as_array().unwrap() {
        let href = message["href"].as_str().unwrap();
        let claim = href.rsplit_once('=').unwrap().1;
        let id = message["id"].as_str().unwrap();
        if message["body"] != "plain-0" {
            assert_eq!(answer_to(api.delete(&format!("{DEAD}/claims/{claim}/messages/{id}"))).await.0, 204);
        }
    }
    assert_eq!(answer_to(api.post(&format!("{DEAD}/messages"), &batch(&["plain-1"], 0))).await.0, 201);
}

/// Returns the newest task of the queue, read without a process.
async fn last_task(scene: &Scene) -> Option<Task> {
    let dead = QueueId::new(ProjectId::new(PROJECT).unwrap(), "dead".parse().unwrap()).unwrap();
    scene.store.list_tasks(&dead).await.unwrap().into_iter().next()
}

/// Returns the bodies of all messages of a queue, claimed ones included, in alphabetical order.
async fn names(api: &Api, queue: &str) -> Vec<String> {
    let path = format!("/v2/queues/{queue}/messages?echo=true&include_claimed=true&limit=20");
    let (status, page): (u16, Value) = answer_to(api.get(&path)).await;
    assert_eq!(status, 200, "{page}");
    let name = |message: &Value| message["body"].as_str().unwrap().to_owned();
    let mut names: Vec<String> = page["messages"].as_array().unwrap().iter().map(name).collect();
    names.sort_unstable();
    names
}
