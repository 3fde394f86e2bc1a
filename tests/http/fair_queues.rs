//! Fair queues in the API: `_shards`, `_shards_per_tenant`, `tenant` beside `body`, `prefer=` and
//! detailed stats.

use serde_json::{Value, json};
use sukkal_domain::{Sharding, Tenant};

use super::warnings::warnings_of;
use super::{
    CLAIMS, INVALID_BODY, INVALID_PARAMETER, INVALID_REQUEST, MESSAGES, OTHER_CLIENT, Project, answered,
    new_movable_project, new_project, pick, post_as, refused,
};
use support::sukkal::CLIENT;

/// Number of shards: so high that the tenants of these tests share no shard.
const SHARDS: u16 = 64;

/// Returns a new project with the fair queue `q`, in which each tenant has one shard.
async fn with_fair_queue() -> Project {
    let api = new_movable_project();
    api.create("q", &json!({"_shards": SHARDS, "_shards_per_tenant": 1})).await;
    api
}

/// Returns the shard that is assigned to a tenant in that queue.
fn shard_of(tenant: &str) -> u16 {
    let sharding = Sharding::new(SHARDS, 1).unwrap();
    sharding.assign(&Tenant::new(tenant).unwrap()).shards[0].number()
}

impl Project {
    async fn detailed_stats(&self) -> Value {
        answered(self.get("/v2/queues/q/stats?detailed=true"), 200).await.json()
    }

    /// Posts a message for each tenant. The body is the name of the tenant.
    async fn post_for(&self, tenants: &[&str]) -> Vec<String> {
        let messages: Vec<Value> = tenants.iter().map(|tenant| json!({"body": tenant, "tenant": tenant})).collect();
        self.post_messages("q", &messages.into()).await
    }

    /// Claims messages and returns their bodies. `query` has the limit and the preference.
    async fn bodies_of_claim(&self, query: &str) -> Vec<Value> {
        let answer = super::send(self.post(&format!("{CLAIMS}?{query}"), &json!({}))).await;
        if answer.status == 204 { Vec::new() } else { pick(&answer.json()["messages"], "body") }
    }
}

