//! Opens the file of a store, or another disk, and checks its format.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::{Database, DatabaseError, ReadableDatabase, StorageBackend, StorageError, TableError};
use tracing::info;

use crate::Error;
use crate::embedded::engine::allocated_file::AllocatedFile;
use crate::embedded::engine::disk::{Disk, DiskHandle, FreeSpace};
use crate::embedded::engine::error::{OpenError, damaged};
use crate::embedded::engine::tables::{CONTENTS, FORMAT, FORMAT_BEFORE, FORMAT_VERSION, REGISTRY};

/// Name of the file in a store's folder.
pub(crate) const FILE: &str = "sukkal.redb";

/// Maximum number of bytes of the file that the engine caches in memory.
const CACHE_BYTES: usize = 32 * 1024 * 1024;

pub(crate) type BackendSource = dyn Fn() -> Result<(Box<dyn StorageBackend>, FreeSpace), DatabaseError> + Send + Sync;

/// When all pages of a file are verified as it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verification {
    /// If the file was not closed cleanly.
    UnlessClosedCleanly,
    /// Always.
    Always,
}

/// The open engine with its disk.
pub(crate) struct Opened {
    pub(crate) database: Database,
    pub(crate) disk: Arc<Disk>,
}

pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

/// Returns options that create a file for its owner only.
fn owner_only() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

pub(crate) fn open_file(path: &PathBuf) -> Result<(Box<dyn StorageBackend>, FreeSpace), DatabaseError> {
    let file = owner_only().read(true).write(true).create(true).truncate(false).open(path)?;
    let free_space = FreeSpace::OfFileSystem(file.try_clone()?);
    Ok((Box::new(AllocatedFile::new(file)?), free_space))
}

/// Creates a file, which must not exist, for its owner only.
pub(crate) fn create_new(path: &Path) -> io::Result<()> {
    owner_only().write(true).create_new(true).open(path).map(drop)
}

/// Adds a line to a file, which is created if necessary, and writes it to disk.
pub(crate) fn add_line(path: &Path, line: &str) -> io::Result<()> {
    let mut file = owner_only().append(true).create(true).open(path)?;
    writeln!(file, "{line}")?;
    file.sync_all()
}

/// Opens a file with `open`. If it has the format of the release before, copies it and gives it
/// the current format first. With the copy, that release can go on where it was.
pub(crate) fn upgrading<T>(path: &Path, open: impl Fn() -> Result<T, OpenError>) -> Result<T, OpenError> {
    match open() {
        Err(OpenError::Format { found, .. }) if found == FORMAT_BEFORE.to_string() => {
            let place = path.display().to_string();
            let copy = path.with_file_name(format!("{FILE}.format-{FORMAT_BEFORE}"));
            copy_durably(path, &copy).map_err(|reason| OpenError::Io { place: copy.display().to_string(), reason })?;
            let path = path.to_owned();
            let opened = open_unchecked(&place, &move || open_file(&path), Verification::UnlessClosedCleanly)?;
            write_format(&opened.database).map_err(|error| OpenError::Damaged { place, reason: error.to_string() })?;
            info!(copy = %copy.display(), "the store has a new format; a copy with the format before was kept");
            drop(opened);
            open()
        }
        opened => opened,
    }
}

/// Copies a file, which is complete if it exists.
fn copy_durably(from: &Path, to: &Path) -> io::Result<()> {
    let part = to.with_extension("part");
    let mut target = owner_only().write(true).create(true).truncate(true).open(&part)?;
    let copied = File::open(from).and_then(|mut from| io::copy(&mut from, &mut target));
    if let Err(error) = copied.and_then(|_| target.sync_all()) {
        fs::remove_file(&part)?;
        return Err(error);
    }
    fs::rename(&part, to)?;
    File::open(to.parent().unwrap_or(Path::new(".")))?.sync_all()
}

pub(crate) fn open(place: &str, source: &BackendSource, verification: Verification) -> Result<Opened, OpenError> {
    let opened = open_unchecked(place, source, verification)?;
    match check_format(&opened.database) {
        Ok(None) => Ok(opened),
        Ok(Some(found)) => Err(OpenError::Format { place: place.to_owned(), found }),
        Err(error) => Err(OpenError::Damaged { place: place.to_owned(), reason: error.to_string() }),
    }
}

/// Opens a file of any format.
fn open_unchecked(place: &str, source: &BackendSource, verification: Verification) -> Result<Opened, OpenError> {
    let damage = |reason: String| OpenError::Damaged { place: place.to_owned(), reason };
    let attempt = catch_unwind(AssertUnwindSafe(|| {
        let (backend, free_space) = source()?;
        let disk = Arc::new(Disk::new(backend, free_space)?);
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        builder.set_check_integrity_on_open(verification == Verification::Always);
        builder.set_repair_callback(|repair| {
            if repair.progress() == 0.0 {
                info!("the store was not closed cleanly; its file is verified");
            }
        });
        let database = builder.create_with_backend(DiskHandle(disk.clone()))?;
        Ok(Opened { database, disk })
    }));
    attempt
        .map_err(|_| damage("the database engine panicked".to_owned()))?
        .map_err(|error: DatabaseError| refusal(place, error))
}

fn refusal(place: &str, error: DatabaseError) -> OpenError {
    let place = place.to_owned();
    match error {
        DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch => OpenError::InUse(place),
        DatabaseError::UpgradeRequired(version) => {
            OpenError::Format { place, found: format!("{version} of an older database engine") }
        }
        DatabaseError::Storage(StorageError::Io(reason)) if reason.kind() != io::ErrorKind::InvalidData => {
            OpenError::Io { place, reason }
        }
        error => OpenError::Damaged { place, reason: error.to_string() },
    }
}

/// Returns the format of the store if this version cannot read it. A new store gets the current
/// format.
fn check_format(database: &Database) -> Result<Option<String>, Error> {
    let reading = database.begin_read()?;
    match reading.open_table(REGISTRY) {
        Ok(registry) => {
            let found = registry.get(FORMAT)?.ok_or_else(|| damaged("the version of the format"))?;
            let found =
                found.value().try_into().map(u32::from_be_bytes).map_err(|_| damaged("the version of the format"))?;
            return Ok((found != FORMAT_VERSION).then(|| found.to_string()));
        }
        Err(TableError::TableDoesNotExist(_)) if reading.list_tables()?.next().is_none() => {}
        Err(error) => return Err(error.into()),
    }
    drop(reading);
    write_format(database)?;
    Ok(None)
}

fn write_format(database: &Database) -> Result<(), Error> {
    let transaction = database.begin_write()?;
    transaction.open_table(REGISTRY)?.insert(FORMAT, &FORMAT_VERSION.to_be_bytes()[..])?;
    transaction.open_table(CONTENTS)?;
    Ok(transaction.commit()?)
}
