//! The requests that cost a store the most work. Each function prepares the data and returns the
//! requests themselves. The benchmark `blocking` times them, and the tests of this folder count
//! their work.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::stage::{Stage, ok, posting};
use support::sukkal::Api;
use support::waiting::until_some;

/// Bytes of a large body: a request with one such message is almost as large as the limits allow.
pub(crate) const LARGE: usize = 250_000;
/// Largest number of shards of a queue, and of a tenant.
const SHARDS_MAX: usize = 1_024;
/// The default of `max_messages_per_page` and `max_messages_per_claim_or_pop`.
const PAGE: usize = 20;
/// A client that has posted no messages.
const READER: &str = "0a0f95c8-8d6b-4f3e-9c0f-6f7a4c9e2b11";
const MESSAGES: &str = "/v2/queues/q/messages";
const TTL_S_MIN: u64 = 60;

/// Requests that are ready to be sent.
pub(crate) type Action = BoxFuture<'static, ()>;

/// A list with `echo=false` in a queue that has only messages of the caller.
pub(crate) async fn list_beside_own(stage: &Stage, own: usize, bytes: usize) -> Action {
    stage.fill("q", own, &message(bytes)).await;
    one(stage.api().get(&format!("{MESSAGES}?echo=false&limit={PAGE}")))
}

/// A list of large messages.
pub(crate) async fn list_large(stage: &Stage, count: usize) -> Action {
    stage.fill("q", count, &message(LARGE)).await;
    one(stage.api().get(&format!("{MESSAGES}?echo=true&limit={PAGE}")))
}

/// A claim over large messages.
pub(crate) async fn claim_large(stage: &Stage, count: usize) -> Action {
    stage.fill("q", count, &message(LARGE)).await;
    one(claim(&stage.api(), "q"))
}

/// A pop over large messages.
pub(crate) async fn pop_large(stage: &Stage, count: usize) -> Action {
    stage.fill("q", count, &message(LARGE)).await;
    one(stage.api().delete(&format!("{MESSAGES}?pop={PAGE}")))
}

/// One request with as many tiny messages as the limits allow.
pub(crate) async fn post_many(stage: &Stage) -> Action {
    let tiny = |count| vec!["{\"body\":1}".to_owned(); count];
    one(largest(stage, &json!({}), &[23_800, 1_000].map(tiny)).await)
}

/// One request to a fair queue with as many tenants as the limits allow, each with this number of
/// shards.
pub(crate) async fn post_tenants(stage: &Stage, shards_per_tenant: usize) -> Action {
    let of = |(count, tenants)| {
        (0..count).map(|number| format!("{{\"body\":1,\"tenant\":\"{}\"}}", number % tenants)).collect()
    };
    let fair = json!({ "_shards": SHARDS_MAX, "_shards_per_tenant": shards_per_tenant });
    let post = largest(stage, &fair, &[(9_300, 9_300), (1_000, 64), (1_000, 63)].map(of)).await;
    if shards_per_tenant == SHARDS_MAX {
        // No shard is empty, so the shortest one must be searched.
        stage.fill_by(20, "q", 2 * SHARDS_MAX, &json!({ "body": 1, "tenant": "busy" })).await;
    }
    one(post)
}

/// A list of queues whose filter matches none.
pub(crate) async fn list_queues(stage: &Stage, count: usize) -> Action {
    join_all((0..16).map(|connection| {
        let api = stage.api();
        async move {
            for number in (connection..count).step_by(16) {
                ok(api.put(&format!("/v2/queues/queue-{number:06}")).json(&json!({}))).await;
            }
        }
    }))
    .await;
    one(stage.api().get("/v2/queues?name=zzz"))
}

/// Posts of the same client while its list with `echo=false` waits in a queue with many of its own
/// messages. At the end another client posts.
pub(crate) async fn wait_beside_own(stage: &Stage, own: usize, posts: usize) -> Action {
    stage.fill("q", own, &message(1)).await;
    let api = stage.api();
    let list = api.get(&format!("{MESSAGES}?echo=false&wait=30"));
    let waiter = tokio::spawn(ok(list));
    stage.wait_for_waiter("q").await;
    async move {
        for _ in 0..posts {
            ok(api.post(MESSAGES, &json!({ "messages": [message(1)] }))).await;
        }
        ok(api.client(READER).post(MESSAGES, &json!({ "messages": [message(1)] }))).await;
        let page = waiter.await.unwrap();
        assert_eq!(page["messages"].as_array().unwrap().len(), 1, "{page}");
    }
    .boxed()
}

