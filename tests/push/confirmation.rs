//! Fact sheet 8.5: subscribers that must confirm their subscriptions.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use time::format_description::well_known::Iso8601;
use time::{OffsetDateTime, PrimitiveDateTime};
use uuid::Uuid;

use super::endpoint::{Answer, Endpoint, Received};
use super::{Bench, id, numbers};
use crate::http::answered;

const REQUIRED: &[(&str, &str)] =
    &[("SUKKAL_PUSH__REQUIRE_CONFIRMATION", "true"), ("SUKKAL_SIGNED_URL__SECRET_KEY", "any")];
/// The headers of a confirmation, which have the same names in its document.
const HEADERS: [&str; 5] = ["URL-Signature", "URL-Methods", "URL-Paths", "URL-Expires", "X-Project-ID"];

/// The default of `push.max_connections_per_host`.
const CONNECTIONS_PER_HOST: usize = 64;

/// Sends the answer of a subscriber to a confirmation document.
async fn answer(bench: &Bench, document: &Value, body: &Value) -> StatusCode {
    answer_at(bench, document, document["URL-Paths"].as_str().unwrap(), body).await
}

/// Sends the answer to another path than that of the document.
async fn answer_at(bench: &Bench, document: &Value, path: &str, body: &Value) -> StatusCode {
    let request = support::plain_http::client().request(Method::PUT, bench.server.url(path));
    let request =
        HEADERS.iter().fold(request, |request, name| request.header(*name, document[*name].as_str().unwrap()));
    request.header("Client-ID", Uuid::new_v4().to_string()).json(body).send().await.unwrap().status()
}

async fn confirm(bench: &Bench, document: &Value) {
    assert_eq!(answer(bench, document, &document["SubscribeBody"]).await, 204);
}

async fn is_confirmed(bench: &Bench, created: &Value) -> bool {
    let path = format!("/v2/queues/q/subscriptions/{}", id(created));
    let document: Value = bench.api.get(&path).send().await.unwrap().json().await.unwrap();
    document["confirmed"].as_bool().unwrap()
}

/// Returns the time for which a confirmation is still valid, in seconds.
fn valid_s(document: &Value) -> i64 {
    let expires = PrimitiveDateTime::parse(document["URL-Expires"].as_str().unwrap(), &Iso8601::PARSING).unwrap();
    (expires.assume_utc() - OffsetDateTime::now_utc()).whole_seconds()
}

/// Returns the bodies of the messages among what an endpoint has received.
fn messages(received: &[Received]) -> Vec<Value> {
    let is_message = |one: &&Received| one.json()["Message_Type"] == "Notification";
    received.iter().filter(is_message).map(Received::body).collect()
}

/// Rows 8.3-15, 8.5-2, 8.5-3, 8.5-4, 8.5-6, 8.5-8, 8.5-9.
async fn only_messages_after_the_confirmation_are_delivered(bench: Bench) {
    let endpoint = Endpoint::start();
    let options = json!({"ordered": true, "post_headers": {"X-Api-Key": "k"}});
    let created = bench.subscribe(&endpoint.url("/hook"), options).await;

    let received = endpoint.wait_for(1).await;
    let document = received[0].json();
    let path = format!("/v2/queues/q/subscriptions/{}/confirm", id(&created));
    for (name, value) in [
        ("Message_Type", json!("SubscriptionConfirmation")),
        ("Message", json!("You have chosen to subscribe to the queue: q")),
        ("URL-Methods", json!("PUT")),
        ("URL-Paths", json!(path)),
        ("X-Project-ID", json!("p")),
        ("SubscribeBody", json!({"confirmed": true})),
        ("UnsubscribeBody", json!({"confirmed": false})),
        ("queue_name", json!("q")),
    ] {
        assert_eq!(document[name], value, "{name}");
    }
    assert_eq!(document.as_object().unwrap().len(), 10, "there are also URL-Signature and URL-Expires: {document}");
    assert_eq!((received[0].path.as_str(), received[0].header("x-api-key")), ("/hook", "k"));
    assert!(received[0].header("webhook-signature").starts_with("v1,"));
    bench.post(&numbers(0, 3)).await;
    assert_eq!(bench.figures(&id(&created)).await["state"], "unconfirmed");
    for (action, body) in [("resume", json!({})), ("redeliver", json!({"since": "1970-01-01T00:00:00Z"}))] {
        let (status, text) = bench.try_to_act(&id(&created), action, &body).await;
        assert!(status == 409 && text.contains("the subscription is not confirmed"), "{action}: {text}");
    }
    confirm(&bench, &document).await;
    assert_eq!(bench.figures(&id(&created)).await["state"], "active");
    bench.post(&numbers(3, 3)).await;

    assert_eq!(messages(&endpoint.wait_for(4).await), numbers(3, 3));
    assert!(is_confirmed(&bench, &created).await);
    let again = json!({"subscriber": endpoint.url("/hook")});
    answered(bench.api.post("/v2/queues/q/subscriptions", &again), 409).await;
    assert_eq!(endpoint.received().len(), 4);
}

