//! `matrix.txt`: every route, with its rule, what it says if the store is down, and its status for
//! every sender of a request.
//!
//! A new route needs a row. A new kind of sender is a column and an arm of [`Bench::request`]. Each
//! request that may change something finds resources of its own, so that no request depends on
//! another one. The others share resources, and the tokens that are not valid are the same for all.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use sukkal::api::routes;
use sukkal::auth::signed_url::{Expiry, SignedUrl, Signer};
use sukkal_domain::{ProjectId, Secret};
use time::OffsetDateTime;
use tokio::time::sleep;
use uuid::Uuid;

use super::{SECRET_KEY, STRANGER, STRATEGIES, TRUSTED_PROXIES};
use crate::clients::contract::with_all_routes;
use crate::http::{Answer, PATCH_TYPE, answered, send};
use crate::migration::view::without_ages;
use support::redis::RedisServer;
use support::sukkal::{Api, CLIENT, Sukkal};

const TABLE: &str = include_str!("matrix.txt");
const SECRET: &str = "the secret of these tests";
pub(crate) const ENVIRONMENT: [(&str, &str); 7] = [
    (STRATEGIES, "proxy,tokens"),
    (TRUSTED_PROXIES, "127.0.0.1"),
    (SECRET_KEY, SECRET),
    ("SUKKAL_ADMIN_MODE", "true"),
    ("SUKKAL_POOLING__ENABLED", "true"),
    ("SUKKAL_POOLING__VIRTUAL_POOL", "true"),
    ("SUKKAL_PUSH__ALLOWED_NETWORKS", "127.0.0.0/8"),
];

pub(super) const ROLES: [&str; 4] = ["reader", "producer", "worker", "manager"];

/// Further senders whose policy is the preset `roles`.
const OTHERS_WITH_ROLES: [&str; 3] = ["no-role", "admin-role", "signed-role"];

/// Number of requests that are sent at the same time.
pub(super) const CONCURRENCY: usize = 8;

/// A row of the table.
pub(crate) struct Row {
    pub(super) method: Method,
    /// The path with placeholders, and the query.
    pub(super) target: &'static str,
    /// The rule that decides; `None` if everybody may make the request.
    pub(super) rule: Option<&'static str>,
    /// Whether the audit log records the request if it is allowed.
    pub(super) is_audited: bool,
    /// What the service says about the operation if the store is down.
    pub(crate) outage: Option<&'static str>,
    /// Each sender with the status of its request.
    pub(super) statuses: Vec<(&'static str, u16)>,
    body: Option<Value>,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.target)
    }
}

impl Row {
    /// Returns the request, with placeholders replaced.
    pub(crate) fn request(&self, api: &Api, filled: impl Fn(&str) -> String) -> RequestBuilder {
        self.with_body(api.request(self.method.clone(), &filled(self.target)), filled)
    }

    fn with_body(&self, request: RequestBuilder, filled: impl Fn(&str) -> String) -> RequestBuilder {
        match &self.body {
            Some(body) if self.method == Method::PATCH && body.is_array() => {
                request.header("Content-Type", PATCH_TYPE).body(body.to_string())
            }
            Some(body) => request.body(filled(&body.to_string())),
            None => request,
        }
    }

    /// Returns whether the request is about pools or flavors.
    pub(super) fn is_about_pools(&self) -> bool {
        let body = self.body.as_ref().map(Value::to_string).unwrap_or_default();
        ["pool", "flavor"].iter().any(|word| self.target.contains(word) || body.contains(word))
    }

    /// Returns whether a request with this status leaves all resources as they are.
    fn is_harmless(&self, status: u16) -> bool {
        (400..500).contains(&status) || [Method::GET, Method::HEAD].contains(&self.method)
    }
}

/// Returns whether the policy is the preset `roles` for this sender.
pub(super) fn uses_roles(column: &str) -> bool {
    ROLES.contains(&column) || OTHERS_WITH_ROLES.contains(&column)
}