/// The statistics of as many busy shards as a queue can have.
pub(crate) async fn stats_of_shards(stage: &Stage) -> Action {
    stage.create("q", &json!({ "_shards": SHARDS_MAX, "_shards_per_tenant": SHARDS_MAX })).await;
    stage.fill_by(20, "q", SHARDS_MAX * 2, &json!({ "body": 1, "tenant": "busy" })).await;
    one(stage.api().get("/v2/queues/q/stats?detailed=true"))
}

/// Posts to two fair queues in which many messages have expired.
pub(crate) async fn post_beside_expired(stage: &Stage, expired: usize) -> Action {
    for queue in ["q", "r"] {
        stage.create(queue, &json!({ "_shards": 64 })).await;
        stage.fill(queue, expired, &json!({ "body": 1, "ttl": TTL_S_MIN, "tenant": "one" })).await;
    }
    stage.advance_clocks(&["q", "r"], Duration::from_secs(TTL_S_MIN + 2)).await;
    let api = stage.api();
    let posts = ["q", "r"]
        .map(|queue| ok(api.post(&format!("/v2/queues/{queue}/messages"), &json!({ "messages": [{ "body": 2 }] }))));
    join_all(posts).map(|_| ()).boxed()
}

/// A post to a queue in which many delayed messages are due.
pub(crate) async fn post_beside_delayed(stage: &Stage, count: usize) -> Action {
    stage.create("q", &json!({ "_default_message_delay": 60 })).await;
    stage.fill("q", count, &message(1)).await;
    stage.advance_clocks(&["q"], Duration::from_secs(62)).await;
    one(stage.api().post(MESSAGES, &json!({ "messages": [{ "body": 2, "delay": 0 }] })))
}

/// A list of a queue whose messages have adjacent ranks, as after a burst, and have all expired.
pub(crate) async fn list_beside_dense(stage: &Stage, count: usize) -> Action {
    stage.create("q", &json!({})).await;
    if let Some(redis) = &stage.redis {
        let ahead = SystemTime::now() + Duration::from_secs(3_600);
        let rank = ahead.duration_since(UNIX_EPOCH).expect("it is after 1970").as_micros().to_string();
        let script = "return redis.call('HSET', KEYS[1], 'c', struct.pack('>I8I8', ARGV[1], 0))";
        redis.command(&["EVAL", script, "1", "sukkal:{worst/q}:queue", &rank]);
    }
    stage.fill("q", count, &json!({ "body": 1, "ttl": TTL_S_MIN })).await;
    stage.advance_clocks(&["q"], Duration::from_secs(TTL_S_MIN + 2)).await;
    one(stage.api().get(&format!("{MESSAGES}?echo=true")))
}

/// The deletion of a large fair queue.
pub(crate) async fn delete_queue(stage: &Stage, count: usize) -> Action {
    fill_fair(stage, count).await;
    one(stage.api().delete("/v2/queues/q"))
}

/// The purge of a large fair queue.
pub(crate) async fn purge(stage: &Stage, count: usize) -> Action {
    fill_fair(stage, count).await;
    one(stage.api().post("/v2/queues/q/purge", &json!({ "resource_types": ["messages"] })))
}

/// A claim just after the expiry of many claims of one message.
pub(crate) async fn claim_after_ended(stage: &Stage, claims: usize) -> Action {
    stage.fill("q", claims, &message(1)).await;
    let api = stage.api();
    join_all((0..16).map(|connection| {
        let api = api.clone();
        async move {
            for _ in (connection..claims).step_by(16) {
                let one = json!({ "ttl": TTL_S_MIN, "grace": 60 });
                ok(api.post("/v2/queues/q/claims?limit=1", &one)).await;
            }
        }
    }))
    .await;
    stage.advance_clocks(&["q"], Duration::from_secs(TTL_S_MIN + 2)).await;
    one(claim(&api, "q"))
}

/// The release of a claim with as many messages as a claim can have.
pub(crate) async fn release(stage: &Stage) -> Action {
    stage.create("q", &json!({ "_shards": SHARDS_MAX, "_shards_per_tenant": SHARDS_MAX })).await;
    stage.fill("q", PAGE, &message(1)).await;
    let claimed = ok(claim(&stage.api(), "q")).await;
    one(stage.api().delete(&claim_path(&claimed)))
}

/// A bulk get of as many large messages as a request allows.
pub(crate) async fn bulk_get(stage: &Stage) -> Action {
    one(stage.api().get(&format!("{MESSAGES}?ids={}", large_ids(stage).await)))
}

