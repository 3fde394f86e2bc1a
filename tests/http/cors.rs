//! Web pages of other origins (CORS): `cors_origins` in the configuration.

use std::collections::BTreeSet;

use super::*;
use support::events::Events;

const APP: &str = "https://app.example.com";
const LOCAL: &str = "http://localhost:3000";
/// Origins that are not listed, but similar to [`APP`] and [`LOCAL`].
const OTHERS: [&str; 10] = [
    "null",
    "*",
    "",
    "https://APP.example.com",
    "http://app.example.com",
    "https://app.example.com:443",
    "https://app.example.com.evil.example",
    "https://sub.app.example.com",
    "http://localhost:30000",
    "https://app.example.com, http://localhost:3000",
];

/// Returns a new project on a server that allows [`APP`] and [`LOCAL`].
fn listed_project() -> Project {
    static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());

    let options = [
        ("SUKKAL_TRANSPORT__CORS_ORIGINS", "https://app.example.com, http://localhost:3000"),
        ("SUKKAL_TRANSPORT__MAX_STREAMS_PER_PROJECT", "1"),
        ("SUKKAL_SIGNED_URL__SECRET_KEY", "any"),
        ("SUKKAL_CLIENT_TIMEOUT", "1"),
    ];
    let server = shared_instance(&SHARED, || Server::start(&options));
    Project::of(&server, &format!("project-{}", Uuid::new_v4()))
}

fn preflight(api: &Project, path: &str, origin: &str) -> RequestBuilder {
    let request = api.bare(Method::OPTIONS, path).header("Origin", origin);
    request.header("Access-Control-Request-Method", "POST")
}

/// Returns the names and values of the response headers that have to do with CORS.
fn cors_headers(answer: &Answer) -> BTreeSet<(String, String)> {
    let headers = answer.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap()));
    let is_cors = |(name, value): &(&str, &str)| {
        name.starts_with("access-control-") || (*name == "vary" && !value.eq_ignore_ascii_case("accept"))
    };
    headers.filter(is_cors).map(|(name, value)| (name.to_owned(), value.to_lowercase())).collect()
}

fn set(headers: &[(&str, &str)]) -> BTreeSet<(String, String)> {
    headers.iter().map(|(name, value)| ((*name).to_owned(), value.to_lowercase())).collect()
}

/// Returns the headers with which a page of this origin may read a response.
fn readable_by(origin: &str) -> BTreeSet<(String, String)> {
    let exposed = "Allow, Claim-Fence, Content-Location, Durability, Location, Retry-After, Sukkal-Warning, WWW-Authenticate, \
                   X-OpenStack-Request-ID";
    let headers = [("access-control-allow-origin", origin), ("access-control-expose-headers", exposed)];
    let vary = (origin != "*").then_some(("vary", "origin"));
    set(&headers.into_iter().chain(vary).collect::<Vec<_>>())
}

#[tokio::test]
async fn nothing_is_added_by_default() {
    let api = new_project();

    for path in ["/", "/v2", MESSAGES, "/v2/nothing", "/healthz", "/v2/queues/q/claims"] {
        let answer = send(api.get(path).header("Origin", APP)).await;
        assert_eq!(cors_headers(&answer), set(&[]), "{path}: {answer:?}");
    }
    refused(preflight(&api, MESSAGES, APP), 400, "Missing header value").await;
}

