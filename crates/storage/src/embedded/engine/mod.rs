//! The database engine, open on one file that belongs to this process. The engine is opened again
//! after a failure of its disk.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use redb::backends::InMemoryBackend;
use redb::{DatabaseError, ReadTransaction, ReadableDatabase, StorageBackend, WriteTransaction};
use tracing::{info, warn};

use crate::embedded::engine::disk::FreeSpace;
use crate::embedded::engine::error::OpenError;
use crate::embedded::engine::file::{
    BackendSource, FILE, Opened, Verification, make_folder, open, open_file, upgrading,
};
use crate::embedded::engine::records::{Records, SharedRecords};
use crate::{DiskUsage, Error};

mod allocated_file;
pub(super) mod clock;
mod compact;
pub(super) mod disk;
pub(super) mod error;
pub(super) mod file;
pub(super) mod inline;
mod locks;
pub(super) mod records;
pub(super) mod tables;

/// Maximum time for which readers can delay the reopening of the engine.
const READERS_TIMEOUT: Duration = Duration::from_secs(5);

/// Minimum time between two attempts to reopen the engine.
const REOPEN_INTERVAL: Duration = Duration::from_secs(1);

/// The engine on one disk.
pub(super) struct Engine {
    /// The path of the file, or the name of the disk.
    pub(super) place: String,
    source: Box<BackendSource>,
    current: RwLock<Current>,
    /// The records that are being read, if any.
    records: Mutex<Weak<Mutex<Option<Records>>>>,
}

/// The current state of the engine.
struct Current {
    opened: Option<Arc<Opened>>,
    last_attempt: Instant,
}

impl Engine {
    /// Opens the file in that folder. Creates both if necessary, for their owner only.
    pub(super) fn in_folder(folder: &Path) -> Result<Self, OpenError> {
        let file = folder.join(FILE);
        make_folder(folder).map_err(|reason| OpenError::Io { place: folder.display().to_string(), reason })?;
        let place = file.display().to_string();
        upgrading(&file, || {
            let file = file.clone();
            Self::over(place.clone(), move || open_file(&file))
        })
    }

    /// Opens the file in that folder, which must exist, and verifies every page of it.
    pub(super) fn verified_in_folder(folder: &Path) -> Result<Self, OpenError> {
        let file = folder.join(FILE);
        let place = file.display().to_string();
        if let Err(reason) = file.metadata() {
            return Err(OpenError::Io { place, reason });
        }
        upgrading(&file, || {
            let file = file.clone();
            Self::new(place.clone(), move || open_file(&file), Verification::Always)
        })
    }

    /// Compacts the file in that folder, which must exist. Returns its length before and after, in
    /// bytes.
    pub(super) fn compact_in_folder(folder: &Path) -> Result<(u64, u64), OpenError> {
        let file = folder.join(FILE);
        let place = file.display().to_string();
        if let Err(reason) = file.metadata() {
            return Err(OpenError::Io { place, reason });
        }
        let mut opened = upgrading(&file, || {
            let file = file.clone();
            open(&place, &move || open_file(&file), Verification::UnlessClosedCleanly)
        })?;
        compact::compact(&mut opened, &place)
    }

    pub(super) fn in_memory() -> Result<Self, OpenError> {
        Self::over("memory".to_owned(), || Ok((Box::new(InMemoryBackend::new()), FreeSpace::Unlimited)))
    }

    /// Opens the engine on the disk that `source` returns. Each reopening calls `source` again.
    pub(super) fn over(
        place: String,
        source: impl Fn() -> Result<(Box<dyn StorageBackend>, FreeSpace), DatabaseError> + Send + Sync + 'static,
    ) -> Result<Self, OpenError> {
        Self::new(place, source, Verification::UnlessClosedCleanly)
    }