/// A bulk deletion of as many large messages as a request allows.
pub(crate) async fn bulk_delete(stage: &Stage) -> Action {
    one(stage.api().delete(&format!("{MESSAGES}?ids={}", large_ids(stage).await)))
}

/// A claim that finds only large messages, all of which have become dead letters.
pub(crate) async fn move_dead_letters(stage: &Stage) -> Action {
    stage.create("q", &json!({ "_max_claim_count": 1, "_dead_letter_queue": "dead" })).await;
    stage.fill("q", PAGE, &message(LARGE)).await;
    deliver_once(stage, PAGE).await;
    let api = stage.api();
    // While its commands are recorded, Redis may not answer in time. Then the next claim moves the
    // rest.
    let claimed = async move || claim(&api, "q").send().await.unwrap().status().is_success().then_some(());
    async move { until_some("a claim succeeds", claimed).await }.boxed()
}

/// Claims this number of messages, and then releases the claims.
async fn deliver_once(stage: &Stage, count: usize) {
    let api = stage.api();
    let (mut claims, mut claimed) = (Vec::new(), 0);
    while claimed < count {
        let answer = ok(claim(&api, "q")).await;
        claimed += answer["messages"].as_array().expect("more messages are available").len();
        claims.push(claim_path(&answer));
    }
    for path in claims {
        ok(api.delete(&path)).await;
    }
}

/// A redrive of dead letters, until it is done.
pub(crate) async fn redrive(stage: &Stage, count: usize, bytes: usize) -> Action {
    stage.create("q", &json!({ "_max_claim_count": 1, "_dead_letter_queue": "dead" })).await;
    stage.fill("q", count, &message(bytes)).await;
    deliver_once(stage, count).await;
    let api = stage.api();
    let total =
        async |queue: &str| ok(api.get(&format!("/v2/queues/{queue}/stats"))).await["messages"]["total"].clone();
    while total("q").await != 0 {
        ok(claim(&api, "q")).await;
    }
    while total("dead").await != count {
        sleep(Duration::from_millis(5)).await;
    }
    let api = stage.api();
    async move {
        let task = ok(api.post("/v2/queues/dead/redrive", &json!({}))).await;
        let path = format!("/v2/queues/dead/tasks/{}", task["id"].as_str().expect("a task has an id"));
        loop {
            let task = ok(api.get(&path)).await;
            if task["state"] != "running" {
                assert_eq!(task["moved"], count, "{task}");
                return;
            }
            sleep(Duration::from_millis(5)).await;
        }
    }
    .boxed()
}

/// Returns a message with a body of this many bytes.
fn message(bytes: usize) -> Value {
    json!({ "ttl": 3600, "body": "x".repeat(bytes) })
}

fn claim(api: &Api, queue: &str) -> reqwest::RequestBuilder {
    api.post(&format!("/v2/queues/{queue}/claims?limit={PAGE}"), &json!({}))
}

/// Returns the path of a claim, from the path of its first message.
fn claim_path(claim: &Value) -> String {
    let href = claim["messages"][0]["href"].as_str().expect("a claim has messages");
    let id = href.split("claim_id=").nth(1).expect("a claimed message names its claim");
    format!("/v2/queues/q/claims/{id}")
}

async fn fill_fair(stage: &Stage, count: usize) {
    stage.create("q", &json!({ "_shards": 64 })).await;
    stage.fill("q", count, &message(1)).await;
}

async fn large_ids(stage: &Stage) -> String {
    let mut ids = Vec::new();
    for _ in 0..PAGE {
        let receipt = ok(stage.api().post(MESSAGES, &json!({ "messages": [message(LARGE)] }))).await;
        let href = receipt["resources"][0].as_str().expect("a receipt names the message");
        ids.push(href.rsplit('/').next().unwrap_or_default().to_owned());
    }
    ids.join(",")
}

/// Determines on another queue the first of these batches that the limits allow, and returns its
/// post to `q`.
async fn largest(stage: &Stage, metadata: &Value, batches: &[Vec<String>]) -> reqwest::RequestBuilder {
    stage.create("q", metadata).await;
    stage.create("trial", metadata).await;
    let api = stage.api();
    for batch in batches {
        let body = format!("{{\"messages\":[{}]}}", batch.join(","));
        let trial = posting(&api, "/v2/queues/trial/messages", body.clone()).send().await.expect("the server answers");
        if trial.status() != 400 {
            return posting(&api, MESSAGES, body);
        }
    }
    panic!("none of the batches is allowed");
}

fn one(request: reqwest::RequestBuilder) -> Action {
    ok(request).map(|_| ()).boxed()
}
