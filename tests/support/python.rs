//! Python interpreters with packages, such as those of `tests/requirements.txt`.
//!
//! The first call on a machine installs them, which takes half a minute and needs a package index.

use std::path::PathBuf;

use super::redis::child_command;
use super::root;

const REQUIREMENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/requirements.txt");

/// Returns the path of the tests' interpreter. Blocks while another process installs the packages.
pub fn venv() -> PathBuf {
    environment("python-tests", REQUIREMENTS)
}

/// Returns the path of an interpreter with the packages that a file lists, kept in this folder of
/// `target`.
pub fn environment(folder: &str, requirements: &str) -> PathBuf {
    install(&["python", folder, requirements]);
    root().join("target").join(folder).join("venv/bin/python")
}

/// Installs packages with `tests/install.py`.
pub(super) fn install(what: &[&str]) {
    let mut script = child_command("python3");
    let output = script.arg("-B").arg(root().join("tests/install.py")).args(what).output().expect("python3 starts");
    assert!(output.status.success(), "{what:?}: {}", String::from_utf8_lossy(&output.stderr));
}
