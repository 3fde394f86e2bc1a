//! Fact sheet 6.5 and 6.6: deleting unclaimed messages. Claimed ones are in `claimed_messages.rs`.

use serde_json::json;

use super::{INVALID_REQUEST, MESSAGES, answered, new_project, pick, refused};

/// Rows 6.6-1, 6.6-2.
#[tokio::test]
async fn deleting_a_deleted_message_succeeds() {
    let api = new_project();
    let ids = api.post_bodies("q", &[json!(1), json!(2)]).await;

    for _ in 0..2 {
        let deleted = answered(api.delete(&format!("{MESSAGES}/{}", ids[0])), 204).await;
        assert_eq!(deleted.text, "");
    }

    let listed = answered(api.get(&format!("{MESSAGES}?echo=true")), 200).await.json();
    assert_eq!(pick(&listed["messages"], "body"), [2]);
}

/// Rows 6.4-3, 6.5-3, 6.6-1.
#[tokio::test]
async fn an_unknown_or_malformed_id_deletes_nothing() {
    let api = new_project();
    let id = api.post_bodies("q", &[json!(1)]).await.remove(0);
    api.post_bodies("other", &[json!(2)]).await;
    let before = api.snapshot().await;

    let upper = id.to_uppercase();
    for id in [upper.as_str(), "x", "%FF", "%", "%20", "%E6%BC%A2", "9f8c3c1e-0000-4000-8000-000000000000"] {
        answered(api.delete(&format!("{MESSAGES}/{id}")), 204).await;
        answered(api.delete(&format!("{MESSAGES}?ids={id}")), 204).await;
    }
    answered(api.delete(&format!("/v2/queues/other/messages/{id}")), 204).await;
    answered(api.delete(&format!("/v2/queues/other/messages?ids={id}")), 204).await;
    answered(api.delete(&format!("/v2/queues/missing/messages/{id}")), 204).await;
    answered(api.delete(&format!("/v2/queues/missing/messages?ids={id}")), 204).await;

    assert_eq!(api.snapshot().await, before);
}

/// Row 6.5-3.
#[tokio::test]
async fn bulk_deletion_deletes_the_named_messages_and_no_others() {
    let api = new_project();
    let ids = api.post_bodies("q", &[json!(0), json!(1), json!(2), json!(3)]).await;

    let query = format!("ids={},nothing,{}&ids={}&claim_ids=x", ids[0], ids[2], ids[0]);
    let deleted = answered(api.delete(&format!("{MESSAGES}?{query}")), 204).await;

    assert_eq!(deleted.text, "");
    let listed = answered(api.get(&format!("{MESSAGES}?echo=true")), 200).await.json();
    assert_eq!(pick(&listed["messages"], "body"), [1, 3]);
}

/// Row 6.5-2.
#[tokio::test]
async fn a_deletion_takes_up_to_20_ids() {
    let api = new_project();
    let ids = api.post_bodies("q", &vec![json!(1); 21]).await;
    let before = api.snapshot().await;

    refused(api.delete(&format!("{MESSAGES}?ids={}", ids.join(","))), 400, INVALID_REQUEST).await;
    assert_eq!(api.snapshot().await, before);

    answered(api.delete(&format!("{MESSAGES}?ids={}", ids[..20].join(","))), 204).await;
    let listed = answered(api.get(&format!("{MESSAGES}?echo=true")), 200).await.json();
    assert_eq!(pick(&listed["messages"], "id"), [ids[20].as_str()]);
}

/// Row 6.5-1.
#[tokio::test]
async fn a_deletion_requires_exactly_one_of_ids_and_pop() {
    let api = new_project();
    let id = api.post_bodies("q", &[json!(1)]).await.remove(0);
    let before = api.snapshot().await;

    for query in [String::new(), "?ids=".to_owned(), "?limit=1".to_owned(), format!("?ids={id}&pop=1")] {
        refused(api.delete(&format!("{MESSAGES}{query}")), 400, INVALID_REQUEST).await;
    }
    assert_eq!(api.snapshot().await, before);
}
