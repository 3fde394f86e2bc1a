//! Measures overload: goodput, latency and refused requests of one process over Redis, with 64 to
//! 10,000 connections in a closed loop, and the effect of a flood on another project.
//!
//! `cargo bench --bench overload -- --write` writes `docs/overload.md` and `docs/overload.svg`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark prints for a person, and its numbers are below 2^53"
)]

mod flood;
mod plot;
#[path = "../prose.rs"]
mod prose;
#[allow(dead_code, reason = "uses a part of the support code of the tests")]
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
/// Number of messages in each queue that is listed.
const LISTED: usize = 100;
const BODY_BYTES: usize = 250;
/// Maximum number of messages that are claimed per second and queue.
const CLAIMED_PER_S: usize = 3_000;
const POSTED_AT_ONCE: usize = 500;

#[derive(Parser)]
struct Options {
    /// Write docs/overload.md and docs/overload.svg
    #[arg(long)]
    write: bool,
    /// Duration of each load, in seconds
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Added by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

/// A load and its outcome.
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
        fs::write(DOCUMENT, prose::wrap(&text)).unwrap();
        fs::write(PLOT, plot::of(&measures).into_string()).unwrap();
    }
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
            let response = api.post(&format!("/v2/queues/{kind}-{queue}/messages"), &json!({ "messages": messages }));
            assert_eq!(response.send().await.unwrap().status(), 201);
        }
    }
}

fn document(measures: &[Measure]) -> String {
    let mut text = "# Overload\n\nWritten by `cargo bench --bench overload -- --write`. One process of Sukkal runs over one \
                    Redis, and the load generator (wrk, one thread, a closed loop without pauses) shares the cores with both. \
                    Goodput counts the requests that succeeded. Refused requests were answered with `503`.\n\n![Goodput against \
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
