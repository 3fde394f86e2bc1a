//! Connections that have not authenticated, and requests that are refused before they are handled.

use std::time::Duration;

use futures::SinkExt;
use serde_json::json;
use tokio::time::{Instant, interval, timeout};
use tokio_tungstenite::tungstenite::Message;

use super::{open, start};
use crate::auth::stub_keystone::{self, StubKeystone, described};
use crate::http::answered;
use crate::support::socket::Received;
use crate::support::sukkal::CLIENT;

const PATIENCE: Duration = Duration::from_secs(30);

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
    let mut signed = json!({ "Client-ID": CLIENT, "X-Project-ID": "p" });
    for (name, key) in
        [("URL-Signature", "signature"), ("URL-Paths", "paths"), ("URL-Methods", "methods"), ("URL-Expires", "expires")]
    {
        signed[name] = shared[key].clone();
    }
    let mut unknown = open(&sukkal).await;
    let mut holder = open(&sukkal).await;

    let start = Instant::now();
    let closed = async {
        let mut pause = interval(Duration::from_millis(100));
        loop {
            pause.tick().await;
            unknown.stream.send(Message::text("x")).await.expect("the service reads until it has closed");
            match unknown.receive().await {
                Received::Text(refusal) => assert_eq!(refusal["headers"]["status"], 400),
                Received::Closed(closed) => break closed,
                other => panic!("{other:?}"),
            }
            // A signature proves for each request who sends it.
            let post = json!({ "queue_name": "q", "messages": [{ "body": 1, "ttl": 60 }] });
            assert_eq!(holder.ask_with("message_post", post, signed.clone()).await.0, 201);
        }
    };
    let closed = timeout(PATIENCE, closed).await.expect("the connection is closed");
    assert_eq!(closed, Some((1000, "The client has not authenticated in time.".to_owned())));
    assert!(start.elapsed() >= Duration::from_secs(2));
}
