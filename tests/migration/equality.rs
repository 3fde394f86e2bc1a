//! A migrated store shows and does the same as the embedded one.

use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use serde_json::{Value, json};
use sukkal_domain::{ProjectId, QueueId};
use tempfile::TempDir;

use super::view::{assert_equal, view_of, view_of_queue};
use super::workload::{self, Known, QUEUES, hrefs, id_of, post};
use super::{COMPLETE_BEFORE, OPTIONS, assert_intact, embedded, migrate, run, serve_embedded};
use crate::http::{answered, send};
use crate::push::endpoint::{Answer, Endpoint};
use support::cluster::RedisCluster;
use support::random::{Random, seed};
use support::redis::RedisServer;
use support::sukkal::{Api, Sukkal};
use support::test_bed::TestBed;

const PROJECT: &str = "a/project {with} unusual characters";
/// Times (s) to which the clocks of queues are moved: claims and delays end, and messages expire.
/// The tenants of a fair queue would be forgotten after an hour of the real time in Redis.
const AHEAD_S: [i64; 4] = [121, 301, 901, 3_500];

/// An embedded store that was filled and is not open, and what its clients know.
struct Filled {
    folder: TempDir,
    known: Known,
    token: String,
    endpoint: Endpoint,
}

impl Filled {
    /// Fills a store by a service, and kills the service.
    async fn new(random: &mut Random) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut sukkal = Sukkal::start_with(&embedded(folder.path()), &OPTIONS);
        let api = sukkal.project(PROJECT);
        let known = workload::fill(&api, random).await;
        let endpoint = subscribe(&api).await;
        let token = json!({ "name": "a token", "roles": ["worker"], "project_id": PROJECT, "ttl": 3_600 });
        let token = answered(api.post("/v2/tokens", &token).header("X-Roles", "admin"), 201).await.json();
        let token = token["token"].as_str().unwrap().to_owned();
        support::secrets::note(&token);
        let project = utf8_percent_encode(PROJECT, NON_ALPHANUMERIC);
        let quotas = api.put(&format!("/v2/quotas?project_id={project}")).json(&json!({ "queues": 77 }));
        answered(quotas.header("X-Roles", "admin"), 200).await;
        post(&sukkal.project("other"), "plain", &json!([{ "body": "of another project" }])).await;
        sukkal.kill();
        Self { folder, known, token, endpoint }
    }

    fn uri(&self) -> String {
        embedded(self.folder.path())
    }
}

/// Subscribes an endpoint that accepts all messages but the first one, which is retried later, and
/// one whose subscription is paused in the middle.
pub(crate) async fn subscribe(api: &Api) -> Endpoint {
    let endpoint = Endpoint::answering(|received| Answer::Status(if received.body() == "first" { 500 } else { 204 }));
    let policy = json!({ "retries_with_no_delay": 0, "minimum_delay": 900, "maximum_delay": 1_800 });
    let mut subscriptions = Vec::new();
    for path in ["/accepts", "/paused"] {
        let document =
            json!({ "subscriber": endpoint.url(path), "ttl": 3_600, "options": { "_retry_policy": policy } });
        let created = answered(api.post("/v2/queues/subscribed/subscriptions", &document), 201).await.json();
        subscriptions.push(created["subscription_id"].as_str().unwrap().to_owned());
    }
    let first = ["first", "second", "third"].map(|body| json!({ "body": body, "ttl": 3_600 }));
    post(api, "subscribed", &json!(first)).await;
    endpoint.wait_for(6).await;
    let paused = format!("/v2/queues/subscribed/subscriptions/{}", subscriptions[1]);
    for id in &subscriptions {
        wait_until_delivered(api, id, 2).await;
    }
    let body = json!({ "reason": "a test" });
    answered(api.post(&format!("{paused}/pause"), &body), 204).await;
    post(api, "subscribed", &json!([{ "body": "fourth", "ttl": 3_600 }])).await;
    wait_until_delivered(api, &subscriptions[0], 3).await;
    endpoint
}

