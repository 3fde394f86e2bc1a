//! What operators of a service see and do: projects, quotas, tokens, pools, flavors and health.

use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use serde_json::json;
use tokio::time::timeout;

use super::service::{Service, Store, over_both_stores};
use super::session::with_tokens;
use super::{Console, PROJECT};
use crate::http::answered;
use support::redis::RedisServer;
use support::sukkal::{POOLING, Sukkal};

const REVOKED_MAX: Duration = Duration::from_secs(30);

over_both_stores! {
    an_operator_sees_projects_sets_quotas_and_hands_out_tokens,
    an_operator_sees_pools_and_flavors_and_deletes_a_pool,
}

async fn an_operator_sees_projects_sets_quotas_and_hands_out_tokens(store: Store) {
    let admin_token = sukkal_domain::Token::random().reveal().to_string();
    let options = [
        ("SUKKAL_ADMIN_MODE", "true"),
        ("SUKKAL_AUTH__STRATEGIES", "tokens"),
        ("SUKKAL_TOKENS__ADMIN_TOKEN", &*admin_token),
    ];
    let mut service = Service::start(store, &options);
    let shop = service.sukkal().project("shop");
    answered(shop.put("/v2/queues/orders").bearer_auth(&admin_token), 201).await;
    let console = Console::with_token(&service.url("/console#/operators"), &admin_token).await;

    console.click("Change").await;
    console.fill("Limits", r#"{"queues": 5}"#).await;
    console.click("Save").await;
    console.shows("Save: done.").await;
    let quotas = || service.api().get("/v2/quotas").bearer_auth(&admin_token);
    assert_eq!(answered(quotas(), 200).await.json()["quotas"], json!({"queues": 5}));
    console.click("Create a token").await;
    console.fill("What it is for", "worker of orders").await;
    console.fill("Roles", "reader, worker").await;
    console.click("Create").await;
    console.shows("It is never shown again.").await;
    let token = console.text_of("dialog pre.command").await;
    console.click("Close").await;

    service.stop();
    service.start_again();
    console.click("Queues").await;
    console.shows("There are no queues.").await;
    console.click("Operators").await;
    console.shows("worker of orders\tdemo\treader, worker").await;
    let queues = || service.api().get("/v2/queues").bearer_auth(&token);
    answered(queues(), 200).await;
    console.click_and_confirm("Revoke").await;
    console.shows("There are no tokens.").await;
    // A process looks a token up again after 2 seconds at the latest.
    let refused = async { while queues().send().await.unwrap().status() != 401 {} };
    timeout(REVOKED_MAX, refused).await.expect("the token is revoked");
    console.shows("queues\n5").await;
    console.click("Change").await;
    console.click_and_confirm("Remove all").await;
    console.shows("None are set").await;
    let quotas = service.api().get("/v2/quotas").bearer_auth(&admin_token);
    assert_eq!(answered(quotas, 200).await.json()["quotas"], json!({}));
    console.click("Test all operations").await;
    console.shows("storage_reachable").await;
    console.click("shop").await;
    console.shows("orders").await;
    assert_eq!(console.read("return location.hash").await, "#/queues");
}

async fn an_operator_sees_pools_and_flavors_and_deletes_a_pool(store: Store) {
    let pools = [RedisServer::start(), RedisServer::start()];
    let mut service = Service::start(store, &POOLING);
    for (name, pool) in ["fast", "spare"].iter().zip(&pools) {
        let place = json!({"uri": pool.url(), "weight": 70});
        answered(admin(service.sukkal(), Method::PUT, &format!("pools/{name}")).json(&place), 201).await;
    }
    answered(admin(service.sukkal(), Method::PUT, "flavors/quick").json(&json!({"pool_list": ["fast"]})), 201).await;
    let console = Console::of_operator(service.sukkal()).await;

    console.click("Queues").await;
    console.shows("There are no queues.").await;
    service.restart(&console).await;
    console.click("Operators").await;
    let row = format!("fast\t{}\t70\tquick", pools[0].url());
    console.shows(&row).await;
    console.shows("quick\tfast").await;
    console.click("Delete").await;
    console.shows("If it has queues, it keeps them").await;
    console.click("Yes, do it").await;
    console.shows("This pool is used by flavors quick").await;
    console.shows(&row).await;
    answered(admin(service.sukkal(), Method::DELETE, "flavors/quick"), 204).await;
    console.click("Retry").await;
    console.hides(&row).await;
    let left = answered(admin(service.sukkal(), Method::GET, "pools"), 200).await.json();
    assert_eq!((&left["pools"][0]["name"], left["pools"].as_array().unwrap().len()), (&json!("spare"), 1));
    answered(service.api().put("/v2/queues/orders"), 201).await;
    pools[1].kill();
    console.click("Attention").await;
    console.shows("Pool spare does not respond.").await;
    console.shows("its statistics are not available").await;
    console.click("Queues").await;
    console.shows("The statistics are not available.").await;
    console.shows("orders").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_admin_with_a_token_of_one_project_acts_on_the_project_that_is_shown() {
    let (sukkal, admin_token) = with_tokens();
    let [own, shop] = [PROJECT, "shop"].map(|project| sukkal.project(project));
    for api in [&own, &shop] {
        answered(api.put("/v2/queues/orders").bearer_auth(&admin_token), 201).await;
    }
    let bound = own.post("/v2/tokens", &json!({"name": "an admin of demo", "roles": ["admin"]}));
    let token = answered(bound.bearer_auth(&admin_token), 201).await.json()["token"].as_str().unwrap().to_owned();
    let console = Console::with_token(&sukkal.url("/console#/operators"), &token).await;

    console.click("shop").await;
    console.click("orders").await;
    console.click("Messages").await;
    console.click("Live tail").await;
    console.shows("Connected.").await;
    let message = json!({"messages": [{"body": "to the shop"}]});
    answered(shop.post("/v2/queues/orders/messages", &message).bearer_auth(&admin_token), 201).await;
    console.shows("to the shop").await;
    console.click("Settings").await;
    console.click_and_type("Delete", "orders").await;
    console.shows("There are no queues.").await;

    for (api, count) in [(&shop, 0), (&own, 1)] {
        let queues = answered(api.get("/v2/queues").bearer_auth(&admin_token), 200).await.json();
        assert_eq!(queues["queues"].as_array().unwrap().len(), count, "{queues}");
    }
    console.reload().await;
    console.shows("There are no queues.").await;
    console.go("#/queues/orders/settings").await;
    console.click("shop").await;
    console.click("Sign in").await;
    console.browser.wait_for("return location.hash === '#/'", json!([])).await;
    assert_eq!(console.text_of("#session button").await, PROJECT);
}

/// Returns a request of an operator to a path below `/v2/`.
fn admin(sukkal: &Sukkal, method: Method, path: &str) -> RequestBuilder {
    sukkal.project(PROJECT).request(method, &format!("/v2/{path}")).header("X-Roles", "admin")
}
