//! Fact sheet 7.2 to 7.4: showing, renewing and releasing claims, and their expiry.

use std::time::Instant;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::{
    INVALID_BODY, INVALID_REQUEST, NOT_FOUND, Project, answered, new_movable_project, pick, refused, with_messages,
};

const UNKNOWN: &str = "9f8c3c1e-0000-4000-8000-000000000000";

fn renew(api: &Project, path: &str, term: &Value) -> RequestBuilder {
    api.request(Method::PATCH, path).json(term)
}

/// Rows 7.2-1, 7.2-2, 7.2-4.
#[tokio::test]
async fn a_claim_shows_the_messages_that_it_still_holds() {
    let (api, _) = with_messages(3).await;
    let began = Instant::now();
    let claim = api.claim(2).await;

    let shown = answered(api.get(&claim.path), 200).await;

    let age = shown.json()["age"].as_u64().unwrap();
    assert!(age <= began.elapsed().as_secs() + 1, "{age} s");
    let beginning = format!(r#"{{"age":{age},"ttl":300,"messages":[{{"id":"#);
    assert!(shown.text.starts_with(&beginning), "{}", shown.text);
    assert!(shown.text.ends_with(&format!(r#"}}],"href":"{}"}}"#, claim.path)), "{}", shown.text);
    assert_eq!(pick(&shown.json()["messages"], "href"), pick(&claim.messages, "href"));
    for href in pick(&claim.messages, "href") {
        answered(api.delete(href.as_str().unwrap()), 204).await;
    }
    refused(api.get(&claim.path), 404, NOT_FOUND).await;
    refused(renew(&api, &claim.path, &json!({})), 404, NOT_FOUND).await;
    answered(api.delete(&claim.path), 204).await;
}

/// Rows 7.2-3, 7.3-1, 7.3-4, 7.3-5.
#[tokio::test]
async fn renewing_a_claim_restarts_its_ttl_and_age() {
    let (api, _) = with_messages(1).await;
    let made = answered(api.post("/v2/queues/q/claims", &json!({"ttl": 1000, "grace": 60})), 201).await;
    let path = made.header("location").unwrap();
    let ttl_and_age = async || {
        let claim = answered(api.get(path), 200).await.json();
        (claim["ttl"].as_u64().unwrap(), claim["age"].as_u64().unwrap() / 100)
    };

    api.set_clock_ahead(500).await;
    assert_eq!(ttl_and_age().await, (1000, 5));
    let renewed = answered(renew(&api, path, &json!({"color": "red"})), 204).await;
    assert_eq!((renewed.text.as_str(), ttl_and_age().await), ("", (300, 0)));
    answered(renew(&api, path, &json!({"ttl": 43200, "grace": 100})), 204).await;
    assert_eq!(pick(&answered(api.get(path), 200).await.json()["messages"], "ttl"), [43300]);
    answered(renew(&api, path, &json!({"ttl": 60})), 204).await;
    assert_eq!(ttl_and_age().await, (60, 0));
    api.set_clock_ahead(561).await;
    refused(api.get(path), 404, NOT_FOUND).await;
}

/// Rows 7.3-2, 7.3-3, 7.3-7.
#[tokio::test]
async fn a_renewal_is_validated_before_the_claim_is_looked_up() {
    let (api, _) = with_messages(1).await;
    let claim = api.claim(1).await;

    for path in [claim.path.as_str(), "/v2/queues/q/claims/x", &format!("/v2/queues/missing/claims/{UNKNOWN}")] {
        refused(api.request(Method::PATCH, path), 400, INVALID_BODY).await;
        for value in [json!(null), json!("60"), json!(60.0)] {
            for field in ["ttl", "grace"] {
                refused(renew(&api, path, &json!({field: value})), 400, INVALID_BODY).await;
            }
        }
        refused(renew(&api, path, &json!([])), 400, INVALID_BODY).await;
        for term in [json!({"ttl": 59}), json!({"ttl": 43201}), json!({"grace": -1}), json!({"grace": 43201})] {
            refused(renew(&api, path, &term), 400, INVALID_REQUEST).await;
        }
    }
    assert_eq!(answered(api.get(&claim.path), 200).await.json()["ttl"], 300);
    for term in [json!({"ttl": 60, "grace": 0}), json!({"ttl": 43200, "grace": 43200})] {
        answered(renew(&api, &claim.path, &term), 204).await;
    }
}

/// Rows 6.4-3, 7.2-5, 7.3-6, 7.4-1.
#[tokio::test]
async fn a_claim_exists_only_in_its_own_queue_and_project() {
    let (api, _) = with_messages(1).await;
    let claim = api.claim(1).await;
    api.post_bodies("other", &[json!(1)]).await;
    let stranger = new_movable_project();
    stranger.post_bodies("q", &[json!(1)]).await;

    let upper = claim.id.to_uppercase();
    let plain = claim.id.replace('-', "");
    let long = "9".repeat(5000);
    let mut foreign = vec![(&stranger, claim.path.clone()), (&api, format!("/v2/queues/other/claims/{}", claim.id))];
    for id in [UNKNOWN, "x", "%20", "%FF", "%00", "%E6%BC%A2", upper.as_str(), &plain, &long] {
        foreign.push((&api, format!("/v2/queues/q/claims/{id}")));
        foreign.push((&api, format!("/v2/queues/missing/claims/{id}")));
    }
    for (caller, path) in foreign {
        refused(caller.get(&path), 404, NOT_FOUND).await;
        refused(renew(caller, &path, &json!({})), 404, NOT_FOUND).await;
        assert_eq!(answered(caller.delete(&path), 204).await.text, "");
    }
    let held = answered(api.get(&claim.path), 200).await.json();
    assert_eq!(pick(&held["messages"], "href"), pick(&claim.messages, "href"));
}
