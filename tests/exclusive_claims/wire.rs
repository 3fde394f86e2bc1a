//! The HTTP requests of workers and producers. Each goes to any of the servers.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::sleep;
use uuid::Uuid;

use super::history::{Action, Claimed, Draft, Outcome, Seen, Term};
use crate::http::PATCH_TYPE;
use support::random::Random;
use support::sukkal::CLIENT;
use support::test_bed::ServerUrls;

pub(super) const PROJECT: &str = "exclusive";
/// While a store is down, requests are refused at once.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(30);
/// Number of tenants that post to the queue. They have no effect while it is not fair.
const TENANTS: u64 = 7;
/// A server responds within two seconds, also while its store is down; this allows for a busy
/// machine.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(super) struct Wire {
    client: Client,
    pub(super) queue: String,
    servers: Arc<ServerUrls>,
}

/// There was no response that shows the outcome.
pub(super) struct Unknown(pub(super) String);

impl From<reqwest::Error> for Unknown {
    fn from(error: reqwest::Error) -> Self {
        assert!(!error.is_timeout(), "there is no response in time: {error:?}");
        Self(format!("{error:?}"))
    }
}

impl Wire {
    pub(super) fn new(queue: &str, servers: Arc<ServerUrls>) -> Self {
        let client = support::plain_http::builder().timeout(TIMEOUT).build().expect("the options are in order");
        Self { client, queue: queue.to_owned(), servers }
    }

    pub(super) async fn post(&self, random: &mut Random, drafts: &[Draft]) -> Result<Vec<Uuid>, Unknown> {
        let messages: Vec<Value> = drafts.iter().map(document).collect();
        let answer = self.send(random, Method::POST, "/messages", Some(json!({ "messages": messages }))).await?;
        expect(&answer, &[StatusCode::CREATED]);
        let document: Value = answer.json().await?;
        let paths = document["resources"].as_array().expect("a receipt names its messages");
        Ok(paths.iter().map(|path| last_id(path.as_str().expect("a path is a text"))).collect())
    }

    pub(super) async fn claim(&self, random: &mut Random, limit: usize, term: Term) -> Result<Claimed, Unknown> {
        let path = format!("/claims?limit={limit}");
        let answer = self.send(random, Method::POST, &path, Some(body(term))).await?;
        expect(&answer, &[StatusCode::CREATED, StatusCode::NO_CONTENT]);
        if answer.status() == StatusCode::NO_CONTENT {
            return Ok(if is_paused(&answer) { Claimed::Paused } else { Claimed::Nothing });
        }
        let id = last_id(answer.headers()["Location"].to_str().expect("a path is plain"));
        Ok(Claimed::Got(id, scan(&answer.json().await?)))
    }

    /// Pops messages. Also returns whether the queue is paused.
    pub(super) async fn pop(&self, random: &mut Random, limit: usize) -> Result<(Vec<Seen>, bool), Unknown> {
        let answer = self.send(random, Method::DELETE, &format!("/messages?pop={limit}"), None).await?;
        expect(&answer, &[StatusCode::OK]);
        let is_paused = is_paused(&answer);
        Ok((scan(&answer.json().await?), is_paused))
    }

    /// Pauses or resumes the queue.
    pub(super) async fn switch(&self, random: &mut Random, pauses: bool) -> Result<(), Unknown> {
        let path = format!("/{}", if pauses { "pause" } else { "resume" });
        let answer = self.send(random, Method::POST, &path, None).await?;
        expect(&answer, &[StatusCode::NO_CONTENT]);
        Ok(())
    }

