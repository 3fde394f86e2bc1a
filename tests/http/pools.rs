//! `/v2/pools` (fact sheet 12.1).

use std::sync::Arc;

use futures::future::join_all;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Answer, CONFLICT, INVALID_BODY, INVALID_REQUEST, KEY, KEY_OPTION, NO_ROUTE, NOT_FOUND};
use super::{answered, refused, send};
use support::ports::free_port;
use support::redis::RedisServer;
use support::secrets;
use support::sukkal::{Api, Sukkal};

const POOLING: (&str, &str) = ("SUKKAL_POOLING__ENABLED", "true");
const ADMIN_MODE: (&str, &str) = ("SUKKAL_ADMIN_MODE", "true");

/// A server with pooling over a store of its own, and a Redis for its pools. Its requests have the
/// role `admin`.
pub(super) struct Pooled {
    api: Api,
    pub(super) pools: Arc<RedisServer>,
    _sukkal: Sukkal,
}

impl Pooled {
    pub(super) fn start() -> Self {
        Self::start_with("memory:", &[])
    }

    fn start_with(store: &str, environment: &[(&str, &str)]) -> Self {
        let sukkal = Sukkal::start_with(store, &[&[POOLING, ADMIN_MODE], environment].concat());
        // All tests share the pools, so each has its own project.
        let project = Uuid::new_v4().to_string();
        Self { api: sukkal.project(&project), pools: RedisServer::shared(), _sukkal: sukkal }
    }

    pub(super) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.api.request(method, &format!("/v2/{path}")).header("X-Roles", "admin")
    }

    pub(super) fn get(&self, path: &str) -> RequestBuilder {
        self.request(Method::GET, path)
    }

    pub(super) fn put(&self, path: &str, body: &Value) -> RequestBuilder {
        self.request(Method::PUT, path).json(body)
    }

    pub(super) fn patch(&self, path: &str, body: &Value) -> RequestBuilder {
        self.request(Method::PATCH, path).json(body)
    }

    pub(super) fn delete(&self, path: &str) -> RequestBuilder {
        self.request(Method::DELETE, path)
    }

    /// Returns the address of a pool with this label.
    fn uri(&self, label: &str) -> String {
        format!("{}/{label}", self.pools.url())
    }

    /// Creates pools with these names.
    pub(super) async fn create(&self, names: &[&str]) {
        for name in names {
            let body = json!({"uri": self.uri(name), "weight": 1});
            answered(self.put(&format!("pools/{name}"), &body), 201).await;
        }
    }
}

