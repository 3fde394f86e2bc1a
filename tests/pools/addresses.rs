//! Pools whose addresses change, pools that refuse new queues, and locations of queues that do not
//! exist.

use std::process::Output;

use reqwest::Method;
use serde_json::json;

use super::retirement::{KEY, PASSWORD};
use super::{Deployment, Management, PROJECT, admin, answered, bodies, list, post, unavailable, until};
use support::exposition::Exposition;
use support::redis::{RedisServer, child_command};
use support::secrets;
use support::sukkal::{Api, MOVABLE_CLOCK, POOLING, Sukkal};

const ROUNDS: usize = 4;
const NEW_QUEUES: usize = 20;
const JANITOR: [(&str, &str); 2] = [("SUKKAL_JANITOR__PAUSE", "1"), ("SUKKAL_JANITOR__WALK", "1")];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_with_an_outdated_list_finds_queues_at_the_new_address_of_their_pool() {
    let (deployment, other) = (Deployment::start(&[1]).await, RedisServer::start());
    let servers = [deployment.serve(), deployment.serve()];
    let [first, second] = servers.each_ref().map(|server| server.project(PROJECT));
    post(&second, "known", "m").await;
    answered(second.delete("/v2/queues/known"), 204).await;

    for round in 0..ROUNDS {
        let uri = [other.url(), deployment.pools[0].url()][round % 2].clone();
        answered(admin(&servers[0], Method::PATCH, "pools/a").json(&json!({"uri": uri})), 200).await;
        let queue = format!("q{round}");
        post(&first, &queue, "by the first").await;
        if round < 2 {
            post(&second, &queue, "by the second").await;
            assert_eq!(bodies(&list(&first, &queue).await), ["by the first", "by the second"]);
        }
        answered(second.delete(&format!("/v2/queues/{queue}")), 204).await;
        assert_eq!(bodies(&list(&first, &queue).await), Vec::<&str>::new());
    }
}

#[tokio::test]
async fn a_pool_gets_no_new_queues_while_its_address_changes() {
    let (deployment, other) = (Deployment::start(&[1]).await, RedisServer::start());
    let server = deployment.serve();
    let api = server.project(PROJECT);
    let Management::Redis(management) = &deployment.management else { unreachable!() };
    let list = management.command(&["HGET", "sukkal:{pools}", "list"]);
    let closed = list.as_text().replace("\"is_closed\":false", "\"is_closed\":true");
    assert_ne!(closed, list.as_text());
    management.command(&["HSET", "sukkal:{pools}", "list", &closed, "version", "another one"]);

    unavailable(api.put("/v2/queues/q")).await;
    assert_eq!(count(&api).await, 0);
    // The next change opens the pool again, whether it succeeds or not.
    let change = |uri: String| admin(&server, Method::PATCH, "pools/a").json(&json!({"uri": uri}));
    answered(change(other.url()), 200).await;
    post(&api, "q", "m").await;
    answered(change(deployment.pools[0].url()), 409).await;
    post(&api, "r", "m").await;
}

#[tokio::test]
async fn a_new_queue_gets_another_pool_if_one_refuses_it() {
    let deployment = Deployment::start(&[1_000, 1]).await;
    let server = deployment.serve();
    let api = server.project(PROJECT);
    let full = &deployment.pools[0];
    full.command(&["CONFIG", "SET", "maxmemory", "1"]);
    for number in 0..NEW_QUEUES {
        let queue = format!("q{number}");
        answered(api.put(&format!("/v2/queues/{queue}")), 201).await;
        assert_eq!(deployment.pools_of(PROJECT, &queue), ["b"]);
    }

    full.command(&["CONFIG", "SET", "maxmemory", "0"]);
    until("the pool gets queues again", async || {
        let queue = uuid::Uuid::new_v4().to_string();
        answered(api.put(&format!("/v2/queues/{queue}")), 201).await;
        deployment.pools_of(PROJECT, &queue) == ["a"]
    })
    .await;
    full.command(&["REPLICAOF", "127.0.0.1", "1"]);
    for number in 0..NEW_QUEUES {
        let queue = format!("r{number}");
        let put = || api.put(&format!("/v2/queues/{queue}"));
        if put().send().await.unwrap().status() != 201 {
            answered(put(), 201).await;
        }
        assert_eq!(deployment.pools_of(PROJECT, &queue), ["b"]);
    }
}

