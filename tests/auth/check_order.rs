//! Fact sheet 1.1: authentication comes before everything else but `/`, signed URLs and CORS.

use reqwest::Method;

use super::{SECRET_KEY, STRANGER, UNAUTHORIZED, behind_a_proxy};
use crate::http::{answered, refused, send};

#[tokio::test]
async fn authentication_comes_before_routing_and_all_other_checks() {
    let sukkal = behind_a_proxy(&[("SUKKAL_ADMIN_MODE", "true")]);
    let stranger = sukkal.project("p").from(STRANGER);

    for (method, path) in [
        (Method::GET, "/v2"),
        (Method::GET, "/v2/"),
        (Method::GET, "/v2/ping"),
        (Method::GET, "/v2/nothing"),
        (Method::GET, "/v1/queues"),
        (Method::GET, "/nothing"),
        (Method::GET, "/v2/queues/"),
        (Method::PUT, "/v2/queues/caf%C3%A9"),
        (Method::PUT, "/v2/queues/a%2Fb"),
        (Method::PUT, "/v2/queues"),
        (Method::OPTIONS, "/v2/queues"),
        (Method::GET, "/v2/queues?project_id=x&project_id=y"),
    ] {
        for (name, value) in [
            ("X-Nothing", "x"),
            ("Content-Type", "application/x-www-form-urlencoded"),
            ("Accept", "text/html"),
            ("Client-ID", "not a client id"),
            ("X-Roles", "admin"),
        ] {
            let request = stranger.bare(method.clone(), path).header(name, value).body("a=1");
            refused(request, 401, UNAUTHORIZED).await;
        }
    }
    assert_eq!(send(stranger.request(Method::HEAD, "/v2/ping")).await.status, 401);
}

#[tokio::test]
async fn the_root_and_probes_need_no_authentication() {
    let sukkal = behind_a_proxy(&[]);
    let stranger = sukkal.project("p").from(STRANGER);

    for (path, status) in [("/", 300), ("/healthz", 204), ("/readyz", 204), ("/metrics", 200)] {
        answered(stranger.bare(Method::GET, path), status).await;
    }
}

#[tokio::test]
async fn a_signature_replaces_authentication_even_if_it_is_empty() {
    let sukkal = behind_a_proxy(&[(SECRET_KEY, "the secret of these tests")]);
    let stranger = sukkal.project("p").from(STRANGER);

    for path in ["/v2/queues", "/v2/nothing", "/v2/queues/a%2Fb"] {
        refused(stranger.get(path).header("URL-Signature", ""), 404, "404 Not Found").await;
        refused(stranger.get(&format!("{path}?url_signature=")), 404, "404 Not Found").await;
    }
}

#[tokio::test]
async fn a_preflight_needs_no_authentication() {
    let sukkal = behind_a_proxy(&[("SUKKAL_TRANSPORT__CORS_ORIGINS", "*")]);
    let preflight = sukkal.project("p").from(STRANGER).bare(Method::OPTIONS, "/v2/queues");
    let preflight = preflight.header("Origin", "http://a.example").header("Access-Control-Request-Method", "GET");

    answered(preflight, 204).await;
}
