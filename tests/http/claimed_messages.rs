//! Fact sheet 4.6, 6, 6.2, 6.5 and 6.6: how a claim affects operations on its messages.

use serde_json::{Value, json};

use super::{MESSAGES, Project, answered, follow, pick, refused, text, with_messages};

const UNKNOWN: &str = "9f8c3c1e-0000-4000-8000-000000000000";
const REFUSED: &str = "Unable to delete";

async fn bodies_listed(api: &Project, query: &str) -> Vec<Value> {
    pick(&follow(api, &format!("{MESSAGES}?echo=true{query}"), "messages").await.into(), "body")
}

/// Rows 6-2, 6.3-3.
#[tokio::test]
async fn a_claimed_message_has_its_claim_in_every_href() {
    let (api, ids) = with_messages(2).await;
    let claim = api.claim(1).await;

    let href = format!("{MESSAGES}/{}?claim_id={}", ids[0], claim.id);
    let free = format!("{MESSAGES}/{}", ids[1]);
    assert_eq!(pick(&claim.messages, "href"), [href.as_str()]);
    assert_eq!(answered(api.get(&format!("{MESSAGES}/{}", ids[0])), 200).await.json()["href"], href);
    for query in ["echo=true&include_claimed=true".to_owned(), format!("ids={}", ids.join(","))] {
        let page = answered(api.get(&format!("{MESSAGES}?{query}")), 200).await.json();
        assert_eq!(pick(&page["messages"], "href"), [href.as_str(), &free], "{query}");
    }
    assert_eq!(answered(api.get(&href), 200).await.json()["body"], 0);
}

/// Rows 6.2-4, 6.2-15.
#[tokio::test]
async fn claimed_messages_are_listed_only_on_request() {
    let (api, _) = with_messages(30).await;
    api.claim(5).await;
    api.post_bodies("q", &[json!(30)]).await;

    let all: Vec<Value> = (0..31).map(Value::from).collect();
    for (query, shown) in [("", &all[5..]), ("&include_claimed=false", &all[5..]), ("&include_claimed=true", &all)] {
        for limit in [1, 4, 20] {
            assert_eq!(bodies_listed(&api, &format!("&limit={limit}{query}")).await, shown, "{query} {limit}");
        }
    }
}

/// Rows 4.6-2, 4.6-4, 4.6-6, 4.6-8.
#[tokio::test]
async fn stats_count_claimed_and_free_messages() {
    let (api, ids) = with_messages(3).await;
    let counts = async |claimed: u64, free: u64| {
        let stats = answered(api.get("/v2/queues/q/stats"), 200).await.json()["messages"].take();
        assert_eq!((&stats["claimed"], &stats["free"]), (&json!(claimed), &json!(free)), "{stats}");
        assert_eq!(stats["total"], claimed + free);
        stats
    };

    let (one, _two) = (api.claim(2).await, api.claim(1).await);
    let stats = counts(3, 0).await;
    for (key, id) in [("oldest", &ids[0]), ("newest", &ids[2])] {
        assert_eq!(stats[key]["href"], format!("{MESSAGES}/{id}"));
        assert_eq!(stats[key].as_object().unwrap().len(), 3);
    }
    answered(api.delete(text(&one.messages[0]["href"])), 204).await;
    counts(2, 0).await;
    answered(api.delete(&one.path), 204).await;
    counts(1, 1).await;
    api.set_clock_ahead(301).await;
    counts(0, 2).await;
}

/// Rows 6.6-3, 6.6-4, 6.6-5, 6.6-6, 6.6-7, 6.6-8.
#[tokio::test]
async fn deleting_a_claimed_message_requires_its_claim_id() {
    let (api, ids) = with_messages(3).await;
    let (one, two) = (api.claim(1).await, api.claim(1).await);
    api.post_bodies("other", &[json!(1)]).await;
    let elsewhere = answered(api.post("/v2/queues/other/claims", &json!({})), 201).await;
    let elsewhere = elsewhere.header("location").unwrap().rsplit('/').next().unwrap();
    let path = format!("{MESSAGES}/{}", ids[0]);

    let description = refused(api.delete(&path), 403, REFUSED).await;
    assert_eq!(description, "This message is claimed; it cannot be deleted without a valid claim ID.");
    refused(api.delete(&format!("{path}?claim_id=")), 403, REFUSED).await;
    refused(api.delete(&format!("{path}?claim_id={}", two.id)), 403, REFUSED).await;
    let upper = one.id.to_uppercase();
    for claim in ["x", "%00", UNKNOWN, elsewhere, &upper] {
        let description = refused(api.delete(&format!("{path}?claim_id={claim}")), 400, REFUSED).await;
        assert_eq!(description, "The specified claim does not exist or has expired.", "{claim}");
    }
    let malformed = refused(api.delete(&format!("{MESSAGES}/{}?claim_id=x", ids[2])), 400, REFUSED).await;
    assert_eq!(malformed, "The specified claim does not exist or has expired.");
    let unclaimed = format!("{MESSAGES}/{}?claim_id={}", ids[2], one.id);
    let description = refused(api.delete(&unclaimed), 400, REFUSED).await;
    assert_eq!(description, "A claim was specified, but the message is not currently claimed.");
    assert_eq!(bodies_listed(&api, "&include_claimed=true").await, [0, 1, 2]);

    for claim in [one.id.as_str(), one.id.as_str(), "x"] {
        answered(api.delete(&format!("{path}?claim_id={claim}")), 204).await;
    }
    assert_eq!(bodies_listed(&api, "&include_claimed=true").await, [1, 2]);
}

/// Rows 6.5-4, 6.5-6.
#[tokio::test]
async fn bulk_deletion_ignores_claims() {
    let (api, ids) = with_messages(4).await;
    let claim = api.claim(2).await;

    answered(api.delete(&format!("{MESSAGES}?ids={},{}&claim_ids={UNKNOWN}", ids[0], ids[2])), 204).await;

    assert_eq!(bodies_listed(&api, "&include_claimed=true").await, [1, 3]);
    assert_eq!(pick(&answered(api.get(&claim.path), 200).await.json()["messages"], "body"), [1]);
}

/// Rows 6.5-6, 6.5-10.
#[tokio::test]
async fn claimed_messages_are_not_popped() {
    let (api, _) = with_messages(3).await;
    let claim = api.claim(2).await;

    let popped = answered(api.delete(&format!("{MESSAGES}?pop=20&claim_ids={}", claim.id)), 200).await.json();

    assert_eq!(pick(&popped["messages"], "body"), [2]);
    assert_eq!(popped["messages"][0]["claim_count"], 0);
    assert_eq!(bodies_listed(&api, "&include_claimed=true").await, [0, 1]);
}
