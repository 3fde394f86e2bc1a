//! The strategy `proxy`: the headers of trusted proxies are believed, and nobody else gets
//! anything.

use reqwest::Method;
use serde_json::json;

use super::{FORBIDDEN, STRANGER, STRATEGIES, TRUSTED_PROXIES, UNAUTHORIZED, behind_a_proxy};
use crate::http::{answered, refused};
use support::sukkal::{CLIENT, Sukkal};

const NOT_TRUSTED: &str = "The request did not come from a proxy that this service trusts.";

#[tokio::test]
async fn only_the_headers_of_a_trusted_proxy_are_believed() {
    let sukkal = behind_a_proxy(&[("SUKKAL_ADMIN_MODE", "true")]);
    let (proxy, stranger) = (sukkal.project("p"), sukkal.project("p").from(STRANGER));

    answered(proxy.put("/v2/queues/q").json(&json!({"k": 1})), 201).await;
    answered(proxy.get("/v2/health").header("X-Roles", "member, admin"), 200).await;
    refused(proxy.get("/v2/health").header("X-Roles", "member"), 403, FORBIDDEN).await;
    for (method, path) in [(Method::GET, "/v2/queues/q"), (Method::DELETE, "/v2/queues/q"), (Method::GET, "/v2/health")]
    {
        let request = stranger.request(method, path).header("X-Roles", "admin").header("X-Forwarded-For", "127.0.0.1");
        let answer = answered(request, 401).await;
        assert_eq!(answer.refusal(401, UNAUTHORIZED), NOT_TRUSTED);
        assert_eq!(answer.header("www-authenticate"), Some("Proxy realm=\"sukkal\""));
    }
    assert_eq!(answered(proxy.get("/v2/queues/q"), 200).await.json()["k"], 1);
    assert!(!sukkal.log().concat().contains("WARN"), "{:#?}", sukkal.log());
}

/// A proxy appends its own value if it does not remove that of its client.
#[tokio::test]
async fn a_repeated_header_of_a_proxy_is_refused() {
    let sukkal = behind_a_proxy(&[]);

    for name in ["X-Project-ID", "X-Tenant-Id", "X-Roles", "X-User-Id", "Client-ID"] {
        let repeated = sukkal.project("p").get("/v2/queues").header(name, "one").header(name, "two");
        refused(repeated, 400, "Ambiguous identification").await;
    }
}

/// Otherwise a request for which the proxy sets no project would use that of somebody.
#[tokio::test]
async fn a_request_of_a_proxy_gets_no_default_project() {
    let sukkal = behind_a_proxy(&[("SUKKAL_TRANSPORT__DEFAULT_PROJECT", "p")]);

    let unnamed = sukkal.project("p").bare(Method::GET, "/v2/queues").header("Client-ID", CLIENT);
    refused(unnamed, 400, "Project-Id Missing").await;
    let path = format!("/v2/queues/q/messages?project_id=p&client_id={CLIENT}");
    let stream = sukkal.project("p").bare(Method::GET, &path).header("Accept", "text/event-stream");
    refused(stream, 400, "Project-Id Missing").await;
}

#[tokio::test]
async fn a_proxy_on_ipv4_is_trusted_by_a_server_on_ipv6() {
    let sukkal = Sukkal::start_where(":0", "memory:", &[(STRATEGIES, "proxy"), (TRUSTED_PROXIES, "127.0.0.1")]);
    let port = sukkal.address().rsplit(':').next().unwrap();
    let api = support::sukkal::Api::new(format!("http://127.0.0.1:{port}"), "p");

    answered(api.get("/v2/queues"), 200).await;
    refused(api.from(STRANGER).get("/v2/queues"), 401, UNAUTHORIZED).await;
}

#[tokio::test]
async fn with_none_beside_it_everybody_else_is_believed_too() {
    let sukkal = Sukkal::start_with("memory:", &[(STRATEGIES, "proxy,none"), (TRUSTED_PROXIES, "127.0.0.1")]);

    for api in [sukkal.project("p"), sukkal.project("p").from(STRANGER)] {
        answered(api.get("/v2/queues"), 200).await;
    }
}

/// They are for the proxy, and a proxy may pass them on.
#[tokio::test]
async fn tokens_have_no_effect_if_no_strategy_verifies_them() {
    for environment in [&[(STRATEGIES, "proxy"), (TRUSTED_PROXIES, "127.0.0.1")][..], &[]] {
        let sukkal = Sukkal::start_with("memory:", environment);
        let request =
            sukkal.project("p").get("/v2/queues").header("X-Auth-Token", "a").header("Authorization", "Bearer b");

        answered(request, 200).await;
    }
}
