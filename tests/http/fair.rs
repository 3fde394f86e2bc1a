//! Fair queues on the wire: `_shards` and `_shards_per_tenant`, `tenant` beside `body`, `prefer=`, detailed stats.

use serde_json::{Value, json};
use sukkal::domain::{Sharding, Tenant as Name};

use super::{
    INVALID_BODY, INVALID_PARAMETER, INVALID_REQUEST, OTHER_CLIENT, Tenant, answered, pick, post_as, refused, tenant,
};
use crate::support::redis::poll_until;
use crate::support::sukkal::CLIENT;

const MESSAGES: &str = "/v2/queues/q/messages";
const CLAIMS: &str = "/v2/queues/q/claims";
/// So many that the tenants of these tests have nothing in common.
const SHARDS: u16 = 64;

/// A project whose queue `q` is fair, with one shard for each tenant.
async fn with_fair_queue() -> Tenant {
    let api = tenant();
    api.create("q", &json!({"_shards": SHARDS, "_shards_per_tenant": 1})).await;
    api
}

/// The shard that a tenant draws there.
fn shard_of(tenant: &str) -> u16 {
    let sharding = Sharding::new(SHARDS, 1).unwrap();
    sharding.draw(&Name::new(tenant).unwrap()).shards[0].number()
}

impl Tenant {
    async fn detailed_stats(&self) -> Value {
        answered(self.get("/v2/queues/q/stats?detailed=true"), 200).await.json()
    }

    /// Posts a message for each of these tenants, which says who it is for.
    async fn post_for(&self, tenants: &[&str]) -> Vec<String> {
        let messages: Vec<Value> = tenants.iter().map(|tenant| json!({"body": tenant, "tenant": tenant})).collect();
        self.post_messages("q", &messages.into()).await
    }

    /// The bodies of what a claim takes, whose query says how much and what it prefers.
    async fn bodies_of_claim(&self, query: &str) -> Vec<Value> {
        let answer = super::send(self.post(&format!("{CLAIMS}?{query}"), &json!({}))).await;
        if answer.status == 204 { Vec::new() } else { pick(&answer.json()["messages"], "body") }
    }
}

#[tokio::test]
async fn a_light_tenant_is_served_beside_a_heavy_one() {
    let api = with_fair_queue().await;
    api.post_for(&["heavy"; 12]).await;
    api.post_for(&["light", "light"]).await;

    let mut claimed = api.bodies_of_claim("limit=4").await;

    claimed.sort_by_key(ToString::to_string);
    assert_eq!(claimed, ["heavy", "heavy", "light", "light"]);
    let popped = answered(api.delete(&format!("{MESSAGES}?pop=20")), 200).await.json();
    assert_eq!(pick(&popped["messages"], "body"), ["heavy"; 10]);
}

#[tokio::test]
async fn messages_say_nothing_of_their_tenants() {
    let api = with_fair_queue().await;
    let plain = tenant();

    assert_eq!(keys_of_documents(&api).await, keys_of_documents(&plain).await);
}

/// The keys of a message in each document that shows it.
async fn keys_of_documents(api: &Tenant) -> Vec<Vec<String>> {
    let id = api.post_for(&["somebody"]).await.remove(0);
    let listed = answered(api.get(&format!("{MESSAGES}?echo=true")), 200).await.json();
    let got = answered(api.get(&format!("{MESSAGES}/{id}")), 200).await.json();
    let claim = answered(api.post(CLAIMS, &json!({})), 201).await;
    let path = claim.header("location").unwrap();
    let claimed = answered(api.get(path), 200).await.json();
    answered(api.delete(path), 204).await;
    let popped = answered(api.delete(&format!("{MESSAGES}?pop=1")), 200).await.json();
    let pages = [listed, claim.json(), claimed, popped].map(|mut page| page["messages"][0].take());
    let keys = |message: &Value| message.as_object().unwrap().keys().cloned().collect();
    pages.iter().chain([&got]).map(keys).collect()
}

