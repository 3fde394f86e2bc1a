//! Counts the instructions that authentication and quotas add to a POST. The service runs in
//! callgrind, so the figures do not depend on the load of the machine.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic)]

mod callgrind;
#[path = "../tests/auth/stub.rs"]
mod stub;
#[path = "../tests/auth/stub_keystone.rs"]
mod stub_keystone;
#[path = "../tests/support/mod.rs"]
mod support;

use std::time::Duration;

use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};
use sukkal::domain::Token;

use crate::callgrind::Service;
use crate::stub_keystone::{StubKeystone, described};
use crate::support::redis::RedisServer;
use crate::support::sukkal::CLIENT;

/// Numbers of posts. The difference between the two runs is divided by that of the numbers, so the
/// start of the service does not count.
const FEW: usize = 200;
const MANY: usize = 1_200;
const RUNS: usize = 3;
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
async fn instructions(variant: &Variant, posts: usize) -> u64 {
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
    let service = Service::start(&redis.url(), &environment);
    let client = Client::new();
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

async fn send(request: RequestBuilder, status: u16) -> reqwest::Response {
    let answer = request.send().await.expect("the service answers");
    assert_eq!(answer.status(), status, "{}", answer.url());
    answer
}

/// Returns the instructions of one POST: the median of some runs.
async fn per_post(variant: &Variant) -> u64 {
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        let few = instructions(variant, FEW).await;
        runs.push((instructions(variant, MANY).await - few) / (MANY - FEW) as u64);
    }
    runs.sort_unstable();
    runs[RUNS / 2]
}

#[tokio::main]
async fn main() {
    println!("| checked in a POST | instructions of the service | more |\n|---|---|---|");
    let mut base = None;
    for variant in &VARIANTS {
        let count = per_post(variant).await;
        let base = *base.get_or_insert(count);
        let more = (count as f64 / base as f64 - 1.0) * 100.0;
        println!("| {} | {count} | {more:+.1} % |", variant.name);
    }
}
