//! A process remembers where a queue is. Another process deletes the queue and creates it in
//! another pool: the first one is exact at once.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{ANSWER_MAX, Deployment, HANG_TIMEOUT, Management, PROJECT, admin, answered, bodies, list, post, until};
use crate::push::LOCAL;
use crate::push::endpoint::Endpoint;
use support::events::Events;
use support::exposition::Exposition;
use support::sukkal::{Api, Sukkal};

/// Two processes, and pools of two flavors. So queues get other pools without a change of the list
/// of pools, after which processes would forget where queues are.
struct Scene {
    deployment: Deployment,
    servers: [Sukkal; 2],
    /// The client of the process that changes the location.
    mover: Api,
    /// The client of the process that remembers the old location.
    other: Api,
}

impl Scene {
    async fn start() -> Self {
        let deployment = Deployment::start(&[1, 1]).await;
        let servers = [deployment.serve_with(&LOCAL), deployment.serve_with(&LOCAL)];
        answered(admin(&servers[0], Method::PUT, "flavors/fast").json(&json!({"pool_list": ["b"]})), 201).await;
        // The other process learns the list before it remembers anything.
        let known = async || {
            let name = uuid::Uuid::new_v4();
            let queue = servers[1].project(PROJECT).put(&format!("/v2/queues/{name}"));
            queue.json(&json!({"_flavor": "fast"})).send().await.unwrap().status() == 201
        };
        until("the other process knows the flavor", known).await;
        let [mover, other] = servers.each_ref().map(|server| server.project(PROJECT));
        Self { deployment, servers, mover, other }
    }

    /// Creates a queue in pool a with a message, which the other process has listed.
    async fn create(&self, queue: &str) {
        post(&self.mover, queue, "old").await;
        assert_eq!(bodies(&list(&self.other, queue).await), ["old"]);
        assert_eq!(self.deployment.pools_of(PROJECT, queue), ["a"]);
    }

    /// Deletes the queue, and creates it in pool b.
    async fn recreate(&self, queue: &str) {
        answered(self.mover.delete(&format!("/v2/queues/{queue}")), 204).await;
        let created = self.mover.put(&format!("/v2/queues/{queue}")).json(&json!({"_flavor": "fast"}));
        answered(created, 201).await;
        assert_eq!(self.deployment.pools_of(PROJECT, queue), ["b"]);
    }
}

