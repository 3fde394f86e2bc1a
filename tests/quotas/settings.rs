//! The quotas that operators set for single projects, and those of the configuration.

use reqwest::Method;
use serde_json::json;
use tokio::time::Instant;
use uuid::Uuid;

use super::{ADMIN_MODE, PROPAGATION_MAX, answered, quotas_of, send, server, set_quotas};
use support::cluster::RedisCluster;
use support::redis::RedisServer;
use support::sukkal::{MOVABLE_CLOCK, Sukkal};
use support::waiting::until;

#[tokio::test]
async fn quotas_take_effect_on_all_processes_within_five_seconds() {
    let (redis, cluster) = (RedisServer::shared_movable(), RedisCluster::shared_movable());
    tokio::join!(change_quotas(redis.url()), change_quotas(cluster.url()));
}

async fn change_quotas(store: String) {
    let [one, two] = [(); 2].map(|()| Sukkal::start_with(&store, &[ADMIN_MODE, MOVABLE_CLOCK]));
    let project = format!("p-{}", Uuid::new_v4());
    let limit_on_two = || async {
        answered(two.project(&project).get("/v2/usage"), 200).await.json()["limits"]["queues"].as_u64().unwrap()
    };
    for limit in [5, 6, 0] {
        let began = Instant::now();
        set_quotas(&one, &project, &json!({ "queues": limit })).await;
        let usage = answered(one.project(&project).get("/v2/usage"), 200).await.json();
        assert_eq!(usage["limits"]["queues"], limit, "the process itself knows them at once");
        until("the other process knows the quota", async || limit_on_two().await == limit).await;
        assert!(began.elapsed() < PROPAGATION_MAX);
    }
}

#[tokio::test]
async fn quotas_are_replaced_removed_and_kept_when_the_service_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("embedded:{}", folder.path().display());
    let environment = [ADMIN_MODE, ("SUKKAL_QUOTAS__QUEUES", "9")];
    let mut first = Sukkal::start_with(&store, &environment);

    let set = set_quotas(&first, "p", &json!({"queues": 5, "subscriptions": 7})).await;
    assert_eq!(set["project"], "p");
    assert_eq!(set["quotas"], json!({"queues": 5, "subscriptions": 7}));
    assert_eq!((&set["limits"]["queues"], &set["limits"]["requests_per_second"]), (&json!(5), &json!(0)));
    let replaced = set_quotas(&first, "p", &json!({"subscriptions": 8})).await;
    assert_eq!((&replaced["quotas"], &replaced["limits"]["queues"]), (&json!({"subscriptions": 8}), &json!(9)));
    first.terminate();
    first.wait();

    let second = Sukkal::start_with(&store, &environment);
    assert_eq!(answered(quotas_of(&second, "p", Method::GET), 200).await.json(), replaced);
    answered(quotas_of(&second, "p", Method::DELETE), 204).await;
    assert_eq!(answered(quotas_of(&second, "p", Method::GET), 200).await.json()["quotas"], json!({}));
    assert_eq!(answered(quotas_of(&second, "other", Method::GET), 200).await.json()["limits"]["queues"], 9);
}

#[tokio::test]
async fn quotas_are_for_operators_only() {
    let server = server(&[]);
    let without_admin_mode = Sukkal::start("memory:");
    for method in [Method::GET, Method::PUT, Method::DELETE] {
        let owner = server.project("p").request(method.clone(), "/v2/quotas").body("{}");
        assert_eq!(send(owner).await.status, 403, "{method}");
        assert_eq!(send(quotas_of(&without_admin_mode, "p", method).body("{}")).await.status, 404);
    }
    assert_eq!(answered(quotas_of(&server, "p", Method::GET), 200).await.json()["quotas"], json!({}));
}

#[tokio::test]
async fn a_file_has_quotas_of_projects_and_the_store_overrides_it() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "[p]\nqueues = 1\nsubscriptions = 2\n").unwrap();
    let path = file.path().to_str().unwrap();
    let server = server(&[("SUKKAL_QUOTAS__PROJECTS_FILE", path), ("SUKKAL_QUOTAS__QUEUES", "9")]);
    let limits = async |project: &str| {
        let limits = answered(quotas_of(&server, project, Method::GET), 200).await.json()["limits"].take();
        [limits["queues"].as_u64().unwrap(), limits["subscriptions"].as_u64().unwrap()]
    };

    assert_eq!([limits("p").await, limits("q").await], [[1, 2], [9, 0]]);
    set_quotas(&server, "p", &json!({"queues": 0})).await;
    assert_eq!(limits("p").await, [0, 2]);
}
