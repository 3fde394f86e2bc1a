//! Every error text of the API: each request of a table must get the status, title and description
//! of the table.
//!
//! `errors.txt` is the table. A case is a request line, header lines and a body, and then the
//! expected response: its status with its title, and its description. A request has the headers
//! that each request needs; `- Name` omits one. A line `# Variant` names the variant of
//! `wire::Error` or `broker::Error` that the cases below it reach. `@ server` sends the cases below
//! it to another server. The test replaces placeholders in `<>`.
//!
//! The errors of each operation during an outage of the store are in `store_down.rs`.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use super::encryption::damage;
use super::{KEY, KEY_OPTION, Project, Server, answered};
use crate::auth::stub_keystone::{self, StubKeystone, described};
use support::certificates::Authority;
use support::events::Events;
use support::ports::free_port;
use support::redis::RedisServer;
use support::sukkal::Sukkal;

const TABLE: &str = include_str!("errors.txt");
const EVERYTHING: [(&str, &str); 4] = [
    (KEY_OPTION, KEY),
    ("SUKKAL_ADMIN_MODE", "true"),
    ("SUKKAL_SIGNED_URL__SECRET_KEY", "any"),
    ("SUKKAL_CLIENT_TIMEOUT", "1"),
];

/// A request of the table, with the expected response.
struct Case {
    server: &'static str,
    request: String,
    without: Vec<&'static str>,
    status: u16,
    title: String,
    description: String,
}

/// Returns the names of the table's variants, and its cases with their placeholders replaced.
fn read_table(placeholder: &dyn Fn(&str) -> String) -> (BTreeSet<String>, Vec<Case>) {
    let (mut variants, mut cases, mut server) = (BTreeSet::new(), Vec::new(), "");
    for block in TABLE.split("\n\n").map(str::trim).filter(|block| !block.is_empty()) {
        let (directives, lines): (Vec<&str>, Vec<&str>) = block.lines().partition(|line| line.starts_with(['#', '@']));
        variants.extend(directives.iter().filter_map(|line| Some(line.strip_prefix("# ")?.to_owned())));
        server = directives.iter().find_map(|line| line.strip_prefix("@ ")).unwrap_or(server);
        let [request @ .., answer, description] = &lines[..] else { continue };
        let (status, title) = answer.split_once(' ').expect("an answer has a status and a title");
        let (without, request): (Vec<&str>, Vec<&str>) = request.iter().partition(|line| line.starts_with("- "));
        cases.push(Case {
            server,
            request: fill_placeholders(&request.join("\n"), placeholder),
            without: without.iter().map(|line| &line[2..]).collect(),
            status: status.parse().unwrap_or_else(|_| panic!("no status in {block}")),
            title: title.to_owned(),
            description: fill_placeholders(description, placeholder),
        });
    }
    (variants, cases)
}

/// Replaces the placeholders in `<>` of a text.
fn fill_placeholders(text: &str, placeholder: &dyn Fn(&str) -> String) -> String {
    let mut parts = text.split('<');
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('>').expect("a placeholder ends");
        filled += &(placeholder(name) + rest);
    }
    filled
}

impl Case {
    /// Returns the request as bytes. The text `\xff` stands for that byte.
    fn bytes(&self, api: &Project) -> Vec<u8> {
        let (first, rest) = self.request.split_once('\n').unwrap_or((&self.request, ""));
        let (method, path) = first.split_once(' ').expect("a request has a method and a path");
        let lines: Vec<&str> = rest.lines().collect();
        let (headers, body) = lines.split_at(lines.iter().position(|line| !is_header(line)).unwrap_or(lines.len()));
        let head = api.head(method, path);
        let is_kept = |line: &&str| {
            let name = line.split(": ").next().unwrap_or_default();
            !self.without.iter().any(|without| without.eq_ignore_ascii_case(name))
        };
        let mut lines: Vec<&str> = head.lines().filter(is_kept).chain(headers.iter().copied()).collect();
        let body = body.join("\n");
        let length = format!("Content-Length: {}", body.len());
        if !body.is_empty() && !["Content-Length: ", "Transfer-Encoding: "].iter().any(|own| self.request.contains(own))
        {
            lines.push(&length);
        }
        let request = format!("{}\r\n\r\n{body}", lines.join("\r\n"));
        let mut bytes = Vec::new();
        for (index, part) in request.split("\\xff").enumerate() {
            bytes.extend((index > 0).then_some(0xff));
            bytes.extend(part.as_bytes());
        }
        bytes
    }
}

fn is_header(line: &str) -> bool {
    let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    line.split_once(": ").is_some_and(|(name, _)| is_name(name))
}

