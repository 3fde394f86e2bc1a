//! Section 13.2: how long a credential lasts, and what it allows meanwhile.

use std::time::{Duration, SystemTime};

use serde_json::json;

use super::authentication::{STRATEGIES, authenticate, headers, start_with_keystone};
use super::{open, post, start_here};
use crate::auth::stub_keystone::{self, StubKeystone, described, described_until};
use crate::auth::stub_provider::{AUDIENCE, Mood, StubProvider};
use support::socket::Socket;
use support::waiting::advance;

const HOUR: Duration = Duration::from_secs(3_600);
/// The lifetime of tokens that expire.
const SHORT: Duration = Duration::from_secs(600);

#[tokio::test]
async fn a_json_web_token_opens_a_connection_until_it_expires() {
    let (provider, foreign) = (StubProvider::start(Mood::Well), StubProvider::start(Mood::Well));
    let url = start_here(&[
        (STRATEGIES, "jwt"),
        ("SUKKAL_JWT__ISSUER", &provider.stub.url),
        ("SUKKAL_JWT__AUDIENCE", AUDIENCE),
        ("SUKKAL_JWT__LEEWAY", "0"),
    ])
    .await;
    let until = |end| format!("Bearer {}", provider.token_until("first", "p", end));
    let mut by_frame = Socket::open(&url, "p").await;
    for refused in [until(SystemTime::now() - HOUR), format!("Bearer {}", foreign.token("first", "p"))] {
        assert_eq!(Socket::refusal(&url, "p", &[("Authorization", &refused)]).await, 401);
        assert_eq!(authenticate(&mut by_frame, "Authorization", &refused).await.0, 401);
        assert_eq!(by_frame.ask("queue_list", json!({})).await.0, 403);
    }

    let [long, short] = [HOUR, SHORT].map(|time| until(SystemTime::now() + time));
    let mut by_upgrade = Socket::try_open(&url, "p", &[("Authorization", &short)]).await.unwrap();
    let mut lasting = Socket::try_open(&url, "p", &[("Authorization", &long)]).await.unwrap();
    assert_eq!(authenticate(&mut by_frame, "Authorization", &short).await.0, 200);
    for socket in [&mut by_upgrade, &mut by_frame, &mut lasting] {
        assert_eq!(socket.ask("queue_list", json!({})).await, (200, json!({ "queues": [] })));
        assert_eq!(socket.ask_with("queue_list", json!({}), headers("other")).await.0, 403);
    }
    advance(SHORT / 2).await;
    for socket in [&mut by_upgrade, &mut by_frame] {
        assert_eq!(socket.ask("queue_list", json!({})).await.0, 200, "the token is valid");
    }
    advance(SHORT / 2).await;
    for socket in [&mut by_upgrade, &mut by_frame] {
        assert_eq!(socket.close_code().await, Some(4003));
    }
    assert_eq!(lasting.ask("queue_list", json!({})).await.0, 200);
}

/// The service token counts as long as the connection is open: the tokens are verified again each
/// second.
#[tokio::test]
async fn the_token_of_a_service_lets_a_connection_use_an_expired_token_of_a_user() {
    let keystone = StubKeystone::start();
    keystone.issue("expired", described_until("u", Some("p"), &["member"], SystemTime::now() - HOUR));
    let url = start_here(&stub_keystone::options(&keystone.stub.url)).await;
    let mut by_frame = Socket::open(&url, "p").await;
    keystone.issue("service", described("heat", Some("services"), &["service"], SHORT));
    assert_eq!(authenticate(&mut by_frame, "X-Auth-Token", "expired").await.0, 401);
    let only_service = authenticate(&mut by_frame, "X-Service-Token", "service").await;
    assert_eq!(only_service.0, 400, "{only_service:?}");

    let tokens = [("X-Auth-Token", "expired"), ("X-Service-Token", "service")];
    let mut by_upgrade = Socket::try_open(&url, "p", &tokens).await.unwrap();
    let in_frame = json!({ "X-Project-ID": "p", "X-Auth-Token": "expired", "X-Service-Token": "service" });
    assert_eq!(by_frame.ask_with("authenticate", json!({}), in_frame).await.0, 200);

    for _ in 0..3 {
        for socket in [&mut by_upgrade, &mut by_frame] {
            assert_eq!(socket.ask("queue_list", json!({})).await, (200, json!({ "queues": [] })));
        }
        // A check of the tokens comes before the next request.
        advance(Duration::from_secs(2)).await;
    }
    advance(SHORT).await;
    for socket in [&mut by_upgrade, &mut by_frame] {
        assert_eq!(socket.close_code().await, Some(4003));
    }
}

#[tokio::test]
async fn a_renewed_token_that_allows_no_subscriptions_ends_those_of_the_connection() {
    let keystone = StubKeystone::start();
    for (token, role) in [("first", "manager"), ("second", "manager"), ("less", "reader")] {
        keystone.issue(token, described("u", Some("p"), &[role], HOUR));
    }
    let sukkal = start_with_keystone(&keystone, &[("SUKKAL_POLICY__PRESET", "roles")]);
    let [mut socket, mut other] = [open(&sukkal).await, open(&sukkal).await];
    for one in [&mut socket, &mut other] {
        assert_eq!(authenticate(one, "X-Auth-Token", "first").await.0, 200);
    }
    socket.subscribe(json!({ "queue_name": "q" })).await;
    let listed = async |other: &mut Socket| {
        let (status, body) = other.ask("subscription_list", json!({ "queue_name": "q" })).await;
        assert_eq!(status, 200);
        body["subscriptions"].as_array().map(Vec::len)
    };

    assert_eq!(authenticate(&mut socket, "X-Auth-Token", "second").await.0, 200);
    assert_eq!(listed(&mut other).await, Some(1));
    post(&mut other, "q", &[json!(1)]).await;
    assert_eq!(socket.document().await["body"], 1);

    assert_eq!(authenticate(&mut socket, "X-Auth-Token", "less").await.0, 200);
    assert_eq!(listed(&mut other).await, Some(0));
    post(&mut other, "q", &[json!(2)]).await;
    // Each reply is the next document, so no notification has arrived before it.
    for _ in 0..2 {
        assert_eq!(socket.ask("queue_get", json!({ "queue_name": "q" })).await, (200, json!({})));
    }
}