/// A process reads the list of pools and flavors again only if it has changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flavors_are_exact_at_once_and_the_list_is_read_only_when_it_has_changed() {
    const LISTS: u64 = 200;
    const BYTES_PER_LIST_MAX: u64 = 500;
    let Scene { deployment, servers, .. } = Scene::start().await;
    for pool in ["a", "b"] {
        let options = json!({"options": {"notes": "x".repeat(1_000)}});
        answered(admin(&servers[0], Method::PATCH, &format!("pools/{pool}")).json(&options), 200).await;
    }
    let flavors = async || {
        let page = answered(admin(&servers[1], Method::GET, "flavors"), 200).await;
        page["flavors"].as_array().unwrap().len()
    };
    assert_eq!(flavors().await, 1);
    answered(admin(&servers[0], Method::PUT, "flavors/slow").json(&json!({"pool_list": ["a"]})), 201).await;
    assert_eq!(flavors().await, 2);

    let Management::Redis(management) = &deployment.management else { unreachable!() };
    let sent = || {
        let info = management.command(&["INFO", "stats"]);
        let line = info.as_text().lines().find_map(|line| line.strip_prefix("total_net_output_bytes:"));
        line.unwrap().trim().parse::<u64>().unwrap()
    };
    let before = sent();
    for _ in 0..LISTS {
        assert_eq!(flavors().await, 2);
    }
    let sent = sent() - before;
    assert!(sent < LISTS * BYTES_PER_LIST_MAX, "the management store has sent {sent} bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_find_a_queue_at_its_new_place_at_once() {
    type Check = (&'static str, fn(&Api, &str) -> RequestBuilder, u16, fn(&Value) -> bool);
    let checks: [Check; 6] = [
        ("list", |api, q| api.get(&format!("{q}/messages?echo=true")), 200, |page| bodies(page) == ["new"]),
        ("claim", |api, q| api.post(&format!("{q}/claims"), &json!({})), 201, |claim| bodies(claim) == ["new"]),
        ("pop", |api, q| api.delete(&format!("{q}/messages?pop=5")), 200, |popped| bodies(popped) == ["new"]),
        ("stats", |api, q| api.get(&format!("{q}/stats")), 200, |stats| stats["messages"]["total"] == 1),
        ("get", |api, q| api.get(q), 200, |queue| queue["_flavor"] == "fast"),
        ("delete", |api, q| api.delete(q), 204, |_| true),
    ];
    let scene = Scene::start().await;
    for (queue, request, status, is_right) in checks {
        scene.create(queue).await;
        scene.recreate(queue).await;
        post(&scene.mover, queue, "new").await;
        let answer = answered(request(&scene.other, &format!("/v2/queues/{queue}")), status).await;
        assert!(is_right(&answer), "{queue}: {answer}");
    }
    assert_eq!(scene.deployment.pools_of(PROJECT, "delete"), Vec::<&str>::new());

    scene.create("post").await;
    scene.recreate("post").await;
    post(&scene.other, "post", "new").await;
    assert_eq!(bodies(&list(&scene.mover, "post").await), ["new"]);
    // A queue that was deleted is gone for all.
    scene.create("gone").await;
    answered(scene.mover.delete("/v2/queues/gone"), 204).await;
    assert_eq!(bodies(&list(&scene.other, "gone").await), Vec::<&str>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_streams_and_subscribers_get_messages_of_the_new_place() {
    let scene = Scene::start().await;
    scene.create("moved").await;
    answered(scene.other.delete("/v2/queues/moved/messages?pop=1"), 200).await;
    let mut stream = Events::open(scene.other.get("/v2/queues/moved/messages?echo=true&include_claimed=true")).await;
    let claim = |queue: &str| {
        let request = scene.other.post(&format!("/v2/queues/{queue}/claims?wait=20"), &json!({}));
        tokio::spawn(request.timeout(HANG_TIMEOUT).send())
    };
    let (on_moved, on_new) = (claim("moved"), claim("new"));
    let waiting = async || Exposition::of(&scene.servers[1].url("")).await.value("sukkal_waiting_requests");
    until("both claims wait", async || waiting().await == Some(2.0)).await;

    scene.recreate("moved").await;
    let endpoint = Endpoint::start();
    let subscription = json!({"subscriber": endpoint.url("/"), "ttl": 3600, "options": {}});
    answered(scene.other.post("/v2/queues/moved/subscriptions", &subscription), 201).await;
    post(&scene.mover, "moved", "at b").await;
    answered(scene.mover.put("/v2/queues/new").json(&json!({"_flavor": "fast"})), 201).await;
    post(&scene.mover, "new", "at b").await;

    for claim in [on_moved, on_new] {
        let claimed = claim.await.unwrap().unwrap();
        assert_eq!(claimed.status(), 201);
        assert_eq!(bodies(&claimed.json().await.unwrap()), ["at b"]);
    }
    assert_eq!(stream.bodies(1).await, ["at b"]);
    until("the subscriber is notified", async || !endpoint.received().is_empty()).await;
    assert_eq!(endpoint.received()[0].body(), "at b");
}

/// The new URI leads to the same database, because the pool has queues.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_and_streams_continue_at_once_when_a_pool_gets_another_uri() {
    let scene = Scene::start().await;
    scene.create("q").await;
    answered(scene.other.delete("/v2/queues/q/messages?pop=1"), 200).await;
    let mut stream = Events::open(scene.other.get("/v2/queues/q/messages?echo=true&include_claimed=true")).await;
    let claim = tokio::spawn(scene.other.post("/v2/queues/q/claims?wait=30", &json!({})).timeout(HANG_TIMEOUT).send());
    let waiting = async || Exposition::of(&scene.servers[1].url("")).await.value("sukkal_waiting_requests");
    until("the claim waits", async || waiting().await == Some(1.0)).await;

    let pool = json!({"uri": format!("{}/renamed", scene.deployment.pools[0].url())});
    answered(admin(&scene.servers[1], Method::PATCH, "pools/a").json(&pool), 200).await;
    post(&scene.mover, "q", "new").await;

    // Without a notification, they would look again after 30 seconds.
    let claimed = timeout(ANSWER_MAX, claim).await.expect("the claim is notified").unwrap().unwrap();
    assert_eq!(bodies(&claimed.json().await.unwrap()), ["new"]);
    assert_eq!(timeout(ANSWER_MAX, stream.bodies(1)).await.expect("the stream is notified"), ["new"]);
}
