//! A queue with something of everything in it, and how to find out what has become of that.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::Duration;

use super::{Crash, PROJECT, Scene, answer_to};
use crate::faults::requests::ids;
use crate::support::redis::{RedisServer, poll_until};
use crate::support::sukkal::Api;

pub(in crate::faults) const QUEUE: &str = "/v2/queues/work";
pub(in crate::faults) const MESSAGES: &str = "/v2/queues/work/messages";
pub(in crate::faults) const CLAIMS: &str = "/v2/queues/work/claims";
/// More than it takes to empty a queue.
const CLAIMS_MAX: usize = 1_000;
/// Longer than any claim and delay here.
const ALL_IS_OVER: Duration = Duration::from_secs(1_000);

/// What the queue holds: messages that were tried too often, that a claim holds, that were given back for
/// later, that are free, and that are delayed. Each says its name.
pub(in crate::faults) struct World {
    pub(in crate::faults) claim: String,
    ids: BTreeMap<String, String>,
}

/// What may become of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is there once, as a message or as a dead letter.
    Kept,
    /// It is what the request deletes: gone if that was acknowledged, else not there twice.
    Doomed,
    /// It is what the request posts: there once if that was acknowledged.
    Posted { by_key: bool },
}

pub(super) fn any_fate(fate: Fate) -> impl Fn(&str) -> Fate {
    move |_| fate
}

pub(super) fn doomed(names: &'static [&'static str]) -> impl Fn(&str) -> Fate {
    move |name| if names.contains(&name) { Fate::Doomed } else { Fate::Kept }
}

impl World {
    pub(in crate::faults) async fn prepare(api: &Api) -> Self {
        let keys = json!({ "_max_claim_count": 1, "_dead_letter_queue": "dead", "_default_message_delay": 1 });
        let created = api.put(QUEUE).json(&keys).send().await.unwrap();
        assert_eq!(created.status(), 201);
        let mut world = Self { claim: String::new(), ids: BTreeMap::new() };
        let first = ["tried-0", "tried-1", "tried-2", "held-0", "held-1", "held-2", "later-0"];
        world.post(api, &first, 0).await;
        let claimed = api.post(&format!("{CLAIMS}?limit=7"), &json!({ "ttl": 300, "grace": 60 })).send().await.unwrap();
        assert_eq!(claimed.status(), 201);
        let location = claimed.headers()["Location"].to_str().unwrap();
        location.rsplit('/').next().unwrap().clone_into(&mut world.claim);
        for name in &first[..3] {
            world.give_back(api, name, 0).await;
        }
        world.give_back(api, "later-0", 300).await;
        world.post(api, &["free-0", "free-1", "free-2"], 0).await;
        world.post(api, &["delayed-0", "delayed-1"], 600).await;
        world
    }

    /// The same, but the messages that were tried too often are on their way to the other queue.
    pub(super) async fn prepare_letters(redis: &RedisServer, api: &Api) -> Self {
        let world = Self::prepare(api).await;
        // A wrong kind of key is in their way.
        let noted = format!("sukkal:{{{PROJECT}/dead}}:received");
        redis.command(&["LPUSH", &noted, "in the way"]);
        let nothing = api.post(&format!("{CLAIMS}?limit=3"), &json!({})).send().await.unwrap();
        assert_eq!(nothing.status(), 204);
        assert_eq!(redis.command(&["LLEN", &format!("sukkal:{{{PROJECT}/work}}:outbox")]).as_int(), 3);
        let deleted = api.delete("/v2/queues/dead").send().await.unwrap();
        assert_eq!(deleted.status(), 204);
        redis.command(&["DEL", &noted]);
        world
    }

    /// Where one of the messages is.
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
        let posted = api.post(MESSAGES, &batch(names, delay)).send().await.unwrap();
        assert_eq!(posted.status(), 201);
        let ids = ids(&posted.json().await.unwrap());
        self.ids.extend(names.iter().map(|name| (*name).to_owned()).zip(ids));
    }

    async fn give_back(&self, api: &Api, name: &str, delay: u32) {
        let path = format!("{}?delay={delay}", self.held(name));
        let given = api.request(Method::DELETE, &path).send().await.unwrap();
        assert_eq!(given.status(), 204);
    }
}

/// A request that posts messages with these names.
pub(in crate::faults) fn batch(names: &[&str], delay: u32) -> Value {
    let message = |name| json!({ "body": name, "delay": delay, "ttl": 86_400 });
    json!({ "messages": names.iter().map(message).collect::<Vec<_>>() })
}

/// Checks what has become of the messages: all that are left can be claimed when all claims and delays are
/// over, in the queue or in that for its dead letters.
pub(super) async fn judge(scene: &Scene, crash: &Crash, world: &World, fate: &impl Fn(&str) -> Fate, new: &[&str]) {
    scene.set_clock("work", ALL_IS_OVER).await;
    let mut found = drain(&crash.api, "work").await;
    poll_until("all letters have arrived", || scene.stored().letters_waiting("work") == 0);
    found.extend(drain(&crash.api, "dead").await);
    scene.stored().all_fits_together();

    let acknowledged = crash.acknowledged();
    for name in world.ids.keys().map(String::as_str).chain(new.iter().copied()) {
        let times = found.iter().filter(|body| *body == name).count();
        let expected = match fate(name) {
            Fate::Kept => 1..=1,
            Fate::Doomed if acknowledged => 0..=0,
            Fate::Posted { .. } if acknowledged => 1..=1,
            Fate::Posted { by_key: true } if crash.is_repeated() => 1..=1,
            Fate::Posted { by_key: false } if crash.is_repeated() => 1..=2,
            Fate::Doomed | Fate::Posted { .. } => 0..=1,
        };
        assert!(expected.contains(&times), "{name} is there {times} times, {:?} after {:?}", fate(name), crash.death);
    }
    assert!(found.iter().all(|name| world.ids.contains_key(name) || new.contains(&name.as_str())), "{found:?}");
}

/// The names of all messages of a queue, which are claimed and deleted until none is left.
pub(in crate::faults) async fn drain(api: &Api, queue: &str) -> Vec<String> {
    let path = format!("/v2/queues/{queue}");
    let mut names = Vec::new();
    for _ in 0..CLAIMS_MAX {
        let request = api.post(&format!("{path}/claims?limit=20"), &json!({ "ttl": 300, "grace": 60 }));
        let (status, claim) = answer_to(request).await;
        if status == 204 {
            // A claim that meets nothing but dead letters has nothing to give either.
            let (_, counts) = answer_to(api.get(&format!("{path}/stats"))).await;
            if counts["messages"]["total"] == 0 {
                return names;
            }
            continue;
        }
        for message in claim["messages"].as_array().unwrap() {
            names.push(message["body"].as_str().unwrap().to_owned());
            let (status, _) = answer_to(api.delete(message["href"].as_str().unwrap())).await;
            assert_eq!(status, 204);
        }
    }
    panic!("{queue} has messages that cannot be claimed");
}
