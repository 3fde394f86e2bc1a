//! A queue whose posts require a durability gets a pool that can confirm it.

use reqwest::Method;
use serde_json::{Value, json};

use super::{Deployment, PROJECT, admin, answered, bodies, list};
use support::sukkal::Api;

const QUEUES: usize = 12;

async fn post_synced(api: &Api, queue: &str, status: u16) -> Value {
    let messages = json!({"messages": [{"body": queue}]});
    answered(api.post(&format!("/v2/queues/{queue}/messages"), &messages).header("Durability", "fsync"), status).await
}

#[tokio::test]
async fn a_queue_gets_a_pool_that_can_confirm_its_durability_or_is_not_created() {
    let pools = Deployment::start(&[100, 100]).await;
    for pool in &pools.pools {
        pool.command(&["CONFIG", "SET", "appendfsync", "everysec"]);
    }
    let server = pools.serve();
    let api = server.project(PROJECT);

    post_synced(&api, "impossible", 400).await;
    answered(api.put("/v2/queues/impossible").json(&json!({"_durability": "fsync"})), 400).await;
    let listed = answered(api.get("/v2/queues"), 200).await;
    assert_eq!(listed["queues"], json!([]));
    assert_eq!(pools.pools_of(PROJECT, "impossible"), [""; 0]);

    pools.pools[1].command(&["CONFIG", "SET", "appendfsync", "always"]);
    for number in 0..QUEUES {
        let (posted, put) = (format!("posted{number}"), format!("put{number}"));
        post_synced(&api, &posted, 201).await;
        answered(api.put(&format!("/v2/queues/{put}")).json(&json!({"_durability": "fsync"})), 201).await;
        super::post(&api, &put, "synced").await;
        assert_eq!([pools.pools_of(PROJECT, &posted), pools.pools_of(PROJECT, &put)], [["b"], ["b"]]);
        let page = answered(api.get(&format!("/v2/queues/{posted}/messages?echo=true")), 200).await;
        assert_eq!(bodies(&page), [posted]);
    }
}

/// Otherwise, every later post would be refused.
#[tokio::test]
async fn a_queue_does_not_move_to_a_pool_that_cannot_confirm_its_durability() {
    let pools = Deployment::start(&[100, 0]).await;
    pools.pools[0].command(&["CONFIG", "SET", "appendfsync", "always"]);
    pools.pools[1].command(&["CONFIG", "SET", "appendfsync", "everysec"]);
    let server = pools.serve();
    let api = server.project(PROJECT);
    let move_to_b = |status| {
        let request = admin(&server, Method::POST, "queues/q/move").json(&json!({"pool": "b"}));
        answered(request, status)
    };
    answered(api.put("/v2/queues/q").json(&json!({"_durability": "fsync"})), 201).await;
    super::post(&api, "q", "synced").await;

    let refusal = move_to_b(409).await;

    let description = refusal["description"].as_str().unwrap();
    assert!(description.starts_with("pool b cannot confirm \"fsync\" at present, which _durability"), "{refusal}");
    assert_eq!(pools.pools_of(PROJECT, "q"), ["a"]);
    pools.pools[1].command(&["CONFIG", "SET", "appendfsync", "always"]);
    move_to_b(204).await;
    super::post(&api, "q", "moved").await;
    assert_eq!(bodies(&list(&api, "q").await), ["synced", "moved"]);
}
