//! Python interpreters with packages, such as those of `tests/requirements.txt`.
//!
//! The first call on a machine installs them, which takes half a minute and a package index; they
//! stay below `target` until the requirements change.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::redis::tethered;

const REQUIREMENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/requirements.txt");
const HOMES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target");

/// The path of the tests' interpreter. Blocks while somebody installs the packages.
pub(crate) fn venv() -> PathBuf {
    environment("python-tests", REQUIREMENTS)
}

/// The path of an interpreter with the packages that a file lists, kept in this folder of `target`.
pub(crate) fn environment(folder: &str, requirements: &str) -> PathBuf {
    let home = Path::new(HOMES).join(folder);
    let venv = home.join("venv");
    let python = venv.join("bin/python");
    let stamp = home.join("installed.txt");

    fs::create_dir_all(&home).expect("the target directory can be written");
    let lock = File::create(home.join("lock")).expect("the lock file can be made");
    // Holds off threads and processes alike, until the file is closed.
    lock.lock().expect("the lock file can be locked");

    let wanted = fs::read_to_string(requirements).expect("the requirements are there");
    let installed = fs::read_to_string(&stamp).unwrap_or_default();
    if installed != wanted || !python.exists() {
        // Emptied first and written last, so that a half-made environment is never taken for whole.
        fs::write(&stamp, "").expect("the stamp can be written");
        run(tethered("python3").args(["-m", "venv", "--clear"]).arg(&venv));
        run(tethered(&python).args(["-m", "pip", "install", "-q", "-r", requirements]));
        fs::write(&stamp, wanted).expect("the stamp can be written");
    }
    python
}

fn run(command: &mut Command) {
    let needs = "this needs python3, 3.11 or later, with its venv module, and a package index";
    let output = command.output().expect(needs);
    assert!(
        output.status.success(),
        "{needs}: {command:?} says:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
}
