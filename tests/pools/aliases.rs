//! Addresses that differ as texts and lead to the same database.

use reqwest::Method;
use serde_json::{Value, json};

use super::{Deployment, Management, PROJECT, admin, answered, bodies, list, post, unavailable, until};
use support::cluster::RedisCluster;
use support::redis::RedisServer;
use support::sukkal::Sukkal;

const ID: &str = "sukkal:database";

/// Returns another address of the server.
fn alias(redis: &RedisServer) -> String {
    redis.url().replace("127.0.0.1", "localhost")
}

async fn put(server: &Sukkal, name: &str, uri: &str, status: u16) -> String {
    let request = admin(server, Method::PUT, &format!("pools/{name}")).json(&json!({"uri": uri, "weight": 0}));
    answered(request, status).await["description"].as_str().unwrap_or_default().to_owned()
}

async fn move_refused(server: &Sukkal, queue: &str, pool: &str) -> String {
    let request = admin(server, Method::POST, &format!("queues/{queue}/move")).json(&json!({"pool": pool}));
    answered(request, 409).await["description"].as_str().unwrap().to_owned()
}

/// Replaces an address in the list of pools, as no request can.
fn replace_in_list(deployment: &Deployment, before: &str, after: &str) {
    let Management::Redis(management) = &deployment.management else { unreachable!() };
    let list = management.command(&["HGET", "sukkal:{pools}", "list"]);
    let changed = list.as_text().replace(&format!("\"{before}\""), &format!("\"{after}\""));
    assert_ne!(changed, list.as_text());
    management.command(&["HSET", "sukkal:{pools}", "list", &changed, "version", after]);
}

#[tokio::test]
async fn an_address_that_leads_to_the_database_of_another_pool_is_refused() {
    let deployment = Deployment::start(&[1, 0]).await;
    let server = deployment.serve();
    let address = alias(&deployment.pools[0]);

    for refusal in [
        put(&server, "same", &address, 409).await,
        answered(admin(&server, Method::PATCH, "pools/b").json(&json!({"uri": address})), 409).await["description"]
            .as_str()
            .unwrap()
            .to_owned(),
    ] {
        assert!(refusal.contains("the database of pool a at redis://127.0.0.1") && refusal.contains(ID), "{refusal}");
    }
    // Another database of the server, a pool with a label, and the address of the pool itself are
    // no other pool's.
    put(&server, "other", &format!("{address}/1"), 201).await;
    put(&server, "labeled", &format!("{address}/label"), 201).await;
    put(&server, "labeled", &format!("{address}/label"), 201).await;
    put(&server, "same", &format!("{}/1", deployment.pools[0].url()), 409).await;
    post(&server.project(PROJECT), "q", "m").await;
    assert!(move_refused(&server, "q", "labeled").await.contains("same database"));
    assert_eq!(bodies(&list(&server.project(PROJECT), "q").await), ["m"]);
}

#[tokio::test]
async fn a_cluster_is_one_pool_whichever_node_its_address_names() {
    let (deployment, cluster) = (Deployment::start(&[]).await, RedisCluster::start());
    let server = deployment.serve();
    let address = |node: usize| format!("redis-cluster://127.0.0.1:{}", cluster.nodes()[node].port());

    put(&server, "a", &address(0), 201).await;
    let refusal = put(&server, "b", &address(1), 409).await;

    assert!(refusal.contains("the database of pool a"), "{refusal}");
}

#[tokio::test]
async fn a_copy_of_a_pool_is_another_pool_once_its_id_is_deleted() {
    let deployment = Deployment::start(&[1, 0]).await;
    let (server, copy) = (deployment.serve(), RedisServer::start());
    let id = deployment.pools[0].command(&["GET", ID]);
    copy.command(&["SET", ID, id.as_text()]);

    put(&server, "copy", &copy.url(), 409).await;
    copy.command(&["DEL", ID]);

    put(&server, "copy", &copy.url(), 201).await;
}

#[tokio::test]
async fn the_database_of_the_management_store_cannot_be_a_pool_under_any_address() {
    let deployment = Deployment::start(&[1, 0]).await;
    let Management::Redis(management) = &deployment.management else { unreachable!() };
    let server = deployment.serve();

    for address in [management.url(), alias(management), format!("{}/label", alias(management))] {
        let refusal = put(&server, "c", &address, 400).await;
        assert!(refusal.contains("is the database of the management store"), "{refusal}");
    }
}

#[tokio::test]
async fn pools_of_one_database_that_were_accepted_before_are_logged_and_queues_stay_in_them() {
    let deployment = Deployment::start(&[1, 0]).await;
    post(&deployment.serve().project(PROJECT), "q", "m").await;
    replace_in_list(&deployment, &deployment.pools[1].url(), &alias(&deployment.pools[0]));

    let server = deployment.serve();
    let log = server.logged("two pools have the same database").await.join("\n");
    assert!(log.contains(r#""pool":"a","other":"b""#) && log.contains(ID), "{log}");
    assert!(move_refused(&server, "q", "b").await.contains("same database"));
    assert_eq!(bodies(&list(&server.project(PROJECT), "q").await), ["m"]);
}

#[tokio::test]
async fn a_pool_in_the_database_of_the_management_store_is_down_and_no_queue_moves_there() {
    let deployment = Deployment::start(&[1, 0]).await;
    let Management::Redis(management) = &deployment.management else { unreachable!() };
    post(&deployment.serve().project(PROJECT), "q", "m").await;
    replace_in_list(&deployment, &deployment.pools[1].url(), &alias(management));

    let server = deployment.serve();
    let health = async || answered(admin(&server, Method::GET, "health"), 200).await;
    until("the pool is down", async || health().await["b"]["storage_reachable"] == false).await;
    assert_eq!(health().await["a"]["storage_reachable"], true);
    server.logged("it has the database of the management store").await;
    assert!(move_refused(&server, "q", "b").await.contains("database of the management store"));
    assert_eq!(bodies(&list(&server.project(PROJECT), "q").await), ["m"]);
    let down: Value = json!({"weight": 0});
    answered(admin(&server, Method::PATCH, "pools/a").json(&down), 200).await;
    answered(admin(&server, Method::PATCH, "pools/b").json(&json!({"weight": 1})), 200).await;
    unavailable(server.project(PROJECT).put("/v2/queues/new")).await;
}
