//! Fact sheet 5.1: when a message becomes a dead letter. `dead_letter_moves.rs` tests the move
//! itself.
//!
//! | row | test |
//! |---|---|
//! | only with both keys; null (DEV) is absent | `dead_letters_require_both_metadata_keys` |
//! | delivered at most `_max_claim_count` times | `a_message_is_delivered_at_most_max_claim_count_times` |
//! | no limit with 0 or less | `a_limit_of_0_or_less_is_no_limit` |
//! | counter only maintained when configured | `claims_are_counted_only_while_dead_letters_are_configured`, `dead_letters_require_both_metadata_keys` |
//! | counter survives release and expiry | `the_claim_count_survives_release_expiry_and_return` |
//! | `claim_count` of pop | `a_pop_shows_the_claim_count_before_that_pop` |
//! | all moved: claim 204, pop (DEV) `[]` | `if_all_messages_move_a_claim_or_pop_returns_nothing` |
//! | counter exact under concurrency | `the_limit_holds_across_concurrent_workers` |

use futures::future::join_all;
use serde_json::{Value, json};

use super::{Project, answered, new_movable_project, pick};
use support::waiting::{in_time, until_some};

const PATH: &str = "/v2/queues/q/messages";
const CLAIMS: &str = "/v2/queues/q/claims";

/// Creates the queue `q`, whose messages move to `dlq` after `count` deliveries, with a message for
/// each body.
async fn with_claim_limit(count: i64, bodies: &[Value]) -> Project {
    let api = new_movable_project();
    api.create("q", &json!({"_dead_letter_queue": "dlq", "_max_claim_count": count})).await;
    api.post_bodies("q", bodies).await;
    api
}

/// Claims up to 10 messages, releases the claim, and returns the bodies.
async fn claim_and_release(api: &Project) -> Vec<Value> {
    let claim = api.claim(10).await;
    answered(api.delete(&claim.path), 204).await;
    pick(&claim.messages, "body")
}

async fn pop(api: &Project, count: usize) -> Value {
    answered(api.delete(&format!("{PATH}?pop={count}")), 200).await.json()["messages"].take()
}

/// 5.1: a message is delivered at most `_max_claim_count` times and moved on the next attempt.
/// Rows 5.1-2, 5.1-3.
#[tokio::test]
async fn a_message_is_delivered_at_most_max_claim_count_times() {
    for count in [1, 2, 5] {
        let api = with_claim_limit(count, &[json!("a"), json!("b")]).await;

        for _ in 0..count {
            assert_eq!(claim_and_release(&api).await, ["a", "b"]);
            assert_eq!(api.feed("dlq", "").await, [""; 0]);
        }
        answered(api.post(CLAIMS, &json!({})), 204).await;

        assert_eq!(api.stats("q").await["total"], 0);
        assert_eq!(api.arrived("dlq", 2).await, ["a", "b"], "{count}");
    }
}

/// 5.1: only with both keys. Null (DEV) is absent. The counter is maintained only if dead letters
/// are configured.
/// Rows 5.1-1, 5.1-4.
#[tokio::test]
async fn dead_letters_require_both_metadata_keys() {
    let rows = [
        json!({}),
        json!({"_max_claim_count": 1}),
        json!({"_dead_letter_queue": "dlq"}),
        json!({"_dead_letter_queue": "dlq", "_max_claim_count": null}),
        json!({"_dead_letter_queue": null, "_max_claim_count": 1}),
        json!({"_dead_letter_queue": "dlq", "_dead_letter_queue_messages_ttl": 60}),
    ];
    for metadata in rows {
        let api = new_movable_project();
        api.create("q", &metadata).await;
        api.post_bodies("q", &[json!("a")]).await;

        for _ in 0..3 {
            assert_eq!(claim_and_release(&api).await, ["a"], "{metadata}");
        }

        assert_eq!(pick(&pop(&api, 1).await, "claim_count"), [0], "{metadata}");
        assert_eq!(pick(&api.snapshot().await, "name"), ["q"], "{metadata}");
    }
}

/// Rows 5-12, 5.1-3.
#[tokio::test]
async fn a_limit_of_0_or_less_is_no_limit() {
    for count in [0, -1, i64::MIN] {
        let api = with_claim_limit(count, &[json!("a"), json!("b")]).await;

        for _ in 0..3 {
            assert_eq!(claim_and_release(&api).await, ["a", "b"], "{count}");
        }
        assert_eq!(pick(&pop(&api, 2).await, "claim_count"), [0, 0], "{count}");

        assert_eq!(api.feed("dlq", "").await, [""; 0], "{count}");
        assert_eq!(answered(api.get("/v2/queues/q"), 200).await.json()["_max_claim_count"], Value::Null, "{count}");
    }
}

#[tokio::test]
async fn the_largest_possible_limit_is_never_reached() {
    let api = with_claim_limit(i64::MAX, &[json!("a")]).await;

    for _ in 0..3 {
        assert_eq!(claim_and_release(&api).await, ["a"]);
    }
}

/// 5.1: the counter survives claim release and expiry. The claim of a message that is returned on
/// its own counts too.
/// Row 5.1-4.
#[tokio::test]
async fn the_claim_count_survives_release_expiry_and_return() {
    let api = with_claim_limit(4, &[json!("a")]).await;

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
    assert_eq!(api.arrived("dlq", 1).await, ["a"]);
}

