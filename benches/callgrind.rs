//! Counts the instructions of a service in callgrind, so that the figures do not depend on the load
//! of the machine.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::time::sleep;

use crate::statistics::median;
use support::redis::{child_command, spawn};

/// Name of the file that callgrind writes.
const COUNTS: &str = "counts";
const RUNS: usize = 3;
/// Pause between two attempts to use a store. Few attempts disturb the count less.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);

/// A service in callgrind.
pub(crate) struct Service {
    process: Child,
    pub(crate) url: String,
    folder: TempDir,
}

impl Service {
    /// Starts a service, and waits until it is connected to its store. A short run does without
    /// callgrind if it is not installed.
    pub(crate) async fn start(store: &str, environment: &[(&str, &str)], is_short: bool) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory can be made");
        let counts = folder.path().join(COUNTS);
        let program = support::sukkal::binary();
        let mut command = if is_short && Command::new("valgrind").arg("--version").output().is_err() {
            fs::write(&counts, "totals: 1").expect("the directory is writable");
            child_command(program)
        } else {
            let mut command = child_command("valgrind");
            command.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", counts.display())).arg(program);
            command
        };
        command.args(["serve", "--bind", "127.0.0.1:0", "--store", store]);
        command.envs(environment.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = spawn(command).expect("valgrind is installed");
        let mut lines = BufReader::new(process.stderr.take().expect("stderr is piped")).lines();
        let address = loop {
            let line = lines.next().expect("the service starts").expect("the log is text");
            let event: Value = serde_json::from_str(&line).unwrap_or_default();
            if event["fields"]["message"] == "listening" {
                break event["fields"]["address"].as_str().expect("the address is logged").to_owned();
            }
        };
        thread::spawn(move || lines.count());
        let url = format!("http://{address}");
        while support::plain_http::get(format!("{url}/readyz")).await.map_or(true, |answer| answer.status() != 204) {
            sleep(PAUSE).await;
        }
        Self { process, url, folder }
    }

    /// Stops the service, so that callgrind writes its counts. Returns the instructions.
    pub(crate) fn stop(mut self) -> f64 {
        let id = self.process.id().to_string();
        Command::new("kill").args(["-TERM", &id]).status().expect("kill can be run");
        self.process.wait().expect("it is our child");
        let counts = fs::read_to_string(self.folder.path().join(COUNTS)).expect("callgrind has written its counts");
        let total = counts.lines().find_map(|line| line.strip_prefix("totals: "));
        total.and_then(|total| total.trim().parse().ok()).expect("the file has a total")
    }
}

/// Returns the instructions of one request: the median of some runs. A run compares a service that
/// answers a few requests with one that answers many, so that the start does not count.
pub(crate) async fn per_request([few, many]: [usize; 2], instructions: impl AsyncFn(usize) -> f64) -> f64 {
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        let start = instructions(few).await;
        runs.push((instructions(many).await - start) / (many - few) as f64);
    }
    median(runs)
}