#[tokio::test]
async fn a_preflight_is_answered_before_identification_and_alike_for_all_paths() {
    let api = listed_project();
    api.create("q", &json!({})).await;

    for path in [
        "/",
        "/v2",
        "/v2/queues",
        "/v2/queues/q",
        "/v2/queues/none",
        "/v2/queues/caf%C3%A9/messages",
        "/v2/queues/a%2Fb",
        "/v2/queues/q/messages?url_signature=wrong",
        "/v2/nothing",
        "/metrics",
    ] {
        let request = preflight(&api, path, APP).header("Access-Control-Request-Headers", "client-id,x-project-id");
        let answer = answered(request.header("Accept", "text/html").header("URL-Signature", "wrong"), 204).await;

        let mut expected = readable_by(APP);
        expected.extend(set(&[
            ("access-control-allow-headers", "client-id,x-project-id"),
            ("access-control-allow-methods", "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"),
            ("access-control-max-age", "3600"),
            ("vary", "access-control-request-headers"),
        ]));
        assert_eq!(cors_headers(&answer), expected, "{path}");
        assert!(answer.header("x-openstack-request-id").is_some() && answer.text.is_empty(), "{path}: {answer:?}");
        assert_eq!(answer.header("allow"), None, "{path}");

        for other in OTHERS {
            let refused = preflight(&api, path, other).header("Access-Control-Request-Headers", "client-id");
            let vary = [("vary", "origin"), ("vary", "access-control-request-headers")];
            assert_eq!(cors_headers(&answered(refused, 204).await), set(&vary), "{path} for {other:?}");
        }
    }
}

#[tokio::test]
async fn only_a_preflight_is_answered_early() {
    let api = listed_project();
    let options = |path| api.bare(Method::OPTIONS, path);

    refused_cross_origin(options(MESSAGES), 400, "Missing header value").await;
    let method_alone = options(MESSAGES).header("Access-Control-Request-Method", "POST");
    assert_eq!(answered(method_alone, 400).await.json()["title"], "Missing header value");
    let get = api.bare(Method::GET, MESSAGES).header("Access-Control-Request-Method", "POST");
    refused_cross_origin(get, 400, "Missing header value").await;
    let allow = answered(api.request(Method::OPTIONS, MESSAGES).header("Origin", APP), 200).await;
    assert_eq!(allow.header("allow"), Some("DELETE, GET, OPTIONS, POST"));
    assert_eq!(cors_headers(&allow), readable_by(APP));
}

/// Sends a request of a page that may read the response, which must be this error.
async fn refused_cross_origin(request: RequestBuilder, status: u16, title: &str) {
    let answer = answered(request.header("Origin", APP), status).await;
    assert_eq!(answer.json()["title"], title, "{answer:?}");
    assert_eq!(cors_headers(&answer), readable_by(APP), "{answer:?}");
    let vary: Vec<_> = answer.headers.get_all("vary").iter().map(|value| value.to_str().unwrap()).collect();
    assert_eq!(vary, ["Accept", "origin"], "{answer:?}");
}

