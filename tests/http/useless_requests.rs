//! `Sukkal-Warning` on requests that succeed and do less than their sender may believe.

use reqwest::Method;
use serde_json::{Value, json};

use super::warnings::{post, warnings_of};
use super::{OTHER_CLIENT, Project, answered, new_project, refused};

async fn create(api: &Project, queue: &str, metadata: &Value) {
    answered(api.put(&format!("/v2/queues/{queue}")).json(metadata), 201).await;
}

#[tokio::test]
async fn a_return_of_a_message_that_the_claim_does_not_hold_gets_a_warning() {
    let api = new_project();
    answered(post(&api, "q", &json!([{"body": 1}, {"body": 2}])), 201).await;
    let claim = answered(api.post("/v2/queues/q/claims", &json!({})), 201).await.json();
    let href = claim["messages"][0]["href"].as_str().unwrap();
    let (message, claim) = href.split_once("?claim_id=").unwrap();
    let id = message.rsplit('/').next().unwrap();
    let give_back = |id: &str| api.delete(&format!("/v2/queues/q/claims/{claim}/messages/{id}?delay=5"));

    let not_held = ["the claim does not hold the message, so nothing was returned"];
    assert_eq!(warnings_of(give_back("abc"), 204).await, not_held);
    assert_eq!(warnings_of(give_back(id), 204).await, [""; 0]);
    assert_eq!(warnings_of(give_back(id), 204).await, not_held);
}

#[tokio::test]
async fn a_paused_queue_says_so_and_so_does_one_that_was_created_paused() {
    let api = new_project();
    let pause = || api.request(Method::POST, "/v2/queues/q/pause");
    let created = ["the queue did not exist; an empty queue was created and paused"];
    assert_eq!(warnings_of(pause(), 204).await, created);
    assert_eq!(warnings_of(pause(), 204).await, [""; 0]);

    let paused = ["the queue is paused, so nobody gets its messages until it is resumed"];
    assert_eq!(warnings_of(api.post("/v2/queues/q/claims", &json!({})), 204).await, paused);
    assert_eq!(warnings_of(api.delete("/v2/queues/q/messages?pop=1"), 200).await, paused);
}

/// The headers decide who asks, so the parameters look as if they did.
#[tokio::test]
async fn the_identity_in_the_query_of_a_stream_gets_a_warning_beside_that_of_the_headers() {
    let api = new_project();
    create(&api, "q", &json!({})).await;
    let stream = |query: &str| api.get(&format!("/v2/queues/q/messages?{query}")).header("Accept", "text/event-stream");
    let warned = async |query: String| {
        let response = stream(&query).send().await.unwrap();
        let values = response.headers().get_all("sukkal-warning").iter();
        values.map(|value| value.to_str().unwrap().to_owned()).collect::<Vec<_>>()
    };

    let expected = [
        "query parameter \"project_id\" has no effect beside \"X-Project-ID\"",
        "query parameter \"client_id\" has no effect beside \"Client-ID\"",
    ];
    assert_eq!(warned(format!("project_id=other&client_id={OTHER_CLIENT}")).await, expected);
    assert_eq!(warned("echo=true".to_owned()).await, [""; 0]);
}

#[tokio::test]
async fn the_last_event_of_a_stream_gets_a_warning_on_a_list() {
    let api = new_project();
    create(&api, "q", &json!({})).await;

    let list = api.get("/v2/queues/q/messages").header("Last-Event-ID", "x");

    let expected = "Last-Event-ID has no effect on a list; send Accept: text/event-stream, or use \"marker\"";
    assert_eq!(warnings_of(list, 200).await, [expected]);
}

/// Without the field, a purge deletes everything.
#[tokio::test]
async fn a_purge_with_its_field_in_the_query_is_refused() {
    let api = new_project();
    answered(post(&api, "q", &json!([{"body": 1}])), 201).await;

    let purge = api.request(Method::POST, "/v2/queues/q/purge?resource_types=subscriptions");

    let text = refused(purge, 400, "Invalid API request").await;
    assert_eq!(text, "\"resource_types\" is not a query parameter; send it in the body");
    assert_eq!(api.stats("q").await["total"], 1);
}

