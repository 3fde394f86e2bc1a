//! A file that replaces another one when it is complete. Only its owner can read it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const MODE: u32 = 0o600;

/// A new file beside the one that it replaces. It is removed if it is not completed.
pub(super) struct Replacement<'p> {
    path: &'p Path,
    temporary: PathBuf,
    file: File,
}

impl<'p> Replacement<'p> {
    pub(super) fn create(path: &'p Path) -> io::Result<Self> {
        // Of this process alone, and never a file that somebody else has put there.
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".{}.tmp", std::process::id()));
        let temporary = PathBuf::from(temporary);
        let file = File::options().write(true).create_new(true).mode(MODE).open(&temporary)?;
        Ok(Self { path, temporary, file })
    }

    /// Replaces the other file, and writes this to disk.
    pub(super) fn complete(self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.temporary, self.path)?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Write for Replacement<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Replacement<'_> {
    fn drop(&mut self) {
        let _absent_if_completed = fs::remove_file(&self.temporary);
    }
}
