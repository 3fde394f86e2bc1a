//! Fact sheet 1.1: the order in which the parts of a request are checked.
//!
//! | row | test |
//! |---|---|
//! | 6 `URL-Signature` 404 · 7 form 400 · 8 `Accept` 406 · 9 `Client-ID` 400 · 10 project 400 · 11 name 400 · 12 method 405 | `the_first_failed_check_decides_the_error` |
//! | 5 unknown route 404 | `an_unknown_route_is_404_whatever_its_headers` |
//! | 5 routes that are not supported | `unsupported_routes_do_not_exist` |
//! | 8 and 12 on `/` | `the_root_checks_media_types_before_the_method` |
//! | 12 method 405, `OPTIONS` 200 | `every_route_lists_its_methods` |
//! | trailing slashes, encoded segments | `paths_are_compared_exactly`, `an_encoded_slash_is_a_slash` |

use reqwest::Method;
use serde_json::json;

use super::{INVALID_QUEUE, NO_ROUTE, answered, new_project, refused, send};
use support::sukkal::CLIENT;

const SIGNATURE: (&str, &str) = ("URL-Signature", "");
const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");
const XML: (&str, &str) = ("Accept", "application/xml");
const CLIENT_ID: (&str, &str) = ("Client-ID", CLIENT);
const PROJECT: (&str, &str) = ("X-Project-ID", "p");

#[tokio::test]
async fn the_first_failed_check_decides_the_error() {
    let api = new_project();

    let faults = [
        (&[SIGNATURE, FORM, XML][..], "caf%C3%A9", 404, NO_ROUTE),
        (&[FORM, XML], "caf%C3%A9", 400, "Invalid Content-Type"),
        (&[XML], "caf%C3%A9", 406, "Media type not acceptable"),
        (&[], "caf%C3%A9", 400, "Missing header value"),
        (&[CLIENT_ID], "caf%C3%A9", 400, "Project-Id Missing"),
        (&[CLIENT_ID, PROJECT], "caf%C3%A9", 400, INVALID_QUEUE),
        (&[CLIENT_ID, PROJECT], "cafe", 405, "405 Method Not Allowed"),
    ];
    for (headers, queue, status, title) in faults {
        let request = api.bare(Method::POST, &format!("/v2/queues/{queue}")).body("{}");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));

        refused(request, status, title).await;
    }
}

#[tokio::test]
async fn an_unknown_route_is_404_whatever_its_headers() {
    let api = new_project();

    for path in ["/v1", "/v1/queues", "/v1.1/queues", "/v3/", "/nothing", "/v2/nothing", "/V2/queues"] {
        refused(api.get(path), 404, NO_ROUTE).await;
        let wrong = [SIGNATURE, FORM, XML]
            .into_iter()
            .fold(api.bare(Method::POST, path), |request, (name, value)| request.header(name, value));
        refused(wrong.body("{}"), 404, NO_ROUTE).await;
    }
}

#[tokio::test]
async fn unsupported_routes_do_not_exist() {
    let api = new_project();
    api.create("q", &json!({})).await;
    let before = api.snapshot().await;

    for (method, path) in [
        (Method::GET, "/v2/queues/q/nothing"),
        (Method::GET, "/v2/pools"),
        (Method::PUT, "/v2/pools/p"),
        (Method::POST, "/v2/queues/q/move"),
        (Method::GET, "/v2/flavors"),
        (Method::PUT, "/v2/flavors/f"),
    ] {
        refused(api.request(method, path), 404, NO_ROUTE).await;
    }
    assert_eq!(api.snapshot().await, before);
}

#[tokio::test]
async fn the_root_checks_media_types_before_the_method() {
    let api = new_project();

    for method in [Method::GET, Method::POST, Method::OPTIONS] {
        refused(api.bare(method.clone(), "/").header(XML.0, XML.1), 406, "Media type not acceptable").await;
        let form = api.bare(method, "/").header(FORM.0, FORM.1).body("a=1");
        refused(form, 400, "Invalid Content-Type").await;
    }
    refused(api.bare(Method::POST, "/"), 405, "405 Method Not Allowed").await;
}

#[tokio::test]
async fn every_route_lists_its_methods() {
    let api = new_project();

    for (path, allowed) in [
        ("/", "GET, OPTIONS"),
        ("/healthz", "GET, OPTIONS"),
        ("/readyz", "GET, OPTIONS"),
        ("/v2/", "GET, OPTIONS"),
        ("/v2/ping", "GET, HEAD, OPTIONS"),
        ("/v2/queues", "GET, OPTIONS"),
        ("/v2/queues/q", "DELETE, GET, OPTIONS, PATCH, PUT"),
        ("/v2/queues/q/stats", "GET, OPTIONS"),
        ("/v2/queues/q/purge", "OPTIONS, POST"),
        ("/v2/queues/q/pause", "OPTIONS, POST"),
        ("/v2/queues/q/resume", "OPTIONS, POST"),
        ("/v2/queues/q/share", "OPTIONS, POST"),
        ("/v2/queues/q/redrive", "OPTIONS, POST"),
        ("/v2/queues/q/tasks", "GET, OPTIONS"),
        ("/v2/queues/q/tasks/t", "DELETE, GET, OPTIONS"),
        ("/v2/queues/q/messages", "DELETE, GET, OPTIONS, POST"),
        ("/v2/queues/q/messages/m", "DELETE, GET, OPTIONS"),
        ("/v2/queues/q/claims", "GET, OPTIONS, POST"),
        ("/v2/queues/q/claims/c", "DELETE, GET, OPTIONS, PATCH"),
        ("/v2/queues/q/claims/c/messages/m", "DELETE, OPTIONS"),
    ] {
        let options = answered(api.request(Method::OPTIONS, path), 200).await;
        assert_eq!((options.header("allow"), options.text.as_str()), (Some(allowed), ""), "{path}");
        for method in [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::TRACE] {
            let answer = send(api.request(method.clone(), path)).await;
            if allowed.split(", ").any(|name| name == method.as_str()) {
                assert_ne!(answer.status, 405, "{method} {path}");
            } else {
                answer.refusal(405, "405 Method Not Allowed");
                assert_eq!(answer.header("allow"), Some(allowed), "{method} {path}");
            }
        }
    }
}

#[tokio::test]
async fn paths_are_compared_exactly() {
    let api = new_project();

    for path in [
        "/v2/queues/q/",
        "/v2/queues/q/messages/",
        "/v2/queues/q/claims/",
        "/v2/ping/",
        "//v2/queues",
        "/v2//queues",
        "/v2/Queues",
    ] {
        refused(api.get(path), 404, NO_ROUTE).await;
    }
    for method in [Method::GET, Method::PUT, Method::POST] {
        refused(api.request(method, "/v2/queues/"), 400, INVALID_QUEUE).await;
    }
    answered(api.get("/v2/"), 200).await;
}

#[tokio::test]
async fn an_encoded_slash_is_a_slash() {
    let api = new_project();
    let [id] = &api.post_bodies("q", &[json!(1)]).await[..] else { panic!("one id for one message") };
    let before = api.snapshot().await;

    for path in ["/v2/queues/a%2Fb", "/v2/queues/a%2fb/messages", "/v2/queues/q%2Fmessages"] {
        refused(api.put(path), 404, NO_ROUTE).await;
        refused(api.bare(Method::PUT, path), 404, NO_ROUTE).await;
    }
    for id in [format!("{id}%2F"), format!("x%2F{id}")] {
        refused(api.delete(&format!("/v2/queues/q/messages/{id}")), 404, NO_ROUTE).await;
    }
    assert_eq!(api.snapshot().await, before);
}
