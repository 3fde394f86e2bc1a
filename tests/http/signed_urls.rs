//! Requests with a pre-signed URL (fact sheet 9). An invalid signature is a 404 without details.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use sukkal::api::routes;

use super::*;
use crate::clients::contract::settings;
use support::events::Events;
use support::sukkal::CLIENT;

pub(super) const SECRET: &str = "a secret of these tests";
pub(super) const EXPIRES: &str = "2099-01-01T00:00:00";
const AMBIGUOUS: &str = "Ambiguous identification";
pub(super) const NOT_SIGNED: &str = "The URL-Signature does not allow this request.";

/// Returns a new project on a server that signs URLs.
pub(super) fn signing_project() -> Project {
    static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());

    let server = shared_instance(&SHARED, || Server::start(&[("SUKKAL_SIGNED_URL__SECRET_KEY", SECRET)]));
    Project::of(&server, &format!("project-{}", Uuid::new_v4()))
}

/// The headers or query parameters of a request with a pre-signed URL.
#[derive(Clone, Debug)]
pub(super) struct SignedUrl {
    pub(super) paths: String,
    pub(super) methods: String,
    pub(super) project: String,
    pub(super) expires: String,
    pub(super) signature: String,
}

/// Signs without the checks of the service, as an operator with the secret could.
pub(super) fn sign(paths: &str, methods: &str, project: &str, expires: &str) -> SignedUrl {
    let text = format!(r"{paths}\n{methods}\n{project}\n{expires}");
    let tag = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap().chain_update(text).finalize().into_bytes();
    let [paths, methods, project, expires] = [paths, methods, project, expires].map(str::to_owned);
    let signature = tag.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
    SignedUrl { paths, methods, project, expires, signature }
}

impl SignedUrl {
    /// Lets the service sign a URL for the queue `q`.
    pub(super) async fn shared(project: &Project, body: &Value) -> Self {
        let document = answered(project.post("/v2/queues/q/share", body), 200).await.json();
        let list = |key: &str| document[key].as_array().unwrap().iter().map(text).collect::<Vec<_>>().join(",");
        let [project, expires, signature] =
            ["project", "expires", "signature"].map(|key| text(&document[key]).to_owned());
        Self { paths: list("paths"), methods: list("methods"), project, expires, signature }
    }

