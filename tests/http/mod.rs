//! The HTTP API, tested against a real server process: every row of the fact sheet that the service
//! implements.
//!
//! Each test names its rows of chapters 4 to 9, which `tests/rows.md` lists. Rows of other
//! chapters are named in the module comments. All tests of a process share one server, and each
//! test has its own project.

mod bad_input;
mod check_order;
mod checksum;
mod claim_create;
mod claim_life;
mod claim_list;
mod claimed_messages;
mod clock_steps;
mod connection_ends;
mod connections;
mod cors;
mod cost;
mod dead_letter_moves;
mod dead_letter_origins;
mod dead_letters;
mod delayed_messages;
mod discovery;
mod dot_names;
mod encryption;
mod error_texts;
mod events;
mod fair_queues;
mod fences;
mod flavors;
mod head;
mod headers;
mod idempotency;
mod json_rules;
mod limits;
mod long_delays;
mod memory;
mod message_delay;
mod message_delete;
mod message_get;
mod message_list;
mod message_order;
mod message_pop;
mod message_post;
mod message_return;
mod message_states;
mod metadata_patch;
mod metadata_warnings;
mod metrics;
mod monitoring;
mod operators;
mod pause;
mod pools;
mod projects;
mod query_rules;
mod queue_create;
mod queue_delete;
mod queue_list;
mod queue_list_stats;
mod queue_metadata;
mod queue_purge;
mod queue_stats;
mod raw;
mod redrive;
mod reserved_metadata;
mod round_trips;
mod share;
mod signed_queries;
mod signed_urls;
mod slow_clients;
mod store_down;
mod subscription_checks;
mod subscription_control;
mod subscriptions;
mod tokens;
mod topics;
mod trace_contexts;
mod traces;
mod unnamed_callers;
mod useless_requests;
mod waiting;
mod warnings;

use std::ops::Deref;
use std::sync::{Arc, Mutex, Weak};

use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use sukkal_domain::{ProjectId, QueueId};
use uuid::Uuid;

use support::redis::{RedisServer, shared_instance};
use support::sukkal::{Api, MOVABLE_CLOCK, Sukkal};
use support::test_bed::{open_movable, set_clock};
use support::waiting::until_some;

const INVALID_REQUEST: &str = "Invalid API request";
const INVALID_BODY: &str = "Invalid request body";
const INVALID_PARAMETER: &str = "Invalid parameter";
const INVALID_QUEUE: &str = "Invalid queue identification";
const NO_ROUTE: &str = "404 Not Found";
const NOT_FOUND: &str = "Not found";
const CONFLICT: &str = "Resource conflict";

/// The paths of the queue that most tests use.
const MESSAGES: &str = "/v2/queues/q/messages";
const CLAIMS: &str = "/v2/queues/q/claims";
pub(crate) const PATCH_TYPE: &str = "application/openstack-messaging-v2.0-json-patch";
/// Environment variable with the key that messages are encrypted with, and the default key of the
/// tests.
const KEY_OPTION: &str = "SUKKAL_TRANSPORT__MESSAGE_ENCRYPTION_KEY";
const KEY: &str = "the key of all tests that do not bring their own";
/// A client id that differs from the default client of the tests.
pub(crate) const OTHER_CLIENT: &str = "0a0f95c8-8d6b-4f3e-9c0f-6f7a4c9e2b11";

/// A Sukkal server and the Redis that it uses. Other servers may use the same Redis.
struct Server {
    sukkal: Sukkal,
    redis: Arc<RedisServer>,
}

impl Server {
    /// Returns the server that all tests share if the default options and an encryption key are
    /// enough.
    fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());

        shared_instance(&SHARED, || Self::start(&[(KEY_OPTION, KEY)]))
    }

    /// Returns the server that all tests share that move the clock of the store.
    fn shared_movable() -> Arc<Self> {
        static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());

        shared_instance(&SHARED, || Self::start_movable(&[(KEY_OPTION, KEY)]))
    }

    fn start(environment: &[(&str, &str)]) -> Self {
        let redis = RedisServer::shared();
        Self { sukkal: Sukkal::start_with(&redis.url(), environment), redis }
    }

    /// Starts a server over a store whose clock can be moved.
    fn start_movable(environment: &[(&str, &str)]) -> Self {
        let redis = RedisServer::shared_movable();
        Self { sukkal: Sukkal::start_with(&redis.url(), &[&[MOVABLE_CLOCK], environment].concat()), redis }
    }
}

/// A project that only one test uses, and its server. It dereferences to the API client of the
/// project.
struct Project {
    server: Arc<Server>,
    id: String,
    api: Api,
}

