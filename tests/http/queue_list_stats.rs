//! Extensions of the list of queues: statistics, and search by prefix.

use serde_json::{Value, json};

use super::{INVALID_PARAMETER, Project, answered, follow, new_movable_project, new_project, pick, refused};

async fn list(api: &Project, query: &str) -> Value {
    answered(api.get(&format!("/v2/queues?{query}")), 200).await.json()
}

#[tokio::test]
async fn a_list_with_stats_counts_messages_and_what_became_of_them() {
    let api = new_movable_project();
    api.create("empty", &json!({})).await;
    answered(api.post("/v2/queues/empty/pause", &json!({})), 204).await;
    api.create("q", &json!({"_default_message_delay": 1, "_max_claim_count": 1, "_dead_letter_queue": "letters"}))
        .await;
    let ttls = json!([
        {"body": 0, "delay": 0, "ttl": 60}, {"body": 1, "delay": 0}, {"body": 2, "delay": 0},
        {"body": 3, "delay": 0}, {"body": 4, "delay": 0}, {"body": 5, "delay": 900},
    ]);
    api.post_messages("q", &ttls).await;
    api.set_clock_ahead(61).await;
    let claim = api.claim(2).await;
    answered(api.delete(&claim.path), 204).await;
    answered(api.delete("/v2/queues/q/messages?pop=3"), 200).await;
    let claim = api.claim(1).await;
    assert_eq!(claim.messages[0]["body"], 4);

    let page = list(&api, "with_stats=true").await;

    let nothing = json!({"posted": 0, "claimed": 0, "deleted": 0, "expired": 0, "dead_lettered": 0});
    let empty =
        json!({"available": 0, "claimed": 0, "delayed": 0, "oldest_age": null, "paused": true, "totals": nothing});
    assert_eq!(page["queues"][0], json!({"name": "empty", "stats": empty, "href": "/v2/queues/empty"}));
    let totals = json!({"posted": 2, "claimed": 0, "deleted": 0, "expired": 0, "dead_lettered": 0});
    assert_eq!((&page["queues"][1]["name"], &page["queues"][1]["stats"]["totals"]), (&json!("letters"), &totals));
    assert!(page["queues"][1]["stats"]["oldest_age"].is_u64(), "{page}");
    let totals = json!({"posted": 6, "claimed": 3, "deleted": 1, "expired": 1, "dead_lettered": 2});
    let stats =
        json!({"available": 0, "claimed": 1, "delayed": 1, "oldest_age": null, "paused": false, "totals": totals});
    assert_eq!(page["queues"][2]["stats"], stats);
}

#[tokio::test]
async fn stats_are_on_every_page_and_beside_metadata() {
    let api = new_project();
    for name in ["a", "b", "c"] {
        api.create(name, &json!({"kind": 1})).await;
        api.post_bodies(name, &[json!(1)]).await;
    }

    let all = follow(&api, "/v2/queues?with_stats=true&limit=2&detailed=true", "queues").await;
    assert_eq!(pick(&all.clone().into(), "name"), ["a", "b", "c"]);
    for queue in &all {
        assert_eq!((&queue["stats"]["totals"]["posted"], &queue["metadata"]["kind"]), (&json!(1), &json!(1)));
    }
    let filtered = list(&api, "with_stats=true&kind=1&name=b").await;
    assert_eq!(pick(&filtered["queues"], "stats")[0]["available"], 1);
    for query in ["with_stats=false", "with_stats="] {
        assert_eq!(list(&api, query).await["queues"][0], json!({"name": "a", "href": "/v2/queues/a"}), "{query}");
    }
    refused(api.get("/v2/queues?with_stats=maybe"), 400, INVALID_PARAMETER).await;
}

#[tokio::test]
async fn a_prefix_combines_with_the_other_parameters() {
    let api = new_project();
    for name in ["a", "ab", "ab-1", "ab-2", "ab_1", "b"] {
        api.create(name, &json!({"long": i32::from(name.len() > 2)})).await;
    }

    for (query, names) in [
        ("name_prefix=ab", &["ab", "ab-1", "ab-2", "ab_1"][..]),
        ("name_prefix=ab&marker=ab-1", &["ab-2", "ab_1"]),
        ("name_prefix=ab&marker=b", &[]),
        ("name_prefix=ab&name=1", &["ab-1", "ab_1"]),
        ("name_prefix=ab&long=1&limit=2", &["ab-1", "ab-2"]),
        ("name_prefix=ab&with_count=true&limit=1", &["ab"]),
        ("name_prefix=%C3%A9", &[]),
        ("name_prefix=a%00", &[]),
        ("name_prefix=", &["a", "ab", "ab-1", "ab-2", "ab_1", "b"]),
    ] {
        assert_eq!(pick(&list(&api, query).await["queues"], "name"), names, "{query}");
    }
    assert_eq!(list(&api, "name_prefix=ab&with_count=true").await["count"], 6);
    let link = &list(&api, "with_stats=on&name_prefix=ab&limit=1").await["links"][0]["href"];
    assert_eq!(link, "/v2/queues?limit=1&name_prefix=ab&with_stats=true&marker=ab");
    let all = follow(&api, "/v2/queues?name_prefix=ab&limit=1", "queues").await;
    assert_eq!(all.len(), 4);
}
