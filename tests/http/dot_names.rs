//! The names `.` and `..`, which ordinary clients remove from paths: no new queue gets them.

use reqwest::Method;
use serde_json::{Value, json};
use sukkal_domain::{Metadata, ProjectId, QueueId, QueueKind, QueueName};
use sukkal_storage::QueueStore;

use super::subscriptions::{self, URI};
use super::{Answer, INVALID_BODY, INVALID_QUEUE, INVALID_REQUEST, Project, answered, pick, refused};
use support::socket::Socket;
use support::test_bed::open_movable;

const NAMES: [&str; 2] = [".", ".."];

/// Sends a request whose path no HTTP client changes.
async fn send(api: &Project, method: &str, path: &str, body: &Value) -> Answer {
    let (head, body) = (api.head(method, path), body.to_string());
    let length = body.len();
    api.send_raw(format!("{head}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")).await
}

fn reason(kind: &str, name: &str) -> String {
    format!("{name}a {kind} name must not be . or .., because clients remove these from paths")
}

#[tokio::test]
async fn no_request_creates_a_queue_that_clients_cannot_address() {
    let api = subscriptions::new_project();
    let message = json!({"messages": [{"body": 1}]});
    for name in NAMES {
        for (kind, title) in [("queue", INVALID_QUEUE), ("topic", "Invalid topic identification")] {
            let path = format!("/v2/{kind}s/{name}");
            for (method, path, body) in [
                ("PUT", path.clone(), json!({})),
                ("POST", format!("{path}/messages"), message.clone()),
                ("POST", format!("{path}/subscriptions"), json!({ "subscriber": URI })),
            ] {
                assert_eq!(send(&api, method, &path, &body).await.refusal(400, title), reason(kind, ""), "{path}");
            }
        }
        let paused = send(&api, "POST", &format!("/v2/queues/{name}/pause"), &json!({})).await;
        assert_eq!(paused.refusal(400, INVALID_QUEUE), reason("queue", ""));

        let mut socket = Socket::open(&api.server.sukkal.url("/v2/websocket"), &api.id).await;
        for (action, fields) in [
            ("queue_create", json!({})),
            ("message_post", message.clone()),
            ("subscription_create", json!({})),
            ("subscription_create", json!({ "subscriber": URI })),
        ] {
            let mut body = fields;
            body["queue_name"] = name.into();
            let (status, body) = socket.ask(action, body).await;
            assert_eq!((status, body["exception"].as_str()), (400, Some(&*reason("queue", ""))), "{action}");
        }
    }
    assert_eq!(api.snapshot().await, json!([]));
    assert_eq!(answered(api.get("/v2/topics"), 200).await.json()["topics"], json!([]));
}

#[tokio::test]
async fn no_new_setting_names_a_queue_that_clients_cannot_address() {
    let api = subscriptions::new_project();
    api.create("q", &json!({})).await;
    let subscription = api.subscription(&json!({ "subscriber": URI })).await;
    let before = (api.snapshot().await, api.show(&subscription).await["options"].take());
    for name in NAMES {
        let of_metadata = reason("queue", "_dead_letter_queue must be the name of a queue: ");
        let metadata = json!({ "_dead_letter_queue": name });
        assert_eq!(refused(api.put("/v2/queues/new").json(&metadata), 400, INVALID_REQUEST).await, of_metadata);
        let patch = json!([{ "op": "add", "path": "/metadata/_dead_letter_queue", "value": name }]);
        assert_eq!(refused(api.patch("q", &patch), 400, INVALID_BODY).await, of_metadata);
        for option in ["dead_letter_queue", "notify_queue"] {
            let options = json!({ option: name });
            let new = api.subscribe(&json!({ "subscriber": "http://127.0.0.1:9/new", "options": options }));
            for request in [new, api.change(&subscription, &json!({ "options": options }))] {
                let description = refused(request, 400, INVALID_REQUEST).await;
                assert!(description.contains(option) && description.ends_with(&reason("queue", "")), "{description}");
            }
        }
        let redrive = api.request(Method::POST, "/v2/queues/q/redrive").json(&json!({ "to": name }));
        assert_eq!(refused(redrive, 400, INVALID_REQUEST).await, reason("queue", "\"to\": "));
    }
    assert_eq!((api.snapshot().await, api.show(&subscription).await["options"].take()), before);
}

/// Earlier releases have created them.
#[tokio::test]
async fn existing_queues_with_any_name_are_listed_used_and_deleted() {
    let api = subscriptions::new_project();
    let store = open_movable(&api.server.redis.url());
    for name in NAMES {
        for kind in QueueKind::ALL {
            let name = QueueName::of_kind(kind, name).unwrap();
            let queue = QueueId::new(ProjectId::new(&api.id).unwrap(), name).unwrap();
            store.create_queue(&queue, &Metadata::default()).await.unwrap();
        }
    }
    for kind in ["queues", "topics"] {
        let listed = async || pick(&answered(api.get(&format!("/v2/{kind}")), 200).await.json()[kind], "name");
        assert_eq!(listed().await, NAMES);
        for name in NAMES {
            let path = format!("/v2/{kind}/{name}");
            assert_eq!(send(&api, "PUT", &path, &json!({})).await.status, 204);
            let message = json!({"messages": [{"body": name}]});
            assert_eq!(send(&api, "POST", &format!("{path}/messages"), &message).await.status, 201);
            let feed = send(&api, "GET", &format!("{path}/messages?echo=true"), &json!({})).await;
            assert_eq!(pick(&feed.json()["messages"], "body"), [name]);
            assert_eq!(send(&api, "DELETE", &path, &json!({})).await.status, 204);
        }
        assert_eq!(listed().await, [] as [&str; 0]);
    }
}
