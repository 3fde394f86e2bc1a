//! What happens to requests, other moves and stores while a queue moves.

use futures::future::join;
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use sukkal_storage::Moved;
use sukkal_storage::pooled::PooledStore;
use tokio::task::JoinHandle;
use tokio::time::{Duration, sleep};

use super::{Deployment, Management, PROJECT, keys_of, maintain, move_queue, mover, redirect};
use crate::faults::gate::Gate;
use crate::pools::{answered, bodies, list, post, unavailable, until};
use support::sukkal::Api;

/// How long a request must not be answered while its queue moves.
const MOVING: Duration = Duration::from_millis(100);

/// A deployment of two pools, and a process that reaches its stores through gates.
pub(super) struct Scene {
    pub(super) deployment: Deployment,
    /// To the management store, and to the pools.
    pub(super) gates: [Gate; 3],
    pub(super) mover: PooledStore,
}

impl Scene {
    pub(super) async fn start() -> Self {
        let deployment = Deployment::start(&[1, 0]).await;
        let Management::Redis(management) = &deployment.management else { unreachable!() };
        let stores = [management, &*deployment.pools[0], &*deployment.pools[1]];
        let gates = stores.map(|redis| Gate::start(redis.port(), PROJECT));
        let mover = mover(&gates[0].url()).await;
        redirect(&mover, &[gates[1].url(), gates[2].url()]);
        Self { deployment, gates, mover }
    }

