//! Section 13.3: what each action returns, over both kinds of frames and each kind of store.

use serde_json::{Value, json};

use super::{PATH, notification, open, post, start};
use support::certificates::{Authority, Certificate, text};
use support::redis::RedisServer;
use support::socket::{Received, Socket};
use support::sukkal::{CLIENT, Sukkal};
use support::waiting::until_some;

/// Runs all actions and returns each reply. Ids and ages, which differ from run to run, are
/// replaced.
async fn run(socket: &mut Socket) -> Vec<(String, u64, Value)> {
    let mut replies = Vec::new();
    let mut ask = async |action: &str, body: Value| {
        let (status, body) = socket.ask(action, body).await;
        replies.push((action.to_owned(), status, body.clone()));
        body
    };
    let q = || json!({ "queue_name": "q" });
    let with = |name: &str, value: Value| {
        let mut body = q();
        body[name] = value;
        body
    };
    ask("queue_list", json!({})).await;
    ask("queue_get", q()).await;
    ask("queue_get_stats", q()).await;
    ask("message_list", q()).await;
    ask("queue_create", with("metadata", json!({ "k": [1, "é", null], "_default_message_ttl": 300 }))).await;
    ask("queue_create", q()).await;
    ask("queue_get", q()).await;
    ask("queue_list", json!({ "detailed": true, "limit": 1 })).await;

    let messages = json!([{ "body": { "n": 1 }, "ttl": 60, "delay": 900 }, { "body": "two" }, { "body": 3.5 }]);
    let posted = ask("message_post", with("messages", messages)).await["message_ids"].clone();
    ask("message_list", with("echo", json!(true))).await;
    ask("message_list", q()).await;
    ask("message_list", json!({ "queue_name": "q", "echo": true, "limit": 1, "marker": posted[0] })).await;
    ask("message_get", with("message_id", posted[0].clone())).await;
    ask("message_get", with("message_id", json!("none"))).await;
    ask("message_get_many", with("message_ids", json!([posted[1], "none"]))).await;
    ask("queue_get_stats", q()).await;

    let claimed = ask("claim_create", json!({ "queue_name": "q", "limit": 1, "ttl": 100, "grace": 60 })).await;
    let claim = &claimed["claim_id"];
    let of_claim = |ttl: Option<u32>| {
        let mut body = with("claim_id", claim.clone());
        if let Some(ttl) = ttl {
            body["ttl"] = json!(ttl);
        }
        body
    };
    ask("claim_get", of_claim(None)).await;
    ask("claim_update", of_claim(Some(200))).await;
    ask("claim_get", of_claim(None)).await;
    ask("message_delete", with("message_id", posted[0].clone())).await;
    let with_claim = |claim: &Value| json!({ "queue_name": "q", "message_id": posted[0], "claim_id": claim });
    ask("message_delete", with_claim(&json!("none"))).await;
    ask("message_delete", with_claim(claim)).await;
    ask("claim_delete", of_claim(None)).await;
    ask("claim_get", of_claim(None)).await;
    ask("claim_update", of_claim(Some(200))).await;
    ask("message_delete_many", with("message_ids", json!([posted[1]]))).await;
    ask("message_delete_many", with("pop", json!(5))).await;
    ask("message_delete_many", with("pop", json!(5))).await;
    ask("claim_create", q()).await;

    let hook = json!({ "queue_name": "q", "subscriber": "http://127.0.0.1:9/", "ttl": 600, "options": { "a": 1 } });
    let subscribed = ask("subscription_create", hook.clone()).await["subscription_id"].clone();
    ask("subscription_create", hook).await;
    ask("subscription_list", q()).await;
    ask("subscription_get", with("subscription_id", subscribed.clone())).await;
    ask("subscription_delete", with("subscription_id", subscribed.clone())).await;
    ask("subscription_get", with("subscription_id", subscribed)).await;
    ask("queue_purge", with("resource_types", json!(["messages", "unknown"]))).await;
    ask("queue_delete", q()).await;
    ask("queue_delete", q()).await;
    for (_, _, body) in &mut replies {
        mask(body);
    }
    replies
}

