//! Counts the instructions of a service.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::redis::{child_command, spawn};

/// Name of the file that callgrind writes.
const COUNTS: &str = "counts";

/// A service in callgrind.
pub(crate) struct Service {
    process: Child,
    pub(crate) url: String,
    folder: TempDir,
}

impl Service {
    pub(crate) fn start(store: &str, environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory can be made");
        let counts = folder.path().join(COUNTS);
        let mut command = child_command("valgrind");
        command.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", counts.display()));
        command.args([env!("CARGO_BIN_EXE_sukkal"), "serve", "--bind", "127.0.0.1:0", "--store", store]);
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
        Self { process, folder, url: format!("http://{address}") }
    }

    /// Stops the service, so that callgrind writes its counts. Returns the instructions.
    pub(crate) fn stop(mut self) -> u64 {
        let id = self.process.id().to_string();
        Command::new("kill").args(["-TERM", &id]).status().expect("kill can be run");
        self.process.wait().expect("it is our child");
        let counts = fs::read_to_string(self.folder.path().join(COUNTS)).expect("callgrind has written its counts");
        let total = counts.lines().find_map(|line| line.strip_prefix("totals: "));
        total.and_then(|total| total.trim().parse().ok()).expect("the file has a total")
    }
}