/// The servers of the table, as one project sees them, and the ids of its messages and claim.
struct Servers {
    api: Project,
    without_secrets: Project,
    without_websockets: Project,
    with_another_key: Project,
    with_text_ids: Project,
    with_optional_ids: Project,
    with_claim_ids: Project,
    with_one_stream: Project,
    with_tokens: Project,
    with_quotas: Project,
    with_pools: Project,
    _stream: Events,
    with_rules: Project,
    with_tls: Project,
    with_keystone: Project,
    without_keystone: Project,
    _keystone: StubKeystone,
    without_store: Project,
    of_another_proxy: Project,
    message: String,
    claimed: String,
    claim: String,
    sealed: String,
    damaged: String,
}

impl Servers {
    async fn start() -> Self {
        let project = format!("project-{}", Uuid::new_v4());
        let on = |environment: &[(&str, &str)]| Project::of(&Arc::new(Server::start(environment)), &project);
        let api = on(&EVERYTHING);
        api.create("q", &json!({"k": 1})).await;
        api.create("delayed", &json!({"_default_message_delay": 60})).await;
        api.create("fair", &json!({"_shards": 4})).await;
        api.create("sealed", &json!({"_enable_encrypt_messages": true})).await;
        let claimed = api.post_bodies("q", &[json!("claimed")]).await.remove(0);
        let claim = api.claim(1).await.id;
        let message = api.post_bodies("q", &[json!("free")]).await.remove(0);
        let once = api.post("/v2/queues/q/messages", &json!({"messages": [{"body": 1}]}));
        answered(once.header("Idempotency-Key", "used"), 201).await;
        let sealed = api.post_bodies("sealed", &[json!("sealed"), json!("damaged")]).await;
        damage(&api, "sealed", "1");
        // The body of this message is no longer JSON, and the key of this queue is no longer a
        // hash.
        api.post_bodies("damaged", &[json!(true)]).await;
        damage(&api, "damaged", "0");
        api.server.redis.command(&["SET", &format!("sukkal:{{{project}/corrupt}}:queue"), "no hash"]);
        let authority = Authority::new();
        let certificate = authority.issue("server", "/CN=server");
        let [certificate, key] = [certificate.certificate, certificate.key].map(|path| path.display().to_string());
        let with_tls = on(&[("SUKKAL_TLS__CERTIFICATE", &certificate), ("SUKKAL_TLS__KEY", &key)]);
        let keystone = StubKeystone::start();
        keystone.issue("unscoped", described("u", None, &[], Duration::from_secs(3_600)));
        let at = |url: &str| on(&stub_keystone::options(url));
        let redis = RedisServer::start();
        let sukkal = Sukkal::start(&redis.url());
        redis.kill();
        let with_one_stream = on(&[("SUKKAL_TRANSPORT__MAX_STREAMS_PER_PROJECT", "1")]);
        let stream = Events::open(with_one_stream.api.get("/v2/queues/q/messages")).await;
        let with_quotas = on(&[("SUKKAL_QUOTAS__QUEUES", "1"), ("SUKKAL_QUOTAS__POSTED_BYTES_PER_SECOND", "1")]);
        // Exceeds the rate for the duration of the test.
        with_quotas.post_bodies("q", &[json!("x".repeat(10_000))]).await;
        let with_pools = with_pools(&project).await;
        let [sealed, damaged] = <[String; 2]>::try_from(sealed).expect("two were posted");
        Self {
            without_secrets: on(&[]),
            without_websockets: on(&[("SUKKAL_WEBSOCKET__MAX_CONNECTIONS", "0")]),
            with_another_key: on(&[(KEY_OPTION, "the second key of these tests")]),
            with_text_ids: on(&[("SUKKAL_TRANSPORT__CLIENT_ID_UUID_SAFE", "off")]),
            with_optional_ids: on(&[("SUKKAL_TRANSPORT__CLIENT_ID", "optional")]),
            of_another_proxy: on(&[
                ("SUKKAL_AUTH__STRATEGIES", "proxy"),
                ("SUKKAL_AUTH__TRUSTED_PROXIES", "192.0.2.1"),
            ]),
            with_claim_ids: on(&[("SUKKAL_TRANSPORT__MESSAGE_DELETE_WITH_CLAIM_ID", "true")]),
            with_rules: on(&[("SUKKAL_POLICY__RULES", "messages:create = role:producer")]),
            with_one_stream,
            with_tokens: on(&[
                ("SUKKAL_AUTH__STRATEGIES", "none,tokens"),
                ("SUKKAL_POLICY__RULES", "tokens:create = role:admin or role:manager"),
            ]),
            with_keystone: at(&keystone.stub.url),
            without_keystone: at(&format!("http://127.0.0.1:{}", free_port())),
            _keystone: keystone,
            with_quotas,
            with_pools,
            _stream: stream,
            with_tls,
            without_store: Project::of(&Arc::new(Server { sukkal, redis: Arc::new(redis) }), &project),
            api,
            message,
            claimed,
            claim,
            sealed,
            damaged,
        }
    }

