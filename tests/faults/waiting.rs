//! Waiters during a fault or a shutdown: they are notified nevertheless, or get a response.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use reqwest::RequestBuilder;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use support::cluster::RedisCluster;
use support::events::Events;
use support::exposition::Exposition;
use support::memory::resident_bytes;
use support::proxy::Proxy;
use support::redis::{RedisServer, Reply};
use support::sukkal::{Api, Sukkal};
use support::waiting::{block_until, until};

const KEEPS_DATA: [(&str, &str); 2] = [("appendonly", "yes"), ("appendfsync", "always")];
const PROJECT: &str = "waiting";
const CHANNEL: &str = "sukkal:{waiting/q}:queue";
const MESSAGES: &str = "/v2/queues/q/messages";
const FEED: &str = "/v2/queues/q/messages?echo=true";
const CLAIMS: &str = "/v2/queues/q/claims?wait=30";
/// Longest duration of a drain on a busy machine; waits are longer.
const PROMPT: Duration = Duration::from_secs(20);

/// Returns how many processes have subscribed to the queue, according to Redis.
fn subscribers(redis: &RedisServer) -> i64 {
    redis.command(&["PUBSUB", "SHARDNUMSUB", CHANNEL]).items()[1].as_int()
}

/// Sends a request that waits.
fn start_waiting(request: RequestBuilder) -> JoinHandle<(u16, Value)> {
    tokio::spawn(async move {
        let answer = request.send().await.expect("the server answers");
        (answer.status().as_u16(), answer.json().await.unwrap_or_default())
    })
}

