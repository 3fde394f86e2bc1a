//! Measures what a project over its rate costs another one, and by how much a project may exceed
//! the quota of all its messages. `docs/quotas.md` has the figures.

use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::client::{send, single_requests};
use crate::processes;
use crate::report::Report;
use crate::service::process_id;
use crate::statistics::percentile;
use support::redis::RedisServer;
use support::sukkal::{Api, Sukkal};

const MESSAGES: &str = "/v2/queues/q/messages";
const LIST: &str = "/v2/queues/q/messages?limit=10&echo=true";
/// Number of connections of the project that sends too much, and requests per second of each.
const FLOODING: usize = 20;
const RATE_OF_EACH: u32 = 50;
const RATE_MAX: &str = "100";
/// The requests that fill the quota of messages.
const PROCESSES: usize = 3;
const CLIENTS: usize = 16;
const QUEUES: usize = 4;
const BATCH: usize = 10;

#[derive(Args)]
pub(crate) struct Options {
    /// Duration of each load, in seconds
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

pub(crate) async fn run(options: &Options, report: &mut Report) {
    let span = Duration::from_secs(if report.is_short { 1 } else { options.seconds });
    writeln!(
        report,
        "| | p50 ms | p99 ms | Sukkal, % of a core | Redis, % of a core | requests of the other/s | of them refused |\n\
         |---|---|---|---|---|---|---|"
    )
    .unwrap();
    let cases = [
        ("alone", None, 0),
        ("beside a project over its rate", Some(RATE_MAX), FLOODING),
        ("beside the same project without a quota", None, FLOODING),
    ];
    for (name, rate_max, flooding) in &cases[if report.is_short { 1..2 } else { 0..3 }] {
        isolation(report, name, *rate_max, *flooding, span).await;
    }
    overshoot(report, span).await;
}

/// Measures single requests of a project beside another one, which has this rate.
async fn isolation(report: &mut Report, name: &str, rate_max: Option<&str>, flooding: usize, span: Duration) {
    let redis = RedisServer::start();
    let sukkal = Sukkal::start_with(&redis.url(), &[("SUKKAL_ADMIN_MODE", "true")]);
    let (busy, quiet) = (sukkal.project("busy"), sukkal.project("quiet"));
    for api in [&busy, &quiet] {
        send(api.post(MESSAGES, &messages(100)), 201).await;
    }
    if let Some(max) = rate_max {
        let set = sukkal.project("operator").put("/v2/quotas?project_id=busy").header("X-Roles", "admin");
        send(set.body(format!("{{\"requests_per_second\": {max}}}")), 200).await;
    }
    let (is_over, sent, refused) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let flood = join_all((0..flooding).map(async |number| {
        // Without these delays, all connections would send at the same moments.
        let period = Duration::from_secs(1) / RATE_OF_EACH;
        sleep(period * u32::try_from(number).unwrap() / u32::try_from(flooding).unwrap()).await;
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !is_over.load(Ordering::Relaxed) {
            ticks.tick().await;
            let status = busy.get(LIST).send().await.unwrap().status();
            sent.fetch_add(1, Ordering::Relaxed);
            refused.fetch_add(u64::from(status == 503), Ordering::Relaxed);
        }
    }));
    let measure = async {
        sleep(Duration::from_secs(1)).await;
        let (sent_before, refused_before) = (sent.load(Ordering::Relaxed), refused.load(Ordering::Relaxed));
        let (sukkal, redis) = ([sukkal.id()], [process_id(&redis)]);
        let cpu_s = || (processes::cpu_s(&sukkal), processes::cpu_s(&redis));
        let (before, began) = (cpu_s(), Instant::now());
        let mut latencies_ms = single_requests(&quiet, LIST, span).await;
        let (seconds, after) = (began.elapsed().as_secs_f64(), cpu_s());
        is_over.store(true, Ordering::Relaxed);
        let others = (sent.load(Ordering::Relaxed) - sent_before) as f64;
        let refused = (refused.load(Ordering::Relaxed) - refused_before) as f64;
        writeln!(
            report,
            "| {name} | {:.2} | {:.2} | {:.1} | {:.1} | {:.0} | {:.0} % |",
            percentile(&mut latencies_ms, 50),
            percentile(&mut latencies_ms, 99),
            100.0 * (after.0 - before.0) / seconds,
            100.0 * (after.1 - before.1) / seconds,
            others / seconds,
            100.0 * refused / others.max(1.0)
        )
        .unwrap();
        assert!(rate_max.is_none() || refused > 0.0, "a project over its rate is refused");
    };
    tokio::join!(flood, measure);
}

/// Fills a project through several processes at full speed, and counts the messages above its
/// quota.
async fn overshoot(report: &mut Report, span: Duration) {
    let messages_max = if report.is_short { 500 } else { 50_000 };
    // A client stops when it has been refused for this time.
    let refused_max = span.min(Duration::from_secs(5));
    let redis = RedisServer::start();
    let max = messages_max.to_string();
    let servers = [(); PROCESSES].map(|()| Sukkal::start_with(&redis.url(), &[("SUKKAL_QUOTAS__MESSAGES", &*max)]));
    let apis: Vec<Api> = servers.iter().map(|server| server.project("p")).collect();
    let accepted = AtomicU64::new(0);
    let began = Instant::now();
    let reached = Mutex::new((None, began));
    join_all((0..CLIENTS).map(async |number| {
        let path = format!("/v2/queues/q{}/messages", number % QUEUES);
        let body = messages(BATCH);
        let mut full_since = None::<Instant>;
        while full_since.is_none_or(|since| since.elapsed() < refused_max) && began.elapsed() < 10 * span {
            let status = apis[number % PROCESSES].post(&path, &body).send().await.unwrap().status().as_u16();
            if status == 201 {
                let total = accepted.fetch_add(BATCH as u64, Ordering::Relaxed) + BATCH as u64;
                let mut times = reached.lock().unwrap();
                if total > messages_max {
                    times.0.get_or_insert_with(Instant::now);
                }
                times.1 = Instant::now();
                full_since = None;
            } else {
                assert_eq!(status, 403);
                full_since.get_or_insert_with(Instant::now);
            }
        }
    }))
    .await;
    let (reached, last) = reached.into_inner().unwrap();
    let (total, reached) = (accepted.into_inner(), reached.expect("the project has reached its quota"));
    writeln!(
        report,
        "\n{PROCESSES} processes, {CLIENTS} clients, {BATCH} messages in each post: the quota of {messages_max} messages was \
         exceeded by {} messages, {:.1} s after it was reached at {:.0} messages/s",
        total - messages_max,
        (last - reached).as_secs_f64(),
        messages_max as f64 / (reached - began).as_secs_f64()
    )
    .unwrap();
}

fn messages(count: usize) -> Value {
    json!({ "messages": vec![json!({"ttl": 3_600, "body": "x".repeat(250)}); count] })
}
