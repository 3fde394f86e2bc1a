//! Fact sheet 8.1 to 8.4: subscriptions, without their deliveries.

use std::sync::{Arc, Mutex, Weak};

use reqwest::{Method, RequestBuilder};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{
    Answer, CONFLICT, INVALID_BODY, INVALID_PARAMETER, INVALID_REQUEST, NOT_FOUND, Project, Server, answered, follow,
    pick, refused, text,
};
use support::redis::shared_instance;

pub(super) const PATH: &str = "/v2/queues/q/subscriptions";
pub(super) const URI: &str = "http://127.0.0.1:9/hook";
/// Allows subscribers on this machine.
pub(super) const LOOPBACK: [(&str, &str); 2] =
    [("SUKKAL_PUSH__ALLOWED_NETWORKS", "127.0.0.0/8"), ("SUKKAL_PUSH__ALLOWED_PORTS", "1-65535")];

/// Returns a new project on a server that allows subscribers on this machine.
pub(super) fn new_project() -> Project {
    static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());

    Project::of(&shared_instance(&SHARED, || Server::start_movable(&LOOPBACK)), &format!("project-{}", Uuid::new_v4()))
}

impl Project {
    /// Requests a subscription of the queue `q`.
    pub(super) fn subscribe(&self, fields: &Value) -> RequestBuilder {
        self.post(PATH, fields)
    }

    /// Creates a subscription of the queue `q`, and returns its path.
    pub(super) async fn subscription(&self, fields: &Value) -> String {
        path_of(&answered(self.subscribe(fields), 201).await)
    }

    pub(super) async fn show(&self, path: &str) -> Value {
        answered(self.get(path), 200).await.json()
    }

    pub(super) fn change(&self, path: &str, fields: &Value) -> RequestBuilder {
        self.request(Method::PATCH, path).json(fields)
    }
}

fn path_of(created: &Answer) -> String {
    format!("{PATH}/{}", text(&created.json()["subscription_id"]))
}

fn uris(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("http://127.0.0.1:9/{number}")).collect()
}

/// Rows 8.1-1, 8.3-1, 8.3-13, 8.4-1.
#[tokio::test]
async fn a_new_subscription_has_the_seven_keys_of_its_document() {
    let api = new_project();

    let created = answered(api.subscribe(&json!({"subscriber": URI, "unknown": 1})), 201).await;

    assert_eq!(created.header("location"), Some(PATH));
    let id = created.json()["subscription_id"].clone();
    let document = json!({
        "id": id, "source": "q", "subscriber": URI, "ttl": 3600, "age": 0, "options": {}, "confirmed": false,
    });
    let mut shown = api.show(&path_of(&created)).await;
    assert!(shown["age"].as_u64().unwrap() < 60);
    shown["age"] = json!(0);
    assert_eq!(shown, document);
    let keys: Vec<&String> = shown.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["id", "source", "subscriber", "ttl", "age", "options", "confirmed"]);
}

#[tokio::test]
async fn a_secret_is_shown_only_when_the_subscription_is_created() {
    let api = new_project();
    let given = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let fields = json!({"subscriber": URI, "secret": given, "options": {"ordered": true}});

    let created = answered(api.subscribe(&fields), 201).await;
    let keys: Vec<String> = created.json().as_object().unwrap().keys().cloned().collect();
    assert_eq!((keys, &created.json()["secret"]), (vec!["subscription_id".into(), "secret".into()], &json!(given)));
    let repeated = answered(api.subscribe(&fields), 201).await;

    assert_eq!(repeated.json(), json!({"subscription_id": created.json()["subscription_id"]}));
    for path in [path_of(&created), format!("{}?with_delivery=true", path_of(&created)), PATH.to_owned()] {
        let shown = answered(api.get(&path), 200).await.text;
        assert!(shown.contains("ordered") && !shown.contains(&given[6..]), "{shown}");
    }
    assert!(!api.server.sukkal.log().iter().any(|line| line.contains(&given[6..])));
}

