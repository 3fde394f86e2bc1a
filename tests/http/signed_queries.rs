//! Pre-signed URLs whose signature is in the query, for clients that cannot set headers.

use super::signed_urls::{EXPIRES, NOT_SIGNED, SECRET, SignedUrl, sign, signing_project};
use super::*;
use support::events::Events;
use support::sukkal::CLIENT;
use support::waiting::block_until;

const SHOWS_STATES: &str =
    "\"include_state\" is not allowed with a pre-signed URL, because it shows other clients and their claims";

impl SignedUrl {
    fn parameters(&self) -> [(&'static str, String); 6] {
        [
            ("url_paths", self.paths.clone()),
            ("url_methods", self.methods.clone()),
            ("url_expires", self.expires.clone()),
            ("url_signature", self.signature.clone()),
            ("project_id", self.project.clone()),
            ("client_id", CLIENT.to_owned()),
        ]
    }

    /// Returns a path with all parameters.
    pub(super) fn path(&self, path: &str) -> String {
        with_parameters(path, &self.parameters())
    }
}

/// Adds parameters to a path, encoded as JavaScript's `URLSearchParams` does.
fn with_parameters(path: &str, parameters: &[(&str, String)]) -> String {
    let url = reqwest::Url::parse_with_params("http://h", parameters).unwrap();
    format!("{path}{}{}", if path.contains('?') { '&' } else { '?' }, url.query().unwrap())
}

fn get(project: &Project, path: &str) -> RequestBuilder {
    project.bare(Method::GET, path)
}

#[tokio::test]
async fn a_get_may_have_its_signature_in_the_query() {
    let project = signing_project();
    let [id] = &project.post_bodies("q", &[json!(1)]).await[..] else { panic!("one id for one message") };
    let url = SignedUrl::shared(&project, &json!({ "expires": EXPIRES })).await;

    let page = answered(get(&project, &url.path(&format!("{MESSAGES}?echo=true"))), 200).await.json();
    assert_eq!(pick(&page["messages"], "id"), [json!(id)]);
    answered(get(&project, &url.path(&format!("{MESSAGES}/{id}"))), 200).await;
    let mut events = Events::open(get(&project, &url.path(&format!("{MESSAGES}?echo=true")))).await;
    assert_eq!(events.bodies(1).await, [1]);

    let two = sign("/v2/queues/q/claims,/v2/queues/q/messages", "GET,POST", &project.id, "2099-01-01T00:00:00");
    answered(get(&project, &two.path(MESSAGES)), 200).await;
    answered(get(&project, &two.path(MESSAGES).replace("%2C", ",").replace("%2F", "/")), 200).await;
    answered(get(&project, &two.path(MESSAGES).replace("url_signature", "url%5Fsignature")), 200).await;
}

/// A claim id allows its holder to delete messages.
#[tokio::test]
async fn a_pre_signed_url_does_not_show_states() {
    let project = signing_project();
    let [id] = &project.post_bodies("q", &[json!(1)]).await[..] else { panic!("one id for one message") };
    project.claim(1).await;
    let url = sign(MESSAGES, "GET", &project.id, EXPIRES);

    for path in [
        format!("{MESSAGES}?include_state=true&include_claimed=true"),
        format!("{MESSAGES}?ids={id}&include_state=true"),
        format!("{MESSAGES}/{id}?include_state=true"),
    ] {
        for request in [get(&project, &url.path(&path)), url.get(&project, &path)] {
            assert_eq!(refused(request, 400, INVALID_REQUEST).await, SHOWS_STATES);
        }
        answered(get(&project, &url.path(&path.replace("=true", "=false"))), 200).await;
        let unclaimed = answered(get(&project, &url.path(&path.replace("include_state=true", "echo=true"))), 200).await;
        assert!(unclaimed.text.contains(id) && !unclaimed.text.contains("claim_id"), "{path}: {unclaimed:?}");
    }
}

#[tokio::test]
async fn a_signature_in_the_query_allows_only_a_get() {
    let project = signing_project();
    project.post_bodies("q", &[json!(1)]).await;
    let url = sign(MESSAGES, "DELETE,GET,HEAD,OPTIONS,PATCH,POST,PUT", &project.id, EXPIRES);
    let before = project.snapshot().await;

    for method in [Method::POST, Method::DELETE, Method::PUT, Method::PATCH, Method::OPTIONS, Method::HEAD] {
        for path in [url.path(MESSAGES), url.path(&format!("{MESSAGES}?pop=1"))] {
            let with_caller = project.request(method.clone(), &path);
            for request in [project.bare(method.clone(), &path), with_caller] {
                let answer = answered(request.body(r#"{"messages": [{"body": 2}]}"#), 404).await;
                assert!(method == Method::HEAD || answer.refusal(404, NO_ROUTE) == NOT_SIGNED, "{method} {path}");
            }
        }
    }
    assert_eq!(project.snapshot().await, before);
}

#[tokio::test]
async fn a_request_with_a_changed_parameter_is_404() {
    let project = signing_project();
    let good = sign(MESSAGES, "GET", &project.id, EXPIRES);
    answered(get(&project, &good.path(MESSAGES)), 200).await;

    let upper = good.signature.to_uppercase();
    let cut = &good.signature[..63];
    let longer = format!("{}0", good.signature);
    for (parameter, values) in [
        ("url_paths", &["/v2/queues/q", "/v2/queues/q/messages,/v2/queues/r/messages", "/v2", ""][..]),
        ("url_methods", &["GET,POST", "get", "POST", ""]),
        ("url_expires", &["2099-01-01T00:00:01", "2020-01-01T00:00:00", "4070908800", ""]),
        ("url_signature", &[cut, &longer, &upper, "0", ""]),
        ("project_id", &["p", ""]),
    ] {
        let without: Vec<_> = good.parameters().into_iter().filter(|(name, _)| *name != parameter).collect();
        let sent = |values: &[&str]| {
            let values = values.iter().map(|value| (parameter, (*value).to_owned()));
            let parameters: Vec<_> = without.iter().cloned().chain(values).collect();
            get(&project, &with_parameters(MESSAGES, &parameters))
        };
        for value in values {
            assert_eq!(refused(sent(&[value]), 404, NO_ROUTE).await, NOT_SIGNED, "{parameter}: {value:?}");
        }
        if parameter == "url_signature" {
            // Without a signature, the request is an ordinary one, whose query names no caller.
            refused(sent(&[]), 400, "Missing header value").await;
        } else {
            assert_eq!(refused(sent(&[]), 404, NO_ROUTE).await, NOT_SIGNED, "no {parameter}");
        }
        let (_, right) = good.parameters().into_iter().find(|(name, _)| *name == parameter).unwrap();
        for second in [&right, "", "x"] {
            for both in [[right.as_str(), second], [second, right.as_str()]] {
                assert_eq!(refused(sent(&both), 404, NO_ROUTE).await, NOT_SIGNED, "{parameter}: {both:?}");
            }
        }
    }
    let no_value = good.path(MESSAGES).replace(&format!("url_signature={}", good.signature), "url_signature");
    assert_eq!(refused(get(&project, &no_value), 404, NO_ROUTE).await, NOT_SIGNED);
    let not_utf8 = good.path(MESSAGES).replace(&project.id, &format!("{}%FF", project.id));
    assert_eq!(refused(get(&project, &not_utf8), 404, NO_ROUTE).await, NOT_SIGNED);
}

#[tokio::test]
async fn a_signature_in_the_query_is_for_one_project() {
    let (project, victim) = (signing_project(), signing_project());
    victim.post_bodies("q", &[json!("secret")]).await;
    let url = sign(MESSAGES, "GET", &project.id, EXPIRES);

    // The project of the headers counts, and then it must be the signed one.
    let with_header = |project: &Project| get(project, &url.path(MESSAGES)).header("X-Project-ID", &project.id);
    answered(with_header(&project), 200).await;
    assert_eq!(refused(with_header(&victim), 404, NO_ROUTE).await, NOT_SIGNED);
    let moved = SignedUrl { project: victim.id.clone(), ..url.clone() };
    assert_eq!(refused(get(&victim, &moved.path(MESSAGES)), 404, NO_ROUTE).await, NOT_SIGNED);
    let in_part = url.path(MESSAGES).replace("project_id=", &format!("project_id={},", victim.id));
    assert_eq!(refused(get(&victim, &in_part), 404, NO_ROUTE).await, NOT_SIGNED);
}

#[tokio::test]
async fn a_signature_is_in_the_headers_or_in_the_query() {
    let project = signing_project();
    let url = sign(MESSAGES, "GET", &project.id, EXPIRES);

    let both = get(&project, &url.path(MESSAGES)).header("URL-Signature", &url.signature);
    refused(both, 400, "Ambiguous identification").await;
    refused(project.get("/?url_signature=").header("URL-Signature", ""), 400, "Ambiguous identification").await;
    // The other parts count only where the signature is.
    let parts = get(&project, &format!("{MESSAGES}?url_signature={}", url.signature));
    let parts = parts.header("URL-Paths", &url.paths).header("URL-Methods", &url.methods);
    let parts = parts.header("URL-Expires", &url.expires).header("X-Project-ID", &url.project);
    assert_eq!(refused(parts.header("Client-ID", CLIENT), 404, NO_ROUTE).await, NOT_SIGNED);
}

/// A proxy that passes requests with a signature without authentication may read the query in
/// another way than Sukkal.
#[tokio::test]
async fn a_request_that_a_proxy_could_take_for_a_signed_one_is_404() {
    let project = signing_project();
    let url = sign(MESSAGES, "GET", &project.id, EXPIRES);

    for query in [
        "url_signature",
        "url_signature=",
        "URL_SIGNATURE=x",
        "limit=1;url_signature=x",
        "limit=1,url_signature=x",
        "limit=1&amp;url_signature=x",
        "limit=1%26url_signature=x",
        "marker=?url_signature=x",
        "marker=url_signature",
        "%75%72l%5Fsignature=x",
    ] {
        for path in ["/", "/v2/queues", MESSAGES] {
            assert_eq!(refused(project.get(&format!("{path}?{query}")), 404, NO_ROUTE).await, NOT_SIGNED, "{query}");
        }
    }
    let renamed = url.path(MESSAGES).replace("url_signature", "URL_Signature");
    assert_eq!(refused(get(&project, &renamed), 404, NO_ROUTE).await, NOT_SIGNED);
}

#[tokio::test]
async fn a_signature_in_the_query_replaces_no_other_check() {
    let project = signing_project();
    let url = sign(MESSAGES, "GET", &project.id, EXPIRES);
    let without_client = url.path(MESSAGES).replace("client_id=", "x=");

    refused(get(&project, &url.path(MESSAGES)).header("Accept", "text/html"), 406, "Media type not acceptable").await;
    let description = refused(get(&project, &without_client), 400, "Missing header value").await;
    assert!(description.contains("client_id"), "{description}");
    answered(get(&project, &without_client).header("Client-ID", CLIENT), 200).await;
    refused(get(&project, &format!("{without_client}&client_id=me")), 400, "Wrong UUID value").await;
    let twice = format!("{}&client_id={OTHER_CLIENT}", url.path(MESSAGES));
    refused(get(&project, &twice), 400, "Ambiguous identification").await;
    // A server without a secret accepts no signature.
    let unsigned = new_project();
    refused(get(&unsigned, &sign(MESSAGES, "GET", &unsigned.id, EXPIRES).path(MESSAGES)), 404, NO_ROUTE).await;
    refused(unsigned.get("/v2/queues?url_signature="), 404, NO_ROUTE).await;
}

#[tokio::test]
async fn a_signature_in_the_query_is_no_metadata_filter() {
    let project = signing_project();
    project.create("q", &json!({})).await;
    let url = sign("/v2/queues", "GET", &project.id, EXPIRES);

    let list = answered(get(&project, &url.path("/v2/queues")), 200).await;

    assert_eq!(pick(&list.json()["queues"], "name"), ["q"]);
    assert!(!list.text.contains(&url.signature), "{list:?}");
    // Without a signature, these names are filters like any other.
    assert_eq!(answered(project.get("/v2/queues?client_id=x"), 200).await.json()["queues"], json!([]));
}

#[tokio::test]
async fn signatures_are_not_logged() {
    let options = [("SUKKAL_SIGNED_URL__SECRET_KEY", SECRET), ("SUKKAL_LOG__FILTER", "trace")];
    let project = Project::of(&Arc::new(Server::start(&options)), &format!("project-{}", Uuid::new_v4()));
    let url = SignedUrl::shared(&project, &json!({ "expires": EXPIRES })).await;
    let last = "/v2/nothing";

    answered(get(&project, &url.path(MESSAGES)), 200).await;
    answered(url.get(&project, MESSAGES), 200).await;
    let tampered = SignedUrl { expires: "2098-01-01".to_owned(), ..url.clone() };
    refused(tampered.get(&project, MESSAGES), 404, NO_ROUTE).await;
    for (path, status) in [
        (url.path(&format!("{MESSAGES}?limit=x")), 400),
        (url.path(MESSAGES).replace("client_id=", "client_id=me"), 400),
        (url.path(MESSAGES).replace("2099", "2098"), 404),
        (url.path("/v2/queues"), 404),
        (url.path(&format!("{MESSAGES}?name={}", "x".repeat(9000))), 414),
        (url.path(last), 404),
    ] {
        let answer = answered(get(&project, &path), status).await;
        assert!(!answer.text.contains(&url.signature), "{answer:?}");
    }

    let metrics = answered(project.bare(Method::GET, "/metrics"), 200).await.text;
    let log = || project.server.sukkal.log();
    block_until("all requests are logged", || log().iter().any(|line| line.contains(last) && line.contains("404")));
    for text in [log().join("\n"), metrics] {
        assert!(!text.contains(SECRET) && !text.contains(&url.signature), "{text}");
    }
}
