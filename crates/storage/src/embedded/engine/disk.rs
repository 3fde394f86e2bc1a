//! The disk that the engine keeps its pages on: a file, memory, or a backend from a test.
//!
//! After a failure of its disk, the engine refuses all further work, even reading. A full disk is
//! therefore not reported to it as a failure. Pages that do not fit into the file are kept in
//! memory, and a transaction that needs them is not committed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use redb::StorageBackend;
use rustix::fs::fstatvfs;
use tracing::{error, info};

use crate::embedded::engine::locks::forward_locks;
use crate::{DiskUsage, Error};

/// The engine's header lies within this many bytes at the start of the file.
const HEADER_BYTES: u64 = 4_096;

const GROWTH_MIN: u64 = 64 << 20;
const GROWTH_MAX: u64 = 4 << 30;

/// The disk as the engine sees it.
#[derive(Debug)]
pub(crate) struct Disk {
    backend: Arc<dyn StorageBackend>,
    free_space: FreeSpace,
    overflow: Mutex<Overflow>,
}

/// How much a disk can grow.
#[derive(Debug)]
pub(crate) enum FreeSpace {
    /// By the free space of the file system that holds this file.
    OfFileSystem(File),
    /// Without limit.
    Unlimited,
    /// By an unknown amount.
    Unknown,
}

/// The pages that do not fit on the backend.
#[derive(Debug, Default)]
struct Overflow {
    /// `length` is the length in bytes that the engine sees; `allocated` is that of the backend.
    length: u64,
    allocated: u64,
    pages: BTreeMap<u64, Vec<u8>>,
    /// Whether the disk was full, and has not had enough space since.
    lacked_space: bool,
}

/// The engine's handle on a disk that other parts use too.
#[derive(Debug)]
pub(crate) struct DiskHandle(pub(crate) Arc<Disk>);

impl Disk {
    pub(crate) fn new(backend: Box<dyn StorageBackend>, free_space: FreeSpace) -> io::Result<Self> {
        let length = backend.len()?;
        Ok(Self {
            backend: backend.into(),
            free_space,
            overflow: Mutex::new(Overflow { length, allocated: length, ..Overflow::default() }),
        })
    }

    /// Returns the length that the engine sees, in bytes.
    pub(crate) fn length(&self) -> u64 {
        self.overflow.lock().length
    }

    /// Returns the size of the file and the free space of its file system. Returns `None` if the
    /// disk is not a file, or cannot be asked.
    pub(crate) fn usage(&self) -> Option<DiskUsage> {
        let FreeSpace::OfFileSystem(file) = &self.free_space else {
            return None;
        };
        let free_bytes = free_bytes(file)?;
        Some(DiskUsage { file_bytes: self.overflow.lock().allocated, free_bytes })
    }

    /// Returns whether the next growth of the file may fail.
    pub(crate) fn may_run_out_of_space(&self) -> bool {
        match &self.free_space {
            FreeSpace::Unlimited => false,
            FreeSpace::Unknown => true,
            FreeSpace::OfFileSystem(file) => {
                // The engine doubles its file, and later adds this maximum each time.
                let next = self.overflow.lock().length.clamp(GROWTH_MIN, GROWTH_MAX);
                free_bytes(file).is_none_or(|free| free < 2 * next)
            }
        }
    }

    /// Writes the overflow to the backend. Fails with [`Error::DiskFull`] if it still does not fit.
    pub(crate) fn write_back(&self) -> Result<(), Error> {
        let mut overflow = self.overflow.lock();
        self.try_write_back(&mut overflow).map_err(|reason| {
            if !overflow.lacked_space {
                error!(%reason, "the disk of the store is full");
            }
            overflow.lacked_space = true;
            Error::DiskFull(reason.to_string())
        })
    }

    /// Returns whether the disk was full, and [`Self::space_recovered`] was not called since.
    pub(crate) fn lacked_space(&self) -> bool {
        self.overflow.lock().lacked_space
    }

    /// Records that the disk has space for the largest post that is allowed by default.
    pub(crate) fn space_recovered(&self) {
        if std::mem::take(&mut self.overflow.lock().lacked_space) {
            info!("the disk of the store has room again");
        }
    }

    /// Discards the overflow, which an aborted transaction no longer needs.
    pub(crate) fn discard_overflow(&self) {
        self.overflow.lock().pages.clear();
    }

    fn try_write_back(&self, overflow: &mut Overflow) -> io::Result<()> {
        if overflow.length > overflow.allocated {
            self.backend.set_len(overflow.length)?;
            overflow.allocated = overflow.length;
        }
        while let Some((offset, page)) = overflow.pages.pop_first() {
            self.backend.write(offset, &page)?;
        }
        Ok(())
    }
}

impl StorageBackend for DiskHandle {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.overflow.lock().length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let overflow = self.0.overflow.lock();
        if offset + out.len() as u64 <= overflow.allocated {
            drop(overflow);
            return self.0.backend.read(offset, out);
        }
        out.fill(0);
        if let Some(page) = overflow.pages.get(&offset) {
            let length = page.len().min(out.len());
            out[..length].copy_from_slice(&page[..length]);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut overflow = self.0.overflow.lock();
        match self.0.backend.set_len(len) {
            Ok(()) => overflow.allocated = len,
            Err(error) if is_full(&error) && len > overflow.length => {}
            Err(error) => return Err(error),
        }
        overflow.length = len;
        overflow.pages.retain(|offset, _| *offset < len);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut overflow = self.0.overflow.lock();
        if !overflow.pages.is_empty() {
            self.0.try_write_back(&mut overflow)?;
        }
        drop(overflow);
        self.0.backend.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut overflow = self.0.overflow.lock();
        if offset < HEADER_BYTES && overflow.length > overflow.allocated {
            // The header may contain the new length, and a file that is shorter than that cannot be
            // opened.
            self.0.try_write_back(&mut overflow)?;
        }
        if offset + data.len() as u64 <= overflow.allocated {
            drop(overflow);
            return self.0.backend.write(offset, data);
        }
        overflow.pages.insert(offset, data.to_vec());
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.0.backend.close()
    }

    forward_locks!(0.backend);
}

/// Returns the free space of the file system that contains a file, in bytes.
fn free_bytes(file: &File) -> Option<u64> {
    fstatvfs(file).ok().map(|space| space.f_bavail.saturating_mul(space.f_frsize))
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}
