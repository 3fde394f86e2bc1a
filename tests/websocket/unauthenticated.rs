//! Connections that have not authenticated, and requests that are refused before they are handled.

use std::time::Duration;

use futures::SinkExt;
use serde_json::json;
use tokio::time::{Instant, interval};
use tokio_tungstenite::tungstenite::Message;

use super::authentication::signed_headers;
use super::{PATH, open, start};
use crate::auth::stub_keystone::{self, StubKeystone, described};
use crate::http::answered;
use support::socket::{Received, Socket};
use support::waiting::{in_time, until_some};

/// More requests than the rate allows in a second.
const BURST: usize = 20;

#[tokio::test]
async fn requests_that_are_refused_early_use_the_rate_of_the_project() {
    let sukkal = start(&[("SUKKAL_QUOTAS__REQUESTS_PER_SECOND", "5")]);
    for (action, body) in [("queue_create", json!({})), ("nonsense", json!({}))] {
        // Each connection names a project of its own.
        let mut socket = Socket::open(&sukkal.url(PATH), action).await;
        let reply = until_some("the rate is exceeded", async || {
            // The requests are sent together, so that a slow client exceeds the rate too.
            for _ in 0..BURST {
                socket.request(action, &body).await;
            }
            let mut refused = None;
            for _ in 0..BURST {
                let reply = socket.document().await;
                refused = refused.or((reply["headers"]["status"] != 400).then_some(reply));
            }
            refused
        })
        .await;
        assert_eq!(reply["headers"]["status"], 503, "{reply}");
        assert!(reply["headers"]["Retry-After"].is_string(), "{reply}");
    }
    assert_eq!(open(&sukkal).await.ask("queue_list", json!({})).await.0, 200, "other projects go on");
}

#[tokio::test]
async fn requests_that_are_refused_early_are_in_the_metrics_and_in_the_audit_log() {
    let keystone = StubKeystone::start();
    keystone.issue("good", described("u", Some("p"), &["member"], Duration::from_secs(600)));
    let url = keystone.stub.url.clone();
    let log = tempfile::NamedTempFile::new().unwrap();
    let more = [("SUKKAL_AUDIT__FILE", log.path().to_str().unwrap())];
    let sukkal = start(&[&stub_keystone::options(&url)[..], &more].concat());
    let mut socket = Socket::try_open(&sukkal.url(PATH), "other", &[("X-Auth-Token", "good")]).await.unwrap();

    assert_eq!(socket.ask("queue_create", json!({ "queue_name": "q" })).await.0, 403);
    assert_eq!(socket.ask("queue_create", json!({})).await.0, 400);
    assert_eq!(socket.ask("nonsense", json!({})).await.0, 400);

    let metrics = support::plain_http::get(sukkal.url("/metrics")).await.unwrap().text().await.unwrap();
    for labels in [
        "{method=\"PUT\",route=\"/v2/queues/{queue_name}\",status=\"403\"} 1",
        "{method=\"PUT\",route=\"/v2/queues/{queue_name}\",status=\"400\"} 1",
        "{method=\"POST\",route=\"/v2/websocket\",status=\"400\"} 1",
    ] {
        assert!(metrics.contains(labels), "{labels} is not in {metrics}");
    }
    let line = until_some("the refusal is recorded", async || {
        let lines = std::fs::read_to_string(log.path()).unwrap();
        lines.lines().find(|line| line.contains("refused")).map(str::to_owned)
    })
    .await;
    assert!(line.contains("/v2/queues/q") && line.contains("403"), "{line}");
}

#[tokio::test]
async fn a_connection_that_does_not_authenticate_in_time_is_closed_whatever_it_sends() {
    let keystone = StubKeystone::start();
    keystone.issue("good", described("u", Some("p"), &["member"], Duration::from_secs(600)));
    let url = keystone.stub.url.clone();
    let more = [("SUKKAL_SIGNED_URL__SECRET_KEY", "a secret for tests"), ("SUKKAL_CLIENT_TIMEOUT", "2")];
    let sukkal = start(&[&stub_keystone::options(&url)[..], &more].concat());
    let api = sukkal.project("p");
    let share = api.post("/v2/queues/q/share", &json!({ "paths": ["messages"], "methods": ["POST"] }));
    let shared = answered(share.header("X-Auth-Token", "good"), 200).await.json();
    let signed = signed_headers(&shared);
    let start = Instant::now();
    let mut unknown = open(&sukkal).await;
    let mut holder = open(&sukkal).await;

    let closed = async {
        let mut pause = interval(Duration::from_millis(100));
        loop {
            pause.tick().await;
            unknown.stream.send(Message::text("x")).await.expect("the service reads until it has closed");
            match unknown.receive().await {
                Received::Text(refusal) => assert_eq!(refusal["headers"]["status"], 400),
                Received::Closed(closed) => break closed,
                other @ Received::Binary(_) => panic!("{other:?}"),
            }
            // A signature proves for each request who sends it.
            let post = json!({ "queue_name": "q", "messages": [{ "body": 1, "ttl": 60 }] });
            assert_eq!(holder.ask_with("message_post", post, signed.clone()).await.0, 201);
        }
    };
    let closed = in_time("the connection is closed", closed).await;
    assert_eq!(closed, Some((1000, "The client has not authenticated in time.".to_owned())));
    assert!(start.elapsed() >= Duration::from_secs(2));
}
