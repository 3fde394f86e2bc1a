//! One tenant floods a queue for all: how long the others wait, in a plain queue and in a fair one.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::scene::{Scene, median, path};

const SHARDS: u16 = 64;
const LIGHT_TENANTS: usize = 63;
const WORKERS: usize = 8;
const POSTED_AT_ONCE: usize = 100;
const QUEUE: &str = "flood";
/// Taken by the workers to see how evenly the shards are served.
const SERVED: usize = 4_000;

/// What happened to the light tenants in one run.
pub(crate) struct Flood {
    pub(crate) store: &'static str,
    pub(crate) is_fair: bool,
    /// How long each waited from its post to its claim, in ms, the shortest first.
    pub(crate) delays_ms: Vec<f64>,
}

/// Runs it over all stores.
pub(crate) async fn measure(text: &mut String, scenes: &[Scene], backlog: usize) -> Vec<Flood> {
    write!(
        text,
        "\n## A flood\n\nOne tenant has {backlog} messages waiting, {LIGHT_TENANTS} others one each, posted behind them; {SHARDS} shards, 4 \
         per tenant. Then {WORKERS} workers claim one message at a time. How long a light tenant's message waits from its post to its claim \
         (pick-up delay).\n\n![pick-up delay](fairness.svg)\n\n\
         | store | queue | p50, ms | longest, ms |\n|---|---|---|---|\n"
    )
    .unwrap();
    let mut floods = Vec::new();
    for scene in scenes {
        for is_fair in [false, true] {
            prepare(scene, is_fair, backlog).await;
            let delays_ms = delays(scene, post_light(scene).await).await;
            let kind = if is_fair { "fair" } else { "plain" };
            let (middle, longest) = (median(delays_ms.clone()), delays_ms[delays_ms.len() - 1]);
            writeln!(text, "| {} | {kind} | {middle:.1} | {longest:.1} |", scene.name).unwrap();
            floods.push(Flood { store: scene.name, is_fair, delays_ms });
        }
    }
    turns(text, scenes, backlog).await;
    evenness(text, scenes, backlog).await;
    floods
}

/// One worker takes one message after the other: how many others come before each light one.
async fn turns(text: &mut String, scenes: &[Scene], backlog: usize) {
    write!(
        text,
        "\nCounted in turns, with one worker: how many messages were handed out before a light one. {LIGHT_TENANTS} tenants that draw at random \
         cannot all have a shard of their own beside the flood's four, so some stand second in theirs, and come with the second \
         round.\n\n| store | busy shards | deepest light shard | others before a light one, most | bound |\n|---|---|---|---|---|\n"
    )
    .unwrap();
    for scene in scenes {
        prepare(scene, true, backlog).await;
        post_light(scene).await;
        let stats = scene.stats(QUEUE).await;
        let lengths: Vec<u64> = available(&stats).into_values().collect();
        let busy = lengths.len();
        let deepest = lengths.iter().copied().filter(|length| *length < backlog as u64 / 8).max().unwrap();
        let deepest = usize::try_from(deepest).unwrap();
        let (mut connection, mut others, mut light) = (scene.connect(1).await, 0, 0);
        while light < LIGHT_TENANTS {
            light += usize::from(claim_one(&mut connection).await.is_some_and(|tenant| tenant != 0));
            others += 1;
        }
        let most = others - 1;
        let bound = busy * deepest;
        assert!(most <= bound, "{most} others came before a light message, {busy} shards were busy");
        writeln!(text, "| {} | {busy} | {deepest} | {most} | {bound} |", scene.name).unwrap();
    }
}

/// How evenly shards with backlogs of all sizes are served.
async fn evenness(text: &mut String, scenes: &[Scene], backlog: usize) {
    write!(
        text,
        "\nTenants with backlogs from {} down to {} messages, each half of the one before; {WORKERS} workers take {SERVED}: how many each \
         shard has given that was busy throughout.\n\n\
         | store | busy shards | least | most | Jain's index |\n|---|---|---|---|---|\n",
        backlog / 2,
        backlog / 64
    )
    .unwrap();
    for scene in scenes {
        scene.create(QUEUE, SHARDS).await;
        for tenant in 0..6_u32 {
            let share = backlog >> (tenant + 1);
            post(scene, tenant as usize, share).await;
        }
        let before = available(&scene.stats(QUEUE).await);
        let served = SERVED.min(backlog / 4);
        claim_many(scene, served).await;
        let after = available(&scene.stats(QUEUE).await);
        let given: Vec<f64> = after.iter().map(|(shard, left)| (before[shard] - left) as f64).collect();
        let (least, most) = (given.iter().copied().fold(f64::MAX, f64::min), given.iter().copied().fold(0.0, f64::max));
        let jain = jain(&given);
        assert!(jain >= 0.99, "Jain's index is {jain}");
        writeln!(text, "| {} | {} | {least} | {most} | {jain:.5} |", scene.name, given.len()).unwrap();
    }
}