#[tokio::test]
async fn detailed_stats_tell_of_shards_and_tenants() {
    let api = with_fair_queue().await;
    let [a, b] = [shard_of("a"), shard_of("b")];
    assert!(a != b);
    api.post_for(&["b", "a", "b", "b"]).await;
    assert_eq!(api.bodies_of_claim(&format!("limit=1&prefer=shard:{b}")).await, ["b"]);
    api.set_clock_ahead(100).await;

    let mut stats = api.detailed_stats().await;

    let brief = answered(api.get("/v2/queues/q/stats?detailed=false"), 200).await.json();
    assert_eq!(brief.as_object().unwrap().keys().collect::<Vec<_>>(), ["messages"]);
    assert_eq!(brief["messages"], stats["messages"].take());
    let mut shards = stats["shards"].take();
    for shard in shards.as_array_mut().unwrap() {
        let age = shard["oldest_age"].take();
        assert!(age.as_u64().is_some_and(|age| (100..130).contains(&age)), "{age}");
    }
    let mut expected = [
        json!({"shard": a, "available": 1, "delayed": 0, "claimed": 0, "oldest_age": null}),
        json!({"shard": b, "available": 2, "delayed": 0, "claimed": 1, "oldest_age": null}),
    ];
    expected.sort_by_key(|shard| shard["shard"].as_u64());
    assert_eq!(shards, json!(expected));
    assert_eq!(stats["unsharded"], json!({"available": 0, "delayed": 0, "claimed": 0, "oldest_age": null}));
    assert_eq!(stats["tenants"], json!([{"tenant": "b", "share": 0.75}, {"tenant": "a", "share": 0.25}]));
    refused(api.get("/v2/queues/q/stats?detailed=much"), 400, INVALID_PARAMETER).await;
}

#[tokio::test]
async fn detailed_stats_of_other_queues_are_there_too() {
    let api = tenant();
    let nothing = json!({"available": 0, "delayed": 0, "claimed": 0, "oldest_age": null});
    let missing = json!({
        "messages": {"claimed": 0, "free": 0, "total": 0}, "shards": [], "unsharded": nothing, "tenants": [],
    });
    assert_eq!(api.detailed_stats().await, missing);
    assert_eq!(api.everything().await, json!([]));

    api.post_bodies("q", &[json!(1), json!(2)]).await;
    api.claim(1).await;

    let stats = api.detailed_stats().await;
    assert_eq!((&stats["shards"], &stats["tenants"]), (&json!([]), &json!([])));
    assert_eq!((&stats["unsharded"]["available"], &stats["unsharded"]["claimed"]), (&json!(1), &json!(1)));
}

#[tokio::test]
async fn a_client_that_names_no_tenant_is_one() {
    let api = with_fair_queue().await;
    post_as(&api.client(OTHER_CLIENT), "q", &[json!(1)]).await;
    api.post_messages("q", &json!([{"body": 1}, {"body": 2}, {"body": 3, "tenant": "named"}])).await;

    let stats = api.detailed_stats().await;

    let shares = json!([
        {"tenant": CLIENT, "share": 0.5},
        {"tenant": OTHER_CLIENT, "share": 0.25},
        {"tenant": "named", "share": 0.25},
    ]);
    assert_eq!(stats["tenants"], shares);
    let mut expected = [CLIENT, OTHER_CLIENT, "named"].map(shard_of);
    expected.sort_unstable();
    assert_eq!(pick(&stats["shards"], "shard"), expected);
}

#[tokio::test]
async fn what_is_no_tenant_is_refused_and_changes_nothing() {
    let api = with_fair_queue().await;
    let longest = "é".repeat(128);
    api.post_for(&[&longest, "\u{0}", " "]).await;
    let before = (api.everything().await, api.detailed_stats().await["tenants"].take());

    for tenant in [json!(""), json!("é".repeat(129)), json!(null), json!(1), json!(true), json!(["a"]), json!({"a": 1})]
    {
        let messages = json!({"messages": [{"body": 1, "tenant": "good"}, {"body": 2, "tenant": tenant}]});
        let refusal = refused(api.post(MESSAGES, &messages), 400, INVALID_BODY).await;
        assert!(refusal.contains("tenant"), "{tenant}: {refusal}");
    }

    assert_eq!((api.everything().await, api.detailed_stats().await["tenants"].take()), before);
}

