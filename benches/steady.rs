//! Measures whether the embedded store stays steady over a long time: file size, memory and p99
//! latency must not grow.
//!
//! Tasks post, claim and delete ten messages at a constant rate, with 100,000 messages in the
//! queue. `--write` draws `docs/steady.svg`.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::Args;
use maud::{Markup, html};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{interval, sleep_until};

use crate::client::send;
use crate::processes;
use crate::report::Report;
use crate::service::Store;
use crate::statistics::{median, percentile};
use support::sukkal::{Api, Sukkal};

const BODY_BYTES: usize = 1_000;
/// Number of messages in a request that fills the queue, and in one that is measured.
const FILLED_AT_ONCE: usize = 20;
const AT_ONCE: usize = 10;
const TASKS: u32 = 16;
/// Cycles of three requests per second, of all tasks together.
const CYCLES_PER_S: u32 = 100;
const MEGA: f64 = 1e6;

#[derive(Args)]
pub(crate) struct Options {
    /// Duration, in minutes
    #[arg(long, default_value_t = 30)]
    minutes: u32,
    /// Write docs/steady.svg
    #[arg(long)]
    write: bool,
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

pub(crate) async fn run(options: &Options, report: &mut Report) {
    let (alive_count, windows, seconds) =
        if report.is_short { (1_000, 2, 1) } else { (100_000, options.minutes * 6, 10) };
    let store = Store::embedded();
    let sukkal = Sukkal::start(&store.url());
    let api = sukkal.project("steady");
    fill(&api, alive_count).await;

    let latencies = Latencies::default();
    let mut cycles = JoinSet::new();
    for _ in 0..TASKS {
        cycles.spawn(run_cycles(api.clone(), latencies.clone()));
    }
    let mut samples = Vec::new();
    let start = Instant::now();
    for window in 1..=windows {
        sleep_until((start + Duration::from_secs(seconds) * window).into()).await;
        let mut taken = std::mem::take(&mut *latencies.lock().unwrap());
        samples.push(Sample {
            minutes: start.elapsed().as_secs_f64() / 60.0,
            file_mb: store.file_bytes() as f64 / MEGA,
            memory_mb: processes::resident_bytes(&[sukkal.id()]) / MEGA,
            p99_ms: percentile(&mut taken, 99),
            alive: alive(&api).await,
        });
    }
    assert!(cycles.try_join_next().is_none(), "no request fails");
    write_table(report, &samples);
    if options.write {
        report.write_plot("steady.svg", plot(&samples));
    }
}

async fn fill(api: &Api, count: usize) {
    send(api.put("/v2/queues/q"), 201).await;
    let document = messages(FILLED_AT_ONCE);
    for _ in 0..count / FILLED_AT_ONCE {
        send(api.post("/v2/queues/q/messages", &document), 201).await;
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

type Figure = fn(&Sample) -> f64;

/// The plots, each with a title and a figure.
const PANELS: [(&str, Figure); 3] = [
    ("file, MB", |sample| sample.file_mb),
    ("memory, MB", |sample| sample.memory_mb),
    ("p99 of a request, ms", |sample| sample.p99_ms),
];

/// Writes the medians of each tenth of the time.
fn write_table(report: &mut Report, samples: &[Sample]) {
    writeln!(report, "| minutes | file MB | memory MB | p99 ms | alive |\n|---|---|---|---|---|").unwrap();
    for part in samples.chunks(samples.len().div_ceil(10).max(1)) {
        let last = part[part.len() - 1];
        let [file, memory, p99] = PANELS.map(|(_, of)| median(part.iter().map(of).collect()));
        writeln!(report, "| {:.0} | {file:.0} | {memory:.0} | {p99:.2} | {} |", last.minutes, last.alive).unwrap();
    }
}

const WIDTH: f64 = 640.0;
const PANEL: f64 = 130.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 24.0;

fn plot(samples: &[Sample]) -> Markup {
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
