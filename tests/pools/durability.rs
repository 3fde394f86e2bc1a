//! A queue whose posts require a durability gets a pool that can confirm it.

use serde_json::{Value, json};

use super::{Deployment, PROJECT, answered, bodies};
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
