//! Measures the cost of polls, posts, claims and pages of the feed in fair queues, compared with a
//! plain queue.

use std::fmt::Write as _;
use std::time::Instant;

use serde_json::json;
use tokio::task::JoinSet;

use super::deployment::{Deployment, path};
use crate::report::Report;
use crate::statistics::median;

const CONNECTIONS: usize = 16;
const SHARDS: [u16; 4] = [1, 16, 64, 1024];
const POLLS: usize = 6_000;
const POSTS: usize = 6_000;
/// Pairs of a number of claims and the number of messages in each.
const CLAIMS: [(usize, usize); 2] = [(1_600, 10), (3_200, 1)];
const PAGES: usize = 3_200;
const LISTED: usize = 10;
/// Number of messages in a post that is not measured.
const BATCH: usize = 50;
const BODY_BYTES: usize = 1024;

/// How much is measured.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) rounds: usize,
    /// What the numbers of requests and messages are divided by.
    pub(crate) divisor: usize,
}

/// The cost of a round of requests: rate, and microseconds of processor time for each request.
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

/// Measures claims on queues without messages.
pub(crate) async fn of_empty_polls(report: &mut Report, deployments: &[Deployment], effort: Effort) {
    let (rounds, count) = (effort.rounds, POLLS / effort.divisor);
    write!(
        report,
        "\n### Empty polls\n\nClaims on a queue without messages, over {CONNECTIONS} connections. Figures are medians of {rounds} rounds of {count} polls, \
         and µs are processor time for one poll.\n\n\
         | store | shards | polls/s | service, µs | store, µs | beside 1 shard |\n|---|---|---|---|---|---|\n"
    )
    .unwrap();
    let polls = async |deployment: &Deployment, queue: &str| polls(deployment, queue, count).await;
    of_queues(report, deployments, (rounds, "idle", 0), polls).await;
}

/// Measures pages of the feed.
pub(crate) async fn of_pages(report: &mut Report, deployments: &[Deployment], effort: Effort) {
    let (rounds, count, messages) = (effort.rounds, PAGES / effort.divisor, 8_000 / effort.divisor);
    write!(
        report,
        "\n### Pages of the feed\n\nLists of the oldest {LISTED} of {messages} messages of 1 KB, over {CONNECTIONS} connections. Figures are medians of {rounds} rounds of \
         {count} pages, and µs are processor time for one page.\n\n\
         | store | shards | pages/s | service, µs | store, µs | beside 1 shard |\n|---|---|---|---|---|---|\n"
    )
    .unwrap();
    let pages = async |deployment: &Deployment, queue: &str| pages(deployment, queue, count).await;
    of_queues(report, deployments, (rounds, "feed", messages), pages).await;
}

/// Measures queues with different numbers of shards in turn. Each queue is filled with the given
/// number of messages.
async fn of_queues(
    report: &mut Report,
    deployments: &[Deployment],
    (rounds, name, messages): (usize, &str, usize),
    measure: impl AsyncFn(&Deployment, &str) -> Round,
) {
    for deployment in deployments {
        let mut taken = SHARDS.map(|shards| (shards, Vec::new()));
        for shards in SHARDS {
            deployment.create(&format!("{name}-{shards}"), shards).await;
            posts(deployment, &format!("{name}-{shards}"), messages / BATCH, BATCH).await;
        }
        for _ in 0..rounds {
            for (shards, taken) in &mut taken {
                taken.push(measure(deployment, &format!("{name}-{shards}")).await);
            }
        }
        write_rows(report, deployment.name(), "", &taken);
    }
}

/// Measures posts of one message, and claims of these messages, in a plain queue and in a fair
/// queue.
pub(crate) async fn of_posts_and_claims(report: &mut Report, deployments: &[Deployment], effort: Effort) {
    let (rounds, post_count) = (effort.rounds, POSTS / effort.divisor);
    let claim_counts = CLAIMS.map(|(count, limit)| (count / effort.divisor, limit));
    let [(tens, many), (ones, one)] = claim_counts;
    write!(
        report,
        "\n### Posts and claims\n\nPosts of one message of 1 KB by {CONNECTIONS} clients, and claims of {many} and of {one} of these messages over \
         {CONNECTIONS} connections. Figures are medians of {rounds} rounds of {post_count} posts, {tens} claims of {many} and {ones} of {one}. µs are \
         processor time for one request.\n\n\
         | store | what | shards | requests/s | service, µs | store, µs | beside 1 shard |\n|---|---|---|---|---|---|---|\n"
    )
    .unwrap();
    for deployment in deployments {
        let taken = [1, 64].map(|shards| (shards, Vec::new()));
        let (mut posted, mut claimed) = (taken.clone(), claim_counts.map(|(_, limit)| (limit, taken.clone())));
        for _ in 0..rounds {
            for (at, shards) in [1, 64].into_iter().enumerate() {
                deployment.create("busy", shards).await;
                posted[at].1.push(posts(deployment, "busy", post_count, 1).await);
                let wanted: usize = claim_counts.iter().map(|(count, limit)| count * limit).sum();
                posts(deployment, "busy", wanted.saturating_sub(post_count) / BATCH + CONNECTIONS, BATCH).await;
                for ((count, limit), (_, claimed)) in claim_counts.into_iter().zip(&mut claimed) {
                    claimed[at].1.push(claims(deployment, "busy", count, limit).await);
                }
            }
        }
        write_rows(report, deployment.name(), "post | ", &posted);
        for (limit, claimed) in &claimed {
            write_rows(report, deployment.name(), &format!("claim of {limit} | "), claimed);
        }
    }
}

