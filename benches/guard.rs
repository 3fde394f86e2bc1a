//! Counts the instructions that authentication and quotas add to a POST.

#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../tests/auth/stub.rs"]
mod stub;
#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../tests/auth/stub_keystone.rs"]
mod stub_keystone;

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use sukkal_domain::Token;

use self::stub_keystone::{StubKeystone, described};
use crate::callgrind::{Service, per_request};
use crate::client::send;
use crate::report::Report;
use support::redis::RedisServer;
use support::sukkal::CLIENT;

/// Numbers of posts, whose instructions are compared.
const POSTS: [usize; 2] = [200, 1_200];
const HOUR: Duration = Duration::from_secs(3600);

/// What the service checks in a POST.
struct Variant {
    name: &'static str,
    authentication: Authentication,
    has_quotas: bool,
}

#[derive(Clone, Copy)]
enum Authentication {
    None,
    Tokens,
    Keystone,
}

const VARIANTS: [Variant; 5] = [
    Variant { name: "neither", authentication: Authentication::None, has_quotas: false },
    Variant { name: "tokens", authentication: Authentication::Tokens, has_quotas: false },
    Variant { name: "quotas", authentication: Authentication::None, has_quotas: true },
    Variant { name: "tokens and quotas", authentication: Authentication::Tokens, has_quotas: true },
    Variant { name: "keystone, cached", authentication: Authentication::Keystone, has_quotas: false },
];

/// Quotas that are not reached, so that each is checked.
const QUOTAS: [(&str, &str); 8] = [
    ("SUKKAL_QUOTAS__REQUESTS_PER_SECOND", "1000000"),
    ("SUKKAL_QUOTAS__POSTED_BYTES_PER_SECOND", "1000000000"),
    ("SUKKAL_QUOTAS__QUEUES", "1000"),
    ("SUKKAL_QUOTAS__SUBSCRIPTIONS", "1000"),
    ("SUKKAL_QUOTAS__MESSAGES", "1000000"),
    ("SUKKAL_QUOTAS__MESSAGES_PER_QUEUE", "1000000"),
    ("SUKKAL_QUOTAS__BYTES", "1000000000"),
    ("SUKKAL_QUOTAS__BYTES_PER_QUEUE", "1000000000"),
];

/// Returns the instructions of a service that accepts this many posts.
async fn instructions(variant: &Variant, posts: usize, is_short: bool) -> f64 {
    let (redis, keystone) = (RedisServer::start(), StubKeystone::start());
    keystone.issue("gAAAAAcached", described("user-7", Some("p"), &["member"], HOUR));
    let admin = Token::random().reveal();
    let mut environment = match variant.authentication {
        Authentication::None => vec![],
        Authentication::Tokens => {
            vec![("SUKKAL_AUTH__STRATEGIES", "tokens"), ("SUKKAL_TOKENS__ADMIN_TOKEN", admin.as_str())]
        }
        Authentication::Keystone => stub_keystone::options(&keystone.stub.url).to_vec(),
    };
    if variant.has_quotas {
        environment.extend(QUOTAS);
    }
    let service = Service::start(&redis.url(), &environment, is_short).await;
    let client = support::plain_http::client();
    let credential = match variant.authentication {
        Authentication::None => ("X-Project-ID", "p".to_owned()),
        Authentication::Keystone => ("X-Auth-Token", "gAAAAAcached".to_owned()),
        Authentication::Tokens => {
            let document = json!({ "name": "bench", "project_id": "p", "roles": ["producer"] });
            let request = client.post(format!("{}/v2/tokens", service.url)).bearer_auth(&*admin);
            let request = request.header("Client-ID", CLIENT).header("X-Project-ID", "p").json(&document);
            let created: Value = send(request, 201).await.json().await.unwrap();
            ("Authorization", format!("Bearer {}", created["token"].as_str().expect("the token is shown once")))
        }
    };
    let body = json!({ "messages": [{ "body": "x".repeat(100), "ttl": 300 }] });
    for _ in 0..posts {
        let request = client.post(format!("{}/v2/queues/q/messages", service.url));
        send(request.header("Client-ID", CLIENT).header(credential.0, &credential.1).json(&body), 201).await;
    }
    service.stop()
}

pub(crate) async fn run(report: &mut Report) {
    if report.is_short {
        let [.., both, _] = &VARIANTS;
        assert!(instructions(both, 1, true).await > 0.0);
        return;
    }
    writeln!(report, "| checked in a POST | instructions of the service | more |\n|---|---|---|").unwrap();
    let mut base = None;
    for variant in &VARIANTS {
        let count = per_request(POSTS, async |posts| instructions(variant, posts, false).await).await;
        let more = (count / *base.get_or_insert(count) - 1.0) * 100.0;
        writeln!(report, "| {} | {count:.0} | {more:+.1} % |", variant.name).unwrap();
    }
}