/// Rows 8.3-14, 8.5-2.
async fn a_repeated_request_sends_the_confirmation_again(bench: Bench) {
    let endpoint = Endpoint::start();
    let url = endpoint.url("/");
    let created = bench.subscribe(&url, json!({})).await;
    endpoint.wait_for(1).await;

    let again = bench.subscribe(&url, json!({"ordered": true})).await;

    assert_eq!(again, json!({"subscription_id": created["subscription_id"]}), "the secret is not shown again");
    let received = endpoint.wait_for(2).await;
    assert_eq!(received[1].json()["URL-Paths"], received[0].json()["URL-Paths"]);
    confirm(&bench, &received[1].json()).await;
    bench.post(&numbers(0, 1)).await;
    assert_eq!(messages(&endpoint.wait_for(3).await), numbers(0, 1));
}

/// Rows 8.5-5, 8.5-8, 8.5-9.
async fn a_subscriber_that_unsubscribes_gets_no_more_messages_until_it_returns(bench: Bench) {
    let (leaving, staying) = (Endpoint::start(), Endpoint::start());
    for endpoint in [&leaving, &staying] {
        bench.subscribe(&endpoint.url("/"), json!({"ordered": true})).await;
        confirm(&bench, &endpoint.wait_for(1).await[0].json()).await;
    }
    bench.post(&numbers(0, 1)).await;
    let document = leaving.wait_for(2).await[0].json();
    staying.wait_for(2).await;

    assert_eq!(answer(&bench, &document, &document["UnsubscribeBody"]).await, 204);

    let document = leaving.wait_for(3).await[2].json();
    assert_eq!(document["Message_Type"], "UnsubscribeConfirmation");
    assert_eq!(document["Message"], "You have unsubscribed successfully to the queue: q");
    bench.post(&numbers(1, 2)).await;
    staying.wait_for(4).await;
    confirm(&bench, &document).await;
    bench.post(&numbers(3, 1)).await;
    assert_eq!(messages(&staying.wait_for(5).await), numbers(0, 4));
    assert_eq!(messages(&leaving.wait_for(4).await), [json!(0), json!(3)]);
}

