//! Pools that are deleted while they have queues, passwords of pools, and what passes between
//! pools.

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use super::{Deployment, Management, PROJECT, admin, answered, bodies, list, post, until};
use support::redis::{RedisServer, child_command};
use support::secrets;
use support::sukkal::{MOVABLE_CLOCK, Sukkal, binary};

pub(super) const PASSWORD: &str = "pool-password-8271";
const SENTINEL_PASSWORD: &str = "sentinel-password-5530";
pub(super) const KEY: (&str, &str) = ("SUKKAL_TRANSPORT__MESSAGE_ENCRYPTION_KEY", "key-of-the-pools-5512");

#[tokio::test]
async fn a_deleted_pool_serves_its_queues_until_the_last_is_gone() {
    let deployment = Deployment::start(&[1, 0]).await;
    let mut servers = [deployment.serve(), deployment.serve()];
    post(&servers[0].project(PROJECT), "old", "kept").await;
    let pool = |server: &Sukkal, method| admin(server, method, "pools/a");
    let other = json!({"uri": deployment.pools[1].url().replace("127.0.0.1", "localhost"), "weight": 1});
    answered(pool(&servers[0], Method::PUT).json(&other), 409).await;

    for _ in 0..2 {
        let response = pool(&servers[0], Method::DELETE).send().await.unwrap();
        assert!(response.status() == 204 && response.headers().contains_key("Sukkal-Warning"), "{response:?}");
    }
    servers[1] = deployment.serve();
    for server in &servers {
        answered(pool(server, Method::GET), 404).await;
        assert_eq!(bodies(&list(&server.project(PROJECT), "old").await), ["kept"]);
    }
    answered(pool(&servers[1], Method::PUT).json(&other), 409).await;
    deployment.set_weights(&servers[0], &[1, 0]).await;
    post(&servers[0].project(PROJECT), "new", "m").await;
    assert_eq!(deployment.pools_of(PROJECT, "new"), ["a"]);

    for queue in ["old", "new"] {
        answered(servers[1].project(PROJECT).delete(&format!("/v2/queues/{queue}")), 204).await;
    }
    let response = pool(&servers[0], Method::DELETE).send().await.unwrap();
    assert!(response.status() == 204 && !response.headers().contains_key("Sukkal-Warning"), "{response:?}");
    let Management::Redis(management) = &deployment.management else { unreachable!() };
    let stored = management.command(&["HGET", "sukkal:{pools}", "list"]);
    assert!(!stored.as_text().contains(&deployment.pools[0].url()), "{stored:?}");
}

#[tokio::test]
async fn a_deleted_pool_stays_until_the_dead_letters_of_its_deleted_queues_have_arrived() {
    let deployment = Deployment::start(&[1, 0]).await;
    let server = deployment.serve_with(&[("SUKKAL_JANITOR__PAUSE", "1")]);
    let api = server.project(PROJECT);
    let work = json!({"_max_claim_count": 1, "_dead_letter_queue": "dead"});
    answered(api.put("/v2/queues/work").json(&work), 201).await;
    post(&api, "work", "letter").await;
    let claimed = answered(api.post("/v2/queues/work/claims", &json!({})), 201).await;
    let claim = claimed["messages"][0]["href"].as_str().unwrap().rsplit_once('=').unwrap().1;
    answered(api.delete(&format!("/v2/queues/work/claims/{claim}")), 204).await;
    deployment.set_weights(&server, &[0, 1]).await;
    answered(api.put("/v2/queues/dead"), 201).await;
    assert_eq!((deployment.pools_of(PROJECT, "work"), deployment.pools_of(PROJECT, "dead")), (vec!["a"], vec!["b"]));

    let killed = deployment.pools[1].clone();
    spawn_blocking(move || killed.kill()).await.unwrap();
    answered(api.post("/v2/queues/work/claims", &json!({})), 204).await;
    answered(api.delete("/v2/queues/work"), 204).await;
    let delete = async || {
        let response = admin(&server, Method::DELETE, "pools/a").send().await.unwrap();
        assert_eq!(response.status(), 204);
        response.headers().contains_key("Sukkal-Warning")
    };
    assert!(delete().await, "the pool has a dead letter");

    let restarted = deployment.pools[1].clone();
    spawn_blocking(move || restarted.restart()).await.unwrap();
    let arrived = async || {
        let page = api.get("/v2/queues/dead/messages?echo=true").send().await.unwrap();
        page.status() == 200 && bodies(&page.json().await.unwrap()) == ["letter"]
    };
    until("the dead letter arrives", arrived).await;
    until("the pool is not needed any more", async || !delete().await).await;
}

