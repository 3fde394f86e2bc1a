//! `redrive` and `tasks` (extensions): messages move to other queues in the background.

use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{
    CONFLICT, INVALID_BODY, INVALID_REQUEST, KEY, KEY_OPTION, NOT_FOUND, Project, Server, answered, new_project, pick,
    refused, text,
};
use support::waiting::{until, until_some};

const REDRIVE: &str = "/v2/queues/dead/redrive";

/// Creates the queue `q`, all of whose messages have become dead letters in the queue `dead`.
async fn with_dead_letters(bodies: &[Value]) -> Project {
    let api = new_project();
    api.create("q", &json!({"_max_claim_count": 1, "_dead_letter_queue": "dead"})).await;
    api.post_bodies("q", bodies).await;
    let (mut claims, mut delivered) = (Vec::new(), 0);
    while delivered < bodies.len() {
        let claim = api.claim(20).await;
        delivered += claim.messages.as_array().expect("messages are available").len();
        claims.push(claim.path);
    }
    for claim in claims {
        answered(api.delete(&claim), 204).await;
    }
    until("the messages are dead letters", async || {
        answered(api.post("/v2/queues/q/claims?limit=20", &json!({})), 204).await;
        api.stats("q").await["total"] == 0
    })
    .await;
    let unlimited = json!([{"op": "remove", "path": "/metadata/_max_claim_count"}]);
    answered(api.patch("q", &unlimited), 200).await;
    api
}

/// Starts a redrive of the queue `dead`, and returns the path of its task.
async fn start(api: &Project, body: &Value) -> String {
    let answer = answered(api.post(REDRIVE, body), 202).await;
    let path = answer.header("location").expect("a task has a location").to_owned();
    assert_eq!(path, format!("/v2/queues/dead/tasks/{}", text(&answer.json()["id"])));
    path
}

async fn task(api: &Project, path: &str) -> Value {
    answered(api.get(path), 200).await.json()
}

/// Returns a task when it has ended.
async fn ended(api: &Project, path: &str) -> Value {
    until_some("the task ends", async || Some(task(api, path).await).filter(|task| task["state"] != "running")).await
}

#[tokio::test]
async fn a_redrive_without_a_body_returns_all_dead_letters_to_their_queue() {
    let api = with_dead_letters(&[json!("a"), json!({"b": 1})]).await;

    let answer = answered(api.request(reqwest::Method::POST, REDRIVE), 202).await;

    let path = answer.header("location").unwrap().to_owned();
    let done = ended(&api, &path).await;
    let created = OffsetDateTime::parse(text(&done["created"]), &Rfc3339).unwrap();
    assert!((OffsetDateTime::now_utc() - created).whole_seconds() < 60, "{done}");
    let (id, created) = (&done["id"], &done["created"]);
    let expected = json!({
        "id": id, "kind": "redrive", "state": "done", "moved": 2, "skipped": 0, "remaining": 0, "created": created,
        "error": null,
    });
    assert_eq!(done, expected);
    assert_eq!(answer.json()["id"], *id);
    assert_eq!(api.feed("q", "").await, [json!("a"), json!({"b": 1})]);
    assert_eq!(api.stats("dead").await["total"], 0);
    let tasks = answered(api.get("/v2/queues/dead/tasks"), 200).await.json();
    assert_eq!(tasks, json!({ "tasks": [expected] }));
    let origins = answered(api.get("/v2/queues/q/messages?echo=true&include_origin=true"), 200).await.json();
    assert!(pick(&origins["messages"], "origin").iter().all(|origin| origin["queue"] == "q"), "{origins}");
}

#[tokio::test]
async fn a_redrive_moves_what_its_body_selects() {
    let bodies: Vec<Value> = (0..6).map(Value::from).collect();
    let api = with_dead_letters(&bodies).await;
    api.create("other", &json!({})).await;
    let page = answered(api.get("/v2/queues/dead/messages?echo=true"), 200).await.json();
    let ids = pick(&page["messages"], "id");

    let some = start(&api, &json!({ "to": "other", "ids": [ids[4], ids[1]] })).await;
    assert_eq!(ended(&api, &some).await["moved"], 2);
    let first = start(&api, &json!({ "limit": 2, "per_second": 1000 })).await;
    assert_eq!(ended(&api, &first).await["moved"], 2);

    assert_eq!(api.feed("other", "").await, [1, 4]);
    assert_eq!(api.feed("q", "").await, [0, 2]);
    assert_eq!(api.feed("dead", "").await, [3, 5]);
}

#[tokio::test]
async fn a_second_redrive_is_refused_until_the_first_ends() {
    let bodies: Vec<Value> = (0..40).map(Value::from).collect();
    let api = with_dead_letters(&bodies).await;
    let slow = start(&api, &json!({ "per_second": 1 })).await;
    let running = task(&api, &slow).await;
    assert_eq!(running["state"], "running");
    assert_eq!(running["moved"].as_u64().unwrap() + running["remaining"].as_u64().unwrap(), 40);

    let description = refused(api.post(REDRIVE, &json!({})), 409, CONFLICT).await;
    let id = text(&running["id"]);
    assert_eq!(description, format!("Task {id} is running in the queue dead; wait until it ends, or stop it."));

    answered(api.delete(&slow), 204).await;
    let stopped = task(&api, &slow).await;
    assert_eq!(stopped["state"], "stopped");
    let next = start(&api, &json!({})).await;
    let left = stopped["remaining"].as_u64().unwrap();
    assert_eq!(ended(&api, &next).await["moved"], left);
    assert_eq!(api.stats("q").await["total"], 40);
    answered(api.delete(&slow), 204).await;
    refused(api.get(&slow), 404, NOT_FOUND).await;
    answered(api.delete(&slow), 204).await;
}