#[tokio::test]
async fn options_of_a_subscription_without_an_effect_beside_others_get_a_warning() {
    let api = new_project();
    create(&api, "strict", &json!({"_retry_policy": {"ignore_subscription_override": true}})).await;
    let subscribe = |queue: &str, options: Value| {
        let document = json!({ "subscriber": "http://example.org/", "options": options });
        api.post(&format!("/v2/queues/{queue}/subscriptions"), &document)
    };

    let unknown = [
        "unknown subscription option \"RedrivePolicy\" has no effect; did you mean \"dead_letter_queue\"?",
        "unknown subscription option \"colour\" has no effect",
    ];
    assert_eq!(warnings_of(subscribe("r", json!({"RedrivePolicy": {}, "colour": "red"})), 201).await, unknown);
    let ordered = ["the option \"concurrency\" has no effect beside \"ordered\""];
    assert_eq!(warnings_of(subscribe("q", json!({"ordered": true, "concurrency": 4})), 201).await, ordered);
    let of_queue = ["the option \"_retry_policy\" has no effect, because \"ignore_subscription_override\" gives \
                     precedence to the queue's policy"];
    let own = json!({"_retry_policy": {"minimum_delay": 100, "maximum_delay": 110}});
    assert_eq!(warnings_of(subscribe("strict", own.clone()), 201).await, of_queue);
    assert_eq!(warnings_of(subscribe("lenient", own), 201).await, [""; 0]);
}

#[tokio::test]
async fn metadata_that_does_not_do_what_it_says_gets_a_warning() {
    let api = new_project();
    for (number, (metadata, expected)) in [
        (
            json!({"_dead_letter_queue": "q0", "_max_claim_count": 1}),
            "\"_dead_letter_queue\" is the queue itself, so dead letters come back as new messages",
        ),
        (json!({"_shards_per_tenant": 1}), "\"_shards_per_tenant\" has no effect without \"_shards\"; set both"),
        (json!({"_flavor": "fast"}), "\"_flavor\" has no effect, because the service has no pools"),
    ]
    .into_iter()
    .enumerate()
    {
        let request = api.put(&format!("/v2/queues/q{number}")).json(&metadata);
        assert_eq!(warnings_of(request, 201).await, [expected]);
    }
}

#[tokio::test]
async fn what_has_no_effect_on_a_subscription_gets_a_warning() {
    let api = new_project();
    let trust = json!({"subscriber": "http://example.org/", "options": {"trust_id": "t"}});
    let subscription = api.post("/v2/queues/q/subscriptions", &trust);
    let subscription = answered(subscription, 201).await;
    let expected = "the option \"trust_id\" has no effect for this kind of subscriber";
    assert_eq!(subscription.headers["sukkal-warning"], expected);
    let path = format!("/v2/queues/q/subscriptions/{}", subscription.json()["subscription_id"].as_str().unwrap());

    let confirm = |confirmed: bool| api.put(&format!("{path}/confirm")).json(&json!({ "confirmed": confirmed }));
    let not_required = ["\"confirmed\" has no effect, because the service requires no confirmation from this \
                         subscriber; pause or delete the subscription instead"];
    assert_eq!(warnings_of(confirm(false), 204).await, not_required);
    assert_eq!(warnings_of(confirm(true), 204).await, [""; 0]);
}

#[tokio::test]
async fn a_redelivery_of_messages_that_do_not_exist_gets_a_warning() {
    let api = new_project();
    let posted = answered(post(&api, "q", &json!([{"body": 1}, {"body": 2}, {"body": 3}])), 201).await.json();
    let ids: Vec<&str> = posted["resources"].as_array().unwrap().iter().map(last_segment).collect();
    let subscriber = json!({"subscriber": "http://example.org/"});
    let created = answered(api.post("/v2/queues/q/subscriptions", &subscriber), 201).await.json();
    let id = created["subscription_id"].as_str().unwrap();
    let again = |ids: &[&str]| api.post(&format!("/v2/queues/q/subscriptions/{id}/redeliver"), &json!({ "ids": ids }));

    assert_eq!(warnings_of(again(&ids), 202).await, [""; 0]);
    for (deleted, text) in [
        (ids[0], "one of the messages does not exist, so it is not delivered again"),
        (ids[1], "2 of the messages do not exist, so they are not delivered again"),
    ] {
        answered(api.delete(&format!("/v2/queues/q/messages/{deleted}")), 204).await;
        assert_eq!(warnings_of(again(&ids), 202).await, [text]);
    }
}

