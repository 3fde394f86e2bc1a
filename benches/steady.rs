//! Measures whether the embedded store stays steady over a long time: file size, memory and p99
//! latency must not grow.
//!
//! Tasks post, claim and delete ten messages at a constant rate, with 100,000 messages in the
//! queue. `cargo bench --bench steady -- --minutes 30 --write` draws `docs/steady.svg`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark prints for a person, and its numbers are below 2^53"
)]

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::Parser;
use maud::{Markup, html};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{interval, sleep_until};

#[allow(dead_code, reason = "uses a part of the module")]
#[path = "versus/processes.rs"]
mod processes;

#[allow(dead_code, reason = "uses a part of the support code of the tests")]
#[path = "../tests/support/mod.rs"]
mod support;

use support::sukkal::{Api, Sukkal};

const ALIVE: usize = 100_000;
const BODY_BYTES: usize = 1_000;
/// Number of messages in a request that fills the queue, and in one that is measured.
const FILLED_AT_ONCE: usize = 20;
const AT_ONCE: usize = 10;
const TASKS: u32 = 16;
/// Cycles of three requests per second, of all tasks together.
const CYCLES_PER_S: u32 = 100;
const WINDOW: Duration = Duration::from_secs(10);
const MEGA: f64 = 1e6;
const PLOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/steady.svg");

