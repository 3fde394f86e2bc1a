//! Rates: requests and posted bytes in a second.

use std::convert::Infallible;
use std::time::Instant;

use bytes::Bytes;
use futures::future::join_all;
use futures::stream;
use http_body_util::StreamBody;
use hyper::body::Frame;
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Answer, answered, messages, send, server, set_quotas};
use support::sukkal::Sukkal;

const MESSAGES: &str = "/v2/queues/q/messages";

async fn put_queues(server: &Sukkal, project: &str, count: usize) -> Vec<Answer> {
    let api = server.project(project);
    join_all((0..count).map(|number| send(api.put(&format!("/v2/queues/q{number}"))))).await
}

#[tokio::test]
async fn a_request_over_the_rate_gets_503_and_changes_nothing() {
    let server = server(&[]);
    set_quotas(&server, "busy", &json!({"requests_per_second": 3})).await;

    let began = Instant::now();
    let answers = put_queues(&server, "busy", 100).await;
    // The rate allows three at once, and three in each second.
    let created_max = 4 + 3 * usize::try_from(began.elapsed().as_secs() + 1).unwrap();
    let others = put_queues(&server, "other", 20).await;
    set_quotas(&server, "busy", &json!({})).await;

    let created = answers.iter().filter(|answer| answer.status == 201).count();
    assert!((3..=created_max).contains(&created) && created < answers.len(), "{created} of {created_max}: {answers:?}");
    for refused in answers.iter().filter(|answer| answer.status != 201) {
        assert_eq!(refused.header("retry-after"), Some("1"));
        let expected =
            "the project exceeds its quota requests_per_second, which is 3; wait for the time in Retry-After";
        assert_eq!(refused.refusal(503, "Service temporarily unavailable"), expected);
    }
    assert!(others.iter().all(|answer| answer.status == 201), "another project is not affected");
    let list = answered(server.project("busy").get("/v2/queues?with_count=true"), 200).await.json();
    assert_eq!(list["count"], created);
}

#[tokio::test]
async fn the_status_of_a_request_over_the_rate_can_be_429() {
    let server = server(&[("SUKKAL_QUOTAS__RATE_LIMIT_STATUS", "429"), ("SUKKAL_QUOTAS__REQUESTS_PER_SECOND", "1")]);

    let answers = put_queues(&server, "busy", 10).await;

    let refused: Vec<_> = answers.iter().filter(|answer| answer.status == 429).collect();
    assert!(!refused.is_empty(), "{answers:?}");
    assert!(refused.iter().all(|answer| answer.header("retry-after").is_some()), "{answers:?}");
}

#[tokio::test]
async fn posted_bytes_are_limited_whether_their_number_is_announced_or_not() {
    let server = server(&[]);
    set_quotas(&server, "p", &json!({"posted_bytes_per_second": 200})).await;
    let api = server.project("p");
    let large = json!({"messages": [{"body": "x".repeat(8_000)}]});

    answered(api.post(MESSAGES, &large), 201).await;
    let refused = send(api.post(MESSAGES, &messages(1))).await;
    let reading = answered(api.get(MESSAGES), 200).await.json();

    // The rate allows the next request 40 seconds after the first one.
    let retry_after_s: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!(refused.status == 503 && (20..=41).contains(&retry_after_s), "{refused:?}");
    assert_eq!(reading["messages"], json!([]), "only posts are counted");
    set_quotas(&server, "chunked", &json!({"posted_bytes_per_second": 200})).await;
    let chunked = || {
        let pieces = stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from(large.to_string())))]);
        let body = reqwest::Body::wrap(StreamBody::new(pieces));
        server.project("chunked").request(Method::POST, MESSAGES).body(body)
    };
    answered(chunked(), 201).await;
    assert_eq!(send(chunked()).await.status, 503);
}

#[tokio::test]
async fn a_body_over_the_rate_is_refused_before_it_arrives() {
    let server = server(&[]);
    set_quotas(&server, "p", &json!({"posted_bytes_per_second": 1})).await;
    answered(server.project("p").post(MESSAGES, &messages(1)), 201).await;
    let mut connection = TcpStream::connect(server.address()).await.unwrap();
    let head = format!(
        "POST {MESSAGES} HTTP/1.1\r\nHost: localhost\r\nX-Project-ID: p\r\nClient-ID: {}\r\n\
         Content-Length: 1000\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n",
        support::sukkal::CLIENT
    );

    connection.write_all(head.as_bytes()).await.unwrap();
    let mut status = [0; 12];
    connection.read_exact(&mut status).await.unwrap();

    assert_eq!(&status, b"HTTP/1.1 503");
}