#[tokio::test]
async fn a_field_at_the_wrong_place_is_named_with_its_place() {
    let api = new_project();
    answered(post(&api, "q", &json!([{"body": 1}])), 201).await;
    let claim = api.post("/v2/queues/q/claims", &json!({"limit": 1, "ttl": 60}));
    assert_eq!(warnings_of(claim, 201).await, ["field \"limit\" has no effect here; it is a query parameter"]);
    let claim = api.post("/v2/queues/q/claims", &json!({"VisibilityTimeout": 60}));
    let expected = "field \"VisibilityTimeout\" has no effect here; it is \"ttl\" in this API";
    assert_eq!(warnings_of(claim, 204).await, [expected]);
    let subscriber = json!({"subscriber": "http://example.org/", "ordered": true});
    let subscription = api.post("/v2/queues/q/subscriptions", &subscriber);
    let expected = "field \"ordered\" has no effect here; it is an option; send it in \"options\"";
    assert_eq!(warnings_of(subscription, 201).await, [expected]);
}

/// Unknown names could otherwise take the place of what matters.
#[tokio::test]
async fn warnings_about_unknown_names_come_last_and_the_last_one_says_if_there_are_others() {
    let api = new_project();
    let metadata = json!({"_a": 1, "_b": 1, "_c": 1, "_d": 1, "_e": 1, "_max_claim_count": 3});

    let warnings = warnings_of(api.put("/v2/queues/q?limt=1").json(&metadata), 201).await;

    assert_eq!(warnings[0], "\"_max_claim_count\" has no effect without \"_dead_letter_queue\"; set both");
    let unknown = "has no effect; name keys of your own without a leading \"_\"";
    assert_eq!(warnings[1..4], ["_a", "_b", "_c"].map(|key| format!("unknown metadata key \"{key}\" {unknown}")));
    assert_eq!(warnings[4..], ["there are other warnings, which are left out"]);
}

#[tokio::test]
async fn a_credential_that_nothing_verifies_gets_a_warning() {
    let api = new_project();
    for (header, value) in [("Authorization", "Bearer abc"), ("X-Auth-Token", "abc")] {
        let expected = format!("{header} is ignored, because no strategy in auth.strategies verifies it");
        assert_eq!(warnings_of(api.get("/v2/queues").header(header, value), 200).await, [expected]);
    }
    assert_eq!(warnings_of(api.get("/v2/queues").header("Authorization", "Basic abc"), 200).await, [""; 0]);
    let unsigned = api.get("/v2/queues").header("URL-Paths", "/v2/queues/q/messages");
    assert_eq!(warnings_of(unsigned, 200).await, ["\"URL-Paths\" has no effect without \"URL-Signature\"; set both"]);
}

/// Browsers do not show the headers of a stream.
#[tokio::test]
async fn the_warnings_of_an_event_stream_are_comments_too() {
    let api = new_project();
    let stream = api.get("/v2/queues/q/messages?include_clamied=true").header("Accept", "text/event-stream");

    let mut response = stream.send().await.unwrap();
    let mut start = String::new();
    while !start.contains("retry:") {
        start += str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap();
    }

    let [missing, unknown] = [
        "the queue does not exist",
        "unknown query parameter \"include_clamied\" has no effect; did you mean \"include_claimed\"?",
    ];
    assert_eq!(start, format!(": warning: {missing}\n\n: warning: {unknown}\n\nretry: 1000\n\n"));
}

#[tokio::test]
async fn words_of_other_services_are_translated() {
    let api = new_project();
    let metadata = json!({"RedrivePolicy": 1, "MessageRetentionPeriod": 600, "colour": "red"});
    let meant = |key: &str, known: &str| {
        format!("metadata key \"{key}\" is one of your own, which the service does not use; did you mean \"{known}\"?")
    };

    let expected =
        [meant("RedrivePolicy", "_dead_letter_queue"), meant("MessageRetentionPeriod", "_default_message_ttl")];
    assert_eq!(warnings_of(api.put("/v2/queues/q").json(&metadata), 201).await, expected);
    let message = json!([{"body": 1, "MessageGroupId": "a"}]);
    let expected = "unknown message field \"MessageGroupId\" has no effect; did you mean \"tenant\"?";
    assert_eq!(warnings_of(post(&api, "q", &message), 201).await, [expected]);
}

fn last_segment(path: &Value) -> &str {
    path.as_str().unwrap().rsplit('/').next().unwrap()
}