    /// Performs an action with or without a claim.
    pub(super) async fn use_claim(
        &self,
        random: &mut Random,
        claim: Option<Uuid>,
        action: Action,
    ) -> Result<Outcome, Unknown> {
        let name = claim.map(|claim| claim.to_string()).unwrap_or_default();
        let (method, path, term, refusals): (_, _, _, &[StatusCode]) = match action {
            Action::Renew(term) => {
                (Method::PATCH, format!("/claims/{name}"), Some(body(term)), &[StatusCode::NOT_FOUND])
            }
            Action::Release => (Method::DELETE, format!("/claims/{name}"), None, &[]),
            Action::Delete(id) => {
                let query = claim.map(|claim| format!("?claim_id={claim}")).unwrap_or_default();
                let refusals = &[StatusCode::BAD_REQUEST, StatusCode::FORBIDDEN];
                (Method::DELETE, format!("/messages/{id}{query}"), None, refusals)
            }
            Action::Return(id, delay_s) => {
                let query = if delay_s > 0 { format!("?delay={delay_s}") } else { String::new() };
                let path = format!("/claims/{name}/messages/{id}{query}");
                (Method::DELETE, path, None, &[StatusCode::NOT_FOUND])
            }
        };
        let answer = self.send(random, method, &path, term).await?;
        if refusals.contains(&answer.status()) {
            return Ok(Outcome::Refused);
        }
        expect(&answer, &[StatusCode::NO_CONTENT]);
        Ok(Outcome::Done)
    }

    /// Returns the numbers of all, claimed and available messages.
    pub(super) async fn count(&self, random: &mut Random, queue: &str) -> Result<[u64; 3], Unknown> {
        let answer = send(self.request(random, Method::GET, queue, "/stats")).await?;
        expect(&answer, &[StatusCode::OK]);
        let document: Value = answer.json().await?;
        Ok(["total", "claimed", "free"].map(|name| document["messages"][name].as_u64().expect("a number")))
    }

    /// Sets the number of shards of the queue.
    pub(super) async fn set_shards(&self, random: &mut Random, shards: u16) -> Result<(), Unknown> {
        let patch = json!([{"op": "add", "path": "/metadata/_shards", "value": shards}]);
        let request = self.request(random, Method::PATCH, &self.queue, "").header("Content-Type", PATCH_TYPE);
        let answer = send(request.body(patch.to_string())).await?;
        expect(&answer, &[StatusCode::OK]);
        Ok(())
    }

    async fn send(
        &self,
        random: &mut Random,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Response, Unknown> {
        let request = self.request(random, method, &self.queue, path);
        let request = match body {
            Some(body) => request.json(&body),
            None => request,
        };
        send(request).await
    }

    /// Creates a request about a queue to any of the servers.
    fn request(&self, random: &mut Random, method: Method, queue: &str, path: &str) -> RequestBuilder {
        let url = format!("{}/v2/queues/{queue}{path}", self.servers.choose(random));
        self.client.request(method, url).header("Client-ID", CLIENT).header("X-Project-ID", PROJECT)
    }
}

async fn send(request: RequestBuilder) -> Result<Response, Unknown> {
    let outcome = match request.send().await {
        Ok(answer) if answer.status() == StatusCode::SERVICE_UNAVAILABLE => Err(Unknown(answer.text().await?)),
        Ok(answer) => return Ok(answer),
        Err(error) => Err(error.into()),
    };
    sleep(PAUSE_AFTER_FAILURE).await;
    outcome
}

/// Returns whether a claim or pop got nothing because the queue is paused.
fn is_paused(answer: &Response) -> bool {
    answer.headers().contains_key("Retry-After")
}

fn expect(answer: &Response, statuses: &[StatusCode]) {
    assert!(statuses.contains(&answer.status()), "{}, not one of {statuses:?}: {}", answer.status(), answer.url());
}

fn document(draft: &Draft) -> Value {
    let tenant = format!("tenant {}", draft.tag % TENANTS);
    let mut document = json!({ "ttl": draft.ttl_s, "body": draft.tag, "tenant": tenant });
    if let Some(delay_s) = draft.delay_s {
        document["delay"] = delay_s.into();
    }
    document
}

fn body(term: Term) -> Value {
    json!({ "ttl": term.ttl_s, "grace": term.grace_s })
}

fn last_id(path: &str) -> Uuid {
    path.rsplit('/').next().and_then(|id| id.parse().ok()).expect("a path ends with an id")
}

fn scan(document: &Value) -> Vec<Seen> {
    let messages = document["messages"].as_array().expect("a page has messages");
    let seen = |message: &Value| {
        let id = message["id"].as_str()?.parse().ok()?;
        Some(Seen { id, tag: message["body"].as_u64()? })
    };
    messages.iter().map(|message| seen(message).expect("a message has an id and a body of this test")).collect()
}
