//! Measures how long other tenants wait when one tenant floods a shared queue, in a plain queue and
//! in a fair queue.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::deployment::{Deployment, path};
use crate::client::Connection;
use crate::report::Report;
use crate::statistics::percentile;

const SHARDS: u16 = 64;
const LIGHT_TENANTS: usize = 63;
const WORKERS: usize = 8;
const POSTED_AT_ONCE: usize = 100;
const QUEUE: &str = "flood";
/// Number of messages that workers claim to measure how evenly shards are served.
const SERVED: usize = 4_000;

/// The delays of the light tenants in one run.
pub(crate) struct Flood {
    pub(crate) store: &'static str,
    pub(crate) is_fair: bool,
    /// The time from each post to its claim, in milliseconds, in ascending order.
    pub(crate) delays_ms: Vec<f64>,
}

/// Measures all stores.
pub(crate) async fn measure(report: &mut Report, deployments: &[Deployment], backlog: usize) -> Vec<Flood> {
    write!(
        report,
        "\n### A flood\n\nOne tenant has {backlog} messages in the queue. Then {LIGHT_TENANTS} light tenants post one message each. The queue has {SHARDS} \
         shards, 4 per tenant. {WORKERS} workers claim one message at a time. The figures are the time from the post of a light tenant's message \
         to its claim (pick-up delay).\n\n![pick-up delay](fairness.svg)\n\n\
         | store | queue | p50, ms | longest, ms |\n|---|---|---|---|\n"
    )
    .unwrap();
    let mut floods = Vec::new();
    for deployment in deployments {
        for is_fair in [false, true] {
            prepare(deployment, is_fair, backlog).await;
            let mut delays_ms = delays(deployment, post_light(deployment).await).await;
            let kind = if is_fair { "fair" } else { "plain" };
            let [middle, longest] = [50, 100].map(|percent| percentile(&mut delays_ms, percent));
            writeln!(report, "| {} | {kind} | {middle:.1} | {longest:.1} |", deployment.name()).unwrap();
            floods.push(Flood { store: deployment.name(), is_fair, delays_ms });
        }
    }
    turns(report, deployments, backlog).await;
    evenness(report, deployments, backlog).await;
    floods
}

/// Counts the messages that one worker claims before each message of a light tenant.
async fn turns(report: &mut Report, deployments: &[Deployment], backlog: usize) {
    write!(
        report,
        "\nThe same, counted in messages, with one worker: how many messages were claimed before a light one. {LIGHT_TENANTS} tenants with \
         randomly assigned shards cannot all have a shard of their own next to the four of the flood. Some messages are therefore \
         second in their shard, and are claimed in the second round.\n\n| store | busy shards | deepest light shard | others before a light one, most | bound |\n|---|---|---|---|---|\n"
    )
    .unwrap();
    for deployment in deployments {
        prepare(deployment, true, backlog).await;
        post_light(deployment).await;
        let stats = deployment.stats(QUEUE).await;
        let lengths: Vec<u64> = available(&stats).into_values().collect();
        let busy = lengths.len();
        let deepest = lengths.iter().copied().filter(|length| *length < backlog as u64 / 8).max().unwrap();
        let deepest = usize::try_from(deepest).unwrap();
        let (mut connection, mut others, mut light) = (deployment.connect(1).await, 0, 0);
        while light < LIGHT_TENANTS {
            light += usize::from(claim_one(&mut connection).await.is_some_and(|tenant| tenant != 0));
            others += 1;
        }
        let most = others - 1;
        let bound = busy * deepest;
        assert!(most <= bound, "{most} others came before a light message, {busy} shards were busy");
        writeln!(report, "| {} | {busy} | {deepest} | {most} | {bound} |", deployment.name()).unwrap();
    }
}

