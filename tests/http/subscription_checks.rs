//! Fact sheet 8.3: what a subscription may contain, and which subscribers are refused.

use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use super::reserved_metadata::retry_policies;
use super::subscriptions::{PATH, URI, new_project};
use super::{INVALID_BODY, INVALID_REQUEST, Project, Server, answered, refused};
use support::waiting::block_until;

/// Rows 8.3-3, 8.3-11.
#[tokio::test]
async fn a_body_without_a_subscriber_is_refused() {
    let api = new_project();
    let missing = "Missing parameter subscriber in body.";

    assert_eq!(refused(api.request(Method::POST, PATH), 400, INVALID_REQUEST).await, missing);
    for fields in [json!({}), json!({"ttl": 60})] {
        assert_eq!(refused(api.subscribe(&fields), 400, INVALID_REQUEST).await, missing);
    }
    assert_eq!(refused(api.subscribe(&json!([])), 400, INVALID_REQUEST).await, "Subscriptions must be a dict.");
    refused(api.request(Method::POST, PATH).body("xxx"), 400, INVALID_BODY).await;
}

/// Rows 8.3-4, 8.3-5, 8.3-7, 8.3-8, 8.3-9, 8.3-10, 8.7-1, 8.7-2.
#[tokio::test]
async fn fields_are_checked_like_upstream_or_more_strictly() {
    let api = new_project();
    for (field, values) in [
        ("subscriber", json!(["", null, 3, "fake", "email://fake", "mailto:a@b.example", "trust+http://a.example"])),
        ("ttl", json!([0, 59, -1, null, "60", 60.0, true, 253_402_300_799_u64])),
        ("options", json!([1, "x", [1], {"_retry_policy": 1}, {"ordered": "yes"}, {"post_headers": {"Host": "x"}}])),
        ("secret", json!([1, "hush", "whsec_c2hvcnQ="])),
    ] {
        for value in values.as_array().unwrap() {
            let mut fields = json!({"subscriber": URI});
            fields[field] = value.clone();
            let description = refused(api.subscribe(&fields), 400, INVALID_REQUEST).await;
            assert!(!description.contains("hush"), "{description}");
        }
    }
    assert_eq!(answered(api.get(PATH), 200).await.json()["subscriptions"], json!([]));
}

#[tokio::test]
async fn no_header_of_a_subscription_can_replace_or_smuggle_another_one() {
    let api = new_project();
    let path = api.subscription(&json!({ "subscriber": URI })).await;
    for headers in [
        json!({"X-Key": "hush\r\nHost: a.example"}),
        json!({"X-Key": "hush\nX-Other: b"}),
        json!({"X-Key: hush\r\nHost": "a.example"}),
        json!({"X-Key": "hush", "x-key": "hush"}),
        json!({"HOST": "hush"}),
        json!({"Content-Length": "0"}),
        json!({"transfer-encoding": "chunked"}),
        json!({"Webhook-Signature": "hush"}),
    ] {
        let options = json!({ "post_headers": headers });
        let created = api.subscribe(&json!({"subscriber": format!("{URI}/other"), "options": options}));
        let description = refused(created, 400, INVALID_REQUEST).await;
        assert!(description.contains("the option post_headers contains"), "{description}");
        refused(api.change(&path, &json!({ "options": options })), 400, INVALID_REQUEST).await;
    }
    assert_eq!(api.show(&path).await["options"], json!({}));
}

/// Row 8.3-6.
#[tokio::test]
async fn empty_options_count_as_an_empty_object() {
    let api = new_project();
    for (number, options) in [json!([]), json!(null), json!(""), json!(0), json!(false)].iter().enumerate() {
        let path = api.subscription(&json!({"subscriber": format!("{URI}/{number}"), "options": options})).await;

        assert_eq!(api.show(&path).await["options"], json!({}));
    }
}

