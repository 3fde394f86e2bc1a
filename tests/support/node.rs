//! The packages of `tests/clients/generated/package.json`, for Node.js.
//!
//! The first call on a machine installs them, which takes a minute and a package registry.

use std::fs;
use std::path::PathBuf;

use super::installed;
use super::redis::tethered;

const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/generated/package.json");
const LOCK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/generated/package-lock.json");

/// The folder that the packages are installed in. Programs below it can import them; `node_modules/.bin` has their
/// commands. Blocks while somebody installs them.
pub(crate) fn packages() -> PathBuf {
    installed::home("node-tests", &[PACKAGE, LOCK], |home| {
        fs::copy(PACKAGE, home.join("package.json")).expect("the target directory can be written");
        fs::copy(LOCK, home.join("package-lock.json")).expect("the target directory can be written");
        let mut npm = tethered("npm");
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(home);
        installed::run(&mut npm, "this needs npm, Node.js 20.19 or later, and a package registry");
    })
}
