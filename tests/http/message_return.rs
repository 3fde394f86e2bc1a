//! Extension (openapi.yaml, `returnMessage`): a worker returns one message of its claim, at once or
//! with a delay.
//!
//! | promise | test |
//! |---|---|
//! | available at its original position; the claim keeps the rest | `a_returned_message_is_available_at_its_original_position` |
//! | with a delay: not delivered until then, counted as claimed | `a_message_returned_with_a_delay_is_unavailable_until_then` |
//! | with a delay: deleted without a claim id | `conformance::…::returning::a_message_returned_with_a_delay_can_be_deleted_without_a_claim` |
//! | `delay` 0 to 43200, else 400 and before the 404 | `an_invalid_delay_is_refused_and_returns_nothing` |
//! | claim not live 404 | `a_released_or_expired_claim_cannot_return_messages` |
//! | a message that the claim does not hold is unchanged | `returning_a_message_that_the_claim_does_not_hold_has_no_effect` |
//! | other queues and projects | `claims_of_other_queues_and_projects_return_nothing` |
//! | the life of the message is not extended | `conformance::…::returning::returning_a_message_does_not_extend_its_life` |
//! | counts toward dead letters | `dead_letters.rs` |

use serde_json::{Value, json};

use super::{
    Claim, INVALID_PARAMETER, INVALID_REQUEST, MESSAGES, NOT_FOUND, Project, answered, new_movable_project, pick,
    refused, text, with_messages,
};

const UNKNOWN: &str = "9f8c3c1e-0000-4000-8000-000000000000";

async fn return_message(api: &Project, claim: &Claim, id: &str, query: &str) {
    let answer = answered(api.delete(&format!("{}/messages/{id}{query}", claim.path)), 204).await;
    assert_eq!(answer.text, "");
}

/// Returns the bodies of the messages that a claim still holds.
async fn bodies_in_claim(api: &Project, claim: &Claim) -> Vec<Value> {
    pick(&answered(api.get(&claim.path), 200).await.json()["messages"], "body")
}

async fn pop(api: &Project) -> Vec<Value> {
    pick(&answered(api.delete(&format!("{MESSAGES}?pop=20")), 200).await.json()["messages"], "body")
}

#[tokio::test]
async fn a_returned_message_is_available_at_its_original_position() {
    for query in ["", "?delay=0", "?delay=", "?color=red"] {
        let (api, ids) = with_messages(5).await;
        let claim = api.claim(3).await;

        for _ in 0..2 {
            return_message(&api, &claim, &ids[1], query).await;
        }

        assert_eq!(bodies_in_claim(&api, &claim).await, [0, 2], "{query}");
        assert_eq!(api.feed("q", "").await, [1, 3, 4], "{query}");
        assert_eq!(api.stats("q").await["claimed"], 2);
        let found = answered(api.get(&format!("{MESSAGES}/{}", ids[1])), 200).await.json();
        assert_eq!(found["href"], format!("{MESSAGES}/{}", ids[1]));
        assert_eq!(pick(&api.claim(2).await.messages, "body"), [1, 3], "{query}");
        answered(api.delete(text(&claim.messages[0]["href"])), 204).await;
    }
}

#[tokio::test]
async fn a_message_returned_with_a_delay_is_unavailable_until_then() {
    let (api, ids) = with_messages(3).await;
    let claim = api.claim(2).await;

    return_message(&api, &claim, &ids[0], "?delay=600").await;

    assert_eq!(bodies_in_claim(&api, &claim).await, [1]);
    let shown = answered(api.get(&format!("{MESSAGES}?echo=true&include_claimed=true")), 200).await.json();
    let plain = format!("{MESSAGES}/{}", ids[0]);
    assert_eq!(shown["messages"][0]["href"], plain);
    assert_eq!(answered(api.get(&plain), 200).await.json()["href"], plain);
    assert_eq!(pick(&shown["messages"], "body"), [0, 1, 2]);
    assert_eq!(api.feed("q", "&include_delayed=true").await, [2]);
    let stats = api.stats("q").await;
    assert_eq!((&stats["claimed"], &stats["free"]), (&json!(2), &json!(1)));
    // Neither the release of the claim nor its expiry time makes the message available earlier.
    answered(api.delete(&claim.path), 204).await;
    api.set_clock_ahead(301).await;
    assert_eq!(api.feed("q", "").await, [1, 2]);
    assert_eq!(pick(&api.claim(1).await.messages, "body"), [1]);
    assert_eq!(pop(&api).await, [2]);
    api.set_clock_ahead(570).await;
    answered(api.post("/v2/queues/q/claims", &json!({"ttl": 60, "grace": 60})), 204).await;

    api.set_clock_ahead(602).await;

    assert_eq!(api.stats("q").await["claimed"], 0);
    assert_eq!(pick(&api.claim(20).await.messages, "body"), [0, 1]);
}

