//! Fact sheet 5.1: when a message becomes a dead letter. `dead_letter_moves.rs` tests the move
//! itself.
//!
//! | row | test |
//! |---|---|
//! | only with both keys; null (DEV) is absent | `conformance::…::dead_letters::claims_are_not_counted_without_complete_dead_letter_metadata` |
//! | delivered at most `_max_claim_count` times | `a_message_is_delivered_at_most_max_claim_count_times` |
//! | no limit with 0 or less | the same |
//! | counter only maintained when configured | `claims_are_counted_only_while_dead_letters_are_configured` |
//! | counter survives release and expiry | `conformance::…::dead_letters::the_claim_count_is_kept_when_a_claim_ends` |
//! | `claim_count` of pop | `a_pop_shows_the_claim_count_before_that_pop` |
//! | all moved: claim 204, pop (DEV) `[]` | `a_claim_or_pop_moves_dead_letters_in_at_most_ten_steps` |
//! | counter exact under concurrency | `conformance::…::dead_letters::dead_letters_of_concurrent_workers_arrive_once` |

use serde_json::{Value, json};

use super::{CLAIMS, MESSAGES, Project, answered, new_movable_project, pick};

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
    answered(api.delete(&format!("{MESSAGES}?pop={count}")), 200).await.json()["messages"].take()
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

#[tokio::test]
async fn the_largest_possible_limit_is_never_reached() {
    let api = with_claim_limit(i64::MAX, &[json!("a")]).await;

    for _ in 0..3 {
        assert_eq!(claim_and_release(&api).await, ["a"]);
    }
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

    let popped = answered(api.delete(&format!("{MESSAGES}?pop=1")), 200).await;
    assert_eq!(popped.json(), json!({"messages": []}));
    assert_eq!(api.arrived("dlq", 10).await.len(), 10);
    let claimed = answered(api.post(&format!("{CLAIMS}?limit=1"), &json!({})), 204).await;
    assert_eq!((claimed.header("location"), claimed.text.as_str()), (None, ""));
    assert_eq!(api.arrived("dlq", 20).await.len(), 20);

    assert_eq!(pick(&pop(&api, 20).await, "body"), ["live"]);
}

/// Row 5.1-4.
#[tokio::test]
async fn deliveries_are_counted_also_while_their_number_is_not_limited() {
    let api = new_movable_project();
    api.create("q", &json!({"_dead_letter_queue": "dlq"})).await;
    api.post_bodies("q", &[json!("a")]).await;
    let limit = |op: &str| json!([{"op": op, "path": "/metadata/_max_claim_count", "value": 5}]);
    claim_and_release(&api).await;

    answered(api.patch("q", &limit("add")), 200).await;
    assert_eq!(claim_and_release(&api).await, ["a"]);
    answered(api.patch("q", &limit("remove")), 200).await;
    for _ in 0..2 {
        assert_eq!(claim_and_release(&api).await, ["a"]);
    }
    answered(api.patch("q", &limit("add")), 200).await;
    assert_eq!(claim_and_release(&api).await, ["a"]);
    answered(api.post(CLAIMS, &json!({})), 204).await;

    assert_eq!(api.arrived("dlq", 1).await, ["a"]);
}
