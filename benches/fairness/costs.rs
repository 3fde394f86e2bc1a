//! What polls, posts and claims cost in a fair queue, beside a plain one.

use std::fmt::Write as _;
use std::time::Instant;

use serde_json::json;
use tokio::task::JoinSet;

use crate::scene::{Scene, median, path};

const CONNECTIONS: usize = 16;
const SHARDS: [u16; 4] = [1, 16, 64, 1024];
const POLLS: usize = 6_000;
const POSTS: usize = 6_000;
const CLAIMS: usize = 1_600;
const CLAIMED_AT_ONCE: usize = 10;
const BODY_BYTES: usize = 1024;

/// What a round of requests took.
#[derive(Clone, Copy)]
struct Round {
    per_s: f64,
    service_us: f64,
    store_us: f64,
}

impl Round {
    fn us(&self) -> f64 {
        self.service_us + self.store_us
    }
}

/// Claims on queues without messages.
pub(crate) async fn of_empty_polls(text: &mut String, scenes: &[Scene], rounds: usize) {
    write!(
        text,
        "\n## Empty polls\n\nClaims on a queue without messages, {CONNECTIONS} connections, {rounds} rounds of {POLLS} in turn, medians; \
         µs are processor time for one poll.\n\n\
         | store | shards | polls/s | service, µs | store, µs | beside 1 shard |\n|---|---|---|---|---|---|\n"
    )
    .unwrap();
    for scene in scenes {
        let mut taken = SHARDS.map(|_| Vec::new());
        for shards in SHARDS {
            scene.create(&format!("idle-{shards}"), shards).await;
        }
        for _ in 0..rounds {
            for (shards, taken) in SHARDS.into_iter().zip(&mut taken) {
                taken.push(polls(scene, &format!("idle-{shards}"), POLLS).await);
            }
        }
        let first = us(&taken[0]);
        for (shards, taken) in SHARDS.into_iter().zip(&taken) {
            let Round { per_s, service_us, store_us } = medians(taken);
            let ratio = us(taken) / first;
            writeln!(text, "| {} | {shards} | {per_s:.0} | {service_us:.1} | {store_us:.1} | {ratio:.2} |", scene.name)
                .unwrap();
        }
    }
}

/// Posts of one message, and claims of ten behind them, in a plain queue and a fair one.
pub(crate) async fn of_posts_and_claims(text: &mut String, scenes: &[Scene], rounds: usize) {
    write!(
        text,
        "\n## Posts and claims\n\nPosts of one message of 1 KB by {CONNECTIONS} clients, and claims of {CLAIMED_AT_ONCE} of these, over \
         {CONNECTIONS} connections; {rounds} rounds of {POSTS} posts and {CLAIMS} claims in turn, medians; µs are processor time for one \
         request.\n\n\
         | store | what | shards | requests/s | service, µs | store, µs | beside 1 shard |\n|---|---|---|---|---|---|---|\n"
    )
    .unwrap();
    for scene in scenes {
        let mut taken = [1, 64].map(|shards| (shards, [Vec::new(), Vec::new()]));
        for _ in 0..rounds {
            for (shards, [posted, claimed]) in &mut taken {
                scene.create("busy", *shards).await;
                posted.push(posts(scene, "busy", POSTS, 1).await);
                posts(scene, "busy", (CLAIMS * CLAIMED_AT_ONCE).saturating_sub(POSTS) / 50 + CONNECTIONS, 50).await;
                claimed.push(claims(scene, "busy", CLAIMS).await);
            }
        }
        for (place, what) in ["post", "claim"].into_iter().enumerate() {
            let plain = us(&taken[0].1[place]);
            for (shards, rounds) in &taken {
                let Round { per_s, service_us, store_us } = medians(&rounds[place]);
                let ratio = us(&rounds[place]) / plain;
                writeln!(
                    text,
                    "| {} | {what} | {shards} | {per_s:.0} | {service_us:.1} | {store_us:.1} | {ratio:.2} |",
                    scene.name
                )
                .unwrap();
            }
        }
    }
}

async fn polls(scene: &Scene, queue: &str, count: usize) -> Round {
    let claim = path(queue, "/claims?limit=10");
    requests(scene, count, &claim, "{\"ttl\":60,\"grace\":60}", |answer| assert!(answer.is_empty())).await
}

async fn claims(scene: &Scene, queue: &str, count: usize) -> Round {
    let claim = path(queue, &format!("/claims?limit={CLAIMED_AT_ONCE}"));
    let is_full = |answer: &[u8]| assert!(answer.len() > CLAIMED_AT_ONCE * BODY_BYTES, "{} bytes", answer.len());
    requests(scene, count, &claim, "{\"ttl\":300,\"grace\":60}", is_full).await
}

async fn posts(scene: &Scene, queue: &str, count: usize, messages: usize) -> Round {
    let messages = vec![json!({ "ttl": 3600, "body": "x".repeat(BODY_BYTES) }); messages];
    let post = json!({ "messages": messages }).to_string();
    requests(scene, count, &path(queue, "/messages"), &post, |answer| assert!(!answer.is_empty())).await
}

/// So many requests over all connections, each of which is another client's.
async fn requests(
    scene: &Scene,
    count: usize,
    path: &str,
    body: &str,
    check: impl Fn(&[u8]) + Copy + Send + 'static,
) -> Round {
    let mut connections = Vec::new();
    for client in 0..CONNECTIONS {
        connections.push(scene.connect(100 + client).await);
    }
    let (service_s, store_s, start) = (scene.service_cpu_s(), scene.store_cpu_s(), Instant::now());
    let mut senders = JoinSet::new();
    for mut connection in connections {
        let (path, body) = (path.to_owned(), body.to_owned());
        senders.spawn(async move {
            for _ in 0..count.div_ceil(CONNECTIONS) {
                let answer = connection.request("POST", &path, &body).await;
                check(&answer);
            }
        });
    }
    senders.join_all().await;
    let sent = (count.div_ceil(CONNECTIONS) * CONNECTIONS) as f64;
    Round {
        per_s: sent / start.elapsed().as_secs_f64(),
        service_us: (scene.service_cpu_s() - service_s) * 1e6 / sent,
        store_us: (scene.store_cpu_s() - store_s) * 1e6 / sent,
    }
}

fn us(rounds: &[Round]) -> f64 {
    median(rounds.iter().map(Round::us).collect())
}

fn medians(rounds: &[Round]) -> Round {
    let middle = |of: fn(&Round) -> f64| median(rounds.iter().map(of).collect());
    Round {
        per_s: middle(|round| round.per_s),
        service_us: middle(|round| round.service_us),
        store_us: middle(|round| round.store_us),
    }
}