    fn new(
        place: String,
        source: impl Fn() -> Result<(Box<dyn StorageBackend>, FreeSpace), DatabaseError> + Send + Sync + 'static,
        verification: Verification,
    ) -> Result<Self, OpenError> {
        let mut opened = open(&place, &source, verification)?;
        if verification == Verification::UnlessClosedCleanly {
            compact::compact_if_nearly_empty(&mut opened, &place);
        }
        let current = Current { opened: Some(Arc::new(opened)), last_attempt: Instant::now() };
        Ok(Self { place, source: Box::new(source), current: RwLock::new(current), records: Mutex::default() })
    }

    /// Returns the open engine. Fails while it is being reopened.
    fn opened(&self) -> Result<Arc<Opened>, Error> {
        let opened = self.current.try_read().and_then(|current| current.opened.clone());
        opened.ok_or_else(|| Error::Unavailable("the disk has failed".to_owned()))
    }

    /// Returns whether the disk was full, and has not had enough space since.
    pub(super) fn has_full_disk(&self) -> bool {
        self.opened().is_ok_and(|opened| opened.disk.lacked_space())
    }

    /// Returns the size of the file and the free space of its disk, or `None` if there is no file
    /// or the disk has failed.
    pub(super) fn disk_usage(&self) -> Option<DiskUsage> {
        self.opened().ok()?.disk.usage()
    }

    /// Records that the disk has space again.
    pub(super) fn space_recovered(&self) {
        if let Ok(opened) = self.opened() {
            opened.disk.space_recovered();
        }
    }

    /// Runs `work` in a read transaction of its own.
    pub(super) fn read<T>(&self, work: impl Fn(&ReadTransaction) -> Result<T, Error>) -> Result<T, Error> {
        let reading = || work(&self.opened()?.database.begin_read()?);
        let broken = |_| Error::Corrupt("the database engine or a read operation panicked".to_owned());
        catch_unwind(AssertUnwindSafe(reading)).map_err(broken)?
    }

    /// Returns all records as they are now; `None` if others are being read.
    pub(super) fn records(&self) -> Result<Option<SharedRecords>, Error> {
        let mut current = self.records.lock();
        if current.strong_count() > 0 {
            return Ok(None);
        }
        let records = Arc::new(Mutex::new(Some(Records::new(self.opened()?)?)));
        *current = Arc::downgrade(&records);
        Ok(Some(records))
    }

    /// Begins a write transaction. Fails if the disk is full. If the engine has stopped after a
    /// failure of its disk, it is reopened first.
    pub(super) fn begin(&self) -> Result<(Arc<Opened>, WriteTransaction), Error> {
        if let Ok(opened) = self.opened()
            && let Ok(transaction) = opened.database.begin_write()
        {
            opened.disk.write_back()?;
            return Ok((opened, transaction));
        }
        self.reopen_if_due()?;
        let opened = self.opened()?;
        let transaction = opened.database.begin_write()?;
        Ok((opened, transaction))
    }

    fn reopen_if_due(&self) -> Result<(), Error> {
        let mut current = self.current.write();
        if current.last_attempt.elapsed() >= REOPEN_INTERVAL {
            current.last_attempt = Instant::now();
            self.reopen(&mut current)?;
        }
        Ok(())
    }

    fn reopen(&self, current: &mut Current) -> Result<(), Error> {
        warn!(store = %self.place, "the disk has failed; reopening the store");
        if let Some(records) = self.records.lock().upgrade() {
            records.lock().take();
        }
        if let Some(stopped) = current.opened.take() {
            let deadline = Instant::now() + READERS_TIMEOUT;
            while Arc::strong_count(&stopped) > 1 {
                if Instant::now() >= deadline {
                    current.opened = Some(stopped);
                    return Err(Error::Unavailable(
                        "the disk has failed, and the store cannot be reopened while reads are waiting for it"
                            .to_owned(),
                    ));
                }
                thread::sleep(Duration::from_millis(1));
            }
        }
        let opened = open(&self.place, &*self.source, Verification::UnlessClosedCleanly)
            .map_err(|error| Error::Unavailable(error.to_string()))?;
        info!(store = %self.place, "the store was reopened");
        current.opened = Some(Arc::new(opened));
        Ok(())
    }
}
