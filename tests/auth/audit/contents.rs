//! What the lines say about senders, requests and refusals, and which secrets they never contain.

use std::fs;
use std::path::Path;

use reqwest::Method;
use serde_json::{Value, json};
use sukkal_domain::Token;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::Audited;
use crate::auth::{SECRET_KEY, STRANGER, STRATEGIES, TRUSTED_PROXIES};
use crate::http::{Answer, PATCH_TYPE, answered, send};
use support::certificates::Authority;
use support::exposition::Exposition;
use support::redis::{RedisServer, child_command};
use support::sukkal::{Api, CLIENT};
use support::waiting::until;

const QUEUE: &str = "/v2/queues/orders";
const SECRET: &str = "a secret that signs the URLs of these tests";

/// Starts a server that issues tokens. Returns it with the token of its admin.
fn with_tokens(store: &str, others: &[(&str, &str)]) -> (Audited, String) {
    let token = Token::random().reveal().to_string();
    let environment = [
        (STRATEGIES, "tokens,proxy"),
        (TRUSTED_PROXIES, "127.0.0.2"),
        ("SUKKAL_POLICY__PRESET", "roles"),
        ("SUKKAL_TOKENS__ADMIN_TOKEN", &token),
        ("SUKKAL_ADMIN_MODE", "true"),
        (SECRET_KEY, SECRET),
    ];
    (Audited::start(store, &[&environment, others].concat()), token)
}

/// Creates a token of the project. Returns its text and its id.
async fn create_token(api: &Api, admin: &str, project: &str, role: &str) -> (String, String) {
    let body = json!({"name": "n", "project_id": project, "roles": [role]});
    let created = answered(api.post("/v2/tokens", &body).bearer_auth(admin), 201).await.json();
    let text = |key: &str| created[key].as_str().unwrap().to_owned();
    (text("token"), text("id"))
}

/// Returns the line of a request without what differs each time.
fn stable(server: &Audited, answer: &Answer) -> Value {
    let mut line = server.line_of(answer);
    let time = line["time"].take();
    assert!(time.as_str().unwrap().ends_with('Z'), "{time}");
    line.as_object_mut().unwrap().retain(|key, _| key != "time" && key != "request_id");
    line
}

async fn lines_say_who_did_what(store: &str) {
    let (server, admin) = with_tokens(store, &[]);
    let project = format!("shop-{}", Uuid::new_v4());
    let api = server.sukkal.project(&project);
    let (manager, id) = create_token(&api, &admin, &project, "manager").await;

    let created = answered(api.put(QUEUE).bearer_auth(&manager), 201).await;
    let expected = json!({
        "strategy": "tokens", "subject": format!("token:{id}"), "roles": ["manager"], "client_id": CLIENT,
        "own_project": project, "client_certificate": null, "peer": "127.0.0.1",
        "action": "queues:create", "method": "PUT", "path": QUEUE, "project": project, "queue": "orders",
        "other_project": false, "location": QUEUE, "outcome": "success", "status": 201,
    });
    assert_eq!(stable(&server, &created), expected);

    // An admin acts on another project, also if it only reads.
    let own = server.sukkal.project("own");
    for (method, action, status) in [(Method::GET, "queues:get", 200), (Method::DELETE, "queues:delete", 204)] {
        let request = own.request(method.clone(), &format!("{QUEUE}?project_id={project}")).bearer_auth(&admin);
        let line = stable(&server, &answered(request, status).await);
        let who = (&line["own_project"], &line["project"], &line["other_project"], &line["queue"]);
        assert_eq!(who, (&json!("own"), &json!(project), &json!(true), &json!("orders")), "{line}");
        assert_eq!((&line["action"], &line["path"]), (&json!(action), &json!(QUEUE)), "{line}");
        assert_eq!((&line["roles"], &line["outcome"]), (&json!(["admin"]), &json!("success")), "{line}");
    }

    // A change that is not possible, and one that the store does not know.
    let patch = api.request(Method::PATCH, QUEUE).bearer_auth(&manager);
    let patch = patch.header("Content-Type", PATCH_TYPE);
    let patch = patch.body(json!([{"op": "add", "path": "/metadata/k", "value": 1}]).to_string());
    let line = stable(&server, &answered(patch, 404).await);
    assert_eq!((&line["action"], &line["outcome"]), (&json!("queues:update"), &json!("failed")), "{line}");

    // The client of a proxy.
    let proxied = api.from(STRANGER).put(QUEUE).header("X-User-Id", "anna\u{202e}é").header("X-Roles", "Manager, x");
    let line = stable(&server, &answered(proxied, 201).await);
    assert_eq!((&line["strategy"], &line["subject"]), (&json!("proxy"), &json!("anna\u{202e}é")), "{line}");
    assert_eq!((&line["roles"], &line["peer"]), (&json!(["Manager", "x"]), &json!("127.0.0.2")), "{line}");
}