/// Returns a new project on the shared server.
fn new_project() -> Project {
    Project::of(&Server::shared(), &format!("project-{}", Uuid::new_v4()))
}

/// Returns a new project on the shared server whose store has a movable clock.
fn new_movable_project() -> Project {
    Project::of(&Server::shared_movable(), &format!("project-{}", Uuid::new_v4()))
}

/// Returns a new project on that server whose queue `q` has a message for each number below
/// `count`, and their ids.
async fn with_messages(count: usize) -> (Project, Vec<String>) {
    let api = new_movable_project();
    let ids = api.post_bodies("q", &numbers(0..count)).await;
    (api, ids)
}

fn numbers(range: impl Iterator<Item = usize>) -> Vec<Value> {
    range.map(Value::from).collect()
}

impl Project {
    fn of(server: &Arc<Server>, id: &str) -> Self {
        Self { server: Arc::clone(server), id: id.to_owned(), api: server.sukkal.project(id) }
    }

    /// Returns a request without any headers.
    fn bare(&self, method: Method, path: &str) -> RequestBuilder {
        support::plain_http::client().request(method, self.server.sukkal.url(path))
    }

    async fn create(&self, queue: &str, metadata: &Value) {
        let created = self.put(&format!("/v2/queues/{queue}")).json(metadata);
        answered(created, 201).await;
    }

    /// Posts a message for each body and returns their ids.
    async fn post_bodies(&self, queue: &str, bodies: &[Value]) -> Vec<String> {
        post_as(self, queue, bodies).await
    }

    /// Posts messages as they are given and returns their ids.
    async fn post_messages(&self, queue: &str, messages: &Value) -> Vec<String> {
        let posted = self.post(&format!("/v2/queues/{queue}/messages"), &json!({ "messages": messages }));
        ids(&answered(posted, 201).await.json())
    }

    /// Claims up to `limit` messages of the queue `q`. At least one must be available.
    async fn claim(&self, limit: usize) -> Claim {
        self.claim_from("q", limit).await
    }

    async fn claim_from(&self, queue: &str, limit: usize) -> Claim {
        let answer = answered(self.post(&format!("/v2/queues/{queue}/claims?limit={limit}"), &json!({})), 201).await;
        let path = answer.header("location").expect("a claim has a location").to_owned();
        let id = path.rsplit('/').next().expect("a path ends in the id").to_owned();
        Claim { path, id, messages: answer.json()["messages"].take() }
    }

    /// Returns the bodies of all messages in a queue's feed, including those of this client.
    /// `query` may add parameters, such as `&limit=1`.
    async fn feed(&self, queue: &str, query: &str) -> Vec<Value> {
        feed(self, queue, query).await
    }

    /// Waits until a queue has at least this number of messages, and returns their bodies. A claim
    /// or pop does not wait for long until its dead letters arrive.
    async fn arrived(&self, queue: &str, count: usize) -> Vec<Value> {
        until_some(&format!("{count} messages arrive in {queue}"), async || {
            let bodies = self.feed(queue, "").await;
            (bodies.len() >= count).then_some(bodies)
        })
        .await
    }

    async fn stats(&self, queue: &str) -> Value {
        answered(self.get(&format!("/v2/queues/{queue}/stats")), 200).await.json()["messages"].take()
    }

    /// Sets the store's clock for the queue `q` ahead of the real time.
    async fn set_clock_ahead(&self, seconds: i64) {
        self.set_clock_of("q", seconds).await;
    }

    /// Sets the store's clock for one queue ahead of the real time.
    async fn set_clock_of(&self, queue: &str, seconds: i64) {
        let store = open_movable(&self.server.redis.url());
        let queue = QueueId::new(ProjectId::new(&self.id).unwrap(), queue.parse().unwrap()).unwrap();
        set_clock(&store, &queue, seconds * 1_000_000).await;
    }

    fn patch(&self, queue: &str, patch: &Value) -> RequestBuilder {
        let request = self.request(Method::PATCH, &format!("/v2/queues/{queue}"));
        request.header("Content-Type", PATCH_TYPE).body(patch.to_string())
    }

    /// Returns all queues of the project with their metadata and messages. The ages are removed,
    /// because they change by themselves.
    async fn snapshot(&self) -> Value {
        let mut queues = follow(self, "/v2/queues?limit=20&detailed=true", "queues").await;
        for queue in &mut queues {
            let path = format!("{}/messages?limit=20&echo=true", text(&queue["href"]));
            let mut messages = follow(self, &path, "messages").await;
            for message in &mut messages {
                message["age"] = Value::Null;
            }
            queue["messages"] = messages.into();
        }
        queues.into()
    }
}

