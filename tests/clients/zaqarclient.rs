//! The client that users of Zaqar have: python-zaqarclient, as the scripts beside this file drive it.

use std::process::Stdio;

use crate::support::python;
use crate::support::redis::{RedisServer, spawn, tethered};
use crate::support::sukkal::Sukkal;

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients");

#[test]
fn python_zaqarclient_streams_back_what_it_has_posted() {
    run("feed.py");
}

#[test]
fn python_zaqarclient_gets_work_done_by_claims() {
    run("work.py");
}

#[test]
fn python_zaqarclient_does_what_a_pre_signed_url_says() {
    run("shared.py");
}

#[test]
fn python_zaqarclient_looks_after_queues() {
    run("chores.py");
}

#[test]
fn no_method_of_python_zaqarclient_for_queues_messages_and_claims_is_left_out() {
    run("census.py");
}

#[test]
fn python_zaqarclient_gets_delayed_messages_in_time_and_finds_dead_letters() {
    run("later.py");
}

/// Runs a script against a server, in a project of its own.
fn run(script: &str) {
    let redis = RedisServer::shared();
    let sukkal = Sukkal::start_with(&redis.url(), &[("SUKKAL_SIGNED_URL__SECRET_KEY", "any")]);
    let mut command = tethered(python::venv());
    // Python would leave caches beside what it imports.
    command.args(["-B", &format!("{SCRIPTS}/{script}"), &sukkal.url(""), script]).stderr(Stdio::piped());

    let output = spawn(command).expect("the interpreter starts").wait_with_output().expect("it is our child");

    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}
