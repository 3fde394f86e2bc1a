//! The program itself: its options, its signals, and how it exits.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};

use serde_json::Value;

use crate::support::redis::{block_until, child_command, spawn};

/// A running server with the options of the test, which is killed on drop.
pub(crate) struct Program {
    process: Child,
    log: BufReader<ChildStderr>,
    pub(crate) address: SocketAddr,
    /// The log lines from before it listened.
    pub(crate) lines_before: Vec<String>,
}

impl Program {
    /// Starts `sukkal` with these arguments and waits until it listens.
    pub(crate) fn start<A: AsRef<OsStr>>(arguments: &[A], environment: &[(&str, &str)]) -> Self {
        let mut command = command(arguments, environment);
        command.stderr(Stdio::piped());
        let mut process = spawn(command).expect("the binary under test starts");
        let mut log = BufReader::new(process.stderr.take().expect("stderr is piped"));
        let (listening, lines_before) = wait_for(&mut log, "listening");
        let address = listening["fields"]["address"].as_str().expect("the address is logged");
        Self { process, address: address.parse().expect("an address"), log, lines_before }
    }

    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.process.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().expect("sh is there").success());
    }

    /// Waits until it logs this message.
    pub(crate) fn wait_until_logged(&mut self, message: &str) {
        wait_for(&mut self.log, message);
    }

    /// Waits until it exits by itself.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        block_until("it ends", || {
            status = self.process.try_wait().expect("it is our child");
            status.is_some()
        });
        status.expect("it has ended")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _dead_already = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// Runs a `sukkal` that should not start. Returns its exit code and its stderr.
pub(crate) fn refused<A: AsRef<OsStr>>(arguments: &[A], environment: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = command(arguments, environment);
    command.stderr(Stdio::piped());
    let mut process = spawn(command).expect("the binary under test starts");
    block_until("it ends by itself", || process.try_wait().expect("it is our child").is_some());
    let output = process.wait_with_output().expect("it ends");
    (output.status.code(), String::from_utf8(output.stderr).expect("text"))
}

fn command<A: AsRef<OsStr>>(arguments: &[A], environment: &[(&str, &str)]) -> Command {
    let mut command = child_command(env!("CARGO_BIN_EXE_sukkal"));
    command.args(arguments).envs(environment.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Returns the first event with that message, and the lines before it.
#[allow(clippy::panic, reason = "fails the test, in the program's words")]
fn wait_for(log: &mut impl BufRead, message: &str) -> (Value, Vec<String>) {
    let mut said = Vec::new();
    loop {
        let mut line = String::new();
        let length = log.read_line(&mut line).expect("stderr can be read");
        assert!(length > 0, "it never said {message:?}: {said:#?}");
        let event: Value = serde_json::from_str(&line).unwrap_or_default();
        if event["fields"]["message"] == message {
            return (event, said);
        }
        said.push(line);
    }
}
