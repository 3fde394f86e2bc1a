//! Requests with a pre-signed URL (chapter 9): a 404 that says no more, unless all of it is right.

use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use sukkal::api::http::{Settings, routes};
use sukkal::api::wire::checksum::Checksums;
use sukkal::domain::ClientIdRule;

use super::*;
use crate::support::redis::poll_until;
use crate::support::sukkal::CLIENT;

const SECRET: &str = "a secret of these tests";
const EXPIRES: &str = "2099-01-01T00:00:00";
const MESSAGES: &str = "/v2/queues/q/messages";
const NOT_SIGNED: &str = "The URL-Signature does not allow this request.";

/// A new project on a server that signs URLs.
pub(super) fn signing_tenant() -> Tenant {
    static SHARED: Mutex<Weak<Stage>> = Mutex::new(Weak::new());

    let stage = share(&SHARED, || Stage::start(&[("SUKKAL_SIGNED_URL__SECRET_KEY", SECRET)]));
    Tenant::of(&stage, &format!("project-{}", Uuid::new_v4()))
}

/// What a client shows that uses a pre-signed URL.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    paths: String,
    methods: String,
    project: String,
    expires: String,
    pub(super) signature: String,
}

/// Signs as an operator could who has the secret, and without what the service checks.
pub(super) fn sign(paths: &str, methods: &str, project: &str, expires: &str) -> Shown {
    let text = format!(r"{paths}\n{methods}\n{project}\n{expires}");
    let tag = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap().chain_update(text).finalize().into_bytes();
    let [paths, methods, project, expires] = [paths, methods, project, expires].map(str::to_owned);
    let signature = tag.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
    Shown { paths, methods, project, expires, signature }
}

impl Shown {
    /// What the service has signed for the queue `q`.
    async fn shared(tenant: &Tenant, wish: &Value) -> Self {
        let document = answered(tenant.post("/v2/queues/q/share", wish), 200).await.json();
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

    fn request(&self, tenant: &Tenant, method: Method, path: &str) -> RequestBuilder {
        let request = tenant.bare(method, path).header("Client-ID", CLIENT);
        self.headers().iter().fold(request, |request, (name, value)| request.header(*name, *value))
    }

    fn get(&self, tenant: &Tenant, path: &str) -> RequestBuilder {
        self.request(tenant, Method::GET, path)
    }
}

/// Row 9-12.
#[tokio::test]
async fn a_shared_url_opens_what_it_says() {
    let tenant = signing_tenant();
    let [id] = &tenant.post_bodies("q", &[json!(1)]).await[..] else { panic!("one id for one message") };
    let wish = json!({"methods": ["GET", "POST"], "paths": ["messages", "claims"], "expires": EXPIRES});

    let url = Shown::shared(&tenant, &wish).await;

    let page = answered(url.get(&tenant, &format!("{MESSAGES}?echo=true")), 200).await.json();
    assert_eq!(pick(&page["messages"], "id"), [json!(id)]);
    answered(url.get(&tenant, &format!("{MESSAGES}/{id}")), 200).await;
    let messages = json!({"messages": [{"body": 2}]});
    answered(url.request(&tenant, Method::POST, MESSAGES).json(&messages), 201).await;
    answered(url.request(&tenant, Method::POST, "/v2/queues/q/claims").json(&json!({})), 201).await;
    refused(url.request(&tenant, Method::DELETE, &format!("{MESSAGES}/{id}")), 404, NO_ROUTE).await;
}

/// Row 9-13.
#[tokio::test]
async fn a_method_is_allowed_to_the_letter() {
    let tenant = signing_tenant();

    for (methods, allowed) in
        [("GET", true), ("GET,POST", true), ("GETS", false), ("get", false), ("OPTIONS", false), ("*", false)]
    {
        let answer = send(sign(MESSAGES, methods, &tenant.project, EXPIRES).get(&tenant, MESSAGES)).await;

        assert_eq!(answer.status, if allowed { 200 } else { 404 }, "{methods}");
    }
    let url = sign(MESSAGES, "GET", &tenant.project, EXPIRES);
    for method in [Method::OPTIONS, Method::HEAD, Method::PUT, Method::POST, Method::DELETE] {
        let answer = answered(url.request(&tenant, method.clone(), MESSAGES), 404).await;

        assert!(method == Method::HEAD || answer.json()["description"] == NOT_SIGNED, "{method}: {answer:?}");
    }
    let options = sign(MESSAGES, "OPTIONS", &tenant.project, EXPIRES);
    answered(options.request(&tenant, Method::OPTIONS, MESSAGES), 200).await;
}

/// Row 9-14.
#[tokio::test]
async fn a_path_covers_what_is_below_it_and_nothing_else() {
    let tenant = signing_tenant();
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
        let answer = send(sign(paths, "GET", &tenant.project, EXPIRES).get(&tenant, path)).await;

        assert_eq!(answer.status, if opens { 200 } else { 404 }, "{paths:?} for {path}: {answer:?}");
        assert!(opens || answer.json()["description"] == NOT_SIGNED, "{paths:?} for {path}: {answer:?}");
    }
}