#[tokio::test]
async fn an_invalid_delay_is_refused_and_returns_nothing() {
    let (api, ids) = with_messages(2).await;
    let claim = api.claim(2).await;

    for path in [format!("{}/messages/{}", claim.path, ids[0]), format!("/v2/queues/q/claims/{UNKNOWN}/messages/x")] {
        for delay in ["-1", "43201", "4294967296", "-9223372036854775808"] {
            let description = refused(api.delete(&format!("{path}?delay={delay}")), 400, INVALID_REQUEST).await;
            assert!(description.contains("delay") && description.contains("43200"), "{description}");
        }
        for delay in ["x", "1.5", "true", "%00"] {
            refused(api.delete(&format!("{path}?delay={delay}")), 400, INVALID_PARAMETER).await;
        }
    }
    assert_eq!(bodies_in_claim(&api, &claim).await, [0, 1]);
    return_message(&api, &claim, &ids[0], "?delay=43200").await;
    assert_eq!(bodies_in_claim(&api, &claim).await, [1]);
}

#[tokio::test]
async fn a_released_or_expired_claim_cannot_return_messages() {
    let (api, ids) = with_messages(2).await;
    let (released, expired) = (api.claim(1).await, api.claim(1).await);
    answered(api.delete(&released.path), 204).await;
    api.set_clock_ahead(301).await;
    let new_claim = api.claim(2).await;

    for (claim, id) in [(&released, &ids[0]), (&expired, &ids[1])] {
        for query in ["", "?delay=100"] {
            let path = format!("{}/messages/{id}{query}", claim.path);
            let description = refused(api.delete(&path), 404, NOT_FOUND).await;
            assert!(description.contains(&claim.id), "{description}");
        }
    }
    assert_eq!(bodies_in_claim(&api, &new_claim).await, [0, 1]);
}

#[tokio::test]
async fn returning_a_message_that_the_claim_does_not_hold_has_no_effect() {
    let (api, ids) = with_messages(4).await;
    let (claim, other) = (api.claim(1).await, api.claim(1).await);
    answered(api.delete(&format!("{MESSAGES}/{}", ids[3])), 204).await;
    let elsewhere = api.post_bodies("other", &[json!(1)]).await.remove(0);

    for id in [&ids[1], &ids[2], &ids[3], &elsewhere, &ids[0].to_uppercase(), UNKNOWN, "x", "%00", "%FF"] {
        for query in ["", "?delay=100"] {
            return_message(&api, &claim, id, query).await;
        }
    }

    assert_eq!(bodies_in_claim(&api, &claim).await, [0]);
    assert_eq!(bodies_in_claim(&api, &other).await, [1]);
    assert_eq!(api.feed("q", "").await, [2]);
    assert_eq!(api.feed("other", "").await, [1]);
}

#[tokio::test]
async fn claims_of_other_queues_and_projects_return_nothing() {
    let (api, ids) = with_messages(1).await;
    let claim = api.claim(1).await;
    let stranger = new_movable_project();
    stranger.post_bodies("q", &[json!(1)]).await;
    api.post_bodies("other", &[json!(1)]).await;
    let elsewhere = api.claim_from("other", 1).await;

    let message = &ids[0];
    let upper = claim.id.to_uppercase();
    refused(stranger.delete(&format!("{}/messages/{message}", claim.path)), 404, NOT_FOUND).await;
    for id in [elsewhere.id.as_str(), UNKNOWN, &upper, "x", "%00"] {
        refused(api.delete(&format!("/v2/queues/q/claims/{id}/messages/{message}")), 404, NOT_FOUND).await;
    }
    for queue in ["other", "missing"] {
        let path = format!("/v2/queues/{queue}/claims/{}/messages/{message}", claim.id);
        refused(api.delete(&path), 404, NOT_FOUND).await;
    }

    assert_eq!(bodies_in_claim(&api, &claim).await, [0]);
    assert_eq!(stranger.feed("q", "").await, [1]);
}
