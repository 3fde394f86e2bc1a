//! Fact sheet 5.1: moves to the dead-letter queue. `dead_letters.rs` tests when messages move.
//!
//! | row | test |
//! |---|---|
//! | same body, created, ttl; new id, no claim (deviations) | `a_dead_letter_is_the_same_message_under_a_new_id` |
//! | position = end of the DLQ | `conformance::…::dead_letters::dead_letters_are_appended_in_the_order_in_which_they_are_moved` |
//! | counter keeps its value, chained DLQs | `conformance::…::dead_letters::a_dead_letter_can_become_a_dead_letter_again` |
//! | `_dead_letter_queue_messages_ttl` (DEV) | `conformance::…::dead_letters::a_dead_letter_keeps_its_expiry_unless_the_queue_sets_a_ttl` |
//! | without it the remaining life | the same |
//! | DLQ not created (deviation: the first dead letter creates it) | `the_first_dead_letter_creates_the_dead_letter_queue` |
//! | same project | `dead_letters_stay_in_their_project` |

use serde_json::{Value, json};

use super::{NOT_FOUND, Project, answered, new_movable_project, pick, refused, text};

/// Creates the queue `q`, whose messages move to `dlq` after one claim, with additional metadata.
async fn with_claim_limit_of_one(extra: Value) -> Project {
    let api = new_movable_project();
    let mut metadata = json!({"_dead_letter_queue": "dlq", "_max_claim_count": 1});
    metadata.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    api.create("q", &metadata).await;
    api
}

/// Claims and releases up to 20 messages of a queue, and then moves them with another claim. Waits
/// until the queue `dlq` has this number of messages.
async fn claim_until_dead(api: &Project, queue: &str, count: usize) {
    let claim = api.claim_from(queue, 20).await;
    answered(api.delete(&claim.path), 204).await;
    assert_nothing_to_claim(api, queue).await;
    api.arrived("dlq", count).await;
}

async fn assert_nothing_to_claim(api: &Project, queue: &str) {
    answered(api.post(&format!("/v2/queues/{queue}/claims?limit=20"), &json!({})), 204).await;
}

async fn messages(api: &Project, queue: &str) -> Value {
    let path = format!("/v2/queues/{queue}/messages?echo=true&include_claimed=true&limit=20");
    answered(api.get(&path), 200).await.json()["messages"].take()
}

/// Sets the clocks of both queues, because each queue has its own test clock.
async fn set_both_clocks_ahead(api: &Project, seconds: i64) {
    for queue in ["q", "dlq"] {
        api.set_clock_of(queue, seconds).await;
    }
}

/// 5.1: same body, created and ttl. The new id and the missing claim are deliberate deviations.
/// Row 5.1-7.
#[tokio::test]
async fn a_dead_letter_is_the_same_message_under_a_new_id() {
    let api = with_claim_limit_of_one(json!({})).await;
    let body = json!({"b": [1, null], "a": "é"});
    let id = api.post_messages("q", &json!([{"body": body, "ttl": 700}])).await.remove(0);
    let posted = api.stats("q").await["oldest"].take();
    set_both_clocks_ahead(&api, 100).await;

    claim_until_dead(&api, "q", 1).await;

    let dead_letter = messages(&api, "dlq").await[0].take();
    let keys: Vec<&String> = dead_letter.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["id", "href", "ttl", "age", "body"]);
    assert_eq!((&dead_letter["body"], &dead_letter["ttl"]), (&body, &json!(700)));
    assert!((100..160).contains(&dead_letter["age"].as_u64().unwrap()), "{dead_letter}");
    assert_ne!(dead_letter["id"], json!(id));
    assert_eq!(dead_letter["href"], format!("/v2/queues/dlq/messages/{}", text(&dead_letter["id"])));
    let stats = api.stats("dlq").await;
    assert_eq!((&stats["free"], &stats["newest"]["created"]), (&json!(1), &posted["created"]));
    refused(api.get(&format!("/v2/queues/q/messages/{id}")), 404, NOT_FOUND).await;
    answered(api.get(text(&dead_letter["href"])), 200).await;
    answered(api.delete(text(&dead_letter["href"])), 204).await;
    assert_eq!(messages(&api, "dlq").await, json!([]));
}

/// 5.1: the DLQ need not exist. Here the first dead letter creates it with default metadata.
/// Row 5.1-9.
#[tokio::test]
async fn the_first_dead_letter_creates_the_dead_letter_queue() {
    let api = with_claim_limit_of_one(json!({})).await;
    api.post_bodies("q", &[json!("a")]).await;
    let claim = api.claim(1).await;
    answered(api.delete(&claim.path), 204).await;
    assert_eq!(pick(&api.snapshot().await, "name"), ["q"]);

    assert_nothing_to_claim(&api, "q").await;

    api.arrived("dlq", 1).await;
    let everything = api.snapshot().await;
    assert_eq!(pick(&everything, "name"), ["dlq", "q"]);
    assert_eq!(pick(&everything[0]["messages"], "body"), ["a"]);
    assert_eq!(everything[0]["metadata"]["_dead_letter_queue"], Value::Null, "{everything}");
}

#[tokio::test]
async fn a_dead_letter_moves_according_to_the_current_metadata() {
    let api = with_claim_limit_of_one(json!({})).await;
    let patch = json!([
        {"op": "replace", "path": "/metadata/_dead_letter_queue", "value": "other"},
        {"op": "add", "path": "/metadata/_dead_letter_queue_messages_ttl", "value": 700},
    ]);
    api.post_bodies("q", &[json!("a")]).await;
    claim_until_dead(&api, "q", 1).await;

    answered(api.patch("q", &patch), 200).await;
    api.post_bodies("q", &[json!("b")]).await;
    claim_until_dead(&api, "q", 1).await;
    api.arrived("other", 1).await;

    assert_eq!(pick(&messages(&api, "dlq").await, "ttl"), [3600]);
    assert_eq!(pick(&messages(&api, "other").await, "ttl"), [700]);
}

/// 5.1: the DLQ is in the same project.
#[tokio::test]
async fn dead_letters_stay_in_their_project() {
    let api = with_claim_limit_of_one(json!({})).await;
    let stranger = new_movable_project();
    stranger.post_bodies("dlq", &[json!("theirs")]).await;
    api.post_bodies("q", &[json!("mine")]).await;

    claim_until_dead(&api, "q", 1).await;

    assert_eq!(api.feed("dlq", "").await, ["mine"]);
    assert_eq!(stranger.feed("dlq", "").await, ["theirs"]);
}

/// A default delay applies to posts. A message that moves is not posted.
#[tokio::test]
async fn a_dead_letter_is_not_delayed() {
    let api = with_claim_limit_of_one(json!({})).await;
    api.create("dlq", &json!({"_default_message_delay": 300})).await;
    api.post_bodies("dlq", &[json!("later")]).await;
    api.post_bodies("q", &[json!("a")]).await;

    claim_until_dead(&api, "q", 1).await;

    assert_eq!(api.feed("dlq", "").await, ["a"]);
}