/// The limit holds in each process, so the number of runners is bounded.
#[tokio::test]
async fn a_project_has_a_limited_number_of_running_redrives() {
    let option = ("SUKKAL_TRANSPORT__MAX_REDRIVES_PER_PROJECT", "1");
    let server = std::sync::Arc::new(Server::start(&[option, (KEY_OPTION, KEY)]));
    let api = Project::of(&server, &uuid::Uuid::new_v4().to_string());
    let other = Project::of(&server, &uuid::Uuid::new_v4().to_string());
    for project in [&api, &other] {
        for queue in ["dead", "q", "to"] {
            project.post_bodies(queue, &[json!(1), json!(2), json!(3)]).await;
        }
    }
    let slow = json!({ "to": "to", "per_second": 1 });
    let running = start(&api, &slow).await;

    let description = refused(api.post("/v2/queues/q/redrive", &slow), 429, "429 Too Many Requests").await;
    assert_eq!(description, "A project may have at most 1 running redrives at the same time. Please try again later.");

    start(&other, &slow).await;
    answered(api.delete(&running), 204).await;
    let again = async || api.post("/v2/queues/q/redrive", &slow).send().await.unwrap().status() != 429;
    until("the first redrive has ended", again).await;
    assert_eq!(answered(api.get("/v2/queues/q/tasks"), 200).await.json()["tasks"][0]["state"], "running");
}

#[tokio::test]
async fn a_moved_message_wakes_a_worker_that_waits() {
    let api = with_dead_letters(&[json!("a")]).await;
    let claim = api.post("/v2/queues/q/claims?wait=20", &json!({}));
    let waiting = tokio::spawn(answered(claim, 201));
    // If the redrive comes first, the claim finds the message at once.
    start(&api, &json!({})).await;

    assert_eq!(waiting.await.unwrap().json()["messages"][0]["body"], "a");
}

#[tokio::test]
async fn encrypted_messages_can_be_moved() {
    let api = new_project();
    api.create("dead", &json!({"_enable_encrypt_messages": true})).await;
    api.create("q", &json!({})).await;
    api.post_bodies("dead", &[json!("secret")]).await;

    let path = start(&api, &json!({ "to": "q" })).await;

    assert_eq!(ended(&api, &path).await["moved"], 1);
    assert_eq!(api.feed("q", "").await, ["secret"]);
}

/// A misspelled field must not make the redrive cover everything.
#[tokio::test]
async fn a_refused_redrive_changes_nothing() {
    let api = with_dead_letters(&[json!("a")]).await;
    let before = api.snapshot().await;
    let foreign = api.post_bodies("q", &[json!("b")]).await.remove(0);
    answered(api.delete(&format!("/v2/queues/q/messages/{foreign}")), 204).await;
    let many: Vec<&str> = vec![&foreign; 21];
    for (body, status, title) in [
        (json!({"limits": 1}), 400, INVALID_REQUEST),
        (json!({"to": "dead"}), 400, INVALID_REQUEST),
        (json!({"to": "a b"}), 400, INVALID_REQUEST),
        (json!({"to": 1}), 400, INVALID_REQUEST),
        (json!({"to": null}), 400, INVALID_REQUEST),
        (json!({"ids": []}), 400, INVALID_REQUEST),
        (json!({"ids": many}), 400, INVALID_REQUEST),
        (json!({"ids": [foreign]}), 400, INVALID_REQUEST),
        (json!({"ids": ["x"]}), 400, INVALID_REQUEST),
        (json!({"ids": "x"}), 400, INVALID_REQUEST),
        (json!({"ids": [1]}), 400, INVALID_REQUEST),
        (json!({"ids": ["x"], "limit": 1}), 400, INVALID_REQUEST),
        (json!({"limit": 0}), 400, INVALID_REQUEST),
        (json!({"limit": 4_294_967_296_i64}), 400, INVALID_REQUEST),
        (json!({"per_second": 0}), 400, INVALID_REQUEST),
        (json!({"limit": true}), 400, INVALID_REQUEST),
        (json!({"per_second": true}), 400, INVALID_REQUEST),
        (json!({"limit": "1"}), 400, INVALID_BODY),
        (json!({"per_second": 1.5}), 400, INVALID_BODY),
        (json!([]), 400, INVALID_BODY),
        (json!({"to": "absent"}), 404, NOT_FOUND),
    ] {
        let description = refused(api.post(REDRIVE, &body), status, title).await;
        assert!(!description.is_empty(), "{body}");
    }
    refused(api.post("/v2/queues/absent/redrive", &json!({})), 404, NOT_FOUND).await;
    refused(api.post("/v2/queues/absent/redrive", &json!({"to": "q"})), 404, NOT_FOUND).await;

    assert_eq!(api.snapshot().await, before);
    assert_eq!(answered(api.get("/v2/queues/dead/tasks"), 200).await.json(), json!({"tasks": []}));
    assert_eq!(answered(api.get("/v2/queues/absent/tasks"), 200).await.json(), json!({"tasks": []}));
}
