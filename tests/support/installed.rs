//! Tools that tests need and this project does not build: installed once per machine, below `target`, and again when
//! the files that name them change.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

const HOMES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target");

/// The folder of `target` in which `install` has installed what these files name. Blocks while another process does so.
pub(super) fn home(folder: &str, files: &[&str], install: impl FnOnce(&Path)) -> PathBuf {
    let home = Path::new(HOMES).join(folder);
    let stamp = home.join("installed.txt");

    fs::create_dir_all(&home).expect("the target directory can be written");
    let lock = File::create(home.join("lock")).expect("the lock file can be made");
    // Holds off threads and processes alike, until the file is closed.
    lock.lock().expect("the lock file can be locked");

    let wanted: String =
        files.iter().map(|file| fs::read_to_string(file).expect("the list of tools is there")).collect();
    if fs::read_to_string(&stamp).unwrap_or_default() != wanted {
        // Emptied first and written last, so that a half-made installation is never taken for whole.
        fs::write(&stamp, "").expect("the stamp can be written");
        install(&home);
        fs::write(&stamp, wanted).expect("the stamp can be written");
    }
    home
}

/// Runs a command that must succeed; `needs` says what it needs.
pub(super) fn run(command: &mut Command, needs: &str) {
    let output = command.output().expect(needs);
    assert!(
        output.status.success(),
        "{needs}: {command:?} says:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
}