async fn wait_until_delivered(api: &Api, id: &str, count: u64) {
    let path = format!("/v2/queues/subscribed/subscriptions/{id}?with_delivery=true");
    for _ in 0..1_500 {
        let figures = answered(api.get(&path), 200).await.json()["delivery"].take();
        if figures["delivered"] == count && figures["retrying"] == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("not {count} messages were delivered");
}

fn queue_of(name: &str) -> QueueId {
    QueueId::new(ProjectId::new(PROJECT).unwrap(), name.parse().unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_shows_and_does_what_the_embedded_store_would() {
    let filled = Filled::new(&mut Random::new(seed(), 0, 0)).await;
    let (redis, cluster) = (RedisServer::start(), RedisCluster::start());
    let master = RedisServer::start();
    let sentinel = RedisServer::start_sentinel("main", &master);
    let by_sentinel = format!("redis-sentinel://127.0.0.1:{}/main", sentinel.port());
    for to in [redis.url(), cluster.url(), by_sentinel.clone()] {
        let text = migrate(&filled.uri(), &to);
        assert!(text.contains(" 13 queues, ") && text.contains(" 2 subscriptions, 2 retries, "), "{text}");
        assert_intact(&to);
        let (code, text) = run(&["migrate", "--from", &filled.uri(), "--to", &to]);
        assert!(code == Some(0) && text.contains(COMPLETE_BEFORE), "{text}");
    }
    assert_intact(&filled.uri());

    let (source, server) = serve_embedded(filled.folder.path());
    let target = TestBed::redis(&redis.url());
    let copies = [&redis.url(), &cluster.url(), &by_sentinel].map(|url| Sukkal::start_with(url, &OPTIONS));
    let [one, other] = [server.project(PROJECT), copies[0].project(PROJECT)];
    for copy in &copies {
        assert_equal(&one, &copy.project(PROJECT), view_of).await;
    }

    for ahead_s in AHEAD_S {
        for (name, _) in QUEUES {
            source.set_clock(&queue_of(name), ahead_s * 1_000_000);
            target.set_clock(&queue_of(name), ahead_s * 1_000_000).await;
            assert_equal(&one, &other, async |api| view_of_queue(api, name).await).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_go_on_where_they_were() {
    let Filled { folder, known, token, endpoint } = Filled::new(&mut Random::new(seed(), 1, 0)).await;
    let redis = RedisServer::start();
    migrate(&embedded(folder.path()), &redis.url());
    let (_store, server) = serve_embedded(folder.path());
    let (target, sukkal) = (TestBed::redis(&redis.url()), Sukkal::start_with(&redis.url(), &OPTIONS));
    let (embedded, api) = (server.project(PROJECT), sukkal.project(PROJECT));

    for (queue, _) in QUEUES {
        let claims = format!("/v2/queues/{queue}/claims?limit=3");
        for _ in 0..8 {
            let [one, other] = [&embedded, &api].map(|api| send(api.post(&claims, &json!({}))));
            let [one, other] = [hrefs(&one.await), hrefs(&other.await)];
            let ids = |hrefs: &[String]| hrefs.iter().map(|href| id_of(href).to_owned()).collect::<Vec<_>>();
            assert_eq!(ids(&one), ids(&other), "the messages of a claim of {queue}, in the order of turns");
        }
    }
    for (path, key, document, receipt) in &known.idempotent {
        let repeated = answered(api.post(path, document).header("Idempotency-Key", key), 201).await.json();
        assert_eq!(repeated, *receipt);
    }
    for (claim, messages) in &known.claims {
        answered(api.request(Method::PATCH, claim).json(&json!({ "ttl": 300 })), 204).await;
        for message in messages {
            answered(api.delete(message), 204).await;
            answered(api.get(message.split('?').next().unwrap()), 404).await;
        }
    }
    let (mut last_ids, behind_us) = (known.gone, -3_600_000_000);
    for queue in ["plain", "fair", "encrypted"] {
        last_ids.push((queue, newest(&api, queue).await));
    }
    for (queue, last) in last_ids {
        // Positions continue, whatever the clock of Redis shows.
        target.set_clock(&queue_of(queue), behind_us).await;
        let next = post(&api, queue, &json!([{ "body": "new" }])).await.remove(0);
        assert!(next > last, "{next} is not after {last}");
        let page = answered(api.get(&format!("/v2/queues/{queue}/messages?echo=true&marker={last}")), 200).await;
        assert_eq!(hrefs(&page).iter().map(|href| id_of(href)).collect::<Vec<_>>(), [&next]);
    }
    let bearer = api.get("/v2/queues").header("Authorization", format!("Bearer {token}"));
    answered(bearer, 200).await;
    assert_eq!(answered(api.get("/v2/usage"), 200).await.json()["limits"]["queues"], 77);

    let received = endpoint.received().len();
    post(&api, "subscribed", &json!([{ "body": "fifth" }])).await;
    let received = endpoint.wait_for(received + 1).await.split_off(received);
    let bodies: Vec<Value> = received.iter().map(crate::push::endpoint::Received::body).collect();
    assert_eq!(bodies, ["fifth"], "no message was delivered twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_redrive_continues() {
    let (folder, redis) = (tempfile::tempdir().unwrap(), RedisServer::start());
    let mut sukkal = Sukkal::start_with(&embedded(folder.path()), &OPTIONS);
    let api = sukkal.project(PROJECT);
    answered(api.put("/v2/queues/target"), 201).await;
    let bodies: Vec<Value> = (0..4).map(|number| json!({ "body": number })).collect();
    post(&api, "source", &bodies.into()).await;
    let redrive = json!({ "to": "target", "per_second": 1 });
    let task = answered(api.post("/v2/queues/source/redrive", &redrive), 202).await;
    let task = task.header("location").unwrap();
    sukkal.kill();

    migrate(&embedded(folder.path()), &redis.url());

    let sukkal = Sukkal::start_with(&redis.url(), &[OPTIONS[0], OPTIONS[1], ("SUKKAL_JANITOR__PAUSE", "1")]);
    let api = sukkal.project(PROJECT);
    while answered(api.get(task), 200).await.json()["state"] == "running" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let ended = answered(api.get(task), 200).await.json();
    assert_eq!((&ended["state"], &ended["moved"], &ended["skipped"]), (&json!("done"), &json!(4), &json!(0)));
    let moved = answered(api.get("/v2/queues/target/messages?echo=true"), 200).await.json();
    let moved: Vec<&Value> = moved["messages"].as_array().unwrap().iter().map(|message| &message["body"]).collect();
    assert_eq!(moved, [0, 1, 2, 3]);
    assert_intact(&redis.url());
}

/// Returns the id of the newest message of a queue that is not delayed.
async fn newest(api: &Api, queue: &str) -> String {
    let path = format!("/v2/queues/{queue}/messages?echo=true&include_claimed=true&limit=1&order=desc");
    id_of(&hrefs(&answered(api.get(&path), 200).await)[0]).to_owned()
}
