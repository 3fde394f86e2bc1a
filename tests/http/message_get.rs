//! Fact sheet 6.3 and 6.4: messages by id.

use serde_json::json;

use super::{INVALID_REQUEST, MESSAGES, NOT_FOUND, answered, new_project, pick, refused};

/// Row 6.4-1.
#[tokio::test]
async fn a_message_is_returned_as_one_document() {
    let api = new_project();
    let id = api.post_bodies("q", &[json!({"k": [1]})]).await.remove(0);

    let mut message = answered(api.get(&format!("{MESSAGES}/{id}")), 200).await.json();

    message["age"] = json!(0);
    assert_eq!(
        message,
        json!({"id": id, "href": format!("{MESSAGES}/{id}"), "ttl": 3600, "age": 0, "body": {"k": [1]}})
    );
}

/// Rows 6.4-2, 6.4-3.
#[tokio::test]
async fn an_unknown_or_malformed_id_is_not_found() {
    let api = new_project();
    let here = api.post_bodies("q", &[json!(1)]).await.remove(0);
    let elsewhere = api.post_bodies("other", &[json!(2)]).await.remove(0);
    let deleted = api.post_bodies("q", &[json!(3)]).await.remove(0);
    answered(api.delete(&format!("{MESSAGES}/{deleted}")), 204).await;

    let random = uuid::Uuid::new_v4().to_string();
    let upper = here.to_uppercase();
    let ids = [&elsewhere, &deleted, &random, &upper, "x", "%20", "%FF", "%", "%E6%BC%A2", "%00", &"9".repeat(5000)];
    for id in ids {
        refused(api.get(&format!("{MESSAGES}/{id}")), 404, NOT_FOUND).await;
    }
    refused(api.get(&format!("/v2/queues/missing/messages/{here}")), 404, NOT_FOUND).await;
}

/// Rows 6.2-9, 6.3-2, 6.4-3.
#[tokio::test]
async fn messages_are_returned_in_the_order_of_the_request() {
    let api = new_project();
    let ids = api.post_bodies("q", &[json!("a"), json!("b"), json!("c")]).await;
    let elsewhere = api.post_bodies("other", &[json!("x")]).await.remove(0);

    let query = format!("{},nothing,{},{elsewhere},{},{}", ids[2], ids[0], ids[2], ids[1]);
    let found = answered(api.get(&format!("{MESSAGES}?ids={query}&limit=1&marker={}", ids[2])), 200).await.json();

    assert_eq!(pick(&found["messages"], "body"), ["c", "a", "c", "b"]);
    assert_eq!(found.get("links"), None);
    assert_eq!(found["messages"][0]["href"], format!("{MESSAGES}/{}", ids[2]));
}

/// Row 6.3-5.
#[tokio::test]
async fn if_no_id_is_found_the_404_names_the_ids() {
    let api = new_project();
    api.post_bodies("q", &[json!(1)]).await;

    for queue in ["q", "missing"] {
        let request = api.get(&format!("/v2/queues/{queue}/messages?ids=a,b"));

        let description = refused(request, 404, NOT_FOUND).await;

        let beginning = format!("No messages with IDs: ['a', 'b'] found in the queue {queue} for project project-");
        assert!(description.starts_with(&beginning), "{description}");
    }
}

/// Row 6.3-1.
#[tokio::test]
async fn a_request_takes_up_to_20_ids() {
    let api = new_project();
    let id = api.post_bodies("q", &[json!(1)]).await.remove(0);
    let query = |count| vec![id.as_str(); count].join(",");

    let found = answered(api.get(&format!("{MESSAGES}?ids={}", query(20))), 200).await.json();
    assert_eq!(found["messages"].as_array().unwrap().len(), 20);
    refused(api.get(&format!("{MESSAGES}?ids={}", query(21))), 400, INVALID_REQUEST).await;
}
