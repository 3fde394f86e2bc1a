//! Fact sheet 4.6: what a queue holds; claimed messages are counted in `claimed_messages.rs`.

use serde_json::{Value, json};

use super::{answered, tenant, text};

/// Rows 4-2, 4.6-1, 4.6-9.
#[tokio::test]
async fn a_queue_without_messages_has_no_ends() {
    let api = tenant();
    let nothing = json!({"messages": {"claimed": 0, "free": 0, "total": 0}});

    assert_eq!(answered(api.get("/v2/queues/q/stats"), 200).await.json(), nothing);
    assert_eq!(api.everything().await, json!([]));
    api.create("q", &json!({})).await;
    assert_eq!(answered(api.get("/v2/queues/q/stats"), 200).await.json(), nothing);
}

/// Rows 4.6-2, 4.6-3, 4.6-5.
#[tokio::test]
async fn stats_count_messages_and_show_the_first_and_the_last() {
    let api = tenant();
    let ids = api.post_bodies("q", &vec![json!(1); 30]).await;
    answered(api.delete(&format!("/v2/queues/q/messages/{}", ids[0])), 204).await;

    let stats = answered(api.get("/v2/queues/q/stats"), 200).await.json()["messages"].take();

    assert_eq!((&stats["claimed"], &stats["free"], &stats["total"]), (&json!(0), &json!(29), &json!(29)));
    for (place, id) in [("oldest", &ids[1]), ("newest", &ids[29])] {
        let message: &Value = &stats[place];
        assert_eq!(message["href"], format!("/v2/queues/q/messages/{id}"));
        assert!(message["age"].is_u64());
        let created = text(&message["created"]);
        assert!(created.len() == "2026-11-20T03:44:04Z".len() && created.ends_with('Z'), "{created}");
    }
}

/// Row 4.6-10.
#[tokio::test]
async fn stats_know_nothing_of_what_has_ended() {
    let api = tenant();
    let messages = json!({"messages": [{"body": 1, "ttl": 60}, {"body": 2, "ttl": 60}, {"body": 3}]});
    answered(api.post("/v2/queues/q/messages", &messages), 201).await;
    let total = async || answered(api.get("/v2/queues/q/stats"), 200).await.json()["messages"]["total"].clone();
    assert_eq!(total().await, 3);

    api.set_clock_ahead(61).await;
    assert_eq!(total().await, 1);
    api.claim(1).await;
    api.set_clock_ahead(3601).await;

    let nothing = json!({"messages": {"claimed": 0, "free": 0, "total": 0}});
    assert_eq!(answered(api.get("/v2/queues/q/stats"), 200).await.json(), nothing);
}
