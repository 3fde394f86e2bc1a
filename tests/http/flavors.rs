//! `/v2/flavors`, and queues that name a flavor (fact sheet 12.2 and 12.3).

use reqwest::Method;
use serde_json::{Value, json};

use super::pools::Pooled;
use super::warnings::warnings_of;
use super::{INVALID_BODY, INVALID_REQUEST, NOT_FOUND, PATCH_TYPE, answered, refused};

const CAPABILITIES: [&str; 4] = ["FIFO", "CLAIMS", "AOD", "HIGH_THROUGHPUT"];

async fn create(server: &Pooled, name: &str, pools: &[&str]) {
    let path = format!("flavors/{name}");
    let created = answered(server.put(&path, &json!({"pool_list": pools})), 201).await;
    assert_eq!(created.header("location"), Some(&*format!("/v2/{path}")));
}

async fn pools_of(server: &Pooled, flavor: &str) -> Value {
    answered(server.get(&format!("flavors/{flavor}")), 200).await.json()["pool_list"].take()
}

#[tokio::test]
async fn a_flavor_has_the_pools_of_its_last_change() {
    let server = Pooled::start();
    server.create(&["a", "b", "c"]).await;

    create(&server, "fast", &["b", "a"]).await;
    let shown = json!({
        "name": "fast", "capabilities": CAPABILITIES, "pool_list": ["a", "b"], "href": "/v2/flavors/fast",
    });
    assert_eq!(answered(server.get("flavors/fast"), 200).await.json(), shown);
    assert_eq!(answered(server.get("pools/a"), 200).await.json()["flavor"], "fast");
    let changed = answered(server.patch("flavors/fast", &json!({"pool_list": ["c"], "x": 1})), 200).await.json();
    assert_eq!((&changed["pool_list"], &changed["capabilities"]), (&json!(["c"]), &json!(CAPABILITIES)));
    assert_eq!(answered(server.get("pools/a"), 200).await.json()["flavor"], json!(null));
    create(&server, "fast", &["b"]).await;
    assert_eq!(pools_of(&server, "fast").await, json!(["b"]));

    for _ in 0..2 {
        answered(server.delete("flavors/fast"), 204).await;
    }
    assert_eq!(answered(server.get("pools/b"), 200).await.json()["flavor"], json!(null));
    assert_eq!(refused(server.get("flavors/fast"), 404, NOT_FOUND).await, "Flavor fast does not exist");
}

#[tokio::test]
async fn a_list_has_pages_of_the_flavors_of_the_project() {
    let server = Pooled::start();
    assert_eq!(answered(server.get("flavors"), 200).await.json(), json!({"links": [], "flavors": []}));
    server.create(&["a", "b"]).await;
    for (flavor, pool) in [("y", "a"), ("x", "b"), ("z", "b")] {
        create(&server, flavor, &[pool]).await;
    }

    let page = answered(server.get("flavors?limit=2&detailed=true"), 200).await.json();
    let x = json!({"name": "x", "href": "/v2/flavors/x", "capabilities": CAPABILITIES});
    let y = json!({"name": "y", "href": "/v2/flavors/y", "pool_list": ["a"], "capabilities": CAPABILITIES});
    assert_eq!(page["flavors"], json!([x, y]));
    assert_eq!(page["links"][0]["href"], "/v2/flavors?limit=2&marker=y&detailed=true");
    let page = answered(server.get("flavors?marker=y&limit=2&detailed=false"), 200).await.json();
    assert_eq!(page["flavors"], json!([{"name": "z", "href": "/v2/flavors/z", "pool_list": ["b"]}]));
    assert_eq!(page["links"][0]["href"], "/v2/flavors?marker=z&limit=2&detailed=false");
    let other = answered(server.get("flavors?project_id=other"), 200).await.json();
    assert_eq!(other["flavors"], json!([]));
    refused(server.get("flavors?limit=0"), 400, INVALID_REQUEST).await;
}

#[tokio::test]
async fn projects_share_the_pools_of_flavors_with_the_same_name() {
    let server = Pooled::start();
    server.create(&["a"]).await;
    for project in ["one", "two"] {
        let path = format!("flavors/fast?project_id={project}");
        answered(server.put(&path, &json!({"pool_list": ["a"]})), 201).await;
    }

    answered(server.delete("flavors/fast?project_id=one"), 204).await;

    assert_eq!(pools_of(&server, "fast?project_id=two").await, json!(["a"]));
}

