//! Fact sheet 5.1: when a message becomes a dead letter. What becomes of it then is in `dead_letter_moves.rs`.
//!
//! | row | test |
//! |---|---|
//! | only with both keys, null (DEV) as absent | `without_both_keys_nothing_is_counted_and_nothing_moves` |
//! | delivered at most `_max_claim_count` times | `a_message_is_given_out_as_often_as_its_queue_allows` |
//! | max 0, below 0 | `where_nothing_may_be_given_out_all_of_it_moves_at_once` |
//! | counter only maintained when configured | `the_count_begins_with_the_limit`, `without_both_keys_nothing_is_counted_and_nothing_moves` |
//! | counter survives release and expiry | `the_count_survives_release_expiry_and_giving_back` |
//! | `claim_count` of pop | `pop_shows_the_count_before_its_own` |
//! | all moved: claim 204, pop (DEV) `[]` | `where_all_has_moved_there_is_nothing_to_get` |
//! | counter exact under concurrency | `workers_at_once_get_a_message_as_often_as_allowed_in_all` |

use futures::future::join_all;
use serde_json::{Value, json};

use super::{Tenant, answered, pick, tenant};

const PATH: &str = "/v2/queues/q/messages";
const CLAIMS: &str = "/v2/queues/q/claims";

/// The queue `q`, whose messages go to `dlq` once they were given out so often, with a message for each body.
async fn limited(count: i64, bodies: &[Value]) -> Tenant {
    let api = tenant();
    api.create("q", &json!({"_dead_letter_queue": "dlq", "_max_claim_count": count})).await;
    api.post_bodies("q", bodies).await;
    api
}

/// Claims what is there, up to 10, and gives it back.
async fn give_out(api: &Tenant) -> Vec<Value> {
    let claim = api.claim(10).await;
    answered(api.delete(&claim.path), 204).await;
    pick(&claim.messages, "body")
}

async fn pop(api: &Tenant, count: usize) -> Value {
    answered(api.delete(&format!("{PATH}?pop={count}")), 200).await.json()["messages"].take()
}

/// 5.1: a message is delivered at most `_max_claim_count` times and moved on the next attempt.
/// Rows 5.1-2, 5.1-3.
#[tokio::test]
async fn a_message_is_given_out_as_often_as_its_queue_allows() {
    for count in [1, 2, 5] {
        let api = limited(count, &[json!("a"), json!("b")]).await;

        for _ in 0..count {
            assert_eq!(give_out(&api).await, ["a", "b"]);
            assert_eq!(api.feed("dlq", "").await, [""; 0]);
        }
        answered(api.post(CLAIMS, &json!({})), 204).await;

        assert_eq!(api.stats("q").await["total"], 0);
        assert_eq!(api.feed("dlq", "").await, ["a", "b"], "{count}");
    }
}

/// 5.1: only with both keys; null (DEV) is as if absent. The counter is only maintained where dead letters
/// are configured.
/// Rows 5.1-1, 5.1-4.
#[tokio::test]
async fn without_both_keys_nothing_is_counted_and_nothing_moves() {
    let rows = [
        json!({}),
        json!({"_max_claim_count": 1}),
        json!({"_dead_letter_queue": "dlq"}),
        json!({"_dead_letter_queue": "dlq", "_max_claim_count": null}),
        json!({"_dead_letter_queue": null, "_max_claim_count": 1}),
        json!({"_dead_letter_queue": "dlq", "_dead_letter_queue_messages_ttl": 60}),
    ];
    for metadata in rows {
        let api = tenant();
        api.create("q", &metadata).await;
        api.post_bodies("q", &[json!("a")]).await;

        for _ in 0..3 {
            assert_eq!(give_out(&api).await, ["a"], "{metadata}");
        }

        assert_eq!(pick(&pop(&api, 1).await, "claim_count"), [0], "{metadata}");
        assert_eq!(pick(&api.everything().await, "name"), ["q"], "{metadata}");
    }
}

/// 5.1: max 0 = moved at first claim; below 0 is 0.
/// Row 5.1-3.
#[tokio::test]
async fn where_nothing_may_be_given_out_all_of_it_moves_at_once() {
    for count in [0, -1, i64::MIN] {
        let api = limited(count, &[json!("a"), json!("b"), json!("c")]).await;

        answered(api.post(&format!("{CLAIMS}?limit=2"), &json!({})), 204).await;
        assert_eq!(api.feed("q", "&include_claimed=true").await, ["c"]);
        assert_eq!(pop(&api, 1).await, json!([]));

        assert_eq!(api.feed("dlq", "").await, ["a", "b", "c"], "{count}");
    }
}

#[tokio::test]
async fn a_limit_beyond_all_counting_is_none() {
    let api = limited(i64::MAX, &[json!("a")]).await;

    for _ in 0..3 {
        assert_eq!(give_out(&api).await, ["a"]);
    }
}

/// 5.1: the counter survives claim release and expiry, and what is given back by itself was given out too.
/// Row 5.1-4.
#[tokio::test]
async fn the_count_survives_release_expiry_and_giving_back() {
    let api = limited(4, &[json!("a")]).await;

    let released = api.claim(1).await;
    answered(api.delete(&released.path), 204).await;
    let _expired = api.claim(1).await;
    api.set_clock_ahead(301).await;
    for delay in [0, 60] {
        let claim = api.claim(1).await;
        let message = claim.messages[0]["id"].as_str().unwrap();
        answered(api.delete(&format!("{}/messages/{message}?delay={delay}", claim.path)), 204).await;
    }
    api.set_clock_ahead(362).await;

    answered(api.post(CLAIMS, &json!({})), 204).await;
    assert_eq!(api.feed("dlq", "").await, ["a"]);
}

