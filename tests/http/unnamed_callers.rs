//! Requests without a project or a client id, for use on a machine of one's own: `default_project`
//! and `client_id = "optional"`.

use super::warnings::warnings_of;
use super::*;
use support::events::Events;
use support::sukkal::CLIENT;

const PAGE: &str = "https://app.example.com";

/// Starts a server with a default project, an optional client id and an allowed origin, and returns
/// that project.
fn laptop() -> Project {
    laptop_with(&[])
}

/// Starts such a server with other options too.
fn laptop_with(others: &[(&str, &str)]) -> Project {
    let project = format!("project-{}", Uuid::new_v4());
    let options = [
        ("SUKKAL_TRANSPORT__DEFAULT_PROJECT", project.as_str()),
        ("SUKKAL_TRANSPORT__CLIENT_ID", "optional"),
        ("SUKKAL_TRANSPORT__CORS_ORIGINS", PAGE),
    ];
    Project::of(&Arc::new(Server::start(&[&options, others].concat())), &project)
}

fn post(api: &Project) -> RequestBuilder {
    // A page may send this media type without a preflight.
    api.bare(Method::POST, MESSAGES).header("Content-Type", "text/plain").body(r#"{"messages": [{"body": 1}]}"#)
}

#[tokio::test]
async fn a_request_without_a_project_belongs_to_the_default_project() {
    let api = laptop();
    let bare = |path: &str| api.bare(Method::GET, path).header("Client-ID", CLIENT);
    api.post_bodies("q", &[json!("ours")]).await;
    let echo = format!("{MESSAGES}?echo=true");
    let other = format!("project-{}", Uuid::new_v4());

    assert_eq!(pick(&answered(bare(&echo), 200).await.json()["messages"], "body"), ["ours"]);
    for name in ["X-Project-ID", "X-Tenant-Id", "X-Tenant"] {
        assert_eq!(answered(bare(&echo).header(name, &other), 200).await.json()["messages"], json!([]), "{name}");
        refused(bare(&echo).header(name, ""), 400, "Empty project header not allowed").await;
    }
    let mut events = Events::open(bare(&echo)).await;
    assert_eq!(events.bodies(1).await, ["ours"]);
    let mut events = Events::open(bare(&format!("{echo}&project_id={}", api.id))).await;
    assert_eq!(events.bodies(1).await, ["ours"]);
    // Only an event stream or a signed URL names its project in the query.
    let ordinary = answered(bare(&format!("{echo}&project_id={other}")), 200).await;
    assert_eq!(pick(&ordinary.json()["messages"], "body"), ["ours"]);
}

#[tokio::test]
async fn a_request_without_a_client_id_is_a_client_of_its_own() {
    let api = laptop();
    let bare = |method, path: &str| api.bare(method, path).header("X-Project-ID", &api.id);
    let message = json!({"messages": [{"body": 1}]});

    answered(bare(Method::POST, MESSAGES).json(&message), 201).await;
    answered(api.post(MESSAGES, &json!({"messages": [{"body": 2}]})), 201).await;

    let seen = |page: Answer| pick(&page.json()["messages"], "body");
    assert_eq!(seen(answered(bare(Method::GET, MESSAGES), 200).await), [1, 2]);
    assert_eq!(seen(answered(api.get(MESSAGES), 200).await), [1]);
    refused(bare(Method::GET, MESSAGES).header("Client-ID", "me"), 400, "Wrong UUID value").await;
    refused(bare(Method::GET, MESSAGES).header("Client-ID", ""), 400, "Wrong UUID value").await;
    let keyed = || bare(Method::POST, MESSAGES).json(&message).header("Idempotency-Key", "once");
    refused(keyed(), 400, "Missing header value").await;
    // The header has no meaning elsewhere.
    for key in ["once", "a malformed key"] {
        answered(bare(Method::GET, MESSAGES).header("Idempotency-Key", key), 200).await;
    }
    let first = answered(keyed().header("Client-ID", CLIENT), 201).await.text;
    assert_eq!(answered(keyed().header("Client-ID", CLIENT), 201).await.text, first);
}

#[tokio::test]
async fn claims_and_deletions_need_neither() {
    let api = laptop();
    answered(post(&api), 201).await;

    let claim = answered(api.bare(Method::POST, "/v2/queues/q/claims"), 201).await.json();
    let href = text(&claim["messages"][0]["href"]).to_owned();
    answered(api.bare(Method::DELETE, &href), 204).await;
    assert_eq!(api.stats("q").await["total"], 0);
}

/// Any page can let a browser send a `POST` without a preflight, even if it cannot read the
/// response.
#[tokio::test]
async fn a_page_of_another_origin_gets_no_defaults() {
    let api = laptop();
    let own = api.server.sukkal.url("");

    for origin in ["https://evil.example", "null", "http://127.0.0.1", "http://localhost:3000", ""] {
        refused_to(post(&api), origin, "Missing header value").await;
        refused_to(post(&api).header("Client-ID", CLIENT), origin, "Project-Id Missing").await;
        refused_to(post(&api).header("X-Project-ID", &api.id), origin, "Missing header value").await;
        // The page needs a preflight for these headers, so a browser would not send them.
        let named = post(&api).header("Client-ID", CLIENT).header("X-Project-ID", "elsewhere");
        answered(named.header("Origin", origin), 201).await;
    }
    assert_eq!(api.snapshot().await, json!([]));
    for origin in [PAGE, &own] {
        answered(post(&api).header("Origin", origin), 201).await;
    }
}

/// A page can be under a name that becomes an alias of this machine (DNS rebinding). The browser
/// then takes the service for the origin of the page. Without `strategies`, all requests of such a
/// page are refused.
#[tokio::test]
async fn a_page_under_another_name_of_the_machine_gets_no_defaults() {
    let api = laptop_with(&[("SUKKAL_AUTH__STRATEGIES", "none")]);
    let port = api.server.sukkal.url("").rsplit(':').next().unwrap().to_owned();
    let get = || api.bare(Method::GET, "/v2/queues");

    let host = format!("evil.example:{port}");
    for (request, title) in [
        (get(), "Missing header value"),
        (get().header("Client-ID", CLIENT), "Project-Id Missing"),
        (get().header("X-Project-ID", &api.id), "Missing header value"),
        (post(&api).header("Origin", format!("http://{host}")), "Missing header value"),
    ] {
        refused(request.header("Host", &host), 400, title).await;
    }
    assert_eq!(api.snapshot().await, json!([]));
    for own in ["localhost", "127.0.0.1", "[::1]", "app.example.com"] {
        answered(get().header("Host", own), 200).await;
        let own = format!("{own}:{port}");
        answered(post(&api).header("Host", &own).header("Origin", format!("http://{own}")), 201).await;
    }
    let named = get().header("Host", &host).header("Client-ID", CLIENT).header("X-Project-ID", &api.id);
    answered(named, 200).await;
}

async fn refused_to(request: RequestBuilder, origin: &str, title: &str) {
    let answer = answered(request.header("Origin", origin), 400).await;
    assert_eq!(answer.json()["title"], title, "{origin}: {answer:?}");
}

/// Such a request would otherwise act on the default project.
#[tokio::test]
async fn a_misspelled_header_gets_a_warning_if_a_default_takes_its_place() {
    let api = laptop();
    let request = |name: &str| api.bare(Method::GET, "/v2/queues").header(name, "shop");

    for (name, meant) in [("X-ProjectID", "X-Project-ID"), ("X-Client-ID", "Client-ID")] {
        let name = name.to_lowercase();
        let expected = format!("unknown header \"{name}\" has no effect; did you mean \"{meant}\"?");
        assert_eq!(warnings_of(request(&name), 200).await, [expected]);
    }
    let long = format!("X{}Project-ID", "-".repeat(1_000));
    let [warning] = &warnings_of(request(&long), 200).await[..] else { panic!("one warning") };
    assert!(warning.len() < 200 && warning.contains("did you mean \"X-Project-ID\"?"), "{warning}");
    for name in ["X-Project-ID", "Client-IP"] {
        assert_eq!(warnings_of(request(name), 200).await, [""; 0], "{name}");
    }
}