/// Writes a row for each number of shards, with the ratio to the first. Ratios are formed in each
/// round, because the load of the machine changes.
fn write_rows(report: &mut Report, store: &str, what: &str, taken: &[(u16, Vec<Round>)]) {
    let first = &taken[0].1;
    for (shards, rounds) in taken {
        let Round { per_s, service_us, store_us } = medians(rounds);
        let ratio = median(rounds.iter().zip(first).map(|(round, first)| round.us() / first.us()).collect());
        writeln!(report, "| {store} | {what}{shards} | {per_s:.0} | {service_us:.1} | {store_us:.1} | {ratio:.2} |")
            .unwrap();
    }
}

async fn polls(deployment: &Deployment, queue: &str, count: usize) -> Round {
    let claim = path(queue, "/claims?limit=10");
    requests(deployment, count, ("POST", &claim, "{\"ttl\":60,\"grace\":60}"), |answer| assert!(answer.is_empty()))
        .await
}

async fn pages(deployment: &Deployment, queue: &str, count: usize) -> Round {
    let list = path(queue, &format!("/messages?limit={LISTED}&echo=true"));
    requests(deployment, count, ("GET", &list, ""), |answer| assert_messages(answer, LISTED)).await
}

async fn claims(deployment: &Deployment, queue: &str, count: usize, limit: usize) -> Round {
    let claim = path(queue, &format!("/claims?limit={limit}"));
    let answered = move |answer: &[u8]| assert_messages(answer, limit);
    requests(deployment, count, ("POST", &claim, "{\"ttl\":300,\"grace\":60}"), answered).await
}

fn assert_messages(answer: &[u8], count: usize) {
    assert!(answer.len() > count * BODY_BYTES, "{} bytes", answer.len());
}

async fn posts(deployment: &Deployment, queue: &str, count: usize, messages: usize) -> Round {
    let messages = vec![json!({ "ttl": 3600, "body": "x".repeat(BODY_BYTES) }); messages];
    let post = json!({ "messages": messages }).to_string();
    requests(deployment, count, ("POST", &path(queue, "/messages"), &post), |answer| assert!(!answer.is_empty())).await
}

/// Sends the given number of requests over all connections, each with a client id of its own.
async fn requests(
    deployment: &Deployment,
    count: usize,
    (method, path, body): (&'static str, &str, &str),
    check: impl Fn(&[u8]) + Copy + Send + 'static,
) -> Round {
    let mut connections = Vec::new();
    for client in 0..CONNECTIONS {
        connections.push(deployment.connect(100 + client).await);
    }
    let (service_s, store_s, start) = (deployment.service_cpu_s(), deployment.store_cpu_s(), Instant::now());
    let mut senders = JoinSet::new();
    for mut connection in connections {
        let (path, body) = (path.to_owned(), body.to_owned());
        senders.spawn(async move {
            for _ in 0..count.div_ceil(CONNECTIONS) {
                let answer = connection.request(method, &path, &body).await;
                check(&answer);
            }
        });
    }
    senders.join_all().await;
    let sent = (count.div_ceil(CONNECTIONS) * CONNECTIONS) as f64;
    Round {
        per_s: sent / start.elapsed().as_secs_f64(),
        service_us: (deployment.service_cpu_s() - service_s) * 1e6 / sent,
        store_us: (deployment.store_cpu_s() - store_s) * 1e6 / sent,
    }
}

fn medians(rounds: &[Round]) -> Round {
    let middle = |of: fn(&Round) -> f64| median(rounds.iter().map(of).collect());
    Round {
        per_s: middle(|round| round.per_s),
        service_us: middle(|round| round.service_us),
        store_us: middle(|round| round.store_us),
    }
}
