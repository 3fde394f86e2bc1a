//! The file of the audit log. Another program may rename or delete it to begin a new one.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use rustix::fs::OFlags;

/// Permissions of a new file: only the user that runs the service can read and write it.
const MODE: u32 = 0o600;

/// A file to which lines are appended.
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
    /// Whether the last write has left a part of a line.
    is_torn: bool,
}

impl LogFile {
    /// Opens the file, and creates it if it does not exist.
    pub(super) fn open(path: PathBuf) -> io::Result<Self> {
        Ok(Self { file: open(&path)?, path, is_torn: false })
    }

    /// Appends a line to the file that has the path now. Calls `report` with the error if another
    /// file has taken its place and cannot be opened; the line is then in the old file.
    pub(super) fn append(&mut self, line: &str, report: impl FnOnce(&io::Error)) -> io::Result<()> {
        let own = self.file.metadata()?;
        if !self.path.metadata().is_ok_and(|named| is_same(&named, &own)) {
            match open(&self.path) {
                Ok(file) => (self.file, self.is_torn) = (file, false),
                // Nobody could read the line in a deleted file.
                Err(error) if own.nlink() == 0 => return Err(error),
                Err(error) => report(&error),
            }
        }
        let start = if self.is_torn { "\n" } else { "" };
        let written = self.file.write_all(format!("{start}{line}").as_bytes());
        self.is_torn = written.is_err();
        written
    }
}

fn open(path: &PathBuf) -> io::Result<File> {
    // Opening a pipe without a reader would not return.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().append(true).create(true).mode(MODE).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

fn is_same(a: &Metadata, b: &Metadata) -> bool {
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn append(file: &mut LogFile, line: &str) {
        file.append(line, |error| panic!("{error}")).unwrap();
    }

    #[test]
    fn a_new_file_takes_the_place_of_a_renamed_or_deleted_one() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("audit.log"), folder.path().join("audit.log.1"));
        let mut file = LogFile::open(path.clone()).unwrap();
        append(&mut file, "1\n");

        fs::rename(&path, &old).unwrap();
        append(&mut file, "2\n");
        append(&mut file, "3\n");
        assert_eq!(
            (fs::read_to_string(&old).unwrap(), fs::read_to_string(&path).unwrap()),
            ("1\n".into(), "2\n3\n".into())
        );
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);

        fs::remove_file(&path).unwrap();
        append(&mut file, "4\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "4\n");

        // Another program has created the new file, or has emptied it.
        fs::rename(&path, &old).unwrap();
        fs::write(&path, "").unwrap();
        append(&mut file, "5\n");
        File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
        append(&mut file, "6\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "6\n");
    }

    #[test]
    fn without_a_new_file_lines_go_to_the_old_one_as_long_as_it_has_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("audit.log"), folder.path().join("audit.log.1"));
        let mut file = LogFile::open(path.clone()).unwrap();
        fs::rename(&path, &old).unwrap();
        fs::create_dir(&path).unwrap();

        let mut reported = false;
        file.append("1\n", |_| reported = true).unwrap();

        assert!(reported && fs::read_to_string(&old).unwrap() == "1\n");
        fs::remove_file(&old).unwrap();
        assert!(file.append("2\n", |_| ()).is_err());
    }

    #[test]
    fn only_a_regular_file_can_be_opened() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();

        assert!(LogFile::open(pipe).is_err());
        assert!(LogFile::open("/dev/null".into()).is_err());
        assert!(LogFile::open(folder.path().to_owned()).is_err());
    }
}