/// Row 8.5-4.
async fn the_template_of_the_owner_applies_to_confirmations(bench: Bench) {
    let endpoint = Endpoint::start();
    let created = bench.subscribe(&endpoint.url("/"), json!({"post_data": r#"["$zaqar_message$"]"#})).await;

    let document = endpoint.wait_for(1).await[0].json()[0].clone();

    assert_eq!(document["Message_Type"], "SubscriptionConfirmation");
    confirm(&bench, &document).await;
    assert!(is_confirmed(&bench, &created).await);
}

/// Row 8.5-7.
async fn a_confirmation_expires_after_the_time_to_live(bench: Bench) {
    let endpoint = Endpoint::start();
    let fields = json!({"subscriber": endpoint.url("/"), "ttl": 600});
    answered(bench.api.post("/v2/queues/q/subscriptions", &fields), 201).await;

    let document = endpoint.wait_for(1).await[0].json();
    assert!((500..=600).contains(&valid_s(&document)), "{document}");

    // The next one is valid for `default_subscription_ttl`, which is 3,600 seconds.
    assert_eq!(answer(&bench, &document, &document["UnsubscribeBody"]).await, 204);
    let document = endpoint.wait_for(2).await[1].json();
    assert!((3_500..=3_600).contains(&valid_s(&document)), "{document}");
}

/// Row 8.4-12.
async fn a_new_subscriber_must_confirm_too(bench: Bench) {
    let (former, new) = (Endpoint::start(), Endpoint::start());
    let created = bench.subscribe(&former.url("/"), json!({"ordered": true})).await;
    confirm(&bench, &former.wait_for(1).await[0].json()).await;
    let path = format!("/v2/queues/q/subscriptions/{}", id(&created));
    let change = |fields: Value| bench.api.request(Method::PATCH, &path).json(&fields).send();

    let same = change(json!({"subscriber": former.url("/"), "ttl": 600})).await.unwrap();
    assert_eq!(same.status(), 204);
    assert!(is_confirmed(&bench, &created).await);
    let changed = change(json!({"subscriber": new.url("/")})).await.unwrap();
    assert_eq!(changed.status(), 204);

    assert!(!is_confirmed(&bench, &created).await);
    bench.post(&numbers(0, 1)).await;
    confirm(&bench, &new.wait_for(1).await[0].json()).await;
    bench.post(&numbers(1, 1)).await;
    assert_eq!(messages(&new.wait_for(2).await), numbers(1, 1));
    assert_eq!(former.received().len(), 1, "it has received its confirmation only");
}

async fn silent_subscribers_of_a_project_do_not_delay_the_confirmations_of_another(bench: Bench) {
    let (silent, endpoint) = (Endpoint::answering(|_| Answer::Hang), Endpoint::start());
    let other = Bench { api: bench.server.project("other"), ..bench };
    for number in 0..100 {
        other.subscribe(&silent.url(&format!("/{number}")), json!({})).await;
    }
    silent.wait_for(1).await;
    let bench = Bench { api: other.server.project("p"), ..other };

    bench.subscribe(&endpoint.url("/"), json!({})).await;

    endpoint.wait_for(1).await;
    // The next ones are called when the first ones are given up, after 30 seconds.
    let called = silent.received().len();
    assert!(called <= CONNECTIONS_PER_HOST, "{called} of the others were called first");
}

/// Row 8.5-6.
async fn a_forged_confirmation_is_refused(bench: Bench) {
    let (endpoint, other) = (Endpoint::start(), Endpoint::start());
    let created = bench.subscribe(&endpoint.url("/"), json!({})).await;
    let other_created = bench.subscribe(&other.url("/"), json!({})).await;
    let document = endpoint.wait_for(1).await[0].json();
    let other_path = format!("/v2/queues/q/subscriptions/{}/confirm", id(&other_created));

    for (name, value) in [
        ("URL-Signature", "0".repeat(64)),
        ("URL-Paths", other_path.clone()),
        ("URL-Expires", "9999-12-31T23:59:59".to_owned()),
        ("X-Project-ID", "p2".to_owned()),
    ] {
        let mut forged = document.clone();
        forged[name] = json!(value);
        assert_eq!(answer(&bench, &forged, &document["SubscribeBody"]).await, 404, "{name}");
    }
    assert_eq!(answer_at(&bench, &document, &other_path, &document["SubscribeBody"]).await, 404);
    let path = document["URL-Paths"].as_str().unwrap();
    assert_eq!(answer_at(&bench, &document, path.trim_end_matches("/confirm"), &json!({})).await, 404);

    for created in [&created, &other_created] {
        assert!(!is_confirmed(&bench, created).await);
    }
}

/// Row 8.5-1.
#[tokio::test(flavor = "multi_thread")]
async fn confirmations_are_not_required_if_they_cannot_be_signed() {
    let bench = Bench::embedded_with(&REQUIRED[..1]);
    let endpoint = Endpoint::start();
    let created = bench.subscribe(&endpoint.url("/"), json!({})).await;
    bench.act(&id(&created), "pause", &json!({})).await;
    bench.post(&numbers(0, 1)).await;

    let path = format!("/v2/queues/q/subscriptions/{}/confirm", id(&created));
    answered(bench.api.put(&path).json(&json!({"confirmed": true})), 204).await;
    bench.act(&id(&created), "resume", &json!({})).await;

    assert_eq!(messages(&endpoint.wait_for(1).await), numbers(0, 1));
}

/// Row 8.5-1.
#[tokio::test(flavor = "multi_thread")]
async fn unconfirmed_subscribers_are_notified_unless_the_option_and_the_key_are_set() {
    for options in [&REQUIRED[..0], &REQUIRED[..1], &REQUIRED[1..]] {
        let bench = Bench::embedded_with(options);
        let endpoint = Endpoint::start();
        let created = bench.subscribe(&endpoint.url("/"), json!({"ordered": true})).await;
        bench.subscribe(&endpoint.url("/"), json!({})).await;
        let path = format!("/v2/queues/q/subscriptions/{}/confirm", id(&created));
        answered(bench.api.put(&path).json(&json!({"confirmed": false})), 204).await;

        for number in 0..2 {
            bench.post(&numbers(number, 1)).await;
            endpoint.wait_for(number + 1).await;
        }

        assert_eq!(endpoint.bodies(2).await, numbers(0, 2), "only messages come with {options:?}");
        assert!(!is_confirmed(&bench, &created).await);
    }
}

super::over_each_store! {
    with super::REQUIRED;
    only_messages_after_the_confirmation_are_delivered,
    a_repeated_request_sends_the_confirmation_again,
    the_template_of_the_owner_applies_to_confirmations,
    a_confirmation_expires_after_the_time_to_live,
    a_new_subscriber_must_confirm_too,
    silent_subscribers_of_a_project_do_not_delay_the_confirmations_of_another,
    a_subscriber_that_unsubscribes_gets_no_more_messages_until_it_returns,
    a_forged_confirmation_is_refused,
}

#[tokio::test]
async fn a_start_before_the_confirmation_gets_a_warning() {
    let bench = Bench::embedded_with(REQUIRED);
    let subscribe = |subscriber: &str, since: &str| {
        let document = json!({ "subscriber": subscriber, "since": since });
        bench.api.post("/v2/queues/q/subscriptions", &document)
    };
    let warnings_of = async |request: reqwest::RequestBuilder| {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 201);
        let values = response.headers().get_all("sukkal-warning").iter();
        values.map(|value| value.to_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let since = "\"since\" has no effect, because the subscriber only gets messages from after its confirmation; \
                 redeliver older ones then";

    assert_eq!(warnings_of(subscribe("http://127.0.0.1/a", "now")).await, [""; 0]);
    assert_eq!(warnings_of(subscribe("http://127.0.0.1/b", "2026-01-01T00:00:00Z")).await, [since]);
}