    /// Begins to move a queue to the second pool, and stops in the middle of its copy.
    async fn stop_in_move(&self, queue: &'static str) -> JoinHandle<Result<Moved, sukkal_storage::Error>> {
        // The first three commands forward dead letters and register the queue, the others begin
        // the copy and write.
        self.gates[2].hold_after(8);
        let mover = self.mover.clone();
        let moving = tokio::spawn(async move { move_queue(&mover, queue, "b").await });
        until("the move is in its middle", async || self.gates[2].has_happened()).await;
        assert_eq!(self.deployment.pools_of(PROJECT, queue), [""; 0]);
        moving
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_wait_for_the_end_of_a_move_and_find_everything() {
    type Check = (&'static str, fn(&Api, &str) -> RequestBuilder, u16, fn(&Value) -> bool);
    let checks: [Check; 9] = [
        ("post", |api, q| api.post(&format!("{q}/messages"), &json!({"messages": [{"body": "new"}]})), 201, |_| true),
        ("list", |api, q| api.get(&format!("{q}/messages?echo=true")), 200, |page| bodies(page) == ["old"]),
        ("claim", |api, q| api.post(&format!("{q}/claims"), &json!({})), 201, |claim| bodies(claim) == ["old"]),
        ("pop", |api, q| api.delete(&format!("{q}/messages?pop=5")), 200, |popped| bodies(popped) == ["old"]),
        ("stats", |api, q| api.get(&format!("{q}/stats")), 200, |stats| stats["messages"]["total"] == 1),
        ("get", |api, q| api.get(q), 200, |queue| queue["color"] == "red"),
        ("create", |api, q| api.put(q), 204, |_| true),
        ("pause", |api, q| api.post(&format!("{q}/pause"), &json!({})), 204, |_| true),
        ("delete", |api, q| api.delete(q), 204, |_| true),
    ];
    let scene = Scene::start().await;
    // One process knows where the queue is, the other does not.
    let servers = [scene.deployment.serve(), scene.deployment.serve()];
    let [knowing, other] = servers.each_ref().map(|server| server.project(PROJECT));
    for (queue, request, status, is_right) in checks {
        let path = format!("/v2/queues/{queue}");
        answered(knowing.put(&path).json(&json!({"color": "red"})), 201).await;
        post(&knowing, queue, "old").await;
        let mut kinds = vec![&knowing];
        kinds.extend(["list", "stats", "get", "create", "delete"].contains(&queue).then_some(&other));
        let moving = scene.stop_in_move(queue).await;

        let answers = kinds.iter().map(|api| tokio::spawn(answered(request(api, &path), status)));
        let answers: Vec<_> = answers.collect();
        sleep(MOVING).await;
        assert!(answers.iter().all(|answer| !answer.is_finished()), "{queue} does not wait");
        scene.gates[2].release();
        assert_eq!(moving.await.unwrap(), Ok(Moved::Done), "{queue}");
        for answer in answers {
            let document = answer.await.unwrap();
            assert!(is_right(&document), "{queue}: {document}");
        }
        if queue == "delete" {
            assert_eq!(bodies(&list(&knowing, queue).await), [""; 0]);
            assert_eq!(keys_of(&scene.deployment.pools[1], PROJECT, queue), [""; 0]);
        } else {
            assert_eq!(scene.deployment.pools_of(PROJECT, queue), ["b"], "{queue}");
        }
        assert_eq!(keys_of(&scene.deployment.pools[0], PROJECT, queue), [""; 0], "{queue}");
        let newer = list(&knowing, queue).await;
        assert!(queue != "post" || bodies(&newer) == ["old", "new"], "{newer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_waits_at_most_for_max_queueing() {
    let scene = Scene::start().await;
    let server = scene.deployment.serve_with(&[("SUKKAL_TRANSPORT__MAX_QUEUEING", "1")]);
    let api = server.project(PROJECT);
    post(&api, "q", "old").await;
    post(&api, "other", "m").await;
    let moving = scene.stop_in_move("q").await;
    // The process does nothing more, and its lease has not ended yet.
    scene.gates[..2].iter().for_each(|gate| gate.hold_after(0));

    // More than a store has in flight. Other queues of the pool are served meanwhile.
    let refused = || unavailable(api.get("/v2/queues/q/messages?echo=true"));
    let waiting: Vec<_> = (0..150).map(|_| refused()).collect();
    join(futures::future::join_all(waiting), refused()).await;
    assert_eq!(bodies(&list(&api, "other").await), ["m"]);
    moving.await.unwrap().unwrap_err();
    until("the move is undone", async || {
        api.get("/v2/queues/q/messages?echo=true").send().await.unwrap().status() == 200
    })
    .await;
    assert_eq!(bodies(&list(&api, "q").await), ["old"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_moves_at_once_one_follows_the_other() {
    let deployment = Deployment::start(&[1, 0, 0]).await;
    let server = deployment.serve();
    let api = server.project(PROJECT);
    let movers = [mover(&deployment.url()).await, mover(&deployment.url()).await];
    for round in 0..20 {
        let queue = format!("q{round}");
        for body in ["one", "two"] {
            post(&api, &queue, body).await;
        }
        let (one, other) = join(move_queue(&movers[0], &queue, "b"), move_queue(&movers[1], &queue, "c")).await;
        assert!([&one, &other].contains(&&Ok(Moved::Done)), "{one:?}, {other:?}");
        maintain(&movers[0]).await;
        let pools = deployment.pools_of(PROJECT, &queue);
        assert_eq!(pools.len(), 1, "{pools:?}");
        for (redis, name) in deployment.pools.iter().zip(super::POOLS) {
            assert!(name == pools[0] || keys_of(redis, PROJECT, &queue).is_empty(), "{name}");
        }
        assert_eq!(bodies(&list(&api, &queue).await), ["one", "two"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_stays_if_its_new_pool_dies() {
    let scene = Scene::start().await;
    let server = scene.deployment.serve();
    let api = server.project(PROJECT);
    post(&api, "q", "old").await;
    let moving = scene.stop_in_move("q").await;
    let target = &scene.deployment.pools[1];
    target.kill();
    scene.gates[2].release();

    moving.await.unwrap().unwrap_err();
    assert_eq!(bodies(&list(&api, "q").await), ["old"]);
    assert_eq!(scene.deployment.pools_of_first(PROJECT, "q", 1), ["a"]);
    target.restart();
    let other = mover(&scene.deployment.url()).await;
    // The lease of the copy must end.
    until("the copy is removed", async || {
        maintain(&other).await;
        keys_of(target, PROJECT, "q").is_empty()
    })
    .await;
    assert_eq!(move_queue(&other, "q", "b").await, Ok(Moved::Done));
    assert_eq!(bodies(&list(&api, "q").await), ["old"]);
}
