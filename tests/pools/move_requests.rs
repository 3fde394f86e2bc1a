//! `POST …/move`: a queue moves to another pool, over the API. The tests of the store show what
//! happens when a move is interrupted.

use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use super::{Deployment, PROJECT, admin, answered, bodies, list, post, until};
use support::sukkal::Sukkal;

fn move_to(server: &Sukkal, queue: &str, body: &Value) -> RequestBuilder {
    admin(server, Method::POST, &format!("queues/{queue}/move")).json(body)
}

#[tokio::test]
async fn a_queue_moves_with_its_messages_and_claims_and_posts_follow_it() {
    let deployment = Deployment::start(&[1, 0]).await;
    let servers = [deployment.serve(), deployment.serve()];
    let [mover, other] = servers.each_ref().map(|server| server.project(PROJECT));
    let messages = json!({"messages": [{"body": "claimed", "ttl": 600}, {"body": "free", "ttl": 600}]});
    answered(mover.post("/v2/queues/q/messages", &messages), 201).await;
    let claim = answered(other.post("/v2/queues/q/claims?limit=1", &json!({})), 201).await;
    let claimed = claim["messages"][0]["href"].as_str().unwrap();
    let all = "/v2/queues/q/messages?echo=true&include_claimed=true&include_state=true";
    let before = answered(mover.get(all), 200).await;

    // The second request finds the queue in its pool.
    for _ in 0..2 {
        answered(move_to(&servers[0], "q", &json!({"pool": "b"})), 204).await;
        assert_eq!(deployment.pools_of(PROJECT, "q"), ["b"]);
    }

    for api in [&mover, &other] {
        assert_eq!(hrefs(&answered(api.get(all), 200).await), hrefs(&before));
    }
    answered(other.delete(claimed), 204).await;
    answered(other.delete("/v2/queues/q/messages?pop=1"), 200).await;
    post(&other, "q", "later").await;
    assert_eq!(bodies(&list(&mover, "q").await), ["later"]);
    assert_eq!(deployment.pools_of(PROJECT, "q"), ["b"]);
}

/// Returns what does not change of messages with time.
fn hrefs(page: &Value) -> Vec<(Value, Value)> {
    let messages = page["messages"].as_array().unwrap().iter();
    messages.map(|message| (message["href"].clone(), message["state"].clone())).collect()
}

#[tokio::test]
async fn a_move_that_is_refused_says_why_and_changes_nothing() {
    let deployment = Deployment::start(&[1, 0, 0]).await;
    let server = deployment.serve();
    for queue in ["q", "in-c"] {
        post(&server.project(PROJECT), queue, "m").await;
    }
    answered(move_to(&server, "in-c", &json!({"pool": "c"})), 204).await;
    answered(admin(&server, Method::DELETE, "pools/c"), 204).await;
    let refused = async |queue: &str, body: Value, status: u16| {
        let refusal = answered(move_to(&server, queue, &body), status).await;
        (refusal["title"].clone(), refusal["description"].clone())
    };

    for (body, description) in [
        (json!({"pool": "none"}), "Pool none does not exist"),
        // It is retired, because it has a queue.
        (json!({"pool": "c"}), "Pool c does not exist"),
        (json!({}), "Missing \"pool\" field."),
        (json!({"pool": 1}), "The value of the \"pool\" field must be a string."),
        (json!({"pool": "b", "to": "b"}), "the body has the field \"to\"; it accepts only pool"),
        (json!(["b"]), "Document type not supported."),
        (
            json!({"pool": "a b"}),
            "a pool name must have 1 to 64 characters of A-Z a-z 0-9 _ - . and must not be . or ..",
        ),
    ] {
        assert_eq!(refused("q", body, 400).await, (json!("Invalid request body"), json!(description)));
    }
    let uri = format!("{}/label", deployment.pools[0].url());
    answered(admin(&server, Method::PUT, "pools/same").json(&json!({"uri": uri, "weight": 0})), 201).await;
    let (title, description) = refused("q", json!({"pool": "same"}), 409).await;
    assert!(title == "Resource conflict" && description.as_str().unwrap().contains("same database"), "{description}");
    let unknown = refused("unknown", json!({"pool": "b"}), 404).await;
    assert_eq!(unknown, (json!("Not found"), json!("Queue unknown does not exist for project pooled")));
    let by_member = server.project(PROJECT).post("/v2/queues/q/move", &json!({"pool": "b"}));
    answered(by_member, 403).await;
    assert_eq!(deployment.pools_of(PROJECT, "q"), ["a"]);
    // A queue can leave a retired pool.
    answered(move_to(&server, "in-c", &json!({"pool": "b"})), 204).await;
    assert_eq!(deployment.pools_of(PROJECT, "in-c"), ["b"]);
}

#[tokio::test]
async fn a_queue_cannot_leave_an_embedded_management_store() {
    let deployment = Deployment::embedded(2);
    let server = deployment.serve_with(&[("SUKKAL_POOLING__VIRTUAL_POOL", "true")]);
    let api = server.project(PROJECT);
    post(&api, "virtual", "m").await;
    deployment.set_weights(&server, &[1, 0]).await;
    post(&api, "q", "m").await;

    let refusal = answered(move_to(&server, "virtual", &json!({"pool": "a"})), 409).await;
    let description = refusal["description"].as_str().unwrap();
    assert!(description.contains("queue pooled/virtual") && description.contains("`sukkal migrate`"), "{refusal}");
    answered(move_to(&server, "q", &json!({"pool": "b"})), 204).await;

    assert_eq!(deployment.pools_of(PROJECT, "q"), ["b"]);
    for queue in ["virtual", "q"] {
        assert_eq!(bodies(&list(&api, queue).await), ["m"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_continues_if_its_client_disconnects() {
    let deployment = Deployment::start(&[1, 0]).await;
    let server = deployment.serve();
    post(&server.project(PROJECT), "q", "m").await;

    deployment.pools[1].pause();
    let request = move_to(&server, "q", &json!({"pool": "b"}));
    let cut_off = request.timeout(Duration::from_millis(200)).send().await.unwrap_err();
    assert!(cut_off.is_timeout(), "{cut_off}");
    deployment.pools[1].resume();

    until("the queue is in its new pool", async || deployment.pools_of(PROJECT, "q") == ["b"]).await;
    assert_eq!(bodies(&list(&server.project(PROJECT), "q").await), ["m"]);
}

/// The operator learns which of the two pools to repair.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_move_names_the_pool_that_is_down() {
    let deployment = Deployment::start(&[1, 0]).await;
    let server = deployment.serve();
    post(&server.project(PROJECT), "q", "m").await;

    for (number, name) in [(1, "b"), (0, "a")] {
        let killed = deployment.pools[number].clone();
        spawn_blocking(move || killed.kill()).await.unwrap();
        let refusal = answered(move_to(&server, "q", &json!({"pool": "b"})), 503).await;
        let expected =
            format!("The pool {name} is down, so the move has not finished. Please try again when the pool is up.");
        assert_eq!(refusal["description"], json!(expected));
        let restarted = deployment.pools[number].clone();
        spawn_blocking(move || restarted.restart()).await.unwrap();
        until("the pool is up", async || {
            answered(admin(&server, Method::GET, "health"), 200).await[name]["storage_reachable"] == true
        })
        .await;
    }
    assert_eq!(deployment.pools_of(PROJECT, "q"), ["a"]);
}