/// Posts as soon as that is possible again.
async fn post(api: &Api, body: &str) {
    let message = json!({ "messages": [{ "body": body }] });
    until("the store is back", async || {
        api.post(MESSAGES, &message).header("Idempotency-Key", body).send().await.unwrap().status() == 201
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_survive_a_restart_of_redis() {
    let redis = RedisServer::start_with(&KEEPS_DATA);
    let sukkal = Sukkal::start(&redis.url());
    let api = sukkal.project(PROJECT);
    // The claim may come first.
    let mut events = Events::open(api.get(&format!("{FEED}&include_claimed=true"))).await;
    let claiming = start_waiting(api.post(CLAIMS, &json!({})));
    block_until("a process waits for the queue", || subscribers(&redis) == 1);

    redis.kill();
    redis.restart();
    block_until("the queue is watched again", || subscribers(&redis) == 1);
    post(&api, "after").await;

    let (status, claim) = claiming.await.unwrap();
    // A claim that queried while the store was down got an error.
    assert!(status == 503 || (status == 201 && claim["messages"][0]["body"] == "after"), "{status} {claim}");
    assert_eq!(events.bodies(1).await, ["after"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_notification_connection_is_replaced() {
    // While no process is subscribed, no waiter is notified of such a post.
    assert_notified_despite(Proxy::cut, |_| {}).await;
}

/// No waiter is notified of the release, so only a query from the waiter's own start finds the
/// message.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_released_during_an_outage_reaches_a_waiter_past_its_position() {
    let redis = RedisServer::start();
    let proxy = Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, redis.port())));
    let sukkal = Sukkal::start(&proxy.url("redis"));
    let (api, elsewhere) = (sukkal.project(PROJECT), Sukkal::start(&redis.url()));
    let (worker, other) =
        (elsewhere.project(PROJECT), elsewhere.project(PROJECT).client("0a0f95c8-8d6b-4f3e-9c0f-6f7a4c9e2b11"));
    post(&other, "older").await;
    let claim = worker.post("/v2/queues/q/claims", &json!({})).send().await.unwrap();
    let claim = claim.headers()["location"].to_str().unwrap().to_owned();
    post(&worker, "own").await;
    let waiting = start_waiting(api.get(&format!("{MESSAGES}?wait=30")));
    block_until("a process waits for the queue", || subscribers(&redis) == 1);

    proxy.refuse();
    proxy.cut();
    assert_eq!(worker.delete(&claim).send().await.unwrap().status(), 204);
    proxy.restore();

    let (status, page) = waiting.await.unwrap();
    assert_eq!((status, &page["messages"][0]["body"]), (200, &json!("older")), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_notification_connection_is_replaced() {
    assert_notified_despite(Proxy::black_hole, Proxy::restore).await;
}

/// Breaks the network of a server that has a stream, posts through another server, and repairs the
/// network.
async fn assert_notified_despite(break_network: impl Fn(&Proxy), repair: impl Fn(&Proxy)) {
    let redis = RedisServer::start();
    let proxy = Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, redis.port())));
    let sukkal = Sukkal::start(&proxy.url("redis"));
    let (api, elsewhere) = (sukkal.project(PROJECT), Sukkal::start(&redis.url()));
    let mut events = Events::open(api.get(FEED)).await;
    block_until("a process waits for the queue", || subscribers(&redis) == 1);

    break_network(&proxy);
    post(&elsewhere.project(PROJECT), "meanwhile").await;
    repair(&proxy);

    assert_eq!(events.bodies(1).await, ["meanwhile"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_are_notified_after_the_slot_of_their_queue_has_moved() {
    let cluster = RedisCluster::start();
    let waited_on = [Sukkal::start(&cluster.url()), Sukkal::start(&cluster.url())];
    let mut events = Events::open(waited_on[0].project(PROJECT).get(FEED)).await;
    let from = cluster.node_of(CHANNEL);
    let to = cluster.nodes().iter().find(|node| node.port() != from.port()).unwrap();
    block_until("a process waits for the queue", || subscribers(from) == 1);

    // The slot is empty so far.
    let to_id = to.command(&["CLUSTER", "MYID"]).as_text().to_owned();
    let slot = from.command(&["CLUSTER", "KEYSLOT", CHANNEL]).as_int().to_string();
    for node in [to, from] {
        assert_eq!(node.command(&["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]), Reply::Status("OK".to_owned()));
    }
    post(&waited_on[1].project(PROJECT), "moved").await;

    assert_eq!(events.bodies(1).await, ["moved"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_responds_to_waiters_and_other_processes_take_over() {
    for store in ["redis", "memory"] {
        let redis = RedisServer::start();
        let uri = if store == "redis" { redis.url() } else { "memory:".to_owned() };
        let mut first = Sukkal::launch(&["serve", "--bind", "127.0.0.1:0", "--store", &uri], &[]);
        let url = first.url("");
        let api = Api::new(url.clone(), PROJECT);
        let mut events = Events::open(api.get(FEED)).await;
        post(&api, "before").await;
        let seen = events.next().await.unwrap();
        let waiting = [
            start_waiting(api.get(&format!("{FEED}&wait=30&marker={}", seen.id))),
            start_waiting(api.post("/v2/queues/other/claims?wait=30", &json!({}))),
            start_waiting(api.delete("/v2/queues/other/messages?pop=1&wait=30")),
        ];
        let waiters = async || Exposition::of(&url).await.value("sukkal_waiting_requests");
        until("the requests wait", async || waiters().await == Some(3.0)).await;

        let start = Instant::now();
        first.signal("TERM");
        let mut answers = Vec::new();
        for answer in waiting {
            answers.push(answer.await.unwrap());
        }
        assert_eq!(events.next().await, None, "{store}: the stream ends in order");
        assert_eq!(first.wait().code(), Some(0));
        assert!(start.elapsed() < PROMPT, "{store}: it took {:?}", start.elapsed());
        let [(listed, page), (claimed, _), (popped, none)] = answers.try_into().unwrap();
        assert_eq!((listed, claimed, popped), (200, 204, 200), "{store}");
        assert_eq!((&page["messages"], &none["messages"]), (&json!([]), &json!([])), "{store}");

        if store == "redis" {
            let second = Sukkal::start(&uri);
            let api = second.project(PROJECT);
            post(&api, "after").await;
            let mut events = Events::open(api.get(FEED).header("Last-Event-ID", &seen.id)).await;
            assert_eq!(events.bodies(1).await, ["after"]);
        }
    }
}

/// Messages of 200 KB that the client does not read, far more than a page and the network buffers
/// hold.
const UNREAD: usize = 200;
const UNREAD_BYTES: usize = 200_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_waits_for_a_client_that_does_not_read() {
    let redis = RedisServer::start();
    let sukkal = Sukkal::start(&redis.url());
    let api = sukkal.project(PROJECT);
    let mut events = Events::open(api.get(FEED)).await;
    let messages = json!({ "messages": [{ "body": "x".repeat(UNREAD_BYTES) }] });
    let before = resident_bytes(sukkal.id());
    let mut peak = 0;
    for number in 0..UNREAD {
        assert_eq!(api.post(MESSAGES, &messages).send().await.unwrap().status(), 201, "message {number}");
        peak = peak.max(resident_bytes(sukkal.id()));
    }

    let held = peak.saturating_sub(before);
    assert!(held < UNREAD * UNREAD_BYTES / 2, "{held} bytes: the server buffers data that the client does not read");
    assert_eq!(events.bodies(UNREAD).await.len(), UNREAD);
}