/// Renewing, showing or listing a claimed message does not deliver it again.
#[tokio::test]
async fn renewing_and_showing_a_claim_do_not_count_as_deliveries() {
    let api = with_claim_limit(2, &[json!("a")]).await;
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
async fn a_pop_shows_the_claim_count_before_that_pop() {
    let api = with_claim_limit(2, &[json!("a")]).await;
    claim_and_release(&api).await;
    api.post_bodies("q", &[json!("b")]).await;

    let popped = pop(&api, 2).await;

    assert_eq!(pick(&popped, "body"), ["a", "b"]);
    assert_eq!(pick(&popped, "claim_count"), [1, 0]);
    assert_eq!(api.feed("dlq", "").await, [""; 0]);
}

/// 5.1: pop obeys the counter as claims do. If all the next messages move, those after them are
/// next. Rows 5.1-6, 6.5-12.
#[tokio::test]
async fn if_all_the_next_messages_move_a_claim_or_pop_gets_those_after_them() {
    let api = with_claim_limit(1, &[json!("a"), json!("b"), json!("c"), json!("d")]).await;
    let claim = api.claim(2).await;
    answered(api.delete(&claim.path), 204).await;

    assert_eq!(pick(&api.claim(1).await.messages, "body"), ["c"]);
    assert_eq!(pick(&pop(&api, 1).await, "body"), ["d"]);

    assert_eq!(api.arrived("dlq", 2).await, ["a", "b"]);
}

/// So the time of a request does not depend on the number of dead letters.
/// Rows 5.1-6, 6.5-12.
#[tokio::test]
async fn a_claim_or_pop_moves_dead_letters_in_at_most_ten_steps() {
    let bodies: Vec<Value> = (0..20).map(|number| json!(number.to_string())).collect();
    let api = with_claim_limit(1, &bodies).await;
    answered(api.delete(&api.claim(20).await.path), 204).await;
    api.post_bodies("q", &[json!("live")]).await;

    let popped = answered(api.delete(&format!("{PATH}?pop=1")), 200).await;
    assert_eq!(popped.json(), json!({"messages": []}));
    assert_eq!(api.arrived("dlq", 10).await.len(), 10);
    let claimed = answered(api.post(&format!("{CLAIMS}?limit=1"), &json!({})), 204).await;
    assert_eq!((claimed.header("location"), claimed.text.as_str()), (None, ""));
    assert_eq!(api.arrived("dlq", 20).await.len(), 20);

    assert_eq!(pick(&pop(&api, 20).await, "body"), ["live"]);
}

#[tokio::test]
async fn messages_that_move_do_not_stop_the_delivery_of_the_others() {
    let api = with_claim_limit(1, &[json!("worn"), json!("worn too")]).await;
    claim_and_release(&api).await;
    api.post_bodies("q", &[json!("new"), json!("newer")]).await;

    assert_eq!(pick(&api.claim(3).await.messages, "body"), ["new"]);
    assert_eq!(pick(&pop(&api, 20).await, "body"), ["newer"]);

    assert_eq!(api.arrived("dlq", 2).await, ["worn", "worn too"]);
    let stats = api.stats("q").await;
    assert_eq!((&stats["claimed"], &stats["total"]), (&json!(1), &json!(1)));
}

/// 5.1: the counter is maintained only while dead letters are configured. Afterwards it continues
/// from its old value.
/// Row 5.1-4.
#[tokio::test]
async fn claims_are_counted_only_while_dead_letters_are_configured() {
    let api = new_movable_project();
    api.create("q", &json!({"_dead_letter_queue": "dlq"})).await;
    api.post_bodies("q", &[json!("a")]).await;
    let limit = |op: &str| json!([{"op": op, "path": "/metadata/_max_claim_count", "value": 2}]);
    claim_and_release(&api).await;

    answered(api.patch("q", &limit("add")), 200).await;
    assert_eq!(claim_and_release(&api).await, ["a"]);
    answered(api.patch("q", &limit("remove")), 200).await;
    for _ in 0..3 {
        assert_eq!(claim_and_release(&api).await, ["a"]);
    }
    answered(api.patch("q", &limit("add")), 200).await;
    assert_eq!(claim_and_release(&api).await, ["a"]);
    answered(api.post(CLAIMS, &json!({})), 204).await;

    assert_eq!(api.arrived("dlq", 1).await, ["a"]);
}

/// Row 5.1-2.
#[tokio::test]
async fn the_limit_holds_across_concurrent_workers() {
    const WORKERS: usize = 8;
    const ALLOWED: usize = 25;
    let bodies: Vec<Value> = (0..6).map(Value::from).collect();
    let api = with_claim_limit(ALLOWED.try_into().unwrap(), &bodies).await;

    let workers = (0..WORKERS).map(async |_| {
        let mut deliveries = 0;
        while api.stats("q").await["total"] != 0 {
            let claimed = super::send(api.post(&format!("{CLAIMS}?limit=2"), &json!({}))).await;
            if let Some(claim) = claimed.header("location") {
                deliveries += claimed.json()["messages"].as_array().unwrap().len();
                answered(api.delete(claim), 204).await;
            }
        }
        deliveries
    });
    let deliveries = in_time("all messages are dead letters", join_all(workers)).await;
    let deliveries: usize = deliveries.into_iter().sum();

    assert_eq!(deliveries, ALLOWED * bodies.len());
    let mut dead = until_some("the dead letters arrive", async || {
        // A claim forwards those that moved when another forwarder was about to end.
        answered(api.post(CLAIMS, &json!({})), 204).await;
        let dead = api.feed("dlq", "").await;
        (dead.len() >= bodies.len()).then_some(dead)
    })
    .await;
    dead.sort_by_key(Value::as_u64);
    assert_eq!(dead, bodies);
}