impl Deref for Project {
    type Target = Api;

    fn deref(&self) -> &Api {
        &self.api
    }
}

/// A claim as the client that created it received it.
struct Claim {
    path: String,
    id: String,
    messages: Value,
}

/// Posts a message for each body as the given client, and returns their ids.
pub(crate) async fn post_as(api: &Api, queue: &str, bodies: &[Value]) -> Vec<String> {
    let messages: Vec<Value> = bodies.iter().map(|body| json!({ "body": body })).collect();
    let posted = api.post(&format!("/v2/queues/{queue}/messages"), &json!({ "messages": messages }));
    ids(&answered(posted, 201).await.json())
}

/// Returns the ids in the receipt of a post.
pub(crate) fn ids(receipt: &Value) -> Vec<String> {
    let id = |href: &Value| text(href).rsplit('/').next().expect("an href ends in the id").to_owned();
    receipt["resources"].as_array().expect("resources are a list").iter().map(id).collect()
}

/// Returns the bodies of all messages in a queue's feed, including those of this client. `query`
/// may add parameters, such as `&limit=1`.
pub(crate) async fn feed(api: &Api, queue: &str, query: &str) -> Vec<Value> {
    let path = format!("/v2/queues/{queue}/messages?echo=true{query}");
    pick(&follow(api, &path, "messages").await.into(), "body")
}

/// Returns the number of messages in a queue, with those that are claimed or delayed.
pub(crate) async fn total(api: &Api, queue: &str) -> u64 {
    let stats = answered(api.get(&format!("/v2/queues/{queue}/stats")), 200).await.json();
    stats["messages"]["total"].as_u64().expect("the total is a number")
}

/// Follows the links from `path` to the last page, and returns the items of all pages.
pub(crate) async fn follow(api: &Api, path: &str, items: &str) -> Vec<Value> {
    follow_with(api, path, items, |request| request).await
}

/// The same with requests that `prepare` has changed.
async fn follow_with(
    api: &Api,
    path: &str,
    items: &str,
    prepare: impl Fn(RequestBuilder) -> RequestBuilder,
) -> Vec<Value> {
    let mut found = Vec::new();
    let mut path = path.to_owned();
    loop {
        let mut page = answered(prepare(api.get(&path)), 200).await.json();
        let next = page["links"][0]["href"].as_str().map(str::to_owned);
        let list = page[items].as_array_mut().expect("items are a list");
        let is_empty = list.is_empty();
        found.append(list);
        match next {
            Some(next) if !is_empty => path = next,
            _ => return found,
        }
    }
}

/// A complete HTTP response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    async fn of(response: Response) -> Self {
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        Self { status, headers, text: response.text().await.expect("the response is complete") }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("the headers of the service are ASCII"))
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// Checks that this is an error document with this status and title and no other keys, and
    /// returns its description.
    pub(crate) fn refusal(&self, status: u16, title: &str) -> String {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        assert_eq!(self.header("vary"), Some("Accept"), "{self:?}");
        let document = self.json();
        assert_eq!(document["title"], title, "{self:?}");
        let keys: Vec<&str> = document.as_object().expect("an error is an object").keys().map(String::as_str).collect();
        match status {
            406 => assert_eq!(keys, ["title", "description", "link"]),
            _ => assert_eq!(keys, ["title", "description"]),
        }
        text(&document["description"]).to_owned()
    }
}

/// Sends a request and returns the response, whatever its status.
pub(crate) async fn send(request: RequestBuilder) -> Answer {
    Answer::of(request.send().await.expect("the server answers")).await
}

/// Sends a request, checks that the response has this status, and returns the response.
pub(crate) async fn answered(request: RequestBuilder, status: u16) -> Answer {
    let answer = send(request).await;
    assert_eq!(answer.status, status, "{answer:?}");
    answer
}

/// Sends a request that must succeed, and returns the document of the response; `null` if it is
/// empty.
pub(crate) async fn ok(request: RequestBuilder) -> Value {
    let answer = send(request).await;
    assert!((200..300).contains(&answer.status), "{answer:?}");
    serde_json::from_str(&answer.text).unwrap_or_default()
}

/// Sends a request, checks that it is refused with this status and title, and returns the
/// description of the error.
pub(crate) async fn refused(request: RequestBuilder, status: u16, title: &str) -> String {
    send(request).await.refusal(status, title)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a string: {value}"))
}

/// Returns the value of one key for each item.
pub(crate) fn pick(items: &Value, key: &str) -> Vec<Value> {
    items.as_array().expect("items are a list").iter().map(|item| item[key].clone()).collect()
}
