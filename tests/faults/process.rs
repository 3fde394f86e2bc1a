//! Programs that should not start.

use std::ffi::OsStr;
use std::process::Stdio;

use support::redis::{child_command, spawn};
use support::secrets;
use support::waiting::block_until;

/// Runs a `sukkal` that should not start. Returns its exit code and its stderr.
pub(crate) fn refused<A: AsRef<OsStr>>(arguments: &[A], environment: &[(&str, &str)]) -> (Option<i32>, String) {
    secrets::note_environment(environment);
    let mut command = child_command(support::sukkal::binary());
    command.args(arguments).envs(environment.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut process = spawn(command).expect("the binary under test starts");
    block_until("it ends by itself", || process.try_wait().expect("it is our child").is_some());
    let output = process.wait_with_output().expect("it ends");
    let message = String::from_utf8(output.stderr).expect("text");
    let lines: Vec<String> = message.lines().map(str::to_owned).collect();
    assert_eq!(secrets::find(&lines), None, "the message has a secret");
    (output.status.code(), message)
}
