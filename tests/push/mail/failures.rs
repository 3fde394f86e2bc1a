//! Mail servers that refuse mails, and those that are slow or dead.

use std::time::Duration;

use futures::{StreamExt, stream};
use serde_json::{Value, json};

use super::MailBench;
use super::server::{MailServer, header};
use crate::push::endpoint::Endpoint;
use crate::push::{retries_at_once, retry_policy};
use support::ports;
use support::waiting::{advance, until};

fn column(attempts: &[Value], name: &str) -> Vec<Value> {
    attempts.iter().map(|attempt| attempt[name].clone()).collect()
}

/// Row 8.7-11.
#[tokio::test(flavor = "multi_thread")]
async fn a_mail_that_is_not_accepted_is_sent_again_with_the_same_id() {
    let server = MailServer::start();
    let bench = MailBench::over(&server, &[]);
    for (name, failures) in [
        ("defer-twice", vec![json!(450), json!(450)]),
        ("late-451", vec![json!(451)]),
        ("drop-once", vec![Value::Null]),
    ] {
        let options = json!({"_retry_policy": retry_policy(), "match": {"to": name}});
        let subscription = bench.subscribe(&format!("mailto:{name}@trusted.example"), options).await;
        let before = server.mails().len();

        let message = bench.post(json!({"to": name})).await;

        let mail = &server.wait_for(before + 1).await[before];
        assert_eq!(header(mail, "Message-ID"), format!("<{message}.{subscription}@sukkal.example>"));
        bench.wait_until(&subscription, |figures| figures["delivered"] == 1).await;
        let attempts = bench.attempts(&subscription).await;
        let statuses: Vec<Value> = failures.into_iter().chain([json!(250)]).collect();
        assert_eq!(column(&attempts, "status"), statuses, "{attempts:?}");
        assert!(attempts[0]["error"].is_string() && attempts[0]["duration_ms"].is_number());
    }
    assert_eq!(server.mails().len(), 3);
}

/// Row 8.7-11.
#[tokio::test(flavor = "multi_thread")]
async fn a_recipient_who_is_refused_until_the_end_makes_a_dead_letter() {
    let server = MailServer::start();
    let bench = MailBench::over(&server, &[]);
    let options = json!({"_retry_policy": retries_at_once(), "dead_letter_queue": "dead"});
    let subscription = bench.subscribe("mailto:reject@trusted.example", options).await;

    bench.post(json!(5)).await;

    bench.wait_until(&subscription, |figures| figures["given_up"] == 1).await;
    let attempts = bench.attempts(&subscription).await;
    let last = attempts.last().unwrap();
    assert_eq!(
        (&last["status"], &last["response"], &last["error"]),
        (&json!(550), &json!("5.1.1 no such user"), &json!("the subscriber has answered 550"))
    );
    assert_eq!(attempts.len(), server.events("recipient").len());
    let dead = bench.api.get("/v2/queues/dead/messages?echo=true").send().await.unwrap();
    assert_eq!(dead.json::<Value>().await.unwrap()["messages"][0]["body"], 5);
}

/// Row 8.7-12.
#[tokio::test(flavor = "multi_thread")]
async fn a_recipient_who_is_refused_does_not_multiply_the_mails_to_the_others() {
    let server = MailServer::start();
    let bench = MailBench::over(&server, &[]);
    let addresses = "mailto:a@trusted.example,reject@trusted.example,b@trusted.example";
    let subscription = bench.subscribe(addresses, json!({})).await;

    bench.post(json!(1)).await;

    bench.wait_until(&subscription, |figures| figures["delivered"] == 1).await;
    let attempts = bench.attempts(&subscription).await;
    let error = "1 of 3 recipients were refused, the first one with 550 5.1.1 no such user";
    assert_eq!((attempts.len(), &attempts[0]["status"], &attempts[0]["error"]), (1, &json!(250), &json!(error)));
    assert_eq!(server.mails().len(), 1);
    assert_eq!(server.mails()[0]["recipients"], json!(["a@trusted.example", "b@trusted.example"]));
}