#[tokio::test]
async fn a_plain_queue_looks_at_no_tenant() {
    let api = tenant();
    api.create("q", &json!({"_shards": 1})).await;
    let tenants = json!(["", "é".repeat(129), null, 1, ["a"]]);
    let messages: Vec<Value> = tenants
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
        .map(|(n, tenant)| json!({"body": n, "tenant": tenant}))
        .collect();

    api.post_messages("q", &messages.into()).await;

    assert_eq!(api.feed("q", "").await, [0, 1, 2, 3, 4]);
    assert_eq!(api.detailed_stats().await["tenants"], json!([]));
    assert_eq!(api.bodies_of_claim("limit=2&prefer=tenant:somebody").await, [0, 1]);
}

#[tokio::test]
async fn a_queue_has_1_to_1024_shards_and_a_tenant_no_more_than_the_queue() {
    let api = tenant();
    api.create("patched", &json!({"_shards": 8, "_shards_per_tenant": 8})).await;
    let before = api.everything().await;
    for (keys, culprit) in [
        (json!({"_shards": 0}), "_shards"),
        (json!({"_shards": -1}), "_shards"),
        (json!({"_shards": 1_025}), "_shards"),
        (json!({"_shards": "64"}), "_shards"),
        (json!({"_shards": 2.5}), "_shards"),
        (json!({"_shards": 4, "_shards_per_tenant": 0}), "_shards_per_tenant"),
        (json!({"_shards": 4, "_shards_per_tenant": 5}), "_shards_per_tenant"),
        (json!({"_shards": 4}), "_shards_per_tenant"),
        (json!({"_shards": 4, "_shards_per_tenant": [1]}), "_shards_per_tenant"),
    ] {
        // The queue that is patched has 8 for each tenant already.
        let is_complete = keys == json!({"_shards": 4});
        if !is_complete {
            assert!(refused(api.put("/v2/queues/new").json(&keys), 400, INVALID_REQUEST).await.contains(culprit));
        }
        let add =
            |(key, value): (&String, &Value)| json!({"op": "add", "path": format!("/metadata/{key}"), "value": value});
        let patch: Vec<Value> = keys.as_object().unwrap().iter().map(add).collect();
        assert!(refused(api.patch("patched", &patch.into()), 400, INVALID_BODY).await.contains(culprit), "{keys}");
        assert_eq!(api.everything().await, before, "{keys}");
    }

    for keys in [json!({"_shards": 1_024, "_shards_per_tenant": 1_024}), json!({"_shards": 1, "_shards_per_tenant": 1})]
    {
        api.create("q", &keys).await;
        let stored = answered(api.get("/v2/queues/q"), 200).await.json();
        assert_eq!(
            (&stored["_shards"], &stored["_shards_per_tenant"]),
            (&keys["_shards"], &keys["_shards_per_tenant"])
        );
        answered(api.delete("/v2/queues/q"), 204).await;
    }
}

#[tokio::test]
async fn a_request_names_at_most_64_tenants_however_many_shards_each_has() {
    let api = tenant();
    api.create("q", &json!({"_shards": 1_024, "_shards_per_tenant": 1_024})).await;
    let names: Vec<String> = (0..65).map(|number| format!("tenant {number}")).collect();
    let messages_for = |count: usize| -> Vec<Value> {
        let twice = names[..count].iter().chain(&names[..count]);
        twice.map(|name| json!({"body": 1, "tenant": name})).collect()
    };

    let complaint = refused(api.post(MESSAGES, &json!({"messages": messages_for(65)})), 400, INVALID_REQUEST).await;

    assert!(complaint.contains("65 tenants") && complaint.contains("at most 64"), "{complaint}");
    assert_eq!(api.stats("q").await["total"], 0);
    api.post_messages("q", &messages_for(64).into()).await;
    assert_eq!(api.stats("q").await["total"], 128);
    // Another queue does not look at tenants.
    api.post_messages("plain", &messages_for(65).into()).await;
}

