//! The engine, opened: one file that one process has, of a format that this version knows.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use redb::backends::InMemoryBackend;
use redb::{Database, DatabaseError, ReadableDatabase, StorageBackend, StorageError, TableError, WriteTransaction};
use thiserror::Error;
use tracing::{info, warn};

use super::Reading;
use super::compact;
use super::disk::{Disk, DiskHandle, Room, RoomyFile};
use super::failure::damaged;
use super::keys::{CONTENTS, FORMAT, REGISTRY};
use super::view::View;
use crate::storage::Error;

/// The file in a store's folder.
const FILE: &str = "sukkal.redb";
/// The format of what is in it. A later version of Sukkal may have another.
const FORMAT_VERSION: u32 = 3;
/// How much of the file is kept in memory.
const CACHE_BYTES: usize = 256 * 1024 * 1024;
/// How long a reader may keep the engine from being opened again.
const READERS_PATIENCE: Duration = Duration::from_secs(5);
/// How long passes between two attempts to open it again.
const PAUSE_BETWEEN_ATTEMPTS: Duration = Duration::from_secs(1);

/// Why a store does not open; one line each.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Another process has it.
    #[error("{0} is in use by another process; only one process can open an embedded store at a time")]
    Taken(String),
    /// It was written by another version.
    #[error("{place} has format {found}, this version of Sukkal reads {FORMAT_VERSION}: use the version that wrote it")]
    Format {
        /// The file.
        place: String,
        /// What it says.
        found: String,
    },
    /// It is damaged, or something else.
    #[error("{place} is damaged or not a store of Sukkal: {reason}")]
    Damaged {
        /// The file.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The operating system refused something.
    #[error("{place}: {reason}")]
    Io {
        /// The file or folder.
        place: String,
        /// Why.
        reason: io::Error,
    },
}

type Source = dyn Fn() -> Result<(Box<dyn StorageBackend>, Room), DatabaseError> + Send + Sync;

/// What makes the engine believe that a file is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    /// That it was closed in order. Otherwise all of it is verified.
    CleanShutdown,
    /// Nothing: all of it is verified.
    Nothing,
}

/// The engine over one disk.
pub(super) struct Engine {
    place: String,
    source: Box<Source>,
    current: RwLock<Current>,
}

/// The engine as it is now.
struct Current {
    opened: Option<Arc<Opened>>,
    last_attempt: Instant,
}

/// The engine, and the disk that it is on.
pub(super) struct Opened {
    pub(super) database: Database,
    pub(super) disk: Arc<Disk>,
}

impl Engine {
    /// The file in that folder, which is made if need be, for its owner only.
    pub(super) fn in_folder(folder: &Path) -> Result<Self, OpenError> {
        let file = folder.join(FILE);
        make_folder(folder).map_err(|reason| OpenError::Io { place: folder.display().to_string(), reason })?;
        Self::over(file.display().to_string(), move || open_file(&file))
    }

    /// The file in that folder, which must be there, with every page of it verified.
    pub(super) fn verified_in_folder(folder: &Path) -> Result<Self, OpenError> {
        let file = folder.join(FILE);
        let place = file.display().to_string();
        if let Err(reason) = file.metadata() {
            return Err(OpenError::Io { place, reason });
        }
        Self::new(place, move || open_file(&file), Trust::Nothing)
    }

    /// Compacts the file in that folder, which must be there; how long it was and is, in bytes.
    pub(super) fn compact_in_folder(folder: &Path) -> Result<(u64, u64), OpenError> {
        let file = folder.join(FILE);
        let place = file.display().to_string();
        if let Err(reason) = file.metadata() {
            return Err(OpenError::Io { place, reason });
        }
        let mut opened = open(&place, &move || open_file(&file), Trust::CleanShutdown)?;
        compact::compact(&mut opened, &place)
    }

    pub(super) fn in_memory() -> Result<Self, OpenError> {
        Self::over("memory".to_owned(), || Ok((Box::new(InMemoryBackend::new()), Room::Endless)))
    }

    /// Over what this gives, each time the engine is opened.
    pub(super) fn over(
        place: String,
        source: impl Fn() -> Result<(Box<dyn StorageBackend>, Room), DatabaseError> + Send + Sync + 'static,
    ) -> Result<Self, OpenError> {
        Self::new(place, source, Trust::CleanShutdown)
    }

    fn new(
        place: String,
        source: impl Fn() -> Result<(Box<dyn StorageBackend>, Room), DatabaseError> + Send + Sync + 'static,
        trust: Trust,
    ) -> Result<Self, OpenError> {
        let mut opened = open(&place, &source, trust)?;
        if trust == Trust::CleanShutdown {
            compact::at_start(&mut opened, &place);
        }
        let current = Current { opened: Some(Arc::new(opened)), last_attempt: Instant::now() };
        Ok(Self { place, source: Box::new(source), current: RwLock::new(current) })
    }

