//! Redis has executed a command, but its reply is lost: a repeated command has no second effect.

use std::net::{Ipv4Addr, SocketAddr};

use futures::future::join_all;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::gate::{COMMANDS_MAX, Gate};
use super::requests::Requests;
use super::stored::Stored;
use crate::http::{answered, follow, ids, send};
use support::proxy::Proxy;
use support::random::Random;
use support::redis::RedisServer;
use support::sukkal::{Api, Sukkal};

/// A server whose commands for one project may lose their replies.
struct Scene {
    redis: RedisServer,
    gate: Gate,
    _sukkal: Sukkal,
    requests: Requests,
}

impl Scene {
    async fn start() -> Self {
        let redis = RedisServer::start();
        let gate = Gate::start(redis.port(), "faults");
        let sukkal = Sukkal::start_without_janitor(&redis, &gate.url(), &[]);
        let requests = Requests::prepare(&sukkal).await;
        Self { redis, gate, _sukkal: sukkal, requests }
    }

    /// Makes a request repeatedly, and loses the reply to another of its commands each time.
    /// Returns the number of commands.
    async fn each_reply_lost(&self, attempt: impl AsyncFn(usize, &Api)) -> usize {
        self.gate.lose_each_reply(async |number| attempt(number, &self.requests.api).await).await
    }

    fn stored(&self) -> Stored<'_> {
        Stored { redis: &self.redis, project: "faults" }
    }
}

#[tokio::test]
async fn a_post_is_stored_once_under_the_ids_of_its_receipt() {
    let scene = Scene::start().await;

    let commands = scene
        .each_reply_lost(async |number, api| {
            let path = format!("/v2/queues/lost-{number}/messages");
            let bodies = [json!("a"), json!("b"), json!("c")];
            let batch = json!({ "messages": bodies.clone().map(|body| json!({ "body": body })) });

            let receipt = ids(&answered(api.post(&path, &batch), 201).await.json());

            let feed = feed(api, &path).await;
            assert_eq!(feed.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>(), receipt);
            assert_eq!(feed.into_iter().map(|(_, body)| body).collect::<Vec<_>>(), bodies);
        })
        .await;

    assert!(commands >= 5, "a first post creates its queue, which needs more than {commands} commands");
    assert_eq!(scene.stored().queues(), scene.stored().registered());
}

#[tokio::test]
async fn posts_that_share_a_script_are_stored_once_each() {
    let scene = Scene::start().await;
    let paths = ["shared-a", "shared-b", "shared-c"].map(|queue| format!("/v2/queues/{queue}/messages"));
    let batch = |number: usize| json!({ "messages": [{ "body": number }, { "body": number + 1000 }] });
    for path in &paths {
        scene.gate.lose_reply_of(COMMANDS_MAX);
        answered(scene.requests.api.post(path, &batch(0)), 201).await;
    }

    // The first script has few posts, the next one all that have accumulated. There are at least
    // two, because 80 messages do not fit into one.
    for lost in 0..2 {
        scene.gate.lose_reply_of(lost);
        let posts = (1..=40).map(|number| scene.requests.api.post(&paths[number % 3], &batch(number)).send());
        let answers = join_all(posts).await;
        assert!(answers.into_iter().all(|answer| answer.unwrap().status() == 201));
        assert!(scene.gate.has_happened(), "nothing was lost");

        for (path, numbers) in paths.iter().zip([(3..=39), (1..=40), (2..=38)]) {
            let mut feed: Vec<Value> =
                feed(&scene.requests.api, path).await.into_iter().map(|(_, body)| body).collect();
            let mut expected = vec![json!(0), json!(1000)];
            for _ in 0..=lost {
                expected.extend(numbers.clone().step_by(3).flat_map(|number| [json!(number), json!(number + 1000)]));
            }
            feed.sort_by_key(Value::as_u64);
            expected.sort_by_key(Value::as_u64);
            assert_eq!(feed, expected, "{path}");
        }
    }
}

#[tokio::test]
async fn a_queue_is_created_once() {
    let scene = Scene::start().await;

    let commands = scene
        .each_reply_lost(async |number, api| {
            let path = format!("/v2/queues/lost-{number}");

            let created = api.put(&path).json(&json!({ "color": number })).send().await.unwrap();

            assert_eq!(created.status(), 201, "reply {number} was lost");
            assert_eq!(answered(api.get(&path), 200).await.json()["color"], number);
        })
        .await;

    assert!(commands >= 4, "a creation needs more than {commands} commands");
    assert_eq!(scene.stored().queues(), scene.stored().registered());
}

