//! Fact sheet 5.1: what becomes of a dead letter. When a message becomes one is in `dead_letters.rs`.
//!
//! | row | test |
//! |---|---|
//! | same body, created, ttl; new id, no claim left (deviations) | `a_letter_is_the_message_under_a_new_id` |
//! | position = end of the DLQ | `a_letter_stands_at_the_end_of_its_queue` |
//! | counter keeps its value, chained DLQs | `a_letter_keeps_its_count_in_the_next_queue` |
//! | `_dead_letter_queue_messages_ttl` (DEV) | `a_letter_may_begin_a_new_life` |
//! | without it the remaining life | `a_letter_keeps_the_rest_of_its_life` |
//! | DLQ not created (deviation: it is, with the first letter) | `the_queue_for_letters_comes_with_the_first` |
//! | same project | `letters_stay_in_their_project` |

use serde_json::{Value, json};

use super::{NOT_FOUND, Tenant, answered, pick, refused, tenant, text};

/// The queue `q`, whose messages go to `dlq` once they were given out, and what else its metadata says.
async fn limited(more: Value) -> Tenant {
    let api = tenant();
    let mut metadata = json!({"_dead_letter_queue": "dlq", "_max_claim_count": 1});
    metadata.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    api.create("q", &metadata).await;
    api
}

/// Gives out what is in a queue, up to 20, and lets it die.
async fn let_die(api: &Tenant, queue: &str) {
    let claim = api.claim_from(queue, 20).await;
    answered(api.delete(&claim.path), 204).await;
    nothing_to_claim(api, queue).await;
}

async fn nothing_to_claim(api: &Tenant, queue: &str) {
    answered(api.post(&format!("/v2/queues/{queue}/claims?limit=20"), &json!({})), 204).await;
}

async fn messages(api: &Tenant, queue: &str) -> Value {
    let path = format!("/v2/queues/{queue}/messages?echo=true&include_claimed=true&limit=20");
    answered(api.get(&path), 200).await.json()["messages"].take()
}

/// As if both queues were in the same store at the same time.
async fn set_clocks_ahead(api: &Tenant, seconds: i64) {
    for queue in ["q", "dlq"] {
        api.set_clock_of(queue, seconds).await;
    }
}

/// 5.1: same body, created and ttl; a new id and no claim left, as we do better.
/// Row 5.1-7.
#[tokio::test]
async fn a_letter_is_the_message_under_a_new_id() {
    let api = limited(json!({})).await;
    let body = json!({"b": [1, null], "a": "é"});
    let id = api.post_messages("q", &json!([{"body": body, "ttl": 700}])).await.remove(0);
    let posted = api.stats("q").await["oldest"].take();
    set_clocks_ahead(&api, 100).await;

    let_die(&api, "q").await;

    let letter = messages(&api, "dlq").await[0].take();
    let keys: Vec<&String> = letter.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["id", "href", "ttl", "age", "body"]);
    assert_eq!((&letter["body"], &letter["ttl"]), (&body, &json!(700)));
    assert!((100..160).contains(&letter["age"].as_u64().unwrap()), "{letter}");
    assert_ne!(letter["id"], json!(id));
    assert_eq!(letter["href"], format!("/v2/queues/dlq/messages/{}", text(&letter["id"])));
    let stats = api.stats("dlq").await;
    assert_eq!((&stats["free"], &stats["newest"]["created"]), (&json!(1), &posted["created"]));
    refused(api.get(&format!("/v2/queues/q/messages/{id}")), 404, NOT_FOUND).await;
    answered(api.get(text(&letter["href"])), 200).await;
    answered(api.delete(text(&letter["href"])), 204).await;
    assert_eq!(messages(&api, "dlq").await, json!([]));
}

/// 5.1: position = end of the DLQ; letters that go together keep their order.
/// Row 5.1-7.
#[tokio::test]
async fn a_letter_stands_at_the_end_of_its_queue() {
    let api = limited(json!({})).await;
    api.post_bodies("q", &(0..20).map(Value::from).collect::<Vec<_>>()).await;
    let before = api.post_bodies("dlq", &[json!("before")]).await.remove(0);

    let_die(&api, "q").await;
    api.post_bodies("dlq", &[json!("behind")]).await;

    let letters: Vec<Value> = (0..20).map(Value::from).collect();
    let feed = api.feed("dlq", &format!("&marker={before}")).await;
    assert_eq!(feed, [letters, vec![json!("behind")]].concat());
    assert_eq!(api.feed("dlq", "&limit=1").await[0], "before");
}