/// Returns the rows of the table.
pub(crate) fn read_table() -> Vec<Row> {
    let mut lines = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let columns = lines.next().and_then(|line| line.strip_prefix("COLUMNS ")).expect("the table has columns");
    let columns: Vec<&str> = columns.split(' ').collect();
    let rows = lines.map(|line| {
        let mut cells = line.splitn(5, " | ");
        let (method, target) = cells.next().and_then(|cell| cell.split_once(' ')).expect("a row has a route");
        let (rule, is_audited) = cells.next().map_or(("-", false), |cell| match cell.split_once(' ') {
            Some((rule, "audited")) => (rule, true),
            _ => (cell, false),
        });
        let outage = cells.next().filter(|cell| *cell != "-");
        let statuses: Vec<&str> = cells.next().expect("a row has statuses").split(' ').collect();
        assert_eq!(statuses.len(), columns.len(), "{line}");
        let status = |(column, status): (&&'static str, &str)| (*column, status.parse().expect("a status"));
        Row {
            method: method.parse().expect("a method"),
            target,
            rule: (rule != "-").then_some(rule),
            is_audited,
            outage,
            statuses: columns.iter().zip(statuses).map(status).collect(),
            body: cells.next().map(|body| serde_json::from_str(body).expect("a body is JSON")),
        }
    });
    rows.collect()
}

/// Tokens of admins that are not valid any more.
pub(super) struct EndedTokens {
    pub(super) expired: String,
    pub(super) revoked: String,
}

/// The servers with both presets, and tokens of the first.
struct Servers {
    zaqar: Sukkal,
    roles: Sukkal,
    ended: EndedTokens,
    /// Keeps the server of the pools running.
    _pools: Arc<RedisServer>,
}

impl Servers {
    async fn start() -> Self {
        let zaqar = Sukkal::start_with("memory:", &ENVIRONMENT);
        let roles = Sukkal::start_with("memory:", &[&ENVIRONMENT[..], &[("SUKKAL_POLICY__PRESET", "roles")]].concat());
        let api = zaqar.project("p");
        let create = async |fields: Value| {
            let mut body = json!({"name": "n", "roles": ["admin"], "project_id": null});
            body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            let created = answered(api.post("/v2/tokens", &body).header("X-Roles", "admin"), 201).await.json();
            (created["id"].as_str().unwrap().to_owned(), created["token"].as_str().unwrap().to_owned())
        };
        let ((_, expired), (id, revoked)) = (create(json!({"ttl": 1})).await, create(json!({})).await);
        answered(api.get("/v2/health").header("X-Auth-Token", &revoked), 200).await;
        answered(api.delete(&format!("/v2/tokens/{id}")).header("X-Roles", "admin"), 204).await;
        for token in [&expired, &revoked] {
            while send(api.get("/v2/health").header("X-Auth-Token", token)).await.status == 200 {
                sleep(Duration::from_millis(5)).await;
            }
        }
        Self { zaqar, roles, ended: EndedTokens { expired, revoked }, _pools: RedisServer::shared() }
    }

    /// Prepares the resources for requests: those with a role of the preset `roles`, and the
    /// others.
    async fn benches(&self) -> (Benches<'_>, Benches<'_>) {
        (Benches::prepare(&self.roles, &self.ended).await, Benches::prepare(&self.zaqar, &self.ended).await)
    }
}

/// The resources for the requests to one server.
pub(super) struct Benches<'s> {
    sukkal: &'s Sukkal,
    ended: &'s EndedTokens,
    /// The resources for all requests that change nothing.
    shared: Bench<'s>,
}

impl<'s> Benches<'s> {
    pub(super) async fn prepare(sukkal: &'s Sukkal, ended: &'s EndedTokens) -> Self {
        Self { sukkal, ended, shared: Bench::prepare(sukkal, ended, true).await }
    }

    /// Sends the request of a row by this sender, whose status should be this. Returns the
    /// response, and the project of the resources.
    pub(super) async fn send(&self, column: &str, row: &Row, expected: u16) -> (Answer, String) {
        if row.is_harmless(expected) {
            return (send(self.shared.request_of(column, row)).await, self.shared.project.clone());
        }
        let own = Bench::prepare(self.sukkal, self.ended, row.is_about_pools()).await;
        (send(own.request_of(column, row)).await, own.project)
    }
}

/// A project with a queue that has everything. Its pools get no queues.
pub(super) struct Bench<'s> {
    sukkal: &'s Sukkal,
    ended: &'s EndedTokens,
    project: String,
    pub(super) owner: Api,
    placeholders: Vec<(&'static str, String)>,
    _pools: Arc<RedisServer>,
}