#[tokio::test]
async fn a_secret_is_made_for_the_algorithm_that_the_options_name() {
    let api = new_project();
    let create = |path: &str, options: Value| {
        answered(api.subscribe(&json!({"subscriber": format!("{URI}/{path}"), "options": options})), 201)
    };

    let hmac = create("1", json!({})).await.json();
    let ed25519 = create("2", json!({"signature": "v1a"})).await.json();

    assert!(text(&hmac["secret"]).starts_with("whsec_") && hmac.get("public_key").is_none(), "{hmac}");
    assert!(text(&ed25519["secret"]).starts_with("whsk_"), "{ed25519}");
    assert!(text(&ed25519["public_key"]).starts_with("whpk_"), "{ed25519}");
}

/// Rows 8.3-4, 8.3-12, 8.3-14, 8.3-15.
#[tokio::test]
async fn a_subscriber_is_unique_in_its_queue_until_it_is_confirmed() {
    let api = new_project();
    let fields = json!({"subscriber": URI, "ttl": 60, "options": {"a": 1}});
    let path = api.subscription(&fields).await;

    let again = api.subscription(&json!({"subscriber": URI, "ttl": 600})).await;
    assert_eq!(again, path);
    assert_eq!((&api.show(&path).await["ttl"], &api.show(&path).await["options"]), (&json!(60), &json!({"a": 1})));
    answered(api.put(&format!("{path}/confirm")).json(&json!({"confirmed": true})), 204).await;

    let conflict = answered(api.subscribe(&fields), 409).await;
    let description = conflict.refusal(409, CONFLICT);
    assert_eq!(conflict.header("location"), Some(PATH));
    assert!(description.starts_with("Such subscription already exists."), "{description}");
    answered(api.post("/v2/queues/other/subscriptions", &fields), 201).await;
    let other = Project::of(&api.server, &format!("project-{}", Uuid::new_v4()));
    answered(other.subscribe(&fields), 201).await;
    // This is the same URL, but another string.
    let spelled_differently = URI.replacen("http", "HTTP", 1);
    assert_ne!(api.subscription(&json!({"subscriber": spelled_differently})).await, path);
}

/// Row 8.3-2.
#[tokio::test]
async fn the_queue_is_created_unless_the_subscription_is_refused() {
    let api = new_project();
    let queues = async || answered(api.get("/v2/queues"), 200).await.json()["queues"].clone();

    for fields in [
        json!({"subscriber": "mailto:a@b.example"}),
        json!({"subscriber": URI, "ttl": 0}),
        json!({"subscriber": URI, "options": {"dead_letter_queue": "q"}}),
        json!({"subscriber": URI, "secret": "hush"}),
    ] {
        refused(api.subscribe(&fields), 400, INVALID_REQUEST).await;
        assert_eq!(queues().await, json!([]), "{fields}");
    }

    api.subscription(&json!({"subscriber": URI})).await;
    assert_eq!(pick(&queues().await, "name"), ["q"]);
}

/// Rows 8.2-1, 8.2-2, 8.2-3, 8.2-4, 8.2-5.
#[tokio::test]
async fn a_list_has_pages_in_the_order_of_the_ids() {
    let api = new_project();
    assert_eq!(answered(api.get(PATH), 200).await.json(), json!({"subscriptions": [], "links": []}));
    for uri in uris(12) {
        api.subscription(&json!({"subscriber": uri})).await;
    }

    let first = answered(api.get(PATH), 200).await.json();
    let all = follow(&api, &format!("{PATH}?limit=5"), "subscriptions").await;

    let ids: Vec<&str> = all.iter().map(|subscription| text(&subscription["id"])).collect();
    assert!(ids.len() == 12 && ids.is_sorted(), "{ids:?}");
    assert_eq!(pick(&first["subscriptions"], "id"), ids[..10]);
    assert_eq!(first["links"], json!([{"rel": "next", "href": format!("{PATH}?marker={}", ids[9])}]));
    let page_of_three = answered(api.get(&format!("{PATH}?limit=3")), 200).await.json();
    assert_eq!(page_of_three["links"][0]["href"], format!("{PATH}?limit=3&marker={}", ids[2]));
    for limit in ["0", "21"] {
        refused(api.get(&format!("{PATH}?limit={limit}")), 400, INVALID_REQUEST).await;
    }
    for query in ["limit=x", "marker=x"] {
        refused(api.get(&format!("{PATH}?{query}")), 400, INVALID_PARAMETER).await;
    }
}