#[tokio::test]
async fn a_tenant_with_few_messages_does_not_wait_for_one_with_many() {
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
async fn message_documents_do_not_show_the_tenant() {
    let api = with_fair_queue().await;
    let plain = new_movable_project();

    assert_eq!(message_keys_per_document(&api).await, message_keys_per_document(&plain).await);
}

/// Returns the keys of a message in each kind of document that shows it.
async fn message_keys_per_document(api: &Project) -> Vec<Vec<String>> {
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
async fn detailed_stats_show_shards_and_tenants() {
    let api = with_fair_queue().await;
    let [a, b] = [shard_of("a"), shard_of("b")];
    assert!(a != b);
    api.post_for(&["b", "a", "b", "b"]).await;
    assert_eq!(api.bodies_of_claim(&format!("limit=1&prefer=shard:{b}")).await, ["b"]);
    api.set_clock_ahead(100).await;

    let mut stats = api.detailed_stats().await;

    let mut brief = answered(api.get("/v2/queues/q/stats?detailed=false"), 200).await.json();
    // A second may begin between the two requests.
    for document in [&mut brief, &mut stats] {
        for message in ["newest", "oldest"] {
            document["messages"][message]["age"].take();
        }
    }
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
async fn detailed_stats_exist_for_plain_and_missing_queues() {
    let api = new_movable_project();
    let nothing = json!({"available": 0, "delayed": 0, "claimed": 0, "oldest_age": null});
    let missing = json!({
        "messages": {"claimed": 0, "free": 0, "total": 0}, "shards": [], "unsharded": nothing, "tenants": [],
    });
    assert_eq!(api.detailed_stats().await, missing);
    assert_eq!(api.snapshot().await, json!([]));

    api.post_bodies("q", &[json!(1), json!(2)]).await;
    api.claim(1).await;

    let stats = api.detailed_stats().await;
    assert_eq!((&stats["shards"], &stats["tenants"]), (&json!([]), &json!([])));
    assert_eq!((&stats["unsharded"]["available"], &stats["unsharded"]["claimed"]), (&json!(1), &json!(1)));
}

#[tokio::test]
async fn the_client_id_is_the_default_tenant() {
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
async fn an_invalid_tenant_is_refused_and_changes_nothing() {
    let api = with_fair_queue().await;
    let longest = "é".repeat(128);
    api.post_for(&[&longest, "\u{0}", " "]).await;
    let before = (api.snapshot().await, api.detailed_stats().await["tenants"].take());

    for tenant in [json!(""), json!("é".repeat(129)), json!(null), json!(1), json!(true), json!(["a"]), json!({"a": 1})]
    {
        let messages = json!({"messages": [{"body": 1, "tenant": "good"}, {"body": 2, "tenant": tenant}]});
        let refusal = refused(api.post(MESSAGES, &messages), 400, INVALID_BODY).await;
        assert!(refusal.contains("tenant"), "{tenant}: {refusal}");
    }

    assert_eq!((api.snapshot().await, api.detailed_stats().await["tenants"].take()), before);
}

#[tokio::test]
async fn a_plain_queue_ignores_tenants() {
    let api = new_movable_project();
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
async fn a_preference_for_shards_that_the_queue_does_not_have_gets_a_warning() {
    let api = new_project();
    api.create("fair", &json!({"_shards": 4, "_shards_per_tenant": 1})).await;
    api.create("plain", &json!({})).await;
    let warned =
        |shards: u16| format!("query parameter \"prefer\" has no effect, because \"_shards\" of the queue is {shards}");
    for (queue, preference, expected) in [
        ("fair", "shard:3", None),
        ("fair", "shard:4", Some(warned(4))),
        ("fair", "tenant:a", None),
        ("plain", "tenant:a", Some(warned(1))),
    ] {
        let claim = api.post(&format!("/v2/queues/{queue}/claims?prefer={preference}"), &json!({}));
        assert_eq!(warnings_of(claim, 204).await, Vec::from_iter(expected), "{queue} {preference}");
    }

    // The service has read the queue before it was fair.
    let patch = json!([{"op": "add", "path": "/metadata/_shards", "value": 4}]);
    answered(api.patch("plain", &patch), 200).await;
    assert_eq!(warnings_of(api.post("/v2/queues/plain/claims?prefer=tenant:a", &json!({})), 204).await, [""; 0]);
}

#[tokio::test]
async fn shard_counts_are_limited() {
    let api = new_movable_project();
    api.create("patched", &json!({"_shards": 8, "_shards_per_tenant": 8})).await;
    let before = api.snapshot().await;
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
        // The patched queue already has 8 shards per tenant.
        let is_complete = keys == json!({"_shards": 4});
        if !is_complete {
            assert!(refused(api.put("/v2/queues/new").json(&keys), 400, INVALID_REQUEST).await.contains(culprit));
        }
        let add =
            |(key, value): (&String, &Value)| json!({"op": "add", "path": format!("/metadata/{key}"), "value": value});
        let patch: Vec<Value> = keys.as_object().unwrap().iter().map(add).collect();
        assert!(refused(api.patch("patched", &patch.into()), 400, INVALID_BODY).await.contains(culprit), "{keys}");
        assert_eq!(api.snapshot().await, before, "{keys}");
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
async fn a_post_has_at_most_64_distinct_tenants() {
    let api = new_movable_project();
    api.create("q", &json!({"_shards": 1_024, "_shards_per_tenant": 1_024})).await;
    let names: Vec<String> = (0..65).map(|number| format!("tenant {number}")).collect();
    let messages_for = |count: usize| -> Vec<Value> {
        let twice = names[..count].iter().chain(&names[..count]);
        twice.map(|name| json!({"body": 1, "tenant": name})).collect()
    };

    let description = refused(api.post(MESSAGES, &json!({"messages": messages_for(65)})), 400, INVALID_REQUEST).await;

    assert!(description.contains("65 tenants") && description.contains("at most 64"), "{description}");
    assert_eq!(api.stats("q").await["total"], 0);
    api.post_messages("q", &messages_for(64).into()).await;
    assert_eq!(api.stats("q").await["total"], 128);
    // A plain queue ignores tenants.
    api.post_messages("plain", &messages_for(65).into()).await;
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
async fn an_invalid_preference_is_refused_and_claims_nothing() {
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
        for prefer in rubbish.into_iter().chain(["assignment:1", "Shard:1", &long]) {
            let path = format!("/v2/queues/{queue}/claims?prefer={prefer}");
            refused(api.post(&path, &json!({})), 400, INVALID_PARAMETER).await;
        }
    }

    assert_eq!(api.stats("q").await["claimed"], 0);
    assert_eq!(api.bodies_of_claim("prefer=shard:1023").await, ["a"]);
}
