//! What happens under overload: goodput, latency and refusals of one process over Redis, from 64 to 10,000 connections in a
//! closed loop, and what a flood of one project costs another. `cargo bench --bench overload`; `-- --write` writes
//! `docs/overload.md` and `docs/overload.svg`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark speaks to a person at a desk, and counts below 2^53"
)]

mod flood;
mod plot;
#[allow(dead_code, reason = "the tests' stage, of which this uses a part")]
#[path = "../../tests/support/mod.rs"]
mod support;

use std::fmt::Write as _;
use std::fs;

use clap::Parser;
use serde_json::{Value, json};

use self::flood::{Flood, Outcome};
use self::support::redis::RedisServer;
use self::support::sukkal::{Api, Sukkal};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/overload.md");
const PLOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/overload.svg");
const KINDS: [&str; 3] = ["post", "list", "claim"];
const CONNECTIONS: [u32; 5] = [64, 256, 1_000, 3_000, 10_000];
const QUEUES: usize = 4;
/// Messages in each queue that is listed.
const LISTED: usize = 100;
const BODY_BYTES: usize = 250;
/// Messages claimed per second and queue at most.
const CLAIMED_PER_S: usize = 3_000;
const POSTED_AT_ONCE: usize = 500;

#[derive(Parser)]
struct Options {
    /// Write docs/overload.md and docs/overload.svg
    #[arg(long)]
    write: bool,
    /// How long each load lasts, in seconds
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// What cargo adds
    #[arg(long, hide = true)]
    bench: bool,
}

/// One load, and what came of it.
struct Measure {
    kind: &'static str,
    connections: u32,
    outcome: Outcome,
}

#[tokio::main]
async fn main() {
    let options = Options::parse();
    let mut measures = Vec::new();
    for kind in KINDS {
        for connections in CONNECTIONS {
            let redis = RedisServer::start();
            let sukkal = Sukkal::start_with(&redis.url(), &[("SUKKAL_LOG__FILTER", "warn,sukkal::app=info")]);
            prepare(&sukkal.project("overload"), kind, options.seconds).await;
            let outcome = Flood { kind, connections, seconds: options.seconds }.send_to(&sukkal.url("")).await;
            println!("{kind} {connections}: {outcome:?}");
            measures.push(Measure { kind, connections, outcome });
        }
    }
    let mut text = document(&measures);
    flood::cost_for_others(&mut text, options.seconds).await;
    println!("{text}");
    if options.write {
        fs::write(DOCUMENT, &text).unwrap();
        fs::write(PLOT, plot::of(&measures).into_string()).unwrap();
    }
}

/// Posts what is to be listed or claimed.
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
            let response = api.post(&format!("/v2/queues/{kind}-{queue}/messages"), &json!({ "messages": messages }));
            assert_eq!(response.send().await.unwrap().status(), 201);
        }
    }
}

fn document(measures: &[Measure]) -> String {
    let mut text = "# Overload\n\nWritten by `cargo bench --bench overload -- --write`. One process of Sukkal over one Redis; the \
                    load generator (wrk, one thread, a closed loop without pauses) shares the machine's cores with both. \
                    Goodput counts the requests that were served. Refused requests got a `503`.\n\n![Goodput against \
                    connections](overload.svg)\n\n\
                    | request | connections | goodput, requests/s | of the best before | p50 ms | p99 ms | longest ms | refused |\n\
                    |---|---|---|---|---|---|---|---|\n"
        .to_owned();
    let mut best = (KINDS[0], f64::NAN);
    for Measure { kind, connections, outcome } in measures {
        let goodput = outcome.goodput();
        let share = if best.0 == *kind { goodput / best.1 } else { f64::NAN };
        let share = if share.is_nan() { String::new() } else { format!("{share:.2}") };
        best = (kind, if best.0 == *kind { goodput.max(best.1) } else { goodput });
        writeln!(
            text,
            "| {kind} | {connections} | {goodput:.0} | {share} | {:.0} | {:.0} | {:.0} | {:.1} % |",
            outcome.p50_ms,
            outcome.p99_ms,
            outcome.max_ms,
            100.0 * outcome.refused / outcome.requests
        )
        .unwrap();
    }
    text
}
