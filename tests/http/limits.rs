//! Fact sheet 2: the configured limits and defaults. Each test starts its own server.
//!
//! | row | test |
//! |---|---|
//! | `max_queue_metadata`, `max_messages_post_size` 400 | `body_sizes_are_configurable` |
//! | `max_messages_per_post` 400 | `the_number_of_messages_per_post_is_configurable` |
//! | `max_queues_per_page`, `max_messages_per_page`, `max_messages_per_claim_or_pop` 400 | `page_sizes_are_configurable` |
//! | `default_message_ttl`, `max_message_ttl`, `default_message_delay`, `max_message_delay` 400 | `message_ttls_and_delays_are_configurable` |
//! | `default_claim_ttl`, `default_claim_grace`, `max_claim_ttl`, `max_claim_grace` 400 | `claim_terms_are_configurable` |
//! | `message_delete_with_claim_id` | `bulk_deletion_can_be_configured_to_require_claim_ids` |
//! | `client_id_uuid_safe`, `min_length_client_id`, `max_length_client_id` 400 | `client_ids_can_be_configured_to_be_any_text` |
//! | `admin_mode` | `discovery.rs` |

use std::sync::Arc;

use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    INVALID_BODY, INVALID_REQUEST, MESSAGES, PATCH_TYPE, Project, Server, answered, follow, ids, pick, refused,
};

fn project_with(options: &[(&str, &str)]) -> Project {
    let options: Vec<(String, &str)> =
        options.iter().map(|(name, value)| (format!("SUKKAL_TRANSPORT__{}", name.to_uppercase()), *value)).collect();
    let environment: Vec<(&str, &str)> = options.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    Project::of(&Arc::new(Server::start(&environment)), &Uuid::new_v4().to_string())
}

fn posting(count: usize) -> Value {
    json!({"messages": vec![json!({"body": 1}); count]})
}

