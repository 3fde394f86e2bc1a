//! Python interpreters with packages, such as those of `tests/requirements.txt`.
//!
//! The first call on a machine installs them, which takes half a minute and a package index.

use std::path::PathBuf;

use super::installed;
use super::redis::tethered;

const REQUIREMENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/requirements.txt");
const NEEDS: &str = "this needs python3, 3.11 or later, with its venv module, and a package index";

/// The path of the tests' interpreter. Blocks while somebody installs the packages.
pub(crate) fn venv() -> PathBuf {
    environment("python-tests", REQUIREMENTS)
}

/// The path of an interpreter with the packages that a file lists, kept in this folder of `target`.
pub(crate) fn environment(folder: &str, requirements: &str) -> PathBuf {
    let home = installed::home(folder, &[requirements], |home| {
        let venv = home.join("venv");
        installed::run(tethered("python3").args(["-m", "venv", "--clear"]).arg(&venv), NEEDS);
        let python = venv.join("bin/python");
        installed::run(tethered(python).args(["-m", "pip", "install", "-q", "-r", requirements]), NEEDS);
    });
    home.join("venv/bin/python")
}
