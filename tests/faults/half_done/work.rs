//! A queue with messages in every state, and checks of what has become of them.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::Duration;

use super::{PROJECT, RequestOutcome, Scene};
use crate::http::{answered, ids, send, total};
use support::redis::RedisServer;
use support::sukkal::Api;
use support::waiting::until;

pub(in crate::faults) const QUEUE: &str = "/v2/queues/work";
pub(in crate::faults) const MESSAGES: &str = "/v2/queues/work/messages";
pub(in crate::faults) const CLAIMS: &str = "/v2/queues/work/claims";
/// More claims than are needed to empty a queue.
const CLAIMS_MAX: usize = 1_000;
/// Longer than any claim and delay here.
const ALL_EXPIRED: Duration = Duration::from_secs(1_000);

/// The messages of the queue: dead-letter candidates, claimed ones, ones returned with a delay,
/// available ones, and delayed ones. The body of each is its name.
pub(in crate::faults) struct QueueContents {
    pub(in crate::faults) claim: String,
    ids: BTreeMap<String, String>,
}

/// The allowed outcomes for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It exists once, as a message or as a dead letter.
    Kept,
    /// The request deletes it: it is gone if the deletion was acknowledged, and otherwise does not
    /// exist twice.
    Deleted,
    /// The request posts it: it exists once if the post was acknowledged.
    Posted { by_key: bool },
}

pub(super) fn any_fate(fate: Fate) -> impl Fn(&str) -> Fate {
    move |_| fate
}

pub(super) fn deletion_fate(names: &'static [&'static str]) -> impl Fn(&str) -> Fate {
    move |name| if names.contains(&name) { Fate::Deleted } else { Fate::Kept }
}

impl QueueContents {
    pub(in crate::faults) async fn prepare(api: &Api) -> Self {
        let keys = json!({ "_max_claim_count": 1, "_dead_letter_queue": "dead", "_default_message_delay": 1 });
        answered(api.put(QUEUE).json(&keys), 201).await;
        let mut contents = Self { claim: String::new(), ids: BTreeMap::new() };
        let first = ["tried-0", "tried-1", "tried-2", "held-0", "held-1", "held-2", "later-0"];
        contents.post(api, &first, 0).await;
        let term = json!({ "ttl": 300, "grace": 60 });
        let claimed = answered(api.post(&format!("{CLAIMS}?limit=7"), &term), 201).await;
        let location = claimed.header("location").unwrap();
        location.rsplit('/').next().unwrap().clone_into(&mut contents.claim);
        for name in &first[..3] {
            contents.return_message(api, name, 0).await;
        }
        contents.return_message(api, "later-0", 300).await;
        contents.post(api, &["free-0", "free-1", "free-2"], 0).await;
        contents.post(api, &["delayed-0", "delayed-1"], 600).await;
        contents
    }

    /// Prepares the same queue, but with the dead letters waiting in the outbox.
    pub(super) async fn prepare_dead_letters(redis: &RedisServer, api: &Api) -> Self {
        let contents = Self::prepare(api).await;
        // A key of the wrong type blocks their arrival.
        let noted = format!("sukkal:{{{PROJECT}/dead}}:received");
        redis.command(&["LPUSH", &noted, "in the way"]);
        let behind = answered(api.post(&format!("{CLAIMS}?limit=3"), &json!({})), 201).await;
        answered(api.delete(behind.header("location").unwrap()), 204).await;
        assert_eq!(redis.command(&["LLEN", &format!("sukkal:{{{PROJECT}/work}}:outbox")]).as_int(), 3);
        answered(api.delete("/v2/queues/dead"), 204).await;
        redis.command(&["DEL", &noted]);
        contents
    }

    /// Returns the path of one of the messages.
    pub(in crate::faults) fn message(&self, name: &str) -> String {
        format!("{MESSAGES}/{}", self.ids[name])
    }

    pub(in crate::faults) fn id(&self, name: &str) -> &str {
        &self.ids[name]
    }

    pub(in crate::faults) fn held(&self, name: &str) -> String {
        format!("{CLAIMS}/{}/messages/{}", self.claim, self.ids[name])
    }

    async fn post(&mut self, api: &Api, names: &[&str], delay: u32) {
        let ids = ids(&answered(api.post(MESSAGES, &batch(names, delay)), 201).await.json());
        self.ids.extend(names.iter().map(|name| (*name).to_owned()).zip(ids));
    }

    async fn return_message(&self, api: &Api, name: &str, delay: u32) {
        let path = format!("{}?delay={delay}", self.held(name));
        answered(api.request(Method::DELETE, &path), 204).await;
    }
}

/// Returns the body of a request that posts messages with these names.
pub(in crate::faults) fn batch(names: &[&str], delay: u32) -> Value {
    let message = |name| json!({ "body": name, "delay": delay, "ttl": 86_400 });
    json!({ "messages": names.iter().map(message).collect::<Vec<_>>() })
}

/// Checks the fate of all messages. When all claims and delays are over, the remaining ones can be
/// claimed, in the queue or in its dead-letter queue.
pub(super) async fn verify(
    scene: &Scene,
    outcome: &RequestOutcome,
    contents: &QueueContents,
    fate: &impl Fn(&str) -> Fate,
    new: &[&str],
) {
    scene.set_clock("work", ALL_EXPIRED).await;
    let mut found = drain(&outcome.api, "work").await;
    until("all dead letters have arrived", async || scene.stored().outbox_length("work") == 0).await;
    found.extend(drain(&outcome.api, "dead").await);
    scene.stored().assert_consistent();

    let acknowledged = outcome.acknowledged();
    for name in contents.ids.keys().map(String::as_str).chain(new.iter().copied()) {
        let times = found.iter().filter(|body| *body == name).count();
        let expected = match fate(name) {
            Fate::Kept => 1..=1,
            Fate::Deleted if acknowledged => 0..=0,
            Fate::Posted { .. } if acknowledged => 1..=1,
            Fate::Posted { by_key: true } if outcome.is_repeated() => 1..=1,
            Fate::Posted { by_key: false } if outcome.is_repeated() => 1..=2,
            Fate::Deleted | Fate::Posted { .. } => 0..=1,
        };
        assert!(
            expected.contains(&times),
            "{name} exists {times} times, {:?} after {:?}",
            fate(name),
            outcome.kill_point
        );
    }
    assert!(found.iter().all(|name| contents.ids.contains_key(name) || new.contains(&name.as_str())), "{found:?}");
}

/// Returns the names of all messages of a queue, by claiming and deleting them until none is left.
pub(in crate::faults) async fn drain(api: &Api, queue: &str) -> Vec<String> {
    let path = format!("/v2/queues/{queue}");
    let mut names = Vec::new();
    for _ in 0..CLAIMS_MAX {
        let request = api.post(&format!("{path}/claims?limit=20"), &json!({ "ttl": 300, "grace": 60 }));
        let claim = send(request).await;
        if claim.status == 204 {
            // A claim that finds only dead letters returns no messages either.
            if total(api, queue).await == 0 {
                return names;
            }
            continue;
        }
        for message in claim.json()["messages"].as_array().unwrap() {
            names.push(message["body"].as_str().unwrap().to_owned());
            answered(api.delete(message["href"].as_str().unwrap()), 204).await;
        }
    }
    panic!("{queue} has messages that cannot be claimed");
}
