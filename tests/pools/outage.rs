//! A pool that is down answers 503 for its queues, and affects nothing else.

use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use super::{Deployment, HANG_TIMEOUT, Management, PROJECT, admin, answered, bodies, list, post, unavailable, until};
use support::events::Events;
use support::exposition::Exposition;
use support::sukkal::{Api, Sukkal};

/// More requests than a store has in flight.
const FLOOD: usize = 150;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_that_is_down_affects_only_its_queues() {
    check_outage(Deployment::start(&[1, 0]).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_that_is_down_affects_only_its_queues_over_an_embedded_store() {
    check_outage(Deployment::embedded(2)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_whose_pool_is_remembered_are_served_while_the_management_store_is_down() {
    let deployment = Deployment::start(&[1]).await;
    let server = deployment.serve();
    let api = server.project(PROJECT);
    post(&api, "known", "first").await;

    let Management::Redis(management) = &deployment.management else { unreachable!() };
    management.kill();
    post(&api, "known", "second").await;
    assert_eq!(bodies(&list(&api, "known").await), ["first", "second"]);
    answered(api.post("/v2/queues/known/claims", &json!({})), 201).await;
    unavailable(api.post("/v2/queues/known/claims?wait=20", &json!({}))).await;
    for request in [api.put("/v2/queues/new"), api.get("/v2/queues"), api.delete("/v2/queues/known")] {
        unavailable(request).await;
    }
}

/// The queues of the pool that is down count as they were last measured, and others as they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_that_is_down_does_not_lift_the_quotas_of_a_project() {
    let deployment = Deployment::start(&[1, 0]).await;
    let server = deployment.serve_with(&[("SUKKAL_QUOTAS__MESSAGES", "20")]);
    let api = server.project(PROJECT);
    let post_many = |queue: &str, count: usize| {
        let messages = vec![json!({"body": "m"}); count];
        api.post(&format!("/v2/queues/{queue}/messages"), &json!({"messages": messages}))
    };
    let used = async || answered(api.get("/v2/usage"), 200).await["usage"]["messages"].as_u64();
    answered(post_many("broken", 10), 201).await;
    deployment.set_weights(&server, &[0, 1]).await;
    answered(post_many("fine", 1), 201).await;
    assert_eq!((deployment.pools_of(PROJECT, "broken"), deployment.pools_of(PROJECT, "fine")), (vec!["a"], vec!["b"]));
    until("both queues are measured", async || used().await == Some(11)).await;

    let killed = deployment.pools[0].clone();
    spawn_blocking(move || killed.kill()).await.unwrap();
    answered(post_many("fine", 8), 201).await;
    until("the posts to the other pool count", async || used().await == Some(19)).await;
    answered(post_many("fine", 2), 403).await;
    answered(post_many("fine", 1), 201).await;
}

async fn check_outage(deployment: Deployment) {
    let server = deployment.serve();
    let api = server.project(PROJECT);
    deployment.set_weights(&server, &[1, 0]).await;
    post(&api, "broken", "kept").await;
    deployment.set_weights(&server, &[0, 1]).await;
    post(&api, "fine", "first").await;
    assert_eq!((deployment.pools_of(PROJECT, "broken"), deployment.pools_of(PROJECT, "fine")), (vec!["a"], vec!["b"]));
    deployment.set_weights(&server, &[1_000_000, 1]).await;
    let mut stream = Events::open(api.get("/v2/queues/fine/messages?echo=true&include_claimed=true")).await;
    assert_eq!(stream.bodies(1).await, ["first"]);

    let stopped = deployment.pools[0].clone();
    spawn_blocking(move || stopped.pause()).await.unwrap();
    let flood: Vec<_> =
        (0..FLOOD).map(|_| tokio::spawn(unavailable(api.get("/v2/queues/broken/messages?echo=true")))).collect();
    answered(api.post("/v2/queues/fine/claims?limit=1", &json!({})), 201).await;
    let waiting = tokio::spawn(api.post("/v2/queues/fine/claims?wait=20", &json!({})).timeout(HANG_TIMEOUT).send());
    post(&api, "fine", "second").await;
    assert_eq!(waiting.await.unwrap().unwrap().status(), 201);
    assert_eq!(stream.bodies(1).await, ["second"]);
    check_all_but_one(&deployment, &server, &api).await;
    for refused in join_all(flood).await {
        refused.unwrap();
    }
    deployment.pools[0].resume();
    recovers(&server, &api).await;

    let killed = deployment.pools[0].clone();
    spawn_blocking(move || killed.kill()).await.unwrap();
    unavailable(api.post("/v2/queues/broken/claims", &json!({}))).await;
    check_all_but_one(&deployment, &server, &api).await;
    let restarted = deployment.pools[0].clone();
    spawn_blocking(move || restarted.restart()).await.unwrap();
    recovers(&server, &api).await;
    post(&api, "broken", "after").await;
    assert_eq!(bodies(&list(&api, "broken").await), ["kept", "after"]);
}

/// Checks all that does not need the pool that is down.
async fn check_all_but_one(deployment: &Deployment, server: &Sukkal, api: &Api) {
    let page = answered(api.get("/v2/queues?with_count=true&limit=20"), 200).await;
    let names: Vec<&str> =
        page["queues"].as_array().unwrap().iter().filter_map(|queue| queue["name"].as_str()).collect();
    assert!(names.contains(&"broken") && names.contains(&"fine"), "{names:?}");
    for query in ["detailed=true", "n=5", "with_stats=true"] {
        let response = api.get(&format!("/v2/queues?limit=20&{query}")).send().await.unwrap();
        assert!(response.status() == 503 && response.headers().contains_key("Retry-After"), "{query}: {response:?}");
        let text = response.text().await.unwrap();
        assert!(text.contains("The pool a is down"), "{query}: {text}");
    }
    answered(api.get("/v2/queues?name=in&detailed=true"), 200).await;
    until("the pool is known to be down", async || pool_up(server).await == Some(0.0)).await;
    let health = answered(admin(server, Method::GET, "health"), 200).await;
    let reachable = |pool: &str| health[pool]["storage_reachable"].clone();
    assert_eq!((reachable("a"), reachable("b")), (json!(false), json!(true)), "{health}");
    let operations = health["b"]["operation_status"].as_object().unwrap();
    assert!(operations.values().all(|operation| operation["succeeded"] == true), "{health}");
    answered(api.get("/readyz"), 204).await;
    for _ in 0..5 {
        let name = uuid::Uuid::new_v4().to_string();
        post(api, &name, "m").await;
        let key = format!("sukkal:{{{PROJECT}/{name}}}:queue");
        assert_eq!(deployment.pools[1].command(&["EXISTS", &key]).as_int(), 1);
        answered(api.delete(&format!("/v2/queues/{name}")), 204).await;
    }
    unavailable(api.get("/v2/queues/broken/stats")).await;
}

async fn pool_up(server: &Sukkal) -> Option<f64> {
    Exposition::of(&server.url("")).await.value("sukkal_pool_up{pool=\"a\"}")
}

async fn recovers(server: &Sukkal, api: &Api) {
    until("the pool is known to be up", async || pool_up(server).await == Some(1.0)).await;
    let list = async || api.get("/v2/queues/broken/messages?echo=true").send().await.unwrap();
    until("its queues are served", async || list().await.status() == 200).await;
    let page: Value = list().await.json().await.unwrap();
    assert_eq!(bodies(&page), ["kept"]);
}

#[tokio::test]
async fn a_missing_pool_is_reported_to_the_client_and_in_the_log() {
    let deployment = Deployment::start(&[1]).await;
    let server = deployment.serve();
    deployment.set_weights(&server, &[0]).await;
    let text = "There is no pool for new queues. The operator of the service must create one.";

    for _ in 0..3 {
        let refusal = answered(server.project(PROJECT).put("/v2/queues/new"), 503).await;
        assert_eq!(refusal["description"], json!(text));
    }

    let found = server.logged(text).await;
    assert_eq!(found.len(), 1, "clients cannot fill the log: {found:?}");
}
