//! Section 13.1: requests that are refused. They change nothing.

use futures::SinkExt;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::{open, start};
use support::socket::Received;
use support::sukkal::CLIENT;

#[tokio::test]
async fn what_is_no_request_is_refused_with_its_reason() {
    let sukkal = start(&[]);
    let mut socket = open(&sukkal).await;
    for (message, expected) in [
        (Message::text("\u{feff}"), "Can't decode text (JSON) request."),
        (Message::text("{"), "Can't decode text (JSON) request."),
        (Message::text("123"), "Unexpected body type. Expected dict or dict like."),
        (Message::binary(b"123".to_vec()), "Can't decode binary (MessagePack) request."),
        (Message::binary(vec![0x90]), "Unexpected body type. Expected dict or dict like."),
        (Message::text("{}"), "None is not a valid action"),
        (Message::text("{\"action\": \"queue_glorify\"}"), "queue_glorify is not a valid action"),
        (Message::text("{\"action\": \"ping_node\"}"), "ping_node is not a valid action"),
        // No token is verified here.
        (Message::text("{\"action\": \"authenticate\"}"), "authenticate is not a valid action"),
    ] {
        let is_binary = message.is_binary();
        socket.stream.send(message.clone()).await.unwrap();
        let reply = match socket.receive().await {
            Received::Text(reply) if !is_binary => reply,
            Received::Binary(reply) if is_binary => reply,
            other => panic!("{message:?}: {other:?}"),
        };
        assert_eq!(reply["headers"], json!({ "status": 400 }), "{message:?}");
        let error = reply["body"]["error"].as_str().unwrap();
        assert!(error.starts_with(expected), "{message:?}: {error}");
        assert_eq!(reply["request"]["api"], "v2");
    }
}

#[tokio::test]
async fn a_request_must_match_the_schema_of_its_action() {
    let sukkal = start(&[]);
    let mut socket = open(&sukkal).await;
    let headers = json!({ "Client-ID": CLIENT, "X-Project-ID": "p" });
    for (action, headers, body, reason) in [
        ("queue_list", json!({}), json!({}), "the header Client-ID"),
        ("queue_list", json!({ "client-id": CLIENT, "X-Project-ID": "p" }), json!({}), "the header Client-ID"),
        ("queue_list", json!({ "Client-ID": CLIENT }), json!({}), "the header X-Project-ID"),
        ("queue_list", json!({ "Client-ID": 1, "X-Project-ID": "p" }), json!({}), "the header Client-ID"),
        ("queue_list", json!([]), json!({}), "\"headers\" must be an object"),
        ("queue_list", headers.clone(), json!([]), "\"headers\" must be an object"),
        ("queue_list", headers.clone(), json!({ "limit": "3" }), "\"limit\" in the body must be an integer"),
        ("queue_list", headers.clone(), json!({ "limit": null }), "\"limit\" in the body must be an integer"),
        ("queue_create", headers.clone(), json!({}), "the body must have \"queue_name\""),
        ("queue_create", headers.clone(), json!({ "queue_name": 1 }), "the body must have \"queue_name\""),
        ("queue_create", headers.clone(), json!({ "queue_name": "q", "metadata": [] }), "\"metadata\""),
        ("message_post", headers.clone(), json!({ "queue_name": "q" }), "the body must have \"messages\""),
        (
            "message_post",
            headers.clone(),
            json!({ "queue_name": "q", "messages": {} }),
            "the body must have \"messages\"",
        ),
        ("claim_get", headers.clone(), json!({ "queue_name": "q" }), "the body must have \"claim_id\""),
        (
            "queue_list",
            json!({ "Client-ID": CLIENT, "X-Project-ID": "p", "traceparent": "a\nb" }),
            json!({}),
            "the header traceparent",
        ),
    ] {
        let (status, body) = socket.ask_with(action, body, headers).await;
        assert_eq!((status, &body["error"]), (400, &json!("Schema validation failed.")), "{body}");
        assert!(body["exception"].as_str().unwrap().starts_with(reason), "{reason}: {body}");
    }
    assert_eq!(socket.ask("queue_list", json!({})).await.1, json!({ "queues": [] }));
}

