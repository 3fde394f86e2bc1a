//! Fact sheet 1.3 and 1.4: the headers that identify the caller, and the media types of requests
//! and responses.
//!
//! | row | test |
//! |---|---|
//! | `Client-ID` missing 400 | `a_client_id_is_required_everywhere_under_v2` |
//! | `Client-ID` no UUID 400 | `a_client_id_must_be_a_uuid` |
//! | `Client-ID` spellings | `every_spelling_of_a_client_id_names_the_same_client` |
//! | `X-Project-ID` missing 400, empty 400 | `a_project_is_required_everywhere_under_v2` |
//! | `X-Tenant-Id`, `X-Tenant` | `the_older_project_headers_are_accepted` |
//! | project id over 256 characters 400 | `a_project_id_is_limited_on_routes_with_a_queue` |
//! | `Accept` | `the_accept_header_must_allow_json` |
//! | `Content-Type` form 400 | `only_the_form_content_type_is_refused` |
//! | `X-OpenStack-Request-ID` | `every_response_has_a_unique_request_id` |

use std::collections::HashSet;

use reqwest::{Method, RequestBuilder};
use serde_json::json;

use super::warnings::warnings_of;
use super::{INVALID_QUEUE, answered, new_project, refused, send};
use support::sukkal::CLIENT;

const NEEDING_A_CALLER: [&str; 5] =
    ["/v2/", "/v2/ping", "/v2/queues", "/v2/queues/q/messages", "/v2/queues/q/messages/m"];

#[tokio::test]
async fn a_client_id_is_required_everywhere_under_v2() {
    let api = new_project();

    for path in NEEDING_A_CALLER {
        let request = api.bare(Method::GET, path).header("X-Project-ID", "p");

        let description = refused(request, 400, "Missing header value").await;

        assert_eq!(description, "The \"Client-Id\" header is required.");
    }
}

#[tokio::test]
async fn a_client_id_must_be_a_uuid() {
    let api = new_project();

    for client in ["", "me", "3381af92-2b9e-11e3-b191-7186130073", "zzzzaf92-2b9e-11e3-b191-71861300734c"] {
        let description = refused(api.client(client).get("/v2/queues"), 400, "Wrong UUID value").await;

        let accepted = "The header Client-ID must be a UUID such as 3381af92-2b9e-11e3-b191-71861300734c.";
        assert_eq!(description, format!("Malformed hexadecimal UUID. {accepted}"));
    }
}

#[tokio::test]
async fn every_spelling_of_a_client_id_names_the_same_client() {
    let api = new_project();
    api.post_bodies("q", &[json!("mine")]).await;

    for client in [
        CLIENT.to_owned(),
        CLIENT.to_uppercase(),
        CLIENT.replace('-', ""),
        format!("{{{CLIENT}}}"),
        format!("urn:uuid:{CLIENT}"),
    ] {
        let page = answered(api.client(&client).get("/v2/queues/q/messages"), 200).await;

        assert_eq!(page.json()["messages"], json!([]), "{client}");
    }
}

/// A proxy adds its own header after those of its client, so the first one may be the client's.
#[tokio::test]
async fn a_header_with_one_value_must_not_be_repeated() {
    let api = new_project();
    let names = [
        "Authorization",
        "Client-ID",
        "Content-Type",
        "Idempotency-Key",
        "Last-Event-ID",
        "Origin",
        "URL-Expires",
        "URL-Methods",
        "URL-Paths",
        "URL-Signature",
        "X-Auth-Token",
        "X-Project-ID",
        "X-Roles",
        "X-Service-Token",
        "X-Tenant",
        "X-Tenant-Id",
        "X-User-Id",
    ];

    for path in ["/", "/v2/queues", "/v2/queues/q/messages", "/v2/queues/a:b", "/v2/nothing"] {
        for name in names {
            let request = api.bare(Method::GET, path).header(name, CLIENT).header(name, CLIENT);
            let description = refused(request, 400, "Ambiguous identification").await;
            assert_eq!(description, format!("The header {name} is repeated; it must appear only once."));
        }
    }
    let mut lists = api.get("/v2/queues");
    for name in ["Accept", "Content-Encoding", "Durability", "X-Other"] {
        let value = if name == "Accept" { "*/*" } else { "identity" };
        lists = lists.header(name, value).header(name, value);
    }
    answered(lists, 200).await;
}

#[tokio::test]
async fn a_project_is_required_everywhere_under_v2() {
    let api = new_project();

    for path in NEEDING_A_CALLER {
        let request = || api.bare(Method::GET, path).header("Client-ID", CLIENT);

        refused(request(), 400, "Project-Id Missing").await;
        refused(request().header("X-Project-ID", ""), 400, "Empty project header not allowed").await;
    }
}

#[tokio::test]
async fn the_older_project_headers_are_accepted() {
    let api = new_project();
    let request = |method, path| api.bare(method, path).header("Client-ID", CLIENT);
    let project = uuid::Uuid::new_v4().to_string();
    answered(request(Method::PUT, "/v2/queues/q").header("X-Tenant-Id", &project), 201).await;

    for headers in [
        &[("X-Project-ID", project.as_str())][..],
        &[("X-Tenant", &project)],
        &[("X-Tenant", "other"), ("X-Tenant-Id", "other"), ("X-Project-ID", &project)],
    ] {
        let list = headers.iter().fold(request(Method::GET, "/v2/queues"), |list, (name, id)| list.header(*name, *id));

        assert_eq!(answered(list, 200).await.json()["queues"][0]["name"], "q", "{headers:?}");
    }
    let blank = request(Method::GET, "/v2/queues").header("X-Project-ID", "").header("X-Tenant-Id", &project);
    refused(blank, 400, "Empty project header not allowed").await;
}

