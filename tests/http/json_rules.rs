//! Fact sheet 1.2: the JSON rules of every body. Each row of the table of body texts is a line of
//! `malformed_values`, sent to each route that takes a body. The row "no Content-Length" is tested
//! in `bad_input.rs`.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::{INVALID_BODY, PATCH_TYPE, Project, answered, new_project, send};

/// The beginning of the description, which continues with the line and column of the error.
const UNREADABLE: &str = "Request body could not be parsed. ";
const TOO_LARGE: &str = "JSON contains integer that is too large.";

/// Returns a request to each route that takes JSON, with the value inside a document.
fn requests(api: &Project, value: &[u8]) -> [RequestBuilder; 3] {
    let body = |before: &str, after: &str| [before.as_bytes(), value, after.as_bytes()].concat();
    [
        api.put("/v2/queues/new").body(body(r#"{"k": "#, "}")),
        api.request(Method::PATCH, "/v2/queues/q")
            .header("Content-Type", PATCH_TYPE)
            .body(body(r#"[{"op": "add", "path": "/metadata/k", "value": "#, "}]")),
        api.request(Method::POST, "/v2/queues/q/messages").body(body(r#"{"messages": [{"body": "#, "}]}")),
    ]
}

fn malformed_values() -> Vec<(Vec<u8>, &'static str)> {
    let deep = "[".repeat(60_000).into_bytes();
    let closed = ["[".repeat(5000), "]".repeat(5000)].concat().into_bytes();
    let mut values: Vec<(Vec<u8>, &str)> = vec![(deep, UNREADABLE), (closed, UNREADABLE)];
    for text in [
        "",
        "NaN",
        "Infinity",
        "-Infinity",
        "1e400",
        "-1e400",
        "01",
        "+1",
        "1.",
        ".5",
        "0x1",
        "'x'",
        "tru",
        "None",
        "{k: 1}",
        "[1,]",
        "{\"a\": 1,}",
        "1 // note",
        "\"\\ud800\"",
        "\"\\udc00\\ud800\"",
        "\"\\x41\"",
        "\"a\nb\"",
        "\"unfinished",
        "1 2",
        "\u{feff}1",
    ] {
        values.push((text.as_bytes().to_vec(), UNREADABLE));
    }
    for bytes in [&b"\"\xff\""[..], b"\"\xc3\"", b"\"\xed\xa0\x80\"", b"\"\xc0\xaf\"", b"\0", b"\"\0\""] {
        values.push((bytes.to_vec(), UNREADABLE));
    }
    for text in ["9223372036854775808", "-9223372036854775809", "[{\"a\": 1000000000000000000000000}]"] {
        values.push((text.as_bytes().to_vec(), TOO_LARGE));
    }
    values
}

/// Rows 4.2-5, 6.1-7.
#[tokio::test]
async fn malformed_json_is_refused_and_changes_nothing() {
    let api = new_project();
    api.create("q", &json!({"k": 0})).await;
    let before = api.snapshot().await;

    for (value, description) in malformed_values() {
        for request in requests(&api, &value) {
            let answer = send(request).await;
            let shown = String::from_utf8_lossy(&value[..value.len().min(40)]);
            assert_eq!(answer.status, 400, "{shown}: {answer:?}");
            let refusal = answer.refusal(400, INVALID_BODY);
            assert!(refusal.starts_with(description), "{shown}: {refusal}");
            assert!(description != UNREADABLE || refusal.contains("Line "), "{shown}: {refusal}");
        }
    }
    assert_eq!(api.snapshot().await, before);
}

#[tokio::test]
async fn a_body_is_an_object_or_an_array() {
    let api = new_project();
    api.create("q", &json!({})).await;

    for body in ["null", "5", "\"x\"", "true", " ", "\n", "{}{}", "[] []"] {
        for (method, path) in [(Method::PUT, "/v2/queues/q"), (Method::POST, "/v2/queues/q/messages")] {
            let answer = send(api.request(method, path).body(body)).await;
            assert!(answer.refusal(400, INVALID_BODY).starts_with(UNREADABLE), "{body:?}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn json_values_are_returned_in_normalized_form() {
    let api = new_project();
    api.create("q", &json!({})).await;
    let nested = ["[".repeat(100), "]".repeat(100)].concat();

    for (sent, shown) in [
        ("9223372036854775807", "9223372036854775807"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("0.1", "0.1"),
        ("1.0", "1.0"),
        ("9223372036854775808.5", "9.223372036854776e+18"),
        ("\"9223372036854775808\"", "\"9223372036854775808\""),
        ("{\"a\": 1, \"b\": 2, \"a\": 3}", "{\"a\":3,\"b\":2}"),
        ("\"\\ud83d\\ude00 \\u00e9 \\/ \\u0000\"", "\"😀 é / \\u0000\""),
        ("[ ]", "[]"),
        (&nested, &nested),
    ] {
        let post = requests(&api, sent.as_bytes()).into_iter().last().unwrap();
        let href = answered(post, 201).await.json()["resources"][0].take();

        let message = answered(api.get(href.as_str().unwrap()), 200).await;

        assert!(message.text.ends_with(&format!("\"body\":{shown}}}")), "{sent}: {}", message.text);
    }
}

#[tokio::test]
async fn the_last_of_two_equal_keys_is_used() {
    let api = new_project();

    let body = r#"{"k": 1, "_default_message_ttl": 1, "k": 2, "_default_message_ttl": 60}"#;
    answered(api.put("/v2/queues/q").body(body), 201).await;
    let body = r#"{"messages": 5, "messages": [{"body": 1, "ttl": "x", "body": 2, "ttl": 61}]}"#;
    answered(api.request(Method::POST, "/v2/queues/q/messages").body(body), 201).await;

    let queue = api.snapshot().await[0].take();
    assert_eq!(queue["metadata"]["k"], 2);
    assert_eq!((&queue["messages"][0]["body"], &queue["messages"][0]["ttl"]), (&Value::from(2), &Value::from(61)));
}