    /// The engine, unless it is just being opened again.
    fn opened(&self) -> Result<Arc<Opened>, Error> {
        let current = match self.current.try_read() {
            Ok(current) => Some(current),
            Err(TryLockError::Poisoned(current)) => Some(current.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        let opened = current.and_then(|current| current.opened.clone());
        opened.ok_or_else(|| Error::Unavailable("the disk has failed".to_owned()))
    }

    /// Whether the disk lacked room, and nothing has shown since that there is room again.
    pub(super) fn has_full_disk(&self) -> bool {
        self.opened().is_ok_and(|opened| opened.disk.was_short())
    }

    /// Notes that there is room again.
    pub(super) fn has_room(&self) {
        if let Ok(opened) = self.opened() {
            opened.disk.has_room();
        }
    }

    /// Looks at the store as it is at one moment.
    pub(super) fn look<T>(&self, look: impl Fn(&Reading) -> Result<T, Error>) -> Result<T, Error> {
        let reading = || {
            let opened = self.opened()?;
            let transaction = opened.database.begin_read()?;
            look(&View { registry: transaction.open_table(REGISTRY)?, contents: transaction.open_table(CONTENTS)? })
        };
        let broken = |_| Error::Corrupt("the engine or a reader broke down".to_owned());
        catch_unwind(AssertUnwindSafe(reading)).map_err(broken)?
    }

    /// Begins to write, if the disk has room for all that it seems to have. The engine is opened again if it has
    /// stopped after a failure of its disk.
    pub(super) fn begin(&self) -> Result<(Arc<Opened>, WriteTransaction), Error> {
        if let Ok(opened) = self.opened()
            && let Ok(transaction) = opened.database.begin_write()
        {
            opened.disk.settle()?;
            return Ok((opened, transaction));
        }
        self.reopen_now_and_then()?;
        let opened = self.opened()?;
        let transaction = opened.database.begin_write()?;
        Ok((opened, transaction))
    }

    fn reopen_now_and_then(&self) -> Result<(), Error> {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if current.last_attempt.elapsed() >= PAUSE_BETWEEN_ATTEMPTS {
            current.last_attempt = Instant::now();
            self.reopen(&mut current)?;
        }
        Ok(())
    }

    fn reopen(&self, current: &mut Current) -> Result<(), Error> {
        warn!(store = %self.place, "the disk has failed; the store is opened again");
        if let Some(stopped) = current.opened.take() {
            let give_up = Instant::now() + READERS_PATIENCE;
            while Arc::strong_count(&stopped) > 1 {
                if Instant::now() >= give_up {
                    current.opened = Some(stopped);
                    return Err(Error::Unavailable("the disk has failed, and readers still wait for it".to_owned()));
                }
                thread::sleep(Duration::from_millis(1));
            }
        }
        let opened = open(&self.place, &*self.source, Trust::CleanShutdown)
            .map_err(|error| Error::Unavailable(error.to_string()))?;
        info!(store = %self.place, "the store is open again");
        current.opened = Some(Arc::new(opened));
        Ok(())
    }
}

fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

fn open_file(path: &PathBuf) -> Result<(Box<dyn StorageBackend>, Room), DatabaseError> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.read(true).write(true).create(true).truncate(false).open(path)?;
    let room = Room::Around(file.try_clone()?);
    Ok((Box::new(RoomyFile::new(file)?), room))
}

fn open(place: &str, source: &Source, trust: Trust) -> Result<Opened, OpenError> {
    let damage = |reason: String| OpenError::Damaged { place: place.to_owned(), reason };
    let attempt = catch_unwind(AssertUnwindSafe(|| {
        let (backend, room) = source()?;
        let disk = Arc::new(Disk::new(backend, room)?);
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        builder.set_check_integrity_on_open(trust == Trust::Nothing);
        builder.set_repair_callback(|repair| {
            if repair.progress() == 0.0 {
                info!("the store was not closed in order; it is checked");
            }
        });
        let database = builder.create_with_backend(DiskHandle(disk.clone()))?;
        Ok(Opened { database, disk })
    }));
    let opened = attempt
        .map_err(|_| damage("the engine broke down".to_owned()))?
        .map_err(|error: DatabaseError| refusal(place, error))?;
    match check_format(&opened.database) {
        Ok(None) => Ok(opened),
        Ok(Some(found)) => Err(OpenError::Format { place: place.to_owned(), found }),
        Err(error) => Err(damage(error.to_string())),
    }
}

fn refusal(place: &str, error: DatabaseError) -> OpenError {
    let place = place.to_owned();
    match error {
        DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch => OpenError::Taken(place),
        DatabaseError::UpgradeRequired(version) => {
            OpenError::Format { place, found: format!("{version} of an older engine") }
        }
        DatabaseError::Storage(StorageError::Io(reason)) if reason.kind() != io::ErrorKind::InvalidData => {
            OpenError::Io { place, reason }
        }
        error => OpenError::Damaged { place, reason: error.to_string() },
    }
}

/// What the store says of its format, unless it is the one that this version knows. A new store gets that.
fn check_format(database: &Database) -> Result<Option<String>, Error> {
    let reading = database.begin_read()?;
    match reading.open_table(REGISTRY) {
        Ok(registry) => {
            let found = registry.get(FORMAT)?.ok_or_else(|| damaged("the format"))?;
            let found = found.value().try_into().map(u32::from_be_bytes).map_err(|_| damaged("the format"))?;
            return Ok((found != FORMAT_VERSION).then(|| found.to_string()));
        }
        Err(TableError::TableDoesNotExist(_)) if reading.list_tables()?.next().is_none() => {}
        Err(error) => return Err(error.into()),
    }
    drop(reading);
    let transaction = database.begin_write()?;
    transaction.open_table(REGISTRY)?.insert(FORMAT, &FORMAT_VERSION.to_be_bytes()[..])?;
    transaction.open_table(CONTENTS)?;
    transaction.commit()?;
    Ok(None)
}