#[tokio::test]
async fn lines_say_who_did_what_in_an_embedded_store() {
    lines_say_who_did_what("memory:").await;
}

#[tokio::test]
async fn lines_say_who_did_what_in_redis() {
    lines_say_who_did_what(&RedisServer::shared().url()).await;
}

#[tokio::test]
async fn the_subject_of_a_client_certificate_is_recorded() {
    let authority = Authority::new();
    let (own, client) = (authority.issue("server", "/CN=server"), authority.issue("client", "/O=Acme/CN=worker"));
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let (certificate, key, authority) = (text(&own.certificate), text(&own.key), text(&authority.file()));
    let environment = [
        ("SUKKAL_TLS__CERTIFICATE", &certificate[..]),
        ("SUKKAL_TLS__KEY", &key),
        ("SUKKAL_TLS__CLIENT_CA", &authority),
    ];
    let server = Audited::start("memory:", &environment);

    for protocol in ["--http1.1", "--http2"] {
        let mut curl = child_command("curl");
        curl.args(["--silent", "--fail", protocol, "--request", "PUT", "--cacert", &authority, "--cert"]);
        curl.arg(&client.certificate).arg("--key").arg(&client.key);
        curl.args(["-H", &format!("Client-ID: {CLIENT}"), "-H", "X-Project-ID: shop"]);
        curl.arg(format!("https://{}{QUEUE}", server.sukkal.address()));
        assert!(curl.status().unwrap().success());
    }

    let lines = server.lines();
    assert_eq!(lines.len(), 2);
    for line in lines {
        assert_eq!((&line["client_certificate"], &line["strategy"]), (&json!("CN=worker,O=Acme"), &json!("none")));
    }
}

#[tokio::test]
async fn each_kind_of_refusal_is_recorded() {
    let (server, admin) = with_tokens("memory:", &[]);
    let api = server.sukkal.project("shop");
    let (reader, _) = create_token(&api, &admin, "shop", "reader").await;
    let unknown = Token::random().reveal().to_string();
    let get = || api.get(QUEUE);

    for (request, status, strategy, action) in [
        (get(), 401, json!(null), json!(null)),
        (get().bearer_auth(&unknown), 401, json!("tokens"), json!(null)),
        (get().bearer_auth("a.b.c"), 401, json!("jwt"), json!(null)),
        (get().header("X-Auth-Token", "gAAAA"), 401, json!("keystone"), json!(null)),
        (api.get("/v2/nothing"), 401, json!(null), json!(null)),
        (get().bearer_auth(&reader).header("X-Auth-Token", &admin), 400, json!(null), json!(null)),
        (get().bearer_auth(&reader).header("URL-Signature", "x"), 400, json!(null), json!(null)),
        (get().bearer_auth(&reader).header("Client-ID", CLIENT), 400, json!(null), json!(null)),
        (get().header("URL-Signature", "x"), 404, json!("signed_url"), json!(null)),
        (api.get(&format!("{QUEUE}?url_signature=x")), 404, json!("signed_url"), json!(null)),
        (api.delete(QUEUE).bearer_auth(&reader), 403, json!("tokens"), json!("queues:delete")),
        (api.get("/v2/health").bearer_auth(&reader), 403, json!("tokens"), json!("health:get")),
    ] {
        let answer = send(request).await;
        assert_eq!(answer.status, status, "{answer:?}");
        let line = server.line_of(&answer);
        assert_eq!((&line["outcome"], &line["status"]), (&json!("refused"), &json!(status)), "{line}");
        assert_eq!((&line["strategy"], &line["action"]), (&strategy, &action), "{line}");
        assert_eq!(line["peer"], "127.0.0.1", "{line}");
    }
}

