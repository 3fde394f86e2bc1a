//! Each operation during an outage of the store: 503, with a description of what failed.

use std::sync::Arc;

use futures::future::join_all;
use reqwest::{Method, RequestBuilder};
use serde_json::json;
use uuid::Uuid;

use super::{PATCH_TYPE, Project, Server, send};
use support::redis::RedisServer;
use support::sukkal::Sukkal;

const UNAVAILABLE: &str = "Service temporarily unavailable";

/// Returns a request for each operation, with the expected description of its failure.
fn requests(api: &Project) -> Vec<(RequestBuilder, &'static str)> {
    let q = "/v2/queues/q";
    let at = |method: Method, path: &str| api.request(method, &format!("{q}{path}"));
    let claim = format!("/claims/{}", Uuid::new_v4());
    let task = format!("/tasks/{}", Uuid::new_v4());
    let subscription = format!("/subscriptions/{}", Uuid::new_v4());
    let of_subscription = |method: Method, path: &str| at(method, &format!("{subscription}{path}"));
    let subscribe = api.post(&format!("{q}/subscriptions"), &json!({"subscriber": "http://1.1.1.1/"}));
    let confirm = of_subscription(Method::PUT, "/confirm").json(&json!({"confirmed": true}));
    let redeliver = of_subscription(Method::POST, "/redeliver").json(&json!({"since": "now"}));
    let patch = at(Method::PATCH, "").header("Content-Type", PATCH_TYPE).body("[]");
    let token = format!("/v2/tokens/{}", Uuid::new_v4());
    let at_pool = |method: Method, path: &str| api.request(method, &format!("/v2/{path}"));
    let as_admin = |request: RequestBuilder| request.header("X-Roles", "admin");
    let post = api.post(&format!("{q}/messages"), &json!({"messages": [{"body": 1}]}));
    vec![
        (api.get("/v2/usage"), "Usage could not be retrieved."),
        (as_admin(api.get("/v2/quotas")), "Quotas could not be retrieved."),
        (as_admin(api.put("/v2/quotas").body("{}")), "Quotas could not be set."),
        (as_admin(api.delete("/v2/quotas")), "Quotas could not be removed."),
        (as_admin(api.get("/v2/pools")), "Pools could not be listed."),
        (as_admin(api.get("/v2/pools/p")), "Pool could not be retrieved."),
        (
            as_admin(api.put("/v2/pools/p")).json(&json!({"uri": "redis://h", "weight": 1})),
            "Pool could not be created.",
        ),
        (as_admin(at_pool(Method::PATCH, "pools/p")).json(&json!({"weight": 1})), "Pool could not be updated."),
        (as_admin(api.delete("/v2/pools/p")), "Pool could not be deleted."),
        (api.get("/v2/flavors"), "Flavors could not be listed."),
        (api.get("/v2/flavors/f"), "Flavor could not be retrieved."),
        (as_admin(api.put("/v2/flavors/f")).json(&json!({"pool_list": ["p"]})), "Flavor could not be created."),
        (
            as_admin(at_pool(Method::PATCH, "flavors/f")).json(&json!({"pool_list": ["p"]})),
            "Flavor could not be updated.",
        ),
        (as_admin(api.delete("/v2/flavors/f")), "Flavor could not be deleted."),
        (as_admin(api.get("/v2/projects")), "Projects could not be listed."),
        (api.get("/v2/queues"), "Queues could not be listed."),
        (api.get("/v2/topics"), "Topics could not be listed."),
        (api.put("/v2/topics/t"), "Topic could not be created."),
        (api.put(q), "Queue could not be created."),
        (api.get(q), "Queue metadata could not be retrieved."),
        (patch, "Queue metadata could not be updated."),
        (api.delete(q), "Queue could not be deleted."),
        (at(Method::GET, "/stats"), "Queue stats could not be read."),
        (at(Method::POST, "/purge"), "Queue could not be purged."),
        (at(Method::POST, "/pause"), "Queue could not be paused."),
        (at(Method::POST, "/resume"), "Queue could not be resumed."),
        (as_admin(at(Method::POST, "/move")).json(&json!({"pool": "p"})), "Queue could not be moved."),
        (post, "Messages could not be enqueued."),
        (at(Method::GET, "/messages"), "Messages could not be listed."),
        (at(Method::GET, "/messages?ids=x"), "Messages could not be listed."),
        (at(Method::GET, "/messages/x"), "Message could not be retrieved."),
        (at(Method::DELETE, "/messages?ids=x"), "Messages could not be deleted."),
        (at(Method::DELETE, "/messages?pop=1"), "Messages could not be popped."),
        (at(Method::DELETE, "/messages/x"), "Message could not be deleted."),
        (at(Method::GET, "/claims"), "Claims could not be listed."),
        (at(Method::POST, "/claims"), "Claim could not be created."),
        (at(Method::GET, &claim), "Claim could not be retrieved."),
        (at(Method::PATCH, &claim).json(&json!({})), "Claim could not be updated."),
        (at(Method::DELETE, &claim), "Claim could not be released."),
        (at(Method::DELETE, &format!("{claim}/messages/x")), "Message could not be returned."),
        (at(Method::POST, "/redrive"), "Redrive could not be started."),
        (at(Method::GET, "/tasks"), "Tasks could not be listed."),
        (at(Method::GET, &task), "Task could not be retrieved."),
        (at(Method::DELETE, &task), "Task could not be stopped or removed."),
        (at(Method::GET, "/subscriptions"), "Subscriptions could not be listed."),
        (subscribe, "Subscription could not be created."),
        (of_subscription(Method::GET, ""), "Subscription could not be retrieved."),
        (of_subscription(Method::PATCH, "").json(&json!({"ttl": 60})), "Subscription could not be updated."),
        (of_subscription(Method::DELETE, ""), "Subscription could not be deleted."),
        (confirm, "Subscription could not be confirmed."),
        (of_subscription(Method::GET, "/attempts"), "Attempts could not be listed."),
        (of_subscription(Method::POST, "/pause"), "Subscription could not be paused."),
        (of_subscription(Method::POST, "/resume"), "Subscription could not be resumed."),
        (redeliver, "Redelivery could not be started."),
        (at(Method::DELETE, "/tasks/x"), "Task could not be stopped or removed."),
        (as_admin(api.get("/v2/tokens")), "Tokens could not be listed."),
        (as_admin(api.post("/v2/tokens", &json!({"name": "n", "roles": ["worker"]}))), "Token could not be created."),
        (as_admin(api.get(&token)), "Token could not be retrieved."),
        (as_admin(api.delete(&token)), "Token could not be deleted."),
        (as_admin(api.delete("/v2/tokens/x")), "Token could not be deleted."),
    ]
}

/// Rows 4.1-16, 4.2-10, 4.3-6, 4.5-5, 4.7-9, 6.1-20, 6.2-11, 6.5-13, 6.6-9, 7.1-17, 8.3-16.
#[tokio::test]
async fn every_operation_describes_the_outage() {
    let redis = RedisServer::start();
    let options = [
        ("SUKKAL_ADMIN_MODE", "true"),
        ("SUKKAL_AUTH__STRATEGIES", "none,tokens"),
        ("SUKKAL_POOLING__ENABLED", "true"),
    ];
    let sukkal = Sukkal::start_with(&redis.url(), &options);
    redis.kill();
    let server = Arc::new(Server { sukkal, redis: Arc::new(redis) });
    let api = Project::of(&server, "p");

    let answers = requests(&api).into_iter().map(|(request, failure)| async move { (send(request).await, failure) });

    for (answer, failure) in join_all(answers).await {
        let description = answer.refusal(503, UNAVAILABLE);
        assert_eq!(description, format!("{failure} Please try again in a few seconds."));
        assert_eq!(answer.header("retry-after"), Some("1"), "{answer:?}");
    }
}