/// Rows 8.3-7, 8.6-13, 8.6-14, 8.6-15, 8.6-16.
#[tokio::test]
async fn an_invalid_retry_policy_is_refused() {
    let api = new_project();
    let path = api.subscription(&json!({ "subscriber": URI })).await;
    let (taken, not_taken) = retry_policies();
    for policy in [not_taken, json!([1, "linear", []])].iter().flat_map(|policies| policies.as_array().unwrap()) {
        let options = json!({ "_retry_policy": policy });
        let created = api.subscribe(&json!({"subscriber": format!("{URI}/other"), "options": options}));
        let description = refused(created, 400, INVALID_REQUEST).await;
        assert!(description.starts_with("the option _retry_policy is not valid: "), "{description}");
        let changed = api.change(&path, &json!({ "options": options }));
        assert_eq!(refused(changed, 400, INVALID_REQUEST).await, description);
    }
    assert_eq!(api.show(&path).await["options"], json!({}));

    for (number, policy) in taken.as_array().unwrap().iter().enumerate() {
        let options = json!({ "_retry_policy": policy });
        let fields = json!({"subscriber": format!("{URI}/{number}"), "options": options});
        let created = api.subscription(&fields).await;
        answered(api.change(&path, &json!({ "options": options })), 204).await;
        for path in [&created, &path] {
            assert_eq!(api.show(path).await["options"], options);
        }
    }
}

/// By default, nobody may subscribe an address that is not on the public internet.
#[tokio::test]
async fn a_refused_address_names_the_network_that_would_allow_it() {
    let server = Arc::new(Server::start(&[]));
    let api = Project::of(&server, "default");
    for (uri, network) in [
        ("http://127.0.0.1:8888/", "127.0.0.1/32"),
        ("http://2130706433:8888/", "127.0.0.1/32"),
        ("http://0x7f.1:8888/", "127.0.0.1/32"),
        ("http://0177.0.0.1:8888/", "127.0.0.1/32"),
        ("http://[::1]:8888/", "::1/128"),
        ("http://[::ffff:10.0.0.1]:8888/", "10.0.0.1/32"),
        ("http://[64:ff9b::7f00:1]:8888/", "127.0.0.1/32"),
        ("http://017700000001:8888/", "127.0.0.1/32"),
        ("http://10.1.2.3/", "10.1.2.3/32"),
        ("http://172.16.0.1/", "172.16.0.1/32"),
        ("http://192.168.1.1/", "192.168.1.1/32"),
        ("http://169.254.1.1/", "169.254.1.1/32"),
        ("http://169.254.169.254/", "169.254.169.254/32"),
        ("http://[fd00::1]/", "fd00::1/128"),
        ("http://[fe80::1]/", "fe80::1/128"),
        ("http://224.0.0.1/", "224.0.0.1/32"),
    ] {
        let description = refused(api.subscribe(&json!({ "subscriber": uri })), 400, INVALID_REQUEST).await;
        assert!(description.contains(&format!("the operator can allow it by \"{network}\"")), "{description}");
        assert!(description.ends_with("in allowed_networks of [push]"), "{description}");
    }
    let path = api.subscription(&json!({"subscriber": "https://hooks.invalid/"})).await;
    let loopback = json!({"subscriber": "http://127.0.0.1:8888/"});
    refused(api.change(&path, &loopback), 400, INVALID_REQUEST).await;
    assert_eq!(api.show(&path).await["subscriber"], "https://hooks.invalid/");
}

#[tokio::test]
async fn a_name_that_leads_to_a_refused_address_is_refused() {
    let server = Server::shared();
    let api = Project::of(&server, "names");
    let start = Instant::now();

    let description =
        refused(api.subscribe(&json!({"subscriber": "http://localhost:8888/"})), 400, INVALID_REQUEST).await;
    // Only the log says to which address an internal name resolves.
    let expected = "subscriber is not allowed: the host \"localhost\" resolves to an address that is not allowed; the \
                    log of the service names it, and the operator can allow it in allowed_networks of [push]";
    assert_eq!(description, expected);
    block_until("the log has the address", || {
        server.sukkal.log().iter().any(|line| line.contains("localhost") && line.contains("is a loopback address"))
    });
    answered(api.subscribe(&json!({"subscriber": "http://nobody.invalid/"})), 201).await;
    assert!(start.elapsed() < Duration::from_secs(10), "a name that cannot be resolved is not waited for");
}

#[tokio::test]
async fn credentials_and_forbidden_ports_are_refused_without_being_shown() {
    let api = Project::of(&Server::shared(), "ports");
    for (uri, reason) in [
        ("http://user:hush@hooks.example.com/", "contains a user or a password"),
        ("http://hooks.example.com:22/hush", "has the port 22"),
    ] {
        let description = refused(api.subscribe(&json!({ "subscriber": uri })), 400, INVALID_REQUEST).await;
        assert!(description.contains(reason) && !description.contains("hush"), "{description}");
    }
    let unused: Vec<Value> = answered(api.get(PATH), 200).await.json()["subscriptions"].as_array().unwrap().clone();
    assert!(unused.is_empty(), "{unused:?}");
}