#[tokio::test]
async fn the_passwords_of_a_pool_work_after_a_restart_and_are_shown_nowhere() {
    secrets::note(PASSWORD);
    secrets::note(SENTINEL_PASSWORD);
    passwords_work_and_are_hidden(|redis| format!("redis://:{PASSWORD}@127.0.0.1:{}", redis.port())).await;
    let mut sentinel = None;
    passwords_work_and_are_hidden(|redis| {
        let options = [("requirepass", SENTINEL_PASSWORD), ("sentinel", &format!("auth-pass main {PASSWORD}"))];
        let port = sentinel.insert(RedisServer::start_sentinel_with("main", redis, &options)).port();
        format!("redis-sentinel://:{PASSWORD}@127.0.0.1:{port}/main?sentinel_password={SENTINEL_PASSWORD}")
    })
    .await;
}

/// Uses a pool at the address that `uri` returns for a server with the password.
async fn passwords_work_and_are_hidden(uri: impl FnOnce(&RedisServer) -> String) {
    let deployment = Deployment::without_list(Management::Redis(RedisServer::start()), 1);
    deployment.pools[0].command(&["CONFIG", "SET", "requirepass", PASSWORD]);
    let pool = json!({"uri": uri(&deployment.pools[0]), "weight": 1});
    let server = deployment.serve_with(&[KEY]);
    answered(admin(&server, Method::PUT, "pools/a").json(&pool), 201).await;
    post(&server.project(PROJECT), "q", "m").await;
    drop(server);

    let server = deployment.serve_with(&[KEY]);
    assert_eq!(bodies(&list(&server.project(PROJECT), "q").await), ["m"]);
    let shown = [
        answered(admin(&server, Method::GET, "pools?detailed=true"), 200).await,
        answered(admin(&server, Method::GET, "health"), 200).await,
    ];
    let Management::Redis(management) = &deployment.management else { unreachable!() };
    let stored = management.command(&["HGET", "sukkal:{pools}", "list"]);
    for text in [json!(shown).to_string(), stored.as_text().to_owned()] {
        assert!(!text.contains(PASSWORD) && !text.contains(SENTINEL_PASSWORD), "{text}");
    }
}

#[tokio::test]
async fn dead_letters_and_redrives_pass_between_pools_once_and_usage_counts_both() {
    let deployment = Deployment::start(&[1, 0]).await;
    let server = deployment.serve_with(&[("SUKKAL_JANITOR__PAUSE", "1")]);
    let api = server.project(PROJECT);
    let work = json!({"_max_claim_count": 1, "_dead_letter_queue": "dead", "_shards": 4});
    answered(api.put("/v2/queues/work").json(&work), 201).await;
    deployment.set_weights(&server, &[0, 1]).await;
    answered(api.put("/v2/queues/dead"), 201).await;
    assert_eq!((deployment.pools_of(PROJECT, "work"), deployment.pools_of(PROJECT, "dead")), (vec!["a"], vec!["b"]));

    for tenant in ["x", "y"] {
        let messages = json!({"messages": [{"body": tenant, "tenant": tenant}]});
        answered(api.post("/v2/queues/work/messages", &messages), 201).await;
    }
    let claim = answered(api.post("/v2/queues/work/claims?limit=5", &json!({})), 201).await;
    assert_eq!(bodies(&claim).len(), 2);
    let href = claim["messages"][0]["href"].as_str().unwrap();
    let id = href.split("claim_id=").nth(1).unwrap();
    answered(api.delete(&format!("/v2/queues/work/claims/{id}")), 204).await;
    answered(api.post("/v2/queues/work/claims?limit=5", &json!({})), 204).await;

    until("the dead letters arrive", async || bodies(&list(&api, "dead").await).len() == 2).await;
    let usage = answered(api.get("/v2/usage"), 200).await;
    assert_eq!(usage["usage"]["queues"], 2, "{usage}");
    answered(api.post("/v2/queues/dead/redrive", &json!({})), 202).await;
    until("the messages are back", async || bodies(&list(&api, "work").await).len() == 2).await;
    let mut back: Vec<Value> = list(&api, "work").await["messages"].as_array().unwrap().clone();
    back.sort_by_key(|message| message["body"].to_string());
    assert_eq!(back.iter().map(|message| &message["body"]).collect::<Vec<_>>(), ["x", "y"]);
    assert_eq!(bodies(&list(&api, "dead").await), Vec::<&str>::new());
}

/// Otherwise a rekeying that leaves out the pools would say that the old keys are not needed.
#[tokio::test]
async fn a_store_with_pools_is_neither_checked_nor_rekeyed_without_them() {
    let deployment = Deployment::start(&[1]).await;
    let run = |arguments: &[&str]| {
        let mut command = child_command(binary());
        command.args(arguments).args(["--store", &deployment.url()]).envs([KEY, MOVABLE_CLOCK]);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let expected =
        "the store has pools, but pooling.enabled is false, so queues in pools would be left out; set it to true";

    for command in ["check", "rekey"] {
        let (code, stderr) = run(&[command]);
        assert!(code != Some(0) && stderr.contains(expected), "{command}: {code:?} {stderr}");
    }
    let server = Sukkal::start_with(&deployment.url(), &[MOVABLE_CLOCK]);
    server.logged("the store has pools, but pooling.enabled is false").await;
}