fn names(page: &Answer) -> Vec<String> {
    let pools = page.json()["pools"].as_array().unwrap().clone();
    pools.iter().map(|pool| pool["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_pool_is_created_shown_replaced_and_deleted() {
    let server = Pooled::start();
    let name = Uuid::new_v4().to_string();
    let path = format!("pools/{name}");
    let body = json!({"uri": server.uri("a"), "weight": 100, "flavor": "my-flavor", "options": {"k": [1]}});

    let created = answered(server.put(&path, &body), 201).await;
    assert_eq!((created.header("location"), &*created.text), (Some(&*format!("/v2/{path}")), ""));
    let mut shown = json!({
        "name": name, "uri": server.uri("a"), "weight": 100, "flavor": "my-flavor", "href": format!("/v2/{path}"),
    });
    assert_eq!(answered(server.get(&path), 200).await.json(), shown);
    shown["options"] = json!({"k": [1]});
    assert_eq!(answered(server.get(&format!("{path}?detailed=true")), 200).await.json(), shown);

    answered(server.put(&path, &json!({"uri": server.uri("a"), "weight": 0})), 201).await;
    let replaced = answered(server.get(&format!("{path}?detailed=true")), 200).await.json();
    assert_eq!((&replaced["weight"], &replaced["flavor"], &replaced["options"]), (&json!(0), &json!(null), &json!({})));

    for _ in 0..2 {
        let deleted = answered(server.delete(&path), 204).await;
        assert_eq!(deleted.header("sukkal-warning"), None);
    }
    let text = refused(server.get(&path), 404, NOT_FOUND).await;
    assert_eq!(text, format!("Pool {name} does not exist"));
}

#[tokio::test]
async fn a_patch_changes_the_fields_that_it_names() {
    let server = Pooled::start();
    server.create(&["a"]).await;

    let body = json!({"weight": 7, "flavor": "f", "options": {"x": 1}, "location": 100});
    let changed = answered(server.patch("pools/a", &body), 200).await.json();
    assert_eq!((&changed["weight"], &changed["flavor"], changed.get("options")), (&json!(7), &json!("f"), None));
    let changed = answered(server.patch("pools/a", &json!({"flavor": ""})), 200).await.json();
    assert_eq!(
        (&changed["weight"], &changed["flavor"], &changed["uri"]),
        (&json!(7), &json!(null), &json!(server.uri("a")))
    );
    let changed = answered(server.patch("pools/a", &json!({"uri": server.uri("b")})), 200).await.json();
    assert_eq!((&changed["weight"], &changed["uri"]), (&json!(7), &json!(server.uri("b"))));
    let text = refused(server.patch("pools/none", &json!({"weight": 1})), 404, NOT_FOUND).await;
    assert_eq!(text, "Pool none does not exist");
}

#[tokio::test]
async fn a_list_has_pages_by_name() {
    let server = Pooled::start();
    assert_eq!(answered(server.get("pools"), 200).await.json(), json!({"links": [], "pools": []}));
    server.create(&["b", "a", "c"]).await;

    let page = answered(server.get("pools?limit=2&detailed=True"), 200).await;
    assert_eq!(names(&page), ["a", "b"]);
    assert_eq!(page.header("content-location"), Some("/v2/pools?limit=2&detailed=True"));
    assert_eq!(page.json()["pools"][0]["options"], json!({}));
    let link = page.json()["links"][0]["href"].as_str().unwrap().to_owned();
    assert_eq!(link, "/v2/pools?limit=2&detailed=true&marker=b");
    let page = answered(server.get("pools?marker=b&limit=2"), 200).await;
    assert_eq!(names(&page), ["c"]);
    assert_eq!(page.json()["pools"][0].get("options"), None);
    assert_eq!(page.json()["links"][0]["href"], "/v2/pools?marker=c&limit=2");
    for limit in ["0", "21"] {
        refused(server.get(&format!("pools?limit={limit}")), 400, INVALID_REQUEST).await;
    }
}

#[tokio::test]
async fn a_body_that_is_not_valid_changes_nothing() {
    let server = Pooled::start();
    server.create(&["a"]).await;
    let uri = server.uri("b");
    for (field, value, text) in [
        ("weight", json!(-1), "weight is -1; it must be an integer from 0 to 4294967295"),
        ("weight", json!(1_u64 << 32), "weight is 4294967296; it must be an integer from 0 to 4294967295"),
        ("weight", json!("big"), "weight is \"big\"; it must be an integer from 0 to 4294967295"),
        ("weight", json!(true), "weight is true; it must be an integer from 0 to 4294967295"),
        ("options", json!("wee"), "The value of the \"options\" field must be a object."),
        ("options", json!({"k": "x".repeat(1_017)}), "options has 1025 bytes; it must have at most 1024"),
        ("flavor", json!(null), "The value of the \"flavor\" field must be a string."),
        (
            "flavor",
            json!("é"),
            "a flavor name must have 1 to 64 characters of A-Z a-z 0-9 _ - . and must not be . or ..",
        ),
        ("uri", json!([]), "The value of the \"uri\" field must be a string."),
        (
            "uri",
            json!("localhost:27017"),
            "the uri of a pool must begin with redis://, rediss://, redis-cluster:// or redis-sentinel://",
        ),
    ] {
        let mut body = json!({"uri": uri, "weight": 1});
        body[field] = value.clone();
        assert_eq!(refused(server.put("pools/b", &body), 400, INVALID_BODY).await, text);
        assert_eq!(refused(server.patch("pools/a", &json!({field: value})), 400, INVALID_BODY).await, text);
    }
    for (body, text) in [
        (json!({"uri": uri}), "Missing \"weight\" field."),
        (json!({"weight": 1}), "Missing \"uri\" field."),
        (
            json!({"uri": uri, "weight": 1, "group": "g"}),
            "the body has the field \"group\"; it accepts only weight, uri, flavor, options",
        ),
        (json!([]), "Document type not supported."),
    ] {
        assert_eq!(refused(server.put("pools/b", &body), 400, INVALID_BODY).await, text);
    }
    let text = refused(server.patch("pools/a", &json!({"location": 1})), 400, INVALID_BODY).await;
    assert_eq!(text, "One of `uri`, `weight`, `flavor`, or `options` needs to be specified");
    let text = refused(server.put("pools/a%20b", &json!({"uri": uri, "weight": 1})), 400, INVALID_REQUEST).await;
    assert_eq!(text, "a pool name must have 1 to 64 characters of A-Z a-z 0-9 _ - . and must not be . or ..");

    assert_eq!(names(&answered(server.get("pools"), 200).await), ["a"]);
    assert_eq!(answered(server.get("pools/a"), 200).await.json()["weight"], 1);
}

#[tokio::test]
async fn the_uri_of_a_pool_leads_to_a_store_that_no_other_pool_has() {
    let redis = RedisServer::start();
    let server = Pooled::start_with(&redis.url(), &[]);
    server.create(&["a"]).await;
    let put = |uri: String| server.put("pools/b", &json!({"uri": uri, "weight": 1}));

    let away = format!("redis://127.0.0.1:{}", free_port());
    let text = refused(put(away.clone()), 400, INVALID_BODY).await;
    assert!(text.starts_with(&format!("cannot connect to {away}: ")), "{text}");
    refused(server.patch("pools/a", &json!({"uri": away})), 400, INVALID_BODY).await;
    let text = refused(put(server.uri("a")), 409, CONFLICT).await;
    assert_eq!(text, format!("pool a has the uri {}, too", server.uri("a")));
    let text = refused(put(format!("{}/x", redis.url())), 400, INVALID_BODY).await;
    assert!(text.contains("is the database of the management store"), "{text}");

    // The URI is free again.
    answered(server.delete("pools/a"), 204).await;
    answered(put(server.uri("a")), 201).await;
}

#[tokio::test]
async fn the_password_of_a_pool_is_neither_shown_nor_stored() {
    let (redis, protected) = (RedisServer::start(), RedisServer::start());
    protected.command(&["CONFIG", "SET", "requirepass", "hush-hush"]);
    secrets::note("hush-hush");
    let address = format!("127.0.0.1:{}", protected.port());
    let uri = format!("redis://:hush-hush@{address}/1");
    let server = Pooled::start_with(&redis.url(), &[(KEY_OPTION, KEY)]);

    answered(server.put("pools/a", &json!({"uri": uri, "weight": 1})), 201).await;

    let masked = format!("redis://***@{address}/1");
    assert_eq!(answered(server.get("pools/a"), 200).await.json()["uri"], masked);
    let changed = answered(server.patch("pools/a", &json!({"weight": 2})), 200).await.json();
    assert_eq!(changed["uri"], masked);
    let stored = redis.command(&["HGET", "sukkal:{pools}", "list"]);
    assert!(stored.as_text().contains(&masked) && !stored.as_text().contains("hush"), "{stored:?}");

    let text = refused(server.patch("pools/a", &json!({"uri": masked})), 400, INVALID_BODY).await;
    assert_eq!(text, format!("uri is {masked}, as it is shown; replace *** with the user and the password"));
    let wrong = uri.replace("hush-hush", "wrong-one");
    let text = refused(server.patch("pools/a", &json!({"uri": wrong})), 400, INVALID_BODY).await;
    assert!(text.starts_with(&format!("cannot connect to {masked}: ")) && !text.contains("wrong-one"), "{text}");

    let without_key = Pooled::start();
    let text = refused(without_key.put("pools/a", &json!({"uri": uri, "weight": 1})), 400, INVALID_BODY).await;
    assert!(text.ends_with("set message_encryption_key in [transport]"), "{text}");
}

#[tokio::test]
async fn concurrent_changes_are_all_kept() {
    let server = Pooled::start();
    let names: Vec<String> = (0..10).map(|number| format!("pool-{number}")).collect();

    let changes = names
        .iter()
        .map(|name| send(server.put(&format!("pools/{name}"), &json!({"uri": server.uri(name), "weight": 1}))));
    for answer in join_all(changes).await {
        assert_eq!(answer.status, 201, "{answer:?}");
    }

    assert_eq!(self::names(&answered(server.get("pools?limit=20"), 200).await), names);
}

#[tokio::test]
async fn there_are_no_pools_without_admin_mode_and_pooling() {
    for environment in [POOLING, ADMIN_MODE] {
        let sukkal = Sukkal::start_with("memory:", &[environment]);
        for path in ["/v2/pools", "/v2/pools/p", "/v2/flavors", "/v2/flavors/f"] {
            refused(sukkal.project("p").get(path).header("X-Roles", "admin"), 404, NO_ROUTE).await;
        }
    }
}