/// 1 where all are equal, less the more unequal they are.
fn jain(figures: &[f64]) -> f64 {
    let (sum, squares) = figures.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    sum * sum / (figures.len() as f64 * squares)
}

/// A new queue with the flood in it.
async fn prepare(scene: &Scene, is_fair: bool, backlog: usize) {
    scene.create(QUEUE, if is_fair { SHARDS } else { 1 }).await;
    post(scene, 0, backlog).await;
}

async fn post(scene: &Scene, tenant: usize, count: usize) {
    let name = format!("tenant {tenant}");
    let messages = vec![json!({ "ttl": 3600, "body": tenant, "tenant": name }); POSTED_AT_ONCE.min(count)];
    let body = json!({ "messages": messages }).to_string();
    let mut posters = JoinSet::new();
    for _ in 0..WORKERS {
        let (mut connection, body) = (scene.connect(1).await, body.clone());
        posters.spawn(async move {
            for _ in 0..count.div_ceil(POSTED_AT_ONCE * WORKERS) {
                connection.request("POST", &path(QUEUE, "/messages"), &body).await;
            }
        });
    }
    posters.join_all().await;
}

/// Has each light tenant post one message; when that was stored.
async fn post_light(scene: &Scene) -> Vec<Instant> {
    let mut connection = scene.connect(1).await;
    let mut posted = Vec::new();
    for tenant in 1..=LIGHT_TENANTS {
        let message = json!({ "ttl": 3600, "body": tenant, "tenant": format!("tenant {tenant}") });
        let body = json!({ "messages": [message] }).to_string();
        connection.request("POST", &path(QUEUE, "/messages"), &body).await;
        posted.push(Instant::now());
    }
    posted
}

/// How long each light message waits, in ms, while workers claim all that there is until they have them.
async fn delays(scene: &Scene, posted: Vec<Instant>) -> Vec<f64> {
    let taken = Arc::new(Mutex::new(Vec::new()));
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let (mut connection, taken, posted) = (scene.connect(1).await, taken.clone(), posted.clone());
        workers.spawn(async move {
            while taken.lock().unwrap().len() < LIGHT_TENANTS {
                if let Some(light) = claim_one(&mut connection).await.filter(|tenant| *tenant > 0) {
                    taken.lock().unwrap().push(posted[light - 1].elapsed().as_secs_f64() * 1e3);
                }
            }
        });
    }
    workers.join_all().await;
    let mut delays_ms = std::mem::take(&mut *taken.lock().unwrap());
    delays_ms.sort_by(f64::total_cmp);
    delays_ms
}

async fn claim_many(scene: &Scene, count: usize) {
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let mut connection = scene.connect(1).await;
        workers.spawn(async move {
            for _ in 0..count / WORKERS {
                claim_one(&mut connection).await;
            }
        });
    }
    workers.join_all().await;
}

/// Claims a message, and says whose it is.
async fn claim_one(connection: &mut crate::client::Connection) -> Option<usize> {
    let claim = connection.request("POST", &path(QUEUE, "/claims?limit=1"), "{\"ttl\":300,\"grace\":60}").await;
    let claim: Value = serde_json::from_slice(&claim).ok()?;
    usize::try_from(claim["messages"][0]["body"].as_u64()?).ok()
}

/// How many messages each shard has to give.
fn available(stats: &Value) -> HashMap<u64, u64> {
    let shards = stats["shards"].as_array().unwrap().iter();
    let row = |shard: &Value| (shard["shard"].as_u64().unwrap(), shard["available"].as_u64().unwrap());
    shards.map(row).filter(|(_, available)| *available > 0).collect()
}
