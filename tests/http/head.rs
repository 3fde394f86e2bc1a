//! `HEAD` is `GET` without a body, a wait and a stream. Responses without a body have no length.

use std::time::Duration;

use reqwest::header::{CONTENT_LENGTH, DATE, HeaderMap, TRANSFER_ENCODING};
use reqwest::{Method, RequestBuilder};
use serde_json::json;
use tokio::time::timeout;

use super::{answered, ids, new_project, text};
use crate::auth::{STRATEGIES, TRUSTED_PROXIES};
use crate::clients::contract::{contract, operations};
use crate::push::LOCAL;
use support::ports::free_port;
use support::sukkal::{Api, Sukkal};

/// Routes that are not in the contract.
const OTHERS: [&str; 5] = ["/v2/", "/console", "/console/main.js", "/console/none", "/docs"];
/// The lengths of these responses change from request to request.
const VARYING: [&str; 2] = ["/metrics", "/v2/health"];

/// Returns the status and the headers, without those that differ between any two responses.
async fn head_of(request: RequestBuilder) -> (u16, HeaderMap) {
    let answer = timeout(Duration::from_secs(15), request.send()).await.expect("it does not wait").unwrap();
    let mut headers = answer.headers().clone();
    headers.remove(DATE);
    headers.remove("x-openstack-request-id");
    (answer.status().as_u16(), headers)
}

/// Checks that both methods get the same response to this path, and returns its status.
async fn compare(api: &Api, path: &str, prepare: impl Fn(RequestBuilder) -> RequestBuilder) -> u16 {
    let request = |method| prepare(api.request(method, path).header("X-Roles", "admin"));
    let (mut with_body, mut without) = (head_of(request(Method::GET)).await, head_of(request(Method::HEAD)).await);
    // How the body of a stream is sent.
    with_body.1.remove(TRANSFER_ENCODING);
    if VARYING.contains(&path) {
        let lengths = [&mut with_body, &mut without].map(|(_, headers)| headers.remove(CONTENT_LENGTH));
        assert!(lengths.iter().all(Option::is_some), "{path}: {lengths:?}");
    }
    assert_eq!(without, with_body, "{path}");
    with_body.0
}

#[tokio::test]
async fn head_has_the_status_and_the_headers_of_get_on_every_route() {
    let options = [
        (STRATEGIES, "proxy,tokens"),
        (TRUSTED_PROXIES, "127.0.0.1"),
        ("SUKKAL_ADMIN_MODE", "true"),
        ("SUKKAL_POOLING__ENABLED", "true"),
        ("SUKKAL_POOLING__VIRTUAL_POOL", "true"),
    ];
    let sukkal = Sukkal::start_with("memory:", &[&options[..], &LOCAL].concat());
    let api = sukkal.project("p");
    let mut resources = Vec::new();
    for queue in ["/v2/queues/q", "/v2/topics/t"] {
        let message = json!({"messages": [{"body": "text"}]});
        let posted = answered(api.post(&format!("{queue}/messages"), &message), 201).await.json();
        let new = json!({"subscriber": "http://127.0.0.1:8080/"});
        let subscribed = answered(api.post(&format!("{queue}/subscriptions"), &new), 201).await.json();
        resources.push((ids(&posted)[0].clone(), text(&subscribed["subscription_id"]).to_owned()));
    }
    let claim = answered(api.post("/v2/queues/q/claims", &json!({"ttl": 3_600})), 201).await;
    let claim = claim.header("location").unwrap().rsplit('/').next().unwrap().to_owned();
    let documented = operations(&contract()).into_iter().filter_map(|operation| {
        let template = operation.name.strip_prefix("GET ")?;
        let (message, subscription) = &resources[usize::from(template.contains("/topics"))];
        let path = template.replace("{queue_name}", "q").replace("{topic_name}", "t");
        let path = path.replace("{message_id}", message).replace("{claim_id}", &claim);
        Some(path.replace("{subscription_id}", subscription))
    });

    let mut statuses = Vec::new();
    for path in documented.chain(OTHERS.map(str::to_owned)).filter(|path| path != "/v2/ping") {
        statuses.push((compare(&api, &path, |request| request).await, path));
    }

    let found = statuses.iter().filter(|(status, _)| *status < 400).count();
    assert!(found > 25 && found + 12 > statuses.len(), "{found} of {statuses:?}");
    assert_eq!(answered(api.request(Method::HEAD, "/v2/ping"), 204).await.text, "");
}

#[tokio::test]
async fn head_neither_waits_nor_streams() {
    let api = new_project();

    for (query, status) in [("?wait=1", 200), ("?wait=1&order=desc", 400), ("?wait=100000", 400), ("?wait=x", 400)] {
        assert_eq!(compare(&api, &format!("/v2/queues/q/messages{query}"), |request| request).await, status);
    }
    let waiting = api.request(Method::HEAD, "/v2/queues/q/messages?wait=20");
    assert_eq!(head_of(waiting).await.0, 200);
    let events = |request: RequestBuilder| request.header("Accept", "text/event-stream");
    assert_eq!(compare(&api, "/v2/queues/q/messages", events).await, 200);
    assert_eq!(compare(&api, "/v2/queues/q/messages?order=desc", events).await, 400);
    // The connection is free again.
    for _ in 0..2 {
        let open = api.request(Method::HEAD, "/v2/queues/q/messages").header("Accept", "text/event-stream");
        assert_eq!(head_of(open).await.1["content-type"], "text/event-stream");
    }
}

#[tokio::test]
async fn head_has_the_length_of_the_error_that_get_has() {
    let sukkal = Sukkal::start(&format!("redis://127.0.0.1:{}", free_port()));
    let api = sukkal.project("p");

    for path in ["/v2/queues", "/v2/queues/q/messages"] {
        assert_eq!(compare(&api, path, |request| request).await, 503, "{path}");
    }
}

#[tokio::test]
async fn a_response_that_cannot_have_a_body_has_no_length() {
    let api = new_project();
    let tag = answered(api.get("/console"), 200).await.header("etag").unwrap().to_owned();
    let raw = |method, path, rest: &str| api.send_raw(format!("{}{rest}\r\n", api.head(method, path)));

    for (method, path, rest, status) in [
        ("DELETE", "/v2/queues/none", "", 204),
        ("GET", "/v2/ping", "", 204),
        ("HEAD", "/v2/ping", "", 204),
        ("POST", "/v2/queues/none/claims", "Content-Length: 0\r\n", 204),
        ("GET", "/console", &format!("If-None-Match: {tag}\r\n"), 304),
    ] {
        let answer = raw(method, path, rest).await;
        assert_eq!((answer.status, answer.header("content-length")), (status, None), "{method} {path}");
        assert_eq!((answer.header("transfer-encoding"), &*answer.text), (None, ""), "{method} {path}");
    }
    // An empty body has a length.
    let created = raw("PUT", "/v2/queues/q", "").await;
    assert_eq!((created.status, created.header("content-length")), (201, Some("0")));
}