/// Rows 4.2-4, 4.3-4, 4.4-1, 6.1-6.
#[tokio::test]
async fn body_sizes_are_configurable() {
    let api = project_with(&[("max_queue_metadata", "20"), ("max_messages_post_size", "400000")]);
    let large = json!({"messages": [{"body": "x".repeat(390_000)}]});
    let too_large = json!({"messages": [{"body": "x".repeat(400_000)}]});

    answered(api.put("/v2/queues/q").body(r#"{"k": "0123456789a"}"#), 201).await;
    refused(api.put("/v2/queues/r").body(r#"{"k": "0123456789abc"}"#), 400, INVALID_REQUEST).await;
    let patch = api.request(reqwest::Method::PATCH, "/v2/queues/q").header("Content-Type", PATCH_TYPE);
    refused(patch.body("[                    ]"), 400, INVALID_BODY).await;
    answered(api.post(MESSAGES, &large), 201).await;
    refused(api.post(MESSAGES, &too_large), 400, INVALID_REQUEST).await;
    let metadata = answered(api.get("/v2/queues/q"), 200).await.json();
    assert_eq!(metadata["_max_messages_post_size"], 400_000);
}

/// Row 6.1-3.
#[tokio::test]
async fn the_number_of_messages_per_post_is_configurable() {
    let options = [("SUKKAL_TRANSPORT__MAX_MESSAGES_PER_POST", "2"), ("SUKKAL_ADMIN_MODE", "true")];
    let api = Project::of(&Arc::new(Server::start(&options)), &Uuid::new_v4().to_string());

    answered(api.post(MESSAGES, &posting(2)), 201).await;
    let description = refused(api.post(MESSAGES, &posting(3)), 400, INVALID_REQUEST).await;

    assert!(description.contains("3 messages") && description.contains("between 1 and 2"), "{description}");
    assert_eq!(api.stats("q").await["total"], 2);
    let health = answered(api.get("/v2/health").header("X-Roles", "admin"), 200).await.json();
    assert_eq!(health["operation_status"]["post_messages"]["succeeded"], true, "{health}");
}

/// Rows 4.1-2, 6.2-2, 6.3-1, 6.5-2, 6.5-7, 7.1-1.
#[tokio::test]
async fn page_sizes_are_configurable() {
    let options =
        [("max_queues_per_page", "2"), ("max_messages_per_page", "30"), ("max_messages_per_claim_or_pop", "3")];
    let api = project_with(&options);
    let ids = api.post_bodies("q", &vec![json!(1); 40]).await;
    for name in ["r", "s"] {
        answered(api.put(&format!("/v2/queues/{name}")), 201).await;
    }

    let queues = answered(api.get("/v2/queues"), 200).await.json();
    assert_eq!(pick(&queues["queues"], "name"), ["q", "r"]);
    refused(api.get("/v2/queues?limit=3"), 400, INVALID_REQUEST).await;
    let messages = answered(api.get(&format!("{MESSAGES}?echo=true&limit=30")), 200).await.json();
    assert_eq!(messages["messages"].as_array().unwrap().len(), 30);
    refused(api.get(&format!("{MESSAGES}?limit=31")), 400, INVALID_REQUEST).await;
    answered(api.get(&format!("{MESSAGES}?ids={}", ids[..30].join(","))), 200).await;
    refused(api.get(&format!("{MESSAGES}?ids={}", ids[..31].join(","))), 400, INVALID_REQUEST).await;
    refused(api.delete(&format!("{MESSAGES}?ids={}", ids[..31].join(","))), 400, INVALID_REQUEST).await;
    refused(api.delete(&format!("{MESSAGES}?pop=4")), 400, INVALID_REQUEST).await;
    refused(api.post("/v2/queues/q/claims?limit=4", &json!({})), 400, INVALID_REQUEST).await;
    let claimed = answered(api.post("/v2/queues/q/claims", &json!({})), 201).await;
    assert_eq!(pick(&claimed.json()["messages"], "id"), ids[..3]);
    answered(api.delete(claimed.header("location").unwrap()), 204).await;
    answered(api.delete(&format!("{MESSAGES}?pop=3")), 200).await;
    answered(api.delete(&format!("{MESSAGES}?ids={}", ids[3..33].join(","))), 204).await;
    assert_eq!(follow(&api, &format!("{MESSAGES}?echo=true"), "messages").await.len(), 7);
}

/// Rows 4.3-4, 5-4, 5-8, 5-11, 6.1-17.
#[tokio::test]
async fn message_ttls_and_delays_are_configurable() {
    let api = project_with(&[
        ("default_message_ttl", "70"),
        ("max_message_ttl", "80"),
        ("default_message_delay", "5"),
        ("max_message_delay", "10"),
    ]);

    answered(api.post(MESSAGES, &posting(1)), 201).await;
    answered(api.post(MESSAGES, &json!({"messages": [{"body": 1, "ttl": 80}]})), 201).await;
    refused(api.post(MESSAGES, &json!({"messages": [{"body": 1, "ttl": 81}]})), 400, INVALID_REQUEST).await;
    for metadata in [
        json!({"_default_message_ttl": 81}),
        json!({"_dead_letter_queue_messages_ttl": 81}),
        json!({"_default_message_delay": 11}),
    ] {
        refused(api.put("/v2/queues/r").json(&metadata), 400, INVALID_REQUEST).await;
    }

    let messages = follow(&api, &format!("{MESSAGES}?echo=true"), "messages").await;
    assert_eq!(pick(&messages.into(), "ttl"), [70, 80]);
    let metadata = answered(api.get("/v2/queues/q"), 200).await.json();
    assert_eq!((&metadata["_default_message_ttl"], &metadata["_default_message_delay"]), (&json!(70), &json!(5)));
}

/// Rows 7.1-3, 7.1-6, 7.3-2.
#[tokio::test]
async fn claim_terms_are_configurable() {
    let api = project_with(&[
        ("default_claim_ttl", "70"),
        ("default_claim_grace", "80"),
        ("max_claim_ttl", "90"),
        ("max_claim_grace", "100"),
    ]);
    api.create("q", &json!({"_default_message_ttl": 60})).await;
    api.post_bodies("q", &[json!(1), json!(2)]).await;

    let claimed = api.claim(1).await;
    assert_eq!(claimed.messages[0]["ttl"], 70 + 80);
    assert_eq!(answered(api.get(&claimed.path), 200).await.json()["ttl"], 70);
    for (term, status) in
        [(json!({"ttl": 90, "grace": 100}), 204), (json!({"ttl": 91}), 400), (json!({"grace": 101}), 400)]
    {
        answered(api.request(reqwest::Method::PATCH, &claimed.path).json(&term), status).await;
        let made = if status == 204 { 201 } else { 400 };
        answered(api.post("/v2/queues/q/claims", &term), made).await;
    }
    assert_eq!(answered(api.get(&claimed.path), 200).await.json()["ttl"], 90);
}

/// Row 6.5-5.
#[tokio::test]
async fn bulk_deletion_can_be_configured_to_require_claim_ids() {
    let api = project_with(&[("message_delete_with_claim_id", "true")]);
    let ids = api.post_bodies("q", &(0..6).map(Value::from).collect::<Vec<_>>()).await;
    let (one, two) = (api.claim(2).await, api.claim(2).await);
    let left = async || {
        pick(&follow(&api, &format!("{MESSAGES}?echo=true&include_claimed=true"), "messages").await.into(), "body")
    };
    let both = format!("{},{}", one.id, two.id);

    for query in [
        format!("ids={}", ids[0]),
        format!("ids={}&claim_ids=", ids[0]),
        format!("pop=1&claim_ids={}", one.id),
        format!("ids={}&pop=1&claim_ids={}", ids[0], one.id),
    ] {
        refused(api.delete(&format!("{MESSAGES}?{query}")), 400, INVALID_REQUEST).await;
    }
    for (ids, claims) in [
        (format!("{},{}", ids[0], ids[2]), one.id.as_str()),
        (format!("{},{}", ids[0], ids[4]), both.as_str()),
        (ids[0].clone(), &two.id),
        (ids[0].clone(), "x"),
        (ids[4].clone(), "9f8c3c1e-0000-4000-8000-000000000000"),
    ] {
        refused(api.delete(&format!("{MESSAGES}?ids={ids}&claim_ids={claims}")), 400, "Unable to delete").await;
    }
    assert_eq!(left().await, [0, 1, 2, 3, 4, 5]);

    answered(api.delete(&format!("{MESSAGES}?ids={},nothing,{}&claim_ids=x,{both}", ids[0], ids[3])), 204).await;
    assert_eq!(left().await, [1, 2, 4, 5]);
    answered(api.delete(&format!("{MESSAGES}?ids={}&claim_ids={}", ids[0], one.id)), 204).await;
    let popped = answered(api.delete(&format!("{MESSAGES}?pop=20")), 200).await.json();
    assert_eq!(pick(&popped["messages"], "body"), [4, 5]);
}

/// Messages of topics have no claims.
#[tokio::test]
async fn bulk_deletion_in_a_topic_needs_no_claim_ids() {
    let api = project_with(&[("message_delete_with_claim_id", "true")]);
    let path = "/v2/topics/q/messages";
    let messages: Vec<Value> = (0..3).map(|body| json!({ "body": body, "ttl": 60 })).collect();
    let posted = answered(api.post(path, &json!({ "messages": messages })), 201).await.json();
    let ids = ids(&posted);

    answered(api.delete(&format!("{path}?ids={},{}", ids[0], ids[2])), 204).await;

    assert_eq!(pick(&follow(&api, &format!("{path}?echo=true"), "messages").await.into(), "body"), [1]);
}

#[tokio::test]
async fn client_ids_can_be_configured_to_be_any_text() {
    let options = [("client_id_uuid_safe", "off"), ("min_length_client_id", "3"), ("max_length_client_id", "5")];
    let api = project_with(&options);

    for client in ["", "ab", "abcdef", support::sukkal::CLIENT] {
        refused(api.client(client).get("/v2/queues"), 400, "Wrong UUID value").await;
    }
    for client in ["abc", "a b c", "ABCDE"] {
        answered(api.client(client).get("/v2/queues"), 200).await;
    }
    answered(api.client("abc").post(MESSAGES, &posting(1)), 201).await;
    let own = answered(api.client("abc").get(MESSAGES), 200).await.json();
    assert_eq!(own["messages"], json!([]));
    let others = answered(api.client("ABC").get(MESSAGES), 200).await.json();
    assert_eq!(others["messages"].as_array().unwrap().len(), 1);
}
