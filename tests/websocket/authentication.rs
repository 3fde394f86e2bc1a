//! Section 13.2: who sends the requests of a connection.

use std::time::Duration;

use serde_json::{Value, json};
use sukkal_domain::Token;
use tokio::time::{Instant, timeout};

use super::{PATH, open, start, start_here};
use crate::auth::stub_keystone::{self, StubKeystone, described};
use crate::http::answered;
use support::socket::Socket;
use support::sukkal::{CLIENT, Sukkal};
use support::waiting::advance;

pub(super) const STRATEGIES: &str = "SUKKAL_AUTH__STRATEGIES";

fn not_authenticated() -> (u64, Value) {
    (403, json!({ "error": "Not authenticated." }))
}

pub(super) fn headers(project: &str) -> Value {
    json!({ "Client-ID": CLIENT, "X-Project-ID": project })
}

/// Returns the headers of a request with this pre-signed URL.
pub(super) fn signed_headers(shared: &Value) -> Value {
    let mut signed = headers("p");
    for (name, key) in
        [("URL-Signature", "signature"), ("URL-Paths", "paths"), ("URL-Methods", "methods"), ("URL-Expires", "expires")]
    {
        signed[name] = shared[key].clone();
    }
    signed
}

pub(super) async fn authenticate(socket: &mut Socket, header: &str, token: &str) -> (u64, Value) {
    socket.ask_with("authenticate", json!({}), json!({ "X-Project-ID": "p", header: token })).await
}

/// Starts a server that asks this Keystone, with these options too.
pub(super) fn start_with_keystone(keystone: &StubKeystone, others: &[(&str, &str)]) -> Sukkal {
    let url = keystone.stub.url.clone();
    start(&[&stub_keystone::options(&url), others].concat())
}

#[tokio::test]
async fn a_connection_proves_a_token_of_keystone_once() {
    let keystone = StubKeystone::start();
    keystone.issue("good", described("u", Some("p"), &["member"], Duration::from_secs(600)));
    keystone.issue("other", described("u", Some("other"), &["member"], Duration::from_secs(600)));
    let sukkal = start_with_keystone(&keystone, &[]);
    let mut socket = open(&sukkal).await;

    assert_eq!(socket.ask("queue_list", json!({})).await, not_authenticated());
    let failed = (401, json!({ "error": "Authentication failed." }));
    assert_eq!(authenticate(&mut socket, "X-Auth-Token", "bad").await, failed);
    assert_eq!(socket.ask("queue_list", json!({})).await, not_authenticated());
    let authenticated = (200, json!({ "message": "Authenticated." }));
    assert_eq!(authenticate(&mut socket, "X-Auth-Token", "good").await, authenticated);
    assert_eq!(socket.ask("queue_create", json!({ "queue_name": "q" })).await.0, 201);
    let foreign = socket.ask_with("queue_list", json!({}), headers("other")).await;
    assert_eq!(foreign, (403, json!({ "error": "Not authenticated." })));

    // The reply does not repeat the token.
    let request = json!({ "action": "authenticate", "headers": { "X-Project-ID": "p", "X-Auth-Token": "good" } });
    socket.send(&request).await;
    let reply = socket.document().await;
    assert_eq!(reply["request"], json!({ "action": "authenticate", "body": {}, "headers": {}, "api": "v2" }));
    // A failure leaves the connection as it is, and a token of another project ends its
    // subscriptions.
    assert_eq!(authenticate(&mut socket, "X-Auth-Token", "bad").await.0, 401);
    socket.subscribe(json!({ "queue_name": "q" })).await;
    assert_eq!(authenticate(&mut socket, "X-Auth-Token", "other").await.0, 200);
    assert_eq!(socket.ask("queue_list", json!({})).await.0, 403);
    assert_eq!(socket.ask_with("queue_list", json!({}), headers("other")).await.1, json!({ "queues": [] }));
    let mut again = open(&sukkal).await;
    assert_eq!(authenticate(&mut again, "X-Auth-Token", "good").await.0, 200);
    let listed = again.ask("subscription_list", json!({ "queue_name": "q" })).await.1;
    assert_eq!(listed, json!({ "subscriptions": [] }));
}