#[tokio::test]
async fn a_queue_that_its_pool_does_not_have_leaves_the_catalogue() {
    let deployment = Deployment::start(&[1]).await;
    let server = deployment.serve_with(&JANITOR);
    leaves_the_catalogue(&deployment, &server).await;

    // Nobody waits for the janitor to delete a pool.
    answered(server.project(PROJECT).delete("/v2/queues/kept"), 204).await;
    post(&server.project(PROJECT), "q", "m").await;
    forget_queue(&deployment);
    let response = admin(&server, Method::DELETE, "pools/a").send().await.unwrap();
    assert!(response.status() == 204 && !response.headers().contains_key("Sukkal-Warning"), "{response:?}");
    assert_eq!(count(&server.project(PROJECT)).await, 0);
}

#[tokio::test]
async fn a_queue_that_its_pool_does_not_have_leaves_an_embedded_catalogue() {
    let deployment = Deployment::embedded(1);
    let server = deployment.serve_with(&JANITOR);
    deployment.set_weights(&server, &[1]).await;
    leaves_the_catalogue(&deployment, &server).await;
}

async fn leaves_the_catalogue(deployment: &Deployment, server: &Sukkal) {
    let api = server.project(PROJECT);
    post(&api, "q", "m").await;
    post(&api, "kept", "m").await;
    forget_queue(deployment);
    until("the queue is not counted", async || count(&api).await == 1).await;
    // The walk that finds this one has visited the other one before.
    post(&api, "later", "m").await;
    forget(deployment, "later");
    until("the second queue is not counted", async || count(&api).await == 1).await;
    assert_eq!(bodies(&list(&api, "kept").await), ["m"]);
}

/// Deletes the queue `q` in its pool, as a crash may.
fn forget_queue(deployment: &Deployment) {
    forget(deployment, "q");
}

fn forget(deployment: &Deployment, queue: &str) {
    let key = format!("sukkal:{{{PROJECT}/{queue}}}:queue");
    assert_eq!(deployment.pools[0].command(&["DEL", &key]).as_int(), 1);
}

async fn count(api: &Api) -> u64 {
    // A count of 0 is left out.
    answered(api.get("/v2/queues?with_count=true"), 200).await["count"].as_u64().unwrap_or(0)
}

#[tokio::test]
async fn a_check_finds_queues_that_only_the_catalogue_or_only_a_pool_has() {
    let deployment = Deployment::start(&[1]).await;
    let server = deployment.serve();
    let api = server.project(PROJECT);
    post(&api, "q", "m").await;
    post(&api, "lost", "m").await;
    assert!(check(&deployment).status.success());

    let Management::Redis(management) = &deployment.management else { unreachable!() };
    let register = format!("sukkal:{{{PROJECT}}}:queues");
    management.command(&["ZREMRANGEBYLEX", &register, "[lost", "(losu"]);
    forget_queue(&deployment);
    let output = check(&deployment);
    let said = format!("{output:?}");
    assert!(!output.status.success(), "{said}");
    for finding in ["q: the catalogue has it in a pool that does not have it", "lost: pool a has it, but the catalogue"]
    {
        assert!(said.contains(finding), "{said}");
    }
    // A creation adopts a queue that only the pool has.
    answered(api.put("/v2/queues/lost"), 204).await;
    assert_eq!(bodies(&list(&api, "lost").await), ["m"]);
}

fn check(deployment: &Deployment) -> Output {
    let mut check = child_command(support::sukkal::binary());
    check.args(["check", "--store", &deployment.url()]).envs(POOLING).envs([MOVABLE_CLOCK]).output().unwrap()
}

#[tokio::test]
async fn a_pool_whose_uri_cannot_be_decrypted_is_down() {
    let deployment = Deployment::without_list(Management::Redis(RedisServer::start()), 2);
    let redis = &deployment.pools[0];
    redis.command(&["CONFIG", "SET", "requirepass", PASSWORD]);
    secrets::note(PASSWORD);
    let with_key = deployment.serve_with(&[KEY]);
    let pool = json!({"uri": format!("redis://:{PASSWORD}@127.0.0.1:{}", redis.port()), "weight": 1});
    answered(admin(&with_key, Method::PUT, "pools/a").json(&pool), 201).await;
    post(&with_key.project(PROJECT), "q", "m").await;

    let server = deployment.serve();
    let api = server.project(PROJECT);
    until("the pool is shown as down", async || {
        answered(admin(&server, Method::GET, "health"), 200).await["a"]["storage_reachable"] == false
    })
    .await;
    assert_eq!(Exposition::of(&server.url("")).await.value("sukkal_pool_up{pool=\"a\"}"), Some(0.0));
    answered(api.get("/readyz"), 204).await;
    unavailable(api.get("/v2/queues/q/messages")).await;
    // The virtual pool is for queues for which there is no pool.
    unavailable(api.put("/v2/queues/new")).await;
    let output = check(&deployment);
    assert!(!output.status.success() && format!("{output:?}").contains("message_encryption_key"), "{output:?}");
}