impl<'s> Bench<'s> {
    pub(super) async fn prepare(sukkal: &'s Sukkal, ended: &'s EndedTokens, has_pools: bool) -> Self {
        let project = format!("project-{}", Uuid::new_v4());
        let owner = sukkal.project(&project);
        let create = async |path: &str, body: &Value, status| answered(as_admin(owner.post(path, body)), status).await;
        let last = |path: &str| path.rsplit('/').next().unwrap().to_owned();

        let pools = RedisServer::shared();
        // All projects have the same pools and flavors.
        let [pool, pool_of_flavor, flavor] = ["p", "of-f", "f"].map(|name| format!("{name}-{}", Uuid::new_v4()));
        let put = async |path: &str, body: Value| answered(as_admin(owner.put(path)).json(&body), 201).await;
        if has_pools {
            for name in [&pool, &pool_of_flavor] {
                let uri = format!("{}/{name}", pools.url());
                put(&format!("/v2/pools/{name}"), json!({"uri": uri, "weight": 0})).await;
            }
            put(&format!("/v2/flavors/{flavor}"), json!({"pool_list": [pool_of_flavor]})).await;
        }
        answered(as_admin(owner.put("/v2/queues/r")), 201).await;
        let subscriber = json!({"subscriber": "http://127.0.0.1:1024/"});
        let subscription = create("/v2/queues/q/subscriptions", &subscriber, 201).await.json();
        let task = create("/v2/queues/q/redrive", &json!({"to": "r"}), 202).await.json();
        let task_path = format!("/v2/queues/q/tasks/{}", task["id"].as_str().unwrap());
        while answered(as_admin(owner.get(&task_path)), 200).await.json()["state"] == "running" {}
        let messages = json!({"messages": [{"body": 1}, {"body": 2}, {"body": 3}]});
        let messages = create("/v2/queues/q/messages", &messages, 201).await.json()["resources"].take();
        let claim = create("/v2/queues/q/claims?limit=1", &json!({}), 201).await;
        let topic_subscription = create("/v2/topics/t/subscriptions", &subscriber, 201).await.json();
        let topic_messages = json!({"messages": [{"body": 1}]});
        let topic_messages = create("/v2/topics/t/messages", &topic_messages, 201).await.json()["resources"].take();
        let token = create("/v2/tokens", &json!({"name": "n", "roles": ["worker"]}), 201).await.json();
        let placeholders = vec![
            ("{pool_name}", pool),
            ("{pool_uri}", pools.url()),
            ("{pool_of_flavor}", pool_of_flavor),
            ("{flavor_name}", flavor),
            ("{queue_name}", "q".to_owned()),
            ("{topic_name}", "t".to_owned()),
            ("{topic_message_id}", last(topic_messages[0].as_str().unwrap())),
            ("{topic_subscription_id}", topic_subscription["subscription_id"].as_str().unwrap().to_owned()),
            ("{claimed_id}", last(messages[0].as_str().unwrap())),
            ("{message_id}", last(messages[1].as_str().unwrap())),
            ("{claim_id}", last(claim.header("location").unwrap())),
            ("{subscription_id}", subscription["subscription_id"].as_str().unwrap().to_owned()),
            ("{task_id}", task["id"].as_str().unwrap().to_owned()),
            ("{token_id}", token["id"].as_str().unwrap().to_owned()),
        ];
        Self { sukkal, ended, project, owner, placeholders, _pools: pools }
    }

    /// Returns the request of a row by this sender.
    fn request_of(&self, column: &str, row: &Row) -> RequestBuilder {
        row.with_body(self.request(column, row.method.clone(), row.target), |text| self.filled(text))
    }

    /// Returns everything that clients see of the queues and topics, without ages.
    async fn snapshot(&self) -> Vec<Value> {
        let mut documents = Vec::new();
        for part in ["", "/messages?echo=true&include_claimed=true", "/claims", "/subscriptions", "/tasks", "/stats"] {
            let path = format!("/v2/queues/q{part}");
            documents.push(without_ages(answered(as_admin(self.owner.get(&path)), 200).await.json()));
        }
        for path in ["/v2/queues?detailed=true", "/v2/topics?detailed=true"] {
            documents.push(answered(as_admin(self.owner.get(path)), 200).await.json());
        }
        documents
    }

    /// Returns the text with the placeholders replaced.
    pub(super) fn filled(&self, text: &str) -> String {
        self.placeholders.iter().fold(text.to_owned(), |text, (name, id)| text.replace(name, id))
    }

    /// Returns the request of this sender.
    fn request(&self, column: &str, method: Method, target: &str) -> RequestBuilder {
        let target = self.filled(target);
        let path = target.split('?').next().unwrap_or_default();
        let request = |api: &Api| api.request(method.clone(), &target);
        let signed = |path: &str, expires: &str| {
            let methods = vec![method.to_string()];
            self.sign(request(&self.owner), path, methods, expires)
        };
        match column {
            "stranger" => request(&self.owner.from(STRANGER)).header("X-Roles", "admin"),
            "unnamed" => self.owner.bare(method, &target).header("Client-ID", CLIENT),
            "other" => request(&self.sukkal.project(&format!("other-{}", self.project))),
            "expired" => request(&self.owner).header("X-Roles", "admin").header("X-Auth-Token", &self.ended.expired),
            "revoked" => request(&self.owner).header("X-Roles", "admin").header("X-Auth-Token", &self.ended.revoked),
            "signed" => signed(path, "2099-01-01"),
            "elsewhere" => signed("/v2/queues/q/elsewhere", "2099-01-01").header("X-Roles", "admin"),
            "signed-late" => signed(path, "2020-01-01"),
            "no-role" => request(&self.owner),
            "admin-role" => request(&self.owner).header("X-Roles", "admin"),
            "signed-role" => signed(path, "2099-01-01").header("X-Roles", "admin"),
            role if role == "member" || role == "admin" || ROLES.contains(&role) => {
                request(&self.owner).header("X-Roles", role)
            }
            _ => panic!("there is no sender {column:?}"),
        }
    }