/// Replaces what differs from run to run, also in texts.
fn mask(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match name.as_str() {
                    "age" | "created" if !value.is_object() => *value = json!("AGE"),
                    "secret" => *value = json!("SECRET"),
                    _ => mask(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        Value::String(text) => {
            let is_id = |word: &&str| word.len() == 36 && word.matches('-').count() == 4;
            let words: Vec<&str> = text.split(' ').map(|word| if is_id(&word) { "ID" } else { word }).collect();
            *text = words.join(" ");
        }
        _ => {}
    }
}

/// The replies, one line each.
const EXPECTED: &str = include_str!("replies.txt");

#[tokio::test]
async fn each_action_has_its_reply_over_both_kinds_of_frames_and_each_kind_of_store() {
    let redis = RedisServer::start();
    let file = tempfile::tempdir().unwrap();
    let local = ("SUKKAL_PUSH__ALLOWED_NETWORKS", "127.0.0.0/8");
    for store in ["memory:".to_owned(), format!("embedded:{}", file.path().display()), redis.url()] {
        let sukkal = Sukkal::start_with(&store, &[local, ("SUKKAL_PUSH__ALLOWED_PORTS", "1-65535")]);
        for is_binary in [false, true] {
            let mut socket = open(&sukkal).await.of_kind(is_binary);
            let replies = run(&mut socket).await;
            let lines = replies.iter().map(|(action, status, body)| format!("{action} {status} {body}\n"));
            let lines: String = lines.collect();
            if std::env::var_os("UPDATE_REPLIES").is_some() {
                std::fs::write("tests/websocket/replies.txt", &lines).unwrap();
            } else {
                assert_eq!(lines, EXPECTED, "{store}, binary: {is_binary}");
            }
        }
    }
}

/// Section 13.1.
#[tokio::test]
async fn a_reply_repeats_the_request_and_has_its_kind_and_its_order() {
    let sukkal = start(&[]);
    let mut socket = open(&sukkal).await;
    let headers = json!({ "Client-ID": CLIENT, "X-Project-ID": "p", "Other": "x" });
    for number in 0..20 {
        socket.is_binary = number % 3 == 0;
        let request =
            json!({ "action": "queue_get", "headers": headers, "body": { "queue_name": format!("q{number}") } });
        socket.send(&request).await;
    }
    for number in 0..20 {
        let (reply, is_binary) = match socket.receive().await {
            Received::Text(reply) => (reply, false),
            Received::Binary(reply) => (reply, true),
            Received::Closed(closed) => panic!("{closed:?}"),
        };
        let body = json!({ "queue_name": format!("q{number}") });
        let request = json!({ "action": "queue_get", "headers": headers, "body": body, "api": "v2" });
        let warnings = ["the queue does not exist"];
        let headers = json!({ "status": 200, "Sukkal-Warning": warnings });
        assert_eq!(reply, json!({ "request": request, "body": {}, "headers": headers }));
        assert_eq!(is_binary, number % 3 == 0);
    }
}

#[tokio::test]
async fn the_separate_listener_opens_a_websocket_on_any_path() {
    let port = support::ports::free_port();
    let _sukkal = start(&[("SUKKAL_WEBSOCKET__BIND", &port.to_string())]);
    for path in ["/", "/any/path?x=1"] {
        let mut socket = Socket::open(&format!("http://127.0.0.1:{port}{path}"), "p").await;
        assert_eq!(socket.ask("queue_list", json!({})).await, (200, json!({ "queues": [] })));
    }
    let answer = support::plain_http::get(format!("http://127.0.0.1:{port}{PATH}")).await.unwrap();
    assert_eq!((answer.status().as_u16(), &answer.headers()["upgrade"]), (426, &"websocket".parse().unwrap()));
}

#[tokio::test]
async fn both_listeners_use_tls_if_the_api_does() {
    let authority = Authority::new();
    let Certificate { certificate, key } = authority.issue("server", "/CN=server");
    let port = support::ports::free_port();
    let sukkal = start(&[
        ("SUKKAL_TLS__CERTIFICATE", text(&certificate)),
        ("SUKKAL_TLS__KEY", text(&key)),
        ("SUKKAL_WEBSOCKET__BIND", &port.to_string()),
    ]);
    for address in [format!("{}{PATH}", sukkal.address()), format!("127.0.0.1:{port}/")] {
        let mut socket = Socket::open_with_tls(&format!("https://{address}"), "p", &authority).await;
        socket.subscribe(json!({ "queue_name": "q" })).await;
        post(&mut socket, "q", &[json!(1)]).await;
        assert_eq!(socket.document().await, notification("q", &json!(1)));
        assert!(Socket::try_open(&format!("http://{address}"), "p", &[]).await.is_err(), "not without TLS");
    }
}

/// A request in a frame passes the same middleware as one over HTTP.
#[tokio::test]
async fn actions_are_in_the_metrics_and_in_the_audit_log_of_their_routes() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("audit.log");
    let rules = ("SUKKAL_POLICY__RULES", "queues:delete = role:nobody");
    let sukkal = start(&[("SUKKAL_AUDIT__FILE", log.to_str().unwrap()), rules]);
    let mut socket = open(&sukkal).await;
    assert_eq!(socket.ask("queue_create", json!({ "queue_name": "q" })).await.0, 201);
    let (status, body) = socket.ask("queue_delete", json!({ "queue_name": "q" })).await;
    let refusal = "You are not authorized to complete this action. The rule queues:delete requires role:nobody.";
    assert_eq!((status, body), (403, json!({ "exception": refusal, "error": null })));

    let metrics = support::plain_http::get(sukkal.url("/metrics")).await.unwrap().text().await.unwrap();
    for (method, status) in [("PUT", 201), ("DELETE", 403)] {
        let labels = format!("{{method=\"{method}\",route=\"/v2/queues/{{queue_name}}\",status=\"{status}\"}} 1");
        assert!(metrics.contains(&labels), "{labels} is not in {metrics}");
    }
    // A response does not wait for the record of a refusal.
    let text = until_some("both requests are recorded", async || {
        let text = std::fs::read_to_string(&log).unwrap();
        (text.matches('\n').count() == 2).then_some(text)
    })
    .await;
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let shown = |line: &Value| (line["action"].clone(), line["path"].clone(), line["outcome"].clone());
    let path = json!("/v2/queues/q");
    let created = (json!("queues:create"), path.clone(), json!("success"));
    let refused = (json!("queues:delete"), path, json!("refused"));
    assert_eq!(lines.iter().map(shown).collect::<Vec<_>>(), [created, refused]);
}
