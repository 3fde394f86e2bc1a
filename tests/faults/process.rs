//! The program itself: its options, its signals, and how it exits.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::thread;

use serde_json::Value;

use support::redis::{child_command, spawn};
use support::secrets;
use support::waiting::block_until;

/// A running server with the options of the test, which is killed on drop. The test fails if its
/// log has a secret.
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

    /// Waits until it has logged this message, perhaps before it listened.
    pub(crate) fn wait_until_logged(&mut self, message: &str) {
        let field = format!("\"message\":\"{message}\"");
        if !self.lines_before.iter().any(|line| line.contains(&field)) {
            wait_for(&mut self.log, message);
        }
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
        let rest: Vec<String> = self.log.by_ref().lines().map_while(Result::ok).collect();
        if !thread::panicking() {
            assert_eq!(secrets::find(&rest), None, "the log has a secret");
        }
    }
}

/// Runs a `sukkal` that should not start. Returns its exit code and its stderr.
pub(crate) fn refused<A: AsRef<OsStr>>(arguments: &[A], environment: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = command(arguments, environment);
    command.stderr(Stdio::piped());
    let mut process = spawn(command).expect("the binary under test starts");
    block_until("it ends by itself", || process.try_wait().expect("it is our child").is_some());
    let output = process.wait_with_output().expect("it ends");
    let message = String::from_utf8(output.stderr).expect("text");
    let lines: Vec<String> = message.lines().map(str::to_owned).collect();
    assert_eq!(secrets::find(&lines), None, "the message has a secret");
    (output.status.code(), message)
}

fn command<A: AsRef<OsStr>>(arguments: &[A], environment: &[(&str, &str)]) -> Command {
    secrets::note_environment(environment);
    let mut command = child_command(support::sukkal::binary());
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
        assert_eq!(secrets::find(std::slice::from_ref(&line)), None, "the log has a secret");
        let event: Value = serde_json::from_str(&line).unwrap_or_default();
        if event["fields"]["message"] == message {
            return (event, said);
        }
        said.push(line);
    }
}