    fn headers(&self) -> [(&'static str, &str); 5] {
        [
            ("URL-Paths", &self.paths),
            ("URL-Methods", &self.methods),
            ("URL-Expires", &self.expires),
            ("URL-Signature", &self.signature),
            ("X-Project-ID", &self.project),
        ]
    }

    fn request(&self, project: &Project, method: Method, path: &str) -> RequestBuilder {
        let request = project.bare(method, path).header("Client-ID", CLIENT);
        self.headers().iter().fold(request, |request, (name, value)| request.header(*name, *value))
    }

    pub(super) fn get(&self, project: &Project, path: &str) -> RequestBuilder {
        self.request(project, Method::GET, path)
    }
}

/// Row 9-12.
#[tokio::test]
async fn a_signed_url_allows_its_paths_and_methods() {
    let project = signing_project();
    let [id] = &project.post_bodies("q", &[json!(1)]).await[..] else { panic!("one id for one message") };
    let body = json!({"methods": ["GET", "POST"], "paths": ["messages", "claims"], "expires": EXPIRES});

    let url = SignedUrl::shared(&project, &body).await;

    let page = answered(url.get(&project, &format!("{MESSAGES}?echo=true")), 200).await.json();
    assert_eq!(pick(&page["messages"], "id"), [json!(id)]);
    answered(url.get(&project, &format!("{MESSAGES}/{id}")), 200).await;
    let messages = json!({"messages": [{"body": 2}]});
    answered(url.request(&project, Method::POST, MESSAGES).json(&messages), 201).await;
    answered(url.request(&project, Method::POST, "/v2/queues/q/claims").json(&json!({})), 201).await;
    refused(url.request(&project, Method::DELETE, &format!("{MESSAGES}/{id}")), 404, NO_ROUTE).await;
}

/// First all processes accept the new key, then each of them signs with it.
#[tokio::test]
async fn the_key_can_be_exchanged_without_an_interruption() {
    const NEW: &str = "another secret of these tests";
    let server = |secret, accepted| {
        let keys = [("SUKKAL_SIGNED_URL__SECRET_KEY", secret), ("SUKKAL_SIGNED_URL__ACCEPTED_SECRET_KEY", accepted)];
        Arc::new(Server::start(&keys))
    };
    let id = format!("project-{}", Uuid::new_v4());
    let [prepared, exchanged, finished] =
        [(SECRET, NEW), (NEW, SECRET), (NEW, "")].map(|(secret, accepted)| Project::of(&server(secret, accepted), &id));
    let body = json!({"expires": EXPIRES});

    let old = SignedUrl::shared(&prepared, &body).await;
    let new = SignedUrl::shared(&exchanged, &body).await;

    assert_eq!(old.signature, sign(MESSAGES, "GET", &id, EXPIRES).signature);
    for url in [&old, &new] {
        answered(url.get(&prepared, MESSAGES), 200).await;
        answered(url.get(&exchanged, MESSAGES), 200).await;
    }
    answered(new.get(&finished, MESSAGES), 200).await;
    refused(old.get(&finished, MESSAGES), 404, NO_ROUTE).await;
}

/// The id of a claim gives access to its messages.
#[tokio::test]
async fn no_signed_url_allows_the_list_of_claims() {
    let project = signing_project();
    project.post_bodies("q", &[json!(1)]).await;
    let claim = project.claim(1).await;
    let methods = "DELETE,GET,HEAD,OPTIONS,PATCH,POST";

    for paths in ["/v2/queues/q/claims", "/v2/queues/q", "/v2"] {
        let url = sign(paths, methods, &project.id, EXPIRES);
        for path in ["/v2/queues/q/claims", "/v2/queues/q/claims?limit=1"] {
            assert_eq!(refused(url.get(&project, path), 404, NO_ROUTE).await, NOT_SIGNED, "{paths} for {path}");
            answered(url.request(&project, Method::HEAD, path), 404).await;
        }
        answered(url.get(&project, &claim.path), 200).await;
    }
    answered(project.get("/v2/queues/q/claims"), 200).await;
}

/// The id of a claim lets a guest delete messages that a worker holds.
#[tokio::test]
async fn a_signed_url_shows_no_claims_of_others() {
    let project = signing_project();
    let [id] = &project.post_bodies("q", &[json!(1)]).await[..] else { panic!("one id for one message") };
    let claim = project.claim(1).await;
    let body = json!({"methods": ["GET", "POST"], "paths": ["messages", "claims"], "expires": EXPIRES});
    let url = SignedUrl::shared(&project, &body).await;
    let all = format!("{MESSAGES}?echo=true&include_claimed=true");
    let one = format!("{MESSAGES}/{id}");

    for path in [&all, &format!("{MESSAGES}?ids={id}")] {
        let page = answered(url.get(&project, path), 200).await.json();
        assert_eq!(pick(&page["messages"], "href"), [json!(one)], "{path}");
    }
    assert_eq!(answered(url.get(&project, &one), 200).await.json()["href"], json!(one));
    let event = Events::open(url.get(&project, &all)).await.next().await.unwrap();
    assert_eq!(event.data["href"], json!(one));
    // Other callers see the claim, and a guest sees a claim of its own.
    let with_claim = format!("{one}?claim_id={}", claim.id);
    assert_eq!(answered(project.get(&one), 200).await.json()["href"], json!(with_claim));
    project.post_bodies("q", &[json!(2)]).await;
    let own = answered(url.request(&project, Method::POST, "/v2/queues/q/claims").json(&json!({})), 201).await.json();
    assert!(text(&own["messages"][0]["href"]).contains("?claim_id="), "{own}");
}

/// Row 9-13.
#[tokio::test]
async fn methods_are_compared_exactly() {
    let project = signing_project();

    for (methods, allowed) in
        [("GET", true), ("GET,POST", true), ("GETS", false), ("get", false), ("OPTIONS", false), ("*", false)]
    {
        let answer = send(sign(MESSAGES, methods, &project.id, EXPIRES).get(&project, MESSAGES)).await;

        assert_eq!(answer.status, if allowed { 200 } else { 404 }, "{methods}");
    }
    let url = sign(MESSAGES, "GET", &project.id, EXPIRES);
    for method in [Method::OPTIONS, Method::HEAD, Method::PUT, Method::POST, Method::DELETE] {
        let answer = answered(url.request(&project, method.clone(), MESSAGES), 404).await;

        assert!(method == Method::HEAD || answer.json()["description"] == NOT_SIGNED, "{method}: {answer:?}");
    }
    let options = sign(MESSAGES, "OPTIONS", &project.id, EXPIRES);
    answered(options.request(&project, Method::OPTIONS, MESSAGES), 200).await;
}

/// Row 9-14.
#[tokio::test]
async fn a_path_covers_the_paths_below_it_and_nothing_else() {
    let project = signing_project();
    let below = format!("{MESSAGES}?echo=true");

    for (paths, path, opens) in [
        (MESSAGES, MESSAGES, true),
        (MESSAGES, &below, true),
        ("/v2/queues/q", MESSAGES, true),
        ("/v2", MESSAGES, true),
        ("/v2/queues/q/messages,/v2/queues/r/messages", MESSAGES, true),
        (MESSAGES, "/v2/queues/q", false),
        (MESSAGES, "/v2/queues/q/stats", false),
        (MESSAGES, "/v2/queues/qq/messages", false),
        ("/v2/queues/q", "/v2/queues/qq", false),
        ("/v2/queues/q", "/v2/queues/q-/messages", false),
        ("/v2/queues/q/mess", MESSAGES, false),
        ("/v2/queues/q/messages/", MESSAGES, false),
        ("/v2/queues/.*", MESSAGES, false),
        ("/v2/queues/*/messages", MESSAGES, false),
        ("queues/q/messages", MESSAGES, false),
        ("/queues/q/messages", MESSAGES, false),
        ("v2/queues/q/messages", MESSAGES, false),
        ("/v2/queues/%71/messages", MESSAGES, false),
        ("/v2/queues/%71/messages", "/v2/queues/%71/messages", false),
        ("/V2/queues/q/messages", MESSAGES, false),
        ("/", MESSAGES, false),
        ("", MESSAGES, false),
        (",", MESSAGES, false),
        (",/", MESSAGES, false),
    ] {
        let answer = send(sign(paths, "GET", &project.id, EXPIRES).get(&project, path)).await;

        assert_eq!(answer.status, if opens { 200 } else { 404 }, "{paths:?} for {path}: {answer:?}");
        assert!(opens || answer.json()["description"] == NOT_SIGNED, "{paths:?} for {path}: {answer:?}");
    }
}

#[tokio::test]
async fn no_spelling_of_a_path_reaches_another_queue() {
    let project = signing_project();
    project.post_bodies("q", &[json!("shared")]).await;
    let [secret] = &project.post_bodies("other", &[json!("secret")]).await[..] else { panic!("one id") };
    let url = sign(MESSAGES, "GET", &project.id, EXPIRES);
    // With the signature in the headers, and in the query.
    let get = async |path: &str| {
        let line = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        let head = format!("{}Client-ID: {CLIENT}\r\n", line(path));
        let head = url.headers().iter().fold(head, |head, (name, value)| format!("{head}{name}: {value}\r\n"));
        let in_query = line(&url.path(path));
        [project.send_raw(format!("{head}\r\n")).await, project.send_raw(format!("{in_query}\r\n")).await]
    };

    for same in get("/v2/queues/%71/messages?echo=true").await {
        assert_eq!(pick(&same.json()["messages"], "body"), [json!("shared")]);
    }
    for path in [
        "/v2/queues/q/messages/../../other/messages",
        "/v2/queues/q/messages/%2e%2e/%2e%2e/other/messages",
        "/v2/queues/q/messages/..%2F..%2Fother%2Fmessages",
        "/v2/queues/q/messages%2F..%2F..%2Fother/messages",
        "/v2/queues/q%2Fmessages/../other/messages",
        "/v2/queues/q%2fmessages",
        "/v2/queues/q/messages/%2e%2e",
        "/v2/queues/%2571/messages",
        "/v2/queues/q%00/messages",
        "/v2/queues/q;/messages",
        "/v2/queues/Q/messages",
        "/v2/queues/other/messages",
        "/v2/queues/other/messages?/v2/queues/q/messages",
        "/v2//queues/q/messages",
        "//v2/queues/q/messages",
        "/v2/./queues/q/messages",
        &format!("/v2/queues/q/messages/{secret}"),
        "http://other/v2/queues/other/messages",
        "/v2/queues",
        "/v2/queues/q",
        "/v2/queues/q/stats",
        "/",
    ] {
        for answer in get(path).await {
            assert_eq!(answer.status, 404, "{path}: {answer:?}");
            assert!(!answer.text.contains("\"body\""), "{path}: {answer:?}");
        }
    }
}

/// Row 9-15.
#[tokio::test]
async fn a_request_with_a_changed_header_is_404() {
    let project = signing_project();
    let body = json!({"methods": ["GET", "POST"], "paths": ["messages", "claims"], "expires": EXPIRES});
    let good = SignedUrl::shared(&project, &body).await;
    answered(good.get(&project, MESSAGES), 200).await;

    let more_paths = format!("{},/v2/queues/r/messages", good.paths);
    let cut = &good.signature[..63];
    let longer = format!("{}0", good.signature);
    let (upper, other_project) = (good.signature.to_uppercase(), format!("{}x", good.project));
    for (header, values) in [
        ("URL-Paths", &[MESSAGES, &more_paths, "/v2/queues/q", ""][..]),
        ("URL-Methods", &["GET", "GET,POST,PUT", "GET, POST", "GET,POST,GET", ""]),
        ("URL-Expires", &["2099-01-01T00:00:01", "2199-01-01T00:00:00", "4070908800", "never", ""]),
        ("URL-Signature", &[cut, &longer, &upper, "0", ""]),
        ("X-Project-ID", &[&other_project, "p", ""]),
    ] {
        let without: Vec<_> = good.headers().into_iter().filter(|(name, _)| *name != header).collect();
        for value in values.iter().map(|value| Some(*value)).chain([None]) {
            let presented = without.iter().copied().chain(value.map(|value| (header, value)));
            let request = project.bare(Method::GET, MESSAGES).header("Client-ID", CLIENT);
            let request = presented.fold(request, |request, (name, value)| request.header(name, value));

            let answer = send(request).await;

            if (header, value) == ("URL-Signature", None) {
                assert_eq!(answer.status, 200, "without a signature the request is an ordinary one");
            } else {
                assert_eq!(answer.refusal(404, NO_ROUTE), NOT_SIGNED, "{header}: {value:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_request_with_a_repeated_header_is_refused() {
    let project = signing_project();
    let good = sign(MESSAGES, "GET", &project.id, EXPIRES);

    for (name, value) in &good.headers()[..4] {
        for second in [*value, "", "/v2/queues/other/messages"] {
            refused(good.get(&project, MESSAGES).header(*name, second), 400, AMBIGUOUS).await;
        }
    }
    let victim = signing_project();
    victim.post_bodies("q", &[json!("secret")]).await;
    for name in ["X-Project-ID", "X-Tenant-Id", "X-Tenant"] {
        let second = good.get(&project, MESSAGES).header(name, &victim.id);
        if name == "X-Project-ID" {
            refused(second, 400, AMBIGUOUS).await;
        } else {
            assert_eq!(answered(second, 200).await.json()["messages"], json!([]), "{name}");
        }
        let first = project.bare(Method::GET, MESSAGES).header("Client-ID", CLIENT).header("X-Project-ID", &victim.id);
        let both = good.headers().iter().fold(first, |request, (name, value)| request.header(*name, *value));
        refused(both, 400, AMBIGUOUS).await;
    }
}

/// Row 9-15.
#[tokio::test]
async fn order_and_spelling_do_not_matter_if_the_signature_is_the_same() {
    let project = signing_project();
    let good = sign("/v2/queues/q/claims,/v2/queues/q/messages", "GET,POST", &project.id, EXPIRES);
    let (paths, methods) = ("/v2/queues/q/messages,/v2/queues/q/claims".to_owned(), "POST,GET".to_owned());

    let reordered = SignedUrl { paths, methods, ..good.clone() };

    answered(reordered.get(&project, MESSAGES), 200).await;
    for expires in ["2099-01-01", "2099-01-01T00:00:00.5Z", "2099-01-01T01:00:00+01:00"] {
        let respelled = SignedUrl { expires: expires.to_owned(), ..good.clone() };
        answered(respelled.get(&project, MESSAGES), 200).await;
    }
    let raw = sign(MESSAGES, "GET", &project.id, "2099-01-01");
    refused(raw.get(&project, MESSAGES), 404, NO_ROUTE).await;
}

/// Row 9-15.
#[tokio::test]
async fn an_expired_url_is_404() {
    let project = signing_project();

    for expires in ["2020-01-01T00:00:00", "0000-01-01T00:00:00"] {
        let url = sign(MESSAGES, "GET", &project.id, expires);
        refused(url.get(&project, MESSAGES), 404, NO_ROUTE).await;
    }
}

#[tokio::test]
async fn a_url_allows_one_queue_of_one_project() {
    let (owner, other) = (signing_project(), signing_project());
    let url = SignedUrl::shared(&owner, &json!({ "expires": EXPIRES })).await;
    answered(url.get(&owner, MESSAGES), 200).await;

    refused(url.get(&owner, "/v2/queues/r/messages"), 404, NO_ROUTE).await;
    let moved = SignedUrl { project: other.id.clone(), ..url };
    refused(moved.get(&other, MESSAGES), 404, NO_ROUTE).await;

    // A signature for a project whose name contains a separator must not be valid for other paths,
    // methods or projects.
    let path = "/v2/queues/secret/messages";
    let attacker = Project::of(&owner.server, &format!(r"x,GET\n{}", owner.id));
    let url = SignedUrl::shared(&attacker, &json!({ "methods": ["A"], "expires": EXPIRES })).await;
    let reinterpreted = SignedUrl { methods: r"A\nx,GET".to_owned(), project: owner.id.clone(), ..url };
    refused(reinterpreted.get(&owner, MESSAGES), 404, NO_ROUTE).await;
    let attacker = Project::of(&owner.server, &format!(r"x,{path}\nGET\n{}", owner.id));
    let url = SignedUrl::shared(&attacker, &json!({ "methods": ["A"], "expires": EXPIRES })).await;
    let (paths, methods) = (format!(r"{MESSAGES}\nA\nx,{path}"), "GET".to_owned());
    let reinterpreted = SignedUrl { paths, methods, project: owner.id.clone(), ..url };
    refused(reinterpreted.get(&owner, path), 404, NO_ROUTE).await;
}

#[tokio::test]
async fn a_server_without_a_secret_accepts_no_signature() {
    let project = new_project();

    refused(sign(MESSAGES, "GET", &project.id, EXPIRES).get(&project, MESSAGES), 404, NO_ROUTE).await;
    refused(project.get(MESSAGES).header("URL-Signature", ""), 404, NO_ROUTE).await;
}

#[tokio::test]
async fn every_route_checks_the_signature() {
    let project = signing_project();
    let all_methods = "DELETE,GET,HEAD,OPTIONS,PATCH,POST,PUT";
    let good = sign("/v2", all_methods, &project.id, EXPIRES);
    let elsewhere = sign("/v2/elsewhere", all_methods, &project.id, EXPIRES);

    for (template, methods) in routes(&settings(&[])).into_iter().filter(|(path, _)| path.starts_with("/v2")) {
        let path = template.replace("{queue_name}", "q").replace("{message_id}", "m").replace("{claim_id}", "c");
        for (method, _) in methods {
            let empty = project.request(method.clone(), &path).header("URL-Signature", "");
            for refused in [empty, elsewhere.request(&project, method.clone(), &path)] {
                let answer = answered(refused, 404).await;
                assert!(method == Method::HEAD || answer.refusal(404, NO_ROUTE) == NOT_SIGNED, "{method} {path}");
            }
            let lists_claims = path.ends_with("/claims") && method == Method::GET;
            let answer = send(good.request(&project, method.clone(), &path)).await;
            assert!(lists_claims || !answer.text.contains(NO_ROUTE), "{method} {path}: {answer:?}");
            assert!(answer.status < 500, "{method} {path}: {answer:?}");
        }
    }
    for path in ["/", "/v2/nothing", "/v2/queues/q/nothing"] {
        let everything = sign("/,/v2", all_methods, &project.id, EXPIRES);
        refused(everything.get(&project, path), 404, NO_ROUTE).await;
    }
    for path in ["/healthz", "/readyz"] {
        answered(project.bare(Method::GET, path).header("URL-Signature", ""), 204).await;
    }
}

/// Row 9-16.
#[tokio::test]
async fn a_valid_signature_replaces_no_other_check() {
    let project = signing_project();
    let good = sign("/v2/queues", "GET,POST", &project.id, EXPIRES);
    let without_client = |method| {
        let request = project.bare(method, "/v2/queues/caf%C3%A9");
        good.headers().iter().fold(request, |request, (name, value)| request.header(*name, *value))
    };
    let with_client = |method| without_client(method).header("Client-ID", CLIENT);

    let form = with_client(Method::GET).header("Content-Type", "application/x-www-form-urlencoded").body("a=1");
    refused(form, 400, "Invalid Content-Type").await;
    refused(with_client(Method::GET).header("Accept", "text/html"), 406, "Media type not acceptable").await;
    refused(without_client(Method::GET), 400, "Missing header value").await;
    refused(with_client(Method::GET), 400, INVALID_QUEUE).await;
    refused(good.request(&project, Method::POST, "/v2/queues/q"), 405, "405 Method Not Allowed").await;
    refused(with_client(Method::PUT), 404, NO_ROUTE).await;
}

/// The service would post there in the name of the guest, who has rights on one queue only.
#[tokio::test]
async fn a_guest_cannot_name_a_queue_that_the_service_posts_to() {
    const SUBSCRIPTIONS: &str = "/v2/queues/q/subscriptions";
    let project = signing_project();
    let body = json!({"paths": ["messages", "subscriptions"], "methods": ["GET", "POST", "PATCH"]});
    let url = SignedUrl::shared(&project, &body).await;
    let forbidden = |request| refused(request, 403, "Not authorized");
    let with = |options: Value| json!({"subscriber": "http://1.1.1.1/", "options": options});
    let targets = ["dead_letter_queue", "notify_queue"].map(|option| (option, json!({option: "payroll"})));

    for (option, options) in &targets {
        let request = url.request(&project, Method::POST, SUBSCRIPTIONS).json(&with(options.clone()));
        assert!(forbidden(request).await.contains(option), "{option}");
    }
    assert_eq!(answered(project.get("/v2/queues"), 200).await.json()["queues"], json!([]));

    let request = url.request(&project, Method::POST, SUBSCRIPTIONS).json(&with(json!({"ordered": true})));
    let created = answered(request, 201).await.json();
    let path = format!("{SUBSCRIPTIONS}/{}", text(&created["subscription_id"]));
    for (_, options) in &targets {
        forbidden(url.request(&project, Method::PATCH, &path).json(&json!({ "options": options }))).await;
    }
    assert_eq!(answered(project.get(&path), 200).await.json()["options"], json!({"ordered": true}));

    let url = sign("/v2/queues/other", "PATCH,PUT", &project.id, EXPIRES);
    let create = |metadata: Value| url.request(&project, Method::PUT, "/v2/queues/other").json(&metadata);
    forbidden(create(json!({"_dead_letter_queue": "payroll"}))).await;
    answered(create(json!({})), 201).await;
    let change = json!([{"op": "add", "path": "/metadata/_dead_letter_queue", "value": "payroll"}]).to_string();
    let request = url.request(&project, Method::PATCH, "/v2/queues/other").header("Content-Type", PATCH_TYPE);
    forbidden(request.body(change)).await;
}

/// Even if the proxy passes the role of an operator.
#[tokio::test]
async fn a_signed_request_has_no_roles_of_the_headers_and_cannot_name_another_project() {
    let options = [("SUKKAL_SIGNED_URL__SECRET_KEY", SECRET), ("SUKKAL_ADMIN_MODE", "true")];
    let server = Arc::new(Server::start(&options));
    let [owner, other] = ["owner", "other"].map(|kind| Project::of(&server, &format!("{kind}-{}", Uuid::new_v4())));
    owner.post_bodies("q", &[json!("ours")]).await;
    other.post_bodies("q", &[json!("theirs")]).await;
    let url = sign(&format!("/v2/health,{MESSAGES}"), "GET", &owner.id, EXPIRES);

    refused(url.get(&owner, "/v2/health"), 403, "Not authorized").await;
    refused(url.get(&owner, "/v2/health").header("X-Roles", "admin"), 403, "Not authorized").await;
    answered(owner.get("/v2/health").header("X-Roles", "admin"), 200).await;
    let request = url.get(&owner, &format!("{MESSAGES}?echo=true&project_id={}", other.id)).header("X-Roles", "admin");

    assert_eq!(pick(&answered(request, 200).await.json()["messages"], "body"), ["ours"]);
}
