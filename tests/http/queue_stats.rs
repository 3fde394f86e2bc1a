//! Fact sheet 4.6: the statistics of a queue. Counts of claimed messages are in
//! `claimed_messages.rs`.

use serde_json::{Value, json};

use super::{answered, new_project, text};

/// Rows 4-2, 4.6-1, 4.6-9.
#[tokio::test]
async fn stats_of_an_empty_queue_have_no_oldest_and_newest() {
    let api = new_project();
    let nothing = json!({"messages": {"claimed": 0, "free": 0, "total": 0}});

    assert_eq!(answered(api.get("/v2/queues/q/stats"), 200).await.json(), nothing);
    assert_eq!(api.snapshot().await, json!([]));
    api.create("q", &json!({})).await;
    assert_eq!(answered(api.get("/v2/queues/q/stats"), 200).await.json(), nothing);
}

/// Rows 4.6-2, 4.6-3, 4.6-5.
#[tokio::test]
async fn stats_count_messages_and_show_the_oldest_and_the_newest() {
    let api = new_project();
    let ids = api.post_bodies("q", &vec![json!(1); 30]).await;
    answered(api.delete(&format!("/v2/queues/q/messages/{}", ids[0])), 204).await;

    let stats = answered(api.get("/v2/queues/q/stats"), 200).await.json()["messages"].take();

    assert_eq!((&stats["claimed"], &stats["free"], &stats["total"]), (&json!(0), &json!(29), &json!(29)));
    for (key, id) in [("oldest", &ids[1]), ("newest", &ids[29])] {
        let message: &Value = &stats[key];
        assert_eq!(message["href"], format!("/v2/queues/q/messages/{id}"));
        assert!(message["age"].is_u64());
        let created = text(&message["created"]);
        assert!(created.len() == "2026-11-20T03:44:04Z".len() && created.ends_with('Z'), "{created}");
    }
}