/// A claim that is renewed, shown or asked for again gives nothing out.
#[tokio::test]
async fn renewing_and_showing_count_nothing() {
    let api = limited(2, &[json!("a")]).await;
    let claim = api.claim(1).await;

    for _ in 0..3 {
        answered(api.request(reqwest::Method::PATCH, &claim.path).json(&json!({})), 204).await;
        answered(api.get(&claim.path), 200).await;
        assert_eq!(api.feed("q", "&include_claimed=true").await, ["a"]);
    }
    answered(api.delete(&claim.path), 204).await;

    assert_eq!(pick(&pop(&api, 1).await, "claim_count"), [1]);
}

/// 5.1: `claim_count` in pop output is the value before the increment of that very pop.
/// Row 5.1-5.
#[tokio::test]
async fn pop_shows_the_count_before_its_own() {
    let api = limited(2, &[json!("a")]).await;
    give_out(&api).await;
    api.post_bodies("q", &[json!("b")]).await;

    let popped = pop(&api, 2).await;

    assert_eq!(pick(&popped, "body"), ["a", "b"]);
    assert_eq!(pick(&popped, "claim_count"), [1, 0]);
    assert_eq!(api.feed("dlq", "").await, [""; 0]);
}

/// 5.1: pop obeys the counter as claims do; all moved: claim 204, pop (DEV) 200 with `[]`.
/// Rows 5.1-6, 6.5-12.
#[tokio::test]
async fn where_all_has_moved_there_is_nothing_to_get() {
    let api = limited(1, &[json!("a"), json!("b"), json!("c")]).await;
    let claim = api.claim(2).await;
    answered(api.delete(&claim.path), 204).await;

    let popped = answered(api.delete(&format!("{PATH}?pop=1")), 200).await;
    let claimed = answered(api.post(&format!("{CLAIMS}?limit=1"), &json!({})), 204).await;

    assert_eq!(popped.json(), json!({"messages": []}));
    assert_eq!((claimed.header("location"), claimed.text.as_str()), (None, ""));
    assert_eq!(api.feed("dlq", "").await, ["a", "b"]);
    assert_eq!(pick(&pop(&api, 20).await, "body"), ["c"]);
}

#[tokio::test]
async fn what_moves_does_not_keep_the_rest_from_being_given_out() {
    let api = limited(1, &[json!("worn"), json!("worn too")]).await;
    give_out(&api).await;
    api.post_bodies("q", &[json!("new"), json!("newer")]).await;

    assert_eq!(pick(&api.claim(3).await.messages, "body"), ["new"]);
    assert_eq!(pick(&pop(&api, 20).await, "body"), ["newer"]);

    assert_eq!(api.feed("dlq", "").await, ["worn", "worn too"]);
    let stats = api.stats("q").await;
    assert_eq!((&stats["claimed"], &stats["total"]), (&json!(1), &json!(1)));
}

/// 5.1: the counter is only maintained while dead letters are configured; then it goes on where it was.
/// Row 5.1-4.
#[tokio::test]
async fn the_count_begins_with_the_limit() {
    let api = tenant();
    api.create("q", &json!({"_dead_letter_queue": "dlq"})).await;
    api.post_bodies("q", &[json!("a")]).await;
    let limit = |op: &str| json!([{"op": op, "path": "/metadata/_max_claim_count", "value": 2}]);
    give_out(&api).await;

    answered(api.patch("q", &limit("add")), 200).await;
    assert_eq!(give_out(&api).await, ["a"]);
    answered(api.patch("q", &limit("remove")), 200).await;
    for _ in 0..3 {
        assert_eq!(give_out(&api).await, ["a"]);
    }
    answered(api.patch("q", &limit("add")), 200).await;
    assert_eq!(give_out(&api).await, ["a"]);
    answered(api.post(CLAIMS, &json!({})), 204).await;

    assert_eq!(api.feed("dlq", "").await, ["a"]);
}

/// Row 5.1-2.
#[tokio::test]
async fn workers_at_once_get_a_message_as_often_as_allowed_in_all() {
    const WORKERS: usize = 8;
    const ALLOWED: usize = 25;
    let bodies: Vec<Value> = (0..6).map(Value::from).collect();
    let api = limited(ALLOWED.try_into().unwrap(), &bodies).await;

    let workers = (0..WORKERS).map(async |_| {
        let mut given_out = 0;
        while api.stats("q").await["total"] != 0 {
            let claimed = super::send(api.post(&format!("{CLAIMS}?limit=2"), &json!({}))).await;
            if let Some(claim) = claimed.header("location") {
                given_out += claimed.json()["messages"].as_array().unwrap().len();
                answered(api.delete(claim), 204).await;
            }
        }
        given_out
    });
    let given_out: usize = join_all(workers).await.into_iter().sum();

    assert_eq!(given_out, ALLOWED * bodies.len());
    let mut dead = api.feed("dlq", "").await;
    dead.sort_by_key(Value::as_u64);
    assert_eq!(dead, bodies);
}
