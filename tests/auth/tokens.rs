//! Tokens: their form selects the strategy that verifies them, and its decision is final. The
//! strategies of these tests know a few tokens.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder};
use serde_json::json;
use sukkal::api::{self, Settings};
use sukkal::app;
use sukkal::auth::{AuthenticationError, Identity};
use sukkal::authentication::{Authenticator, Openness, TokenStrategy, TrustedProxies};
use sukkal::config::Config;
use sukkal::observability::metrics::ConnectionCounts;
use sukkal_domain::ProjectId;
use sukkal_storage::embedded::EmbeddedStore;
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

use super::{FORBIDDEN, SECRET_KEY, UNAUTHORIZED};
use crate::http::{answered, refused};
use support::events::Events;
use support::sukkal::{Api, CLIENT};

/// Maximum time until requests wait.
const PATIENCE: Duration = Duration::from_secs(30);
const QUEUES: &str = "/v2/queues";
const AMBIGUOUS: &str = "Ambiguous identification";

/// Knows the tokens that end in `-PROJECT`, where `free` is no project. Their owners have the role
/// with the name of the strategy.
struct Stub(&'static str);

#[async_trait]
impl TokenStrategy for Stub {
    async fn identify(&self, token: &str, _service_token: Option<&str>) -> Result<Identity, AuthenticationError> {
        match token.rsplit_once('-') {
            Some((_, "down")) => Err(AuthenticationError::Unavailable("the verifier is down".to_owned())),
            Some((_, project)) => Ok(Identity {
                subject: token.to_owned(),
                project: ProjectId::new(project).filter(|_| project != "free"),
                roles: vec![self.0.to_owned()],
                expires_at: None,
            }),
            None => Err(AuthenticationError::Refused("The token is unknown.".to_owned())),
        }
    }
}

/// Knows every token until the verifier is down.
#[derive(Clone, Default)]
struct Fragile(Arc<AtomicBool>);

#[async_trait]
impl TokenStrategy for Fragile {
    async fn identify(&self, token: &str, service_token: Option<&str>) -> Result<Identity, AuthenticationError> {
        let is_down = self.0.load(Ordering::SeqCst);
        Stub("worker").identify(if is_down { "x-down" } else { token }, service_token).await
    }
}

/// Serves with these strategies in this process, until the runtime of the test ends.
async fn serve(authenticator: Authenticator) -> Api {
    serve_under("zaqar", authenticator).await
}

/// The same with this preset of policies.
async fn serve_under(preset: &str, authenticator: Authenticator) -> Api {
    let secret_key = (SECRET_KEY, "the secret of these tests");
    let environment = [("SUKKAL_ADMIN_MODE", "true"), secret_key, ("SUKKAL_POLICY__PRESET", preset)];
    let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let config = Config::load(None, environment, &[]).unwrap();
    let mut service = app::service(&config, Arc::new(EmbeddedStore::in_memory().unwrap())).unwrap();
    let settings = (*service.settings).clone();
    service.settings = Arc::new(Settings { authenticator: Arc::new(authenticator), ..settings });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let limits = app::server_limits(&config);
    tokio::spawn(async move {
        api::serve(listener, api::router(service), limits, ConnectionCounts::default(), pending()).await.await;
    });
    Api::new(url, "of-the-header")
}

/// Only the strategy `jwt`.
fn only_jwt() -> Authenticator {
    Authenticator { jwt: Some(Box::new(Stub("jwt"))), ..Authenticator::default() }
}

/// All strategies for tokens.
fn all() -> Authenticator {
    let keystone_uri = "https://keystone.example/v3".to_owned();
    Authenticator {
        api_keys: Some(Box::new(Stub("admin"))),
        keystone: Some((Box::new(Stub("keystone")), keystone_uri)),
        ..only_jwt()
    }
}

/// Returns the strategy that has verified a request: the health check is for `admin`, the role of
/// API keys.
async fn is_api_key(request: impl Fn(&str) -> RequestBuilder) -> bool {
    answered(request(QUEUES), 200).await;
    crate::http::send(request("/v2/health")).await.status == 200
}

#[tokio::test]
async fn the_form_of_a_token_selects_its_strategy() {
    let api = serve(all()).await;
    let auth_token = |token: &'static str| {
        let api = api.clone();
        move |path: &str| api.get(path).header("X-Auth-Token", token)
    };
    let bearer = |token: &'static str| {
        let api = api.clone();
        move |path: &str| api.get(path).header("Authorization", token)
    };

    assert!(is_api_key(auth_token("skt_id_secret-p")).await);
    assert!(is_api_key(bearer("Bearer skt_id_secret-p")).await);
    assert!(!is_api_key(auth_token("gAAAA-p")).await);
    assert!(!is_api_key(bearer("bearer ey.ey.x-p")).await);

    let only_jwt = serve(Authenticator { none: Some(Openness::Everybody), ..only_jwt() }).await;
    answered(only_jwt.get(QUEUES).header("Authorization", "Bearer x-p"), 200).await;
    for (name, token, form) in [
        ("X-Auth-Token", "x-p", "a Keystone token in X-Auth-Token"),
        ("Authorization", "Bearer skt_x-p", "an API key (skt_...) in X-Auth-Token or Authorization: Bearer"),
    ] {
        let description = refused(only_jwt.get(QUEUES).header(name, token), 401, UNAUTHORIZED).await;
        assert_eq!(description, format!("This service does not accept {form}."));
    }
    // Only requests without a credential are for `none`.
    refused(only_jwt.get(QUEUES).header("Authorization", "Bearer unknown"), 401, UNAUTHORIZED).await;
    answered(only_jwt.get(QUEUES).header("Authorization", "Basic dTpw"), 200).await;
    answered(only_jwt.get(QUEUES), 200).await;
}

