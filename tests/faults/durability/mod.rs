//! `Durability`: a post is answered when it has reached what it requires. Otherwise the response is
//! `503`, and a retry with the same key posts nothing twice.

mod fail_over;
mod fsync;
mod kills;
mod replicas;
mod table;

use reqwest::Response;
use serde_json::{Value, json};
use uuid::Uuid;

use support::redis::{RedisServer, Reply};
use support::sukkal::{Api, Sukkal};
use support::waiting::block_until;

const QUEUE: &str = "/v2/queues/orders";
const MESSAGES: &str = "/v2/queues/orders/messages";
/// Maximum time that a post waits, in seconds: long enough for a busy machine, and short if a test
/// waits for the end of it.
const LONG: (&str, &str) = ("SUKKAL_TRANSPORT__MAX_DURABILITY_WAIT", "60");
const SHORT: (&str, &str) = ("SUKKAL_TRANSPORT__MAX_DURABILITY_WAIT", "1");

/// A response to a post.
#[derive(Debug)]
struct Answer {
    status: u16,
    durability: Option<String>,
    retry_after: Option<String>,
    description: String,
}

impl Answer {
    async fn of(response: Response) -> Self {
        let header = |name| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let (durability, retry_after) = (header("Durability"), header("Retry-After"));
        let status = response.status().as_u16();
        let document: Value = response.json().await.unwrap();
        let description = document["description"].as_str().unwrap_or_default().to_owned();
        Self { status, durability, retry_after, description }
    }

    /// Asserts that the messages are posted and have reached the level.
    fn assert_reached(&self, level: &str) {
        assert_eq!((self.status, self.durability.as_deref()), (201, Some(level)), "{self:?}");
    }

    /// Asserts that the response says that the messages may exist, without having reached the
    /// level.
    fn assert_unknown(&self) {
        assert_eq!((self.status, self.durability.as_deref()), (503, None), "{self:?}");
        assert!(self.description.starts_with("The messages may exist"), "{self:?}");
        assert!(self.retry_after.is_some(), "{self:?}");
    }
}

/// Posts a message with these headers.
async fn post(api: &Api, body: &str, headers: &[(&str, &str)]) -> Answer {
    let request = api.post(MESSAGES, &json!({ "messages": [{ "body": body }] }));
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    Answer::of(request.send().await.unwrap()).await
}

/// Returns the bodies of all messages, in their order.
async fn bodies(api: &Api) -> Vec<String> {
    let mut bodies = Vec::new();
    let mut next = format!("{MESSAGES}?echo=true&limit=20");
    loop {
        let page: Value = api.get(&next).send().await.unwrap().json().await.unwrap();
        let messages = page["messages"].as_array().expect("the queue can be read");
        if messages.is_empty() {
            return bodies;
        }
        bodies.extend(messages.iter().map(|message| message["body"].as_str().unwrap().to_owned()));
        page["links"][0]["href"].as_str().unwrap().clone_into(&mut next);
    }
}

/// Starts a replica of the server, and waits until it is in sync.
fn start_replica(master: &RedisServer) -> RedisServer {
    let replica = RedisServer::start_with(&[("replicaof", &format!("127.0.0.1 {}", master.port()))]);
    wait_until_in_sync(master, &replica);
    replica
}

/// Waits until the replica receives what is written to the master, and the master counts on it.
fn wait_until_in_sync(master: &RedisServer, replica: &RedisServer) {
    const PROBE: &str = "probe";

    let value = Uuid::new_v4().to_string();
    master.command(&["SET", PROBE, &value]);
    block_until("the replica is in sync", || {
        replica.command(&["GET", PROBE]) == Reply::Bulk(Some(value.clone().into()))
    });
    let online = format!("port={},state=online", replica.port());
    block_until("the replica is online", || master.command(&["INFO", "replication"]).as_text().contains(&online));
    master.command(&["DEL", PROBE]);
}

/// Creates the queue, so that no post has to.
async fn create_queue(sukkal: &Sukkal, metadata: Value) -> Api {
    let api = sukkal.project("p");
    assert_eq!(api.put(QUEUE).json(&metadata).send().await.unwrap().status(), 201);
    api
}