#[tokio::test]
async fn a_patch_is_applied_once() {
    let scene = Scene::start().await;

    for (patch, color) in [
        (json!([{ "op": "add", "path": "/metadata/color", "value": "red" }]), json!("red")),
        (json!([{ "op": "remove", "path": "/metadata/color" }]), Value::Null),
    ] {
        let commands = scene
            .each_reply_lost(async |number, api| {
                let queue = format!("lost-{number}");
                scene.gate.lose_reply_of(COMMANDS_MAX);
                api.put(&format!("/v2/queues/{queue}")).json(&json!({ "color": "blue" })).send().await.unwrap();
                scene.gate.lose_reply_of(number);

                let patched = scene.requests.patch(&queue, &patch).send().await.unwrap();

                assert_eq!(patched.status(), StatusCode::OK, "{patch}, reply {number} was lost");
                assert_eq!(patched.json::<Value>().await.unwrap()["color"], color);
            })
            .await;

        assert!(commands >= 2, "a patch needs more than {commands} commands");
    }
}

#[tokio::test]
async fn a_repeated_deletion_deletes_once() {
    let scene = Scene::start().await;

    let commands = scene
        .each_reply_lost(async |number, api| {
            let queue = format!("/v2/queues/lost-{number}");
            let messages = format!("{queue}/messages");
            scene.gate.lose_reply_of(COMMANDS_MAX);
            let batch = json!({ "messages": [{ "body": "doomed" }, { "body": "kept" }] });
            let posted = ids(&answered(api.post(&messages, &batch), 201).await.json());

            scene.gate.lose_reply_of(number);
            answered(api.delete(&format!("{messages}/{}", posted[0])), 204).await;
            let left = feed(api, &messages).await;
            assert_eq!(left, [(posted[1].clone(), json!("kept"))]);

            scene.gate.lose_reply_of(number);
            answered(api.delete(&queue), 204).await;
            let listed = answered(api.get("/v2/queues"), 200).await.text;
            assert!(!listed.contains(&format!("\"lost-{number}\"")), "{listed}");
        })
        .await;

    assert!(commands >= 2, "a deletion needs more than {commands} commands");
    scene.stored().assert_no_partial_queue();
}

#[tokio::test]
async fn every_acknowledged_post_is_stored_exactly_once() {
    const POSTERS: u64 = 8;
    const POSTS: usize = 60;
    let redis = RedisServer::start();
    let proxy = Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, redis.port())));
    let sukkal = Sukkal::start_without_janitor(&redis, &proxy.url("redis"), &[]);
    let api = sukkal.project("many");
    answered(api.put("/v2/queues/q"), 201).await;

    let posters = (0..POSTERS).map(async |poster| {
        let mut random = Random::new(poster, 0, 0);
        let mut receipts = Vec::new();
        for number in 0..POSTS {
            let bodies: Vec<String> = (0..=random.below(4)).map(|part| format!("{poster}/{number}/{part}")).collect();
            let batch: Vec<Value> = bodies.iter().map(|body| json!({ "body": body })).collect();
            if random.below(6) == 0 {
                proxy.drop_replies(1);
            }
            let answer = send(api.post("/v2/queues/q/messages", &json!({ "messages": batch }))).await;
            let receipt = match answer.status {
                201 => Some(ids(&answer.json())),
                503 => None,
                status => panic!("{status}"),
            };
            receipts.push((bodies, receipt));
        }
        receipts
    });
    let receipts: Vec<_> = join_all(posters).await.into_iter().flatten().collect();
    proxy.drop_replies(0);
    let feed = feed(&api, "/v2/queues/q/messages").await;

    let acknowledged = receipts.iter().filter(|(_, receipt)| receipt.is_some()).count();
    assert!(acknowledged * 2 > receipts.len(), "only {acknowledged} of {} posts got through", receipts.len());
    for (bodies, receipt) in receipts {
        let at = feed.iter().position(|(_, body)| *body == bodies[0]);
        let stored = at.map_or(&[][..], |at| &feed[at..feed.len().min(at + bodies.len())]);
        if let Some(receipt) = receipt {
            let promised: Vec<_> = receipt.into_iter().zip(bodies.iter().map(|body| json!(body))).collect();
            assert_eq!(stored, promised, "acknowledged, but not stored as in the receipt");
        }
        for body in bodies {
            let times = feed.iter().filter(|(_, other)| *other == body).count();
            assert_eq!(times, usize::from(at.is_some()), "{body}");
        }
    }
    assert!(feed.windows(2).all(|pair| pair[0].0 < pair[1].0), "the feed is in the order of its ids");
}

/// Returns the ids and bodies of all messages of a queue.
pub(super) async fn feed(api: &Api, path: &str) -> Vec<(String, Value)> {
    let messages = follow(api, &format!("{path}?echo=true&limit=20"), "messages").await.into_iter();
    messages.map(|mut message| (message["id"].as_str().unwrap().to_owned(), message["body"].take())).collect()
}
