//! Measures how long the most expensive requests delay the requests of other clients. `--write`
//! writes a section of `docs/behavior-under-load.md`. `tests/blocking` counts the work that the
//! same requests cause in Redis.

#[path = "../../tests/blocking/cases.rs"]
mod cases;
mod prober;
mod requests;
#[path = "../../tests/blocking/stage.rs"]
mod stage;

use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;
use tokio::time::{Instant, sleep};

use self::prober::Prober;
use self::requests::{REQUESTS, Request};
use self::stage::Stage;
use crate::report::Report;
use crate::statistics::median;
use crate::{DocumentOptions, Length};
use support::redis::{RedisServer, Reply};
use support::waiting::block_until;

/// The goal for the longest command of Redis, in milliseconds.
const SCRIPT_MAX_MS: f64 = 10.0;
/// The goal for the longest response time of the prober, in milliseconds.
const STALL_MAX_MS: f64 = 50.0;
/// Minimum duration of a logged command, in microseconds.
const SLOW_US: &str = "100";
/// The requests of a short run.
const SHORT: [&str; 2] = ["post-many", "redrive"];

#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    document: DocumentOptions,
    /// Only these requests
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Number of rounds
    #[arg(long)]
    rounds: Option<usize>,
    /// Without the embedded store
    #[arg(long)]
    redis_only: bool,
}

/// The effect of one request on the others.
struct Outcome {
    /// Duration of the longest command of Redis, most often a script.
    longest_ms: Option<f64>,
    /// Median latency of the prober before the request.
    idle_ms: f64,
    /// Maximum latency of the prober during the request.
    stall_ms: f64,
    took_ms: f64,
    has_failed: bool,
}

pub(crate) async fn run(options: &Options, report: &mut Report) {
    let length = options.document.length(report);
    let rounds = options.rounds.unwrap_or(length.choose(3, 1, 1));
    write!(
        report,
        "Each request is sent to a server with only one other client: a prober in another project, which alternately \
         posts a tiny message and reads one. *Longest step* is the longest single command in the SLOWLOG of Redis, most often a script. *Longest \
         stall* is the maximum response time of the prober during the request, and *prober idle* is its median before the request. Figures are \
         medians of the rounds, here {rounds}. The goals are a step of at most {SCRIPT_MAX_MS} ms and a stall of at most {STALL_MAX_MS} ms; figures \
         above a goal are bold.\n\n\
         | request | store | longest step, ms | prober idle, ms | longest stall, ms | the request took, ms |\n|---|---|---|---|---|---|\n"
    )
    .unwrap();
    let is_chosen = |request: &&Request| match length {
        Length::Short => SHORT.contains(&request.name),
        _ => options.only.is_empty() || options.only.iter().any(|name| name == request.name),
    };
    for request in REQUESTS.iter().filter(is_chosen) {
        for is_embedded in [false, true] {
            if is_embedded && (options.redis_only || length == Length::Short) {
                continue;
            }
            let mut outcomes = Vec::new();
            for _ in 0..rounds {
                let stage = if is_embedded { Stage::embedded() } else { Stage::over_redis() };
                outcomes.push(measure(&stage, request, length).await);
            }
            assert!(length != Length::Short || !outcomes[0].has_failed, "{} fails", request.name);
            writeln!(report, "{}", row(request, is_embedded, &outcomes)).unwrap();
        }
    }
    if options.document.write || report.is_short {
        report.write("behavior-under-load.md", "blocking");
    }
}

async fn measure(stage: &Stage, request: &Request, length: Length) -> Outcome {
    // The prober begins before the request, and continues after it, because the store may still be
    // busy.
    let [before, after] = length.choose([1_000, 500], [1_000, 500], [100, 100]).map(Duration::from_millis);
    let action = (request.prepare)(stage, length).await;
    if let Some(redis) = &stage.redis {
        redis.command(&["CONFIG", "SET", "slowlog-log-slower-than", SLOW_US]);
        redis.command(&["CONFIG", "SET", "slowlog-max-len", "10000"]);
        redis.command(&["SLOWLOG", "RESET"]);
    }
    let prober = Prober::start(stage.sukkal.url(""));
    sleep(before).await;
    let idle_ms = prober.median_ms();
    prober.clear();
    let start = Instant::now();
    let has_failed = tokio::spawn(action).await.is_err();
    let took_ms = start.elapsed().as_secs_f64() * 1e3;
    sleep(after).await;
    let stall_ms = prober.stop();
    Outcome { longest_ms: stage.redis.as_ref().map(longest_ms), idle_ms, stall_ms, took_ms, has_failed }
}

/// Duration of the longest command since the log was reset, in milliseconds.
fn longest_ms(redis: &RedisServer) -> f64 {
    block_until("Redis responds again", || redis.try_command(&["PING"]).is_ok());
    let log = redis.command(&["SLOWLOG", "GET", "-1"]);
    let took_us = |entry: &Reply| u32::try_from(entry.items()[2].as_int()).unwrap();
    f64::from(log.items().iter().map(took_us).max().unwrap_or_default()) / 1e3
}

fn row(request: &Request, is_embedded: bool, outcomes: &[Outcome]) -> String {
    let middle = |figure: fn(&Outcome) -> f64| median(outcomes.iter().map(figure).collect());
    let judged = |figure: f64, goal: f64| {
        if figure > goal { format!("**{figure:.1}**") } else { format!("{figure:.1}") }
    };
    let step =
        if is_embedded { "–".to_owned() } else { judged(middle(|one| one.longest_ms.unwrap()), SCRIPT_MAX_MS) };
    let failed = if outcomes.iter().any(|one| one.has_failed) { ", **failed**" } else { "" };
    format!(
        "| {} (`{}`) | {} | {step} | {:.1} | {} | {:.0}{failed} |",
        request.description,
        request.name,
        if is_embedded { "embedded" } else { "Redis" },
        middle(|one| one.idle_ms),
        judged(middle(|one| one.stall_ms), STALL_MAX_MS),
        middle(|one| one.took_ms),
    )
}