#[tokio::test]
async fn a_queue_becomes_fair_with_the_next_post() {
    let api = tenant();
    api.post_for(&["a", "b"]).await;
    let set = |shards: u16| {
        let value = |key: &str, value: u16| json!({"op": "add", "path": format!("/metadata/{key}"), "value": value});
        api.patch("q", &json!([value("_shards", shards), value("_shards_per_tenant", 1)]))
    };

    answered(set(SHARDS), 200).await;
    api.post_for(&["a"]).await;

    let stats = api.detailed_stats().await;
    assert_eq!(pick(&stats["shards"], "shard"), [shard_of("a")]);
    assert_eq!(stats["unsharded"]["available"], 2);
    answered(set(1), 200).await;
    assert_eq!(api.bodies_of_claim("limit=9").await, ["a", "a", "b"]);
}

#[tokio::test]
async fn a_claim_may_prefer_a_shard_or_a_tenant() {
    let api = with_fair_queue().await;
    api.post_for(&["a", "b", "a", "b", "a", "b"]).await;

    assert_eq!(api.bodies_of_claim("limit=2&prefer=tenant:b").await, ["b", "b"]);
    assert_eq!(api.bodies_of_claim(&format!("limit=2&prefer=shard:{}", shard_of("a"))).await, ["a", "a"]);
    assert_eq!(api.bodies_of_claim("limit=9&prefer=tenant:b").await, ["b"]);
    assert_eq!(api.bodies_of_claim("limit=9&prefer=tenant:b").await, ["a"]);
    assert_eq!(api.bodies_of_claim("limit=9&prefer=tenant:b").await, [Value::Null; 0]);
}

#[tokio::test]
async fn what_is_no_preference_is_refused_and_claims_nothing() {
    let api = with_fair_queue().await;
    api.post_for(&["a"]).await;
    let long = format!("tenant:{}", "x".repeat(129));
    let rubbish = [
        "3",
        "a",
        "shard",
        "shard:",
        "shard:1024",
        "shard:-1",
        "shard:1.0",
        "shard:a",
        "shard:1:2",
        "tenant",
        "tenant:",
    ];

    for queue in ["q", "missing"] {
        for prefer in rubbish.into_iter().chain(["lot:1", "Shard:1", &long]) {
            let path = format!("/v2/queues/{queue}/claims?prefer={prefer}");
            refused(api.post(&path, &json!({})), 400, INVALID_PARAMETER).await;
        }
    }

    assert_eq!(api.stats("q").await["claimed"], 0);
    assert_eq!(api.bodies_of_claim("prefer=shard:1023").await, ["a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_posts_answer_two_who_wait() {
    let api = with_fair_queue().await;
    let channel = format!("sukkal:{{{}/q}}:queue", api.project);
    let waiting: Vec<_> =
        (0..2).map(|_| tokio::spawn(super::send(api.post(&format!("{CLAIMS}?limit=1&wait=30"), &json!({}))))).collect();
    poll_until("somebody waits", || {
        api.stage.redis.command(&["PUBSUB", "SHARDNUMSUB", &channel]).items()[1].as_int() == 1
    });

    for tenant in ["a", "b"] {
        api.post_for(&[tenant]).await;
    }

    let mut claimed = Vec::new();
    for answer in waiting {
        let answer = answer.await.unwrap();
        assert_eq!(answer.status, 201, "{answer:?}");
        claimed.extend(pick(&answer.json()["messages"], "body"));
    }
    claimed.sort_by_key(ToString::to_string);
    assert_eq!(claimed, ["a", "b"]);
}
