//! Real clients of the API: python-zaqarclient, openstacksdk, `openstack messaging`, a browser,
//! clients generated from the contract, and schemathesis.

mod browser;
mod checksum;
pub(crate) mod contract;
mod cross_origin;
mod examples;
mod generated;
mod openstack;
mod schemathesis;
mod zaqarclient;

use std::process::Stdio;

use support::python;
use support::redis::{RedisServer, child_command, spawn};
use support::sukkal::Sukkal;

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/clients");

/// Runs a script of this folder, in its own project, against a server that signs URLs.
fn run_script(script: &str) {
    run_script_with(script, &[("SUKKAL_SIGNED_URL__SECRET_KEY", "any")]);
}

/// Runs a script of this folder, in its own project, against a server with these options.
fn run_script_with(script: &str, options: &[(&str, &str)]) {
    let redis = RedisServer::shared();
    let sukkal = Sukkal::start_with(&redis.url(), options);
    run_script_at(&sukkal.url(""), script, script);
}

/// Runs a script of this folder in a project of the service at this URL.
pub(crate) fn run_script_at(url: &str, script: &str, project: &str) {
    let mut command = child_command(python::venv());
    // `-B` keeps Python from writing caches next to the imported files.
    command.args(["-B", &format!("{SCRIPTS}/{script}"), url, project]).stderr(Stdio::piped());

    let output =
        spawn(command).expect("the interpreter starts").wait_with_output().expect("the process can be waited for");

    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}
