//! Python interpreters with packages, such as those of `tests/requirements.txt`.
//!
//! The first call on a machine installs them, which takes half a minute and needs a package index.

use std::path::PathBuf;

use super::installed;
use super::redis::child_command;

const REQUIREMENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/requirements.txt");
const NEEDS: &str = "this needs python3, 3.11 or later, with its venv module, and a package index";

/// Returns the path of the tests' interpreter. Blocks while another process installs the packages.
pub(crate) fn venv() -> PathBuf {
    environment("python-tests", REQUIREMENTS)
}

/// Returns the path of an interpreter with the packages that a file lists, kept in this folder of
/// `target`.
pub(crate) fn environment(folder: &str, requirements: &str) -> PathBuf {
    let installed_folder = installed::installed_folder(folder, &[requirements], |installed_folder| {
        let venv = installed_folder.join("venv");
        installed::run(child_command("python3").args(["-m", "venv", "--clear"]).arg(&venv), NEEDS);
        let python = venv.join("bin/python");
        installed::run(child_command(python).args(["-m", "pip", "install", "-q", "-r", requirements]), NEEDS);
    });
    installed_folder.join("venv/bin/python")
}
