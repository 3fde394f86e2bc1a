//! Requests with tokens of Keystone and of an `OpenID` provider (fact sheet 14.1).

use std::time::{Duration, SystemTime};

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::STRATEGIES;
use super::stub_keystone::{self, Mood, PASSWORD, StubKeystone, described, described_until};
use super::stub_provider::{AUDIENCE, Mood as ProviderMood, StubProvider};
use crate::http::{Answer, answered, refused, send};
use support::sukkal::{Api, CLIENT, Sukkal};

const HOUR: Duration = Duration::from_secs(3_600);
const QUEUES: &str = "/v2/queues";
const PUBLIC_URI: &str = "https://keystone.example.com/v3";

/// Starts a server that asks this Keystone, and returns a client whose headers name another
/// project.
pub(super) fn with_keystone(keystone: &StubKeystone) -> (Sukkal, Api) {
    let others = [
        ("SUKKAL_ADMIN_MODE", "true"),
        ("SUKKAL_KEYSTONE__WWW_AUTHENTICATE_URI", PUBLIC_URI),
        ("SUKKAL_PUSH__ALLOWED_NETWORKS", "127.0.0.0/8"),
    ];
    let environment = [&stub_keystone::options(&keystone.stub.url)[..], &others].concat();
    let sukkal = Sukkal::start_with("memory:", &environment);
    let api = sukkal.project("of-the-header");
    (sukkal, api)
}

pub(super) fn with_token(request: RequestBuilder, token: &str) -> RequestBuilder {
    request.header("X-Auth-Token", token)
}

/// Checks that a response is that of the middleware of Keystone.
fn assert_unauthorized(answer: &Answer) {
    assert_eq!(answer.status, 401, "{answer:?}");
    assert_eq!(answer.headers["www-authenticate"], format!("Keystone uri=\"{PUBLIC_URI}\""));
    assert_eq!(answer.headers["content-type"], "application/json");
    let document: Value = serde_json::from_str(&answer.text).unwrap();
    let message = "The request you have made requires authentication.";
    assert_eq!(document, json!({"error": {"code": 401, "title": "Unauthorized", "message": message}}));
}

#[tokio::test]
async fn the_project_comes_from_the_token_of_keystone() {
    let keystone = StubKeystone::start();
    keystone.issue("shop", described("u", Some("shop"), &["member"], HOUR));
    keystone.issue("other", described("u", Some("other"), &["admin"], HOUR));
    let (sukkal, api) = with_keystone(&keystone);
    let queue = "/v2/queues/orders";

    answered(with_token(api.put(queue), "shop"), 201).await;

    answered(with_token(api.get(queue), "shop"), 200).await;
    let other_project = answered(with_token(api.get(queue), "shop"), 200).await;
    let ignored = "X-Project-ID is ignored, because the credential is for another project; leave it out";
    assert_eq!(other_project.headers["sukkal-warning"], ignored);
    let tenant = with_token(api.bare(Method::GET, queue), "shop").header("X-Tenant-Id", "other");
    let tenant = answered(tenant.header("X-Roles", "member, admin").header("Client-ID", CLIENT), 200).await;
    let warnings: Vec<_> = tenant.headers.get_all("sukkal-warning").iter().collect();
    let roles = "X-Roles is ignored, because the credentials of the request determine its roles";
    assert_eq!(warnings, [&*ignored.replace("X-Project-ID", "X-Tenant-Id"), roles]);
    let stream = with_token(api.bare(Method::GET, &format!("{queue}/messages?project_id=other")), "shop");
    let stream = stream.header("Accept", "text/event-stream").header("Client-ID", CLIENT).send().await.unwrap();
    assert_eq!(stream.headers()["sukkal-warning"], &*ignored.replace("X-Project-ID", "project_id"));
    // What is ignored need not be valid.
    answered(with_token(api.get(queue), "shop").header("X-Roles", "a,".repeat(101)), 200).await;
    let own_project =
        answered(with_token(sukkal.project("shop").get(queue), "shop").header("X-Roles", "member"), 200).await;
    assert!(own_project.header("sukkal-warning").is_none(), "{own_project:?}");
    let others = answered(with_token(api.get(QUEUES), "other"), 200).await;
    assert!(!others.text.contains("orders"), "{others:?}");
    // The roles come from the token too.
    refused(with_token(api.get("/v2/health"), "shop").header("X-Roles", "admin"), 403, "Not authorized").await;
    answered(with_token(api.get("/v2/health"), "other"), 200).await;
}

