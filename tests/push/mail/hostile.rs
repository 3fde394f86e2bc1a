//! Subscriptions with which a client tries to send mails that it may not send.

use reqwest::Method;
use serde_json::{Value, json};

use super::MailBench;
use super::server::{MailServer, header};

/// Rows 8.7-9, 8.7-10.
#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_that_could_forge_or_misdirect_mails_is_refused() {
    let server = MailServer::start();
    let bench = MailBench::over(&server, &[]);
    let many = ["a@trusted.example"; 11].join(",");
    let long = format!("{}@trusted.example", "x".repeat(65));
    let none = || json!({});
    for (addresses, options, reason) in [
        ("", none(), "address number 1 of the subscriber is not accepted"),
        ("?subject=a", none(), "address number 1"),
        ("a", none(), "address number 1"),
        ("a@trusted.example,", none(), "address number 2"),
        ("a@trusted.example\r\nRCPT TO:<b@c.example>", none(), "a space or a control character"),
        ("a@trusted.example\0", none(), "a space or a control character"),
        ("a@trusted.example%0d%0aRCPT%20TO:%3Cb@c.example%3E", none(), "address number 1"),
        ("a%0a@trusted.example", none(), "address number 1"),
        ("a%00@trusted.example", none(), "address number 1"),
        ("%22a%20b%22@trusted.example", none(), "address number 1"),
        ("%22b@c.example,%22@trusted.example", none(), "address number 1"),
        ("a%2Cb@trusted.example", none(), "address number 1"),
        ("b@c.example%3E%20x%3Ca@trusted.example", none(), "address number 1"),
        ("ä@trusted.example", none(), "address number 1"),
        ("a@trüsted.example", none(), "address number 1"),
        ("a@[127.0.0.1]", none(), "address number 1"),
        ("a@127.0.0.1", none(), "address number 1"),
        ("a@trusted.example%FF", none(), "percent-encoding is invalid"),
        (&long, none(), "address number 1"),
        (&many, none(), "11 mail addresses; at most 10"),
        ("a@trusted.example?bcc=b@c.example", none(), "the parameter \"bcc\""),
        ("a@trusted.example?body=text", none(), "the parameter \"body\""),
        ("a@trusted.example?subject=a&To=b@c.example", none(), "the parameter \"To\""),
        ("a@trusted.example?subject=a%0D%0ABcc:b@c.example", none(), "must be one line"),
        ("a@trusted.example?subject=a%00", none(), "must be one line"),
        ("a@trusted.example?subject==?utf-8?q?=0a?=", none(), "without \"=?\""),
        ("a@trusted.example", json!({"subject": "a\r\nBcc: b@c.example"}), "the option subject must be"),
        ("a@trusted.example", json!({"subject": "=?utf-8?q?=0d=0aBcc:b@c.example?="}), "without \"=?\""),
        ("a@trusted.example", json!({"subject": ["a"]}), "the option subject must be"),
        ("a@trusted.example", json!({"from": "queues@sukkal.example\r\nBcc: b@c.example"}), "the option from must be"),
        ("a@trusted.example", json!({"from": "Boss <queues@sukkal.example>"}), "the option from must be"),
        ("a@trusted.example", json!({"from": "boss@bank.example"}), "the option from is not allowed"),
        ("a@trusted.example", json!({"from": "boss@sukkal.example"}), "the option from is not allowed"),
        ("a@trusted.example,b@c.example", none(), "several mail addresses"),
        ("b@c.example,d@c.example", none(), "several mail addresses"),
    ] {
        let (status, answer) = bench.try_subscribe(&format!("mailto:{addresses}"), options).await;

        let description = answer["description"].as_str().unwrap_or_default();
        assert!(status == 400 && description.contains(reason), "{addresses:?}: {status} {answer}");
    }
    let trusted = bench.subscribe("mailto:a@trusted.example", json!({})).await;
    let hook = bench.subscribe("http://127.0.0.1:9999/", json!({"from": "boss@bank.example", "subject": 3})).await;
    for (id, change, reason) in [
        (&trusted, json!({"subscriber": "mailto:b@c.example"}), "cannot be changed"),
        (&trusted, json!({"subscriber": "http://127.0.0.1:9999/other"}), "cannot be changed"),
        (&hook, json!({"subscriber": "mailto:b@c.example"}), "cannot be changed"),
        (&trusted, json!({"options": {"from": "boss@bank.example"}}), "the option from is not allowed"),
        (&trusted, json!({"options": {"subject": "a\nb"}}), "the option subject must be"),
    ] {
        let path = format!("/v2/queues/q/subscriptions/{id}");
        let response = bench.api.request(Method::PATCH, &path).json(&change).send().await.unwrap();
        let (status, answer) = (response.status(), response.text().await.unwrap());
        assert!(status == 400 && answer.contains(reason), "{change}: {status} {answer}");
    }

    bench.post(json!("only one mail is sent")).await;

    bench.wait_until(&trusted, |figures| figures["delivered"] == 1).await;
    assert_eq!(header(&server.wait_for(1).await[0], "From"), "Queues <queues@sukkal.example>");
    assert_eq!((server.mails().len(), server.events("recipient").len()), (1, 1));
    let list: Value = bench.get("/subscriptions").await;
    assert_eq!(list["subscriptions"].as_array().unwrap().len(), 2, "{list}");
}
