//! The API below a path of nginx, as `docs/operating.md` shows it.

use serde_json::json;
use tokio::task::block_in_place;

use super::proxies::Proxy;
use super::read;
use crate::clients::run_script_at;
use crate::http::answered;
use support::redis::RedisServer;
use support::sukkal::Sukkal;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_clients_page_behind_nginx_at_a_path() {
    let redis = RedisServer::shared();
    let sukkal = Sukkal::start_with(&redis.url(), &[("SUKKAL_TRANSPORT__PUBLIC_PATH", "/mq")]);
    let guide = read("docs/operating.md");
    let location = guide.split("```nginx\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let proxy = Proxy::nginx_with(
        &format!("events {{}} http {{ client_body_temp_path .; server {{ listen 8080; {location} }} }}"),
        [sukkal.address(), sukkal.address()],
    );
    let api = proxy.api("behind-a-path");

    let versions = answered(api.get("/mq/"), 300).await.json();
    assert_eq!(versions["versions"][0]["links"], json!([{"href": "/mq/v2/", "rel": "self"}]));
    // Clients add the prefix of their URL to all other paths.
    let created = answered(api.put("/mq/v2/queues/q"), 201).await;
    assert_eq!(created.header("location"), Some("/v2/queues/q"));
    let page = answered(api.get("/mq/v2/queues?limit=1"), 200).await.json();
    assert_eq!((&page["queues"][0]["href"], &page["links"][0]["rel"]), (&json!("/v2/queues/q"), &json!("next")));
    assert!(page["links"][0]["href"].as_str().unwrap().starts_with("/v2/queues?"), "{page}");

    for script in ["feed.py", "sdk.py"] {
        let url = format!("{}/mq", proxy.url());
        block_in_place(|| run_script_at(&url, script, &format!("path-{script}")));
    }
}