#[tokio::test]
async fn two_credentials_are_refused() {
    let api = serve(all()).await;
    let (auth_token, bearer) = (("X-Auth-Token", "x-p"), ("Authorization", "Bearer x-p"));
    let signature = ("URL-Signature", "x");

    for headers in [
        &[auth_token, bearer][..],
        &[auth_token, signature],
        &[bearer, signature],
        &[auth_token, bearer, signature],
        &[auth_token, auth_token],
        &[bearer, ("Authorization", "Basic dTpw")],
    ] {
        for path in [QUEUES, "/v2/nothing"] {
            let request = headers.iter().fold(api.get(path), |request, (name, value)| request.header(*name, *value));
            refused(request, 400, AMBIGUOUS).await;
        }
    }
    let in_query = api.get("/v2/queues?url_signature=x").header(bearer.0, bearer.1);
    let description = refused(in_query, 400, AMBIGUOUS).await;
    assert_eq!(
        description,
        "The headers X-Auth-Token, Authorization: Bearer and URL-Signature cannot be combined; send one of them."
    );
}

/// Tokens that are not text never reach a strategy.
#[tokio::test]
async fn a_request_without_a_valid_credential_is_told_how_to_get_one() {
    let api = serve(only_jwt()).await;
    for (header, reason) in [
        (None, "The request you have made requires authentication, by a JWT in Authorization: Bearer."),
        (Some("Basic dTpw"), "The request you have made requires authentication, by a JWT in Authorization: Bearer."),
        (Some("Bearer "), "The token is empty or has other characters than ASCII."),
        (Some("Bearer"), "The token is empty or has other characters than ASCII."),
        (Some("Bearer \u{e9}-p"), "The token is empty or has other characters than ASCII."),
        (Some("Bearer unknown"), "The token is unknown."),
    ] {
        let request = header.into_iter().fold(api.get(QUEUES), |request, value| request.header("Authorization", value));
        let answer = answered(request, 401).await;
        assert_eq!(answer.refusal(401, UNAUTHORIZED), reason, "{header:?}");
        assert_eq!(challenges(&answer.headers), ["Bearer realm=\"sukkal\""]);
    }

    let api = serve(all()).await;
    // The middleware of Keystone gives no reason.
    let fixed = "The request you have made requires authentication.";
    for (header, message) in [
        (None, fixed),
        (Some(("X-Auth-Token", "unknown")), fixed),
        (Some(("X-Auth-Token", "")), fixed),
        (Some(("X-Auth-Token", "skt_unknown")), "The token is unknown."),
        (Some(("Authorization", "Bearer unknown")), "The token is unknown."),
    ] {
        let request = api.get("/v2/nothing");
        let request = header.into_iter().fold(request, |request, (name, value)| request.header(name, value));
        let answer = answered(request, 401).await;
        let document = json!({"error": {"code": 401, "title": "Unauthorized", "message": message}});
        assert_eq!(answer.json(), document, "{header:?}");
        let both = ["Keystone uri=\"https://keystone.example/v3\"", "Bearer realm=\"sukkal\""];
        assert_eq!(challenges(&answer.headers), both);
    }
}

