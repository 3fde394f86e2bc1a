//! Fills a store with everything that it can have, by seeded requests.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::http::{Answer, OTHER_CLIENT, PATCH_TYPE, answered, ids, send};
use support::random::Random;
use support::sukkal::Api;

/// Queues that random requests fill, with their metadata.
pub(crate) const QUEUES: [(&str, &str); 6] = [
    ("plain", r#"{"color": "red"}"#),
    ("delaying", r#"{"_enable_message_delay": true}"#),
    ("failing", r#"{"_max_claim_count": 1, "_dead_letter_queue": "dead"}"#),
    ("fair", r#"{"_shards": 8, "_shards_per_tenant": 2}"#),
    ("becomes-fair", "{}"),
    ("encrypted", r#"{"_enable_encrypt_messages": true}"#),
];
const REQUESTS_PER_QUEUE: usize = 70;

/// What clients know that have used the store.
#[derive(Default)]
pub(crate) struct Known {
    /// Live claims, each with the hrefs of its messages.
    pub(crate) claims: Vec<(String, Vec<String>)>,
    /// A post with an idempotency key: its path, its key, its document, and the response.
    pub(crate) idempotent: Vec<(String, String, Value, Value)>,
    /// The ids of messages that were deleted together with others, by their queue.
    pub(crate) gone: Vec<(&'static str, String)>,
}

/// Sends random requests to all queues, and then those that random ones would hardly include.
pub(crate) async fn fill(api: &Api, random: &mut Random) -> Known {
    let mut known = Known::default();
    for (queue, metadata) in QUEUES {
        let metadata: Value = serde_json::from_str(metadata).unwrap();
        answered(api.put(&format!("/v2/queues/{queue}")).json(&metadata), 201).await;
        for step in 0..REQUESTS_PER_QUEUE {
            if queue == "becomes-fair" && step == REQUESTS_PER_QUEUE / 2 {
                let patch = json!([{"op": "add", "path": "/metadata/_shards", "value": 4}]);
                let patched = api.request(Method::PATCH, "/v2/queues/becomes-fair").body(patch.to_string());
                answered(patched.header("Content-Type", PATCH_TYPE), 200).await;
            }
            request(api, random, queue, &mut known).await;
        }
    }
    post(api, "dead", &json!([{ "body": "posted", "ttl": 3_600 }])).await;
    answered(api.request(Method::POST, "/v2/queues/dead/redrive").json(&json!({ "limit": 1 })), 202).await;
    post(api, "paused", &json!([{ "body": 1, "ttl": 3_600 }])).await;
    answered(api.request(Method::POST, "/v2/queues/paused/pause"), 204).await;
    answered(api.put("/v2/queues/empty").json(&json!({ "empty": true })), 201).await;
    let messages = json!({ "messages": [{ "body": "of a topic", "ttl": 3_600 }] });
    answered(api.post("/v2/topics/plain/messages", &messages), 201).await;
    known.gone.push(("purged", post(api, "purged", &json!([{ "body": 1 }])).await.remove(0)));
    answered(
        api.request(Method::POST, "/v2/queues/purged/purge").json(&json!({ "resource_types": ["messages"] })),
        204,
    )
    .await;
    known.gone.push(("deleted", post(api, "deleted", &json!([{ "body": 1 }])).await.remove(0)));
    answered(api.delete("/v2/queues/deleted"), 204).await;
    known
}

async fn request(api: &Api, random: &mut Random, queue: &str, known: &mut Known) {
    let path = format!("/v2/queues/{queue}");
    let own = known.claims.iter().position(|(claim, _)| claim.starts_with(&format!("{path}/")));
    match random.below(10) {
        0..=3 => {
            let document =
                json!({ "messages": (0..=random.below(4)).map(|_| message(queue, random)).collect::<Vec<_>>() });
            let path = format!("{path}/messages");
            let mut posting = api.post(&path, &document);
            if random.one_in(3) {
                posting = posting.header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
            }
            let key = format!("key-{}", random.within(0..=u64::MAX));
            let receipt = answered(posting.header("Idempotency-Key", &key), 201).await.json();
            known.idempotent.push((path, key, document, receipt));
        }
        4 | 5 => {
            let api = if random.one_in(3) { api.client(OTHER_CLIENT) } else { api.clone() };
            let term = json!({ "ttl": 60 * random.within(5..=20), "grace": 60 });
            let claim = send(api.post(&format!("{path}/claims?limit={}", 1 + random.below(4)), &term)).await;
            if claim.status == 201 {
                known.claims.push((claim.header("location").unwrap().to_owned(), hrefs(&claim)));
            }
        }
        6 => drop(answered(api.delete(&format!("{path}/messages?pop=1")), 200).await),
        _ => {
            if let Some(at) = own {
                use_claim(api, random, known, at).await;
            }
        }
    }
}

/// Renews, releases or shrinks a claim.
async fn use_claim(api: &Api, random: &mut Random, known: &mut Known, at: usize) {
    let (claim, messages) = &mut known.claims[at];
    match random.below(5) {
        0 => drop(answered(api.request(Method::PATCH, claim).json(&json!({ "ttl": 900, "grace": 60 })), 204).await),
        1 => {
            answered(api.delete(claim), 204).await;
            known.claims.remove(at);
        }
        2 => drop(answered(api.delete(&messages.remove(0)), 204).await),
        kind => {
            let id = id_of(&messages.remove(0)).to_owned();
            let delay = if kind == 3 { 600 } else { 0 };
            answered(api.delete(&format!("{claim}/messages/{id}?delay={delay}")), 204).await;
        }
    }
    // A claim ends with the last message that it holds.
    known.claims.retain(|(_, messages)| !messages.is_empty());
}

fn message(queue: &str, random: &mut Random) -> Value {
    let ttl = [120, 300, 3_600, 86_400][random.below(4)];
    let mut message = json!({ "body": { "number": random.below(1_000_000) }, "ttl": ttl });
    if queue == "delaying" {
        message["delay"] = [0, 0, 200, 900][random.below(4)].into();
    }
    if queue == "fair" || queue == "becomes-fair" && random.one_in(2) {
        message["tenant"] = format!("tenant {}", random.below(5)).into();
    }
    message
}

pub(crate) async fn post(api: &Api, queue: &str, messages: &Value) -> Vec<String> {
    let posting: RequestBuilder = api.post(&format!("/v2/queues/{queue}/messages"), &json!({ "messages": messages }));
    ids(&answered(posting, 201).await.json())
}

/// Returns the hrefs of the messages in a document.
pub(crate) fn hrefs(answer: &Answer) -> Vec<String> {
    if answer.status == 204 {
        return Vec::new();
    }
    let document = answer.json();
    let messages = document["messages"].as_array().unwrap();
    messages.iter().map(|message| message["href"].as_str().unwrap().to_owned()).collect()
}

/// Returns the id of a message in its path.
pub(crate) fn id_of(href: &str) -> &str {
    href.rsplit('/').next().unwrap().split('?').next().unwrap()
}
