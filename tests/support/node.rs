//! The packages of `tests/clients/generated/package.json`, for Node.js.
//!
//! The first call on a machine installs them, which takes a minute and needs a package registry.

use std::path::PathBuf;

use super::python::install;
use super::root;

/// Returns the folder with the installed packages. Programs below it can import them, and
/// `node_modules/.bin` has their commands. Blocks while another process installs them.
pub fn packages() -> PathBuf {
    install(&["node"]);
    root().join("target/node-tests")
}
