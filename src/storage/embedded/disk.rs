//! What the engine keeps its pages on: a file, or memory, or what a test gives it.
//!
//! The engine takes no further work after a failure of its disk, not even reading. So a disk that is full is no failure
//! to it: what the file has no room for is kept in memory, and a transaction that needs it is not committed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};
use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use rustix::io::Errno;
use tracing::{error, info};

use super::inline;
use crate::storage::Error;

/// The engine's header is somewhere in here.
const HEADER_BYTES: u64 = 4_096;

const GROWTH_MIN: u64 = 64 << 20;
const GROWTH_MAX: u64 = 4 << 30;

/// The disk as the engine sees it.
#[derive(Debug)]
pub(super) struct Disk {
    below: Arc<dyn StorageBackend>,
    room: Room,
    excess: Mutex<Excess>,
}

/// How much longer a disk can become.
#[derive(Debug)]
pub(super) enum Room {
    /// As much as there is in this file's file system.
    Around(File),
    /// As much as is asked for.
    Endless,
    /// Nobody knows.
    Unknown,
}

/// What has no room on the disk below.
#[derive(Debug, Default)]
struct Excess {
    /// How long the disk is to the engine, and how long it is.
    claimed: u64,
    backed: u64,
    pages: BTreeMap<u64, Vec<u8>>,
    /// Whether the disk lacked room, until there was enough again.
    was_short: bool,
}

/// The engine's handle on a disk that others look at too.
#[derive(Debug)]
pub(super) struct DiskHandle(pub(super) Arc<Disk>);

impl Disk {
    pub(super) fn new(below: Box<dyn StorageBackend>, room: Room) -> io::Result<Self> {
        let length = below.len()?;
        Ok(Self {
            below: below.into(),
            room,
            excess: Mutex::new(Excess { claimed: length, backed: length, ..Excess::default() }),
        })
    }

    /// How long the disk is to the engine.
    pub(super) fn length(&self) -> u64 {
        self.excess().claimed
    }

    /// Whether the next time that the disk is made longer may fail.
    pub(super) fn may_be_short(&self) -> bool {
        match &self.room {
            Room::Endless => false,
            Room::Unknown => true,
            Room::Around(file) => {
                // The engine doubles its file, and later adds so much at a time.
                let next = self.excess().claimed.clamp(GROWTH_MIN, GROWTH_MAX);
                fstatvfs(file).map_or(true, |space| space.f_bavail.saturating_mul(space.f_frsize) < 2 * next)
            }
        }
    }

    /// Succeeds if the disk has room for all that it seems to have.
    pub(super) fn settle(&self) -> Result<(), Error> {
        let mut excess = self.excess();
        self.catch_up(&mut excess).map_err(|reason| {
            if !excess.was_short {
                error!(%reason, "the disk of the store is full");
            }
            excess.was_short = true;
            Error::DiskFull(reason.to_string())
        })
    }

    /// Whether the disk lacked room, and [`Self::has_room`] was not called since.
    pub(super) fn was_short(&self) -> bool {
        self.excess().was_short
    }

    /// Notes that the disk has room for the largest of usual posts.
    pub(super) fn has_room(&self) {
        if std::mem::take(&mut self.excess().was_short) {
            info!("the disk of the store has room again");
        }
    }

    /// Forgets what the disk had no room for: nobody needs it any more.
    pub(super) fn forget(&self) {
        self.excess().pages.clear();
    }

    fn catch_up(&self, excess: &mut Excess) -> io::Result<()> {
        if excess.claimed > excess.backed {
            self.below.set_len(excess.claimed)?;
            excess.backed = excess.claimed;
        }
        while let Some((offset, page)) = excess.pages.pop_first() {
            self.below.write(offset, &page)?;
        }
        Ok(())
    }

    fn excess(&self) -> MutexGuard<'_, Excess> {
        self.excess.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The engine's locks are those of the backend below.
macro_rules! locks_below {
    (@ $below:tt: $($name:ident -> $answer:ty),+) => {
        $(locks_below! { @@ $below $name $answer })+
    };
    (@@ ($($below:tt)+) $name:ident $answer:ty) => {
        fn $name(&self, start: Bound<u64>, end: Bound<u64>) -> Result<$answer, BackendError> {
            self.$($below)+.$name(start, end)
        }
    };
    ($($below:tt)+) => {
        locks_below! { @ ($($below)+):
            try_lock_range -> bool, try_lock_shared_range -> bool, lock_range -> (), lock_shared_range -> (),
            unlock_range -> (), query_lock_range -> bool
        }
    };
}

impl StorageBackend for DiskHandle {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.excess().claimed)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let excess = self.0.excess();
        if offset + out.len() as u64 <= excess.backed {
            drop(excess);
            return self.0.below.read(offset, out);
        }
        out.fill(0);
        if let Some(page) = excess.pages.get(&offset) {
            let length = page.len().min(out.len());
            out[..length].copy_from_slice(&page[..length]);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut excess = self.0.excess();
        match self.0.below.set_len(len) {
            Ok(()) => excess.backed = len,
            Err(error) if is_full(&error) && len > excess.claimed => {}
            Err(error) => return Err(error),
        }
        excess.claimed = len;
        excess.pages.retain(|offset, _| *offset < len);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut excess = self.0.excess();
        if !excess.pages.is_empty() {
            self.0.catch_up(&mut excess)?;
        }
        drop(excess);
        self.0.below.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut excess = self.0.excess();
        if offset < HEADER_BYTES && excess.claimed > excess.backed {
            // It may say how long the disk is, and a disk that is shorter cannot be opened.
            self.0.catch_up(&mut excess)?;
        }
        if offset + data.len() as u64 <= excess.backed {
            drop(excess);
            return self.0.below.write(offset, data);
        }
        excess.pages.insert(offset, data.to_vec());
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.0.below.close()
    }

    locks_below!(0.below);
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

/// A file whose length is room that it has.
#[derive(Debug)]
pub(super) struct RoomyFile {
    file: File,
    pages: FileBackend,
}

impl RoomyFile {
    pub(super) fn new(file: File) -> Result<Self, redb::DatabaseError> {
        Ok(Self { pages: FileBackend::new(file.try_clone()?)?, file })
    }
}

impl StorageBackend for RoomyFile {
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
                // Some file systems cannot, and then find out later.
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
                Err(error) => {
                    // What was allocated of it is given back.
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

    locks_below!(pages);
}
