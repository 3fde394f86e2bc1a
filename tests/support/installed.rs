//! Tools that tests need but this project does not build. They are installed once per machine,
//! below `target`, and again when the files that list them change.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

const HOMES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target");

/// Returns the folder of `target` in which `install` has installed the tools that these files list.
/// Blocks while another process installs them.
pub(super) fn installed_folder(folder: &str, files: &[&str], install: impl FnOnce(&Path)) -> PathBuf {
    let installed_folder = Path::new(HOMES).join(folder);
    let stamp = installed_folder.join("installed.txt");

    fs::create_dir_all(&installed_folder).expect("the target directory can be written");
    let lock = File::create(installed_folder.join("lock")).expect("the lock file can be made");
    // The file lock excludes other threads and processes, until the file is closed.
    lock.lock().expect("the lock file can be locked");

    let wanted: String =
        files.iter().map(|file| fs::read_to_string(file).expect("the list of tools can be read")).collect();
    if fs::read_to_string(&stamp).unwrap_or_default() != wanted {
        // The stamp is emptied first and written last, so that an interrupted installation does not
        // count as complete.
        fs::write(&stamp, "").expect("the stamp can be written");
        install(&installed_folder);
        fs::write(&stamp, wanted).expect("the stamp can be written");
    }
    installed_folder
}

/// Runs a command that must succeed; `needs` says what it requires, for the error message.
pub(super) fn run(command: &mut Command, needs: &str) {
    let output = command.output().expect(needs);
    assert!(
        output.status.success(),
        "{needs}: {command:?} says:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
}