#[tokio::test]
async fn a_page_can_read_every_response() {
    let api = listed_project();
    let post = || api.post(MESSAGES, &json!({"messages": [{"body": 1}]}));

    for (request, status) in [
        (post(), 201),
        (api.get(MESSAGES), 200),
        (api.delete("/v2/queues/none"), 204),
        (api.bare(Method::GET, "/"), 300),
        (api.bare(Method::GET, "/healthz"), 204),
    ] {
        let answer = answered(request.header("Origin", APP), status).await;
        assert_eq!(cors_headers(&answer), readable_by(APP), "{answer:?}");
    }
    let _stream = Events::open(api.get(MESSAGES)).await;
    let stream = || api.get(MESSAGES).header("Accept", "text/event-stream");
    answered(post().header("Idempotency-Key", "used"), 201).await;
    let reused = api.post(MESSAGES, &json!({"messages": [{"body": 2}]})).header("Idempotency-Key", "used");
    let cut_off = format!("{}Origin: {APP}\r\nContent-Length: 9\r\n\r\n", api.head("POST", MESSAGES));
    for (request, status, title) in [
        (api.bare(Method::GET, MESSAGES), 400, "Missing header value"),
        (api.get(MESSAGES).header("Client-ID", "again"), 400, "Ambiguous identification"),
        (api.get("/v2/queues/caf%C3%A9"), 400, INVALID_QUEUE),
        (api.post(MESSAGES, &json!({"messages": [{}]})), 400, INVALID_BODY),
        (api.get("/v2/nothing"), 404, NO_ROUTE),
        (api.get(MESSAGES).header("URL-Signature", "wrong"), 404, NO_ROUTE),
        (api.get(&format!("{MESSAGES}?url_signature=wrong")), 404, NO_ROUTE),
        (api.get(&format!("{MESSAGES}/none")), 404, NOT_FOUND),
        (api.put(MESSAGES), 405, "405 Method Not Allowed"),
        (api.get(MESSAGES).header("Accept", "text/html"), 406, "Media type not acceptable"),
        (api.get(&format!("{MESSAGES}?name={}", "x".repeat(9000))), 414, "414 URI Too Long"),
        (api.patch("q", &json!([])).header("Content-Encoding", "gzip"), 415, "415 Unsupported Media Type"),
        (reused, 422, "Idempotency key reused"),
        (stream(), 429, "429 Too Many Requests"),
        (api.get(MESSAGES).header("X-Long", "x".repeat(65_540)), 431, "431 Request Header Fields Too Large"),
    ] {
        refused_cross_origin(request, status, title).await;
    }
    let cut_off = api.send_raw(cut_off).await;
    assert_eq!((cut_off.status, cors_headers(&cut_off)), (408, readable_by(APP)));
    let [without_host, http_1_0] =
        ["HTTP/1.1", "HTTP/1.0"].map(|version| format!("GET / {version}\r\nOrigin: {APP}\r\n"));
    let without_host = api.send_raw(format!("{without_host}Connection: close\r\n\r\n")).await;
    assert_eq!((without_host.status, cors_headers(&without_host)), (400, readable_by(APP)));
    assert_eq!(cors_headers(&api.send_raw(format!("{http_1_0}\r\n")).await), readable_by(APP));
}

#[tokio::test]
async fn a_page_can_read_event_streams_and_outages() {
    let api = listed_project();
    api.post_bodies("q", &[json!(1)]).await;
    let stream = api.get(MESSAGES).header("Accept", "text/event-stream").header("Origin", LOCAL).send().await.unwrap();
    let headers = Answer { status: 200, headers: stream.headers().clone(), text: String::new() };
    assert_eq!(cors_headers(&headers), readable_by(LOCAL));

    let redis = RedisServer::start();
    let sukkal = Sukkal::start_with(&redis.url(), &[("SUKKAL_TRANSPORT__CORS_ORIGINS", APP)]);
    redis.kill();
    let down = answered(sukkal.project("p").get("/v2/queues").header("Origin", APP), 503).await;
    assert_eq!(cors_headers(&down), readable_by(APP));
    assert!(down.header("retry-after").is_some());
}

/// Without `Vary: Origin`, a cache could give a page the response that another page got.
#[tokio::test]
async fn each_origin_gets_its_own_response_and_caches_know_it() {
    let api = listed_project();

    for path in ["/v2", "/", MESSAGES, "/v2/nothing", "/metrics"] {
        for origin in [APP, LOCAL] {
            let answer = send(api.get(path).header("Origin", origin)).await;
            assert_eq!(cors_headers(&answer), readable_by(origin), "{path}");
        }
        for other in OTHERS {
            let answer = send(api.get(path).header("Origin", other)).await;
            assert_eq!(cors_headers(&answer), set(&[("vary", "origin")]), "{path} for {other:?}");
        }
        assert_eq!(cors_headers(&send(api.get(path)).await), set(&[("vary", "origin")]), "{path}");
    }
}

#[tokio::test]
async fn an_asterisk_allows_every_origin() {
    let api = Project::of(&Arc::new(Server::start(&[("SUKKAL_TRANSPORT__CORS_ORIGINS", "*")])), "p");

    for request in [
        api.get("/v2"),
        api.get("/v2").header("Origin", APP),
        api.get("/v2").header("Origin", "null"),
        api.get("/v2/nothing").header("Origin", APP),
    ] {
        assert_eq!(cors_headers(&send(request).await), readable_by("*"));
    }
    let answer = answered(preflight(&api, MESSAGES, "null"), 204).await;
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    assert_eq!(answer.header("access-control-allow-credentials"), None);
}
