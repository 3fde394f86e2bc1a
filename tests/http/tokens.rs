//! Tokens: `/v2/tokens`, and requests that present a token (the strategy `tokens`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use sukkal_domain::Token;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::{INVALID_PARAMETER, INVALID_REQUEST, NO_ROUTE, NOT_FOUND, answered, refused, send, text};
use support::events::Events;
use support::redis::RedisServer;
use support::sukkal::{Api, Sukkal};
use support::waiting::{in_time, until};

const PATH: &str = "/v2/tokens";
/// Time within which a deletion takes effect.
const REVOKED_WITHIN: Duration = Duration::from_secs(5);

/// A service that accepts tokens only, and the token of its admin.
struct Scene {
    sukkal: Sukkal,
    redis: Arc<RedisServer>,
    admin: String,
}

impl Scene {
    fn start() -> Self {
        Self::over(RedisServer::shared(), &Token::random().reveal())
    }

    fn over(redis: Arc<RedisServer>, admin: &str) -> Self {
        let options = [
            ("SUKKAL_AUTH__STRATEGIES", "tokens"),
            ("SUKKAL_TOKENS__ADMIN_TOKEN", admin),
            ("SUKKAL_LOG__FILTER", "debug"),
        ];
        Self { sukkal: Sukkal::start_with(&redis.url(), &options), redis, admin: admin.to_owned() }
    }

    /// Starts another process of the same service.
    fn second(&self) -> Self {
        Self::over(self.redis.clone(), &self.admin)
    }

    async fn metrics(&self) -> String {
        answered(self.api("any").get("/metrics"), 200).await.text
    }

    fn api(&self, project: &str) -> Api {
        self.sukkal.project(project)
    }

    /// Creates a token in this project, and returns its document.
    async fn create(&self, project: &str, fields: &Value) -> Value {
        let mut body = json!({ "name": "a token", "roles": ["worker"] });
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        answered(with(self.api(project).post(PATH, &body), &self.admin), 201).await.json()
    }

    async fn delete(&self, token: &Value) {
        answered(with(self.api("any").delete(&path(token)), &self.admin), 204).await;
    }
}

fn with(request: RequestBuilder, token: &str) -> RequestBuilder {
    request.header("Authorization", format!("Bearer {token}"))
}

fn path(token: &Value) -> String {
    format!("{PATH}/{}", text(&token["id"]))
}

fn new_project() -> String {
    format!("project-{}", Uuid::new_v4())
}