#[tokio::test]
async fn a_foreign_host_and_an_exhausted_quota_are_refusals_but_a_claimed_message_is_not() {
    let server = Audited::start("memory:", &[("SUKKAL_TRANSPORT__MAX_WAITS_PER_PROJECT", "1")]);
    let api = server.sukkal.project("shop");

    let foreign = send(api.get(QUEUE).header("Host", "evil.example")).await;
    assert_eq!((foreign.status, &server.line_of(&foreign)["outcome"]), (400, &json!("refused")));

    let mut waiting = JoinSet::new();
    waiting.spawn(api.get(&format!("{QUEUE}/messages?wait=30")).send());
    until("the request waits", async || {
        Exposition::of(&server.sukkal.url("")).await.value("sukkal_waiting_requests") == Some(1.0)
    })
    .await;
    let second = send(api.get(&format!("{QUEUE}/messages?wait=30"))).await;
    let line = server.line_of(&second);
    assert_eq!(
        (second.status, &line["outcome"], &line["action"]),
        (429, &json!("refused"), &json!("messages:get_all"))
    );
    waiting.shutdown().await;

    let posted = api.post("/v2/queues/jobs/messages", &json!({"messages": [{"body": 1}]}));
    let message = answered(posted, 201).await.json()["resources"][0].as_str().unwrap().to_owned();
    answered(api.post("/v2/queues/jobs/claims", &json!({})), 201).await;
    answered(api.delete(&message), 403).await;
    let mut server = server;
    assert_eq!(server.stop().len(), 2);
}

#[tokio::test]
async fn no_secret_and_no_body_is_in_the_log() {
    const BODY: &str = "the-body-of-a-request";
    const QUERY: &str = "a-secret-of-the-query";
    const HEADER: &str = "a-secret-of-a-header";
    let (mut server, admin) = with_tokens("memory:", &[("SUKKAL_PUSH__ALLOWED_NETWORKS", "127.0.0.0/8")]);
    let api = server.sukkal.project("shop");
    let (manager, _) = create_token(&api, &admin, "shop", "manager").await;
    let unknown = Token::random().reveal().to_string();
    let query = format!("{QUEUE}?{QUERY}={QUERY}&wait=0");

    answered(api.put(&query).bearer_auth(&manager).header("X-Other", HEADER).json(&json!({ "k": BODY })), 201).await;
    let subscription = json!({"subscriber": "http://127.0.0.1:1024/x", "options": {"post_headers": {"k": BODY}}});
    let request = api.post(&format!("{QUEUE}/subscriptions?{QUERY}"), &subscription).bearer_auth(&manager);
    let created = answered(request, 201).await.json();
    let shared = api.post(&format!("{QUEUE}/share"), &json!({})).bearer_auth(&manager);
    let shared = answered(shared, 200).await.json();
    let signature = shared["signature"].as_str().unwrap();
    for request in [
        api.get(&query).bearer_auth(&unknown).header("X-Other", HEADER),
        api.get(&query).bearer_auth(&manager).header("X-Auth-Token", &admin),
        api.delete(QUEUE).header("URL-Signature", signature),
        api.get(&format!("{QUEUE}?url_signature={signature}")),
        // Somebody takes a token for its id.
        api.delete(&format!("/v2/tokens/{unknown}")).bearer_auth(&manager),
        api.delete(&format!("/v2/tokens/{manager}")),
        api.get("/v2/nothing").basic_auth("user", Some(HEADER)),
    ] {
        send(request).await;
    }

    let lines = server.stop();
    assert!(lines.len() >= 10, "{lines:#?}");
    let text = fs::read_to_string(&server.path).unwrap();
    let secrets = [BODY, QUERY, HEADER, SECRET, signature, created["secret"].as_str().unwrap()];
    // A token is "skt_", its id, "_" and its secret, which can have a "_" as well.
    let of_tokens = [&admin, &manager, &unknown].map(|token| token[41..].to_owned());
    for secret in secrets.into_iter().map(str::to_owned).chain(of_tokens) {
        assert!(!text.contains(&secret), "{secret} is in {text}");
    }
}

#[tokio::test]
async fn a_line_is_short_and_ascii_whatever_the_client_sends() {
    let (server, _) = with_tokens("memory:", &[]);
    let api = server.sukkal.project("shop").from(STRANGER);
    let (user, roles) = ("\u{1f980}".repeat(5_000), ("\u{e9}\u{85}".repeat(40) + ",").repeat(20));
    let method = Method::from_bytes(b"BREW").unwrap();

    let path = format!("{QUEUE}/%ff%0a{}", "x".repeat(8_000));
    let unknown = send(api.from("127.0.0.3".parse().unwrap()).request(method, &path)).await;
    let line = server.line_of(&unknown);
    assert_eq!((unknown.status, &line["method"], &line["outcome"]), (401, &json!("other"), &json!("refused")));
    assert!(line["path"].as_str().unwrap().starts_with("/v2/queues/orders/%ff%0axxx"), "{line}");

    let refused = send(api.put(QUEUE).header("X-User-Id", &user).header("X-Roles", &roles)).await;
    let line = server.line_of(&refused);
    assert_eq!((refused.status, &line["action"]), (403, &json!("queues:create")), "{line}");
    let text = fs::read_to_string(&server.path).unwrap();
    assert!(text.is_ascii() && text.lines().all(|line| line.len() < 10_000), "{text}");
}
