//! Requests that no correct client sends. Each gets a 4xx response that the client can read, and
//! changes nothing.
//!
//! | row of the fact sheet | test |
//! |---|---|
//! | 1.2 no Content-Length 400 | `a_missing_body_is_refused_where_one_is_required` |
//! | 6.1, 4.2 too large: 400, after 300 KB were read | `a_refusal_is_sent_after_the_whole_body_was_read` |
//! | 6.3, 6.5 too many ids 400 | `requests_with_thousands_of_ids_are_refused` |

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::raw::read_answer;
use super::{
    INVALID_BODY, INVALID_REQUEST, MESSAGES, NO_ROUTE, PATCH_TYPE, Project, Server, answered, new_project, pick,
    refused, send,
};

const SEED: [u8; 32] = [7; 32];
/// How long a server on a busy machine may take to close a connection.
const END_TIMEOUT: Duration = Duration::from_secs(20);

async fn project_with_queue() -> Project {
    let api = new_project();
    api.create("q", &json!({"k": 1})).await;
    api.post_bodies("q", &[json!("before")]).await;
    api
}

/// Reads until the server closes the connection, and returns what was read.
async fn read_until_closed(stream: &mut TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    timeout(END_TIMEOUT, stream.read_to_end(&mut rest))
        .await
        .expect("the server closes the connection")
        .expect("without a reset");
    rest
}

#[tokio::test]
async fn random_bytes_are_refused_as_malformed_json() {
    let api = project_with_queue().await;
    let before = api.snapshot().await;
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &SEED);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let bytes = prop_oneof![
        prop::collection::vec(any::<u8>(), 1..2000),
        "[\\[\\]{}\",:0-9a-z\\\\ .eE+-]{1,200}".prop_map(String::into_bytes),
    ];

    for _ in 0..200 {
        let body = bytes.new_tree(&mut runner).unwrap().current();
        for (method, path) in
            [(Method::POST, MESSAGES), (Method::PUT, "/v2/queues/new"), (Method::PATCH, "/v2/queues/q")]
        {
            let request = api.request(method, path).header("Content-Type", PATCH_TYPE).body(body.clone());
            let answer = send(request).await;
            assert_eq!(answer.status, 400, "{answer:?} to {body:?}");
            assert_eq!(answer.json().as_object().unwrap().len(), 2, "{answer:?}");
        }
    }
    assert_eq!(api.snapshot().await, before);
}

