//! Measures overload: goodput, latency and refused requests of one process over Redis, with 64 to
//! 10,000 connections in a closed loop, and the effect of a flood on another project. `--write`
//! writes a section of `docs/behavior-under-load.md`, and `docs/overload.svg`.

mod plot;

use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::client::{PROJECT, send, single_requests};
use crate::report::Report;
use crate::statistics::percentile;
use crate::wrk::{Load, Outcome};
use support::redis::RedisServer;
use support::sukkal::{Api, Sukkal};

const KINDS: [&str; 3] = ["post", "list", "claim"];
const CONNECTIONS: [u32; 5] = [64, 256, 1_000, 3_000, 10_000];
const QUEUES: usize = 4;
/// Number of messages in each queue that is listed.
const LISTED: usize = 100;
const BODY_BYTES: usize = 250;
/// Maximum number of messages that are claimed per second and queue.
const CLAIMED_PER_S: usize = 3_000;
const POSTED_AT_ONCE: usize = 500;
/// Number of connections of the project that floods the service while another is measured.
const FLOODING: u32 = 1_000;
/// How long the flood lasts before the other project is measured, and after it.
const MARGIN: Duration = Duration::from_secs(1);

#[derive(Args)]
pub(crate) struct Options {
    /// Write to docs/behavior-under-load.md, and docs/overload.svg
    #[arg(long)]
    write: bool,
    /// Duration of each load, in seconds
    #[arg(long, default_value_t = 10)]
    seconds: u32,
}

/// A load and its outcome.
struct Measure {
    kind: &'static str,
    connections: u32,
    outcome: Outcome,
}

pub(crate) async fn run(options: &Options, report: &mut Report) {
    let is_short = report.is_short;
    let seconds = if is_short { 1 } else { options.seconds };
    let connections = &CONNECTIONS[..if is_short { 1 } else { CONNECTIONS.len() }];
    write!(
        report,
        "One process of Sukkal runs over one Redis. The load generator is wrk, with one thread, in a closed loop \
         without pauses. Goodput counts the requests that succeeded. Refused requests were answered with `503`.\n\n![Goodput against \
         connections](overload.svg)\n\n\
         | request | connections | goodput, requests/s | of the best before | p50 ms | p99 ms | longest ms | refused |\n\
         |---|---|---|---|---|---|---|---|\n"
    )
    .unwrap();
    let mut measures = Vec::new();
    for kind in KINDS {
        for &connections in connections {
            let (_redis, sukkal) = start();
            prepare(&sukkal.project(PROJECT), kind, seconds).await;
            let outcome = flood(&sukkal, kind, connections, seconds).await;
            assert!(!is_short || outcome.goodput() > 0.0, "no {kind} succeeds");
            write_row(report, &measures, kind, connections, &outcome);
            measures.push(Measure { kind, connections, outcome });
        }
    }
    if !is_short {
        cost_for_others(report, seconds).await;
    }
    if options.write || report.is_short {
        report.write("behavior-under-load.md", "overload");
        report.write_plot("overload.svg", plot::of(&measures));
    }
}

fn start() -> (RedisServer, Sukkal) {
    let redis = RedisServer::start();
    let sukkal = Sukkal::start_with(&redis.url(), &[("SUKKAL_LOG__FILTER", "warn,sukkal::app=info")]);
    (redis, sukkal)
}

async fn flood(sukkal: &Sukkal, kind: &str, connections: u32, seconds: u32) -> Outcome {
    let load = Load { script: "overload", arguments: vec![kind.to_owned()], connections, seconds };
    let url = sukkal.url("");
    let outcome = spawn_blocking(move || load.send_to(&url)).await.unwrap();
    assert!(outcome.broken == 0.0, "connections failed: {outcome:?}");
    outcome
}

/// Measures single requests of a project, without and with a flood of requests from another
/// project.
async fn cost_for_others(report: &mut Report, seconds: u32) {
    let (_redis, sukkal) = start();
    let (busy, quiet) = (sukkal.project(PROJECT), sukkal.project("quiet"));
    prepare(&busy, "list", seconds).await;
    prepare(&quiet, "list", seconds).await;
    let span = Duration::from_secs(seconds.into());
    let latencies_ms = async || single_requests(&quiet, "/v2/queues/list-0/messages?limit=10&echo=true", span).await;

    let alone = latencies_ms().await;
    let beside = async {
        sleep(MARGIN).await;
        latencies_ms().await
    };
    let (flooded, beside) = tokio::join!(flood(&sukkal, "list", FLOODING, seconds + 2), beside);

    write!(
        report,
        "\nOne project sends single requests: a list of 10 messages after each pause of 5 ms. The table has their latency, \
         alone and while another project sends lists over {FLOODING} connections without pauses ({:.0} requests/s):\n\n\
         | | p50 ms | p99 ms | longest ms |\n|---|---|---|---|\n| alone | {} |\n| beside the flood | {} |\n",
        flooded.goodput(),
        row(alone),
        row(beside)
    )
    .unwrap();
}

fn row(mut latencies_ms: Vec<f64>) -> String {
    [50, 99, 100].map(|percent| format!("{:.1}", percentile(&mut latencies_ms, percent))).join(" | ")
}

/// Posts the messages that are listed or claimed.
async fn prepare(api: &Api, kind: &str, seconds: u32) {
    let count = match kind {
        "list" => LISTED,
        "claim" => CLAIMED_PER_S * seconds as usize,
        _ => 0,
    };
    let message: Value = json!({ "ttl": 3600, "body": "x".repeat(BODY_BYTES) });
    for queue in 0..QUEUES {
        for begin in (0..count).step_by(POSTED_AT_ONCE) {
            let messages = vec![message.clone(); POSTED_AT_ONCE.min(count - begin)];
            let path = format!("/v2/queues/{kind}-{queue}/messages");
            send(api.post(&path, &json!({ "messages": messages })), 201).await;
        }
    }
}

/// Writes a row, which compares the goodput with the best of the same kind so far.
fn write_row(report: &mut Report, before: &[Measure], kind: &str, connections: u32, outcome: &Outcome) {
    let goodput = outcome.goodput();
    let of_kind = before.iter().filter(|measure| measure.kind == kind);
    let best = of_kind.map(|measure| measure.outcome.goodput()).reduce(f64::max);
    writeln!(
        report,
        "| {kind} | {connections} | {goodput:.0} | {} | {:.0} | {:.0} | {:.0} | {:.1} % |",
        best.map_or_else(String::new, |best| format!("{:.2}", goodput / best)),
        outcome.p50_ms,
        outcome.p99_ms,
        outcome.max_ms,
        100.0 * outcome.refused / outcome.requests
    )
    .unwrap();
}