#[tokio::test]
async fn a_connection_is_closed_when_its_credential_ends() {
    let keystone = StubKeystone::start();
    keystone.issue("short", described("u", Some("p"), &["member"], Duration::from_secs(600)));
    let url = start_here(&stub_keystone::options(&keystone.stub.url)).await;
    let mut socket = Socket::open(&url, "p").await;
    assert_eq!(authenticate(&mut socket, "X-Auth-Token", "short").await.0, 200);
    socket.subscribe(json!({ "queue_name": "q" })).await;
    // A token that renews the credential keeps the connection open.
    let mut renewed = Socket::open(&url, "p").await;
    assert_eq!(authenticate(&mut renewed, "X-Auth-Token", "short").await.0, 200);
    keystone.issue("long", described("u", Some("p"), &["member"], Duration::from_secs(3_600)));
    assert_eq!(authenticate(&mut renewed, "X-Auth-Token", "long").await.0, 200);

    advance(Duration::from_secs(300)).await;
    assert_eq!(socket.ask("queue_list", json!({})).await.0, 200);
    advance(Duration::from_secs(300)).await;
    let expected = support::socket::Received::Closed(Some((4003, "Authentication expired.".to_owned())));
    assert_eq!(socket.receive().await, expected);
    assert_eq!(renewed.ask("queue_list", json!({})).await.0, 200);
}

#[tokio::test]
async fn a_revoked_token_ends_its_connection_soon() {
    let admin = Token::random().reveal();
    let sukkal =
        start(&[(STRATEGIES, "tokens"), ("SUKKAL_TOKENS__ADMIN_TOKEN", &admin), ("SUKKAL_POLICY__PRESET", "roles")]);
    let api = sukkal.project("p");
    let body = json!({ "name": "sockets", "project_id": "p", "roles": ["manager"] });
    let issued = answered(api.post("/v2/tokens", &body).header("X-Auth-Token", &*admin), 201).await.json();
    let (token, id) = (issued["token"].as_str().unwrap(), issued["id"].as_str().unwrap());

    let mut by_message = open(&sukkal).await;
    assert_eq!(by_message.ask("queue_list", json!({})).await, not_authenticated());
    assert_eq!(authenticate(&mut by_message, "Authorization", &format!("Bearer {token}")).await.0, 200);
    let bearer = format!("Bearer {token}");
    let url = sukkal.url(PATH);
    let mut by_upgrade = Socket::try_open(&url, "p", &[("Authorization", &bearer)]).await.unwrap();
    for socket in [&mut by_message, &mut by_upgrade] {
        assert_eq!(socket.ask("queue_create", json!({ "queue_name": "q" })).await.0 / 100, 2);
    }
    assert_eq!(Socket::refusal(&url, "p", &[("Authorization", "Bearer skt_x")]).await, 401);

    answered(api.delete(&format!("/v2/tokens/{id}")).header("X-Auth-Token", &*admin), 204).await;
    let deadline = Instant::now() + Duration::from_secs(15);
    for socket in [&mut by_message, &mut by_upgrade] {
        let code = timeout(deadline - Instant::now(), socket.close_code()).await.expect("the connection is closed");
        assert_eq!(code, Some(4003));
    }
}

#[tokio::test]
async fn a_token_for_all_projects_authenticates_the_requests_of_each_project() {
    let admin = Token::random().reveal();
    let sukkal = start(&[(STRATEGIES, "tokens"), ("SUKKAL_TOKENS__ADMIN_TOKEN", &admin)]);
    let mut socket = open(&sukkal).await;

    let bearer = format!("Bearer {}", *admin);
    assert_eq!(authenticate(&mut socket, "Authorization", &bearer).await.0, 200);

    for project in ["p", "other"] {
        assert_eq!(socket.ask_with("queue_list", json!({}), headers(project)).await.0, 200);
    }
}