#[tokio::test]
async fn a_flavor_needs_pools_that_exist() {
    let server = Pooled::start();
    server.create(&["a"]).await;
    create(&server, "fast", &["a"]).await;

    for (body, title, text) in [
        (json!({}), INVALID_BODY, "Missing \"pool_list\" field."),
        (json!({"pool_list": 1}), INVALID_BODY, "The value of the \"pool_list\" field must be a array."),
        (json!({"pool_list": [1]}), INVALID_BODY, "\"pool_list\" must have the names of pools"),
        (
            json!({"pool_list": ["a"], "pool": "a"}),
            INVALID_BODY,
            "the body has the field \"pool\"; it accepts only pool_list, capabilities",
        ),
        (
            json!({"pool_list": ["a"], "capabilities": []}),
            INVALID_BODY,
            "The value of the \"capabilities\" field must be a object.",
        ),
        (json!({"pool_list": []}), "Unable to create", "Bad Request: \"pool_list\" is empty; name at least one pool"),
        (
            json!({"pool_list": ["a", "none"]}),
            "Unable to create",
            "Flavor f could not be created, error:Pool none does not exist",
        ),
    ] {
        assert_eq!(refused(server.put("flavors/f", &body), 400, title).await, text);
    }
    let none = json!({"pool_list": ["none"]});
    let text = refused(server.patch("flavors/fast", &none), 400, "updatefail").await;
    assert_eq!(text, "Flavor fast cant be updated, error:Pool none does not exist");
    refused(server.patch("flavors/fast", &json!({"pool_list": []})), 400, "Unable to create").await;
    let text = refused(server.patch("flavors/fast", &json!({"x": 1})), 400, INVALID_BODY).await;
    assert_eq!(text, "`pool_list` needs to be specified");
    refused(server.patch("flavors/none", &json!({"pool_list": ["a"]})), 404, NOT_FOUND).await;

    assert_eq!(pools_of(&server, "fast").await, json!(["a"]));
}

#[tokio::test]
async fn the_last_pool_of_a_flavor_cannot_be_deleted() {
    let server = Pooled::start();
    server.create(&["a", "b"]).await;
    create(&server, "fast", &["a", "b"]).await;
    answered(server.delete("pools/a"), 204).await;

    let text = refused(server.delete("pools/b"), 403, "Unable to delete").await;
    assert_eq!(text, "This pool is used by flavors fast; It cannot be deleted.");
    answered(server.delete("flavors/fast"), 204).await;
    answered(server.delete("pools/b"), 204).await;
}

#[tokio::test]
async fn a_queue_can_name_only_a_flavor_that_has_pools() {
    let server = Pooled::start();
    server.create(&["a"]).await;
    create(&server, "empty", &["a"]).await;
    create(&server, "fast", &["a"]).await;
    let put = |flavor: Value| server.put("queues/q", &json!({"_flavor": flavor}));
    let patch = |flavor: &str| {
        let patch = json!([{"op": "add", "path": "/metadata/_flavor", "value": flavor}]);
        let request = server.request(Method::PATCH, "queues/q").header("Content-Type", PATCH_TYPE);
        request.body(patch.to_string())
    };

    assert_eq!(refused(put(json!("none")), 400, INVALID_REQUEST).await, "Flavor none does not exist");
    assert_eq!(refused(put(json!("empty")), 400, INVALID_REQUEST).await, "Flavor empty has no pools");
    assert_eq!(refused(put(json!(1)), 400, INVALID_REQUEST).await, "_flavor must be the name of a flavor");
    assert_eq!(answered(server.get("queues"), 200).await.json()["queues"], json!([]));
    let created = answered(put(json!("fast")), 201).await;
    assert_eq!(created.header("sukkal-warning"), None);
    assert_eq!(refused(patch("none"), 404, NOT_FOUND).await, "Flavor none does not exist");
    answered(patch("fast"), 200).await;
    assert_eq!(answered(server.get("queues/q"), 200).await.json()["_flavor"], "fast");
}

#[tokio::test]
async fn pools_and_flavors_that_lose_each_other_get_a_warning() {
    let server = Pooled::start();
    server.create(&["a", "b"]).await;
    let give = |flavor: &str, pool: &str| server.put(&format!("flavors/{flavor}"), &json!({"pool_list": [pool]}));
    let emptied = "a flavor has lost its last pool, so no queue can be created with it; give it another pool";
    let nowhere = "no project has the flavor of the pool, so the pool gets no new queues; create the flavor, or correct \
                   its name";
    let free = "a pool has no flavor now, so it gets new queues that have none";

    assert_eq!(warnings_of(give("fast", "a"), 201).await, [""; 0]);
    assert_eq!(warnings_of(give("slow", "a"), 201).await, [emptied]);
    assert_eq!(warnings_of(server.patch("pools/a", &json!({"flavor": "fats"})), 200).await, [emptied, nowhere]);
    assert_eq!(warnings_of(server.patch("pools/a", &json!({"flavor": "fast"})), 200).await, [""; 0]);
    let replaced = server.put("pools/a", &json!({"uri": format!("{}/a", server.pools.url()), "weight": 7}));
    assert_eq!(warnings_of(replaced, 201).await, [emptied, free]);
    answered(give("fast", "a"), 201).await;
    assert_eq!(warnings_of(server.delete("flavors/fast"), 204).await, [free]);
}

#[tokio::test]
async fn the_flavor_of_a_queue_that_exists_does_not_move_it() {
    let server = Pooled::start();
    server.create(&["a", "b"]).await;
    create(&server, "fast", &["a"]).await;
    create(&server, "slow", &["b"]).await;
    answered(server.put("queues/q", &json!({"_flavor": "fast"})), 201).await;
    let set = |key: &str, value: &str| {
        let operations = json!([{"op": "add", "path": format!("/metadata/{key}"), "value": value}]);
        server.request(Method::PATCH, "queues/q").header("Content-Type", PATCH_TYPE).body(operations.to_string())
    };

    let kept = "\"_flavor\" does not move the queue, which stays in its pool; an operator can move it";
    assert_eq!(warnings_of(set("_flavor", "slow"), 200).await, [kept]);
    answered(server.delete("flavors/slow"), 204).await;
    assert_eq!(warnings_of(set("colour", "red"), 200).await, [""; 0], "the flavor is not checked again");
}