/// Rows 8.1-2, 8.4-2, 8.4-3, 8.4-9, 8.4-10, 8.4-11.
#[tokio::test]
async fn a_change_replaces_what_it_names_and_a_new_ttl_starts_now() {
    let api = new_project();
    let path = api.subscription(&json!({"subscriber": URI, "ttl": 120, "options": {"a": 1, "b": 2}})).await;
    answered(api.put(&format!("{path}/confirm")).json(&json!({"confirmed": true})), 204).await;
    api.set_clock_ahead(60).await;
    assert!(api.show(&path).await["age"].as_u64().unwrap() >= 60);

    let changed = answered(api.change(&path, &json!({"options": {"c": 3}, "ttl": null, "unknown": 1})), 204).await;
    assert_eq!((changed.header("location"), changed.text.as_str()), (Some(path.as_str()), ""));
    let shown = api.show(&path).await;
    assert!(shown["age"].as_u64().unwrap() >= 60, "{shown}");
    assert_eq!((&shown["options"], &shown["ttl"], &shown["confirmed"]), (&json!({"c": 3}), &json!(120), &json!(true)));

    answered(api.change(&path, &json!({"ttl": 300, "subscriber": format!("{URI}/2")})), 204).await;
    let shown = api.show(&path).await;
    assert!(shown["age"].as_u64().unwrap() < 60, "{shown}");
    assert_eq!((&shown["subscriber"], &shown["ttl"]), (&json!(format!("{URI}/2")), &json!(300)));
    assert_eq!((&shown["options"], &shown["confirmed"]), (&json!({"c": 3}), &json!(true)));
    // With its first time to live, the subscription would have expired after 120 seconds.
    api.set_clock_ahead(200).await;
    assert!(api.show(&path).await["age"].as_u64().unwrap() >= 140);
}

/// Rows 8.4-4, 8.4-5, 8.4-6, 8.4-7, 8.4-8.
#[tokio::test]
async fn a_change_is_refused_if_it_names_nothing_or_another_subscriber() {
    let api = new_project();
    let path = api.subscription(&json!({"subscriber": URI})).await;
    api.subscription(&json!({"subscriber": format!("{URI}/2")})).await;
    let missing = format!("{PATH}/{}", Uuid::new_v4());

    for body in ["", "{}"] {
        let description = refused(api.request(Method::PATCH, &path).body(body), 400, INVALID_REQUEST).await;
        assert_eq!(description, "No subscription to create.");
    }
    for fields in [json!({"unknown": 1}), json!({"ttl": null})] {
        refused(api.change(&path, &fields), 400, "Unable to update subscription").await;
    }
    assert_eq!(refused(api.change(&path, &json!([])), 400, INVALID_REQUEST).await, "Subscriptions must be a dict.");
    refused(api.request(Method::PATCH, &path).body("x"), 400, INVALID_BODY).await;
    refused(api.change(&path, &json!({"subscriber": format!("{URI}/2")})), 409, CONFLICT).await;
    refused(api.change(&missing, &json!({"ttl": 1})), 400, INVALID_REQUEST).await;
    refused(api.change(&missing, &json!({"ttl": 60})), 404, NOT_FOUND).await;
    assert_eq!(api.show(&path).await["subscriber"], URI);
}

#[tokio::test]
async fn a_change_to_another_algorithm_needs_a_new_key() {
    let api = new_project();
    let path = api.subscription(&json!({"subscriber": URI})).await;
    let seed = "whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=";

    let description = refused(api.change(&path, &json!({"options": {"signature": "v1a"}})), 400, INVALID_REQUEST).await;
    assert!(description.contains("send a new key as secret"), "{description}");
    refused(api.change(&path, &json!({"secret": seed})), 400, INVALID_REQUEST).await;
    answered(api.change(&path, &json!({"secret": seed, "options": {"signature": "v1a"}})), 204).await;
    answered(api.change(&path, &json!({"options": {"signature": "v1a", "a": 1}})), 204).await;
}