    /// Adds the headers of a pre-signed URL, which the service would not sign itself.
    fn sign(&self, request: RequestBuilder, path: &str, methods: Vec<String>, expires: &str) -> RequestBuilder {
        let expiry: Expiry = expires.parse().expect("a time");
        let project = ProjectId::new(&self.project).expect("a project");
        let url = SignedUrl::new(vec![path.to_owned()], methods, project, expiry, OffsetDateTime::UNIX_EPOCH);
        let url = url.expect("a URL that can be signed");
        request
            .header("URL-Signature", Signer::new(&Secret::new(SECRET)).expect("a key").sign(&url))
            .header("URL-Paths", url.paths().join(","))
            .header("URL-Methods", url.methods().join(","))
            .header("URL-Expires", expiry.to_string())
    }
}

/// The role `all` is for rules of tests.
fn as_admin(request: RequestBuilder) -> RequestBuilder {
    request.header("X-Roles", "admin,all")
}

#[tokio::test]
async fn every_route_has_the_status_of_the_table_for_every_sender() {
    let servers = Servers::start().await;
    let (with_roles, others) = &servers.benches().await;
    let rows = read_table();
    let before = with_roles.shared.snapshot().await;

    let cells = rows.iter().flat_map(|row| row.statuses.iter().map(move |cell| (row, cell)));
    let answers = stream::iter(cells).map(async |(row, &(column, expected))| {
        let benches = if uses_roles(column) { with_roles } else { others };
        let (answer, _) = benches.send(column, row, expected).await;
        // A role that is missing is named by the rule that needs it.
        let rule = row.rule.filter(|_| expected == 403 && uses_roles(column));
        let is_named = rule.is_none_or(|rule| answer.text.contains(&format!("The rule {rule} ")));
        let is_wrong = answer.status != expected || !is_named;
        is_wrong.then(|| format!("{row}, {column}: {} {}", answer.status, answer.text))
    });
    let wrong: Vec<String> = answers.buffered(CONCURRENCY).filter_map(async |wrong| wrong).collect().await;
    assert!(wrong.is_empty(), "responses that differ from matrix.txt:\n{}", wrong.join("\n"));
    assert_eq!(with_roles.shared.snapshot().await, before, "what is refused changes nothing");
}

#[tokio::test]
async fn every_route_has_a_row() {
    let rows = read_table();
    let listed = |row: &Row| {
        let path = row.target.split('?').next().unwrap_or_default().replace("{claimed_id}", "{message_id}");
        let path = path.replace("{topic_message_id}", "{message_id}");
        let path = path.replace("{topic_subscription_id}", "{subscription_id}");
        format!("{} {path}", row.method)
    };
    let listed: BTreeSet<String> = rows.iter().map(listed).collect();

    let served = routes(&with_all_routes()).into_iter().flat_map(|(path, methods)| {
        let methods = methods.into_iter().map(|(method, _)| method).filter(|method| *method != Method::OPTIONS);
        methods.map(move |method| format!("{method} {path}"))
    });
    let missing: Vec<String> = served.filter(|route| !listed.contains(route)).collect();
    assert_eq!(missing, [""; 0], "routes without a row in matrix.txt");
}

/// Every path has `OPTIONS`, which is for everybody who may send requests.
#[tokio::test]
async fn options_need_a_sender_on_every_route() {
    let servers = Servers::start().await;
    let (with_roles, others) = &servers.benches().await;
    let rows = read_table();
    let without_query = |row: &Row| row.target.split('?').next().unwrap_or_default();
    let paths: BTreeSet<&str> = rows.iter().map(without_query).filter(|path| path.starts_with("/v2")).collect();
    let paths = paths.into_iter().filter(|path| !["/v2/nothing", "/v2/queues/", "/v2/topics/"].contains(path));

    let cells = paths.flat_map(|path| rows[0].statuses.iter().map(move |(column, _)| (path, *column)));
    let answers = stream::iter(cells).map(async |(path, column)| {
        let benches = if uses_roles(column) { with_roles } else { others };
        let expected = match column {
            "stranger" | "expired" | "revoked" => 401,
            "unnamed" => 400,
            "elsewhere" | "signed-late" => 404,
            _ => 200,
        };
        let answer = send(benches.shared.request(column, Method::OPTIONS, path)).await;
        assert_eq!(answer.status, expected, "{path} for {column}: {answer:?}");
    });
    answers.buffered(CONCURRENCY).collect::<()>().await;
}