    fn placeholder(&self, name: &str) -> String {
        match name {
            "message" => self.message.clone(),
            "claimed" => self.claimed.clone(),
            "claim" => self.claim.clone(),
            "sealed" => self.sealed.clone(),
            "damaged" => self.damaged.clone(),
            "project" => self.api.id.clone(),
            "65 tenants" => {
                let messages = (0..65).map(|tenant| json!({"body": 1, "tenant": tenant.to_string()}));
                json!({ "messages": messages.collect::<Value>() }).to_string()
            }
            _ => {
                let count = name.strip_suffix(" x").and_then(|count| count.parse().ok());
                "x".repeat(count.unwrap_or_else(|| panic!("no placeholder {name:?}")))
            }
        }
    }

    fn server(&self, name: &str) -> &Project {
        match name {
            "" => &self.api,
            "a server without secrets" => &self.without_secrets,
            "a server with another key" => &self.with_another_key,
            "a server with client_id_uuid_safe = off" => &self.with_text_ids,
            "a server with client_id = optional" => &self.with_optional_ids,
            "a server with message_delete_with_claim_id" => &self.with_claim_ids,
            "a server with max_streams_per_project = 1" => &self.with_one_stream,
            "a server with rules" => &self.with_rules,
            "a server with TLS" => &self.with_tls,
            "a server with tokens" => &self.with_tokens,
            "a server with Keystone" => &self.with_keystone,
            "a server without its Keystone" => &self.without_keystone,
            "a server with quotas" => &self.with_quotas,
            "a server with pools" => &self.with_pools,
            "a server without WebSockets" => &self.without_websockets,
            "a server without its store" => &self.without_store,
            "a server that trusts another proxy" => &self.of_another_proxy,
            _ => panic!("no server {name:?}"),
        }
    }
}

/// Returns the project on a server with the pool `last`, which is the only one of the flavor
/// `fast`.
async fn with_pools(project: &str) -> Project {
    let environment = [("SUKKAL_ADMIN_MODE", "true"), ("SUKKAL_POOLING__ENABLED", "true")];
    let (sukkal, redis) = (Sukkal::start_with("memory:", &environment), RedisServer::shared());
    let api = Project::of(&Arc::new(Server { sukkal, redis }), project);
    let put = |path: &str, body: Value| api.put(path).header("X-Roles", "admin").json(&body);
    answered(put("/v2/pools/last", json!({"uri": api.server.redis.url(), "weight": 1})), 201).await;
    answered(put("/v2/flavors/fast", json!({"pool_list": ["last"]})), 201).await;
    api
}

#[tokio::test]
async fn every_error_has_the_text_of_the_table() {
    let servers = Servers::start().await;
    let (_, cases) = read_table(&|name| servers.placeholder(name));
    let mut wrong: Vec<String> = Vec::new();

    for case in &cases {
        let api = servers.server(case.server);
        let answer = api.send_raw(case.bytes(api)).await;
        let document: Value = serde_json::from_str(&answer.text).unwrap_or_default();
        let is_same = document["title"] == case.title && document["description"] == case.description;
        if answer.status != case.status || !is_same {
            wrong.push(format!("{:.200}\n{} {}", case.request, answer.status, answer.text));
        }
    }
    assert!(wrong.is_empty(), "responses that differ from errors.txt:\n\n{}", wrong.join("\n\n"));
}

/// Reads the variants from the source, because no code lists them.
#[test]
fn the_table_covers_every_error_variant() {
    let variants = |path: &str| -> BTreeSet<String> {
        let source = fs::read_to_string(support::root().join(path)).expect("the source can be read");
        let (_, body) = source.split_once("pub enum Error {\n").expect("the source defines the errors");
        let (body, _) = body.split_once("\n}\n").expect("the definition ends");
        let names = body.lines().filter_map(|line| line.strip_prefix("    "));
        let names = names.filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase()));
        names.map(|line| line.split(['(', ' ', ',']).next().unwrap_or_default().to_owned()).collect()
    };
    let mut all = variants("src/wire/error.rs");
    assert!(all.remove("Broker"), "the variant wraps the errors of the broker");
    assert!(all.remove("BodyBudget"), "the variant takes hundreds of clients: see memory.rs");
    assert!(all.remove("TooManyHeaders"), "HTTP/1 has a limit of its own: see tls/http2_limits.rs");
    assert!(all.remove("ReplyBudget"), "the variant takes hundreds of clients: see websocket/memory.rs");
    assert!(all.remove("UnknownKey"), "the variant takes an issuer that has no such key: see auth/jwt.rs");
    all.extend(variants("src/broker/error.rs"));
    assert!(all.remove("Forbidden"), "the variant takes a manager who gives a role of somebody else");

    let (listed, _) = read_table(&|_| String::new());

    assert_eq!(listed, all);
}
