//! The load: wrk in a closed loop, and the requests of a quiet project at the same time.

use std::fmt::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde::Deserialize;
use tokio::process::Command;

use crate::prepare;
use crate::support::redis::RedisServer;
use crate::support::sukkal::{Api, Sukkal};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/overload/load.lua");
/// Number of connections of the project that floods the service while another is measured.
const FLOODING: u32 = 1_000;
const PAUSE_BETWEEN_SINGLE_REQUESTS: Duration = Duration::from_millis(5);

/// A load of one kind of request.
pub(crate) struct Flood {
    pub(crate) kind: &'static str,
    pub(crate) connections: u32,
    pub(crate) seconds: u32,
}

/// The outcome of a load.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) requests: f64,
    pub(crate) seconds: f64,
    pub(crate) refused: f64,
    pub(crate) broken: u64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
}

impl Outcome {
    /// Requests served per second.
    pub(crate) fn goodput(&self) -> f64 {
        (self.requests - self.refused) / self.seconds
    }
}

impl Flood {
    pub(crate) async fn send_to(&self, url: &str) -> Outcome {
        let mut wrk = Command::new("wrk");
        wrk.args(["--threads", "1", "--timeout", "60s", "--connections", &self.connections.to_string()])
            .args(["--duration", &format!("{}s", self.seconds), "--script", SCRIPT, url, "--", self.kind])
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let output = wrk.output().await.expect("wrk is installed");
        let said = String::from_utf8_lossy(&output.stdout);
        let line = said.lines().rfind(|line| line.starts_with('{')).unwrap_or_else(|| panic!("wrk says: {said}"));
        let outcome: Outcome = serde_json::from_str(line).unwrap();
        assert_eq!(outcome.broken, 0, "connections failed: {outcome:?}");
        outcome
    }
}

/// Measures single requests of a project, without and with a flood of requests from another
/// project.
pub(crate) async fn cost_for_others(text: &mut String, seconds: u32) {
    let redis = RedisServer::start();
    let sukkal = Sukkal::start_with(&redis.url(), &[("SUKKAL_LOG__FILTER", "warn,sukkal::app=info")]);
    let (busy, quiet) = (sukkal.project("overload"), sukkal.project("quiet"));
    prepare(&busy, "list", seconds).await;
    prepare(&quiet, "list", seconds).await;
    let span = Duration::from_secs(seconds.into());

    let alone = single_requests(&quiet, span).await;
    let flood = Flood { kind: "list", connections: FLOODING, seconds: seconds + 2 };
    let url = sukkal.url("");
    let beside = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        single_requests(&quiet, span).await
    };
    let (flooded, beside) = tokio::join!(flood.send_to(&url), beside);

    write!(
        text,
        "\nLatency of single requests of one project (a list of 10 messages after each pause of 5 ms), alone and while \
         another project sends lists over {FLOODING} connections without pauses ({:.0} requests/s):\n\n\
         | | p50 ms | p99 ms | longest ms |\n|---|---|---|---|\n| alone | {} |\n| beside the flood | {} |\n",
        flooded.goodput(),
        row(alone),
        row(beside)
    )
    .unwrap();
}

/// Sends requests one after the other. Returns their latencies in milliseconds.
async fn single_requests(api: &Api, span: Duration) -> Vec<f64> {
    let begin = Instant::now();
    let mut durations = Vec::new();
    while begin.elapsed() < span {
        let sent = Instant::now();
        let response = api.get("/v2/queues/list-0/messages?limit=10&echo=true").send().await.unwrap();
        assert_eq!(response.status(), 200);
        durations.push(sent.elapsed().as_secs_f64() * 1e3);
        tokio::time::sleep(PAUSE_BETWEEN_SINGLE_REQUESTS).await;
    }
    durations
}

fn row(mut durations: Vec<f64>) -> String {
    durations.sort_by(f64::total_cmp);
    let at = |share: usize| durations[(durations.len() - 1) * share / 100];
    format!("{:.1} | {:.1} | {:.1}", at(50), at(99), at(100))
}
