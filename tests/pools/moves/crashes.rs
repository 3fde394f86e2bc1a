//! The process that moves a queue is killed before any call to a store, or before the reply to it.
//! Then the queue is whole in exactly one pool, and nothing else is left.

use reqwest::Method;
use serde_json::json;
use sukkal_storage::{Maintenance, Moved};

use super::{Deployment, Management, PROJECT, keys_of, maintain, move_queue, mover, redirect};
use crate::faults::gate::{Gate, KillPoint};
use crate::migration::OPTIONS;
use crate::migration::view::{assert_equal_views, view_of_queue};
use crate::pools::{answered, post, until};
use support::sukkal::Api;

/// More calls to one store than a move makes.
const CALLS_MAX: usize = 60;
const STORES: [&str; 3] = ["management", "source", "target"];
/// Longer than the lease of the process that moves a queue, in microseconds.
const LATER_US: &str = "6000000";

/// Who finds a queue whose move has stopped.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Finder {
    Request,
    Maintenance,
    NextMove,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_move_leaves_the_queue_in_one_pool() {
    let deployment = Deployment::start(&[1, 0]).await;
    let server = deployment.serve_with(&OPTIONS);
    let api = server.project(PROJECT);
    let Management::Redis(management) = &deployment.management else { unreachable!() };
    let stores = [management, &*deployment.pools[0], &*deployment.pools[1]];
    let other = mover(&deployment.url()).await;
    let finders = [Finder::Request, Finder::Maintenance, Finder::NextMove];
    let mut moved = [0, 0];
    for (store, name) in STORES.iter().enumerate() {
        let mut run = 0;
        loop {
            let call = run / 2;
            let kill_point = if run % 2 == 0 { KillPoint::BeforeCall(call) } else { KillPoint::BeforeReply(call) };
            assert!(call < CALLS_MAX, "it makes more calls to the {name}");
            let (queue, finder) = (format!("{name}-{run}"), finders[run % 3]);
            fill(&api, &queue).await;
            let before = view_of_queue(&api, &queue).await;

            let gates = stores.map(|redis| Gate::start(redis.port(), &queue));
            let killed = mover(&gates[0].url()).await;
            redirect(&killed, &[gates[1].url(), gates[2].url()]);
            let connected = async || killed.maintain_step(None).await.is_ok();
            until("the process is connected to all stores", connected).await;
            let held = &gates[store];
            held.hold_at(kill_point);
            let reached = until("the move is held, or ends", async || held.has_happened());
            let was_killed = tokio::select! {
                biased;
                () = reached => true,
                outcome = move_queue(&killed, &queue, "b") => {
                    outcome.unwrap();
                    held.has_happened()
                }
            };
            drop((gates, killed));

            for redis in &stores[1..] {
                redis.command(&["SET", &format!("sukkal:{{{PROJECT}/{queue}}}:clock"), LATER_US]);
            }
            let context = format!("{name}, {kill_point:?}, {finder:?}");
            match finder {
                Finder::Request => {}
                Finder::Maintenance => maintain(&other).await,
                Finder::NextMove => assert_eq!(move_queue(&other, &queue, "b").await, Ok(Moved::Done), "{context}"),
            }
            assert_equal_views(&before, &view_of_queue(&api, &queue).await);
            maintain(&other).await;
            let pools = deployment.pools_of(PROJECT, &queue);
            assert_eq!(pools.len(), 1, "{context}: {pools:?}");
            moved[usize::from(pools[0] == "b")] += 1;
            let left = if pools[0] == "a" { stores[2] } else { stores[1] };
            assert_eq!(keys_of(left, PROJECT, &queue), [""; 0], "{context}");
            let kept = keys_of(if pools[0] == "a" { stores[1] } else { stores[2] }, PROJECT, &queue);
            assert!(!kept.iter().any(|key| key.starts_with("moving")), "{context}: {kept:?}");
            post(&api, &queue, "usable").await;
            answered(api.delete(&format!("/v2/queues/{queue}")), 204).await;
            for redis in stores {
                assert_eq!(keys_of(redis, PROJECT, &queue), [""; 0], "{context}");
            }
            if !was_killed {
                break;
            }
            run += 1;
        }
        assert!(run > 4, "it hardly needs the {name}");
    }
    assert!(moved.iter().all(|count| *count > 5), "undone and done: {moved:?}");
}

/// Creates a queue in the first pool that has available, delayed and claimed messages, and more.
async fn fill(api: &Api, queue: &str) {
    let path = format!("/v2/queues/{queue}");
    answered(api.put(&path).json(&json!({"_enable_message_delay": true, "color": "red"})), 201).await;
    let messages = json!({"messages": [{"body": 1}, {"body": 2, "delay": 600}, {"body": 3}]});
    answered(api.post(&format!("{path}/messages"), &messages).header("Idempotency-Key", "key"), 201).await;
    let claim = json!({"ttl": 600, "grace": 60});
    answered(api.post(&format!("{path}/claims?limit=1"), &claim), 201).await;
    answered(api.request(Method::POST, &format!("{path}/pause")), 204).await;
}