/// Row 8.7-13.
#[tokio::test]
async fn a_mail_server_that_hangs_delays_no_webhook_and_attempts_end_in_time() {
    let server = MailServer::start();
    let bench = MailBench::here(&server).await;
    let policy = json!({"_retry_policy": {"retries_with_no_delay": 0, "minimum_delay": 60, "maximum_delay": 120}});
    let mut hanging = Vec::new();
    for name in ["hang", "drip", "flood"] {
        hanging.push((name, bench.subscribe(&format!("mailto:{name}@trusted.example"), policy.clone()).await));
    }
    let endpoint = Endpoint::start();
    bench.subscribe(&endpoint.url("/"), json!({})).await;

    bench.post(json!(0)).await;
    bench.post(json!(1)).await;
    let other = bench.project("other");
    other.subscribe("mailto:b@trusted.example", json!({})).await;
    other.post(json!(2)).await;

    endpoint.wait_for(2).await;
    let has_begun = |name: &str| {
        let events = server.events("recipient");
        events.iter().any(|event| event["address"].as_str().unwrap().starts_with(name))
    };
    until("the server hangs", async || ["hang", "drip"].iter().all(|name| has_begun(name))).await;
    bench.wait_until(&hanging[2].1, |figures| figures["attempts"].as_u64() >= Some(1)).await;
    advance(Duration::from_secs(25)).await;
    for (_, subscription) in &hanging[..2] {
        assert_eq!(bench.attempts(subscription).await, [Value::Null; 0], "the webhook has not waited for it");
    }
    advance(Duration::from_secs(5)).await;
    for (name, subscription) in &hanging {
        bench.wait_until(subscription, |figures| figures["attempts"].as_u64() >= Some(1)).await;
        let attempt = &bench.attempts(subscription).await[0];
        let (error, duration_ms) = (attempt["error"].as_str().unwrap(), attempt["duration_ms"].as_u64().unwrap());
        let expected =
            if *name == "flood" { "a reply of the mail server is too large" } else { "no answer within 30 s" };
        assert!(error == expected && duration_ms < 32_000, "{name}: {attempt}");
    }
    assert_eq!(server.wait_for(1).await[0]["recipients"], json!(["b@trusted.example"]));
}

/// Row 8.7-13. The mails of the first project would hang for twenty minutes.
#[tokio::test(flavor = "multi_thread")]
async fn a_project_whose_mails_hang_delays_none_of_a_thousand_others() {
    const PROJECTS: usize = 1_000;
    const CLIENTS: usize = 16;
    let server = MailServer::start();
    let bench = MailBench::over(&server, &[("SUKKAL_MAIL__MAX_CONNECTIONS", "4")]);
    for number in 0..40 {
        bench.subscribe(&format!("mailto:hang@trusted.example?subject={number}"), json!({})).await;
    }
    bench.post(json!(0)).await;
    server.wait_for_events("recipient", 1).await;

    let others = stream::iter(0..PROJECTS).for_each_concurrent(CLIENTS, async |number| {
        let other = bench.project(&format!("project-{number}"));
        other.subscribe("mailto:other@trusted.example", json!({})).await;
        other.post(json!(number)).await;
    });
    others.await;

    server.wait_for(PROJECTS).await;
}

/// Row 8.7-13.
#[tokio::test(flavor = "multi_thread")]
async fn mails_of_a_project_that_hang_leave_connections_for_other_projects() {
    let server = MailServer::start();
    let bench = MailBench::over(&server, &[("SUKKAL_MAIL__MAX_CONNECTIONS", "4")]);
    for number in 0..8 {
        bench.subscribe(&format!("mailto:hang@trusted.example?subject={number}"), json!({})).await;
    }
    bench.post(json!(1)).await;
    server.wait_for_events("recipient", 1).await;
    let other = bench.project("other");
    other.subscribe("mailto:b@trusted.example", json!({})).await;

    other.post(json!(2)).await;

    server.wait_for(1).await;
    assert_eq!(server.events("recipient").len(), 2, "the first mail still hangs");
}

/// Row 8.7-13.
#[tokio::test(flavor = "multi_thread")]
async fn a_mail_server_that_is_dead_delays_no_webhook() {
    let port = ports::listen().local_addr().unwrap().port();
    let bench = MailBench::at(port, &[]);
    let mail = bench.subscribe("mailto:a@trusted.example", json!({})).await;
    let endpoint = Endpoint::start();
    bench.subscribe(&endpoint.url("/"), json!({})).await;

    bench.post(json!(1)).await;

    endpoint.wait_for(1).await;
    bench.wait_until(&mail, |figures| figures["attempts"].as_u64() >= Some(2)).await;
    let error = bench.attempts(&mail).await[0]["error"].clone();
    assert!(error.as_str().unwrap().contains("Connection refused"), "{error}");
}