/// Measures how evenly shards with backlogs of different sizes are served.
async fn evenness(report: &mut Report, deployments: &[Deployment], backlog: usize) {
    write!(
        report,
        "\nTenants have backlogs from {} down to {} messages, each half of the previous one, and {WORKERS} workers claim {SERVED} messages. The \
         figures are the numbers of messages from each shard that was never empty.\n\n\
         | store | busy shards | least | most | Jain's index |\n|---|---|---|---|---|\n",
        backlog / 2,
        backlog / 64
    )
    .unwrap();
    for deployment in deployments {
        deployment.create(QUEUE, SHARDS).await;
        for tenant in 0..6_u32 {
            let share = backlog >> (tenant + 1);
            post(deployment, tenant as usize, share).await;
        }
        let before = available(&deployment.stats(QUEUE).await);
        let served = SERVED.min(backlog / 4);
        claim_many(deployment, served).await;
        let after = available(&deployment.stats(QUEUE).await);
        let given: Vec<f64> = after.iter().map(|(shard, left)| (before[shard] - left) as f64).collect();
        let (least, most) = (given.iter().copied().fold(f64::MAX, f64::min), given.iter().copied().fold(0.0, f64::max));
        let jain = jain(&given);
        assert!(jain >= 0.99, "Jain's index is {jain}");
        writeln!(report, "| {} | {} | {least} | {most} | {jain:.5} |", deployment.name(), given.len()).unwrap();
    }
}

/// Jain's fairness index: 1 if all figures are equal, and less if they differ.
fn jain(figures: &[f64]) -> f64 {
    let (sum, squares) = figures.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    sum * sum / (figures.len() as f64 * squares)
}

/// Creates a queue that contains the flood.
async fn prepare(deployment: &Deployment, is_fair: bool, backlog: usize) {
    deployment.create(QUEUE, if is_fair { SHARDS } else { 1 }).await;
    post(deployment, 0, backlog).await;
}

async fn post(deployment: &Deployment, tenant: usize, count: usize) {
    let name = format!("tenant {tenant}");
    let messages = vec![json!({ "ttl": 3600, "body": tenant, "tenant": name }); POSTED_AT_ONCE.min(count)];
    let body = json!({ "messages": messages }).to_string();
    let mut posters = JoinSet::new();
    for _ in 0..WORKERS {
        let (mut connection, body) = (deployment.connect(1).await, body.clone());
        posters.spawn(async move {
            for _ in 0..count.div_ceil(POSTED_AT_ONCE * WORKERS) {
                connection.request("POST", &path(QUEUE, "/messages"), &body).await;
            }
        });
    }
    posters.join_all().await;
}

/// Posts one message for each light tenant. Returns the moments at which they were stored.
async fn post_light(deployment: &Deployment) -> Vec<Instant> {
    let mut connection = deployment.connect(1).await;
    let mut posted = Vec::new();
    for tenant in 1..=LIGHT_TENANTS {
        let message = json!({ "ttl": 3600, "body": tenant, "tenant": format!("tenant {tenant}") });
        let body = json!({ "messages": [message] }).to_string();
        connection.request("POST", &path(QUEUE, "/messages"), &body).await;
        posted.push(Instant::now());
    }
    posted
}

/// Claims messages until all messages of light tenants are claimed. Returns how long each waited,
/// in milliseconds.
async fn delays(deployment: &Deployment, posted: Vec<Instant>) -> Vec<f64> {
    let taken = Arc::new(Mutex::new(Vec::new()));
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let (mut connection, taken, posted) = (deployment.connect(1).await, taken.clone(), posted.clone());
        workers.spawn(async move {
            while taken.lock().unwrap().len() < LIGHT_TENANTS {
                if let Some(light) = claim_one(&mut connection).await.filter(|tenant| *tenant > 0) {
                    taken.lock().unwrap().push(posted[light - 1].elapsed().as_secs_f64() * 1e3);
                }
            }
        });
    }
    workers.join_all().await;
    std::mem::take(&mut *taken.lock().unwrap())
}

async fn claim_many(deployment: &Deployment, count: usize) {
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let mut connection = deployment.connect(1).await;
        workers.spawn(async move {
            for _ in 0..count / WORKERS {
                claim_one(&mut connection).await;
            }
        });
    }
    workers.join_all().await;
}

/// Claims a message and returns its tenant.
async fn claim_one(connection: &mut Connection) -> Option<usize> {
    let claim = connection.request("POST", &path(QUEUE, "/claims?limit=1"), "{\"ttl\":300,\"grace\":60}").await;
    let claim: Value = serde_json::from_slice(&claim).ok()?;
    usize::try_from(claim["messages"][0]["body"].as_u64()?).ok()
}

/// Number of available messages of each shard that has any.
fn available(stats: &Value) -> HashMap<u64, u64> {
    let shards = stats["shards"].as_array().unwrap().iter();
    let row = |shard: &Value| (shard["shard"].as_u64().unwrap(), shard["available"].as_u64().unwrap());
    shards.map(row).filter(|(_, available)| *available > 0).collect()
}
