//! Which pool a new queue gets.

use std::collections::BTreeSet;

use futures::StreamExt;
use futures::stream;
use reqwest::Method;
use serde_json::json;

use super::{Deployment, PROJECT, admin, answered, list, post, unavailable};

const PROJECTS: usize = 1_000;
const QUEUES_PER_PROJECT: usize = 3;
const CONCURRENT: usize = 32;

#[tokio::test]
async fn new_queues_are_spread_by_weights_and_flavors() {
    let deployment = Deployment::start(&[3, 1, 0]).await;
    let server = deployment.serve_with(&[("SUKKAL_POOLING__VIRTUAL_POOL", "false")]);
    let api = server.project(PROJECT);
    let location = |queue: &str| deployment.pools_of(PROJECT, queue).concat();

    let mut found = BTreeSet::new();
    for number in 0..100 {
        post(&api, &format!("q{number}"), "m").await;
        found.insert(location(&format!("q{number}")));
    }
    assert_eq!(found, BTreeSet::from(["a".to_owned(), "b".to_owned()]));

    answered(admin(&server, Method::PUT, "flavors/slow").json(&json!({"pool_list": ["c"]})), 201).await;
    unavailable(api.put("/v2/queues/slow").json(&json!({"_flavor": "slow"}))).await;
    answered(admin(&server, Method::PATCH, "pools/c").json(&json!({"weight": 1})), 200).await;
    answered(api.put("/v2/queues/slow").json(&json!({"_flavor": "slow"})), 201).await;
    assert_eq!(location("slow"), "c");
}

#[tokio::test]
async fn a_queue_without_a_pool_is_in_the_virtual_pool_or_refused() {
    let deployment = Deployment::start(&[0]).await;
    let with = deployment.serve_with(&[("SUKKAL_POOLING__VIRTUAL_POOL", "true")]);
    let without = deployment.serve_with(&[("SUKKAL_POOLING__VIRTUAL_POOL", "false")]);

    unavailable(without.project(PROJECT).put("/v2/queues/q")).await;
    post(&with.project(PROJECT), "q", "m").await;

    assert_eq!(deployment.pools_of(PROJECT, "q"), Vec::<&str>::new());
    // The processes share the queue, although one of them would not create it.
    assert_eq!(list(&without.project(PROJECT), "q").await["messages"][0]["body"], "m");
}

#[tokio::test]
async fn a_thousand_projects_list_and_count_exactly_their_queues() {
    let deployment = Deployment::start(&[1, 1, 1]).await;
    let servers = [deployment.serve(), deployment.serve()];
    let names: Vec<String> = (0..QUEUES_PER_PROJECT).map(|number| format!("q{number}")).collect();
    let names = &names;

    let create = |project: usize| {
        let api = servers[project % servers.len()].project(&format!("p{project}"));
        async move {
            for name in names {
                answered(api.put(&format!("/v2/queues/{name}")), 201).await;
            }
        }
    };
    stream::iter((0..PROJECTS).map(create)).buffer_unordered(CONCURRENT).collect::<()>().await;
    let check = |project: usize| {
        let api = servers[(project + 1) % servers.len()].project(&format!("p{project}"));
        async move {
            let page = answered(api.get("/v2/queues?with_count=true"), 200).await;
            let listed: Vec<_> = page["queues"].as_array().unwrap().iter().map(|queue| &queue["name"]).collect();
            assert_eq!(listed, names.iter().collect::<Vec<_>>());
            assert_eq!(page["count"], QUEUES_PER_PROJECT);
        }
    };
    stream::iter((0..PROJECTS).map(check)).buffer_unordered(CONCURRENT).collect::<()>().await;

    let keys = deployment.pools.iter().map(|pool| pool.command(&["KEYS", "sukkal:*:queue"]).items().len());
    let keys: Vec<usize> = keys.collect();
    assert_eq!(keys.iter().sum::<usize>(), PROJECTS * QUEUES_PER_PROJECT);
    assert!(keys.iter().all(|keys| *keys > 0), "{keys:?}");
}