/// Otherwise its owner could do whatever URLs can be signed for, on all paths.
#[tokio::test]
async fn no_credential_has_the_role_of_a_signed_request() {
    let named = || -> Box<dyn TokenStrategy> { Box::new(Stub("Signed_URL")) };
    let (x_roles, auth_token) = (("X-Roles", "other, Signed_URL"), ("X-Auth-Token", "x-p"));
    let proxies = TrustedProxies::new(&["127.0.0.1".parse().unwrap()]);
    for (strategy, (name, credential)) in [
        (Authenticator { none: Some(Openness::Everybody), ..Authenticator::default() }, x_roles),
        (Authenticator { proxies: Some(proxies), ..Authenticator::default() }, x_roles),
        (Authenticator { keystone: Some((named(), String::new())), ..Authenticator::default() }, auth_token),
        (Authenticator { jwt: Some(named()), ..Authenticator::default() }, ("Authorization", "Bearer x-p")),
        (Authenticator { api_keys: Some(named()), ..Authenticator::default() }, ("X-Auth-Token", "skt_x-p")),
    ] {
        let api = serve_under("roles", strategy).await;

        answered(api.get("/v2/ping").header(name, credential), 204).await;
        for path in ["/v2/queues/q/messages", "/v2/queues/q/subscriptions"] {
            refused(api.get(path).header(name, credential), 403, FORBIDDEN).await;
        }
    }
}

fn challenges(headers: &HeaderMap) -> Vec<&str> {
    headers.get_all("www-authenticate").iter().map(|value| value.to_str().unwrap()).collect()
}

#[tokio::test]
async fn the_project_and_the_roles_come_from_the_token() {
    let api = serve(all()).await;
    let with = |method, path: &str, token: &str| api.request(method, path).header("X-Auth-Token", token.to_owned());

    let put = |token: &str| with(Method::PUT, "/v2/queues/q", token).header("X-Tenant-Id", "t").header("X-Tenant", "u");
    answered(put("x-mine"), 201).await;
    answered(put("x-mine"), 204).await;
    answered(put("x-other"), 201).await;
    let admin = with(Method::GET, "/v2/health", "x-mine").header("X-Roles", "admin");
    refused(admin, 403, FORBIDDEN).await;
    let as_operator = with(Method::GET, "/v2/queues?project_id=other", "x-mine").header("X-Roles", "admin");
    assert_eq!(answered(as_operator, 200).await.json()["queues"], json!([]), "it is a filter of metadata");

    // Without a project of its own, each request names it.
    answered(with(Method::PUT, "/v2/queues/q", "x-free"), 201).await;
    let unnamed = api.bare(Method::GET, QUEUES).header("Client-ID", CLIENT).header("X-Auth-Token", "x-free");
    refused(unnamed, 400, "Project-Id Missing").await;
}

#[tokio::test]
async fn a_credential_that_cannot_be_verified_is_a_503() {
    let api = serve(all()).await;

    for path in [QUEUES, "/v2/nothing"] {
        let answer = answered(api.get(path).header("X-Auth-Token", "x-down"), 503).await;
        let description = answer.refusal(503, "Service temporarily unavailable");
        assert_eq!(
            description,
            "The service that verifies credentials cannot be reached. Please try again in a few seconds."
        );
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
}

/// A token may have been revoked meanwhile.
#[tokio::test]
async fn streams_and_waits_end_soon_if_their_token_cannot_be_verified_any_more() {
    let verifier = Fragile::default();
    let api = serve(Authenticator { api_keys: Some(Box::new(verifier.clone())), ..Authenticator::default() }).await;
    let with = |request: RequestBuilder| request.header("X-Auth-Token", "skt_x-p");
    let messages = "/v2/queues/q/messages";
    let mut stream = Events::open(with(api.get(messages))).await;
    let waits = [
        api.get(&format!("{messages}?wait=20")),
        api.delete(&format!("{messages}?pop=1&wait=20")),
        api.post("/v2/queues/q/claims?wait=20", &json!({})),
    ];
    let waits = waits.map(|request| tokio::spawn(answered(with(request), 503)));
    let metrics = || async { answered(api.get("/metrics"), 200).await.text };
    let all_wait = async { while !metrics().await.contains("\nsukkal_waiting_requests 3\n") {} };
    timeout(PATIENCE, all_wait).await.expect("all requests wait");

    // A short outage ends nothing.
    verifier.0.store(true, Ordering::SeqCst);
    sleep(Duration::from_millis(1_200)).await;
    verifier.0.store(false, Ordering::SeqCst);
    sleep(Duration::from_millis(1_200)).await;
    assert!(metrics().await.contains("\nsukkal_waiting_requests 3\n"));

    verifier.0.store(true, Ordering::SeqCst);
    let ended = async {
        while stream.next().await.is_some() {}
        for wait in waits {
            wait.await.unwrap();
        }
    };
    timeout(Duration::from_secs(15), ended).await.expect("the stream and the requests end");
}
