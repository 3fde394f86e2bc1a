//! Real clients of the API: python-zaqarclient, openstacksdk, `openstack messaging`, a browser, clients generated from
//! the contract, and schemathesis against it.

mod browser;
mod checksum;
mod contract;
mod generated;
mod openstack;
mod schemathesis;
mod zaqarclient;

use std::process::Stdio;

use crate::support::python;
use crate::support::redis::{RedisServer, spawn, tethered};
use crate::support::sukkal::Sukkal;

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients");

/// Runs a script of this folder against a server that signs URLs, in a project of its own.
fn run_script(script: &str) {
    let redis = RedisServer::shared();
    let sukkal = Sukkal::start_with(&redis.url(), &[("SUKKAL_SIGNED_URL__SECRET_KEY", "any")]);
    let mut command = tethered(python::venv());
    // Python would leave caches beside what it imports.
    command.args(["-B", &format!("{SCRIPTS}/{script}"), &sukkal.url(""), script]).stderr(Stdio::piped());

    let output = spawn(command).expect("the interpreter starts").wait_with_output().expect("it is our child");

    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}
