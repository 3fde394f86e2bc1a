//! `matrix.txt`: one status for every route and every sender of a request.
//!
//! A new route needs a row. A new kind of sender is a column and an arm of [`Bench::request`]. Each
//! request finds resources of its own, so that no request depends on another one. Only the tokens
//! that are not valid are the same for all.

use std::collections::BTreeSet;
use std::sync::Arc;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use sukkal::api::http::routes;
use sukkal::app;
use sukkal::auth::signed_url::{Expiry, SignedUrl, Signer};
use sukkal::config::Config;
use sukkal::domain::{ProjectId, Secret};
use sukkal::storage::embedded::EmbeddedStore;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{SECRET_KEY, STRANGER, STRATEGIES, TRUSTED_PROXIES};
use crate::http::{answered, send};
use crate::support::redis::RedisServer;
use crate::support::sukkal::{Api, CLIENT, Sukkal};

const TABLE: &str = include_str!("matrix.txt");
const SECRET: &str = "the secret of these tests";
pub(super) const ENVIRONMENT: [(&str, &str); 7] = [
    (STRATEGIES, "proxy,tokens"),
    (TRUSTED_PROXIES, "127.0.0.1"),
    (SECRET_KEY, SECRET),
    ("SUKKAL_ADMIN_MODE", "true"),
    ("SUKKAL_POOLING__ENABLED", "true"),
    ("SUKKAL_POOLING__VIRTUAL_POOL", "true"),
    ("SUKKAL_PUSH__ALLOWED_NETWORKS", "127.0.0.0/8"),
];

pub(super) const ROLES: [&str; 4] = ["reader", "producer", "worker", "manager"];

/// A row of the table.
pub(super) struct Row {
    pub(super) method: Method,
    /// The path with placeholders, and the query.
    pub(super) target: &'static str,
    statuses: Vec<u16>,
    body: Option<Value>,
}

impl Row {
    /// Returns whether the request is about pools or flavors.
    pub(super) fn is_about_pools(&self) -> bool {
        let body = self.body.as_ref().map(Value::to_string).unwrap_or_default();
        ["pool", "flavor"].iter().any(|word| self.target.contains(word) || body.contains(word))
    }
}

/// Returns the names of the columns, and the rows.
pub(super) fn read_table() -> (Vec<&'static str>, Vec<Row>) {
    let mut lines = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let columns = lines.next().and_then(|line| line.strip_prefix("COLUMNS ")).expect("the table has columns");
    let rows = lines.map(|line| {
        let mut cells = line.splitn(3, " | ");
        let (method, target) = cells.next().and_then(|cell| cell.split_once(' ')).expect("a row has a route");
        let statuses = cells.next().expect("a row has statuses").split(' ');
        Row {
            method: method.parse().expect("a method"),
            target,
            statuses: statuses.map(|status| status.parse().expect("a status")).collect(),
            body: cells.next().map(|body| serde_json::from_str(body).expect("a body is JSON")),
        }
    });
    (columns.split(' ').collect(), rows.collect())
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
        for token in [&expired, &revoked] {
            answered(api.get("/v2/health").header("X-Auth-Token", token), 200).await;
        }
        answered(api.delete(&format!("/v2/tokens/{id}")).header("X-Roles", "admin"), 204).await;
        for token in [&expired, &revoked] {
            while send(api.get("/v2/health").header("X-Auth-Token", token)).await.status == 200 {}
        }
        Self { zaqar, roles, ended: EndedTokens { expired, revoked }, _pools: RedisServer::shared() }
    }

    /// Returns the server to which this sender sends its requests.
    fn server_for(&self, column: &str) -> &Sukkal {
        if ROLES.contains(&column) { &self.roles } else { &self.zaqar }
    }
}

/// A project with a queue that has everything, for one request. All projects share the pools, which get
/// no queues.
pub(super) struct Bench<'s> {
    sukkal: &'s Sukkal,
    ended: &'s EndedTokens,
    pub(super) project: String,
    owner: Api,
    placeholders: Vec<(&'static str, String)>,
    _pools: Arc<RedisServer>,
}

