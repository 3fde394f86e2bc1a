//! The client that users of Zaqar have: python-zaqarclient, as `feed.py` drives it.

use std::process::Stdio;

use crate::support::python;
use crate::support::redis::{RedisServer, spawn, tethered};
use crate::support::sukkal::Sukkal;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/feed.py");

#[test]
fn python_zaqarclient_streams_back_what_it_has_posted() {
    let redis = RedisServer::shared();
    let sukkal = Sukkal::start(&redis.url());
    let mut command = tethered(python::venv());
    command.args([SCRIPT, &sukkal.url(""), "python-zaqarclient"]).stderr(Stdio::piped());

    let output = spawn(command).expect("the interpreter starts").wait_with_output().expect("it is our child");

    assert!(output.status.success(), "feed.py: {}", String::from_utf8_lossy(&output.stderr));
}