/// 5.1: the counter keeps its value; chained DLQs work by claiming from the first.
/// Rows 5.1-7, 5.1-9.
#[tokio::test]
async fn a_letter_keeps_its_count_in_the_next_queue() {
    let api = limited(json!({})).await;
    api.create("dlq", &json!({"_dead_letter_queue": "end", "_max_claim_count": 3})).await;
    api.post_bodies("q", &[json!("a")]).await;
    let_die(&api, "q").await;

    for _ in 0..2 {
        let claim = api.claim_from("dlq", 1).await;
        assert_eq!(pick(&claim.messages, "body"), ["a"]);
        answered(api.delete(&claim.path), 204).await;
    }
    nothing_to_claim(&api, "dlq").await;

    assert_eq!(messages(&api, "dlq").await, json!([]));
    let popped = answered(api.delete("/v2/queues/end/messages?pop=1"), 200).await.json();
    assert_eq!(pick(&popped["messages"], "body"), ["a"]);
    assert_eq!(pick(&popped["messages"], "claim_count"), [3]);
}

#[tokio::test]
async fn a_queue_may_be_its_own_for_letters() {
    let api = limited(json!({"_dead_letter_queue": "q"})).await;
    let id = api.post_bodies("q", &[json!("a"), json!("b")]).await.remove(0);
    let claim = api.claim(1).await;
    answered(api.delete(&claim.path), 204).await;

    answered(api.post("/v2/queues/q/claims?limit=1", &json!({})), 204).await;

    let feed = messages(&api, "q").await;
    assert_eq!(pick(&feed, "body"), ["b", "a"]);
    assert_ne!(feed[1]["id"], json!(id));
    assert_eq!(api.stats("q").await["free"], 2);
    // It moves once per delivery: before it moves again, it is delivered.
    assert_eq!(pick(&api.claim(20).await.messages, "body"), ["b", "a"]);
    nothing_to_claim(&api, "q").await;
}

/// 5.1 (DEV): `_dead_letter_queue_messages_ttl` restarts the life, to a later end or an earlier one.
/// Row 5.1-8.
#[tokio::test]
async fn a_letter_may_begin_a_new_life() {
    for ttl in [300, 5000] {
        let api = limited(json!({"_dead_letter_queue_messages_ttl": 1000})).await;
        api.post_messages("q", &json!([{"body": "a", "ttl": ttl}])).await;
        set_clocks_ahead(&api, 200).await;
        answered(api.delete(&short_claim(&api).await), 204).await;

        nothing_to_claim(&api, "q").await;

        assert_eq!(pick(&messages(&api, "dlq").await, "ttl"), [1000], "{ttl}");
        set_clocks_ahead(&api, 1150).await;
        assert_eq!(api.feed("dlq", "").await, ["a"], "{ttl}");
        set_clocks_ahead(&api, 1240).await;
        assert_eq!(api.feed("dlq", "").await, [""; 0], "{ttl}");
        assert_eq!(api.stats("dlq").await["total"], 0);
    }
}

/// 5.1 (DEV): without that key a letter keeps the remaining life, also one that a claim has prolonged.
/// Row 5.1-8.
#[tokio::test]
async fn a_letter_keeps_the_rest_of_its_life() {
    let api = limited(json!({})).await;
    api.post_messages("q", &json!([{"body": "short", "ttl": 100}, {"body": "long", "ttl": 1000}])).await;
    let claim = api.claim(2).await;
    assert_eq!(pick(&claim.messages, "ttl"), [360, 1000]);
    answered(api.delete(&claim.path), 204).await;
    set_clocks_ahead(&api, 200).await;

    nothing_to_claim(&api, "q").await;

    assert_eq!(pick(&messages(&api, "dlq").await, "ttl"), [360, 1000]);
    for (clock, left) in [(310, &["short", "long"][..]), (362, &["long"]), (950, &["long"]), (1002, &[])] {
        set_clocks_ahead(&api, clock).await;
        assert_eq!(api.feed("dlq", "").await, left, "{clock} s later");
    }
}

