//! The packages of `tests/clients/generated/package.json`, for Node.js.
//!
//! The first call on a machine installs them, which takes a minute and needs a package registry.

use std::fs;
use std::path::PathBuf;

use super::installed;
use super::redis::child_command;

const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/generated/package.json");
const LOCK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/generated/package-lock.json");

/// Returns the folder with the installed packages. Programs below it can import them, and
/// `node_modules/.bin` has their commands. Blocks while another process installs them.
pub(crate) fn packages() -> PathBuf {
    installed::installed_folder("node-tests", &[PACKAGE, LOCK], |installed_folder| {
        fs::copy(PACKAGE, installed_folder.join("package.json")).expect("the target directory can be written");
        fs::copy(LOCK, installed_folder.join("package-lock.json")).expect("the target directory can be written");
        let mut npm = child_command("npm");
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(installed_folder);
        installed::run(&mut npm, "this needs npm, Node.js 20.19 or later, and a package registry");
    })
}