#[tokio::test]
async fn no_spelling_of_a_path_leads_elsewhere() {
    let tenant = signing_tenant();
    tenant.post_bodies("q", &[json!("shared")]).await;
    let [secret] = &tenant.post_bodies("other", &[json!("secret")]).await[..] else { panic!("one id") };
    let url = sign(MESSAGES, "GET", &tenant.project, EXPIRES);
    let get = async |path: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nClient-ID: {CLIENT}\r\n");
        let head = url.headers().iter().fold(head, |head, (name, value)| format!("{head}{name}: {value}\r\n"));
        tenant.send_raw(format!("{head}\r\n")).await
    };

    let same = get("/v2/queues/%71/messages?echo=true").await;
    assert_eq!(pick(&same.json()["messages"], "body"), [json!("shared")]);
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
    ] {
        let answer = get(path).await;

        assert_eq!(answer.status, 404, "{path}: {answer:?}");
        assert!(!answer.text.contains("\"body\""), "{path}: {answer:?}");
    }
}

/// Row 9-15.
#[tokio::test]
async fn whatever_is_tampered_with_is_not_found() {
    let tenant = signing_tenant();
    let wish = json!({"methods": ["GET", "POST"], "paths": ["messages", "claims"], "expires": EXPIRES});
    let good = Shown::shared(&tenant, &wish).await;
    answered(good.get(&tenant, MESSAGES), 200).await;

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
            let shown = without.iter().copied().chain(value.map(|value| (header, value)));
            let request = tenant.bare(Method::GET, MESSAGES).header("Client-ID", CLIENT);
            let request = shown.fold(request, |request, (name, value)| request.header(name, value));

            let answer = send(request).await;

            if (header, value) == ("URL-Signature", None) {
                assert_eq!(answer.status, 200, "without a signature it is a request like any other");
            } else {
                assert_eq!(answer.refusal(404, NO_ROUTE), NOT_SIGNED, "{header}: {value:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_header_that_comes_twice_is_not_found() {
    let tenant = signing_tenant();
    let good = sign(MESSAGES, "GET", &tenant.project, EXPIRES);

    for (name, value) in &good.headers()[..4] {
        for second in [*value, "", "/v2/queues/other/messages"] {
            refused(good.get(&tenant, MESSAGES).header(*name, second), 404, NO_ROUTE).await;
        }
    }
    let victim = signing_tenant();
    victim.post_bodies("q", &[json!("secret")]).await;
    for name in ["X-Project-ID", "X-Tenant-Id", "X-Tenant"] {
        let second = good.get(&tenant, MESSAGES).header(name, &victim.project);
        if name == "X-Project-ID" {
            refused(second, 404, NO_ROUTE).await;
        } else {
            assert_eq!(answered(second, 200).await.json()["messages"], json!([]), "{name}");
        }
        let first =
            tenant.bare(Method::GET, MESSAGES).header("Client-ID", CLIENT).header("X-Project-ID", &victim.project);
        let both = good.headers().iter().fold(first, |request, (name, value)| request.header(*name, *value));
        refused(both, 404, NO_ROUTE).await;
    }
}

/// Row 9-15.
#[tokio::test]
async fn order_and_spelling_are_free_where_the_signature_is_the_same() {
    let tenant = signing_tenant();
    let good = sign("/v2/queues/q/claims,/v2/queues/q/messages", "GET,POST", &tenant.project, EXPIRES);
    let (paths, methods) = ("/v2/queues/q/messages,/v2/queues/q/claims".to_owned(), "POST,GET".to_owned());

    let turned = Shown { paths, methods, ..good.clone() };

    answered(turned.get(&tenant, MESSAGES), 200).await;
    for expires in ["2099-01-01", "2099-01-01T00:00:00.5Z", "2099-01-01T01:00:00+01:00"] {
        let respelled = Shown { expires: expires.to_owned(), ..good.clone() };
        answered(respelled.get(&tenant, MESSAGES), 200).await;
    }
    let raw = sign(MESSAGES, "GET", &tenant.project, "2099-01-01");
    refused(raw.get(&tenant, MESSAGES), 404, NO_ROUTE).await;
}

/// Row 9-15.
#[tokio::test]
async fn an_expired_url_is_not_found() {
    let tenant = signing_tenant();

    for expires in ["2020-01-01T00:00:00", "0000-01-01T00:00:00"] {
        let url = sign(MESSAGES, "GET", &tenant.project, expires);
        refused(url.get(&tenant, MESSAGES), 404, NO_ROUTE).await;
    }
}

#[tokio::test]
async fn a_url_opens_one_queue_of_one_project() {
    let (owner, other) = (signing_tenant(), signing_tenant());
    let url = Shown::shared(&owner, &json!({ "expires": EXPIRES })).await;
    answered(url.get(&owner, MESSAGES), 200).await;

    refused(url.get(&owner, "/v2/queues/r/messages"), 404, NO_ROUTE).await;
    let moved = Shown { project: other.project.clone(), ..url };
    refused(moved.get(&other, MESSAGES), 404, NO_ROUTE).await;

    // A project whose name looks like the end of a signed text must not sign for what follows in it.
    let path = "/v2/queues/secret/messages";
    let villain = Tenant::of(&owner.stage, &format!(r"x,GET\n{}", owner.project));
    let url = Shown::shared(&villain, &json!({ "methods": ["A"], "expires": EXPIRES })).await;
    let read_anew = Shown { methods: r"A\nx,GET".to_owned(), project: owner.project.clone(), ..url };
    refused(read_anew.get(&owner, MESSAGES), 404, NO_ROUTE).await;
    let villain = Tenant::of(&owner.stage, &format!(r"x,{path}\nGET\n{}", owner.project));
    let url = Shown::shared(&villain, &json!({ "methods": ["A"], "expires": EXPIRES })).await;
    let (paths, methods) = (format!(r"{MESSAGES}\nA\nx,{path}"), "GET".to_owned());
    let read_anew = Shown { paths, methods, project: owner.project.clone(), ..url };
    refused(read_anew.get(&owner, path), 404, NO_ROUTE).await;
}

#[tokio::test]
async fn without_a_secret_no_signature_is_good() {
    let tenant = tenant();

    refused(sign(MESSAGES, "GET", &tenant.project, EXPIRES).get(&tenant, MESSAGES), 404, NO_ROUTE).await;
    refused(tenant.get(MESSAGES).header("URL-Signature", ""), 404, NO_ROUTE).await;
}

#[tokio::test]
async fn every_route_asks_for_a_good_signature() {
    let tenant = signing_tenant();
    let client_id = ClientIdRule::Uuid;
    let (signer, checksums) = (None, Checksums::Hidden);
    let (client_timeout, stream_heartbeat) = (Duration::MAX, Duration::MAX);
    let settings = Settings { admin_mode: false, client_id, client_timeout, signer, checksums, stream_heartbeat };
    let all_methods = "DELETE,GET,HEAD,OPTIONS,PATCH,POST,PUT";
    let good = sign("/v2", all_methods, &tenant.project, EXPIRES);
    let elsewhere = sign("/v2/elsewhere", all_methods, &tenant.project, EXPIRES);

    for (template, methods) in routes(&settings).into_iter().filter(|(path, _)| path.starts_with("/v2")) {
        let path = template.replace("{queue_name}", "q").replace("{message_id}", "m").replace("{claim_id}", "c");
        for method in methods.split(", ") {
            let method: Method = method.parse().unwrap();
            let empty = tenant.request(method.clone(), &path).header("URL-Signature", "");
            for refused in [empty, elsewhere.request(&tenant, method.clone(), &path)] {
                let answer = answered(refused, 404).await;
                assert!(method == Method::HEAD || answer.refusal(404, NO_ROUTE) == NOT_SIGNED, "{method} {path}");
            }
            let answer = send(good.request(&tenant, method.clone(), &path)).await;
            assert!(!answer.text.contains(NO_ROUTE), "{method} {path}: {answer:?}");
            assert!(answer.status < 500, "{method} {path}: {answer:?}");
        }
    }
    for path in ["/", "/v2/nothing", "/v2/queues/q/nothing"] {
        let everything = sign("/,/v2", all_methods, &tenant.project, EXPIRES);
        refused(everything.get(&tenant, path), 404, NO_ROUTE).await;
    }
    for path in ["/healthz", "/readyz"] {
        answered(tenant.bare(Method::GET, path).header("URL-Signature", ""), 204).await;
    }
}

/// Row 9-16.
#[tokio::test]
async fn a_good_signature_replaces_nothing_else() {
    let tenant = signing_tenant();
    let good = sign("/v2/queues", "GET,POST", &tenant.project, EXPIRES);
    let without_client = |method| {
        let request = tenant.bare(method, "/v2/queues/caf%C3%A9");
        good.headers().iter().fold(request, |request, (name, value)| request.header(*name, *value))
    };
    let with_client = |method| without_client(method).header("Client-ID", CLIENT);

    let form = with_client(Method::GET).header("Content-Type", "application/x-www-form-urlencoded").body("a=1");
    refused(form, 400, "Invalid Content-Type").await;
    refused(with_client(Method::GET).header("Accept", "text/html"), 406, "Media type not acceptable").await;
    refused(without_client(Method::GET), 400, "Missing header value").await;
    refused(with_client(Method::GET), 400, INVALID_QUEUE).await;
    refused(good.request(&tenant, Method::POST, "/v2/queues/q"), 405, "405 Method Not Allowed").await;
    refused(with_client(Method::PUT), 404, NO_ROUTE).await;
}

#[tokio::test]
async fn roles_come_from_the_headers() {
    let options = [("SUKKAL_SIGNED_URL__SECRET_KEY", SECRET), ("SUKKAL_ADMIN_MODE", "true")];
    let tenant = Tenant::of(&Arc::new(Stage::start(&options)), "operator");
    let url = sign("/v2/health", "GET", "operator", EXPIRES);

    refused(url.get(&tenant, "/v2/health"), 403, "Not authorized").await;
    answered(url.get(&tenant, "/v2/health").header("X-Roles", "admin"), 200).await;
}

#[tokio::test]
async fn neither_secret_nor_signature_is_logged() {
    let options = [("SUKKAL_SIGNED_URL__SECRET_KEY", SECRET), ("SUKKAL_LOG__FILTER", "trace")];
    let tenant = Tenant::of(&Arc::new(Stage::start(&options)), &format!("project-{}", Uuid::new_v4()));
    let url = Shown::shared(&tenant, &json!({ "expires": EXPIRES })).await;

    answered(url.get(&tenant, MESSAGES), 200).await;
    let tampered = Shown { expires: "2098-01-01".to_owned(), ..url.clone() };
    refused(tampered.get(&tenant, MESSAGES), 404, NO_ROUTE).await;

    let log = || tenant.stage.sukkal.log();
    let is_last = |line: &String| line.contains(MESSAGES) && line.contains("\"status\":404");
    poll_until("both requests are logged", || log().iter().any(is_last));
    let log = log().join("\n");
    assert!(!log.contains(SECRET) && !log.contains(&url.signature), "{log}");
}