/// 5.1: the DLQ need not exist; here it comes with its first letter, with default metadata.
/// Row 5.1-9.
#[tokio::test]
async fn the_queue_for_letters_comes_with_the_first() {
    let api = limited(json!({})).await;
    api.post_bodies("q", &[json!("a")]).await;
    let claim = api.claim(1).await;
    answered(api.delete(&claim.path), 204).await;
    assert_eq!(pick(&api.everything().await, "name"), ["q"]);

    nothing_to_claim(&api, "q").await;

    let everything = api.everything().await;
    assert_eq!(pick(&everything, "name"), ["dlq", "q"]);
    assert_eq!(pick(&everything[0]["messages"], "body"), ["a"]);
    assert_eq!(everything[0]["metadata"]["_dead_letter_queue"], Value::Null, "{everything}");
}

#[tokio::test]
async fn letters_outlive_the_queue_in_which_they_died() {
    let api = limited(json!({})).await;
    for body in ["first", "second"] {
        api.post_bodies("q", &[json!(body)]).await;
        let_die(&api, "q").await;

        answered(api.delete("/v2/queues/q"), 204).await;
        api.create("q", &json!({"_dead_letter_queue": "dlq", "_max_claim_count": 1})).await;
    }

    assert_eq!(api.feed("dlq", "").await, ["first", "second"]);
}

#[tokio::test]
async fn a_queue_for_letters_that_is_deleted_comes_again_with_the_next() {
    let api = limited(json!({})).await;
    for body in ["first", "second", "third"] {
        api.post_bodies("q", &[json!(body)]).await;
        let_die(&api, "q").await;

        assert_eq!(api.feed("dlq", "").await, [body]);
        answered(api.delete("/v2/queues/dlq"), 204).await;
        assert_eq!(pick(&api.everything().await, "name"), ["q"]);
    }
}

#[tokio::test]
async fn letters_of_several_queues_come_together() {
    let api = tenant();
    for queue in ["one", "two"] {
        api.create(queue, &json!({"_dead_letter_queue": "dlq", "_max_claim_count": 1})).await;
    }

    for (queue, body) in [("one", "a"), ("two", "b"), ("one", "c"), ("two", "d")] {
        api.post_bodies(queue, &[json!(body)]).await;
        let_die(&api, queue).await;
    }

    assert_eq!(api.feed("dlq", "").await, ["a", "b", "c", "d"]);
}

#[tokio::test]
async fn letters_follow_the_metadata_of_the_moment() {
    let api = limited(json!({})).await;
    let patch = json!([
        {"op": "replace", "path": "/metadata/_dead_letter_queue", "value": "other"},
        {"op": "add", "path": "/metadata/_dead_letter_queue_messages_ttl", "value": 700},
    ]);
    api.post_bodies("q", &[json!("a")]).await;
    let_die(&api, "q").await;

    answered(api.patch("q", &patch), 200).await;
    api.post_bodies("q", &[json!("b")]).await;
    let_die(&api, "q").await;

    assert_eq!(pick(&messages(&api, "dlq").await, "ttl"), [3600]);
    assert_eq!(pick(&messages(&api, "other").await, "ttl"), [700]);
}

/// 5.1: the DLQ is in the same project.
#[tokio::test]
async fn letters_stay_in_their_project() {
    let api = limited(json!({})).await;
    let stranger = tenant();
    stranger.post_bodies("dlq", &[json!("theirs")]).await;
    api.post_bodies("q", &[json!("mine")]).await;

    let_die(&api, "q").await;

    assert_eq!(api.feed("dlq", "").await, ["mine"]);
    assert_eq!(stranger.feed("dlq", "").await, ["theirs"]);
}

/// A delaying DLQ delays what is posted to it; a letter is posted by nobody.
#[tokio::test]
async fn a_letter_is_not_delayed() {
    let api = limited(json!({})).await;
    api.create("dlq", &json!({"_default_message_delay": 300})).await;
    api.post_bodies("dlq", &[json!("later")]).await;
    api.post_bodies("q", &[json!("a")]).await;

    let_die(&api, "q").await;

    assert_eq!(api.feed("dlq", "").await, ["a"]);
}

/// The path of a claim of 60 s, so short that it prolongs nothing here.
async fn short_claim(api: &Tenant) -> String {
    let claimed = answered(api.post("/v2/queues/q/claims", &json!({"ttl": 60, "grace": 60})), 201).await;
    claimed.header("location").unwrap().to_owned()
}