#[tokio::test]
async fn a_refusal_is_sent_after_the_whole_body_was_read() {
    let api = project_with_queue().await;
    let before = api.snapshot().await;
    let body = format!(r#"{{"messages": [{{"body": "{}"}}]}}"#, "x".repeat(300_000));
    let length = format!("Content-Length: {}\r\n\r\n{body}", body.len());
    let nobody = "POST /v2/queues/q/messages HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";

    for (head, status, title) in [
        (api.head("POST", MESSAGES), 400, INVALID_REQUEST),
        (api.head("PUT", "/v2/queues/new"), 400, INVALID_REQUEST),
        (format!("{}Content-Type: {PATCH_TYPE}\r\n", api.head("PATCH", "/v2/queues/q")), 400, INVALID_BODY),
        (nobody.to_owned(), 400, "Missing header value"),
        (format!("{}Accept: text/html\r\n", api.head("POST", MESSAGES)), 406, "Media type not acceptable"),
        (api.head("POST", "/v2/queues/%20/messages"), 400, "Invalid queue identification"),
        (api.head("PUT", MESSAGES), 405, "405 Method Not Allowed"),
        (api.head("POST", "/v2/nothing"), 404, "404 Not Found"),
    ] {
        api.send_slowly(format!("{head}{length}")).await.refusal(status, title);
    }
    assert_eq!(api.snapshot().await, before);
}

/// Row 4.4-3.
#[tokio::test]
async fn a_missing_body_is_refused_where_one_is_required() {
    let api = project_with_queue().await;
    let before = api.snapshot().await;

    for rest in ["\r\n", "Content-Length: 0\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"] {
        let answer = api.send_raw(format!("{}{rest}", api.head("POST", MESSAGES))).await;
        assert_eq!(answer.refusal(400, INVALID_BODY), "Request body can not be empty");
        let patch = format!("{}Content-Type: {PATCH_TYPE}\r\n{rest}", api.head("PATCH", "/v2/queues/q"));
        let answer = api.send_raw(patch).await;
        assert_eq!(answer.refusal(400, INVALID_BODY), "PATCH body could not be empty for update.");
    }
    assert_eq!(api.snapshot().await, before);
}

fn chunked(document: &str) -> String {
    let (first, last) = document.split_at(document.len() / 2);
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    format!("Transfer-Encoding: chunked\r\n\r\n{}{}0\r\n\r\n", chunk(first), chunk(last))
}

/// The fact sheet (1.2) treats a chunked body as no body, as upstream does. But then a purge of no
/// resource types would become a purge of everything.
#[tokio::test]
async fn a_chunked_body_is_accepted() {
    let api = project_with_queue().await;

    let purge = chunked(r#"{"resource_types": ["subscriptions"]}"#);
    assert_eq!(api.send_raw(format!("{}{purge}", api.head("POST", "/v2/queues/q/purge"))).await.status, 204);
    let create = chunked(r#"{"color": "red"}"#);
    assert_eq!(api.send_raw(format!("{}{create}", api.head("PUT", "/v2/queues/new"))).await.status, 201);
    let post = chunked(r#"{"messages": [{"body": "chunked"}]}"#);
    assert_eq!(api.send_raw(format!("{}{post}", api.head("POST", MESSAGES))).await.status, 201);

    assert_eq!(answered(api.get("/v2/queues/new"), 200).await.json()["color"], "red");
    let page = answered(api.get(&format!("{MESSAGES}?echo=true")), 200).await.json();
    assert_eq!(pick(&page["messages"], "body"), ["before", "chunked"]);
}

#[tokio::test]
async fn a_chunked_body_has_the_same_size_limits() {
    let api = project_with_queue().await;
    let before = api.snapshot().await;
    let document = chunked(&format!(r#"{{"messages": [{{"body": "{}"}}]}}"#, "x".repeat(300_000)));

    for (head, title, most) in [
        (api.head("POST", MESSAGES), INVALID_REQUEST, 262_144),
        (api.head("PUT", "/v2/queues/new"), INVALID_REQUEST, 65_536),
        (format!("{}Content-Type: {PATCH_TYPE}\r\n", api.head("PATCH", "/v2/queues/q")), INVALID_BODY, 65_536),
        (api.head("POST", "/v2/queues/q/claims"), INVALID_REQUEST, 65_536),
    ] {
        let description = api.send_slowly(format!("{head}{document}")).await.refusal(400, title);
        assert_eq!(description, format!("the body has more than {most} bytes; at most {most} are allowed"));
    }
    assert_eq!(api.snapshot().await, before);
}

#[tokio::test]
async fn a_compressed_body_is_refused() {
    let api = project_with_queue().await;
    let before = api.snapshot().await;

    let post = |encoding| api.post(MESSAGES, &json!({"messages": [{"body": 1}]})).header("Content-Encoding", encoding);

    for encoding in ["gzip", "br, gzip"] {
        let description = refused(post(encoding), 415, "415 Unsupported Media Type").await;
        assert_eq!(description, "The header Content-Encoding must be identity or absent.");
    }
    assert_eq!(api.snapshot().await, before);
    answered(post("Identity"), 201).await;
}

#[tokio::test]
async fn a_url_has_at_most_8192_bytes() {
    let api = project_with_queue().await;
    let url = |bytes: usize| format!("{MESSAGES}?x={}", "x".repeat(bytes - MESSAGES.len() - 3));

    assert_eq!(send(api.get(&url(8_192))).await.status, 200);
    let description = refused(api.get(&url(8_193)), 414, "414 URI Too Long").await;

    assert_eq!(description, "The URL has 8193 bytes; at most 8192 are allowed.");
}

#[tokio::test]
async fn a_queue_list_takes_at_most_16_metadata_filters() {
    let api = project_with_queue().await;
    let filters = |count: usize| (0..count).map(|key| format!("k{key}=1")).collect::<Vec<_>>().join("&");

    assert_eq!(send(api.get(&format!("/v2/queues?{}", filters(16)))).await.status, 200);
    let description = refused(api.get(&format!("/v2/queues?{}", filters(17))), 400, INVALID_REQUEST).await;

    assert_eq!(description, "the query has 17 metadata filters; at most 16 are allowed");
}

/// Required by RFC 9112, section 3.2.
#[tokio::test]
async fn a_request_has_exactly_one_host_header() {
    let api = project_with_queue().await;
    let head = api.head("GET", MESSAGES);

    for hosts in ["", "Host: a\r\nHost: b\r\n"] {
        let answer = api.send_raw(format!("{}\r\n", head.replace("Host: localhost\r\n", hosts))).await;
        assert_eq!(
            answer.refusal(400, "Invalid Host header"),
            "A request must name its host exactly once, in the header Host or, with HTTP/2, as :authority."
        );
    }
    let old = head.replace("HTTP/1.1", "HTTP/1.0").replace("Host: localhost\r\n", "");
    assert_eq!(api.send_raw(format!("{old}\r\n")).await.status, 200);
}

/// Row 6.3-1.
#[tokio::test]
async fn requests_with_thousands_of_ids_are_refused() {
    let api = project_with_queue().await;
    let before = api.snapshot().await;
    let short = vec!["1"; 4_000].join(",");
    let long = vec!["0199f3a6-0000-7000-8000-000000000000"; 1_000].join(",");

    for method in ["GET", "DELETE"] {
        let request = api.request(method.parse().unwrap(), &format!("{MESSAGES}?ids={short}"));
        refused(request, 400, INVALID_REQUEST).await;
        // This URL is longer than the limit.
        let answer = api.send_raw(format!("{}\r\n", api.head(method, &format!("{MESSAGES}?ids={long}")))).await;
        assert_eq!(answer.status, 414, "{answer:?}");
    }
    assert_eq!(api.snapshot().await, before);
}

#[tokio::test]
async fn meaningless_queries_are_ignored() {
    let api = project_with_queue().await;

    for query in
        ["&&&", "=", "===", "%", "%zz=%zz", "a&b&c", "%00=%00", "%FF=%FF", "limit", "?limit=1", "é=漢", ";", ","]
    {
        let request = format!("{}\r\n", api.head("GET", &format!("{MESSAGES}?{query}")));
        assert_eq!(api.send_raw(request).await.status, 200, "{query}");
    }
}

#[tokio::test]
async fn malformed_http_is_refused() {
    let api = project_with_queue().await;
    let before = api.snapshot().await;
    let head = api.head("DELETE", "/v2/queues/q");

    for request in [
        b"\r\n\r\nhello\r\n\r\n".to_vec(),
        b"GET\r\n\r\n".to_vec(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec(),
        format!("{}\r\n", head.replace("HTTP/1.1", "HTTP/9.9")).into_bytes(),
        format!("{head}no colon\r\n\r\n").into_bytes(),
        format!("{head}bad name: 1\r\n\r\n").into_bytes(),
        format!("{head}X-Null: \0\r\n\r\n").into_bytes(),
        format!("{head}Content-Length: -1\r\n\r\n").into_bytes(),
        format!("{head}Content-Length: 1\r\nContent-Length: 2\r\n\r\n").into_bytes(),
        format!("{head}Transfer-Encoding: gzip\r\n\r\n").into_bytes(),
        [b"DELETE /v2/queues/\xff HTTP/1.1\r\n".as_slice(), b"Host: localhost\r\nConnection: close\r\n\r\n"].concat(),
    ] {
        let answer = api.send_raw(&request).await;
        assert_eq!(answer.status, 400, "{:?}", String::from_utf8_lossy(&request));
    }
    for junk in [
        "X-Junk: 1\r\n".repeat(200),
        format!("X-Long: {}\r\n", "x".repeat(1 << 20)),
        format!("X-Long: {}\r\n", "x".repeat(65_536)),
    ] {
        let mut stream = api.connect().await;
        // The server may stop reading before the end.
        let _ = stream.write_all(format!("{head}{junk}\r\n").as_bytes()).await;
        let answer = timeout(END_TIMEOUT, read_answer(&mut stream)).await.unwrap();
        assert_eq!(answer.status, 431);
    }
    assert_eq!(api.snapshot().await, before);
}

#[tokio::test]
async fn unusual_request_targets_match_no_route() {
    let api = new_project();

    for (method, target) in [("OPTIONS", "*"), ("CONNECT", "localhost:80"), ("BREW", "/v2/coffee")] {
        let request = api.head(method, "/@").replace("/@", target);
        let answer = api.send_raw(format!("{request}\r\n")).await;
        assert!((400..500).contains(&answer.status), "{method} {target}: {answer:?}");
    }
    let absolute = api.head("GET", "/@").replace("/@", "http://localhost/v2/queues");
    assert_eq!(api.send_raw(format!("{absolute}\r\n")).await.status, 200);
}

#[tokio::test]
async fn meaningless_header_values_are_ignored() {
    let api = project_with_queue().await;

    let junk = [
        "X-Junk: \u{1}\u{2}".replace(['\u{1}', '\u{2}'], "\t"),
        "Content-Type: ;;;,,,\u{e9}".to_owned(),
        "Accept: ,,,;q=,application/json;q=x".to_owned(),
        "X-Roles: ,,,".to_owned(),
        "Cookie: =;=;".to_owned(),
        format!("X-Long: {}", "x".repeat(50_000)),
    ];
    for header in junk {
        let answer = api.send_raw(format!("{}{header}\r\n\r\n", api.head("GET", MESSAGES))).await;
        assert_eq!(answer.status, 200, "{header}");
    }
}

#[tokio::test]
async fn a_client_that_stops_sending_times_out() {
    let timeouts = [("SUKKAL_CLIENT_TIMEOUT", "3"), ("SUKKAL_IDLE_TIMEOUT", "600")];
    let api = Project::of(&Arc::new(Server::start(&timeouts)), &uuid::Uuid::new_v4().to_string());
    api.create("q", &json!({})).await;
    let before = api.snapshot().await;
    let head = api.head("POST", MESSAGES);

    let in_its_body = api.send_raw(format!("{head}Content-Length: 1000\r\n\r\n{{\"messages\": [")).await;
    assert_eq!(
        in_its_body.refusal(408, "Request timeout"),
        "The request body was incomplete or did not arrive in time."
    );
    // The server does not use this body, so it does not wait long for it either.
    let in_a_body_for_nobody = api.send_raw(format!("{}Content-Length: 9\r\n\r\n", api.head("POST", "/v1"))).await;
    in_a_body_for_nobody.refusal(404, NO_ROUTE);
    let silent = [head.as_str(), "POST /v2/que", ""].map(async |silent| {
        let mut stream = api.connect().await;
        stream.write_all(silent.as_bytes()).await.unwrap();
        assert_eq!(read_until_closed(&mut stream).await, b"", "{silent:?}");
    });
    join_all(silent).await;
    assert_eq!(api.snapshot().await, before);
}