/// Waits until a token is refused, and returns the time that this took.
async fn time_until_refused(api: Api, token: &str) -> Duration {
    let start = Instant::now();
    loop {
        match send(with(api.get("/v2/queues"), token)).await.status {
            200 => assert!(start.elapsed() < REVOKED_WITHIN, "it is still valid"),
            status => {
                assert_eq!(status, 401);
                return start.elapsed();
            }
        }
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_created_token_gives_access_to_its_project() {
    let scene = Scene::start();
    let (project, other) = (new_project(), new_project());
    let created =
        scene.create(&project, &json!({ "name": "billing", "roles": ["worker", "reader"], "ttl": 600 })).await;
    let token = text(&created["token"]);
    assert_eq!((&created["name"], &created["project_id"]), (&json!("billing"), &json!(project)));
    assert_eq!(created["roles"], json!(["worker", "reader"]));
    assert!(created["expires_at"].is_string() && text(&created["created_at"]) < text(&created["expires_at"]));

    let api = scene.api(&project);
    answered(with(api.get("/v2/queues"), token), 200).await;
    answered(api.get("/v2/queues").header("X-Auth-Token", token), 200).await;
    // The project comes from the token.
    let of_admin = |project: &str| with(scene.api(project).get("/v2/queues"), &scene.admin);
    answered(with(api.put("/v2/queues/own"), &scene.admin), 201).await;
    let foreign = send(with(scene.api(&other).get("/v2/queues"), token)).await;
    assert!(foreign.status == 403 || foreign.json()["queues"][0]["name"] == "own", "{foreign:?}");
    assert_eq!(answered(of_admin(&other), 200).await.json()["queues"], json!([]));

    for request in
        [api.get(PATH), api.post(PATH, &json!({ "name": "n", "roles": ["worker"] })), api.delete(&path(&created))]
    {
        refused(with(request.header("X-Roles", "admin"), token), 403, "Not authorized").await;
    }
}

#[tokio::test]
async fn a_token_for_all_projects_works_on_the_project_of_the_request() {
    let scene = Scene::start();
    let created = scene.create("any", &json!({ "project_id": null, "roles": ["manager"] })).await;
    assert_eq!((&created["project_id"], &created["expires_at"]), (&Value::Null, &Value::Null));

    for project in [new_project(), new_project()] {
        let api = scene.api(&project);
        answered(with(api.put("/v2/queues/q"), text(&created["token"])), 201).await;
        assert_eq!(answered(with(api.get("/v2/queues"), &scene.admin), 200).await.json()["queues"][0]["name"], "q");
    }
    scene.delete(&created).await;
}

#[tokio::test]
async fn a_token_that_is_not_valid_is_refused() {
    let scene = Scene::start();
    let created = scene.create(&new_project(), &json!({})).await;
    let token = text(&created["token"]);
    let (head, _) = token.split_at(41);
    let other_secret = format!("{head}{}", &Token::random().reveal()[41..]);
    let of_another_id = format!("skt_{}{}", Uuid::new_v4(), &token[40..]);

    let api = scene.api("any");
    for wrong in [&other_secret, &of_another_id, head, "skt_", &token[..token.len() - 1], &"skt_".repeat(2_000)] {
        let answer = send(with(api.get("/v2/queues"), wrong)).await;
        assert_eq!(answer.status, 401, "{answer:?}");
        assert!(!answer.text.contains(wrong) || wrong == "skt_", "{answer:?}");
    }
    assert_eq!(send(api.get("/v2/queues")).await.status, 401);
    answered(with(api.get("/v2/queues"), token), 200).await;
}

#[tokio::test]
async fn the_secret_is_shown_once_and_never_logged() {
    let scene = Scene::start();
    let project = new_project();
    let created = scene.create(&project, &json!({ "name": "shown once" })).await;
    let token = text(&created["token"]).to_owned();
    let secret = &token[41..];
    answered(with(scene.api(&project).get("/v2/queues"), &token), 200).await;

    let shown = answered(with(scene.api(&project).get(&path(&created)), &scene.admin), 200).await;
    let mut expected = created.clone();
    expected.as_object_mut().unwrap().shift_remove("token");
    assert_eq!(shown.json(), expected);
    let listed = super::follow_with(&scene.api(&project), PATH, "tokens", |request| with(request, &scene.admin)).await;
    assert!(listed.contains(&expected));

    let hash = Token::parse(&token).unwrap().hash();
    let hash = format!("{:x}", u128::from_be_bytes(*hash.as_bytes().first_chunk().unwrap()));
    let log = scene.sukkal.log().join("\n");
    for text in [shown.text, json!(listed).to_string(), log] {
        assert!(!text.contains(secret) && !text.contains(&hash) && !text.contains(&scene.admin[41..]), "{text}");
    }
}

#[tokio::test]
async fn a_token_in_place_of_its_id_is_neither_accepted_nor_shown() {
    let scene = Scene::start();
    let created = scene.create(&new_project(), &json!({})).await;
    let token = text(&created["token"]);
    let path = format!("{PATH}/{token}");
    let api = scene.api("any");

    for request in [api.get(&path), api.delete(&path), api.delete(&path.replace("skt_", "%73kt%5f"))] {
        let description = refused(with(request, &scene.admin), 400, INVALID_REQUEST).await;
        assert!(!description.contains(&token[4..]), "{description}");
    }
    answered(api.get(&path), 401).await;

    scene.sukkal.logged("/v2/tokens/skt_...").await;
    let log = scene.sukkal.log().join("\n");
    assert!(!log.contains(&token[40..]), "{log}");
    answered(with(api.get("/v2/queues"), token), 200).await;
}

#[tokio::test]
async fn a_deleted_token_is_refused_by_all_processes_within_five_seconds() {
    let first = Scene::start();
    let second = first.second();
    let project = new_project();
    let created = first.create(&project, &json!({})).await;
    let token = text(&created["token"]);
    for scene in [&first, &second] {
        answered(with(scene.api(&project).get("/v2/queues"), token), 200).await;
    }
    let messages = "/v2/queues/q/messages";
    let mut stream = Events::open(with(second.api(&project).get(messages), token)).await;
    let waits = [
        second.api(&project).get(&format!("{messages}?wait=20")),
        second.api(&project).delete(&format!("{messages}?pop=1&wait=20")),
        second.api(&project).post("/v2/queues/q/claims?wait=20", &json!({})),
    ];
    let waits = waits.map(|request| tokio::spawn(send(with(request, token))));
    let all_wait = async || second.metrics().await.contains("\nsukkal_waiting_requests 3\n");
    until("all requests wait", all_wait).await;

    first.delete(&created).await;

    let ended = timeout(REVOKED_WITHIN, async {
        while stream.next().await.is_some() {}
        for wait in waits {
            wait.await.unwrap().refusal(401, "Unauthorized");
        }
    });
    let (.., ended) = tokio::join!(
        time_until_refused(first.api(&project), token),
        time_until_refused(second.api(&project), token),
        ended
    );
    assert!(ended.is_ok(), "the stream or a request that waits goes on");
    first.delete(&created).await;
    refused(with(first.api(&project).get(&path(&created)), &first.admin), 404, NOT_FOUND).await;
}

#[tokio::test]
async fn an_expired_token_is_refused_and_its_stream_ends() {
    let scene = Scene::start();
    let project = new_project();
    let created = scene.create(&project, &json!({ "ttl": 5 })).await;
    let token = text(&created["token"]);
    let expires_at = OffsetDateTime::parse(text(&created["expires_at"]), &Rfc3339).unwrap();
    let mut stream = Events::open(with(scene.api(&project).get("/v2/queues/q/messages"), token)).await;

    until("the token is refused", async || {
        let sent = OffsetDateTime::now_utc();
        let status = send(with(scene.api(&project).get("/v2/queues"), token)).await.status;
        // The time is in whole seconds.
        assert!(
            status == 401 || sent < expires_at + Duration::from_secs(1),
            "{status} at {sent}, expired {expires_at}"
        );
        status == 401
    })
    .await;
    in_time("the stream ends", async { while stream.next().await.is_some() {} }).await;
    refused(with(scene.api(&project).get(&path(&created)), &scene.admin), 404, NOT_FOUND).await;
}

#[tokio::test]
async fn tokens_are_listed_in_pages() {
    let redis = Arc::new(RedisServer::start());
    let scene = Scene::over(redis, &Token::random().reveal());
    let mut expected = Vec::new();
    for number in 0..7 {
        let mut created = scene.create(&format!("p{}", number % 2), &json!({ "name": number.to_string() })).await;
        created.as_object_mut().unwrap().shift_remove("token");
        expected.push(created);
    }
    expected.sort_by_key(|token| text(&token["id"]).to_owned());
    let api = scene.api("any");
    let get = |path: &str| with(api.get(path), &scene.admin);

    let first = answered(get("/v2/tokens?limit=3"), 200).await.json();
    let last = text(&expected[2]["id"]);
    assert_eq!(first["tokens"], json!(expected[..3]));
    assert_eq!(first["links"], json!([{ "rel": "next", "href": format!("/v2/tokens?limit=3&marker={last}") }]));
    let all = super::follow_with(&api, "/v2/tokens?limit=3", "tokens", |request| with(request, &scene.admin)).await;
    assert_eq!(all, expected);
    assert_eq!(answered(get(PATH), 200).await.json()["tokens"], json!(expected));

    refused(get("/v2/tokens?limit=0"), 400, INVALID_REQUEST).await;
    refused(get("/v2/tokens?marker=x"), 400, INVALID_PARAMETER).await;
    refused(get("/v2/tokens/x"), 404, NOT_FOUND).await;
    answered(with(api.delete("/v2/tokens/x"), &scene.admin), 204).await;
}

#[tokio::test]
async fn tokens_are_listed_by_project() {
    let admin = Token::random().reveal();
    let options = [
        ("SUKKAL_AUTH__STRATEGIES", "tokens"),
        ("SUKKAL_TOKENS__ADMIN_TOKEN", &**admin),
        ("SUKKAL_POLICY__PRESET", "roles"),
    ];
    let sukkal = Sukkal::start_with("memory:", &options);
    let create = async |project: &str, name: &str| {
        let body = json!({ "name": name, "project_id": project, "roles": ["manager"] });
        answered(with(sukkal.project("p").post(PATH, &body), &admin), 201).await.json()
    };
    let manager = create("p", "1").await;
    create("p", "2").await;
    create("other", "3").await;
    let list = |query: &str, token: &str| with(sukkal.project("p").get(&format!("{PATH}{query}")), token);
    let names = async |query: &str, token: &str| {
        let page = answered(list(query, token), 200).await.json();
        let mut names: Vec<_> =
            page["tokens"].as_array().unwrap().iter().map(|t| text(&t["name"]).to_owned()).collect();
        names.sort();
        names.concat()
    };

    assert_eq!(names("", &admin).await, "123");
    assert_eq!(names("?project_id=p", &admin).await, "12");
    assert_eq!(names("?project_id=nothing", &admin).await, "");
    let page = answered(list("?limit=1&project_id=p", &admin), 200).await.json();
    assert_eq!(names(text(&page["links"][0]["href"]).strip_prefix(PATH).unwrap(), &admin).await.len(), 1);

    let manager = text(&manager["token"]);
    assert_eq!(names("", manager).await, "12");
    assert_eq!(names("?project_id=p", manager).await, "12");
    refused(list("?project_id=other", manager), 403, "Not authorized").await;
}

/// With `admin_mode`, `project_id` otherwise names the project that an operator acts on.
#[tokio::test]
async fn tokens_are_listed_by_project_in_admin_mode_too() {
    let options = [("SUKKAL_AUTH__STRATEGIES", "none,tokens"), ("SUKKAL_ADMIN_MODE", "true")];
    let sukkal = Sukkal::start_with("memory:", &options);
    let api = sukkal.project("demo");
    for project in ["shop", "other"] {
        let body = json!({ "name": project, "roles": ["worker"], "project_id": project });
        answered(api.post(PATH, &body).header("X-Roles", "admin"), 201).await;
    }

    for (query, expected) in
        [("", vec!["shop", "other"]), ("?project_id=shop", vec!["shop"]), ("?project_id=x", vec![])]
    {
        let page = answered(api.get(&format!("{PATH}{query}")).header("X-Roles", "admin"), 200).await.json();
        let mut names: Vec<&str> =
            page["tokens"].as_array().unwrap().iter().map(|token| text(&token["name"])).collect();
        names.sort_unstable_by(|one, other| other.cmp(one));
        assert_eq!(names, expected, "{query}");
    }
    let too_long = api.get(&format!("{PATH}?project_id={}", "x".repeat(257))).header("X-Roles", "admin");
    refused(too_long, 400, INVALID_PARAMETER).await;
}

#[tokio::test]
async fn there_are_at_most_as_many_tokens_as_configured() {
    let redis = Arc::new(RedisServer::start());
    let admin = Token::random().reveal();
    let options = [
        ("SUKKAL_AUTH__STRATEGIES", "tokens"),
        ("SUKKAL_TOKENS__ADMIN_TOKEN", &**admin),
        ("SUKKAL_TRANSPORT__MAX_TOKENS", "3"),
        ("SUKKAL_TRANSPORT__MAX_TOKENS_PER_PROJECT", "2"),
    ];
    let scene = Scene { sukkal: Sukkal::start_with(&redis.url(), &options), redis, admin: admin.to_string() };
    let create =
        |project: &str| with(scene.api(project).post(PATH, &json!({ "name": "n", "roles": ["worker"] })), &scene.admin);
    let first = scene.create("p", &json!({})).await;
    scene.create("p", &json!({})).await;

    let of_project = refused(create("p"), 409, super::CONFLICT).await;
    assert_eq!(of_project, "the project has 2 tokens, which is the maximum; delete one of them first");
    answered(create("other"), 201).await;
    let of_all = refused(create("other"), 409, super::CONFLICT).await;
    assert_eq!(of_all, "the service has 3 tokens, which is the maximum; delete one of them first");

    scene.delete(&first).await;
    answered(create("p"), 201).await;
}

#[tokio::test]
async fn the_token_of_the_admin_can_be_in_a_file_and_needs_no_store() {
    let (admin, file) = (Token::random().reveal(), tempfile::NamedTempFile::new().unwrap());
    std::fs::write(file.path(), format!("{}\n", *admin)).unwrap();
    let options =
        [("SUKKAL_AUTH__STRATEGIES", "tokens"), ("SUKKAL_TOKENS__ADMIN_TOKEN_FILE", file.path().to_str().unwrap())];
    let redis = RedisServer::start();
    let sukkal = Sukkal::start_with(&redis.url(), &options);
    let api = sukkal.project("p");
    answered(with(api.get(PATH), &admin), 200).await;
    redis.kill();

    // The home document is not in the store.
    answered(with(api.get("/v2"), &admin), 200).await;
    let unknown = send(with(api.get("/v2"), &Token::random().reveal())).await;

    assert_eq!((unknown.status, unknown.header("retry-after")), (503, Some("1")), "{unknown:?}");
}

#[tokio::test]
async fn without_the_strategy_there_are_no_tokens() {
    let api = super::new_project();
    for method in [Method::GET, Method::POST] {
        refused(api.request(method, PATH).header("X-Roles", "admin"), 404, NO_ROUTE).await;
    }
}
