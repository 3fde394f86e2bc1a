//! The load generator: wrk with one thread and keep-alive connections in a closed loop. The scripts
//! with its requests are in `wrk/`.

use std::process::Stdio;

use serde::Deserialize;

use crate::processes;
use support::redis::{child_command, spawn};

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../benches/wrk");

/// A load: its script, number of connections and duration.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// Name of a file in `wrk/`, without its extension.
    pub(crate) script: &'static str,
    /// The arguments of the script.
    pub(crate) arguments: Vec<String>,
    pub(crate) connections: u32,
    pub(crate) seconds: u32,
}

/// The outcome of a load.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) requests: f64,
    pub(crate) seconds: f64,
    /// Requests that got an error as their response.
    pub(crate) refused: f64,
    /// Requests without a response.
    pub(crate) broken: f64,
    pub(crate) mean_ms: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
    /// Processor time of wrk itself, in seconds.
    #[serde(default)]
    pub(crate) cpu_s: f64,
}

impl Outcome {
    /// Requests served per second.
    pub(crate) fn goodput(&self) -> f64 {
        (self.requests - self.refused) / self.seconds
    }
}

impl Load {
    /// Runs the load. Blocks until it is over.
    pub(crate) fn send_to(&self, url: &str) -> Outcome {
        let cpu_before_s = processes::cpu_of_ended_children_s();
        let mut wrk = child_command("wrk");
        wrk.args(["--threads", "1", "--timeout", "60s", "--connections", &self.connections.to_string()])
            .args(["--duration", &format!("{}s", self.seconds)])
            .args(["--script", &format!("{SCRIPTS}/{}.lua", self.script), url, "--"])
            .args(&self.arguments)
            .env("WRK_SCRIPTS", SCRIPTS)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let output = spawn(wrk).expect("wrk is installed").wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let line = said.lines().rfind(|line| line.starts_with('{'));
        let line = line.unwrap_or_else(|| panic!("wrk says: {said}{}", String::from_utf8_lossy(&output.stderr)));
        let outcome: Outcome = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        Outcome { cpu_s: processes::cpu_of_ended_children_s() - cpu_before_s, ..outcome }
    }
}

/// Returns the installed version, or `None` if wrk is not installed.
pub(crate) fn version() -> Option<String> {
    let said = std::process::Command::new("wrk").arg("--version").output().ok()?.stdout;
    let said = String::from_utf8_lossy(&said).into_owned();
    said.split_whitespace().nth(1).map(str::to_owned)
}
