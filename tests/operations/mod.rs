//! What operators get besides the program: alerts and a dashboard, a systemd unit, configurations
//! of proxies, and the runbook. Each is tried with the real tools.

mod dashboard;
mod prefix;
pub(crate) mod proxies;
mod rolling_restarts;
mod runbook;
mod service_unit;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use support::redis::child_command;

/// Returns a path in the repository.
fn path(name: &str) -> PathBuf {
    support::root().join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(path(name)).expect("the file is in the repository")
}

/// Runs a tool that must succeed, and returns what it printed.
fn succeed(program: &str, arguments: &[&str]) -> String {
    let mut command: Command = child_command(program);
    let output = command.args(arguments).current_dir(path(".")).output();
    let output = output.unwrap_or_else(|error| panic!("{program} is missing; `make tools` installs it: {error}"));
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    said.into_owned()
}
