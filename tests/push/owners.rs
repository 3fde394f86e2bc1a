//! What the owner of a subscription can do with its deliveries.

use serde_json::json;

use super::endpoint::Endpoint;
use super::{Bench, id, numbers};

async fn a_paused_subscription_continues_where_it_was(bench: Bench) {
    let endpoint = Endpoint::start();
    let created = bench.subscribe(&endpoint.url("/"), json!({"ordered": true})).await;
    bench.post(&numbers(0, 2)).await;
    endpoint.wait_for(2).await;

    bench.act(&id(&created), "pause", &json!({})).await;
    bench.post(&numbers(2, 2)).await;
    assert_eq!(bench.figures(&id(&created)).await["state"], "paused");
    bench.act(&id(&created), "resume", &json!({})).await;

    assert_eq!(endpoint.bodies(4).await, numbers(0, 4));
}

async fn messages_are_redelivered_by_their_ids(bench: Bench) {
    let endpoint = Endpoint::start();
    let created = bench.subscribe(&endpoint.url("/"), json!({})).await;
    let ids = bench.post(&numbers(0, 3)).await;
    bench.wait_until(&id(&created), |figures| figures["delivered"] == 3).await;

    bench.act(&id(&created), "redeliver", &json!({"ids": [ids[1]]})).await;

    let received = endpoint.wait_for(4).await;
    assert_eq!(received[3].header("webhook-id"), ids[1]);
    let figures = bench.wait_until(&id(&created), |figures| figures["delivered"] == 4).await;
    assert_eq!((&figures["missed"], &figures["retrying"]), (&json!(0), &json!(0)));
}

async fn messages_are_redelivered_from_a_time_on(bench: Bench) {
    let endpoint = Endpoint::start();
    let created = bench.subscribe(&endpoint.url("/"), json!({"ordered": true})).await;
    bench.post(&numbers(0, 3)).await;
    bench.wait_until(&id(&created), |figures| figures["delivered"] == 3).await;

    bench.act(&id(&created), "redeliver", &json!({"since": "1970-01-01T00:00:00Z"})).await;

    assert_eq!(endpoint.bodies(6).await, [numbers(0, 3), numbers(0, 3)].concat());
    let figures = bench.wait_until(&id(&created), |figures| figures["delivered"] == 6).await;
    assert_eq!(figures["missed"], 0);
}

async fn changed_options_apply_to_the_next_message(bench: Bench) {
    let (before, after) = (Endpoint::start(), Endpoint::start());
    let created = bench.subscribe(&before.url("/"), json!({})).await;
    bench.post(&numbers(0, 1)).await;
    before.wait_for(1).await;

    let path = format!("/v2/queues/q/subscriptions/{}", id(&created));
    let request = bench.api.request(reqwest::Method::PATCH, &path);
    let patched = request.json(&json!({"subscriber": after.url("/new")})).send().await.unwrap();
    assert_eq!(patched.status(), 204);
    bench.post(&numbers(1, 1)).await;

    assert_eq!(after.wait_for(1).await[0].path, "/new");
    assert_eq!(before.received().len(), 1);
}

super::over_each_store! {
    a_paused_subscription_continues_where_it_was,
    messages_are_redelivered_by_their_ids,
    messages_are_redelivered_from_a_time_on,
    changed_options_apply_to_the_next_message,
}