#[derive(Parser)]
struct Options {
    #[arg(long, default_value_t = 30)]
    minutes: u32,
    /// Write docs/steady.svg
    #[arg(long)]
    write: bool,
    /// Added by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

/// The figures at the end of a time window.
#[derive(Clone, Copy, Debug)]
struct Sample {
    minutes: f64,
    file_mb: f64,
    memory_mb: f64,
    p99_ms: f64,
    alive: u64,
}

type Latencies = Arc<Mutex<Vec<f64>>>;

#[tokio::main]
async fn main() {
    let options = Options::parse();
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let sukkal = Sukkal::start(&format!("embedded:{}", folder.path().display()));
    let api = sukkal.project("steady");
    fill(&api).await;

    let latencies = Latencies::default();
    for _ in 0..TASKS {
        tokio::spawn(run_cycles(api.clone(), latencies.clone()));
    }
    let mut samples = Vec::new();
    let start = Instant::now();
    let end = start + Duration::from_secs(60 * u64::from(options.minutes));
    while Instant::now() < end {
        let window_end = start + WINDOW * u32::try_from(samples.len() + 1).unwrap();
        sleep_until(window_end.into()).await;
        let taken = std::mem::take(&mut *latencies.lock().unwrap());
        samples.push(Sample {
            minutes: start.elapsed().as_secs_f64() / 60.0,
            file_mb: file_bytes(folder.path()) as f64 / MEGA,
            memory_mb: processes::resident_bytes(&[sukkal.id()]) / MEGA,
            p99_ms: p99(taken),
            alive: alive(&api).await,
        });
    }
    report(&samples);
    if options.write {
        fs::create_dir_all(Path::new(PLOT).parent().unwrap()).unwrap();
        fs::write(PLOT, plot(&samples).into_string()).unwrap();
    }
}

async fn fill(api: &Api) {
    assert_eq!(api.put("/v2/queues/q").send().await.unwrap().status(), 201);
    let document = messages(FILLED_AT_ONCE);
    for _ in 0..ALIVE / FILLED_AT_ONCE {
        assert_eq!(api.post("/v2/queues/q/messages", &document).send().await.unwrap().status(), 201);
    }
}

fn messages(count: usize) -> Value {
    json!({ "messages": vec![json!({ "ttl": 7_200, "body": "x".repeat(BODY_BYTES) }); count] })
}

/// Runs cycles at a constant rate.
async fn run_cycles(api: Api, latencies: Latencies) {
    let posted = messages(AT_ONCE);
    let claim = json!({ "ttl": 300, "grace": 60 });
    let mut cycles = interval(Duration::from_secs(1) * TASKS / CYCLES_PER_S);
    loop {
        cycles.tick().await;
        let post = api.post("/v2/queues/q/messages", &posted);
        let claim = api.post(&format!("/v2/queues/q/claims?limit={AT_ONCE}"), &claim);
        timed(&latencies, post).await;
        let claimed: Value = serde_json::from_slice(&timed(&latencies, claim).await).unwrap();
        let ids: Vec<&str> =
            claimed["messages"].as_array().unwrap().iter().filter_map(|one| one["id"].as_str()).collect();
        timed(&latencies, api.delete(&format!("/v2/queues/q/messages?ids={}", ids.join(",")))).await;
    }
}

async fn timed(latencies: &Latencies, request: reqwest::RequestBuilder) -> Vec<u8> {
    let start = Instant::now();
    let reply = request.send().await.unwrap();
    assert!(reply.status().is_success(), "{}", reply.status());
    let body = reply.bytes().await.unwrap();
    latencies.lock().unwrap().push(start.elapsed().as_secs_f64() * 1000.0);
    body.to_vec()
}

async fn alive(api: &Api) -> u64 {
    let stats: Value = api.get("/v2/queues/q/stats").send().await.unwrap().json().await.unwrap();
    stats["messages"]["total"].as_u64().unwrap()
}

fn p99(mut latencies_ms: Vec<f64>) -> f64 {
    latencies_ms.sort_by(f64::total_cmp);
    latencies_ms.get(latencies_ms.len() * 99 / 100).copied().unwrap_or_default()
}

fn file_bytes(folder: &Path) -> u64 {
    fs::read_dir(folder).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum()
}

type Figure = fn(&Sample) -> f64;

/// The plots, each with a title and a figure.
const PANELS: [(&str, Figure); 3] = [
    ("file, MB", |sample| sample.file_mb),
    ("memory, MB", |sample| sample.memory_mb),
    ("p99 of a request, ms", |sample| sample.p99_ms),
];

/// Prints the medians of each tenth of the time.
fn report(samples: &[QueueStatus]) {
    println!("| minutes | file MB | memory MB | p99 ms | alive |\n|---|---|---|---|---|");
    for part in samples.chunks(samples.len().div_ceil(10).max(1)) {
        let middle = |of: Figure| {
            let mut figures: Vec<f64> = part.iter().map(of).collect();
            figures.sort_by(f64::total_cmp);
            figures[figures.len() / 2]
        };
        let last = part[part.len() - 1];
        let [file, memory, p99] = PANELS.map(|(_, of)| middle(of));
        println!("| {:.0} | {file:.0} | {memory:.0} | {p99:.2} | {} |", last.minutes, last.alive);
    }
}

const WIDTH: f64 = 640.0;
const PANEL: f64 = 130.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 24.0;

fn plot(samples: &[QueueStatus]) -> Markup {
    let minutes = samples.last().map_or(1.0, |sample| sample.minutes);
    let height = (PANEL + TOP) * PANELS.len() as f64 + 20.0;
    html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {WIDTH} {height}")) font-family="sans-serif"
            font-size="11" fill="#777" {
            @for (place, (name, of)) in PANELS.into_iter().enumerate() {
                g transform=(format!("translate(0 {})", TOP + (PANEL + TOP) * place as f64)) {
                    (panel(name, &samples.iter().map(|sample| (sample.minutes / minutes, of(sample))).collect::<Vec<_>>()))
                }
            }
            text x=(WIDTH - 10.0) y=(height - 8.0) text-anchor="end" { (format!("{minutes:.0} minutes")) }
        }
    }
}

/// Draws a figure from 0 upward, over the time from 0 to 1.
fn panel(name: &str, points: &[(f64, f64)]) -> Markup {
    let most = points.iter().fold(f64::MIN_POSITIVE, |most, (_, figure)| most.max(*figure));
    let scaled = points.iter().map(|(time, figure)| {
        format!("{:.1},{:.1}", LEFT + time * (WIDTH - LEFT - 10.0), PANEL * (1.0 - figure / most))
    });
    html! {
        text x=(LEFT) y="-8" { (name) }
        text x=(LEFT - 6.0) y="8" text-anchor="end" { (format!("{most:.1}")) }
        text x=(LEFT - 6.0) y=(PANEL) text-anchor="end" { "0" }
        line x1=(LEFT) x2=(WIDTH - 10.0) y1=(PANEL) y2=(PANEL) stroke="#777" {}
        polyline points=(scaled.collect::<Vec<_>>().join(" ")) fill="none" stroke="#1a7f5a" stroke-width="1.5" {}
    }
}
