//! Fact sheet 3: the versions, the home document, ping and health checks.
//!
//! | row | test |
//! |---|---|
//! | 3.1 `/` 300 | `the_root_lists_the_api_versions` |
//! | 3.2 `/v2/`, also `/v2` (3.1) | `the_home_document_lists_the_resources` |
//! | 3.3 ping | `ping_returns_204_without_a_body`, `probes_need_no_headers` |
//! | 3.3 health 404, 403, 200 | `the_health_route_is_for_operators_only` |

use std::sync::Arc;

use reqwest::Method;
use serde_json::{Value, json};

use support::redis::RedisServer;
use support::sukkal::{MOVABLE_CLOCK, Sukkal};

use super::{NO_ROUTE, Project, Server, answered, new_project, pick, refused, text};

#[tokio::test]
async fn the_root_lists_the_api_versions() {
    let api = new_project();

    let root = answered(api.bare(Method::GET, "/"), 300).await;

    assert_eq!(root.header("content-type"), Some("application/json"));
    let versions = json!({"versions": [{
        "id": "2", "status": "CURRENT", "updated": "2014-9-24T04:06:47Z",
        "media-types": [{"base": "application/json", "type": "application/vnd.openstack.messaging-v2+json"}],
        "links": [{"href": "/v2/", "rel": "self"}],
    }]});
    assert_eq!(root.json(), versions);
}

#[tokio::test]
async fn the_home_document_lists_the_resources() {
    let api = new_project();

    let home = answered(api.get("/v2/"), 200).await;
    let without_slash = answered(api.get("/v2"), 200).await;

    assert_eq!(without_slash.text, home.text);
    assert_eq!(home.header("content-type"), Some("application/json-home"));
    assert_eq!(home.header("cache-control"), Some("max-age=86400"));
    let resources = &home.json()["resources"];
    let queues = json!({
        "href-template": "/v2/queues{?marker,limit,detailed}",
        "href-vars": {"marker": "param/marker", "limit": "param/queue_limit", "detailed": "param/detailed"},
        "hints": {"allow": ["GET"], "formats": {"application/json": {}}},
    });
    assert_eq!(resources["rel/queues"], queues);
    assert_eq!(resources["rel/queue"]["hints"]["allow"], json!(["GET", "PUT", "DELETE", "PATCH"]));
    assert_eq!(resources["rel/post_messages"]["hints"]["accept-post"], json!(["application/json"]));
    let ping = json!({
        "href-template": "/v2/ping",
        "hints": {"allow": ["GET"], "formats": {"application/json": {}}},
    });
    assert_eq!(resources["rel/ping"], ping);
    let claims = json!({
        "href-template": "/v2/queues/{queue_name}/claims{?limit}",
        "href-vars": {"queue_name": "param/queue_name", "limit": "param/claim_limit"},
        "hints": {"allow": ["POST"], "formats": {"application/json": {}}, "accept-post": ["application/json"]},
    });
    assert_eq!(resources["rel/post_claim"], claims);
    let share = json!({
        "href-template": "/v2/queues/{queue_name}/share",
        "href-vars": {"queue_name": "param/queue_name"},
        "hints": {"allow": ["POST"], "formats": {"application/json": {}}, "accept-post": ["application/json"]},
    });
    assert_eq!(resources["rel/queue_share"], share);
    for (relation, method) in [("rel/claim", "GET"), ("rel/patch_claim", "PATCH"), ("rel/delete_claim", "DELETE")] {
        assert_eq!(resources[relation]["href-template"], "/v2/queues/{queue_name}/claims/{claim_id}");
        assert_eq!(resources[relation]["hints"]["allow"], json!([method]));
    }
    let subscriptions = json!({
        "href-template": "/v2/queues/{queue_name}/subscriptions{?marker,limit}",
        "href-vars": {"queue_name": "param/queue_name", "marker": "param/marker", "limit": "param/subscription_limit"},
        "hints": {"allow": ["GET"], "formats": {"application/json": {}}},
    });
    assert_eq!(resources["rel/subscriptions_get"], subscriptions);
    assert_eq!(resources["rel/subscriptions_post"]["hints"]["accept-post"], json!(["application/json"]));
    assert_eq!(resources["rel/subscription"]["hints"]["allow"], json!(["GET", "DELETE"]));
    assert_eq!(resources["rel/subscription_patch"]["hints"]["allow"], json!(["PATCH"]));
    assert_eq!(resources["rel/health"], Value::Null);
    for (relation, resource) in resources.as_object().unwrap() {
        assert!(text(&resource["href-template"]).starts_with("/v2/"), "{relation}");
    }
}

