//! A file that allocates disk space when it grows, so that later writes do not fail for lack of
//! space.

use std::fs::File;
use std::io;

use redb::StorageBackend;
use redb::backends::FileBackend;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::embedded::engine::inline;
use crate::embedded::engine::locks::forward_locks;

/// A file whose whole length is allocated on disk.
#[derive(Debug)]
pub(crate) struct AllocatedFile {
    file: File,
    pages: FileBackend,
}

impl AllocatedFile {
    pub(crate) fn new(file: File) -> Result<Self, redb::DatabaseError> {
        Ok(Self { pages: FileBackend::new(file.try_clone()?)?, file })
    }
}

impl StorageBackend for AllocatedFile {
    fn len(&self) -> io::Result<u64> {
        self.pages.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        inline::read_file(&self.file, offset, out, |out| self.pages.read(offset, out))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let before = self.pages.len()?;
        if len > before {
            match fallocate(&self.file, FallocateFlags::empty(), before, len - before) {
                // Some file systems do not support allocation. There, a lack of space shows only on
                // writing.
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
                Err(error) => {
                    // Returns the part that was allocated.
                    self.pages.set_len(before)?;
                    return Err(error.into());
                }
            }
        }
        self.pages.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.pages.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.pages.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.pages.close()
    }

    forward_locks!(pages);
}