impl<'s> Bench<'s> {
    pub(super) async fn prepare(sukkal: &'s Sukkal, ended: &'s EndedTokens, has_pools: bool) -> Self {
        let project = format!("project-{}", Uuid::new_v4());
        let owner = sukkal.project(&project);
        let as_admin = |request: RequestBuilder| request.header("X-Roles", "admin");
        let create = async |path: &str, body: &Value, status| answered(as_admin(owner.post(path, body)), status).await;
        let last = |path: &str| path.rsplit('/').next().unwrap().to_owned();

        let pools = RedisServer::shared();
        let put = async |path: &str, body: Value| answered(as_admin(owner.put(path)).json(&body), 201).await;
        if has_pools {
            for name in ["p", "of-f"] {
                let uri = format!("{}/{name}", pools.url());
                put(&format!("/v2/pools/{name}"), json!({"uri": uri, "weight": 0})).await;
            }
            put("/v2/flavors/f", json!({"pool_list": ["of-f"]})).await;
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
            ("{pool_name}", "p".to_owned()),
            ("{pool_uri}", pools.url()),
            ("{pool_of_flavor}", "of-f".to_owned()),
            ("{flavor_name}", "f".to_owned()),
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
    pub(super) fn request_of(&self, column: &str, row: &Row) -> RequestBuilder {
        let request = self.request(column, row.method.clone(), row.target);
        match &row.body {
            Some(body) if row.method == Method::PATCH && body.is_array() => {
                let media_type = "application/openstack-messaging-v2.0-json-patch";
                request.header("Content-Type", media_type).body(body.to_string())
            }
            Some(body) => request.body(self.filled(&body.to_string())),
            None => request,
        }
    }

    /// Returns the text with the placeholders replaced.
    fn filled(&self, text: &str) -> String {
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

#[tokio::test]
async fn every_route_has_the_status_of_the_table_for_every_sender() {
    let servers = Servers::start().await;
    let (columns, rows) = read_table();
    let mut wrong = Vec::new();

    for row in &rows {
        assert_eq!(row.statuses.len(), columns.len(), "{} {}", row.method, row.target);
        for (column, expected) in columns.iter().zip(&row.statuses) {
            let bench = Bench::prepare(servers.server_for(column), &servers.ended, row.is_about_pools()).await;
            let answer = send(bench.request_of(column, row)).await;
            if answer.status != *expected {
                wrong.push(format!("{} {}, {column}: {} {}", row.method, row.target, answer.status, answer.text));
            }
        }
    }
    assert!(wrong.is_empty(), "responses that differ from matrix.txt:\n{}", wrong.join("\n"));
}

#[tokio::test]
async fn every_route_has_a_row() {
    let environment = ENVIRONMENT.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let config = Config::load(None, environment, &[]).unwrap();
    let service = app::service(&config, Arc::new(EmbeddedStore::in_memory().unwrap())).unwrap();
    let (_, rows) = read_table();
    let listed = |row: &Row| {
        let path = row.target.split('?').next().unwrap_or_default().replace("{claimed_id}", "{message_id}");
        let path = path.replace("{topic_message_id}", "{message_id}");
        let path = path.replace("{topic_subscription_id}", "{subscription_id}");
        format!("{} {path}", row.method)
    };
    let listed: BTreeSet<String> = rows.iter().map(listed).collect();

    let served = routes(&service.settings).into_iter().flat_map(|(path, methods)| {
        methods.into_iter().filter(|method| *method != Method::OPTIONS).map(move |method| format!("{method} {path}"))
    });
    let missing: Vec<String> = served.filter(|route| !listed.contains(route)).collect();
    assert_eq!(missing, [""; 0], "routes without a row in matrix.txt");
}

/// Every path has `OPTIONS`, which is for everybody who may send requests.
#[tokio::test]
async fn options_need_a_sender_on_every_route() {
    let servers = Servers::start().await;
    let (columns, rows) = read_table();
    let mut benches = Vec::new();
    for column in &columns {
        benches.push((column, Bench::prepare(servers.server_for(column), &servers.ended, true).await));
    }

    for row in rows.iter().filter(|row| {
        row.target.starts_with("/v2") && !["/v2/nothing", "/v2/queues/", "/v2/topics/"].contains(&row.target)
    }) {
        for (column, bench) in &benches {
            let expected = match **column {
                "stranger" | "expired" | "revoked" => 401,
                "unnamed" => 400,
                "elsewhere" | "signed-late" => 404,
                _ => 200,
            };
            let answer = send(bench.request(column, Method::OPTIONS, row.target)).await;
            assert_eq!(answer.status, expected, "{} for {column}: {answer:?}", row.target);
        }
    }
}