#[tokio::test]
async fn a_repeated_header_is_refused_as_over_http() {
    let sukkal = start(&[]);
    let mut socket = open(&sukkal).await;
    let project = r#""X-Project-ID": "p""#;
    for (repeated, name) in [
        (format!(r#""Client-ID": "{CLIENT}", "client-id": "{CLIENT}", {project}"#), "Client-ID"),
        (format!(r#""Client-ID": "{CLIENT}", "Client-ID": "{CLIENT}", {project}"#), "Client-ID"),
        (format!(r#""Client-ID": "{CLIENT}", "X-Project-ID": "q", {project}"#), "X-Project-ID"),
    ] {
        let request =
            format!(r#"{{"action": "queue_create", "headers": {{{repeated}}}, "body": {{"queue_name": "q"}}}}"#);
        socket.stream.send(Message::text(request)).await.unwrap();
        let reply = socket.document().await;
        assert_eq!(reply["headers"]["status"], 400, "{reply}");
        assert_eq!(reply["body"]["error"], format!("The header {name} is repeated; it must appear only once."));
    }
    assert_eq!(socket.ask("queue_list", json!({})).await.1, json!({ "queues": [] }));
}

/// The same rules as for HTTP, in the same words.
#[tokio::test]
async fn handlers_refuse_what_those_of_http_refuse() {
    let sukkal = start(&[("SUKKAL_TRANSPORT__MAX_MESSAGES_POST_SIZE", "300")]);
    let mut socket = open(&sukkal).await;
    let many: Vec<Value> = (0..21).map(|_| json!("x")).collect();
    let q = |name: &str, value: Value| json!({ "queue_name": "q", name: value });
    for (action, body, expected) in [
        ("queue_list", json!({ "limit": 0 }), "limit is 0; it must be between 1 and 20"),
        ("queue_create", json!({ "queue_name": "a b" }), "a queue name must have 1 to 64"),
        ("queue_create", json!({ "queue_name": "a/b" }), "a queue name must have 1 to 64"),
        ("queue_create", json!({ "queue_name": "" }), "a queue name must have 1 to 64"),
        ("queue_create", q("metadata", json!({ "_max_messages_post_size": "x" })), ""),
        ("message_post", q("messages", json!([{ "body": 1 }, {}])), "Bad request. Missing \"body\" field. Message 2"),
        ("message_post", q("messages", json!([{ "body": "x".repeat(300) }])), "the body has"),
        ("message_get_many", q("message_ids", many.into()), ""),
        ("message_get_many", q("message_ids", json!([1])), "\"message_ids\" must be a list of texts"),
        ("message_delete_many", q("x", json!(1)), "Exactly one of \"message_ids\" and \"pop\" is required."),
        ("claim_create", q("ttl", json!(1)), ""),
        ("subscription_create", q("ttl", json!(1)), "ttl is 1; it must be between 60"),
        (
            "subscription_create",
            q("since", json!("yesterday")),
            "since is \"yesterday\"; it must be \"now\", a time such as \"2026-11-22T12:00:00Z\", or the id of a message",
        ),
        ("subscription_create", q("subscriber", json!("ftp://x")), ""),
        ("subscription_list", q("marker", json!("x")), "The \"marker\" parameter is invalid"),
    ] {
        let (status, reply) = socket.ask(action, body.clone()).await;
        assert_eq!((status, &reply["error"]), (400, &Value::Null), "{action} {body}: {reply}");
        let text = reply["exception"].as_str().unwrap();
        assert!(text.starts_with(expected) && !text.is_empty(), "{action} {body}: {text}");
    }
    // Tests of Zaqar compare these texts.
    for (message, expected) in [
        (json!({ "ttl": 60 }), "Bad request. Missing \"body\" field."),
        (json!({ "body": 1, "ttl": "x" }), "Bad request. The value of the \"ttl\" field must be a int."),
    ] {
        let (status, reply) = socket.ask("message_post", q("messages", json!([message]))).await;
        assert_eq!((status, &reply["exception"]), (400, &json!(expected)));
    }
    let unknown = [json!("5de5c1a2-0000-7000-8000-000000000000"), json!("5de5c1a2-0000-7000-8000-000000000001")];
    assert_eq!(socket.ask("message_get_many", q("message_ids", json!(unknown))).await.0, 404);
    let (status, _) = socket.ask_with("queue_list", json!({}), json!({ "Client-ID": "x", "X-Project-ID": "p" })).await;
    assert_eq!(status, 400);
}