/// Rows 8.4-1, 8.4-7, 8.4-13, 8.4-17.
#[tokio::test]
async fn an_unknown_subscription_is_not_found_but_can_be_deleted() {
    let api = new_project();
    let known = api.subscription(&json!({"subscriber": URI})).await;
    answered(api.delete(&known), 204).await;
    let unknown = format!("{PATH}/{}", Uuid::new_v4());

    for path in [known, unknown, format!("{PATH}/x")] {
        let id = path.rsplit('/').next().unwrap();
        let description = refused(api.get(&path), 404, NOT_FOUND).await;
        assert_eq!(description, format!("Subscription {id} does not exist"));
        refused(api.change(&path, &json!({"ttl": 60})), 404, NOT_FOUND).await;
        refused(api.put(&format!("{path}/confirm")).json(&json!({"confirmed": true})), 404, NOT_FOUND).await;
        refused(api.get(&format!("{path}/attempts")), 404, NOT_FOUND).await;
        for verb in ["pause", "resume"] {
            refused(api.request(Method::POST, &format!("{path}/{verb}")), 404, NOT_FOUND).await;
        }
        refused(api.post(&format!("{path}/redeliver"), &json!({"since": "now"})), 404, NOT_FOUND).await;
        answered(api.delete(&path), 204).await;
    }
}

/// Rows 4.7-1, 4.7-2.
#[tokio::test]
async fn subscriptions_end_with_their_queue_and_with_a_purge() {
    let api = new_project();
    let all = || async { follow(&api, &format!("{PATH}?limit=20"), "subscriptions").await.len() };
    let purge = |types: Value| api.post("/v2/queues/q/purge", &json!({ "resource_types": types }));
    let subscribe = || async {
        for uri in uris(12) {
            api.subscription(&json!({"subscriber": uri})).await;
        }
    };

    subscribe().await;
    answered(purge(json!(["messages"])), 204).await;
    assert_eq!(all().await, 12);
    answered(purge(json!(["subscriptions"])), 204).await;
    assert_eq!(all().await, 0);
    subscribe().await;
    answered(api.request(Method::POST, "/v2/queues/q/purge"), 204).await;
    assert_eq!(all().await, 0);
    subscribe().await;
    answered(api.delete("/v2/queues/q"), 204).await;
    answered(api.put("/v2/queues/q"), 201).await;
    assert_eq!(all().await, 0);
}

#[tokio::test]
async fn a_queue_has_at_most_the_configured_number_of_subscriptions() {
    let environment = [&LOOPBACK[..], &[("SUKKAL_PUSH__MAX_SUBSCRIPTIONS_PER_QUEUE", "2")]].concat();
    let api = Project::of(&Arc::new(Server::start(&environment)), &format!("project-{}", Uuid::new_v4()));
    for uri in uris(2) {
        api.subscription(&json!({"subscriber": uri})).await;
    }

    let description = refused(api.subscribe(&json!({"subscriber": URI})), 400, INVALID_REQUEST).await;

    assert_eq!(description, "the queue q has 2 subscriptions, which is the maximum; delete one of them first");
}

/// Rows 8.4-1, 8.4-13.
#[tokio::test]
async fn a_subscription_belongs_to_its_queue_and_project() {
    let api = new_project();
    let path = api.subscription(&json!({"subscriber": URI})).await;
    let other = Project::of(&api.server, &format!("project-{}", Uuid::new_v4()));
    let in_other_queue = path.replace("/q/", "/r/");

    refused(other.get(&path), 404, NOT_FOUND).await;
    answered(other.delete(&path), 204).await;
    refused(api.get(&in_other_queue), 404, NOT_FOUND).await;
    answered(api.delete(&in_other_queue), 204).await;
    assert_eq!(api.show(&path).await["options"], Value::Object(Map::new()));
}