#[tokio::test]
async fn a_project_id_is_limited_on_routes_with_a_queue() {
    let api = new_project();
    let long = api.server.sukkal.project(&format!("{}{}", uuid::Uuid::new_v4(), "p".repeat(256 - 36)));
    let too_long = api.server.sukkal.project(&"p".repeat(257));

    answered(long.put("/v2/queues/q"), 201).await;
    refused(too_long.put("/v2/queues/q"), 400, INVALID_QUEUE).await;
    refused(too_long.get("/v2/queues/q/messages"), 400, INVALID_QUEUE).await;
    answered(too_long.get("/v2/queues"), 200).await;
}

#[tokio::test]
async fn identification_headers_must_be_utf_8() {
    let api = new_project();
    let head = "GET /v2/queues HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";

    let client = [head.as_bytes(), b"X-Project-ID: p\r\nClient-ID: \xff\xfe\r\n\r\n"].concat();
    api.send_raw(client).await.refusal(400, "Wrong UUID value");
    let project = [head.as_bytes(), b"Client-ID: ", CLIENT.as_bytes(), b"\r\nX-Project-ID: \xff\r\n\r\n"].concat();
    api.send_raw(project).await.refusal(400, "Invalid project identification");
}

#[tokio::test]
async fn the_accept_header_must_allow_json() {
    let api = new_project();

    for accept in ["application/json", "*/*", "application/*;q=0.1", "text/html, application/json", "APPLICATION/JSON"]
    {
        answered(api.get("/v2/queues").header("Accept", accept), 200).await;
    }
    for accept in ["application/xml", "text/*", "application/json;q=0", "junk", "application/json-home"] {
        let answer = send(api.get("/v2/queues").header("Accept", accept)).await;

        answer.refusal(406, "Media type not acceptable");
        let link = &answer.json()["link"];
        assert_eq!(link["rel"], "help", "{accept}");
        assert!(link["text"].is_string() && link["href"].is_string(), "{accept}");
    }
    for accept in ["", "Accept: \r\n", "Accept: text/html\r\nAccept: application/json\r\n"] {
        let list = api.send_raw(format!("{}{accept}\r\n", api.head("GET", "/v2/queues"))).await;
        assert_eq!(list.status, 200, "{accept:?}");
    }
}

#[tokio::test]
async fn only_the_form_content_type_is_refused() {
    let api = new_project();
    let message = r#"{"messages": [{"body": 1}]}"#;
    let post = |content_type: &str| {
        let post = api.request(Method::POST, "/v2/queues/q/messages").header("Content-Type", content_type);
        post.body(message)
    };

    let forms = ["application/x-www-form-urlencoded", "Application/X-WWW-Form-URLEncoded"];
    for form in forms.into_iter().chain(["application/x-www-form-urlencoded; charset=utf-8"]) {
        refused(post(form), 400, "Invalid Content-Type").await;
        let get = format!("{}Content-Type: {form}\r\n", api.head("GET", "/v2/queues"));
        api.send_raw(format!("{get}Content-Length: 0\r\n\r\n")).await.refusal(400, "Invalid Content-Type");
        assert_eq!(api.send_raw(format!("{get}\r\n")).await.status, 200);
    }
    assert_eq!(api.snapshot().await, json!([]));
    for other in ["text/plain", "nonsense", ""] {
        answered(post(other), 201).await;
    }
}

#[tokio::test]
async fn every_response_has_a_unique_request_id() {
    let api = new_project();
    let requests = [
        api.get("/v2/queues"),
        api.get("/nothing"),
        api.put("/v2/queues/%20"),
        api.request(Method::PATCH, "/v2/ping"),
        api.bare(Method::GET, "/"),
        api.bare(Method::GET, "/v2/queues"),
        api.get("/healthz"),
    ];

    let mut seen = HashSet::new();
    for request in requests {
        let answer = send(request).await;

        let id = answer.header("x-openstack-request-id").expect("the response has a request id");
        let uuid = id.strip_prefix("req-").and_then(|uuid| uuid::Uuid::try_parse(uuid).ok());
        assert_eq!(uuid.expect("the request id is req- and a UUID").get_version_num(), 4);
        assert!(seen.insert(id.to_owned()));
    }
}

/// A client that sends a key with each request would believe that a repeated claim takes nothing
/// more.
#[tokio::test]
async fn the_headers_of_posts_get_a_warning_on_other_requests() {
    let api = new_project();
    let of_posts = |request: RequestBuilder| request.header("Idempotency-Key", "k").header("Durability", "replicated");
    let warning = |header: &str| format!("{header} has no effect on this request; it is for posts of messages");
    let expected = [warning("Idempotency-Key"), warning("Durability")];

    assert_eq!(warnings_of(of_posts(api.put("/v2/queues/q")), 201).await, expected);
    assert_eq!(warnings_of(of_posts(api.get("/v2/queues/q/messages")), 200).await, expected);
    assert_eq!(warnings_of(of_posts(api.post("/v2/queues/q/claims", &json!({}))), 204).await, expected);
    let message = json!({"messages": [{"body": 1}]});
    let post = api.post("/v2/topics/t/messages", &message).header("Idempotency-Key", "k");
    assert_eq!(warnings_of(post, 201).await, [""; 0]);
}
