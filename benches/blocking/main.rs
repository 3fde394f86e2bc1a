//! How long the worst requests stop everybody else: `cargo bench --bench blocking`; `-- --write` writes
//! `docs/blocking.md`. `tests/blocking` counts what the same requests make Redis do.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a benchmark speaks to a person at a desk")]

#[path = "../../tests/blocking/cases.rs"]
mod cases;
mod prober;
mod requests;
#[path = "../../tests/blocking/stage.rs"]
mod stage;
#[allow(dead_code, reason = "the tests' stage, of which this uses a part")]
#[path = "../../tests/support/mod.rs"]
mod support;

use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use clap::Parser;
use tokio::time::{Instant, sleep};

use self::prober::Prober;
use self::requests::{REQUESTS, Request};
use self::stage::Stage;
use self::support::redis::{RedisServer, Reply, poll_until};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/blocking.md");
/// The goals.
const SCRIPT_MAX_MS: f64 = 10.0;
const STALL_MAX_MS: f64 = 50.0;
/// Commands that take less are not looked at.
const SLOW_US: &str = "100";
/// How long the prober goes on behind a request, for what the store still does then.
const AFTER: Duration = Duration::from_millis(500);

#[derive(Parser)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent flags")]
struct Options {
    /// Write docs/blocking.md
    #[arg(long)]
    write: bool,
    /// Smaller queues, once
    #[arg(long)]
    quick: bool,
    /// Only these requests
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// How many rounds
    #[arg(long)]
    rounds: Option<usize>,
    /// Without the embedded store
    #[arg(long)]
    redis_only: bool,
    /// What cargo adds
    #[arg(long, hide = true)]
    bench: bool,
}

/// What one request did to the others.
struct Outcome {
    /// The longest command of Redis, most often a script.
    longest_ms: Option<f64>,
    /// Median of the prober's latency before the request.
    idle_ms: f64,
    /// Longest latency of the prober while the request was carried out.
    stall_ms: f64,
    took_ms: f64,
    has_failed: bool,
}

#[tokio::main]
async fn main() {
    let options = Options::parse();
    let rounds = options.rounds.unwrap_or(if options.quick { 1 } else { 3 });
    let mut text = format!(
        "# How long one request stops the others\n\nWritten by `cargo bench --bench blocking -- --write`; clients, server and store share \
         the machine's cores. Each request is sent to a server that has just one other user: a prober of another project, which posts a tiny \
         message and reads one, over and over. *Longest step* is the longest single command in Redis' SLOWLOG, most often a script. *Longest stall* is \
         the prober's longest response time meanwhile, *prober idle* its median before. Figures are medians of the rounds, here {rounds}. Goals: \
         step ≤ {SCRIPT_MAX_MS} ms, stall ≤ {STALL_MAX_MS} ms; figures above them are bold.\n\n\
         | request | store | longest step, ms | prober idle, ms | longest stall, ms | the request took, ms |\n|---|---|---|---|---|---|\n"
    );
    for request in
        REQUESTS.iter().filter(|one| options.only.is_empty() || options.only.iter().any(|name| name == one.name))
    {
        for is_embedded in [false, true] {
            if is_embedded && options.redis_only {
                continue;
            }
            let mut outcomes = Vec::new();
            for _ in 0..rounds {
                let stage = if is_embedded { Stage::embedded() } else { Stage::over_redis() };
                outcomes.push(measure(&stage, request, options.quick).await);
            }
            let row = row(request, is_embedded, &outcomes);
            println!("{row}");
            writeln!(text, "{row}").unwrap();
        }
    }
    println!("\n{text}");
    if options.write {
        fs::write(DOCUMENT, text).unwrap();
    }
}

async fn measure(stage: &Stage, request: &Request, quick: bool) -> Outcome {
    let action = (request.prepare)(stage, quick).await;
    if let Some(redis) = &stage.redis {
        redis.command(&["CONFIG", "SET", "slowlog-log-slower-than", SLOW_US]);
        redis.command(&["CONFIG", "SET", "slowlog-max-len", "10000"]);
        redis.command(&["SLOWLOG", "RESET"]);
    }
    let prober = Prober::start(stage.sukkal.url(""));
    sleep(Duration::from_secs(1)).await;
    let idle_ms = prober.median_ms();
    prober.forget();
    let start = Instant::now();
    let has_failed = tokio::spawn(action).await.is_err();
    let took_ms = start.elapsed().as_secs_f64() * 1e3;
    sleep(AFTER).await;
    let stall_ms = prober.stop();
    Outcome { longest_ms: stage.redis.as_ref().map(longest_ms), idle_ms, stall_ms, took_ms, has_failed }
}

/// The longest command since the log was reset, in ms.
fn longest_ms(redis: &RedisServer) -> f64 {
    poll_until("Redis answers again", || redis.try_command(&["PING"]).is_ok());
    let log = redis.command(&["SLOWLOG", "GET", "-1"]);
    let took_us = |entry: &Reply| u32::try_from(entry.items()[2].as_int()).unwrap();
    f64::from(log.items().iter().map(took_us).max().unwrap_or_default()) / 1e3
}

fn row(request: &Request, is_embedded: bool, outcomes: &[Outcome]) -> String {
    let middle = |figure: &dyn Fn(&Outcome) -> f64| {
        let mut figures: Vec<f64> = outcomes.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures[figures.len() / 2]
    };
    let judged = |figure: f64, goal: f64| {
        if figure > goal { format!("**{figure:.1}**") } else { format!("{figure:.1}") }
    };
    let step =
        if is_embedded { "–".to_owned() } else { judged(middle(&|one| one.longest_ms.unwrap()), SCRIPT_MAX_MS) };
    let failed = if outcomes.iter().any(|one| one.has_failed) { ", **failed**" } else { "" };
    format!(
        "| {} (`{}`) | {} | {step} | {:.1} | {} | {:.0}{failed} |",
        request.what,
        request.name,
        if is_embedded { "embedded" } else { "Redis" },
        middle(&|one| one.idle_ms),
        judged(middle(&|one| one.stall_ms), STALL_MAX_MS),
        middle(&|one| one.took_ms),
    )
}