#[tokio::test]
async fn a_request_without_a_valid_token_gets_the_response_of_the_middleware() {
    let keystone = StubKeystone::start();
    keystone.issue("expired", described_until("u", Some("shop"), &["member"], SystemTime::now() - HOUR));
    keystone.issue("service", described("heat", Some("services"), &["service"], HOUR));
    keystone.issue("unscoped", described("u", None, &[], HOUR));
    let (sukkal, api) = with_keystone(&keystone);

    for path in [QUEUES, "/v2/", "/v2/ping", "/nothing", "/v2/queues/a%2Fb"] {
        for request in [api.get(path), with_token(api.get(path), "invalid"), with_token(api.get(path), "expired")] {
            assert_unauthorized(&send(request.header("Accept", "text/html")).await);
        }
    }
    answered(api.bare(Method::GET, "/"), 300).await;

    let expired = || with_token(api.get(QUEUES), "expired");
    answered(expired().header("X-Service-Token", "service"), 200).await;
    assert_unauthorized(&send(expired().header("X-Service-Token", "invalid")).await);
    assert_unauthorized(&send(expired().header("X-Service-Token", "")).await);
    let twice = expired().header("X-Service-Token", "service").header("X-Service-Token", "service");
    refused(twice, 400, "Ambiguous identification").await;
    refused(with_token(api.get(QUEUES), "unscoped"), 400, "Project-Id Missing").await;
    let log = sukkal.log().concat();
    assert!(![PASSWORD, "unscoped", "own-1"].iter().any(|secret| log.contains(secret)), "{log}");
}

#[tokio::test]
async fn an_outage_of_keystone_is_a_503_and_known_tokens_go_on() {
    let keystone = StubKeystone::start();
    for token in ["known", "fresh"] {
        keystone.issue(token, described("u", Some("shop"), &["member"], HOUR));
    }
    let (_sukkal, api) = with_keystone(&keystone);
    answered(with_token(api.get(QUEUES), "known"), 200).await;
    keystone.set_mood(Mood::Down);

    answered(with_token(api.get(QUEUES), "known"), 200).await;
    let unavailable = send(with_token(api.get(QUEUES), "fresh")).await;
    assert_eq!((unavailable.status, unavailable.headers["retry-after"].to_str().unwrap()), (503, "1"));
    assert_unauthorized(&send(api.get(QUEUES)).await);

    keystone.set_mood(Mood::Well);
    answered(with_token(api.get(QUEUES), "fresh"), 200).await;
}

#[tokio::test]
async fn a_json_web_token_proves_the_project_and_the_roles() {
    let provider = StubProvider::start(ProviderMood::Well);
    let sukkal = Sukkal::start_with(
        "memory:",
        &[(STRATEGIES, "jwt"), ("SUKKAL_JWT__ISSUER", &provider.stub.url), ("SUKKAL_JWT__AUDIENCE", AUDIENCE)],
    );
    let api = sukkal.project("of-the-header");
    let with = |request: RequestBuilder, token: &str| request.bearer_auth(token);

    answered(with(api.put("/v2/queues/orders"), &provider.token("first", "shop")), 201).await;
    answered(with(api.get("/v2/queues/orders/stats"), &provider.token("first", "shop")), 200).await;
    let others = answered(with(api.get(QUEUES), &provider.token("first", "other")), 200).await;
    assert!(!others.text.contains("orders"), "{others:?}");

    let expired = provider.token_until("first", "shop", SystemTime::now() - HOUR);
    for request in [api.get(QUEUES), with(api.get(QUEUES), "a.b.c"), with(api.get(QUEUES), &expired)] {
        let answer = send(request).await;
        answer.refusal(401, "Unauthorized");
        assert_eq!(answer.headers["www-authenticate"], "Bearer realm=\"sukkal\"");
    }
    provider.set_mood(ProviderMood::Down);
    let unavailable = send(with(api.get(QUEUES), &provider.token("unknown", "shop"))).await;
    assert_eq!((unavailable.status, unavailable.headers["retry-after"].to_str().unwrap()), (503, "1"));
    answered(with(api.get(QUEUES), &provider.token("first", "shop")), 200).await;
}

#[tokio::test]
async fn the_query_of_the_url_of_the_keys_is_not_logged() {
    let provider = StubProvider::start(ProviderMood::Down);
    let jwks = format!("{}/keys?api_key=confidential", provider.stub.url);
    let options = [
        (STRATEGIES, "jwt"),
        ("SUKKAL_JWT__ISSUER", "me"),
        ("SUKKAL_JWT__JWKS", &jwks),
        ("SUKKAL_JWT__AUDIENCE", AUDIENCE),
        ("SUKKAL_LOG__FILTER", "debug"),
    ];
    let sukkal = Sukkal::start_with("memory:", &options);
    sukkal.logged("credentials cannot be verified").await;

    let log = sukkal.log().concat();
    assert!(log.contains(&format!("{}/keys\"", provider.stub.url)) && !log.contains("confidential"), "{log}");
    assert!(provider.stub.requests()[0].path_and_query.contains("confidential"), "the query is sent");
}