#[tokio::test]
async fn every_resource_of_the_home_document_exists() {
    let api = new_project();

    let home = answered(api.get("/v2/"), 200).await.json();

    for (relation, resource) in home["resources"].as_object().unwrap() {
        let template = text(&resource["href-template"]).split("{?").next().unwrap();
        let path = template.replace("{queue_name}", "q").replace("{message_id}", "m").replace("{claim_id}", "c");
        let path = path.replace("{subscriptions_id}", "s").replace("{topic_name}", "t");
        let options = answered(api.request(Method::OPTIONS, &path), 200).await;
        for method in resource["hints"]["allow"].as_array().unwrap() {
            let allowed = options.header("allow").unwrap().split(", ").any(|name| name == method);
            assert!(allowed, "{relation}: {method} {path}");
        }
    }
}

#[tokio::test]
async fn ping_returns_204_without_a_body() {
    let api = new_project();

    for method in [Method::GET, Method::HEAD] {
        let pong = answered(api.request(method, "/v2/ping"), 204).await;
        assert_eq!(pong.text, "");
    }
}

#[tokio::test]
async fn probes_need_no_headers() {
    let api = new_project();

    for path in ["/healthz", "/readyz"] {
        let probe = answered(api.bare(Method::GET, path), 204).await;
        assert_eq!(probe.text, "");
    }
}

#[tokio::test]
async fn the_health_route_is_for_operators_only() {
    let api = new_project();
    let server = Arc::new(Server::start(&[("SUKKAL_ADMIN_MODE", "true")]));
    let operator = Project::of(&server, "operator");

    let hint = refused(api.get("/v2/health").header("X-Roles", "admin"), 404, NO_ROUTE).await;
    assert!(hint.ends_with("This one exists only if the operator has set admin_mode."), "{hint}");
    for roles in [None, Some(""), Some("member"), Some("administrator,member"), Some("not admin")] {
        let request = operator.get("/v2/health");
        let request = roles.into_iter().fold(request, |request, roles| request.header("X-Roles", roles));

        let description = refused(request, 403, "Not authorized").await;

        let expected = "You are not authorized to complete this action. The rule health:get requires role:admin.";
        assert_eq!(description, expected);
    }
    for roles in ["admin", "member, Admin"] {
        let health = answered(operator.get("/v2/health").header("X-Roles", roles), 200).await.json();

        assert_eq!(health["storage_reachable"], true);
        for operation in [
            "create_queue",
            "post_messages",
            "claim_messages",
            "list_messages",
            "delete_messages",
            "delete_claim",
            "bulk_delete_messages",
            "delete_queue",
        ] {
            let status = &health["operation_status"][operation];
            assert_eq!(status["succeeded"], true, "{operation}");
            assert!(status["seconds"].is_f64(), "{operation}");
            assert_eq!(status["ref"], Value::Null, "{operation}");
        }
    }
    let home = answered(operator.get("/v2/"), 200).await.json();
    assert_eq!(home["resources"]["rel/health"]["href"], "/v2/health");
    assert_eq!(operator.snapshot().await, json!([]));
}

#[tokio::test]
async fn a_health_check_deletes_the_old_queues_of_earlier_checks() {
    let redis = Arc::new(RedisServer::start());
    let sukkal = Sukkal::start_with(&redis.url(), &[("SUKKAL_ADMIN_MODE", "true"), MOVABLE_CLOCK]);
    let server = Arc::new(Server { sukkal, redis });
    let operator = Project::of(&server, "operator");
    let left = Project::of(&server, "sukkal-health");
    let [old, new] = ["old", "new"];
    let clock_of_register = "sukkal:{sukkal-health}:clock";
    server.redis.command(&["SET", clock_of_register, "-120000000"]);
    left.set_clock_of(old, -120).await;
    left.create(old, &json!({})).await;
    server.redis.command(&["DEL", clock_of_register]);
    left.post_bodies(old, &[json!(1)]).await;
    left.create(new, &json!({})).await;

    answered(operator.get("/v2/health").header("X-Roles", "admin"), 200).await;

    let names = answered(left.get("/v2/queues"), 200).await.json();
    let names = pick(&names["queues"], "name");
    assert!(!names.contains(&json!(old)) && names.contains(&json!(new)), "{names:?}");
}