/// The proxy authenticates the request that opens a connection, and its client sends the frames.
#[tokio::test]
async fn frames_cannot_change_the_identity_that_a_proxy_states() {
    let sukkal = start(&[
        (STRATEGIES, "proxy"),
        ("SUKKAL_AUTH__TRUSTED_PROXIES", "127.0.0.1"),
        ("SUKKAL_POLICY__PRESET", "roles"),
    ]);
    let stated = [("X-Project-ID", "p"), ("X-Roles", "reader"), ("X-User-Id", "u")];
    let mut socket = Socket::try_open(&sukkal.url(PATH), "p", &stated).await.unwrap();

    assert_eq!(socket.ask("queue_list", json!({})).await.0, 200);
    assert_eq!(socket.ask_with("queue_list", json!({}), headers("other")).await.0, 403);
    let mut claiming = headers("p");
    claiming["X-Roles"] = json!("admin");
    assert_eq!(socket.ask_with("queue_create", json!({ "queue_name": "q" }), claiming).await.0, 403);
    let mut nobody = Socket::try_open(&sukkal.url(PATH), "p", &[]).await.unwrap();
    assert_eq!(nobody.ask("queue_list", json!({})).await.0, 400);
}

#[tokio::test]
async fn a_page_of_another_origin_cannot_open_a_connection() {
    let sukkal = start(&[("SUKKAL_TRANSPORT__CORS_ORIGINS", "http://app.example.com")]);
    let url = sukkal.url(PATH);
    let own = format!("http://{}", sukkal.address());
    for origin in [own.as_str(), "http://app.example.com"] {
        assert!(Socket::try_open(&url, "p", &[("Origin", origin)]).await.is_ok(), "{origin}");
    }
    for headers in [[("Origin", "http://evil.example")], [("Origin", "null")], [("Host", "evil.example")]] {
        assert!([400, 403].contains(&Socket::refusal(&url, "p", &headers).await), "{headers:?}");
    }
}

#[tokio::test]
async fn a_signature_allows_the_actions_on_messages_of_its_queue() {
    let keystone = StubKeystone::start();
    keystone.issue("good", described("u", Some("p"), &["member"], Duration::from_secs(600)));
    let sukkal = start_with_keystone(&keystone, &[("SUKKAL_SIGNED_URL__SECRET_KEY", "a secret for tests")]);
    let api = sukkal.project("p");
    let body = json!({ "paths": ["messages", "claims"], "methods": ["GET", "POST"] });
    let share = api.post("/v2/queues/q/share", &body).header("X-Auth-Token", "good");
    let shared = answered(share, 200).await.json();
    let signed = signed_headers(&shared);
    let mut socket = open(&sukkal).await;
    let q = json!({ "queue_name": "q" });

    let post = json!({ "queue_name": "q", "messages": [{ "body": 1, "ttl": 60 }] });
    assert_eq!(socket.ask_with("message_post", post.clone(), signed.clone()).await.0, 201);
    assert_eq!(socket.ask_with("message_list", q.clone(), signed.clone()).await.0, 200);
    let mut other = signed.clone();
    other["X-Project-ID"] = json!("other");
    let id = json!({ "queue_name": "q", "message_id": "x" });
    for (action, body, headers) in [
        ("message_delete", id, &signed),
        ("message_list", json!({ "queue_name": "other" }), &signed),
        ("message_list", q.clone(), &other),
        ("queue_get", q.clone(), &signed),
        ("claim_create", q.clone(), &signed),
    ] {
        assert_eq!(socket.ask_with(action, body, headers.clone()).await, not_authenticated(), "{action}");
    }
    assert_eq!(socket.ask("message_list", q).await, not_authenticated(), "a signature is for one request");
}
